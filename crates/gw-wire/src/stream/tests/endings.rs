//! The ends of streams: missing choices, prompts without an answer, calls in OpenAI's older form.

use serde_json::{Value, json};

use super::{finish, opening, run, text};
use crate::event::Event;
use crate::failure::FailureKind;
use crate::reply::Finish;
use crate::stream::{Normaliser, Opening, Shape};

/// The failure of a stream that ends after these choices have finished; None: it is complete.
fn ended(mut normaliser: Normaliser, finished: &[u32]) -> Option<FailureKind> {
    let mut out = Vec::new();
    for choice in finished {
        normaliser.accept(text(*choice, "a"), &mut out);
        normaliser.accept(finish(*choice, Finish::Stop), &mut out);
    }
    normaliser.accept(Event::End, &mut out);
    assert_eq!(normaliser.is_complete(), !normaliser.has_failed());
    normaliser.take_failure().map(|failure| failure.kind)
}

#[test]
fn each_of_several_prompts_has_a_finished_choice_and_other_choices_may_be_missing() {
    let (broken, invalid) = (Some(FailureKind::StreamBroken), Some(FailureKind::InvalidResponse));
    let makers: [fn(Opening) -> Normaliser; 2] = [Normaliser::new, Normaliser::recording];
    for (n, prompts, finished, failure) in [
        (1_u32, 1_usize, &[][..], broken),
        (1, 1, &[0], None),
        (2, 1, &[], broken),
        (2, 1, &[0], None),
        (2, 1, &[1], None),
        (3, 1, &[0, 2], None),
        (1, 2, &[], invalid),
        (1, 2, &[0], invalid),
        (1, 2, &[1], invalid),
        (1, 2, &[1, 0], None),
        (2, 2, &[0, 1], invalid),
        (2, 2, &[3, 0], None),
        (2, 3, &[0, 5], invalid),
        (2, 3, &[0, 3, 4], None),
    ] {
        for make in makers {
            let opening = opening(Shape::Text, n * u32::try_from(prompts).unwrap(), false);
            let told = ended(make(opening).with_prompts(prompts), finished);
            assert_eq!(told, failure, "{n} {prompts} {finished:?}");
        }
    }
}

#[test]
fn every_choice_that_the_upstream_has_begun_finishes() {
    let begun = |events: Vec<Event<'_>>| {
        let (mut normaliser, mut out) = (Normaliser::new(opening(Shape::Chat, 2, false)), Vec::new());
        events.into_iter().for_each(|event| normaliser.accept(event, &mut out));
        normaliser
    };
    for (first, second) in [(0, 1), (1, 0)] {
        let events = vec![text(first, "a"), text(second, "b"), finish(first, Finish::Stop)];
        assert_eq!(ended(begun(events), &[]), Some(FailureKind::StreamBroken), "{first} {second}");
    }
    // Without an end marker, nobody knows whether the other choice was cut off.
    let mut unmarked = begun(vec![text(0, "a"), finish(0, Finish::Stop)]);
    unmarked.eof();
    assert_eq!(unmarked.take_failure().unwrap().kind, FailureKind::StreamBroken);
}

/// The indexes of the choices of these chunks that have a property.
fn indexes(chunks: &[Value], has_it: impl Fn(&Value) -> bool) -> Vec<u64> {
    let choices = chunks.iter().filter_map(|chunk| chunk.pointer("/choices/0"));
    choices.filter(|choice| has_it(choice)).filter_map(|choice| choice["index"].as_u64()).collect()
}

#[test]
fn a_choice_that_the_upstream_never_sends_has_no_finish() {
    for (shape, roles) in [(Shape::Chat, vec![0_u64, 1, 2]), (Shape::Text, vec![])] {
        let events = vec![text(2, "c"), finish(2, Finish::Length), text(0, "a"), finish(0, Finish::Stop)];
        let got = run(opening(shape, 4, false), events);
        assert_eq!(indexes(&got, |choice| choice["delta"]["role"].is_string()), roles);
        assert_eq!(indexes(&got, |choice| choice["finish_reason"].is_string()), [0, 2]);
        let [.., last, done] = &got[..] else { panic!("{got:?}") };
        assert_eq!((&last["gateway"]["request_id"], done), (&json!("req_1"), &json!("[DONE]")));
        assert_eq!(last["choices"][0]["finish_reason"], "length");
    }
}

#[test]
fn a_legacy_call_has_its_name_once_and_always_has_arguments() {
    let piece = |name: Option<&'static str>, arguments: Option<&'static str>| Event::FunctionCall {
        choice: 0,
        name: name.map(Into::into),
        arguments: arguments.map(Into::into),
    };
    for (pieces, told) in [
        (vec![piece(Some("f"), None)], json!([{"name": "f"}, {"arguments": "{}"}])),
        (vec![piece(Some("f"), Some(""))], json!([{"name": "f", "arguments": ""}, {"arguments": "{}"}])),
        (
            vec![piece(Some("f"), Some("{")), piece(Some("f"), Some("}")), piece(Some("f"), Some(""))],
            json!([{"name": "f", "arguments": "{"}, {"arguments": "}"}]),
        ),
        (
            vec![piece(Some("f"), None), piece(None, Some("")), piece(None, Some("[]"))],
            json!([{"name": "f"}, {"arguments": "[]"}]),
        ),
    ] {
        let events = pieces.into_iter().chain([finish(0, Finish::FunctionCall)]).collect();
        let got = run(opening(Shape::Chat, 1, false), events);
        let calls: Vec<_> =
            got.iter().filter_map(|frame| frame.pointer("/choices/0/delta/function_call")).collect();
        assert_eq!(json!(calls), told);
    }
}
