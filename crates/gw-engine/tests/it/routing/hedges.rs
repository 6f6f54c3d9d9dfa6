//! A second upstream is asked beside one that is slow, and both are accounted for.

use std::time::Duration;

use gw_routing::hedge::{HedgeDelay, HedgeSettings};
use gw_wire::usage::Usage;
use tokio::time::Instant;

use crate::harness::{Head, Piece, Script, Setup, Step, World, answer, chat_stream, paused, refused};

fn stream(text: &str) -> Script {
    answer(Head::Stream(chat_stream(&[text], Some((10, 5)))))
}

/// Candidates whose second one is asked after 300 ms.
fn hedged(upstreams: Vec<(&'static str, Vec<Script>)>) -> World {
    let mut setup = Setup::new(upstreams);
    let after = HedgeDelay::Fixed(Duration::from_millis(300));
    setup.routing.hedge = Some(HedgeSettings { after, max_extra_cost_percent: 100.0 });
    setup.build()
}

fn times(world: &World, begun: Instant) -> Vec<(&'static str, u128)> {
    world.seen().iter().map(|call| (call.provider, call.since(begun))).collect()
}

#[test]
fn the_second_upstream_answers_when_it_is_faster_and_the_first_one_is_billed_its_prompt() {
    paused(async {
        let world = hedged(vec![("a", vec![stream("From a.").after(5_000)]), ("b", vec![stream("From b.")])]);
        let begun = Instant::now();
        let ended = world.run(&world.chat(true), &Default::default()).await;
        assert_eq!((ended.text(), begun.elapsed().as_millis()), ("From b.".to_owned(), 300));
        assert_eq!(times(&world, begun), [("a", 0), ("b", 300)]);
        assert_eq!(ended.attempts(), ["a cancelled", "b ok"]);
        assert!(world.seen()[0].is_dropped);
        world.settled().await;
        let row = world.row();
        assert!(row.attempts[0].cost > Some(0) && row.tokens.completion == 5, "{row:#?}");
        world.check().await;
    });
}

#[test]
fn the_first_upstream_answers_when_the_second_one_is_slower() {
    paused(async {
        let world =
            hedged(vec![("a", vec![stream("From a.").after(1_000)]), ("b", vec![answer(Head::Silent)])]);
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!(ended.text(), "From a.");
        assert_eq!(ended.attempts(), ["a ok", "b cancelled"]);
        assert_eq!(ended.gateway().unwrap()["fallback_used"], false);
        world.check().await;
    });
}

#[test]
fn the_next_candidate_is_asked_when_both_fail() {
    paused(async {
        let world = hedged(vec![
            ("a", vec![refused(500).after(1_000)]),
            ("b", vec![refused(503).after(100)]),
            ("c", vec![stream("From c.")]),
        ]);
        let begun = Instant::now();
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!(ended.text(), "From c.");
        assert_eq!(ended.attempts(), ["a upstream_error", "b upstream_overloaded", "c ok"]);
        assert_eq!(times(&world, begun), [("a", 0), ("b", 300), ("c", 1_000)]);
        world.settled().await;
        let started: Vec<_> = world.row().attempts.iter().map(|attempt| attempt.started_ms).collect();
        assert_eq!(started, [0, 300, 1_000]);
        world.check().await;
    });
}

#[test]
fn a_hedge_that_fails_leaves_the_first_upstream_to_answer() {
    paused(async {
        let world = hedged(vec![("a", vec![stream("From a.").after(1_000)]), ("b", vec![refused(500)])]);
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!(
            (ended.text(), ended.attempts()),
            ("From a.".to_owned(), vec!["a ok".to_owned(), "b upstream_error".to_owned()])
        );
        world.check().await;
    });
}

#[test]
fn a_first_upstream_that_fails_leaves_the_hedge_to_answer() {
    paused(async {
        let world =
            hedged(vec![("a", vec![refused(500).after(500)]), ("b", vec![stream("From b.").after(1_000)])]);
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!(ended.attempts(), ["a upstream_error", "b ok"]);
        world.check().await;
    });
}

#[test]
fn a_request_that_the_first_upstream_calls_wrong_ends_both_calls() {
    paused(async {
        let world = hedged(vec![("a", vec![refused(400).after(500)]), ("b", vec![answer(Head::Silent)])]);
        let ended = world.run(&world.chat(true), &Default::default()).await;
        assert_eq!(ended.refused_with(), "invalid_request");
        assert!(world.seen()[1].is_dropped);
        world.settled().await;
        world.check().await;
    });
}

#[test]
fn a_plain_answer_is_never_hedged() {
    paused(async {
        let world = hedged(vec![("a", vec![refused(500).after(5_000)]), ("b", vec![refused(500)])]);
        let begun = Instant::now();
        let _ended = world.ask(&world.chat(false)).await;
        assert_eq!(times(&world, begun), [("a", 0), ("b", 5_000)]);
        world.check().await;
    });
}

#[test]
fn usage_that_the_slower_upstream_told_before_its_first_content_is_billed() {
    paused(async {
        let early = vec![Step::Piece(Piece::Usage(700, 1)), Step::Silence];
        let world = hedged(vec![("a", vec![answer(Head::Stream(early))]), ("b", vec![stream("From b.")])]);
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!(ended.attempts(), ["a cancelled", "b ok"]);
        let told = Usage { prompt: 700, completion: 1, ..Usage::default() };
        assert_eq!(world.row().attempts[0].cost, Some(world.price("a", &told)));
        world.check().await;
    });
}
