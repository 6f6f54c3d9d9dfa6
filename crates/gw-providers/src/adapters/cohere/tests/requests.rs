//! Encoded requests.

use serde_json::{Value, json};

use crate::adapter::{Encoded, Scheme};
use crate::adapters::cohere::adapter;
use crate::adapters::native::unsupported;
use crate::adapters::trial::{body, embed, encode, encode_declared};
use crate::settings::Api;

macro_rules! golden {
    ($($name:ident: $warnings:expr,)+) => {
        $(#[test]
        fn $name() {
            let request = include_str!(concat!("../../../../fixtures/cohere/", stringify!($name), ".request.json"));
            let expected = include_str!(concat!("../../../../fixtures/cohere/", stringify!($name), ".upstream.json"));
            let encoded = encode(Api::COHERE, &*adapter(), request, None).unwrap();
            assert_eq!(body(&encoded.call), serde_json::from_str::<Value>(expected).unwrap());
            let warnings: &[&str] = $warnings;
            assert_eq!(encoded.warnings, warnings);
            assert_eq!((encoded.call.method.as_str(), encoded.call.path.as_str()), ("POST", "/v2/chat"));
        })+
    };
}

golden! {
    conversation: &[],
    parameters: &[
        "parameter_dropped:logit_bias",
        "parameter_dropped:top_logprobs",
        "parameter_dropped:parallel_tool_calls",
        "parameter_clamped:temperature",
        "parameter_clamped:top_p",
        "parameter_clamped:frequency_penalty",
        "parameter_clamped:presence_penalty",
    ],
    plain: &[],
    schema: &[],
    named: &[],
    media: &[],
}

fn ask(more: Value) -> Encoded {
    let mut request = json!({"model": "cohere/m", "messages": [{"role": "user", "content": "hi"}]});
    let Value::Object(more) = more else { unreachable!() };
    request.as_object_mut().unwrap().extend(more);
    encode(Api::COHERE, &*adapter(), &request.to_string(), None).unwrap()
}

#[test]
fn tool_choices() {
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    for (choice, sent) in [
        (json!(null), Value::Null),
        (json!("auto"), Value::Null),
        (json!("none"), json!("NONE")),
        (json!("required"), json!("REQUIRED")),
        (json!({"type": "function", "function": {"name": "f"}}), json!("REQUIRED")),
    ] {
        let sent_body = body(&ask(json!({"tools": tools, "tool_choice": choice})).call);
        assert_eq!(
            (&sent_body["tool_choice"], sent_body["tools"].as_array().unwrap().len()),
            (&sent, 1),
            "{choice}"
        );
    }
    let none = body(&ask(json!({"tool_choice": "none"})).call);
    assert!(none.get("tools").is_none() && none.get("tool_choice").is_none());
    let legacy = ask(json!({"functions": [{"name": "f"}], "function_call": {"name": "f"}}));
    assert!(legacy.reading.function_call);
    assert_eq!(body(&legacy.call)["tool_choice"], "REQUIRED");
    assert!(legacy.warnings.is_empty());
}

#[test]
fn strict_tools_are_all_or_none() {
    let tool = |strict: bool| json!({"type": "function", "function": {"name": "f", "strict": strict}});
    let strict = |tools: Value| body(&ask(json!({"tools": tools})).call).get("strict_tools").cloned();
    assert_eq!(strict(json!([tool(true), tool(true)])), Some(json!(true)));
    assert_eq!(strict(json!([tool(true), tool(false)])), None);
}

#[test]
fn older_models_get_no_tool_choice() {
    let of = |model: &str, choice: &str| {
        let tools = json!([{"type": "function", "function": {"name": "f"}}]);
        let encoded = ask(json!({"model": format!("cohere/{model}"), "tools": tools, "tool_choice": choice}));
        let sent = body(&encoded.call);
        (sent.get("tools").is_some(), sent.get("tool_choice").is_some(), encoded.warnings.join(" "))
    };
    let dropped = (true, false, "parameter_dropped:tool_choice".to_owned());
    assert_eq!(of("command-r-08-2024", "required"), dropped);
    assert_eq!(of("command-r-plus-08-2024", "none"), (false, false, String::new()), "no tool may be called");
    assert_eq!(of("command-r7b-12-2024", "required"), (true, true, String::new()));
}

#[test]
fn efforts_become_token_budgets() {
    let of = |model: &str, effort: &str| {
        let encoded = ask(json!({"model": format!("cohere/{model}"), "reasoning_effort": effort}));
        (body(&encoded.call)["thinking"].clone(), encoded.warnings.join(" "))
    };
    let thinking = |effort: &str| of("command-a-reasoning-08-2025", effort).0;
    let dropped = "parameter_dropped:reasoning_effort".to_owned();
    // Models that do not reason refuse the member.
    assert_eq!(of("command-a-03-2025", "high"), (Value::Null, dropped.clone()));
    assert_eq!(of("command-r7b-12-2024", "none"), (Value::Null, String::new()));
    assert_eq!(of("command-a-plus-05-2026", "odd"), (Value::Null, dropped));
    assert_eq!(thinking("none"), json!({"type": "disabled"}));
    assert_eq!(thinking("minimal"), json!({"type": "enabled", "token_budget": 512}));
    assert_eq!(thinking("medium"), json!({"type": "enabled", "token_budget": 8192}));
    assert_eq!(thinking("high"), json!({"type": "enabled"}));
    assert_eq!(thinking("xhigh"), json!({"type": "enabled"}));
    assert!(body(&ask(json!({})).call).get("thinking").is_none());
}

#[test]
fn json_without_a_schema_is_requested() {
    let wanted = json!({"type": "json_object"});
    assert_eq!(body(&ask(json!({"response_format": wanted})).call)["response_format"], wanted);
    let nameless = json!({"type": "json_schema", "json_schema": {"name": "n"}});
    assert_eq!(body(&ask(json!({"response_format": nameless})).call)["response_format"], wanted);
    assert!(body(&ask(json!({"response_format": {"type": "text"}})).call).get("response_format").is_none());
}

#[test]
fn streams_are_requested_as_server_sent_events() {
    for stream in [true, false] {
        let call = ask(json!({"stream": stream})).call;
        assert_eq!(body(&call)["stream"], json!(stream));
        let accept = if stream { "text/event-stream" } else { "application/json" };
        assert_eq!(call.headers["accept"], accept);
    }
    assert_eq!(adapter().traits().scheme, Scheme::Bearer);
    assert_eq!(adapter().traits().capabilities.choices, 1, "several choices are asked for in several calls");
}

#[test]
fn unsupported_content_is_a_400_that_names_the_field() {
    let part = |part: Value| json!({"model": "m", "messages": [{"role": "user", "content": [part]}]});
    for request in [
        part(json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}})),
        part(json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}})),
        part(json!({"type": "file", "file": {"file_data": "data:text/plain;base64,/w=="}})),
        part(json!({"type": "file", "file": {"file_data": "data:text/plain;base64,#"}})),
        part(json!({"type": "file", "file": {"file_id": "file-1"}})),
        part(json!({"type": "image_url", "image_url": {"url": "data:application/pdf;base64,JVBERi0="}})),
        json!({"model": "m", "prompt": "a", "suffix": "b"}),
    ] {
        let failure = encode(Api::COHERE, &*adapter(), &request.to_string(), None).unwrap_err();
        let expected = unsupported("");
        assert_eq!((failure.kind, &failure.code), (expected.kind, &expected.code), "{request}");
        assert!(failure.message.starts_with("Invalid '"), "{}", failure.message);
    }
}

#[test]
fn a_text_completion_is_one_user_message() {
    let request = json!({"model": "m", "prompt": ["a", "b"], "echo": true, "logprobs": 2, "best_of": 1});
    let encoded = encode(Api::COHERE, &*adapter(), &request.to_string(), None).unwrap();
    assert_eq!(body(&encoded.call)["messages"], json!([{"role": "user", "content": "a"}]));
    assert_eq!(encoded.reading.echo.as_deref(), Some("a"));
    assert_eq!(encoded.warnings, ["parameter_dropped:best_of", "parameter_dropped:logprobs"]);
}

#[test]
fn only_documented_members_are_sent() {
    let sent = body(&ask(json!({"user": "u", "store": true, "stream_options": {"include_usage": true}, "n": 1, "top_k": 3, "guided_json": {}, "reasoning": {}, "prompt_cache_key": "k"})).call);
    let names: Vec<&str> = sent.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["k", "messages", "model", "stream"]);
}

#[test]
fn all_text_blocks_are_sent() {
    let parts =
        json!([{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]);
    let messages = json!([{"role": "system", "content": parts}, {"role": "user", "content": parts}, {"role": "assistant", "content": parts}]);
    let sent = body(&ask(json!({"messages": messages})).call);
    for message in sent["messages"].as_array().unwrap() {
        assert_eq!(message["content"], json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]));
    }
}

#[test]
fn tool_schemas_keep_every_key() {
    let schema = json!({"$schema": "s", "type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "additionalProperties": false, "$defs": {"a": {"const": 1}}, "required": ["a"]});
    let sent = body(
        &ask(json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]})).call,
    );
    assert_eq!(sent["tools"][0]["function"]["parameters"], schema);
}

#[test]
fn calls_their_ids_and_their_results_survive() {
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}});
    let messages = json!([
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "I look.", "reasoning_content": "I think.", "tool_calls": [call("a", ""), call("b", "{\"x\":1}")]},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "tool", "tool_call_id": "a", "content": ""},
        {"role": "assistant", "function_call": {"name": "g", "arguments": "{}"}},
        {"role": "function", "name": "g", "content": "3"},
    ]);
    let model = "cohere/command-a-reasoning-08-2025";
    let sent = body(&ask(json!({"model": model, "messages": messages})).call);
    let legacy =
        json!({"id": "call_function_1", "type": "function", "function": {"name": "g", "arguments": "{}"}});
    assert_eq!(
        sent["messages"],
        json!([
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "I think."}], "tool_plan": "I look.",
                "tool_calls": [call("a", "{}"), call("b", "{\"x\":1}")]},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "tool", "tool_call_id": "a", "content": ""},
            {"role": "assistant", "tool_calls": [legacy]},
            {"role": "tool", "tool_call_id": "call_function_1", "content": "3"},
        ])
    );
    // A model without reasoning does not get another model's reasoning.
    let sent = body(&ask(json!({"model": "cohere/command-r7b-12-2024", "messages": messages})).call);
    assert_eq!(
        (&sent["messages"][1]["tool_plan"], sent["messages"][1].get("content")),
        (&json!("I look."), None)
    );
}

#[test]
fn equal_ids_become_unique_and_results_answer_their_calls() {
    let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let calls = |calls: &[Value]| json!({"role": "assistant", "tool_calls": calls});
    let result = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let user = json!({"role": "user", "content": "q"});
    let messages = json!([
        user,
        calls(&[call("a", "f"), call("b", "g"), call("a", "h")]),
        result("b", "g"),
        result("a", "f"),
        result("a", "h"),
        calls(&[call("a", "f"), call("b", "g")]),
        result("b", "g"),
        result("a", "f"),
    ]);
    let expected = json!([
        user,
        calls(&[call("a", "f"), call("b", "g"), call("a.2", "h")]),
        result("b", "g"),
        result("a", "f"),
        result("a.2", "h"),
        calls(&[call("a.3", "f"), call("b.2", "g")]),
        result("b.2", "g"),
        result("a.3", "f"),
    ]);
    assert_eq!(body(&ask(json!({ "messages": messages })).call)["messages"], expected);
}

#[test]
fn embeddings_are_requested_as_floats_without_truncation() {
    let call = embed(
        Api::COHERE,
        &*adapter(),
        &json!({"model": "m", "input": ["a", "b\n"], "encoding_format": "base64"}),
        None,
    )
    .unwrap();
    assert_eq!(call.path, "/v2/embed");
    assert_eq!(
        body(&call),
        json!({"model": "m", "input_type": "search_document", "texts": ["a", "b\n"], "embedding_types": ["float"], "truncate": "NONE"})
    );
    let own = json!({"model": "m", "input": "q", "dimensions": 256, "input_type": "search_query", "truncate": "END"});
    assert_eq!(
        body(&embed(Api::COHERE, &*adapter(), &own, None).unwrap()),
        json!({"model": "m", "input_type": "search_query", "texts": ["q"], "embedding_types": ["float"], "output_dimension": 256, "truncate": "END"})
    );
    let odd = body(
        &embed(Api::COHERE, &*adapter(), &json!({"model": "m", "input": "q", "input_type": 5}), None)
            .unwrap(),
    );
    assert_eq!(odd["input_type"], "search_document");
}

#[test]
fn tokens_are_refused() {
    let failure = embed(Api::COHERE, &*adapter(), &json!({"model": "m", "input": [1, 2]}), None).unwrap_err();
    assert_eq!(failure.kind, unsupported("").kind);
}

#[test]
fn json_beside_tools_is_requested_by_an_instruction() {
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let format = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}});
    let both = ask(json!({"tools": tools, "response_format": format}));
    let sent = body(&both.call);
    assert_eq!(sent.get("response_format"), None);
    assert!(sent["messages"][0]["content"].as_str().unwrap().ends_with("JSON Schema: {\"type\":\"object\"}"));
    assert_eq!(
        (&sent["messages"][0]["role"], &sent["messages"][1]["content"]),
        (&json!("system"), &json!("hi"))
    );
    assert!(both.reading.fenced && both.warnings == ["parameter_weakened:response_format"]);
    let never = body(&ask(json!({"tools": tools, "tool_choice": "none", "response_format": format})).call);
    assert_eq!((never.get("tools"), never.get("tool_choice")), (None, None));
    assert_eq!(never["response_format"]["type"], "json_object");
}

#[test]
fn a_plan_and_a_text_are_sent_back_without_the_line_break_between_them() {
    for (order, content) in [("p7 t6 c", "I plan.\nLook."), ("t5 p8 c", "Look.\nI plan.")] {
        let order = json!([{"type": "gateway.order", "order": order, "index": 0, "origin": "p/m"}]);
        let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let message = json!({"role": "assistant", "content": content, "tool_calls": [call], "reasoning_details": order});
        let result = json!({"role": "tool", "tool_call_id": "a", "content": "r"});
        let user = json!({"role": "user", "content": "hi"});
        let sent = body(&ask(json!({"messages": [user, message, result]})).call);
        let said = json!({"role": "assistant", "tool_plan": "I plan.", "content": [{"type": "text", "text": "Look."}], "tool_calls": [call]});
        assert_eq!(sent["messages"][1], said);
    }
}

#[test]
fn several_plans_of_one_answer_are_sent_back_as_one() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    for (order, content) in [("p2 c p3 c", "I am you"), ("t2 p2 c p2 c", "I am you")] {
        // No text is lost, whether the order's lengths match it or not.
        for content in [content, "Iamyo", "I\nam\ny"] {
            let order = json!([{"type": "gateway.order", "order": order, "index": 0, "origin": "p/m"}]);
            let message = json!({"role": "assistant", "content": content, "tool_calls": [call("a"), call("b")],
                "reasoning_details": order});
            let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
            let user = json!({"role": "user", "content": "hi"});
            let sent = body(&ask(json!({"messages": [user, message, result("a"), result("b")]})).call);
            let said = &sent["messages"][1];
            assert_eq!(said["tool_plan"], content, "{said}");
            assert_eq!(said["tool_calls"].as_array().map(Vec::len), Some(2), "{said}");
        }
    }
}

#[test]
fn an_effort_is_sent_to_a_model_that_is_declared_to_reason() {
    let request =
        json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "reasoning_effort": "high"});
    let (member, sent) = ("thinking", json!({"type": "enabled"}));
    let encoded = encode_declared(Api::COHERE, &*adapter(), &request);
    assert_eq!((&body(&encoded.call)[member], encoded.warnings.len()), (&sent, 0));
    let encoded = encode(Api::COHERE, &*adapter(), &request.to_string(), None).unwrap();
    assert_eq!(encoded.warnings, ["parameter_dropped:reasoning_effort"]);
}

#[test]
fn reasoning_beside_calls_goes_back_to_a_model_that_is_declared_to_reason() {
    let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let request = json!({"model": "m", "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
    ]});
    let sent = json!([{"type": "thinking", "thinking": "hm"}]);
    let encoded = encode_declared(Api::COHERE, &*adapter(), &request);
    assert_eq!((&body(&encoded.call)["messages"][1]["content"], encoded.warnings.len()), (&sent, 0));
    let encoded = encode(Api::COHERE, &*adapter(), &request.to_string(), None).unwrap();
    assert_eq!(encoded.warnings, ["reasoning_dropped"]);
}
