//! Requests with random faults: each is refused in the words of the API, or its chat body is valid.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::dialects::messages::native::{NativeHost, Signature, request_body};
use crate::dialects::messages::translate;
use crate::request::{RequestLimits, parse_chat};

/// A request with every kind of member.
fn request() -> Value {
    json!({
        "model": "m", "max_tokens": 5000, "stream": true, "temperature": 0.5, "top_p": 0.5, "top_k": 5,
        "stop_sequences": ["a", "b", "c", "d", "e"],
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "metadata": {"user_id": "u"}, "container": "c", "context_management": {},
        "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "summarized"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": true, "defer_loading": false},
                  {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}, {"type": "web_fetch_20250910", "name": "web_fetch"}],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "YQ=="}},
                {"type": "document", "title": "t", "context": "c", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}},
                {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "s"}, {"type": "redacted_thinking", "data": "d"},
                {"type": "text", "text": "b", "citations": []}, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": false, "content": [{"type": "text", "text": "r"},
                {"type": "image", "source": {"type": "url", "url": "https://x"}}]}, {"type": "mid_conv_system", "content": [{"type": "text", "text": "m"}]}]},
            {"role": "system", "content": "x"},
        ],
    })
}

/// The paths of all values inside a value.
fn paths(value: &Value, path: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = format!("{path}/{name}");
                paths(value, &path, all);
                all.push(path);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let path = format!("{path}/{at}");
                paths(item, &path, all);
                all.push(path);
            }
        }
        _ => {}
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!(0)),
        Just(json!(-1)),
        Just(json!(1.5)),
        Just(json!("")),
        Just(json!("text")),
        Just(json!("user")),
        Just(json!([])),
        Just(json!([{}])),
        Just(json!(["x"])),
        Just(json!({})),
        Just(json!({"type": "text"})),
        Just(json!([{"type": "text", "text": ""}])),
        Just(json!([{"type": "unknown"}])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_request_is_refused_or_its_chat_is_valid(
        faults in prop::collection::vec((any::<prop::sample::Index>(), value()), 1..3),
    ) {
        let mut body = request();
        for (at, value) in faults {
            let mut all = Vec::new();
            paths(&body, "", &mut all);
            *body.pointer_mut(at.get(all.as_slice()).as_str()).unwrap() = value;
        }
        let bytes = Bytes::from(body.to_string());
        match translate(bytes.clone(), &RequestLimits::default()) {
            Ok(request) => {
                let chat = parse_chat(Bytes::from(request.chat.clone()), &RequestLimits::default());
                prop_assert!(chat.is_ok(), "{:?}\n{}\n{}", chat.err(), body, String::from_utf8_lossy(&request.chat));
                for decide in [|_: &str| Signature::Drop, |_: &str| Signature::Replace("\"x".to_owned())] {
                    let host = NativeHost { model: Some("up"), ..NativeHost::default() };
                    let native = request_body(&bytes, &host, decide, |_| None).body;
                    let native: Value = serde_json::from_slice(&native).unwrap();
                    prop_assert_eq!(&native["model"], "up");
                }
            }
            Err(fault) => prop_assert!(!fault.message.starts_with("Invalid '") && !fault.code.is_empty(), "{}", fault.message),
        }
    }
}
