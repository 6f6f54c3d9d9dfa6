//! A request that a provider takes in several calls only is divided, and put together again.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::script::vectors;
use crate::harness::{
    Head, Piece, Script, Setup, Step, World, answer, chat_stream, document, paused, refused, wait,
};

/// `groq` gives one choice a call.
fn three_choices(world: &World, stream: bool) -> Value {
    let mut body = world.chat(stream);
    body["n"] = 3.into();
    body
}

fn part(text: &str, wait: u64) -> Script {
    answer(Head::Document(document(text, Some((10, 5))), Vec::new())).after(wait)
}

#[test]
fn choices_come_in_their_order_whichever_call_is_the_first_to_end() {
    paused(async {
        let parts = vec![part("First.", 300), part("Second.", 100), part("Third.", 200)];
        let world = Setup::new(vec![("groq", parts)]).build();
        let begun = Instant::now();
        let ended = world.run(&three_choices(&world, false), &Default::default()).await;
        assert_eq!(begun.elapsed(), Duration::from_millis(300), "the calls run at the same time");
        let texts: Vec<_> = (0..3).map(|choice| ended.text_of(choice)).collect();
        assert_eq!(texts, ["First.", "Second.", "Third."]);
        assert_eq!(ended.attempts(), ["groq ok"], "the calls of a divided request are one attempt");
        let usage = &ended.values()[0]["usage"];
        assert_eq!(
            (usage["prompt_tokens"].as_u64(), usage["completion_tokens"].as_u64()),
            (Some(30), Some(15))
        );
        world.settled().await;
        world.check_money(1).await;
    });
}

#[test]
fn streams_of_a_divided_request_are_merged_into_one() {
    paused(async {
        let part = |text, wait| answer(Head::Stream(chat_stream(&[text], Some((10, 5))))).after(wait);
        let parts = vec![part("First.", 300), part("Second.", 100), part("Third.", 200)];
        let world = Setup::new(vec![("groq", parts)]).build();
        let ended = world.ask(&three_choices(&world, true)).await;
        let texts: Vec<_> = (0..3).map(|choice| ended.text_of(choice)).collect();
        assert_eq!((texts.concat(), ended.is_complete()), ("First.Second.Third.".to_owned(), true));
        assert_eq!(world.row().tokens.completion, 15);
        world.check_money(1).await;
    });
}

#[test]
fn a_part_that_fails_fails_its_attempt_and_the_parts_that_were_served_are_billed() {
    paused(async {
        let parts = vec![part("First.", 100), refused(500).after(200), part("Never read.", 5_000)];
        let whole = answer(Head::Document(document("From b.", Some((10, 5))), Vec::new()));
        let world = Setup::new(vec![("groq", parts), ("b", vec![whole])]).build();
        let ended = world.ask(&three_choices(&world, false)).await;
        assert_eq!(ended.attempts(), ["groq upstream_error", "b ok"]);
        assert_eq!(world.called(), ["groq", "groq", "groq", "b"]);
        let row = world.row();
        assert!(row.attempts[0].cost > Some(0), "{row:#?}");
        world.check_money(1).await;
    });
}

#[test]
fn a_part_that_fails_is_asked_for_again_and_the_others_are_kept() {
    // Another key is tried at once, and a target that failed after a pause.
    for (status, keys, code) in [(500, 1, "upstream_error"), (429, 2, "upstream_rate_limited")] {
        paused(async {
            let parts =
                vec![part("First.", 300), refused(status).after(50), part("Third.", 300), part("Second.", 0)];
            let mut setup = Setup { keys, ..Setup::new(vec![("groq", parts), ("b", Vec::new())]) };
            setup.routing.retries = 1;
            let world = setup.build();
            let ended = world.ask(&three_choices(&world, false)).await;
            let texts: Vec<_> = (0..3).map(|choice| ended.text_of(choice)).collect();
            assert_eq!(texts, ["First.", "Second.", "Third."]);
            assert_eq!(ended.attempts(), [format!("groq {code}"), "groq ok".to_owned()]);
            assert_eq!(world.called(), ["groq"; 4]);
            world.check_money(1).await;
        });
    }
}

fn five_inputs() -> Value {
    json!({"model": "a/m", "input": ["one", "two", "three", "four", "five"]})
}

fn batch(from: usize, count: usize, wait: u64) -> Script {
    answer(Head::Document(vectors(from, count, 7), Vec::new())).after(wait)
}

#[test]
fn embeddings_are_asked_for_in_batches_and_come_in_their_order() {
    paused(async {
        let batches = vec![batch(0, 2, 300), batch(2, 2, 100), batch(4, 1, 0)];
        let world = Setup { embedding_batch: Some(2), ..Setup::new(vec![("a", batches)]) }.build();
        let ended = world.ask(&five_inputs()).await;
        let answer = &ended.values()[0];
        let first: Vec<_> =
            answer["data"].as_array().unwrap().iter().map(|vector| vector["embedding"][0].as_f64()).collect();
        assert_eq!(first, [0.0, 1.0, 2.0, 3.0, 4.0].map(Some));
        assert_eq!(answer["usage"]["prompt_tokens"], 21);
        let inputs: Vec<_> = world.seen().into_iter().map(|call| call.body["input"].clone()).collect();
        assert_eq!(inputs, [json!(["one", "two"]), json!(["three", "four"]), json!(["five"])]);
        world.check_money(1).await;
    });
}

#[test]
fn a_batch_that_fails_fails_the_request_and_the_others_are_billed() {
    paused(async {
        let batches = vec![batch(0, 2, 100), refused(500).after(200), batch(4, 1, 5_000)];
        let world = Setup { embedding_batch: Some(2), ..Setup::new(vec![("a", batches)]) }.build();
        assert_eq!(world.ask(&five_inputs()).await.refused_with(), "upstream_error");
        let row = world.row();
        assert!(row.cost > 0 && row.status == "upstream_error", "{row:#?}");
        world.check_money(1).await;
    });
}

#[test]
fn a_stream_that_breaks_drops_the_other_streams_of_its_request_at_once() {
    paused(async {
        let broken = answer(Head::Stream(vec![wait(100), Step::Break]));
        let endless = || answer(Head::Stream(vec![Step::Piece(Piece::Role), Step::Silence]));
        let world = Setup::new(vec![("groq", vec![endless(), broken, endless()])]).build();
        let begun = Instant::now();
        let ended = world.run(&three_choices(&world, true), &Default::default()).await;
        assert_eq!((ended.refused_with(), begun.elapsed().as_millis()), ("upstream_error", 100));
        // A stream that goes on would be let go of two seconds later.
        tokio::task::yield_now().await;
        assert!(world.seen().iter().all(|call| call.is_dropped), "{:#?}", world.seen());
        world.settled().await;
        world.check_money(1).await;
    });
}

#[test]
fn a_stream_of_a_divided_request_that_begins_with_an_error_event_is_free() {
    paused(async {
        let refused = answer(Head::Stream(vec![wait(100), Step::Piece(Piece::Error)]));
        let part = |text| answer(Head::Stream(chat_stream(&[text], Some((10, 5)))));
        let world = Setup::new(vec![("groq", vec![part("First."), refused, part("Third.")])]).build();
        let ended = world.ask(&three_choices(&world, true)).await;
        assert_eq!(ended.error_event().as_deref(), Some("upstream_stream_error"));
        let row = world.row();
        assert_eq!((row.tokens.prompt, row.tokens.completion), (20, 10));
        world.check_money(1).await;
    });
}
