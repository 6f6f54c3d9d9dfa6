//! Hedges: the gain and the cost of a second attempt, and the bounds of every route.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gw_store::ledger::Entry;
use gw_testkit::measured::at_most;
use gw_testkit::sse::{chunks, text_of};
use gw_testkit::upstream::{Step, chat_transcript, default_answer};
use gw_testkit::wait::within;
use gw_testkit::{Answer, FakeUpstream, Response, Signal};
use serde_json::{Value, json};

use crate::harness::answers::{attempts, fallback, pairs};
use crate::harness::ledger::rows;
use crate::harness::{ADMIN, Setup, World, assert_error, chat, chat_with, with};
use crate::routing::failover::row_attempts;

const CHAT: &str = "/v1/chat/completions";
/// The delay of the slow answers.
const TAIL: Duration = Duration::from_millis(600);
/// Femto-USD per token of `acme/fast`: input, output.
const ACME: (i128, i128) = (150_000_000, 600_000_000);
/// Femto-USD per token of `beta/fast`: input, output.
const BETA: (i128, i128) = (300_000_000, 1_200_000_000);

fn streamed(model: &str) -> Value {
    chat_with(model, json!({ "stream": true }))
}

fn transcript() -> Answer {
    Answer::sse().all(&chat_transcript(&["Hello", " from", " upstream"])).done()
}

/// One request in ten gets this answer.
fn heavy_tailed(upstream: &FakeUpstream, tail: Answer) {
    let count = AtomicUsize::new(0);
    upstream.respond_with(move |_| {
        if count.fetch_add(1, Ordering::SeqCst) % 10 == 9 { tail.clone() } else { transcript() }
    });
}

/// Lets the first upstream answer as soon as the second one is asked, however long that takes.
async fn once_hedged<T>(world: &World, go: &Signal, asking: impl Future<Output = T>) -> T {
    let asked = world.second.hits();
    let (answer, ()) = tokio::join!(asking, async {
        world.second.request(asked).await;
        go.fire();
    });
    answer
}

/// The attempts of `beta/fast` that have ended with an error.
async fn failed_hedges(world: &World) -> usize {
    let text = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    let is_failed = |line: &&str| {
        line.starts_with("gateway_upstream_attempts_total{")
            && line.contains("\"beta/fast\"")
            && line.contains("\"upstream_error\"")
    };
    text.lines().filter(is_failed).count()
}

async fn hedged(routing: &'static str) -> World {
    Setup { routing, ..Setup::default() }.start().await
}

async fn last_chunk(world: &World, body: &Value) -> Value {
    chunks(&world.client.stream(CHAT, body).await.rest().await).pop().expect("a chunk")
}

/// The error of a stream that never began.
async fn refused(world: &World, body: &Value) -> Response {
    world.client.try_stream(CHAT, body).await.expect_err("no stream")
}

/// Sends this many streams, one after the other; gives the second-largest time to the first content.
async fn p99(world: &World, count: usize) -> Duration {
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        let mut stream = world.client.stream(CHAT, &streamed("fast")).await;
        let mut frames = vec![stream.data().await.expect("a first event")];
        times.push(start.elapsed());
        frames.extend(stream.rest().await);
        assert_eq!(text_of(&frames, 0), "Hello from upstream", "{frames:?}");
    }
    times.sort();
    times[count - 2]
}

#[tokio::test]
async fn a_hedge_takes_the_tail_off_the_first_token_at_a_bounded_cost() {
    let with = hedged("[routing.hedge]\nafter = 300\nmax_extra_cost_percent = 5").await;
    let without = hedged("").await;
    heavy_tailed(&with.upstream, Answer::default().hang());
    heavy_tailed(&without.upstream, transcript().after(Step::Pause(TAIL)));
    let (quick, slow) = tokio::join!(p99(&with, 100), p99(&without, 100));
    assert!(slow >= TAIL, "without hedges the tail is felt: {slow:?}");
    at_most("the first token with hedges", quick, slow.mul_f64(0.7));
    assert_eq!(without.second.hits(), 0);
    // The loser's connection is closed, and the answer and the ledger list its attempt.
    for request in with.upstream.requests().iter().skip(9).step_by(10) {
        request.until_closed().await;
    }
    let found = rows(&with.gateway, 100).await;
    let (mut served, mut extra, mut hedges) = (0, 0, 0);
    for row in &found {
        let (input, output) = if *row.model == *"beta/fast" { BETA } else { ACME };
        let cost = 10 * input + 5 * output;
        served += cost;
        if row_attempts(row) == pairs(&[("acme/fast", "ok")]) {
            assert_eq!(row.cost, cost);
            continue;
        }
        hedges += 1;
        extra += row.cost - cost;
        // The loser's prompt at the loser's price.
        let loser = if *row.model == *"beta/fast" { ACME.0 } else { BETA.0 };
        let tokens = (row.cost - cost) / loser;
        assert!((row.cost - cost) % loser == 0 && (1..=40).contains(&tokens), "{row:?}");
    }
    assert!(hedges >= 10, "{hedges}");
    assert!(extra * 100 <= served * 5, "{extra} beside {served}");
}

#[tokio::test]
async fn both_attempts_of_a_hedge_are_told() {
    let world = hedged("[routing.hedge]\nafter = 20").await;
    world.upstream.always(Answer::default().hang());
    let last = last_chunk(&world, &streamed("fast")).await;
    assert_eq!(attempts(&last), pairs(&[("acme/fast", "cancelled"), ("beta/fast", "ok")]));
    assert_eq!(last["gateway"]["fallback_used"], false);
    world.upstream.last().until_closed().await;
    let input = json!({ "model": "fast", "stream": true, "stream_options": { "include_usage": true } });
    let told = last_chunk(&world, &with(chat("fast"), input)).await;
    assert_eq!(told["usage"]["cost_usd"], (10.0 * 0.30 + 5.0 * 1.20) / 1e6, "the serving model: {told}");
    // The first attempt may still win.
    let go = Signal::new();
    world.upstream.always(transcript().after(Step::Wait(go.clone())));
    world.second.always(Answer::default().hang());
    let last = once_hedged(&world, &go, last_chunk(&world, &streamed("fast"))).await;
    assert_eq!(attempts(&last), pairs(&[("acme/fast", "ok"), ("beta/fast", "cancelled")]));
    world.second.last().until_closed().await;
    // Both attempts may fail, each once; then other targets are asked.
    let go = Signal::new();
    world.upstream.always(Answer::default().wait(&go).reset());
    world.second.respond_with(|request| match request.json()["model"].as_str() {
        Some("fast") => Answer::error(500, "x", "down"),
        _ => default_answer(request),
    });
    let body = with(streamed("fast"), fallback(&["beta/spare"]));
    let last = once_hedged(&world, &go, last_chunk(&world, &body)).await;
    let expected =
        [("acme/fast", "upstream_unreachable"), ("beta/fast", "upstream_error"), ("beta/spare", "ok")];
    assert_eq!(attempts(&last), pairs(&expected));
}

/// The milliseconds after which each attempt of the row began.
fn started(row: &Entry) -> Vec<u64> {
    row.attempts.iter().map(|attempt| attempt.started_ms).collect()
}

#[tokio::test]
async fn attempts_stand_in_the_order_in_which_they_began() {
    let world = hedged("[routing.hedge]\nafter = 100").await;
    let go = Signal::new();
    world.upstream.always(transcript().after(Step::Wait(go.clone())));
    // The hedge ends first, and is the second.
    world.second.always(Answer::error(500, "x", "down"));
    let body = streamed("fast");
    let (last, ()) = tokio::join!(last_chunk(&world, &body), async {
        within("the hedge has ended", async { while failed_hedges(&world).await == 0 {} }).await;
        go.fire();
    });
    assert_eq!(attempts(&last), pairs(&[("acme/fast", "ok"), ("beta/fast", "upstream_error")]));
    // Both fail, and the error names them in their order.
    let go = Signal::new();
    world.upstream.always(Answer::error(500, "x", "down").after(Step::Wait(go.clone())));
    let failed = once_hedged(&world, &go, refused(&world, &streamed("fast"))).await;
    assert!(failed.message().contains("Models tried: acme/fast, beta/fast"), "{}", failed.message());
    for row in rows(&world.gateway, 2).await {
        assert_eq!(*row.attempts[0].model, *"acme/fast", "{row:?}");
        let started = started(&row);
        assert!(started[1] >= 100 && started[1] - started[0] >= 100, "{row:?}");
    }
}

#[tokio::test]
async fn without_a_number_a_models_own_slow_times_are_waited_for() {
    let world = hedged("[routing.hedge]").await;
    let ask = || async { world.client.stream(CHAT, &streamed("fast")).await.rest().await };
    world.upstream.enqueue(transcript().after(Step::Pause(TAIL)));
    for _ in 0..20 {
        ask().await;
    }
    assert_eq!(world.second.hits(), 0, "no measurement yet, so no hedge");
    for _ in 0..20 {
        ask().await;
    }
    world.upstream.always(Answer::default().hang());
    let last = last_chunk(&world, &streamed("fast")).await;
    assert_eq!(attempts(&last), pairs(&[("acme/fast", "cancelled"), ("beta/fast", "ok")]));
}

#[tokio::test]
async fn a_whole_answer_is_not_hedged() {
    // The slower call's tokens are not shown, but its provider bills them.
    let world = hedged("[routing.hedge]\nafter = 20").await;
    world
        .upstream
        .respond_with(|request| default_answer(request).after(Step::Pause(Duration::from_millis(200))));
    let body = world.chat_ok(&chat("fast")).await;
    assert_eq!((attempts(&body), world.second.hits()), (pairs(&[("acme/fast", "ok")]), 0));
}

#[tokio::test]
async fn a_fault_of_the_request_ends_both_attempts_of_a_hedge() {
    let world = hedged("[routing.hedge]\nafter = 20").await;
    let bad = Answer::error(400, "bad", "m");
    let go = Signal::new();
    world.upstream.always(bad.clone().after(Step::Wait(go.clone())));
    world.second.always(Answer::default().hang());
    let body = with(streamed("fast"), fallback(&["beta/spare"]));
    let answer = once_hedged(&world, &go, refused(&world, &body)).await;
    assert_error("refused", &answer, 400, "invalid_request_error", "bad");
    world.second.last().until_closed().await;
    assert_eq!(world.second.hits(), 1, "no other target is called");
    let row = rows(&world.gateway, 1).await.remove(0);
    assert_eq!(row_attempts(&row), pairs(&[("acme/fast", "invalid_request"), ("beta/fast", "cancelled")]));
    assert!(row.cost > 0 && row.cost % BETA.0 == 0, "the prompt of the one that was given up: {row:?}");
    // A refusal by the second target does not end the first attempt.
    let go = Signal::new();
    world.upstream.always(transcript().after(Step::Wait(go.clone())));
    world.second.always(bad);
    let asking = async { world.client.stream(CHAT, &streamed("fast")).await.rest().await };
    let frames = once_hedged(&world, &go, asking).await;
    assert_eq!(text_of(&frames, 0), "Hello from upstream", "{frames:?}");
    assert_eq!(world.second.hits(), 2);
}

#[tokio::test]
async fn a_client_that_leaves_a_hedged_request_has_caused_both_calls() {
    let world = hedged("[routing.hedge]\nafter = 20").await;
    world.upstream.always(Answer::default().hang());
    world.second.always(Answer::default().hang());
    let body = streamed("fast").to_string();
    let wire = world.client.open("POST", CHAT, Some("application/json"), Some(body.as_bytes())).await;
    let (first, second) = (world.upstream.request(0).await, world.second.request(0).await);
    drop(wire);
    first.until_closed().await;
    second.until_closed().await;
    let row = rows(&world.gateway, 1).await.remove(0);
    assert_eq!(row.status, "client_closed_request");
    let prompt = i128::from(row.tokens.prompt);
    assert_eq!(row.cost, prompt * (ACME.0 + BETA.0), "both have had the prompt: {row:?}");
    let code = "client_closed_request";
    assert_eq!(row_attempts(&row), pairs(&[("acme/fast", code), ("beta/fast", code)]));
}

#[tokio::test]
async fn nothing_is_hedged_that_cannot_be_paid() {
    let late = || transcript().after(Step::Pause(Duration::from_millis(300)));
    let world = hedged("[routing.hedge]\nafter = 20\nmax_extra_cost_percent = 0").await;
    world.upstream.always(late());
    for model in ["fast", "acme/fast"] {
        world.client.stream(CHAT, &streamed(model)).await.rest().await;
    }
    assert_eq!((world.upstream.hits(), world.second.hits()), (2, 0), "no share");
    // A new hedge budget holds one cent: enough for a short prompt, and not for a long one.
    let world = hedged("[routing.hedge]\nafter = 20").await;
    world.upstream.always(late());
    let mut book = streamed("fast");
    book["messages"][0]["content"] = json!("x".repeat(1 << 20));
    world.client.stream(CHAT, &book).await.rest().await;
    assert_eq!((world.upstream.hits(), world.second.hits()), (1, 0), "too dear");
    let go = Signal::new();
    world.upstream.always(transcript().after(Step::Wait(go.clone())));
    once_hedged(&world, &go, async { world.client.stream(CHAT, &streamed("fast")).await.rest().await }).await;
    assert_eq!(
        (world.upstream.hits(), world.second.hits()),
        (2, 1),
        "the first slow request of a fresh gateway"
    );
    world.upstream.always(late());
    // A plan with one target has no hedge.
    world.client.stream(CHAT, &streamed("acme/fast")).await.rest().await;
    assert_eq!((world.upstream.hits(), world.second.hits()), (3, 1));
}

#[tokio::test]
async fn hedges_and_retries_keep_to_the_deadline_and_to_max_attempts() {
    let all = ["beta/fast", "acme/plain", "beta/spare", "acme/unpriced"];
    // All targets are silent, and each has a timeout of 4 s.
    let world = Setup {
        timeouts: "first_token_ms = 4000\ntotal_ms = 1500",
        routing: "retries = 1\n[routing.hedge]\nafter = 20",
        ..Setup::default()
    };
    let world = world.start().await;
    world.upstream.always(Answer::default().hang());
    world.second.always(Answer::default().hang());
    for body in [with(streamed("acme/fast"), fallback(&all)), streamed("acme/fast")] {
        let start = Instant::now();
        let answer = refused(&world, &body).await;
        assert_error("silence", &answer, 504, "upstream_error", "upstream_timeout");
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(1500), "{took:?}");
        at_most(
            "hedges_and_retries_keep_to_the_deadline_and_to_max_attempts",
            took,
            Duration::from_millis(7500),
        );
    }
    // All targets fail after a while, so that each attempt is hedged where a hedge is allowed.
    for (routing, most) in [
        ("max_attempts = 1\n[routing.hedge]\nafter = 20", 1),
        ("max_attempts = 2\n[routing.hedge]\nafter = 20", 2),
        ("max_attempts = 3\n[routing.hedge]\nafter = 20", 3),
        ("max_attempts = 4\n[routing.hedge]\nafter = 20", 4),
    ] {
        let world = hedged(routing).await;
        let failing = || Answer::error(500, "x", "down").after(Step::Pause(Duration::from_millis(150)));
        world.upstream.always(failing());
        world.second.always(failing());
        let answer = refused(&world, &with(streamed("acme/fast"), fallback(&all))).await;
        assert_error("all down", &answer, 502, "upstream_error", "upstream_error");
        assert_eq!(world.upstream.hits() + world.second.hits(), most, "{routing}");
    }
}
