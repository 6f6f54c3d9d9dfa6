//! Answers that are cut into events and accumulated again.

use gw_wire::failure::{Failure, FailureKind};
use proptest::prelude::*;

use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn text(choice: u32, text: &str) -> Event<'_> {
    Event::Text { choice, text: Cow::Borrowed(text), logprobs: None }
}

fn finish(choice: u32) -> Event<'static> {
    Event::Finish { choice, reason: Finish::Stop }
}

fn gathered(events: &[Event<'_>]) -> Accumulator {
    let mut accumulator = Accumulator::new(10_000);
    events.iter().for_each(|event| accumulator.add(event));
    accumulator
}

#[test]
fn interleaved_choices_are_kept_apart() {
    let start =
        |model| Event::Start { model: Some(Cow::Borrowed(model)), fingerprint: Some(Cow::Borrowed("f")) };
    let usage = |completion| Event::Usage(Usage { completion, ..Usage::default() });
    let reply = gathered(&[
        start(""),
        start("m"),
        start("other"),
        text(1, "c"),
        text(0, "a"),
        Event::Reasoning { choice: 0, text: Cow::Borrowed("r") },
        usage(1),
        text(0, "b"),
        finish(0),
        Event::Refusal { choice: 1, text: Cow::Borrowed("no") },
        Event::Finish { choice: 1, reason: Finish::Length },
        usage(2),
        Event::End,
        text(0, "never"),
    ])
    .into_chat()
    .unwrap();
    assert_eq!((reply.model.as_deref(), reply.fingerprint.as_deref()), (Some("m"), Some("f")));
    assert_eq!(reply.usage.unwrap().completion, 2);
    let [one, other] = &reply.choices[..] else { panic!("{reply:?}") };
    assert_eq!((one.index, one.content.as_deref(), one.reasoning.as_deref()), (0, Some("ab"), Some("r")));
    assert_eq!((other.index, other.content.as_deref(), other.refusal.as_deref()), (1, Some("c"), Some("no")));
    assert_eq!((one.finish, other.finish), (Some(Finish::Stop), Some(Finish::Length)));
}

#[test]
fn tool_calls_are_joined_by_their_handles() {
    let start = |call, id: &'static str, name: &'static str| Event::ToolStart {
        choice: 0,
        call,
        id: Cow::Borrowed(id),
        name: Cow::Borrowed(name),
    };
    let fragment =
        |call, fragment: &'static str| Event::ToolArgs { choice: 0, call, fragment: Cow::Borrowed(fragment) };
    let reply = gathered(&[
        start(7, "id_7", "f"),
        start(3, "", "g"),
        fragment(7, "{\"a\""),
        fragment(3, "{}"),
        start(7, "again", "again"),
        fragment(7, ":1}"),
        fragment(9, "nobody's"),
        Event::Finish { choice: 0, reason: Finish::ToolCalls },
        Event::End,
    ])
    .into_chat()
    .unwrap();
    let calls = &reply.choices[0].tool_calls;
    let parts: Vec<_> = calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
    assert_eq!(parts, [("id_7", "f", "{\"a\":1}"), ("", "g", "{}")]);
}

#[test]
fn images_annotations_and_members_are_kept_and_lists_in_pieces_are_joined() {
    let (first, second, none, tier) = (raw("[{\"a\":1}]"), raw("[ {\"b\":2} ]"), raw("[]"), raw("\"flex\""));
    let extra = |name, value| Event::Extra { choice: 0, name, value };
    let image = Image { media_type: "image/png".into(), base64: "YQ==".into(), tokens: 1 };
    let reply = gathered(&[
        text(0, "a"),
        Event::Image { choice: 0, image: image.clone() },
        extra("images", &*first),
        extra("images", &*none),
        extra("images", &*second),
        extra("annotations", &*second),
        Event::Member { name: "service_tier", value: &tier },
        finish(0),
        Event::End,
    ])
    .into_chat()
    .unwrap();
    let choice = &reply.choices[0];
    assert_eq!(choice.images, [image]);
    let extras: Vec<_> = choice.extras.iter().map(|(name, value)| (&**name, value.get())).collect();
    assert_eq!(extras, [("images", "[{\"a\":1},{\"b\":2}]"), ("annotations", "[ {\"b\":2} ]")]);
    assert_eq!((&*reply.members[0].0, reply.members[0].1.get()), ("service_tier", "\"flex\""));
    let twice = gathered(&[extra("audio", &*first), extra("audio", &*first), finish(0), Event::End]);
    assert!(twice.into_chat().is_none(), "only lists can be joined");
}

#[test]
fn logprobs_of_all_chunks_are_joined() {
    let parts = [
        raw(r#"{"content":[{"token":"a"}],"refusal":null}"#),
        raw("null"),
        raw(r#"{"content":[1, 2],"refusal":null}"#),
    ];
    let mut events: Vec<_> = parts
        .iter()
        .map(|part| Event::Text { choice: 0, text: Cow::Borrowed("x"), logprobs: Some(part) })
        .collect();
    events.extend([finish(0), Event::End]);
    let reply = gathered(&events).into_text().unwrap();
    let logprobs = reply.choices[0].logprobs.as_deref().unwrap().get();
    assert_eq!(logprobs, r#"{"content":[{"token":"a"},1,2],"refusal":null}"#);
    assert_eq!(reply.choices[0].text, "xxx");
}

#[test]
fn reasoning_details_and_custom_calls_are_joined() {
    let entries = [raw(r#"[{"index":0}]"#), raw(r#"[{"index":1},{"index":2}]"#)];
    let extra = |at: usize| Event::Extra { choice: 0, name: "reasoning_details", value: &entries[at] };
    let start = Event::CustomStart { choice: 0, call: 0, id: "c".into(), name: "f".into() };
    let input = |fragment: &'static str| Event::ToolArgs { choice: 0, call: 0, fragment: fragment.into() };
    let events = [extra(0), extra(1), start, input("a "), input("b"), finish(0), Event::End];
    let reply = gathered(&events).into_chat().unwrap();
    let choice = &reply.choices[0];
    assert_eq!(choice.extras[0].1.get(), r#"[{"index":0},{"index":1},{"index":2}]"#);
    let call = &choice.tool_calls[0];
    assert_eq!((&*call.name, &*call.arguments, call.custom), ("f", "a b", true));
    // An entry that comes in pieces cannot be joined.
    assert!(gathered(&[extra(0), extra(0), finish(0), Event::End]).into_chat().is_none());
}

#[test]
fn t02_nothing_comes_of_a_stream_that_is_not_whole() {
    let extra = raw("{\"data\":\"x\"}");
    let extra = || Event::Extra { choice: 0, name: "audio", value: &extra };
    let odd = raw("{\"content\":7}");
    let odd = || Event::Text { choice: 0, text: Cow::Borrowed("x"), logprobs: Some(&odd) };
    let failure = || Event::Error(Failure::new(FailureKind::StreamBroken, "broken"));
    let large = "x".repeat(10_001);
    for (why, events) in [
        ("nothing came", vec![Event::End]),
        ("no end", vec![text(0, "a"), finish(0)]),
        ("no finish", vec![text(0, "a"), Event::End]),
        ("a choice without finish", vec![text(0, "a"), text(1, "b"), finish(0), Event::End]),
        ("a choice that is missing", vec![text(1, "a"), finish(1), Event::End]),
        ("a failure", vec![text(0, "a"), failure(), finish(0), Event::End]),
        ("a failure behind the finish", vec![text(0, "a"), finish(0), failure(), Event::End]),
        ("too much", vec![text(0, &large), finish(0), Event::End]),
        ("too many choices", vec![finish(u32::MAX), Event::End]),
        ("what is not known how to join", vec![extra(), extra(), finish(0), Event::End]),
        ("odd logprobs", vec![odd(), finish(0), Event::End]),
    ] {
        assert!(gathered(&events).finishes().is_none(), "{why}");
        assert!(gathered(&events).into_chat().is_none(), "{why}");
        assert!(gathered(&events).into_text().is_none(), "{why}");
    }
    let mut silent = gathered(&[text(0, "a"), finish(0)]);
    silent.finish();
    assert_eq!(silent.finishes(), Some(vec![Finish::Stop]), "the caller saw the end elsewhere");
    assert!(gathered(&[extra(), finish(0), Event::End]).into_chat().is_some());
}

proptest! {
    #[test]
    fn every_cut_of_a_text_gives_the_same_answer(
        whole in ".{0,80}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let ends: Vec<usize> = whole.char_indices().map(|(at, _)| at).chain([whole.len()]).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut.get(&ends)).chain([0, whole.len()]).collect();
        cuts.sort_unstable();
        let mut accumulator = Accumulator::new(10_000);
        cuts.windows(2).for_each(|cut| accumulator.add(&text(0, &whole[cut[0]..cut[1]])));
        accumulator.add(&finish(0));
        accumulator.add(&Event::End);
        prop_assert_eq!(&*accumulator.into_text().unwrap().choices[0].text, &whole);
    }
}

#[test]
fn of_a_member_that_every_chunk_repeats_the_last_one_counts() {
    let (value, last) = (raw(&format!("[\"{}\"]", "x".repeat(4_000))), raw("[\"y\"]"));
    let member = |value| Event::Member { name: "citations", value };
    let mut events = vec![text(0, "a")];
    events.extend((0..100).map(|_| member(&*value)));
    events.extend([member(&last), finish(0), Event::End]);
    let reply = gathered(&events).into_chat().expect("it is not larger than allowed");
    assert_eq!(reply.members[0].1.get(), "[\"y\"]");
    // As in a stream and in a whole answer: what is too large is left out, and the rest is kept.
    let large = raw(&format!("\"{}\"", "x".repeat(1 << 20)));
    let events = [text(0, "a"), member(&value), member(&large), finish(0), Event::End];
    assert!(gathered(&events).into_chat().expect("the rest is kept").members.is_empty());
}
