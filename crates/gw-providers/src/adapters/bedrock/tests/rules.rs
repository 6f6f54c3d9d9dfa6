//! Members that the newest models refuse are not sent to them.

use serde_json::{Value, json};

use super::{body, encode, sent};

const OPUS: &str = "eu.anthropic.claude-opus-5-5-v1:0";
const SONNET: &str = "us.anthropic.claude-sonnet-5-5";

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])
}

#[test]
fn a_model_that_refuses_forced_tools_gets_an_instruction() {
    for model in [OPUS, SONNET, "anthropic.claude-fable-5-1", "anthropic.claude-opus-6"] {
        for (choice, words) in [
            (json!("required"), "Call at least one of the tools now."),
            (json!({"type": "function", "function": {"name": "f"}}), "Call the tool `f` now."),
        ] {
            let encoded = encode(json!({"model": model, "tools": tools(), "tool_choice": choice})).unwrap();
            let sent = body(&encoded);
            assert_eq!(sent["toolConfig"]["toolChoice"], json!({"auto": {}}), "{model}");
            assert_eq!(sent["messages"][0]["content"][1]["text"], words, "{model}");
            assert!(encoded.warnings.iter().any(|warning| *warning == "parameter_dropped:tool_choice"));
        }
    }
    let taken =
        sent(json!({"model": "anthropic.claude-opus-5", "tools": tools(), "tool_choice": "required"}));
    assert_eq!(taken["toolConfig"]["toolChoice"], json!({"any": {}}));
}

#[test]
fn a_forced_tool_turns_thinking_off_and_keeps_it_off() {
    for (model, fields) in [
        ("anthropic.claude-opus-5", json!({"thinking": {"type": "disabled"}})),
        ("anthropic.claude-haiku-5-5", json!({"thinking": {"type": "disabled"}})),
        ("anthropic.claude-opus-4-8", Value::Null),
        (OPUS, Value::Null),
        (SONNET, Value::Null),
    ] {
        let sent = sent(json!({"model": model, "tools": tools(), "tool_choice": "required"}));
        assert_eq!(sent["additionalModelRequestFields"], fields, "{model}");
    }
}

#[test]
fn reasoning_is_switched_off_in_the_form_of_each_model() {
    let clamped = "parameter_clamped:reasoning_effort";
    for (model, fields, warnings) in [
        ("anthropic.claude-haiku-4-5", Value::Null, ""),
        ("anthropic.claude-opus-5", json!({"thinking": {"type": "disabled"}}), ""),
        (SONNET, json!({"thinking": {"type": "between_tools"}}), ""),
        (OPUS, json!({"output_config": {"effort": "low"}}), clamped),
        ("us.amazon.nova-2-lite-v1:0", Value::Null, ""),
        ("meta.llama3-3-70b-instruct-v1:0", Value::Null, ""),
        ("us.deepseek.r1-v1:0", Value::Null, "parameter_dropped:reasoning_effort"),
    ] {
        let encoded = encode(json!({"model": model, "reasoning_effort": "none"})).unwrap();
        let sent = body(&encoded);
        assert_eq!(
            (&sent["additionalModelRequestFields"], &*encoded.warnings.join(" ")),
            (&fields, warnings)
        );
    }
}

#[test]
fn a_schema_is_structured_output_where_the_model_has_it() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}});
    for model in [OPUS, SONNET, "anthropic.claude-sonnet-4-5-20250929-v1:0"] {
        let encoded = encode(json!({"model": model, "response_format": format})).unwrap();
        let sent = body(&encoded);
        let definition = &sent["outputConfig"]["textFormat"]["structure"]["jsonSchema"];
        let text: Value = serde_json::from_str(definition["schema"].as_str().unwrap()).unwrap();
        assert_eq!((&definition["name"], &text["additionalProperties"]), (&json!("n"), &json!(false)));
        assert!(sent.get("toolConfig").is_none() && encoded.reading.json_tool.is_none(), "{model}");
    }
    // The prompt describes a schema that structured output cannot hold, for models that cannot be forced to call a
    // tool.
    let open = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": open}});
    let encoded = encode(json!({"model": OPUS, "response_format": format})).unwrap();
    assert_eq!(encoded.warnings, ["parameter_weakened:response_format"]);
    assert!(encoded.reading.fenced && body(&encoded).get("outputConfig").is_none());
}

#[test]
fn a_conversation_that_ends_with_the_assistant_gets_a_closing_user_turn_where_it_must() {
    let messages = json!([{"role": "user", "content": "Count."}, {"role": "assistant", "content": "1, 2, "}]);
    let last = |model: &str, more: Value| {
        let mut request = json!({"model": model, "messages": messages, "max_tokens": 4000});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let encoded = encode(request).unwrap();
        let sent = body(&encoded);
        let last = sent["messages"].as_array().unwrap().last().unwrap()["role"].clone();
        (last, encoded.warnings.iter().any(|warning| *warning == "message_added:user"))
    };
    for model in [OPUS, SONNET, "us.anthropic.claude-sonnet-4-6", "meta.llama3-3-70b-instruct-v1:0"] {
        assert_eq!(last(model, json!({})), (json!("user"), true), "{model}");
    }
    let older = "anthropic.claude-sonnet-4-5-20250929-v1:0";
    assert_eq!(last(older, json!({})), (json!("assistant"), false));
    assert_eq!(last(older, json!({"reasoning_effort": "low"})), (json!("user"), true));
}

#[test]
fn cohere_keeps_top_p_between_its_bounds() {
    for (asked, sent_as, warned) in [
        (json!(0), json!(0.01), true),
        (json!(0.995), json!(0.99), true),
        (json!(0.5), json!(0.5), false),
        (json!(1), json!(0.99), true),
    ] {
        let encoded = encode(json!({"model": "cohere.command-r-plus-v1:0", "top_p": asked})).unwrap();
        assert_eq!(body(&encoded)["inferenceConfig"]["topP"], sent_as, "{asked}");
        assert_eq!(encoded.warnings.contains(&"parameter_clamped:top_p".into()), warned, "{asked}");
    }
}
