//! A reader of the log writes the stream that the client would get without sharing.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;
use crate::gateway::GatewayMeta;
use crate::money::Money;
use crate::reply::{Finish, Image};
use crate::stream::Closing;
use crate::usage::Usage;

/// Two choices are asked for.
fn opening(shape: Shape) -> Opening {
    Opening {
        shape,
        id: "chatcmpl-0123456789abcdef".to_owned(),
        created: 1,
        model: "known-before".to_owned(),
        choices: 2,
        include_usage: true,
        form: None,
        prompt_tokens: 7,
    }
}

fn gateway() -> GatewayMeta {
    GatewayMeta {
        model_used: "a/b".into(),
        provider: "a".into(),
        routing_strategy: "fixed",
        latency_ms: 1,
        ..GatewayMeta::example()
    }
}

/// Has a reader's normaliser read a log.
fn read(log: &[u8], reader: &mut Normaliser) -> Vec<u8> {
    let mut out = Vec::new();
    log::read(log).for_each(|event| reader.accept(event.unwrap(), &mut out));
    out
}

/// An event by numbers and a text.
fn event<'a>(kind: u8, choice: u32, call: u32, text: &'a str, json: &'a RawValue) -> Event<'a> {
    let piece = Cow::Borrowed(text);
    match kind {
        0 => Event::Start { model: Some(piece), fingerprint: None },
        1 => Event::Text { choice, text: piece, logprobs: Some(json) },
        2 => Event::Reasoning { choice, text: piece },
        3 => Event::Refusal { choice, text: piece },
        4 => Event::ToolStart { choice, call, id: piece, name: "f".into() },
        5 => Event::CustomStart { choice, call, id: piece, name: "g".into() },
        6 => Event::ToolArgs { choice, call, fragment: piece },
        7 => Event::FunctionCall { choice, name: Some("h".into()), arguments: Some(piece) },
        8 => {
            Event::Image { choice, image: Image { media_type: "image/png".into(), base64: piece, tokens: 9 } }
        }
        9 => Event::Extra { choice, name: "audio", value: json },
        10 => Event::Member { name: "service_tier", value: json },
        11 => Event::Finish { choice, reason: Finish::ToolCalls },
        12 => Event::Usage(Usage { prompt: u64::from(call), ..Usage::default() }),
        13 => Event::End,
        14 => Event::Written { bytes: u64::from(call) },
        _ => Event::Text { choice, text: piece, logprobs: None },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reader_writes_the_stream_of_a_request_that_shares_nothing(
        is_chat in any::<bool>(),
        samples in proptest::collection::vec((0_u8..24, 0_u32..2, 0_u32..3, "[a-c]{0,2}"), 0..24),
    ) {
        let shape = if is_chat { Shape::Chat } else { Shape::Text };
        let json = RawValue::from_string("{\"content\":[1]}".to_owned()).unwrap();
        let mut alone = Normaliser::new(opening(shape));
        let (mut shared, mut reader) = (Normaliser::recording(opening(shape)), Normaliser::new(opening(shape)));
        for (kind, choice, call, text) in &samples {
            let (mut out, mut log) = (Vec::new(), Vec::new());
            alone.accept(event(*kind, *choice, *call, text, &json), &mut out);
            shared.accept(event(*kind, *choice, *call, text, &json), &mut log);
            // A choice of a text completion that only finishes is in the log, and writes nothing for the client.
            let is_finish = !is_chat && *kind == 11;
            // A text that no client sees only counts.
            let is_counted = *kind == 14;
            let is_other = is_finish || is_counted;
            prop_assert!(log.is_empty() == out.is_empty() || is_other, "output is a sign of life");
            prop_assert_eq!(
                String::from_utf8(read(&log, &mut reader)).unwrap(),
                String::from_utf8(out).unwrap()
            );
        }
        prop_assert_eq!(shared.has_content(), alone.has_content());
        prop_assert_eq!(shared.is_complete(), alone.is_complete());
        prop_assert_eq!(shared.failure(), alone.failure());
        prop_assert_eq!(shared.reported_usage(), alone.reported_usage());
        prop_assert_eq!(shared.answer_tokens(), alone.answer_tokens());
        if shared.is_complete() {
            let (mut end, mut log) = (Vec::new(), Vec::new());
            let gateway = gateway();
            let closing = Closing { usage: Usage::default(), cost: Some(Money::ZERO), gateway: &gateway };
            alone.finish(&closing, &mut end);
            shared.finish_recording(&mut log);
            let mut read_end = read(&log, &mut reader);
            prop_assert!(reader.is_complete());
            reader.finish(&closing, &mut read_end);
            prop_assert_eq!(String::from_utf8(read_end).unwrap(), String::from_utf8(end).unwrap());
        }
    }
}

#[test]
fn the_log_begins_with_the_model_and_the_usage_so_far() {
    let mut shared = Normaliser::recording(opening(Shape::Chat));
    let mut out = Vec::new();
    shared.accept(Event::Start { model: Some("reported".into()), fingerprint: None }, &mut out);
    shared.accept(Event::Usage(Usage { prompt: 5, ..Usage::default() }), &mut out);
    assert!(out.is_empty(), "only content is a sign of life");
    shared.accept(Event::Text { choice: 0, text: "a".into(), logprobs: None }, &mut out);
    let events: Vec<_> = log::read(&out).map(Result::unwrap).collect();
    assert!(
        matches!(
            &events[..],
            [Event::Start { model: Some(model), .. }, Event::Usage(Usage { prompt: 5, .. }), Event::Text { .. }]
                if model == "reported"
        ),
        "{events:?}"
    );
}

#[test]
fn a_choice_that_was_not_asked_for_fails_the_shared_stream() {
    let mut shared = Normaliser::recording(opening(Shape::Chat));
    let mut out = Vec::new();
    shared.accept(Event::Text { choice: 2, text: "a".into(), logprobs: None }, &mut out);
    assert!(shared.has_failed() && out.is_empty());
}

#[test]
fn a_stream_that_another_upstream_continues_has_one_beginning() {
    let mut shared = Normaliser::recording(opening(Shape::Chat)).with_kept_text();
    let mut log = Vec::new();
    shared.accept(Event::Text { choice: 0, text: "half ".into(), logprobs: None }, &mut log);
    let mut next = shared.continuation();
    assert!(next.is_recording());
    next.accept(Event::Start { model: Some("other".into()), fingerprint: None }, &mut log);
    next.accept(Event::Text { choice: 0, text: "whole".into(), logprobs: None }, &mut log);
    let starts = log::read(&log).filter(|event| matches!(event, Ok(Event::Start { .. }))).count();
    assert_eq!((starts, next.sent_text()), (1, Some("half whole")));
    let out = String::from_utf8(read(&log, &mut Normaliser::new(opening(Shape::Chat)))).unwrap();
    assert_eq!(out.matches("\"role\"").count(), 1, "{out}");
    assert!(out.contains("half ") && out.contains("whole"));
}
