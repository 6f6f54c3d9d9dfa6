//! Encoded requests.

use gw_wire::failure::FailureKind;
use serde_json::{Value, json};

use super::{Bedrock, body, encode, fixture, json_of, request, sent, target};
use crate::adapter::{Adapter, ChoiceRange, Reading, Target};
use crate::adapters::native::Native;
use crate::model_rules::ModelRules;
use crate::settings::Api;

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
}

fn golden(case: &str) {
    let encoded = encode(json_of(&format!("{case}.request.json"))).unwrap();
    let actual = json!({"path": encoded.call.path, "warnings": encoded.warnings, "body": body(&encoded)});
    let file = format!("{case}.upstream.json");
    if std::env::var_os("WRITE_FIXTURES").is_some() {
        let text = serde_json::to_string_pretty(&actual).unwrap();
        std::fs::write(fixture(&file), format!("{text}\n")).unwrap();
    }
    assert_eq!(actual, json_of(&file), "{case}");
}

#[test]
fn golden_requests_are_sent_as_documented() {
    for case in [
        "conversation",
        "parameters",
        "media",
        "history_without_tools",
        "schema",
        "schema_native",
        "json_object",
        "reasoning",
    ] {
        golden(case);
    }
}

#[test]
fn schemas_and_arguments_are_kept_letter_for_letter() {
    let schema = r##"{"type": "object", "required": ["z"], "properties": {"z": {"const": 1.50}, "a": {"$ref": "#/$defs/a"}}}"##;
    let untyped = r#"{ "z": 1, "a": 2 }"#;
    let arguments = r#"{\"z\": 1.50, \"a\": \"東京\"}"#;
    let text = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"x"}},{{"role":"assistant","tool_calls":[
            {{"id":"a","type":"function","function":{{"name":"f","arguments":"{arguments}"}}}}]}}],
            "tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}},
            {{"type":"function","function":{{"name":"g","parameters":{untyped}}}}}]}}"#
    );
    let request =
        gw_wire::request::parse_chat(bytes::Bytes::from(text), &gw_wire::request::RequestLimits::default())
            .unwrap();
    let share = ChoiceRange { n: 1, prompts: 0..1, from: 0 };
    let encoded = Native(Bedrock).chat(&request, &share, &target("us.amazon.nova-2-lite-v1:0")).unwrap();
    let sent = std::str::from_utf8(&encoded.call.body).unwrap();
    assert!(sent.contains(&format!(r#""json":{schema}"#)), "{sent}");
    assert!(sent.contains(r#""json":{"type":"object","z":1,"a":2}"#), "{sent}");
    assert!(sent.contains(r#""input":{"z": 1.50, "a": "東京"}"#), "{sent}");
}

#[test]
fn the_first_nova_takes_three_members_at_the_top_of_a_schema() {
    let schema = json!({
        "$schema": "x", "title": "T", "description": "D", "additionalProperties": false, "type": "object",
        "properties": {"title": {"type": "object", "additionalProperties": false}}, "required": ["title"],
    });
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": schema}}]);
    let sent = sent(json!({"model": "us.amazon.nova-pro-v1:0", "tools": tools}));
    assert_eq!(
        sent["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"],
        json!({
            "type": "object", "required": ["title"],
            "properties": {"title": {"type": "object", "additionalProperties": false}},
        })
    );
}

#[test]
fn results_are_one_user_turn_and_turns_alternate() {
    for case in ["conversation", "history_without_tools", "reasoning"] {
        let sent = sent(json_of(&format!("{case}.request.json")));
        let roles: Vec<&str> =
            sent["messages"].as_array().unwrap().iter().map(|turn| turn["role"].as_str().unwrap()).collect();
        assert_eq!(roles.first(), Some(&"user"), "{case}");
        assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "{case}: {roles:?}");
    }
}

#[test]
fn tool_blocks_never_go_without_a_tool_config() {
    let history = json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
    ]);
    let declared = sent(json!({"messages": history}));
    let spec = json!({"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}});
    assert_eq!(declared["toolConfig"], json!({"tools": [spec]}));
    // Converse has no `none`: tools that the history calls stay, without a choice, and other tools are left out.
    let kept = sent(json!({"messages": history, "tools": [tool("g")], "tool_choice": "none"}));
    assert_eq!(kept["toolConfig"]["tools"][0]["toolSpec"]["name"], "g");
    assert!(kept["toolConfig"].get("toolChoice").is_none());
    let dropped = sent(json!({"tools": [tool("g")], "tool_choice": "none"}));
    assert!(dropped.get("toolConfig").is_none());
}

#[test]
fn tool_choices() {
    let choice = |model: &str, choice: Value, tools: &[Value]| {
        sent(json!({"model": model, "tools": tools, "tool_choice": choice}))["toolConfig"]["toolChoice"]
            .clone()
    };
    let named = json!({"type": "function", "function": {"name": "f"}});
    let (claude, mistral) = ("anthropic.claude-sonnet-4-20250514-v1:0", "mistral.mistral-large-2407-v1:0");
    assert_eq!(choice(claude, json!("auto"), &[tool("f")]), json!({"auto": {}}));
    assert_eq!(choice(claude, json!("required"), &[tool("f")]), json!({"any": {}}));
    assert_eq!(choice(claude, named.clone(), &[tool("f"), tool("g")]), json!({"tool": {"name": "f"}}));
    // Mistral's models cannot be forced to a named tool, so only that tool is offered.
    assert_eq!(choice(mistral, named.clone(), &[tool("g"), tool("f")]), json!({"any": {}}));
    let only = sent(json!({"model": mistral, "tools": [tool("g"), tool("f")], "tool_choice": named}));
    assert_eq!(only["toolConfig"]["tools"].as_array().unwrap().len(), 1);
    assert_eq!(only["toolConfig"]["tools"][0]["toolSpec"]["name"], "f");
    let functions = encode(json!({"functions": [{"name": "f"}], "function_call": {"name": "f"}})).unwrap();
    assert_eq!(body(&functions)["toolConfig"]["toolChoice"], json!({"tool": {"name": "f"}}));
    assert!(functions.reading.function_call && functions.warnings.is_empty());
}

#[test]
fn structured_output_is_a_forced_tool_where_tools_can_be_forced() {
    let schema =
        |schema: Value| json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}});
    let object = schema(json!({"properties": {"a": {}}}));
    let claude = encode(json!({"response_format": object})).unwrap();
    assert_eq!(
        Reading { replay: None, ..claude.reading.clone() },
        Reading { json_tool: Some("json_response".to_owned()), ..Reading::default() }
    );
    let config = &body(&claude)["toolConfig"];
    assert_eq!(config["toolChoice"], json!({"tool": {"name": "json_response"}}));
    assert_eq!(
        config["tools"][0]["toolSpec"]["inputSchema"]["json"],
        json!({"type": "object", "properties": {"a": {}}})
    );
    // A tool that may not be called is left out beside the answer's tool; a tool that must be called replaces the
    // answer's tool.
    let never = sent(json!({"response_format": object, "tools": [tool("f")], "tool_choice": "none"}));
    assert_eq!(never["toolConfig"]["tools"].as_array().unwrap().len(), 1);
    let must =
        encode(json!({"response_format": object, "tools": [tool("f")], "tool_choice": "required"})).unwrap();
    assert_eq!(Reading { replay: None, ..must.reading }, Reading::default());
    // Llama cannot be forced to call a tool, and an array cannot be a tool input: the prompt asks for the format, with
    // a warning.
    for (model, format) in [
        ("us.meta.llama3-3-70b-instruct-v1:0", object),
        ("anthropic.claude-3-haiku-20240307-v1:0", schema(json!({"type": "array"}))),
    ] {
        let words = encode(json!({"model": model, "response_format": format})).unwrap();
        assert_eq!(
            Reading { replay: None, ..words.reading.clone() },
            Reading { fenced: true, ..Reading::default() }
        );
        assert_eq!(words.warnings, ["parameter_weakened:response_format"]);
        assert!(body(&words)["system"][0]["text"].as_str().unwrap().contains("JSON Schema"));
    }
}

#[test]
fn efforts_take_the_form_of_each_model_family() {
    let effort = |model: &str, effort: &str| {
        let encoded = encode(json!({"model": model, "reasoning_effort": effort})).unwrap();
        (body(&encoded)["additionalModelRequestFields"].clone(), encoded.warnings.join(" "))
    };
    let dropped = "parameter_dropped:reasoning_effort";
    let clamped = "parameter_clamped:reasoning_effort";
    let told = |effort: &str| json!({"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}});
    let budget = |tokens: u64| json!({"thinking": {"type": "enabled", "budget_tokens": tokens}});
    let adaptive =
        |effort: &str| json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}});
    for (model, level, fields, warnings) in [
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", "high", Value::Null, dropped),
        ("anthropic.claude-3-7-sonnet-20250219-v1:0", "low", budget(4096), ""),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "xhigh", budget(28_800), ""),
        ("us.anthropic.claude-opus-4-6-v1", "high", adaptive("high"), ""),
        ("us.anthropic.claude-opus-4-6-v1", "xhigh", adaptive("high"), clamped),
        ("us.anthropic.claude-opus-4-7", "xhigh", told("xhigh"), ""),
        ("us.anthropic.claude-opus-4-7", "minimal", told("low"), clamped),
        ("us.anthropic.claude-mythos-5", "medium", told("medium"), ""),
        ("us.anthropic.claude-opus-4-7", "none", Value::Null, ""),
        (
            "us.amazon.nova-2-lite-v1:0",
            "low",
            json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}),
            "",
        ),
        ("us.amazon.nova-lite-v1:0", "low", Value::Null, dropped),
        ("openai.gpt-oss-120b-1:0", "medium", json!({"reasoning_effort": "medium"}), ""),
        ("openai.gpt-oss-120b-1:0", "none", Value::Null, dropped),
        ("us.deepseek.r1-v1:0", "high", Value::Null, dropped),
        ("us.anthropic.claude-opus-4-7", "odd", Value::Null, dropped),
    ] {
        assert_eq!(effort(model, level), (fields, warnings.to_owned()), "{model} {level}");
    }
}

#[test]
fn thinking_is_bounded_and_dropped_where_it_is_refused() {
    let model = "us.anthropic.claude-sonnet-4-20250514-v1:0";
    let little = encode(json!({"model": model, "reasoning_effort": "high", "max_tokens": 1024})).unwrap();
    assert_eq!(little.warnings, ["parameter_dropped:reasoning_effort"]);
    let some = sent(json!({"model": model, "reasoning_effort": "high", "max_tokens": 5000}));
    assert_eq!(some["additionalModelRequestFields"]["thinking"]["budget_tokens"], 4000);
    let forced =
        json!({"model": model, "reasoning_effort": "high", "tools": [tool("f")], "tool_choice": "required"});
    assert!(sent(forced).get("additionalModelRequestFields").is_none());
    // Claude refuses a turn of calls without their reasoning.
    let unsigned = json!({"model": model, "reasoning_effort": "high", "messages": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
    ]});
    assert!(sent(unsigned).get("additionalModelRequestFields").is_none());
    // Newer models take either temperature or top_p, the newest models neither.
    let sampling = |model: &str| {
        let encoded = encode(json!({"model": model, "temperature": 0.3, "top_p": 0.5})).unwrap();
        (body(&encoded)["inferenceConfig"].clone(), encoded.warnings.join(" "))
    };
    assert_eq!(sampling(model), (json!({"temperature": 0.3, "topP": 0.5}), String::new()));
    let one = sampling("us.anthropic.claude-haiku-4-5-20251001-v1:0");
    assert_eq!(one, (json!({"temperature": 0.3}), "parameter_dropped:top_p".to_owned()));
    let none = sampling("us.anthropic.claude-opus-4-7");
    assert_eq!(none, (Value::Null, "parameter_dropped:temperature parameter_dropped:top_p".to_owned()));
}

#[test]
fn blank_texts_are_not_sent() {
    let encoded = encode(json!({"messages": [
        {"role": "system", "content": ""},
        {"role": "assistant", "content": " "},
        {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "\n"}]},
    ], "stop": ["", "  "]}))
    .unwrap();
    assert_eq!(encoded.warnings, ["parameter_dropped:stop", "message_added:user"]);
    assert_eq!(body(&encoded), json!({"messages": [{"role": "user", "content": [{"text": "."}]}]}));
}

#[test]
fn ids_fit_and_stay_paired() {
    let sent = sent(json_of("conversation.request.json"));
    let asked = &sent["messages"][1]["content"];
    let answered = &sent["messages"][2]["content"];
    assert_eq!(asked[1]["toolUse"]["toolUseId"], "call_1");
    for (call, result) in [(1, 0), (2, 1)] {
        assert_eq!(asked[call]["toolUse"]["toolUseId"], answered[result]["toolResult"]["toolUseId"]);
    }
}

#[test]
fn unsupported_content_is_refused() {
    let user = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
    let image = |url: &str| user(json!({"type": "image_url", "image_url": {"url": url}}));
    let file = |file: Value| user(json!({"type": "file", "file": file}));
    let zip = json!({"filename": "a.zip", "file_data": "data:application/zip;base64,AA=="});
    for (body, field, kind) in [
        (image("https://example.com/a.png"), "'image_url'", FailureKind::ImageAddress),
        (image("file-1"), "'image_url'", FailureKind::Unsupported),
        (image("data:image/tiff;base64,AA=="), "'image_url'", FailureKind::Unsupported),
        (file(json!({"file_id": "file-1"})), "'file'", FailureKind::Unsupported),
        (file(zip), "'file'", FailureKind::Unsupported),
    ] {
        let failure = encode(body).unwrap_err();
        assert_eq!((failure.kind, failure.code.as_deref()), (kind, Some("unsupported_value")));
        assert!(failure.message.starts_with(&format!("Invalid {field}: ")), "{}", failure.message);
    }
}

#[test]
fn the_bytes_of_an_image_tell_its_format_and_not_the_client() {
    for (declared, base64, format) in [
        ("image/png", "/9j/4AAQ", "jpeg"),
        ("", "iVBORw0KGgo=", "png"),
        ("image/jpeg", "UklGRhoAAABXRUJQVlA4IA==", "webp"),
        ("image/jpg", "AAAA", "jpeg"),
    ] {
        let url = format!("data:{declared};base64,{base64}");
        let image = json!({"type": "image_url", "image_url": {"url": url}});
        let sent = sent(json!({"messages": [{"role": "user", "content": [image]}]}));
        let block = json!({"image": {"format": format, "source": {"bytes": base64}}});
        assert_eq!(sent["messages"][0]["content"][0], block, "{declared}");
    }
}

#[test]
fn documents_with_equal_names_are_renamed() {
    let file = json!({"type": "file", "file": {"filename": "../a_b.pdf", "file_data": "JVBERi0="}});
    let sent = sent(json!({"messages": [{"role": "user", "content": [file, file]}]}));
    let content = &sent["messages"][0]["content"];
    assert_eq!(
        (&content[0]["document"]["name"], &content[1]["document"]["name"]),
        (&json!("a b"), &json!("a b 2"))
    );
    assert_eq!(content[2], json!({"text": "."}));
}

#[test]
fn an_opaque_profile_uses_the_rules_of_its_catalogue_id() {
    let arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123def456";
    let body = json!({"model": "x", "messages": [{"role": "user", "content": "x"}], "max_tokens": 900, "reasoning_effort": "high"});
    let of = |id: &str| {
        let rules = ModelRules::of(Api::BEDROCK.rules, arn, id);
        let target = Target { id, rules, clamp_max_tokens: Some(500), ..target(arn) };
        Native(Bedrock).chat(&request(&body), &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &target).unwrap()
    };
    let encoded = of("amazon/claude-opus-4.6");
    assert_eq!(super::body(&encoded)["additionalModelRequestFields"]["thinking"]["type"], "adaptive");
    assert_eq!(super::body(&encoded)["inferenceConfig"]["maxTokens"], 500);
    assert_eq!(of("amazon/mine").warnings, ["parameter_dropped:reasoning_effort"]);
    let path = "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc123def456/converse";
    assert_eq!(encoded.call.path, path);
}

#[test]
fn ids_with_dots_and_colons_are_kept_except_for_claude() {
    for (model, id) in
        [("moonshot.kimi-k2-thinking", "functions.look:0"), ("anthropic.claude-opus-4-5", "call_")]
    {
        let sent = sent(json!({"model": format!("aws/{model}"), "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [{"id": "functions.look:0", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "functions.look:0", "content": "Dark."},
        ]}));
        let called = sent["messages"][1]["content"][0]["toolUse"]["toolUseId"].as_str().unwrap();
        assert!(called.starts_with(id), "{model}: {called}");
        assert_eq!(sent["messages"][2]["content"][0]["toolResult"]["toolUseId"], called, "{model}");
    }
}
