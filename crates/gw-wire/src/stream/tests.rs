//! The rules of client streams, one by one, on the normaliser alone.

mod endings;

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::*;

fn opening(shape: Shape, choices: u32, include_usage: bool) -> Opening {
    let id = "chatcmpl-1".into();
    Opening { shape, id, created: 7, model: "m".into(), choices, include_usage, form: None, prompt_tokens: 0 }
}

fn meta() -> GatewayMeta {
    GatewayMeta { latency_ms: 5, ..GatewayMeta::example() }
}

fn text(choice: u32, text: &str) -> Event<'_> {
    Event::Text { choice, text: Cow::Borrowed(text), logprobs: None }
}

fn finish(choice: u32, reason: Finish) -> Event<'static> {
    Event::Finish { choice, reason }
}

/// Normalises the events and returns the frames as JSON, with `[DONE]` as a string.
fn run(opening: Opening, events: Vec<Event<'_>>) -> Vec<Value> {
    let mut normaliser = Normaliser::new(opening);
    let mut out = Vec::new();
    for event in events {
        normaliser.accept(event, &mut out);
    }
    normaliser.accept(Event::End, &mut out);
    assert!(normaliser.is_complete(), "{:?}", normaliser.take_failure());
    let estimate = Usage::estimate(2, normaliser.answer_bytes());
    let usage = normaliser.reported_usage().unwrap_or(estimate);
    normaliser.finish(&Closing { usage, cost: Some(Money::ZERO), gateway: &meta() }, &mut out);
    frames(&out)
}

fn frames(out: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(out).unwrap();
    assert!(text.ends_with("\n\n"));
    text.split_terminator("\n\n")
        .map(|frame| {
            let data = frame.strip_prefix("data: ").unwrap();
            assert!(!data.contains('\n'));
            serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()))
        })
        .collect()
}

#[test]
fn a_plain_stream_has_role_text_finish_and_done() {
    let got = run(
        opening(Shape::Chat, 1, false),
        vec![
            Event::Start { model: Some("m-1".into()), fingerprint: None },
            text(0, ""),
            text(0, "Hé\u{2028}"),
            finish(0, Finish::Stop),
        ],
    );
    assert_eq!(got.len(), 4);
    assert_eq!(got[0]["choices"][0]["delta"], serde_json::json!({"role": "assistant"}));
    assert_eq!(got[0]["model"], "m-1");
    assert_eq!(got[1]["choices"][0]["delta"], serde_json::json!({"content": "Hé\u{2028}"}));
    assert!(got[1]["choices"][0]["finish_reason"].is_null());
    assert_eq!(got[2]["choices"][0]["delta"], serde_json::json!({}));
    assert_eq!(got[2]["choices"][0]["finish_reason"], "stop");
    assert_eq!(got[2]["gateway"]["request_id"], "req_1");
    assert!(got.iter().all(|frame| frame.get("usage").is_none()));
    assert_eq!(got[3], "[DONE]");
}

#[test]
fn a_usage_chunk_comes_last_and_only_on_request() {
    let usage = Usage { prompt: 3, completion: 2, cached: Some(1), ..Usage::default() };
    let got = run(
        opening(Shape::Chat, 1, true),
        vec![text(0, "a"), finish(0, Finish::Length), Event::Usage(usage)],
    );
    assert!(got[..3].iter().all(|frame| frame["usage"].is_null() && frame.get("gateway").is_none()));
    assert_eq!(got[3]["choices"], serde_json::json!([]));
    assert_eq!(got[3]["usage"]["total_tokens"], 5);
    assert_eq!(got[3]["usage"]["prompt_tokens_details"]["cached_tokens"], 1);
    assert_eq!(got[3]["gateway"]["provider"], "acme");
    assert_eq!(got[4], "[DONE]");
}

#[test]
fn tool_calls_are_counted_from_zero_and_named_once() {
    let start = |call, id: &'static str, name: &'static str| Event::ToolStart {
        choice: 0,
        call,
        id: id.into(),
        name: name.into(),
    };
    let got = run(
        opening(Shape::Chat, 1, false),
        vec![
            start(4, "a", "f"),
            Event::ToolArgs { choice: 0, call: 4, fragment: "{\"x\":".into() },
            start(4, "a", "f"),
            Event::ToolArgs { choice: 0, call: 4, fragment: "1}".into() },
            start(9, "", "g"),
            finish(0, Finish::ToolCalls),
        ],
    );
    let deltas: Vec<&Value> = got.iter().filter_map(|f| f.pointer("/choices/0/delta/tool_calls/0")).collect();
    assert_eq!(deltas.len(), 5);
    assert_eq!(deltas[0]["index"], 0);
    assert_eq!(deltas[0]["function"], serde_json::json!({"name": "f", "arguments": ""}));
    assert_eq!(*deltas[1], serde_json::json!({"index": 0, "function": {"arguments": "{\"x\":"}}));
    assert_eq!(deltas[3]["index"], 1);
    assert!(!deltas[3]["id"].as_str().unwrap().is_empty());
    assert_eq!(*deltas[4], serde_json::json!({"index": 1, "function": {"arguments": "{}"}}));
}

#[test]
fn a_custom_call_may_have_no_input() {
    let start =
        |call, name: &'static str| Event::CustomStart { choice: 0, call, id: "a".into(), name: name.into() };
    let got = run(
        opening(Shape::Chat, 1, false),
        vec![
            start(0, "f"),
            Event::ToolArgs { choice: 0, call: 0, fragment: "any \"text".into() },
            start(1, "g"),
            finish(0, Finish::ToolCalls),
        ],
    );
    let deltas: Vec<&Value> = got.iter().filter_map(|f| f.pointer("/choices/0/delta/tool_calls/0")).collect();
    let begun = |index: u32, name: &str| serde_json::json!({"index": index, "id": "a", "type": "custom", "custom": {"name": name, "input": ""}});
    let piece = serde_json::json!({"index": 0, "custom": {"input": "any \"text"}});
    assert_eq!(deltas, [&begun(0, "f"), &piece, &begun(1, "g")]);
}

#[test]
fn tool_calls_without_end_are_a_failure() {
    let mut normaliser = Normaliser::new(opening(Shape::Chat, 1, false));
    let mut out = Vec::new();
    for call in 0..=u32::try_from(MAX_TOOL_CALLS).unwrap() {
        assert!(!normaliser.has_failed(), "{call}");
        let event = Event::ToolStart { choice: 0, call, id: "a".into(), name: "f".into() };
        normaliser.accept(event, &mut out);
    }
    assert_eq!(normaliser.take_failure().unwrap().kind, FailureKind::InvalidResponse);
}

#[test]
fn roles_go_out_in_index_order() {
    let got = run(
        opening(Shape::Chat, 3, false),
        vec![
            text(2, "c"),
            text(0, "a"),
            text(1, "b"),
            finish(1, Finish::Stop),
            finish(0, Finish::Stop),
            finish(2, Finish::Stop),
        ],
    );
    let roles: Vec<_> = got
        .iter()
        .filter(|f| f.pointer("/choices/0/delta/role").is_some())
        .map(|f| &f["choices"][0]["index"])
        .collect();
    assert_eq!(roles, [0, 1, 2]);
    let gateways = got.iter().filter(|f| f.get("gateway").is_some()).count();
    assert_eq!(gateways, 1);
}

#[test]
fn text_completions_have_no_role_chunk() {
    let got = run(opening(Shape::Text, 1, false), vec![text(0, "x"), finish(0, Finish::ToolCalls)]);
    assert_eq!(got[0]["object"], "text_completion");
    assert_eq!(
        got[0]["choices"][0],
        serde_json::json!({"index":0,"text":"x","logprobs":null,"finish_reason":null})
    );
    assert_eq!(got[1]["choices"][0]["finish_reason"], "stop");
}

#[test]
fn an_end_without_a_finish_reason_is_a_failure() {
    for by_eof in [true, false] {
        let mut normaliser = Normaliser::new(opening(Shape::Chat, 1, false));
        let mut out = Vec::new();
        normaliser.accept(text(0, "half"), &mut out);
        if by_eof {
            normaliser.eof()
        } else {
            normaliser.accept(Event::End, &mut out)
        }
        assert!(!normaliser.is_complete());
        assert_eq!(normaliser.take_failure().unwrap().kind, FailureKind::StreamBroken);
    }
}

#[test]
fn a_finished_answer_without_an_end_marker_is_complete() {
    let mut normaliser = Normaliser::new(opening(Shape::Chat, 1, false));
    let mut out = Vec::new();
    normaliser.accept(finish(0, Finish::Stop), &mut out);
    normaliser.eof();
    assert!(normaliser.is_complete());
}

#[test]
fn an_unrequested_choice_is_refused() {
    let mut normaliser = Normaliser::new(opening(Shape::Chat, 1, false));
    normaliser.accept(text(4_000_000_000, "x"), &mut Vec::new());
    assert_eq!(normaliser.take_failure().unwrap().kind, FailureKind::InvalidResponse);
}

#[test]
fn a_continuation_keeps_id_and_model_and_sends_no_role() {
    let mut broken = Normaliser::new(opening(Shape::Chat, 1, false)).with_kept_text();
    let mut out = Vec::new();
    broken.accept(text(0, "half "), &mut out);
    broken.eof();
    assert_eq!(broken.sent_text(), Some("half "));
    let mut next = broken.continuation();
    let begun = out.len();
    assert!(!next.has_content());
    next.accept(text(0, "whole"), &mut out);
    assert!(next.has_content());
    assert_eq!(next.sent_text(), Some("half whole"));
    let rest = String::from_utf8(out.split_off(begun)).unwrap();
    assert!(!rest.contains("role") && rest.contains("whole"), "{rest}");
    let first = String::from_utf8(out).unwrap();
    let head =
        |text: &str| text.rsplit("data: ").next().unwrap().split("\"choices\"").next().unwrap().to_owned();
    assert_eq!(head(&first), head(&rest), "the same id, time and model");
}

#[test]
fn only_plain_text_is_kept_for_a_continuation() {
    let mut normaliser = Normaliser::new(opening(Shape::Chat, 1, false)).with_kept_text();
    let mut out = Vec::new();
    normaliser.accept(text(0, "a"), &mut out);
    let call = Event::ToolStart { choice: 0, call: 0, id: "x".into(), name: "f".into() };
    normaliser.accept(call, &mut out);
    normaliser.accept(text(0, "b"), &mut out);
    assert_eq!(normaliser.sent_text(), None);
    assert_eq!(Normaliser::new(opening(Shape::Chat, 1, false)).sent_text(), None);
}

#[test]
fn images_are_numbered_per_choice_and_extra_members_come_last() {
    let image = |choice, base64: &'static str| Event::Image {
        choice,
        image: crate::reply::Image { media_type: "image/png".into(), base64: base64.into(), tokens: 100 },
    };
    let member = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
    let (tier, last) = (member("\"flex\""), member("\"default\""));
    let events = vec![
        image(0, "YQ=="),
        Event::Member { name: "service_tier", value: &tier },
        image(1, "Yg=="),
        image(0, "Yw=="),
        Event::Member { name: "service_tier", value: &last },
        finish(0, Finish::Stop),
        finish(1, Finish::Stop),
    ];
    let chunks = run(opening(Shape::Chat, 2, true), events);
    let images: Vec<(u64, u64, &str)> = chunks
        .iter()
        .filter_map(|chunk| {
            let choice = &chunk["choices"][0];
            let image = choice["delta"]["images"].get(0)?;
            let url = image["image_url"]["url"].as_str()?;
            Some((choice["index"].as_u64()?, image["index"].as_u64()?, url))
        })
        .collect();
    assert_eq!(
        images,
        [
            (0, 0, "data:image/png;base64,YQ=="),
            (1, 0, "data:image/png;base64,Yg=="),
            (0, 1, "data:image/png;base64,Yw=="),
        ]
    );
    let usage = &chunks[chunks.len() - 2];
    assert_eq!(
        (&usage["service_tier"], &usage["usage"]["completion_tokens"]),
        (&"default".into(), &300.into())
    );
}

#[test]
fn a_text_completion_has_no_images() {
    let image = crate::reply::Image { media_type: "image/png".into(), base64: "YQ==".into(), tokens: 1 };
    let chunks = run(
        opening(Shape::Text, 1, false),
        vec![Event::Image { choice: 0, image }, text(0, "a"), finish(0, Finish::Stop)],
    );
    assert!(chunks.iter().all(|chunk| !chunk.to_string().contains("images")), "{chunks:?}");
}

#[test]
fn streams_and_documents_have_equal_members() {
    let member = |bytes: usize| RawValue::from_string(format!("\"{}\"", "x".repeat(bytes - 2))).unwrap();
    let most = crate::reply::MAX_MEMBER_BYTES;
    for (bytes, is_there) in [(100_000, true), (most, true), (most + 1, false)] {
        let value = member(bytes);
        let event = || Event::Member { name: "moderation", value: &value };
        let chunks = run(
            opening(Shape::Chat, 1, false),
            vec![text(0, "a"), event(), event(), finish(0, Finish::Stop)],
        );
        let told = chunks.iter().filter(|chunk| chunk["moderation"].is_string()).count();
        assert_eq!(told, usize::from(is_there), "{bytes} in a stream");
        let members = vec![("moderation".into(), Cow::Borrowed(&*value))];
        let reply = crate::reply::ChatReply { members, ..Default::default() };
        let whole = crate::render::cacheable_chat(&reply, "", "m", "f", &Usage::default());
        let whole: Value = serde_json::from_slice(&whole).unwrap();
        assert_eq!(whole["moderation"].is_string(), is_there, "{bytes} in a whole answer");
    }
}

#[test]
fn what_no_chunk_holds_counts_and_is_a_sign_of_work() {
    let mut normaliser = Normaliser::new(opening(Shape::Chat, 1, false));
    let mut out = Vec::new();
    normaliser.accept(Event::Written { bytes: 30 }, &mut out);
    assert_eq!((normaliser.answer_bytes(), normaliser.signs_of_work()), (30, 1));
    assert!(out.is_empty() && !normaliser.has_content());
}

#[test]
fn spoken_words_and_encrypted_thoughts_count_and_readable_details_do_not() {
    let size = |name: &str, value: &str| {
        let value = RawValue::from_string(value.to_owned()).unwrap();
        Event::Extra { choice: 0, name, value: &value }.answer_bytes()
    };
    assert_eq!(size("audio", r#"{"id":"audio_1","expires_at":5}"#), 0);
    assert_eq!(size("audio", r#"{"id":"audio_1","transcript":"Hello"}"#), 5);
    assert_eq!(size("audio", &format!(r#"{{"data":"{}"}}"#, "A".repeat(351))), 2);
    assert_eq!(size("reasoning_details", r#"[{"type":"reasoning.text","text":"Hm","signature":"Eq"}]"#), 0);
    assert_eq!(size("reasoning_details", r#"[{"type":"reasoning.encrypted","data":"abc"}]"#), 3);
    // A seal adds its own bytes and base64, which the model did not write.
    let sealed = format!("gw1.{}", "A".repeat(400));
    assert_eq!(size("reasoning_details", &format!(r#"[{{"data":"{sealed}"}},{{"data":"gw1.x"}}]"#)), 175);
    let signature = r#"[{"type":"reasoning.encrypted","data":"abc","format":"google-gemini-v1"}]"#;
    assert_eq!(size("reasoning_details", signature), 0);
    assert_eq!(size("executed_tools", r#"["a"]"#), 5);
    let details = r#"[{"type":"reasoning.text","text":"Hm"},{"type":"reasoning.summary","summary":"So"}]"#;
    assert_eq!(crate::event::thought_bytes(crate::json::View::new(details)), 4);
}
