//! Complete responses.

use gw_wire::failure::FailureKind;
use gw_wire::reply::Finish;
use serde_json::{Value, json};

use super::super::response::decode;
use super::{bytes, encode, sent};

#[test]
fn a_full_answer_is_read() {
    let body = bytes("full.response.json");
    let reply = decode(&body, None).unwrap();
    let [choice] = &reply.choices[..] else { panic!() };
    // The answer holds all text blocks, including those with citations.
    assert_eq!(choice.content.as_deref(), Some("東京と大阪 (cited)"));
    assert_eq!(choice.reasoning.as_deref(), Some("Think 🤔."));
    assert_eq!(choice.finish, Some(Finish::ToolCalls));
    let calls: Vec<Value> = choice
        .tool_calls
        .iter()
        .map(|call| json!([call.id, call.name, serde_json::from_str::<Value>(&call.arguments).unwrap()]))
        .collect();
    assert_eq!(
        calls,
        [json!(["tooluse_A1", "get_weather", {"city": "東京", "n": 1.5}]), json!(["tooluse_B2", "now", {}])]
    );
    assert_eq!((reply.model, reply.fingerprint), (None, None));
}

#[test]
fn cached_tokens_are_prompt_tokens() {
    let body = bytes("full.response.json");
    let usage = decode(&body, None).unwrap().usage.unwrap();
    assert_eq!((usage.prompt, usage.completion), (1049, 74));
    assert_eq!((usage.cached, usage.cache_write, usage.estimated), (Some(1000), Some(24), false));
    let with = |usage: &str| {
        let body = format!(r#"{{"output":{{"message":{{"content":[]}}}},"usage":{usage}}}"#);
        decode(body.as_bytes(), None)
            .unwrap()
            .usage
            .map(|usage| (usage.prompt, usage.completion, usage.estimated))
    };
    assert_eq!(with(r#"{"inputTokens":3,"outputTokens":4}"#), Some((3, 4, false)));
    assert_eq!(with("null"), None);
    assert_eq!(with("{}"), None);
    assert_eq!(with(r#"{"inputTokens":3}"#), Some((3, 0, true)));
    assert_eq!(with(r#"{"inputTokens":-3,"outputTokens":1e30}"#), Some((0, 1 << 32, true)));
    assert_eq!(with(r#"{"inputTokens":"x","outputTokens":1}"#), Some((0, 1, true)));
}

#[test]
fn signed_reasoning_makes_the_round_trip() {
    let body = bytes("full.response.json");
    let reply = decode(&body, None).unwrap();
    let (name, details) = &reply.choices[0].extras[1];
    assert_eq!(name, "reasoning_details");
    let details: Value = serde_json::from_str(details.get()).unwrap();
    assert_eq!(
        details,
        json!([
            {"type": "reasoning.text", "text": "Think 🤔.", "signature": "RXVlQ3NJ", "format": "anthropic-claude-v1", "index": 0},
            {"type": "reasoning.encrypted", "data": "cmVkYWN0ZWQ=", "format": "anthropic-claude-v1", "index": 1},
            {"type": "gateway.order", "order": "d d t9 t6 t8 c c", "index": 2},
        ])
    );
    let history = json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "y", "reasoning_details": details},
        {"role": "user", "content": "z"},
    ]);
    let again = sent(json!({"messages": history}));
    assert_eq!(
        again["messages"][1]["content"],
        json!([
            {"reasoningContent": {"reasoningText": {"text": "Think 🤔.", "signature": "RXVlQ3NJ"}}},
            {"reasoningContent": {"redactedContent": "cmVkYWN0ZWQ="}},
            {"text": "y"},
        ])
    );
    // Models without signatures refuse signatures and reasoning.
    let other = encode(json!({"model": "us.deepseek.r1-v1:0", "messages": history})).unwrap();
    assert_eq!(super::body(&other)["messages"][1]["content"], json!([{"text": "y"}]));
    assert_eq!(other.warnings, ["reasoning_dropped"]);
}

#[test]
fn every_stop_reason_has_its_finish() {
    for (reason, finish) in [
        ("end_turn", Some(Finish::Stop)),
        ("stop_sequence", Some(Finish::Stop)),
        ("max_tokens", Some(Finish::Length)),
        ("model_context_window_exceeded", Some(Finish::Length)),
        ("tool_use", Some(Finish::ToolCalls)),
        ("guardrail_intervened", Some(Finish::ContentFilter)),
        ("content_filtered", Some(Finish::ContentFilter)),
        ("news", None),
    ] {
        let body =
            json!({"output": {"message": {"content": [{"text": "x"}]}}, "stopReason": reason}).to_string();
        assert_eq!(decode(body.as_bytes(), None).unwrap().choices[0].finish, finish, "{reason}");
    }
    // Some models report another stop reason than `tool_use` after tool calls.
    let call = json!({"toolUse": {"toolUseId": "a", "name": "f", "input": null}});
    let body = json!({"output": {"message": {"content": [call]}}, "stopReason": "end_turn"}).to_string();
    let reply = decode(body.as_bytes(), None).unwrap();
    assert_eq!(reply.choices[0].finish, Some(Finish::ToolCalls));
    assert_eq!(reply.choices[0].tool_calls[0].arguments, "");
}

#[test]
fn a_model_that_gives_up_is_a_failure() {
    for reason in ["malformed_model_output", "malformed_tool_use"] {
        let body =
            json!({"output": {"message": {"content": [{"text": "x"}]}}, "stopReason": reason}).to_string();
        let failure = decode(body.as_bytes(), None).unwrap_err();
        assert_eq!((failure.kind, failure.detail.as_deref()), (FailureKind::StreamBroken, Some(reason)));
    }
}

#[test]
fn citations_are_annotations() {
    let content = json!([
        {"text": "Größe: "},
        {"citationsContent": {"content": [{"text": "7 m"}], "citations": [
            {"title": "B", "location": {"web": {"url": "https://b.example", "domain": "b.example"}}, "sourceContent": [{"text": "7 metres"}]},
            {"title": "Plan", "source": "plan.pdf", "location": {"documentPage": {"documentIndex": 0, "start": 1, "end": 2}}},
        ]}},
    ]);
    let body = json!({"output": {"message": {"content": content}}, "stopReason": "end_turn"}).to_string();
    let reply = decode(body.as_bytes(), None).unwrap();
    let (name, value) = &reply.choices[0].extras[0];
    assert_eq!(
        (&**name, value.get()),
        (
            "annotations",
            concat!(
                r#"[{"type":"url_citation","url_citation":{"content":"7 metres","end_index":10,"start_index":7,"title":"B","url":"https://b.example"}},"#,
                r#"{"type":"url_citation","url_citation":{"end_index":10,"id":"plan.pdf","start_index":7,"title":"Plan","url":""}}]"#
            )
        )
    );
}

#[test]
fn pictures_are_images() {
    let content = json!([
        {"text": "A cat:"},
        {"image": {"format": "jpeg", "source": {"bytes": "Y2F0"}}},
        {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://bucket/cat.png"}}}},
    ]);
    let body = json!({"output": {"message": {"content": content}}, "stopReason": "end_turn"}).to_string();
    let reply = decode(body.as_bytes(), None).unwrap();
    let [image] = reply.choices[0].images.as_slice() else { panic!("one image") };
    assert_eq!((&*image.media_type, &*image.base64), ("image/jpeg", "Y2F0"));
}

#[test]
fn a_200_without_output_is_no_answer() {
    for body in [
        r#"{"Output":{"__type":"com.amazon.coral.service#UnknownOperationException"},"Version":"1.0"}"#,
        r#"{"message":"Too many requests"}"#,
        r#"{"output":null}"#,
        r#"{"output":{}}"#,
        "{}",
        "[]",
        "",
        "<html>",
        r#"{"output":{"message":{"content":[{"text":5}]}}}"#,
    ] {
        assert_eq!(decode(body.as_bytes(), None).unwrap_err().kind, FailureKind::InvalidResponse, "{body}");
    }
    // An answer without content is valid.
    let empty = decode(
        br#"{"output":{"message":{"role":"assistant","content":null}},"stopReason":"max_tokens"}"#,
        None,
    );
    assert_eq!(empty.unwrap().choices[0].finish, Some(Finish::Length));
}

#[test]
fn a_lone_surrogate_does_not_lose_the_answer() {
    let body = br#"{"output":{"message":{"content":[{"text":"a\ud83d"},{"text":"\ud83d\ude42"}]}}}"#;
    let reply = decode(body, None).unwrap();
    let content = reply.choices[0].content.as_deref().unwrap();
    assert!(content.starts_with("a\u{fffd}") && content.ends_with('🙂'), "{content}");
}
