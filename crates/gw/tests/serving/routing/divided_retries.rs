//! A request that becomes several upstream calls asks again for a failed part only, and its attempts show every failed call.

use std::sync::atomic::{AtomicUsize, Ordering};

use gw_testkit::{Answer, FakeUpstream, Response};
use serde_json::{Value, json};

use crate::harness::answers::{attempts, fallback, pairs};
use crate::harness::dialects::{self, Say, WORDS};
use crate::harness::{ADMIN, Setup, World, logged, with};

const OPUS: &str = "claude/opus";
const FAILED: &str = "upstream_error";

/// A gateway with a provider that takes two inputs a call, and with Claude, who gives one choice a call. Claude fails so many times first.
async fn start(routing: &'static str, failures: usize) -> (World, FakeUpstream) {
    let claude = FakeUpstream::start().await;
    let failed = AtomicUsize::new(0);
    claude.respond_with(move |request| {
        if failed.fetch_add(1, Ordering::SeqCst) < failures {
            return Answer::error(500, "x", "down");
        }
        dialects::anthropic(Say::Words, request.json()["stream"] == true)
    });
    let extra = format!(
        "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"{OPUS}\"\ncategory = [\"chat\"]\npricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0 }}\n\
         [routing.breaker]\nfailures = 1000\n",
        claude.addr
    );
    let acme = "embedding_batch = 2".to_owned();
    (Setup { extra, acme, routing, ..Setup::default() }.start().await, claude)
}

/// The row's attempts with their costs.
async fn recorded(world: &World, answer: &Response) -> (Vec<(String, f64)>, Value) {
    let admin = world.gateway.client().with_key(ADMIN);
    let row = logged(&admin, answer.header("x-request-id").expect("an id")).await;
    let attempts = row["attempts"].as_array().expect("attempts").iter();
    let attempt = |attempt: &Value| {
        (
            attempt["status"].as_str().unwrap_or_default().to_owned(),
            attempt["cost_usd"].as_f64().unwrap_or(-1.0),
        )
    };
    (attempts.map(attempt).collect(), row)
}

#[tokio::test]
async fn a_failed_batch_of_embeddings_is_asked_for_again_and_the_others_are_kept() {
    let (world, _claude) = start("", 0).await;
    let failed = AtomicUsize::new(0);
    world.upstream.respond_with(move |request| {
        let fails = request.json()["input"][0] == "c" && failed.fetch_add(1, Ordering::SeqCst) == 0;
        if fails { Answer::error(500, "x", "down") } else { gw_testkit::upstream::default_answer(request) }
    });
    let body = json!({"model": "acme/embed", "input": ["a", "b", "c", "d", "e"]});
    let answer = world.client.post_json("/v1/embeddings", &body).await.ok();
    let first: Vec<_> = answer.json()["data"]
        .as_array()
        .expect("data")
        .iter()
        .map(|one| one["embedding"][0].as_f64())
        .collect();
    assert_eq!(first, [0.0, 1.0, 0.0, 1.0, 0.0].map(Some));
    assert_eq!(world.upstream.hits(), 4, "three batches, and one of them again");
    let (attempts, row) = recorded(&world, &answer).await;
    // Three answers of eight tokens each. The refused call is free.
    assert_eq!(attempts, [(FAILED.to_owned(), 0.0), ("ok".to_owned(), 0.000_000_48)], "{row}");
    assert_eq!((&row["cost_usd"], &row["prompt_tokens"]), (&json!(0.000_000_48), &json!(24)), "{row}");
}

#[tokio::test]
async fn a_failed_prompt_and_a_failed_choice_are_asked_for_again_plain_and_streamed() {
    for stream in [false, true] {
        for (path, body) in [
            ("/v1/completions", json!({"model": OPUS, "prompt": ["one", "two", "three"], "max_tokens": 50})),
            (
                "/v1/chat/completions",
                json!({"model": OPUS, "n": 3, "messages": [{"role": "user", "content": "hi"}]}),
            ),
        ] {
            let (world, claude) = start("", 1).await;
            let body = with(body, json!({"stream": stream}));
            let answer = world.client.post_json(path, &body).await.ok();
            assert_eq!(
                answer.text().matches("\"finish_reason\":\"stop\"").count(),
                3,
                "{path}: {}",
                answer.text()
            );
            assert!(stream || answer.text().matches(WORDS).count() == 3, "{path}: {}", answer.text());
            assert_eq!(claude.hits(), 4, "{path} {stream}");
            let (attempts, row) = recorded(&world, &answer).await;
            let statuses: Vec<_> = attempts.iter().map(|(status, _)| status.as_str()).collect();
            assert_eq!(statuses, [FAILED, "ok"], "{path} {stream}: {row}");
            // Three times 100 tokens of the prompt, of which 30 and 10 are those of a cache without a price of its own, and 20 of the answer.
            assert_eq!(row["cost_usd"], json!(0.000_42), "{path} {stream}: {row}");
        }
    }
}

#[tokio::test]
async fn a_part_that_fails_again_fails_the_target_and_the_next_one_serves() {
    // The default of four attempts: the fallback has the last of them.
    let (world, claude) = start("", 1000).await;
    let body = json!({"model": OPUS, "n": 3, "messages": [{"role": "user", "content": "hi"}]});
    let answer =
        world.client.post_json("/v1/chat/completions", &with(body, fallback(&["acme/fast"]))).await.ok();
    let tried = attempts(&answer.json());
    assert_eq!(
        tried.last().map(|(model, status)| (model.as_str(), status.as_str())),
        Some(("acme/fast", "ok"))
    );
    let failed = tried.iter().filter(|(model, status)| model == OPUS && status == FAILED).count();
    assert_eq!(failed, tried.len() - 1, "{tried:?}");
    // Each part is asked for twice at most, one that fails twice ends the attempt, and two retries leave an attempt to the fallback.
    assert!(
        (4..=5).contains(&claude.hits()) && (2..=3).contains(&failed),
        "{} calls, {tried:?}",
        claude.hits()
    );
}

#[tokio::test]
async fn retries_of_parts_count_towards_the_attempts_of_the_request() {
    for (routing, failures, status, expected) in [
        ("max_attempts = 1", 1, 502, &[(OPUS, FAILED)][..]),
        ("retries = 0", 1, 502, &[(OPUS, FAILED)]),
        ("max_attempts = 2", 1, 200, &[(OPUS, FAILED), (OPUS, "ok")]),
        ("max_attempts = 2", 2, 502, &[(OPUS, FAILED), (OPUS, FAILED)]),
        ("max_attempts = 4", 3, 200, &[(OPUS, FAILED), (OPUS, FAILED), (OPUS, FAILED), (OPUS, "ok")]),
    ] {
        let (world, _claude) = start(routing, failures).await;
        let body = json!({"model": OPUS, "n": 3, "messages": [{"role": "user", "content": "hi"}]});
        let answer = world.client.post_json("/v1/chat/completions", &body).await;
        assert_eq!(answer.status, status, "{routing} {failures}: {}", answer.text());
        let (_, row) = recorded(&world, &answer).await;
        assert_eq!(attempts(&json!({ "gateway": row })), pairs(expected), "{routing} {failures}: {row}");
    }
}
