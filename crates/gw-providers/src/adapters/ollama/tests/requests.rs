//! Encoded requests.

use serde_json::{Value, json};

use super::{adapter, allowing, server};
use crate::adapter::Encoded;
use crate::adapters::native::{image_address, unsupported};
use crate::adapters::trial::{body, embed, encode, encode_declared};
use crate::settings::Api;

macro_rules! golden {
    ($($name:ident: $path:literal, $warnings:expr,)+) => {
        $(#[test]
        fn $name() {
            let request = include_str!(concat!("../../../../fixtures/ollama/", stringify!($name), ".request.json"));
            let expected = include_str!(concat!("../../../../fixtures/ollama/", stringify!($name), ".upstream.json"));
            let encoded = encode(Api::OLLAMA, &*adapter(), request, Some(8192)).unwrap();
            assert_eq!(body(&encoded.call), serde_json::from_str::<Value>(expected).unwrap());
            let warnings: &[&str] = $warnings;
            assert_eq!(encoded.warnings, warnings);
            assert_eq!((encoded.call.method.as_str(), encoded.call.path.as_str()), ("POST", $path));
        })+
    };
}

golden! {
    conversation: "/api/chat", &[],
    parameters: "/api/chat", &[
        "parameter_dropped:logit_bias",
        "parameter_dropped:parallel_tool_calls",
    ],
    schema: "/api/chat", &["parameter_clamped:max_tokens"],
    named: "/api/chat", &["parameter_dropped:tool_choice"],
    suffix: "/api/generate", &[],
}

fn ask(more: Value) -> Encoded {
    let mut request = json!({"model": "ollama/m", "messages": [{"role": "user", "content": "hi"}]});
    let Value::Object(more) = more else { unreachable!() };
    request.as_object_mut().unwrap().extend(more);
    encode(Api::OLLAMA, &*adapter(), &request.to_string(), None).unwrap()
}

#[test]
fn keep_alive_is_sent_only_if_the_operator_allows_it() {
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "keep_alive": -1});
    let encoded = |members| {
        encode(Api::OLLAMA, &*allowing(None, members).unwrap(), &request.to_string(), None).unwrap()
    };
    let (held, allowed) = (encoded(&[]), encoded(&["keepAlive"]));
    assert_eq!(body(&held.call).get("keep_alive"), None);
    assert_eq!(held.warnings, ["parameter_dropped:keep_alive"]);
    assert_eq!(body(&allowed.call)["keep_alive"], json!(-1));
    assert_eq!(allowed.warnings, Vec::<String>::new());
}

#[test]
fn the_context_length_is_sent_and_truncation_is_off() {
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    for (context, most, asked) in [
        (Some(131_072), None, json!(131_072)),
        (Some(131_072), Some(32_768), json!(32_768)),
        (Some(4096), Some(32_768), json!(4096)),
        (None, Some(32_768), json!(32_768)),
        (None, None, Value::Null),
    ] {
        let sent = body(&encode(Api::OLLAMA, &*server(most).unwrap(), &request, context).unwrap().call);
        assert_eq!(sent["options"]["num_ctx"], asked, "{context:?} {most:?}");
        assert_eq!((&sent["truncate"], &sent["shift"]), (&json!(false), &json!(false)));
        let vectors =
            embed(Api::OLLAMA, &*server(most).unwrap(), &json!({"model": "m", "input": "a"}), context)
                .unwrap();
        assert_eq!(body(&vectors)["options"]["num_ctx"], asked);
    }
    assert!(server(Some(0)).is_err() && server(Some(-1)).is_err());
}

#[test]
fn the_member_stream_is_always_sent() {
    for (stream, accept) in [
        (json!(true), "application/x-ndjson"),
        (json!(false), "application/json"),
        (json!(null), "application/json"),
    ] {
        let call = ask(json!({"stream": stream})).call;
        assert_eq!(body(&call)["stream"], json!(stream == true));
        assert_eq!(call.headers["accept"], accept);
    }
    assert_eq!(adapter().traits().capabilities.choices, 1, "several choices are asked for in several calls");
}

#[test]
fn tool_choices() {
    let tools = json!([{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}]);
    for (choice, offered, warned) in [
        (json!(null), 2, false),
        (json!("auto"), 2, false),
        (json!("none"), 0, false),
        (json!("required"), 2, true),
        (json!({"type": "function", "function": {"name": "g"}}), 1, true),
    ] {
        let encoded = ask(json!({"tools": tools, "tool_choice": choice}));
        let sent = body(&encoded.call);
        assert_eq!(sent.get("tools").map_or(0, |tools| tools.as_array().unwrap().len()), offered, "{choice}");
        assert!(sent.get("tool_choice").is_none());
        let warnings: &[&str] = if warned { &["parameter_dropped:tool_choice"] } else { &[] };
        assert_eq!(encoded.warnings, warnings, "{choice}");
    }
    let legacy = ask(json!({"functions": [{"name": "f"}], "function_call": {"name": "f"}}));
    assert!(legacy.reading.function_call);
    assert_eq!(legacy.warnings, ["parameter_dropped:function_call"]);
}

#[test]
fn thinking_is_a_switch_or_a_level() {
    let think = |model: &str, effort: &str| {
        let encoded = ask(json!({"model": format!("ollama/{model}"), "reasoning_effort": effort}));
        (body(&encoded.call)["think"].clone(), encoded.warnings.len())
    };
    assert_eq!(think("qwen3", "none"), (json!(false), 0));
    assert_eq!(think("qwen3", "high"), (json!(true), 0));
    for (effort, level, warnings) in [
        ("none", "low", 1),
        ("minimal", "low", 1),
        ("low", "low", 0),
        ("medium", "medium", 0),
        ("high", "high", 0),
        ("xhigh", "high", 1),
    ] {
        assert_eq!(think("gpt-oss:120b", effort), (json!(level), warnings), "{effort}");
    }
    for (model, effort, sent, warnings) in [
        // A model with three levels.
        ("deepseek-v4-pro:0813-cloud", "none", json!(false), 0),
        ("deepseek-v4-pro:0813-cloud", "high", json!("high"), 0),
        ("deepseek-v4-flash", "xhigh", json!("max"), 1),
        ("deepseek-v4-flash", "max", json!("max"), 0),
        // A model without reasoning refuses the member.
        ("llama3.2", "high", Value::Null, 1),
        ("llama3.2", "none", Value::Null, 0),
        ("qwen3-coder:30b", "low", Value::Null, 1),
        // Reasoning of an unknown model can be switched off.
        ("mine", "high", Value::Null, 1),
        ("mine", "none", json!(false), 0),
        ("qwen3", "odd", Value::Null, 1),
    ] {
        assert_eq!(think(model, effort), (sent, warnings), "{model} {effort}");
    }
    assert!(body(&ask(json!({})).call).get("think").is_none());
}

#[test]
fn log_probabilities_are_asked_for() {
    let asked = |members: Value| {
        let encoded = ask(members);
        let sent = body(&encoded.call);
        (sent["logprobs"].clone(), sent["top_logprobs"].clone(), encoded.warnings.len())
    };
    assert_eq!(asked(json!({"logprobs": true, "top_logprobs": 3})), (json!(true), json!(3), 0));
    assert_eq!(asked(json!({"logprobs": true})), (json!(true), Value::Null, 0));
    assert_eq!(asked(json!({})), (Value::Null, Value::Null, 0));
}

#[test]
fn unsupported_content_is_a_400_that_names_the_field() {
    let part = |part: Value| json!({"model": "m", "messages": [{"role": "user", "content": [part]}]});
    let image = json!({"type": "image_url", "image_url": {"url": "https://x.example/y.png"}});
    for (request, expected) in [
        (part(image), image_address("")),
        (
            part(json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}})),
            unsupported(""),
        ),
        (
            part(json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}})),
            unsupported(""),
        ),
    ] {
        let failure = encode(Api::OLLAMA, &*adapter(), &request.to_string(), None).unwrap_err();
        assert_eq!((failure.kind, &failure.code), (expected.kind, &expected.code), "{request}");
        assert!(failure.message.starts_with("Invalid 'messages'"), "{}", failure.message);
    }
    assert!(!adapter().traits().capabilities.image_urls && adapter().traits().capabilities.suffix);
}

#[test]
fn a_text_completion_without_a_suffix_is_a_chat() {
    let request = json!({"model": "m", "prompt": "a", "suffix": "", "echo": true, "best_of": 1});
    let encoded = encode(Api::OLLAMA, &*adapter(), &request.to_string(), None).unwrap();
    assert_eq!(encoded.call.path, "/api/chat");
    assert_eq!(body(&encoded.call)["messages"], json!([{"role": "user", "content": "a"}]));
    assert_eq!(encoded.reading.echo.as_deref(), Some("a"));
    assert_eq!(encoded.warnings, ["parameter_dropped:best_of"]);
}

#[test]
fn only_documented_members_are_sent() {
    let sent = body(&ask(json!({"user": "u", "store": true, "stream_options": {"include_usage": true}, "n": 1, "num_ctx": 5, "options": {"num_gpu": 9}})).call);
    let names: Vec<&str> = sent.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["messages", "model", "options", "shift", "stream", "truncate"]);
    assert_eq!(sent["options"], json!({}));
}

#[test]
fn invalid_arguments_are_sent_as_objects() {
    let call = |arguments: &str| json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}});
    let message = json!({"role": "assistant", "content": null, "reasoning_content": "Hm.", "tool_calls": [call("{\"a\":{\"b\":1}}"), call(""), call("[1]"), call("not json")]});
    let sent = body(&ask(json!({"messages": [{"role": "user", "content": "q"}, message]})).call);
    let calls = sent["messages"][1]["tool_calls"].as_array().unwrap();
    let arguments: Vec<&Value> = calls.iter().map(|call| &call["function"]["arguments"]).collect();
    assert_eq!(
        arguments,
        [&json!({"a": {"b": 1}}), &json!({}), &json!({"input": [1]}), &json!({"input": "not json"})]
    );
    assert!(calls.iter().all(|call| call["id"] == "a"));
    assert_eq!(sent["messages"][1]["thinking"], "Hm.");
}

#[test]
fn results_stand_in_the_order_of_their_calls() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": format!("of {id}")});
    let messages = json!([
        {"role": "user", "content": "q"},
        {"role": "assistant", "tool_calls": [call("a"), call("b"), call("c")]},
        result("c"), result("stray"), result("a"), result("b"),
        {"role": "assistant", "tool_calls": [call("e"), call("d")]},
        result("d"), result("e"),
        {"role": "user", "content": "go on"},
    ]);
    let sent = body(&ask(json!({"messages": messages})).call);
    let contents: Vec<&str> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(contents, ["q", "", "of a", "of b", "of c", "of stray", "", "of e", "of d", "go on"]);
    let ids: Vec<&str> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["tool_call_id"].as_str())
        .collect();
    assert_eq!(ids, ["a", "b", "c", "stray", "e", "d"]);
}

#[test]
fn tool_schemas_keep_every_key() {
    let schema = json!({"$schema": "s", "type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "additionalProperties": false, "$defs": {"a": {"const": 1}}});
    let sent = body(
        &ask(json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]})).call,
    );
    assert_eq!(sent["tools"][0]["function"]["parameters"], schema);
}

#[test]
fn embeddings_are_requested_as_numbers_without_truncation() {
    let call = embed(
        Api::OLLAMA,
        &*adapter(),
        &json!({"model": "m", "input": ["a", "b\n"], "encoding_format": "base64", "dimensions": 64}),
        None,
    )
    .unwrap();
    assert_eq!(call.path, "/api/embed");
    assert_eq!(
        body(&call),
        json!({"model": "m", "input": ["a", "b\n"], "truncate": false, "dimensions": 64})
    );
}

#[test]
fn tokens_are_refused() {
    let failure = embed(Api::OLLAMA, &*adapter(), &json!({"model": "m", "input": [1, 2]}), None).unwrap_err();
    assert_eq!(failure.kind, unsupported("").kind);
}

#[test]
fn an_effort_is_sent_to_a_model_that_is_declared_to_reason() {
    let request =
        json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "reasoning_effort": "high"});
    let (member, sent) = ("think", json!(true));
    let encoded = encode_declared(Api::OLLAMA, &*adapter(), &request);
    assert_eq!((&body(&encoded.call)[member], encoded.warnings.len()), (&sent, 0));
    let encoded = encode(Api::OLLAMA, &*adapter(), &request.to_string(), None).unwrap();
    assert_eq!(encoded.warnings, ["parameter_dropped:reasoning_effort"]);
}
