//! Members that differ from model to model.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{sent, target};
use crate::adapter::ChoiceRange;

#[test]
fn members_of_other_apis_are_not_sent() {
    let (body, _) = sent(
        "claude-haiku-4-5",
        json!({
            "stream": true, "stream_options": {"include_usage": true}, "store": true, "metadata": {"a": "b"},
            "service_tier": "auto", "routing": {}, "cache": {"enabled": true}, "min_p": 0.1, "n": 1,
            "modalities": ["text"], "safety_identifier": "s", "prompt_cache_key": "k",
        }),
    );
    let mut members: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(members, ["max_tokens", "messages", "model", "stream"]);
}

#[test]
fn top_k_is_sent_where_sampling_is_taken_and_is_otherwise_dropped_with_a_warning() {
    let dropped = vec!["parameter_dropped:top_k".to_owned()];
    for (model, members, kept, warnings) in [
        ("claude-haiku-4-5", json!({"top_k": 5}), json!(5), vec![]),
        ("claude-3-5-haiku-latest", json!({"top_k": 5, "temperature": 0.5}), json!(5), vec![]),
        ("claude-haiku-4-5", json!({"top_k": 0}), Value::Null, vec![]),
        ("claude-haiku-4-5", json!({"top_k": null}), Value::Null, vec![]),
        ("claude-haiku-4-5", json!({"top_k": "five"}), Value::Null, dropped.clone()),
        ("claude-haiku-4-5", json!({"top_k": 5, "reasoning_effort": "low"}), Value::Null, dropped.clone()),
        ("claude-opus-4-8", json!({"top_k": 5}), Value::Null, dropped.clone()),
        ("claude-opus-5-5", json!({"top_k": 5}), Value::Null, dropped),
    ] {
        let (body, warned) = sent(model, members.clone());
        assert_eq!((&body["top_k"], warned), (&kept, warnings), "{model} {members}");
    }
}

#[test]
fn schemas_keep_every_key_in_order() {
    let schema = r##"{"type":"object","$defs":{"a":{"const":1}},"properties":{"z":{"$ref":"#/$defs/a"},"b":{"oneOf":[{"pattern":"^(?=x)"}]}},"additionalProperties":{"type":"string"},"propertyNames":{"minLength":1},"x-y":[1.0]}"##;
    let request = format!(
        r#"{{"model":"a/b","messages":[{{"role":"user","content":"x"}}],"tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]}}"#
    );
    let request =
        gw_wire::request::chat::parse_chat(Bytes::from(request), &gw_wire::request::RequestLimits::default())
            .unwrap();
    let adapter = crate::adapters::anthropic::adapter();
    let encoded = adapter
        .chat(&request, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &target("claude-opus-5"))
        .unwrap();
    assert!(std::str::from_utf8(&encoded.call.body).unwrap().contains(&format!("\"input_schema\":{schema}")));
}

#[test]
fn strict_is_sent_only_for_enforceable_schemas() {
    let tool = |schema: Value| json!({"tools": [{"type": "function", "function": {"name": "f", "strict": true, "parameters": schema}}]});
    let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let limited = json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}, "additionalProperties": false});
    let (body, warned) = sent("claude-haiku-4-5", tool(closed.clone()));
    assert_eq!((&body["tools"][0]["strict"], warned.len()), (&json!(true), 0));
    for (model, schema) in [("claude-3-5-haiku-latest", closed), ("claude-haiku-4-5", limited.clone())] {
        let (body, warned) = sent(model, tool(schema));
        assert_eq!(
            (&body["tools"][0]["strict"], warned),
            (&Value::Null, vec!["parameter_dropped:strict".into()])
        );
    }
    let (body, _) = sent("claude-haiku-4-5", tool(limited.clone()));
    assert_eq!(body["tools"][0]["input_schema"], limited);
}

#[test]
fn unenforceable_formats_use_a_tool_or_an_instruction() {
    let form = |schema: Value| json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}});
    let map = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let (body, warned) = sent("claude-haiku-4-5", form(map.clone()));
    assert_eq!((&body["tools"][0]["input_schema"], &body["tool_choice"]["type"]), (&map, &json!("tool")));
    assert!(warned.is_empty());
    let (body, warned) = sent("claude-opus-5-5", form(map));
    assert!(body["tools"].is_null() && body["system"][0]["text"].as_str().unwrap().contains("JSON Schema"));
    assert_eq!(warned, ["parameter_clamped:response_format"]);
    // Beside a client's own tools the model chooses between a call and the answer.
    let mut both = form(json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    both["tools"] = json!([{"type": "function", "function": {"name": "structured_answer"}}]);
    let (body, _) = sent("claude-3-7-sonnet-latest", both.clone());
    assert_eq!(
        (&body["tools"][1]["name"], &body["tool_choice"]),
        (&json!("structured_answer_"), &json!({"type": "any"}))
    );
    both["tool_choice"] = json!("required");
    let (body, _) = sent("claude-3-7-sonnet-latest", both);
    assert_eq!((body["tools"].as_array().unwrap().len(), &body["tool_choice"]), (1, &json!({"type": "any"})));
}

#[test]
fn no_budget_is_sent_after_calls_without_thoughts() {
    let call = json!({"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let signed = json!([{"type": "reasoning.text", "text": "t", "signature": "s", "format": "anthropic-claude-v1", "index": 0}]);
    let request = |details: &Value| {
        json!({"reasoning_effort": "high", "max_tokens": 9000, "tools": [{"type": "function", "function": {"name": "f"}}], "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [call], "reasoning_details": details},
            {"role": "tool", "tool_call_id": "t", "content": "r"},
        ]})
    };
    let (body, warned) = sent("claude-haiku-4-5", request(&json!([])));
    assert!(body["thinking"].is_null());
    assert_eq!(warned, ["parameter_dropped:reasoning_effort"]);
    let (body, warned) = sent("claude-haiku-4-5", request(&signed));
    assert_eq!((&body["thinking"]["type"], warned.len()), (&json!("enabled"), 0));
    assert_eq!(
        body["messages"][1]["content"][0],
        json!({"type": "thinking", "thinking": "t", "signature": "s"})
    );
    // Adaptive thinking does not need them, and without thinking they are not sent.
    assert_eq!(sent("claude-opus-4-6", request(&json!([]))).0["thinking"]["type"], json!("adaptive"));
    let mut plain = request(&signed);
    plain["reasoning_effort"] = Value::Null;
    assert_eq!(sent("claude-haiku-4-5", plain).0["messages"][1]["content"][0]["type"], json!("tool_use"));
    // A finished turn before the last question needs none.
    let mut later = request(&json!([]));
    let more = [json!({"role": "assistant", "content": "done"}), json!({"role": "user", "content": "y"})];
    later["messages"].as_array_mut().unwrap().extend(more);
    assert_eq!(sent("claude-haiku-4-5", later).0["thinking"]["type"], json!("enabled"));
}

#[test]
fn an_empty_user_message_is_accepted() {
    for messages in [
        json!([{"role": "user", "content": ""}]),
        json!([{"role": "user", "content": [{"type": "text", "text": " "}]}]),
        json!([{"role": "system", "content": "s"}]),
        json!([{"role": "user", "content": ""}, {"role": "assistant"}]),
    ] {
        let (body, _) = sent("claude-haiku-4-5", json!({"messages": messages}));
        let nothing = json!([{"role": "user", "content": [{"type": "text", "text": "."}]}]);
        assert_eq!(body["messages"], nothing, "{messages}");
    }
}

#[test]
fn unknown_model_names_may_use_all_of_the_api() {
    let members = json!({"temperature": 1.7, "tool_choice": "required", "tools": [{"type": "function", "function": {"name": "f"}}]});
    let (body, warned) = sent("glm-4.6", members);
    assert_eq!((&body["temperature"], &body["tool_choice"]["type"]), (&json!(1), &json!("any")));
    assert_eq!(warned, ["parameter_clamped:temperature"]);
}

#[test]
fn a_conversation_that_ends_with_the_assistant_gets_a_closing_user_turn_where_it_must() {
    let last = |model: &str, effort: Value| {
        let messages =
            json!([{"role": "user", "content": "Count."}, {"role": "assistant", "content": "1, 2, "}]);
        let (body, warned) =
            sent(model, json!({"messages": messages, "max_tokens": 4000, "reasoning_effort": effort}));
        let messages = body["messages"].as_array().unwrap();
        assert_eq!(messages[1]["content"][0]["text"], "1, 2,");
        (
            messages.last().unwrap()["role"].clone(),
            warned.iter().any(|warning| warning == "message_added:user"),
        )
    };
    for model in
        ["claude-opus-4-6", "claude-sonnet-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-opus-7"]
    {
        assert_eq!(last(model, Value::Null), (json!("user"), true), "{model}");
    }
    // Older models continue the assistant's text, unless they think.
    for model in ["claude-haiku-4-5", "claude-opus-4-1", "claude-3-5-haiku-latest"] {
        assert_eq!(last(model, Value::Null), (json!("assistant"), false), "{model}");
    }
    assert_eq!(last("claude-haiku-4-5", json!("low")), (json!("user"), true));
}

#[test]
fn an_unknown_model_is_served_with_a_warning() {
    let (body, warned) = sent("claude-opus-6", json!({"temperature": 0.5}));
    assert_eq!(body.get("temperature"), None);
    assert_eq!(warned, ["parameter_dropped:temperature", "model_rules_assumed:claude-opus-5-5"]);
    assert_eq!(sent("claude-opus-5-5", json!({})).1, Vec::<String>::new());
}
