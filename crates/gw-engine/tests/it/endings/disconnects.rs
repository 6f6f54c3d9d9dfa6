//! Clients that leave, at every point at which the engine waits.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use gw_engine::ReplyBody;
use gw_routing::hedge::{HedgeDelay, HedgeSettings};
use http_body::Body;
use serde_json::{Value, json};

use crate::harness::script::vectors;
use crate::harness::{
    Client, Ended, Head, Leaving, Piece, Script, Setup, Step, World, answer, chat_stream, document, paused,
    refused, wait,
};

/// Runs a request again and again, with a client that leaves after one poll, two polls, and so on until it reads the whole
/// answer; with and without `drain_on_disconnect`. Checks the books each time.
fn at_every_poll(setup: impl Fn() -> Setup, body: impl Fn(&World) -> Value) {
    for (drains, leaving) in [
        (false, Leaving::AtOnce),
        (false, Leaving::WhenWoken),
        (true, Leaving::AtOnce),
        (true, Leaving::WhenWoken),
    ] {
        let mut left = 0;
        for polls in 1.. {
            let mut setup = setup();
            setup.routing.drain_on_disconnect = drains;
            let body = &body;
            let has_left = paused(async move {
                let world = setup.build();
                let ended = world.run(&body(&world), &Client::leaving(polls, leaving)).await;
                world.settled().await;
                world.check_money(1).await;
                let row = world.row();
                match &ended {
                    Ended::Left(_) if !ended.is_complete() => {
                        assert_eq!(
                            row.status, "client_closed_request",
                            "after {polls} polls, drains: {drains}"
                        );
                        true
                    }
                    _ => {
                        assert_eq!(row.status, "ok", "after {polls} polls, drains: {drains}");
                        false
                    }
                }
            });
            if !has_left {
                break;
            }
            left += 1;
        }
        assert!(left >= 2, "the client left at {left} points only");
    }
}

/// A stream with pauses between its pieces.
fn slow_stream(text: [&str; 2]) -> Script {
    let mut steps = Vec::new();
    for step in chat_stream(&text, Some((10, 5))) {
        steps.extend([wait(50), step]);
    }
    answer(Head::Stream(steps)).after(100)
}

fn slow_document(text: &str) -> Script {
    answer(Head::Document(document(text, Some((10, 5))), vec![wait(100)])).after(100)
}

#[test]
fn a_plain_request_is_settled_once_wherever_its_client_leaves() {
    let setup =
        || Setup::new(vec![("a", vec![refused(500).after(100)]), ("b", vec![slow_document("From b.")])]);
    at_every_poll(setup, |world| world.chat(false));
}

#[test]
fn a_stream_is_settled_once_wherever_its_client_leaves() {
    let setup =
        || Setup::new(vec![("a", vec![refused(500).after(100)]), ("b", vec![slow_stream(["From ", "b."])])]);
    at_every_poll(setup, |world| world.chat(true));
}

#[test]
fn a_hedged_stream_is_settled_once_wherever_its_client_leaves() {
    let setup = || {
        let slow = answer(Head::Silent);
        let mut setup = Setup::new(vec![("a", vec![slow]), ("b", vec![slow_stream(["From ", "b."])])]);
        let after = HedgeDelay::Fixed(Duration::from_millis(300));
        setup.routing.hedge = Some(HedgeSettings { after, max_extra_cost_percent: 100.0 });
        setup
    };
    at_every_poll(setup, |world| world.chat(true));
}

#[test]
fn a_continued_stream_is_settled_once_wherever_its_client_leaves() {
    let setup = || {
        let text = Step::Piece(Piece::Text("The sea".to_owned()));
        let broken = answer(Head::Stream(vec![text, wait(50), Step::Break]));
        let mut setup = Setup::new(vec![
            ("a", vec![broken]),
            ("b", vec![refused(500).after(100)]),
            ("c", vec![slow_stream([" is ", "deep."])]),
        ]);
        setup.routing.continue_mid_stream = true;
        setup
    };
    at_every_poll(setup, |world| world.chat(true));
}

#[test]
fn a_divided_request_is_settled_once_wherever_its_client_leaves() {
    for stream in [false, true] {
        let setup = || {
            let part = |text: &str, wait| match stream {
                true => answer(Head::Stream(chat_stream(&[text], Some((10, 5))))).after(wait),
                false => slow_document(text).after(wait),
            };
            Setup::new(vec![("groq", vec![part("First.", 300), part("Second.", 100), part("Third.", 200)])])
        };
        let body = |world: &World| {
            let mut body = world.chat(stream);
            body["n"] = 3.into();
            body
        };
        at_every_poll(setup, body);
    }
}

#[test]
fn batches_of_embeddings_are_settled_once_wherever_their_client_leaves() {
    let setup = || {
        let batch = |from, count, millis| {
            answer(Head::Document(vectors(from, count, 7), vec![wait(50)])).after(millis)
        };
        let batches = vec![batch(0, 2, 300), batch(2, 2, 100), batch(4, 1, 200)];
        Setup { embedding_batch: Some(2), ..Setup::new(vec![("a", batches)]) }
    };
    at_every_poll(setup, |_| json!({"model": "a/m", "input": ["one", "two", "three", "four", "five"]}));
}

#[test]
fn an_upstream_is_dropped_as_soon_as_its_client_leaves() {
    paused(async {
        let world = Setup::new(vec![("a", vec![slow_stream(["The ", "sea."])])]).build();
        let ended = world.run(&world.chat(true), &Client::leaving(4, Leaving::AtOnce)).await;
        assert!(matches!(ended, Ended::Left(_)), "{ended:?}");
        assert!(world.seen()[0].is_dropped && !world.seen()[0].is_over);
    });
}

#[test]
fn a_drained_stream_is_read_to_its_end_and_billed_as_its_upstream_tells() {
    paused(async {
        let mut setup = Setup::new(vec![("a", vec![slow_stream(["The ", "sea."])])]);
        setup.routing.drain_on_disconnect = true;
        let world = setup.build();
        let ended = world.run(&world.chat(true), &Client::leaving(4, Leaving::AtOnce)).await;
        assert!(matches!(ended, Ended::Left(_)), "{ended:?}");
        assert!(!world.seen()[0].is_dropped);
        world.settled().await;
        let row = world.row();
        assert_eq!(
            (&*row.status, row.tokens.prompt, row.tokens.completion),
            ("client_closed_request", 10, 5)
        );
        assert!(!row.estimated);
        world.check().await;
    });
}

#[test]
fn a_drained_stream_is_dropped_after_thirty_seconds() {
    paused(async {
        let steps = vec![Step::Piece(Piece::Text("The sea".to_owned())), Step::Silence];
        let mut setup = Setup::new(vec![("a", vec![answer(Head::Stream(steps))])]);
        setup.routing.drain_on_disconnect = true;
        let world = setup.build();
        let _left = world.run(&world.chat(true), &Client::leaving(2, Leaving::AtOnce)).await;
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert!(!world.seen()[0].is_dropped);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(world.seen()[0].is_dropped);
        assert_eq!(world.row().status, "client_closed_request");
        world.check().await;
    });
}

/// A stream that breaks off after 50 ms, and is continued by an upstream that answers after 100 ms more.
fn continued_and_drained() -> World {
    let text = Step::Piece(Piece::Text("The sea".to_owned()));
    let broken = answer(Head::Stream(vec![text, wait(50), Step::Break]));
    let mut setup = Setup::new(vec![("a", vec![broken]), ("b", vec![slow_stream([" is ", "deep."])])]);
    (setup.routing.continue_mid_stream, setup.routing.drain_on_disconnect) = (true, true);
    setup.build()
}

#[test]
fn an_upstream_that_was_asked_to_continue_a_stream_is_drained() {
    paused(async {
        let world = continued_and_drained();
        let client = Client::default();
        let reading = client.read(world.send(&world.chat(true), None));
        let left = tokio::time::timeout(Duration::from_millis(100), reading).await;
        assert!(left.is_err(), "the client leaves while the second upstream is silent");
        assert_eq!(world.called(), ["a", "b"]);
        assert!(!world.seen()[1].is_dropped);
        world.settled().await;
        assert_eq!(world.seen()[1].usage, Some((10, 5)), "it was read to its end");
        let row = world.row();
        assert_eq!(row.status, "client_closed_request");
        let attempts: Vec<_> = row.attempts.iter().map(|it| (&*it.provider, &*it.status)).collect();
        assert_eq!(attempts, [("a", "upstream_stream_error"), ("b", "ok")]);
        world.check().await;
    });
}

#[test]
fn no_upstream_is_asked_to_continue_a_stream_whose_client_is_gone() {
    paused(async {
        let world = continued_and_drained();
        let reply = world.send(&world.chat(true), None).await.unwrap();
        let ReplyBody::Stream(mut stream) = reply.body else { panic!("no stream") };
        // The stream breaks off with an empty piece, and searches the next upstream when it is read again.
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut *stream).poll_frame(cx)).await.unwrap().unwrap();
            if frame.into_data().unwrap().is_empty() {
                break;
            }
        }
        drop(stream);
        world.settled().await;
        assert_eq!(world.called(), ["a"]);
        assert_eq!(world.row().status, "client_closed_request");
        world.check().await;
    });
}
