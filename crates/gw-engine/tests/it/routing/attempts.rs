//! The loop of attempts: next candidate, retry, another key, the deadline.

use std::time::Duration;

use gw_engine::settings::RoutingSettings;
use tokio::time::Instant;

use crate::harness::{
    Head, Piece, Script, Setup, Step, answer, chat_stream, document, paused, refused, wait,
};

fn good(text: &str) -> Script {
    answer(Head::Document(document(text, Some((10, 5))), Vec::new()))
}

#[test]
fn the_next_candidate_answers_when_the_first_one_fails() {
    paused(async {
        let world = Setup::new(vec![("a", vec![refused(500)]), ("b", vec![good("From b.")])]).build();
        let ended = world.ask(&world.chat(false)).await;
        assert_eq!(ended.text(), "From b.");
        assert_eq!(ended.attempts(), ["a upstream_error", "b ok"]);
        assert_eq!(ended.gateway().unwrap()["fallback_used"], true);
        let row = world.row();
        assert_eq!((&*row.model, &*row.status, row.fallback), ("b/m", "ok", true));
        world.check().await;
    });
}

#[test]
fn a_request_that_no_upstream_can_serve_ends_at_the_first_refusal() {
    paused(async {
        let world = Setup::new(vec![("a", vec![refused(400)]), ("b", vec![good("From b.")])]).build();
        assert_eq!(world.ask(&world.chat(false)).await.refused_with(), "invalid_request");
        assert_eq!(world.called(), ["a"]);
        world.check().await;
    });
}

#[test]
fn the_only_candidate_is_asked_again_after_a_pause_and_only_as_often_as_allowed() {
    paused(async {
        let mut setup = Setup::new(vec![("a", vec![refused(500), refused(502), good("Third time.")])]);
        setup.routing.retries = 1;
        let world = setup.build();
        let begun = Instant::now();
        assert_eq!(world.run(&world.chat(false), &Default::default()).await.refused_with(), "upstream_error");
        assert!(
            (20..80).contains(&begun.elapsed().as_millis()),
            "one pause with jitter: {:?}",
            begun.elapsed()
        );
        assert_eq!(world.called(), ["a", "a"]);
        world.settled().await;
        world.check().await;
    });
}

#[test]
fn a_retry_waits_as_long_as_the_upstream_asks_up_to_two_seconds() {
    for (seconds, calls) in [(2, 2), (3, 1)] {
        paused(async move {
            let first = answer(Head::Status(500, Some(seconds)));
            let mut setup = Setup::new(vec![("a", vec![first, good("Again.")])]);
            setup.routing.retries = 1;
            let world = setup.build();
            let begun = Instant::now();
            let _ended = world.ask(&world.chat(false)).await;
            let seen = world.seen();
            assert_eq!(seen.len(), calls, "Retry-After: {seconds}");
            if let Some(second) = seen.get(1) {
                assert!((2_020..2_080).contains(&second.since(begun)), "{}", second.since(begun));
            }
            world.check().await;
        });
    }
}

#[test]
fn another_key_of_the_same_provider_is_tried_before_the_next_candidate() {
    paused(async {
        let mut setup =
            Setup::new(vec![("a", vec![refused(401), good("With the other key.")]), ("b", vec![])]);
        setup.keys = 2;
        let world = setup.build();
        let ended = world.ask(&world.chat(false)).await;
        assert_eq!(ended.text(), "With the other key.");
        assert_eq!(ended.attempts(), ["a upstream_auth_error", "a ok"]);
        let keys: Vec<_> = world.seen().into_iter().map(|call| call.key.unwrap()).collect();
        assert_eq!(keys.len(), 2);
        assert_ne!(keys[0], keys[1]);
        world.check().await;
    });
}

#[test]
fn no_more_upstreams_are_called_than_a_request_may_call() {
    paused(async {
        let all = vec![("a", vec![]), ("b", vec![]), ("c", vec![good("Never asked.")])];
        let routing = RoutingSettings { max_attempts: 2, ..Setup::new(Vec::new()).routing };
        let world = Setup { routing, ..Setup::new(all) }.build();
        assert_eq!(world.ask(&world.chat(false)).await.refused_with(), "upstream_error");
        assert_eq!(world.called(), ["a", "b"]);
        world.check().await;
    });
}

#[test]
fn one_deadline_holds_for_all_attempts_together() {
    paused(async {
        let slow = || vec![answer(Head::Silent)];
        let mut setup = Setup::new(vec![("a", slow()), ("b", slow()), ("c", slow())]);
        setup.timeouts.first_token = Duration::from_secs(20);
        setup.timeouts.total = Duration::from_secs(30);
        let world = setup.build();
        let begun = Instant::now();
        let ended = world.run(&world.chat(false), &Default::default()).await;
        assert_eq!((ended.refused_with(), begun.elapsed().as_secs()), ("upstream_timeout", 30));
        let times: Vec<_> =
            world.seen().iter().map(|call| (call.provider, call.since(begun) / 1_000)).collect();
        assert_eq!(times, [("a", 0), ("b", 20)]);
        world.settled().await;
        world.check().await;
    });
}

#[test]
fn a_stream_fails_over_silently_until_its_first_content() {
    paused(async {
        let broken = vec![Step::Piece(Piece::Role), wait(500), Step::Piece(Piece::Error)];
        let world = Setup::new(vec![
            ("a", vec![answer(Head::Stream(broken))]),
            ("b", vec![answer(Head::Stream(chat_stream(&["From ", "b."], Some((10, 5)))))]),
        ])
        .build();
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!((ended.text(), ended.is_complete()), ("From b.".to_owned(), true));
        assert_eq!(ended.attempts(), ["a upstream_error", "b ok"]);
        world.check().await;
    });
}

#[test]
fn a_call_that_may_have_been_served_is_billed_and_one_that_was_not_sent_is_free() {
    for (head, is_billed) in [(Head::Lost, true), (Head::Unreachable, false)] {
        paused(async move {
            let world = Setup::new(vec![("a", vec![answer(head)]), ("b", vec![good("From b.")])]).build();
            let _ended = world.ask(&world.chat(false)).await;
            let row = world.row();
            assert_eq!(&*row.attempts[0].status, "upstream_unreachable");
            assert_eq!(row.attempts[0].cost > Some(0), is_billed);
            world.check().await;
        });
    }
}
