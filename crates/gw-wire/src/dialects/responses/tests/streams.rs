//! Streams: every sequence of events.

use serde_json::value::RawValue;

use super::*;
use crate::dialects::StreamError;
use crate::reply::Image;

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

/// A snapshot of the frames of a stream.
fn assert_frames(name: &str, context: &ResponsesContext, events: &[Event<'_>], finish: Finish) {
    let (stream, _) = encoded(context, events, finish);
    assert!(stream.ends_with("data: [DONE]\n\n"));
    insta::assert_snapshot!(name, listed(&stream));
}

fn agent_context() -> ResponsesContext {
    context(&json!({"model": "m", "input": "q", "tools": [
        {"type": "namespace", "name": "mcp__git", "tools": [{"type": "function", "name": "log"}]},
        {"type": "custom", "name": "patch"}]}))
}

#[test]
fn a_text() {
    let events =
        [Event::Start { model: Some("m-1".into()), fingerprint: None }, text("Os"), text("lo.\u{2028}")];
    assert_frames("a_text", &plain_context(), &events, Finish::Stop);
}

#[test]
fn the_snapshots_of_a_text() {
    let (stream, document) = encoded(&plain_context(), &[text("Oslo.")], Finish::Stop);
    let frames = frames(&stream);
    assert_eq!(frames[0]["response"], frames[1]["response"]);
    assert_eq!(frames.last().unwrap()["response"], document);
    insta::assert_json_snapshot!("first_snapshot", frames[0]["response"]);
    insta::assert_json_snapshot!("final_snapshot", document);
}

#[test]
fn thinking_and_a_call() {
    let signature = raw(&json!([{"type": "reasoning.text", "text": "hm", "signature": "gw1.s", "index": 0}]));
    let events = [
        reasoning("h"),
        reasoning("m"),
        Event::Extra { choice: 0, name: "reasoning_details", value: &signature },
        call(0, "call_9", "mcp__git__log"),
        arguments(0, "{\"city\":"),
        arguments(0, "\"Oslo\"}"),
    ];
    assert_frames("thinking_and_a_call", &agent_context(), &events, Finish::ToolCalls);
}

#[test]
fn two_thoughts_with_their_own_strings() {
    let one = raw(&json!([{"type": "reasoning.text", "text": "a", "signature": "s1"}]));
    let two = raw(
        &json!([{"type": "reasoning.encrypted", "data": "s2"}, {"type": "gateway.order", "order": "d d"}]),
    );
    let events = [
        reasoning("a"),
        Event::Extra { choice: 0, name: "reasoning_details", value: &one },
        Event::Extra { choice: 0, name: "reasoning_details", value: &two },
        text("x"),
        Event::Extra { choice: 0, name: "reasoning_details", value: &two },
    ];
    assert_frames("two_thoughts", &plain_context(), &events, Finish::Stop);
}

#[test]
fn raw_reasoning_on_request() {
    let context = context(&json!({"model": "m", "input": "q", "include": ["reasoning.content"]}));
    assert_frames("raw_reasoning", &context, &[reasoning("hm"), text("x")], Finish::Stop);
}

#[test]
fn parallel_calls_come_one_after_the_other() {
    let events = [
        call(0, "a", "f"),
        call(1, "b", "g"),
        arguments(1, "{\"y\""),
        arguments(0, "{\"x\":\"}\"}"),
        arguments(1, ":2}"),
        call(2, "", "h"),
        text("after"),
    ];
    assert_frames("parallel_calls", &plain_context(), &events, Finish::ToolCalls);
}

#[test]
fn custom_tools() {
    let events = [
        custom(0, "a", "patch"),
        arguments(0, "*** \"Begin"),
        call(1, "b", "patch"),
        arguments(1, "{\"input\":\"a\\n"),
        arguments(1, "b\"}"),
    ];
    assert_frames("custom_tools", &agent_context(), &events, Finish::ToolCalls);
}

#[test]
fn a_refusal() {
    assert_frames(
        "a_refusal",
        &plain_context(),
        &[text("Hm. "), refusal("I "), refusal("won't.")],
        Finish::ContentFilter,
    );
}

#[test]
fn annotations_and_log_probabilities() {
    let context = context(&json!({"model": "m", "input": "q", "include": ["message.output_text.logprobs"]}));
    let logprobs = raw(
        &json!({"content": [{"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}], "refusal": null}),
    );
    let cited = raw(
        &json!([{"type": "url_citation", "url_citation": {"url": "https://e.com", "title": "e", "start_index": 0, "end_index": 1}}]),
    );
    let events = [
        Event::Text { choice: 0, text: "x".into(), logprobs: Some(&logprobs) },
        Event::Extra { choice: 0, name: "annotations", value: &cited },
        text("y"),
    ];
    assert_frames("annotations", &context, &events, Finish::Stop);
}

#[test]
fn an_image() {
    let image = Image { media_type: "image/webp".into(), base64: "AAAA".into(), tokens: 1 };
    let other = raw(&json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,BBBB"}}]));
    let events = [
        text("x"),
        Event::Image { choice: 0, image },
        Event::Extra { choice: 0, name: "images", value: &other },
    ];
    assert_frames("an_image", &plain_context(), &events, Finish::Stop);
}

#[test]
fn the_limit_ends_the_last_item() {
    assert_frames("the_limit", &plain_context(), &[call(0, "a", "f"), arguments(0, "{\"x")], Finish::Length);
    let (_, document) = encoded(&plain_context(), &[text("x")], Finish::Length);
    assert_eq!(document["incomplete_details"], json!({"reason": "max_output_tokens"}));
    assert_eq!(document["completed_at"], Value::Null);
    assert_eq!(document["output"][0]["status"], "incomplete");
    let (_, document) = encoded(&plain_context(), &[text("x")], Finish::ContentFilter);
    assert_eq!(document["incomplete_details"], json!({"reason": "content_filter"}));
}

#[test]
fn an_empty_answer_has_an_empty_message() {
    let (_, document) = encoded(&plain_context(), &[], Finish::Stop);
    assert_eq!(document["output"][0]["content"][0]["text"], "");
}

fn failed(mut encoder: Box<dyn AnswerEncoder>, events: &[Event<'_>]) -> (String, Value) {
    let mut out = Vec::new();
    events.iter().for_each(|event| encoder.accept(event, &mut out));
    let error = StreamError::new("Broke.", "upstream_error", "upstream_stream_error");
    encoder.fail(&error, &mut out);
    encoder.fail(&error, &mut out);
    let stream = String::from_utf8(out).unwrap();
    let document = final_object(&stream);
    (stream, document)
}

#[test]
fn a_failure_ends_with_two_events_and_keeps_the_content() {
    let encoder = Box::new(plain_context().stream(opening()));
    let (stream, document) = failed(encoder, &[text("half"), call(0, "a", "f"), arguments(0, "{\"x")]);
    insta::assert_snapshot!("a_failure", listed(&stream));
    assert_eq!(document["error"], json!({"code": "server_error", "message": "Broke."}));
    assert_eq!(document["output"][1]["status"], "incomplete");
    assert_eq!(document["usage"], Value::Null);
}

#[test]
fn a_closer_goes_on_with_the_numbers() {
    let mut encoder = plain_context().stream(opening());
    let mut out = Vec::new();
    encoder.accept(&text("half"), &mut out);
    let written = frames(std::str::from_utf8(&out).unwrap()).len();
    let (stream, document) = failed(encoder.closer(), &[]);
    let rest = frames(&stream);
    assert_eq!(rest[0]["type"], "error");
    assert_eq!(rest[0]["sequence_number"], written);
    assert_eq!(document["output"], json!([]));
}

#[test]
fn a_sign_of_life_is_a_comment_and_later_an_event() {
    let mut encoder = plain_context().stream(opening());
    let mut out = Vec::new();
    encoder.keepalive(&mut out);
    assert_eq!(out, crate::stream::KEEPALIVE);
    encoder.accept(&text("x"), &mut out);
    encoder.keepalive(&mut out);
    let frames = frames(std::str::from_utf8(&out).unwrap());
    assert_eq!(frames.last().unwrap()["type"], "response.in_progress");
    assert_eq!(frames.last().unwrap()["sequence_number"], frames.len() - 1);
}

#[test]
fn events_before_the_content_write_nothing() {
    let mut encoder = plain_context().stream(opening());
    let mut out = Vec::new();
    let tier = raw(&json!("flex"));
    encoder.accept(&Event::Start { model: Some("m-2".into()), fingerprint: None }, &mut out);
    encoder.accept(&Event::Member { name: "service_tier", value: &tier }, &mut out);
    encoder.accept(&Event::Usage(usage()), &mut out);
    encoder.accept(&text(""), &mut out);
    assert!(out.is_empty());
    encoder.open(&mut out);
    let frames = frames(std::str::from_utf8(&out).unwrap());
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[1]["response"]["model"], "m-2");
    assert_eq!(frames[1]["response"]["service_tier"], "flex");
}
