//! Random behaviour of upstreams and clients.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::harness::{Client, Head, Leaving, Piece, Script, Step, document};

pub(crate) fn millis() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0), 1..50_u64, 200..2_000_u64, 5_000..16_000_u64].prop_map(Duration::from_millis)
}

fn text() -> impl Strategy<Value = String> {
    "[a-z]{1,12} "
}

/// Tokens of prompt and answer; never 0, which nobody believes.
fn usage() -> impl Strategy<Value = (u64, u64)> {
    (1..500_u64, 1..900_u64)
}

fn quiet_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => millis().prop_map(Step::Wait),
        1 => Just(Step::Piece(Piece::Comment)),
        1 => Just(Step::Piece(Piece::Role)),
    ]
}

fn usage_step() -> impl Strategy<Value = Step> {
    usage().prop_map(|(prompt, completion)| Step::Piece(Piece::Usage(prompt, completion)))
}

fn text_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => text().prop_map(|text| Step::Piece(Piece::Text(text))),
        1 => quiet_step(),
    ]
}

/// How a stream ends: well, with or without its usage and its marker; or not well.
fn end() -> impl Strategy<Value = Vec<Step>> {
    let (finish, done) = (Step::Piece(Piece::Finish), Step::Piece(Piece::Done));
    let well = (proptest::option::of(usage_step()), any::<bool>(), proptest::option::of(millis()));
    let well = well.prop_map(move |(usage, is_marked, wait)| {
        let mut steps = vec![finish.clone()];
        steps.extend(wait.map(Step::Wait));
        steps.extend(usage);
        steps.extend(is_marked.then(|| done.clone()));
        steps
    });
    prop_oneof![
        5 => well,
        1 => Just(vec![]),
        2 => Just(vec![Step::Break]),
        1 => Just(vec![Step::Silence]),
        1 => Just(vec![Step::Piece(Piece::Error)]),
    ]
}

fn body() -> impl Strategy<Value = Vec<Step>> {
    let first = vec(prop_oneof![4 => quiet_step().boxed(), 1 => usage_step().boxed()], 0..3);
    let parts = (first, vec(text_step(), 0..6), end());
    parts.prop_map(|(first, texts, end)| first.into_iter().chain(texts).chain(end).collect())
}

fn whole() -> impl Strategy<Value = Head> {
    let steps = prop_oneof![
        4 => vec(millis().prop_map(Step::Wait), 0..2),
        1 => Just(vec![Step::Break]),
        1 => Just(vec![Step::Silence]),
    ];
    (text(), proptest::option::of(usage()), steps)
        .prop_map(|(text, usage, steps)| Head::Document(document(&text, usage), steps))
}

pub(crate) fn script(stream: bool) -> impl Strategy<Value = Script> {
    let status = prop_oneof![Just(400), Just(401), Just(404), Just(429), 500..504_u16];
    let refused = (status, proptest::option::of(1..4_u64));
    let refused = refused.prop_map(|(status, retry_after)| Head::Status(status, retry_after));
    let (streams, documents) = if stream { (8, 1) } else { (0, 8) };
    let head = prop_oneof![
        1 => Just(Head::Unreachable),
        1 => Just(Head::Lost),
        1 => Just(Head::Silent),
        3 => refused,
        streams => body().prop_map(Head::Stream),
        documents => whole(),
    ];
    (millis(), head).prop_map(|(wait, head)| Script { wait, head })
}

pub(crate) fn client() -> impl Strategy<Value = Client> {
    let leaving = prop_oneof![Just(Leaving::AtOnce), Just(Leaving::WhenWoken)];
    (proptest::option::of((1..25_usize, leaving)), vec(millis(), 0..6))
        .prop_map(|(leaves_after, pauses)| Client { leaves_after, pauses })
}
