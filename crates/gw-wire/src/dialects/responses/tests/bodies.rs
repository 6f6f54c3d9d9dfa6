//! Any body: a translated request is a valid chat request, or its fault names fields that the client wrote.

use proptest::prelude::*;

use super::*;
use crate::dialects::responses::native::{EncryptedContent, Forwarding, for_upstream};

/// A JSON value that is often wrong for its place.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!(1)),
        Just(json!("")),
        Just(json!("a")),
        Just(json!("data:image/png;base64,AAAA")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{"type": "input_text", "text": "t"}])),
        Just(json!([{"type": "input_image", "image_url": "https://example.com/x.png"}])),
        Just(json!([{"type": "summary_text", "text": "t"}])),
        Just(json!([{"type": "input_file", "file_id": "f"}, {"type": "refusal", "refusal": "r"}])),
    ]
}

fn any_item() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "reasoning",
        "local_shell_call",
        "local_shell_call_output",
        "web_search_call",
        "mcp_call",
        "image_generation_call",
        "compaction",
        "unheard_of",
    ]);
    let roles = prop::sample::select(vec!["user", "assistant", "system", "developer"]);
    let names = prop::sample::select(vec![
        "content",
        "call_id",
        "name",
        "namespace",
        "arguments",
        "input",
        "output",
        "summary",
        "id",
        "status",
        "encrypted_content",
        "result",
    ]);
    (kinds, roles, prop::option::of((names, any_value()))).prop_map(|(kind, role, change)| {
        let mut item = json!({
            "type": kind, "role": role, "content": "c", "call_id": "k", "name": "n", "arguments": "{}", "input": "i",
            "output": "o", "summary": [], "id": "x_1", "result": "AAAA", "encrypted_content": "e"
        });
        if kind == "reasoning" {
            item["content"] = json!([{"type": "reasoning_text", "text": "t"}]);
        }
        if let Some((name, value)) = change {
            item[name] = value;
        }
        item
    })
}

fn any_request() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "temperature",
        "tools",
        "tool_choice",
        "text",
        "reasoning",
        "metadata",
        "max_output_tokens",
        "include",
        "instructions",
        "stop",
        "n",
        "messages",
        "seed",
        "user",
        "truncation",
        "service_tier",
        "parallel_tool_calls",
    ]);
    let items = prop::collection::vec(any_item(), 1..8);
    (items, prop::option::of((names, any_value()))).prop_map(|(items, change)| {
        let mut request = json!({"model": "m", "input": items, "tools": [{"type": "function", "name": "n"}]});
        if let Some((name, value)) = change {
            request[name] = value;
        }
        request
    })
}

proptest! {
    #[test]
    fn a_translated_request_is_a_valid_chat(request in any_request()) {
        let limits = RequestLimits::default();
        let Ok(translated) = translate(body(&request), &limits, &[]) else { return Ok(()) };
        let again = translate(body(&request), &limits, &[]).unwrap();
        prop_assert_eq!(&translated.chat, &again.chat);
        if let Err(fault) = parse_chat(Bytes::from(translated.chat), &limits) {
            prop_assert!(!fault.message.contains("'messages"), "{} for {}", fault, request);
            let named = ["temperature", "user", "stop", "seed", "parallel_tool_calls", "service_tier"];
            prop_assert!(named.iter().any(|name| fault.message.contains(name)), "{} for {}", fault, request);
        }
    }

    #[test]
    fn a_forwarded_body_is_json(request in any_request(), fates in prop::collection::vec(0..3_u8, 8)) {
        let Ok(translated) = translate(body(&request), &RequestLimits::default(), &[]) else { return Ok(()) };
        let mut fates = fates.into_iter();
        let to = Forwarding { model: "up", ..Forwarding::default() };
        let open = |_: Option<&str>| match fates.next() {
            Some(0) => EncryptedContent::DropItem,
            Some(1) => EncryptedContent::Replace("\"quoted\"".into()),
            _ => EncryptedContent::Keep,
        };
        let sent = for_upstream(&translated.native, &to, open, |_| None);
        let sent: Value = serde_json::from_slice(&sent).unwrap();
        prop_assert_eq!(&sent["model"], "up");
        prop_assert_eq!(&sent["store"], false);
        let (before, after) = (request["input"].as_array().unwrap(), sent["input"].as_array().unwrap());
        let plain = |items: &[Value]| -> Vec<Value> {
            items.iter().filter(|item| item["encrypted_content"].as_str().is_none_or(str::is_empty)).map(|item| item["type"].clone()).collect()
        };
        let kept = plain(after);
        prop_assert!(plain(before).iter().filter(|kind| *kind != "reasoning").all(|kind| kept.contains(kind)));
    }

    #[test]
    fn the_limits_hold(count in 1..6_usize) {
        let limits = RequestLimits { max_content_parts: 3, max_tool_calls: 2, max_tools: 128, ..RequestLimits::default() };
        let message = json!({"role": "user", "content": "x"});
        let parts = translate(body(&json!({"model": "m", "input": vec![message; count]})), &limits, &[]);
        prop_assert_eq!(parts.is_err(), count > 3);
        let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
        let calls = translate(body(&json!({"model": "m", "input": vec![call; count]})), &limits, &[]);
        prop_assert_eq!(calls.is_err(), count > 2);
        let tool = |at: usize| json!({"type": "function", "name": format!("f{at}")});
        let tools: Vec<Value> = (0..126 + count).map(tool).collect();
        let tools = translate(body(&json!({"model": "m", "input": "q", "tools": tools})), &limits, &[]);
        prop_assert_eq!(tools.is_err(), count > 2);
    }
}
