//! The frames of streams.

use serde_json::json;

use super::{arguments, call, details, frames, meta, opening, raw, reasoning, stream, text, usage};
use crate::dialects::messages::{MessagesContext, MessagesEncoder};
use crate::dialects::{AnswerEncoder, StreamError};
use crate::event::Event;
use crate::money::Money;
use crate::reply::{Finish, Image};
use crate::stream::Closing;
use crate::usage::Usage;

/// The kinds of the frames: `start:text`, `delta`, `stop`, with the index.
fn outline(text: &str) -> Vec<String> {
    let outline = frames(text).into_iter().map(|(name, data)| {
        let index = data["index"].as_u64().map_or(String::new(), |index| index.to_string());
        let kind = data.pointer("/content_block/type").or(data.pointer("/delta/type"));
        let kind = kind.and_then(|kind| kind.as_str()).unwrap_or_default();
        let name = name.strip_prefix("content_block_").unwrap_or(&name).to_owned();
        [name, index, kind.to_owned()].join(" ").trim().to_owned()
    });
    outline.collect()
}

#[test]
fn a_stream_has_the_apis_frames() {
    let signed = raw(&json!([{"type": "reasoning.text", "text": "Hm.", "signature": "sig"}]));
    let events = [
        Event::Start { model: Some("m-1".into()), fingerprint: None },
        reasoning("Hm."),
        details(&signed),
        text("Os"),
        text("lo\u{2028}"),
        call(0, "toolu_1", "get"),
        arguments(0, "{\"city\":"),
        arguments(0, "\"Oslo\"}"),
        call(1, "toolu_2", "now"),
        Event::Usage(usage()),
    ];
    insta::assert_snapshot!("stream", stream(&MessagesContext::default(), &events, Some(Finish::ToolCalls)));
}

#[test]
fn the_start_has_the_estimate_or_the_reported_prompt() {
    let first = |events: &[Event<'_>]| {
        frames(&stream(&MessagesContext::default(), events, None))[0].1["message"]["usage"].clone()
    };
    assert_eq!(first(&[text("a")])["input_tokens"], 12);
    let reported =
        first(&[Event::Usage(Usage { prompt: 30, cached: Some(10), ..Usage::default() }), text("a")]);
    assert_eq!((&reported["input_tokens"], &reported["cache_read_input_tokens"]), (&json!(20), &json!(10)));
    let empty = frames(&stream(&MessagesContext::default(), &[], Some(Finish::Stop)));
    assert_eq!(
        empty.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["message_start", "message_delta", "message_stop"]
    );
}

#[test]
fn parallel_calls_wait_for_each_other() {
    let events = [
        call(0, "a", "f"),
        call(1, "b", "g"),
        arguments(1, "{\"y\":"),
        arguments(0, "{\"x\":1"),
        text("between"),
        arguments(1, "2}"),
        arguments(0, "}"),
        text(" and after"),
    ];
    let got = stream(&MessagesContext::default(), &events, Some(Finish::ToolCalls));
    let expected = [
        "message_start",
        "start 0 tool_use",
        "delta 0 input_json_delta",
        "delta 0 input_json_delta",
        "stop 0",
        "start 1 tool_use",
        "delta 1 input_json_delta",
        "stop 1",
        "start 2 text",
        "delta 2 text_delta",
        "delta 2 text_delta",
        "stop 2",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(outline(&got), expected);
    assert_eq!(frames(&got)[6].1["delta"]["partial_json"], "{\"y\":2}");
}

#[test]
fn a_call_without_arguments_has_no_delta() {
    let got = stream(&MessagesContext::default(), &[call(0, "", "f"), call(1, "b", "g")], Some(Finish::Stop));
    let expected = [
        "message_start",
        "start 0 tool_use",
        "stop 0",
        "start 1 tool_use",
        "stop 1",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(outline(&got), expected);
    let frames = frames(&got);
    assert!(!frames[1].1["content_block"]["id"].as_str().unwrap().is_empty());
    assert_eq!(frames[5].1["delta"]["stop_reason"], "tool_use");
}

#[test]
fn a_late_signature_gets_a_block_of_its_own() {
    let signed = raw(
        &json!([{"type": "reasoning.text", "signature": "sig"}, {"type": "reasoning.encrypted", "data": "d"}]),
    );
    let got = stream(&MessagesContext::default(), &[reasoning("a"), text("b"), details(&signed)], None);
    let expected = [
        "message_start",
        "start 0 thinking",
        "delta 0 thinking_delta",
        "stop 0",
        "start 1 text",
        "delta 1 text_delta",
        "stop 1",
        "start 2 thinking",
        "delta 2 signature_delta",
        "stop 2",
        "start 3 redacted_thinking",
        "stop 3",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(outline(&got), expected);
}

#[test]
fn images_citations_and_refusals_have_frames() {
    let cited = raw(&json!([{"type": "url_citation", "url_citation": {"url": "https://a", "title": "A"}}]));
    let image = Image { media_type: "image/png".into(), base64: "YQ==".into(), tokens: 1 };
    let events = [
        text("a"),
        Event::Extra { choice: 0, name: "annotations", value: &cited },
        Event::Image { choice: 0, image },
        Event::Refusal { choice: 0, text: "No.".into() },
    ];
    let got = stream(&MessagesContext::default(), &events, Some(Finish::Stop));
    let expected = [
        "message_start",
        "start 0 text",
        "delta 0 text_delta",
        "delta 0 citations_delta",
        "stop 0",
        "start 1 image",
        "stop 1",
        "start 2 text",
        "delta 2 text_delta",
        "stop 2",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(outline(&got), expected);
    let end = &frames(&got)[10].1["delta"];
    assert_eq!(end["stop_details"], json!({"type": "refusal", "category": null, "explanation": "No."}));
}

#[test]
fn an_error_ends_the_stream_without_a_stop() {
    let mut encoder = MessagesEncoder::new(MessagesContext::default(), opening());
    let mut out = Vec::new();
    encoder.keepalive(&mut out);
    encoder.accept(&text("a"), &mut out);
    let mut closer = encoder.closer();
    let error = StreamError::new("Too \"slow\".", "upstream_error", "upstream_timeout");
    let begun = out.len();
    encoder.fail(&error, &mut out);
    let got = String::from_utf8(out).unwrap();
    let expected = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"timeout_error\",\"message\":\"Too \\\"slow\\\".\"}}\n\n";
    assert_eq!(&got[begun..], expected);
    assert!(got.starts_with("event: ping\ndata: {\"type\":\"ping\"}\n\nevent: message_start\n"));
    let mut closed = Vec::new();
    closer.fail(&error, &mut closed);
    assert_eq!(String::from_utf8(closed).unwrap(), expected);
    let mut unopened = Vec::new();
    MessagesEncoder::new(MessagesContext::default(), opening()).fail(&error, &mut unopened);
    assert_eq!(outline(&String::from_utf8(unopened).unwrap()), ["message_start", "error"]);
}

#[test]
fn a_copy_continues_the_open_block() {
    let mut encoder = MessagesEncoder::new(MessagesContext::default(), opening());
    let mut out = Vec::new();
    encoder.accept(&text("half "), &mut out);
    let mut copy = encoder.boxed_clone();
    copy.accept(&text("whole"), &mut out);
    let gateway = meta();
    copy.finish(
        Some(Finish::Stop),
        &Closing { usage: usage(), cost: Some(Money::ZERO), gateway: &gateway },
        &mut out,
    );
    let expected = [
        "message_start",
        "start 0 text",
        "delta 0 text_delta",
        "delta 0 text_delta",
        "stop 0",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(outline(&String::from_utf8(out).unwrap()), expected);
}

#[test]
fn waiting_pieces_count_as_memory() {
    let mut encoder = MessagesEncoder::new(MessagesContext::default(), opening());
    let mut out = Vec::new();
    encoder.accept(&call(0, "a", "f"), &mut out);
    encoder.accept(&call(1, "b", "g"), &mut out);
    let before = encoder.held_bytes();
    encoder.accept(&arguments(1, &"x".repeat(1000)), &mut out);
    assert!(encoder.held_bytes() >= before + 1000);
}

#[test]
fn a_further_stop_sequence_ends_the_stream() {
    let context = MessagesContext { extra_stops: ["END".to_owned()].into(), ..Default::default() };
    let got = stream(&context, &[text("one E"), text("ND two"), call(0, "a", "f")], Some(Finish::ToolCalls));
    let frames = frames(&got);
    assert_eq!(frames[2].1["delta"]["text"], "one ");
    assert_eq!(frames[4].1["delta"], json!({"stop_reason": "stop_sequence", "stop_sequence": "END"}));
    assert_eq!(frames.len(), 6);
}
