//! Streams put together again.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn events(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect::<String>() + "data: [DONE]\n\n"
}

#[expect(clippy::needless_pass_by_value, reason = "it is always made on the spot")]
fn delta(index: u32, delta: Value, finish: Option<&str>) -> Value {
    json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "m", "usage": null,
        "choices": [{ "index": index, "delta": delta, "logprobs": null, "finish_reason": finish }] })
}

fn assembled(stream: &[u8], size: usize, most: usize) -> (Value, bool) {
    let mut assembly = Assembly::new(most);
    stream.chunks(size).for_each(|piece| assembly.feed(piece));
    let (document, is_cut) = assembly.end();
    let value =
        if document.is_empty() { Value::Null } else { serde_json::from_slice(&document).expect("JSON") };
    (value, is_cut)
}

#[test]
fn pieces_become_the_answer_however_they_were_divided() {
    let tool = |index: u32, more: Value| {
        let mut call = json!({ "index": index });
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "tool_calls": [call] })
    };
    let call = |arguments: &str| json!({ "function": { "arguments": arguments } });
    let mut chunks = vec![
        delta(0, json!({ "role": "assistant", "content": "" }), None),
        delta(1, json!({ "role": "assistant", "content": null }), None),
        delta(0, json!({ "content": "al" }), None),
        delta(0, json!({ "content": "ice@exa" }), None),
        delta(0, json!({ "content": "mple.com", "reasoning_content": "é" }), None),
        delta(
            1,
            tool(0, json!({ "id": "a", "type": "function", "function": { "name": "f", "arguments": "" } })),
            None,
        ),
        delta(1, tool(0, call("{\"x\"")), None),
        delta(
            1,
            tool(1, json!({ "id": "b", "type": "function", "function": { "name": "g", "arguments": "{}" } })),
            None,
        ),
        delta(1, tool(0, call(":1}")), None),
        delta(0, json!({}), Some("stop")),
        delta(1, json!({}), Some("tool_calls")),
    ];
    chunks.push(json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [],
        "usage": { "prompt_tokens": 3 }, "gateway": { "provider": "acme" } }));
    let stream = format!(": keep-alive\n\n{}", events(&chunks));
    let wanted = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 5, "model": "m",
        "usage": { "prompt_tokens": 3 }, "gateway": { "provider": "acme" },
        "choices": [
            { "index": 0, "finish_reason": "stop", "logprobs": null,
              "message": { "role": "assistant", "content": "alice@example.com", "reasoning_content": "é" } },
            { "index": 1, "finish_reason": "tool_calls", "logprobs": null, "message": { "role": "assistant", "content": null,
              "tool_calls": [
                { "index": 0, "id": "a", "type": "function", "function": { "name": "f", "arguments": "{\"x\":1}" } },
                { "index": 1, "id": "b", "type": "function", "function": { "name": "g", "arguments": "{}" } } ] } }
        ]
    });
    for size in [1, 2, 7, 100, 100_000] {
        assert_eq!(assembled(stream.as_bytes(), size, 1 << 20), (wanted.clone(), false));
    }
}

#[test]
fn texts_logprobs_and_errors_are_there() {
    let text = |piece: &str| {
        json!({ "object": "text_completion", "choices": [{ "index": 0, "text": piece,
            "logprobs": { "content": [{ "token": piece, "bytes": [1] }] } }] })
    };
    let error = json!({ "error": { "message": "cut", "code": "upstream_stream_error" } });
    let stream = events(&[text("a"), text("b"), error.clone()]);
    let (document, is_cut) = assembled(stream.as_bytes(), 9, 1 << 20);
    assert!(!is_cut);
    assert_eq!(document["choices"][0]["text"], "ab");
    assert_eq!(document["choices"][0]["logprobs"]["content"][1]["token"], "b");
    assert_eq!(document["error"], error["error"]);
    assert_eq!(assembled(events(std::slice::from_ref(&error)).as_bytes(), 9, 100), (error, false));
    assert_eq!(assembled(b"", 1, 100), (Value::Null, false));
    assert_eq!(assembled(b"data: nonsense\n\ndata: {\"a\":", 3, 100), (Value::Null, false));
}

#[test]
fn a_long_answer_is_cut_between_words_and_says_its_end_all_the_same() {
    let mut chunks: Vec<_> =
        (0..500).map(|_| delta(0, json!({ "content": "sk-abcdefghijklmnop wörter " }), None)).collect();
    chunks.push(delta(0, json!({}), Some("stop")));
    chunks.push(json!({ "object": "x", "choices": [], "usage": { "prompt_tokens": 3 } }));
    for most in 300..340 {
        let (document, is_cut) = assembled(events(&chunks).as_bytes(), 64, most);
        assert!(is_cut);
        let choice = &document["choices"][0];
        let text = choice["message"]["content"].as_str().unwrap();
        assert!(text.len() <= most + 3 && (text.ends_with("mnop…") || text.ends_with("wörter…")), "{text}");
        assert_eq!(
            (&choice["finish_reason"], &document["usage"]["prompt_tokens"]),
            (&json!("stop"), &json!(3))
        );
    }
}

#[test]
fn a_stream_of_the_messages_api_becomes_one_document_with_its_blocks() {
    let block = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let piece =
        |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let stream = events(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "content": []}}),
        block(0, json!({"type": "text", "text": ""})),
        piece(0, json!({"type": "text_delta", "text": "my key is sk-ab"})),
        piece(0, json!({"type": "text_delta", "text": "cdef"})),
        json!({"type": "content_block_stop", "index": 0}),
        block(1, json!({"type": "tool_use", "id": "t", "name": "f", "input": {}})),
        piece(1, json!({"type": "input_json_delta", "partial_json": "{}"})),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}}),
    ]);
    let (document, is_cut) = assembled(stream.as_bytes(), 7, 1 << 20);
    assert!(!is_cut);
    assert_eq!(document["message"]["id"], "msg_1");
    assert_eq!(document["choices"][0]["message"]["text"], "my key is sk-abcdef");
    assert_eq!(document["choices"][1]["message"]["partial_json"], "{}");
    assert_eq!(document["usage"]["output_tokens"], 3);
}

#[test]
fn a_stream_of_the_responses_api_is_kept_as_its_final_object() {
    let stream = events(&[
        json!({"type": "response.created", "response": {"status": "in_progress", "output": []}}),
        json!({"type": "response.output_text.delta", "delta": "sk-ab"}),
        json!({"type": "response.completed", "response": {"status": "completed", "output": [{"content": "sk-abcdef"}]}}),
    ]);
    let (document, is_cut) = assembled(stream.as_bytes(), 7, 1 << 20);
    assert!(!is_cut);
    assert_eq!(document["response"]["output"][0]["content"], "sk-abcdef");
}

proptest! {
    #[test]
    fn no_stream_makes_it_panic_or_grow(text in "(data: |\\{\"choices\":\\[|\\{\"index\":[01],\"delta\":\\{\"a\":|\"x\"|[\\]\\}\n1,]|null|\\PC){0,60}", size in 1_usize..50) {
        let mut assembly = Assembly::new(64);
        text.as_bytes().chunks(size).for_each(|piece| assembly.feed(piece));
        assembly.end();
    }
}
