//! The ledger: one row for every request, whatever its end, with the figures of the answer.

mod attribution;
pub(crate) mod charges;
mod charges_by_ending;
mod clock_jumps;
mod cost;
mod cost_lines;
mod damaged_journal;
mod divided_endings;
mod failed_answers;
mod grouped_sums;
mod hour_writes;
mod log_size;
mod media_by_ending;
mod owners_of_costs;
mod payloads;
mod priced_work_by_ending;
mod provider_cost;
mod published_prices;
mod realtime_by_ending;
mod scripted_work;
mod unit_prices;
mod unpriced;
mod written_by_ending;
mod written_work;
mod zero_counts;

use std::path::Path;

use gw_store::ledger::Entry;
use gw_testkit::upstream::chat_transcript;
use gw_testkit::{Answer, Signal, eventually};
use serde_json::{Value, json};

use crate::harness::ledger::rows;
use crate::harness::{ADMIN, Setup, World, chat, chat_with, world};

async fn one_row(world: &World) -> Entry {
    let mut found = rows(&world.gateway, 1).await;
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// Lets the upstream finish after the client has disconnected: the row has the reported usage.
async fn assert_drained(world: &World, more: &Signal) {
    world.gateway.log_with("client_closed_request").await;
    more.fire();
    let row = one_row(world).await;
    assert_eq!(row.status, "client_closed_request");
    assert_eq!((row.tokens.prompt, row.tokens.completion, row.estimated), (10, 5, false), "{row:?}");
}

#[tokio::test]
async fn a_row_says_what_the_answer_said() {
    let world = world().await;
    let answer = world.chat(&chat_with("acme/fast", json!({ "user": "u-1" }))).await.ok();
    let body = answer.json();
    let row = one_row(&world).await;
    assert_eq!(Some(&*row.request_id), answer.header("x-request-id"));
    assert_eq!((&*row.status, &*row.operation, row.stream), ("ok", "chat", false));
    assert_eq!((row.requested_model.as_str(), &*row.model), ("acme/fast", "acme/fast"));
    assert_eq!((&*row.provider, &*row.strategy), ("acme", "default"));
    assert_eq!(Value::from(row.tokens.prompt), body["usage"]["prompt_tokens"]);
    assert_eq!(Value::from(row.tokens.completion), body["usage"]["completion_tokens"]);
    let cost = body["usage"]["cost_usd"].as_f64().expect("a cost");
    assert!((row.cost as f64 / 1e15 - cost).abs() < 1e-15 && cost > 0.0);
    assert_eq!((row.user.as_deref(), row.client.as_deref()), (Some("u-1"), Some("127.0.0.1")));
    assert!(!row.estimated && !row.fallback && !row.cache_hit);
    assert_eq!(row.attempts.len(), 1);
    assert_eq!(row.attempts[0].status, "ok");
}

#[tokio::test]
async fn a_stream_a_fallback_and_a_failure_have_their_rows() {
    let world = world().await;
    let mut stream =
        world.client.stream("/v1/chat/completions", &chat_with("acme/fast", json!({"stream": true}))).await;
    stream.rest().await;
    world.upstream.enqueue(Answer::error(500, "broken", "no"));
    world.chat(&chat_with("acme/fast", json!({"routing": {"fallback": ["beta/spare"]}}))).await.ok();
    world.upstream.enqueue(Answer::error(400, "bad", "no"));
    assert_eq!(world.chat(&chat("acme/fast")).await.status, 400);
    assert_eq!(world.chat(&chat("nobody/knows")).await.status, 404);
    assert_eq!(world.chat(&json!({"model": "acme/fast"})).await.status, 400);
    let found = rows(&world.gateway, 5).await;
    assert_eq!(found.len(), 5);
    // Several requests may share a millisecond, so the test does not rely on their order.
    let with = |status: &str| found.iter().find(|row| row.status == status && !row.fallback);
    let fallback = found.iter().find(|row| row.fallback).expect("a fallback served");
    assert_eq!((&*fallback.status, &*fallback.model), ("ok", "beta/spare"));
    let attempts: Vec<&str> = fallback.attempts.iter().map(|attempt| &*attempt.status).collect();
    assert_eq!(attempts, ["upstream_error", "ok"]);
    let streamed = with("ok").expect("a stream served");
    assert!(streamed.stream && streamed.ttft_ms.is_some() && streamed.cost > 0);
    for code in ["bad", "model_not_found", "missing_required_parameter"] {
        let failed = with(code).unwrap_or_else(|| panic!("{code}: {found:?}"));
        assert_eq!((failed.cost, failed.tokens.prompt), (0, 0), "{failed:?}");
    }
}

#[tokio::test]
async fn c02_a_stream_that_the_client_leaves_costs_what_was_seen() {
    let world = world().await;
    let more = Signal::new();
    let pieces = chat_transcript(&["Hello, ", "world"]);
    let answer = Answer::sse().all(&pieces[..2]).wait(&more).all(&pieces[2..]).done();
    world.upstream.enqueue(answer);
    let mut stream =
        world.client.stream("/v1/chat/completions", &chat_with("acme/fast", json!({"stream": true}))).await;
    while let Some(data) = stream.data().await {
        if data.contains("Hello") {
            break;
        }
    }
    stream.close();
    let request = world.upstream.requests().pop().expect("the upstream was asked");
    request.until_closed().await;
    let row = one_row(&world).await;
    assert_eq!(row.status, "client_closed_request");
    assert!(row.estimated && row.tokens.completion > 0 && row.cost > 0, "{row:?}");
}

#[tokio::test]
async fn c03_a_client_that_leaves_before_the_answer_pays_the_prompt() {
    let world = world().await;
    let never = Signal::new();
    world.upstream.enqueue(Answer::steps(Vec::new()).wait(&never));
    let client = world.client.clone();
    let asking =
        tokio::spawn(async move { client.post_json("/v1/chat/completions", &chat("acme/fast")).await });
    let request = eventually("the upstream is asked", || world.upstream.requests().pop()).await;
    asking.abort();
    request.until_closed().await;
    let row = one_row(&world).await;
    assert_eq!(row.status, "client_closed_request");
    assert!(row.estimated && row.tokens.prompt > 0 && row.tokens.completion == 0 && row.cost > 0, "{row:?}");
    let metrics = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    let is_left = |line: &&str| {
        line.starts_with("gateway_upstream_attempts_total{") && line.contains("\"client_closed_request\"")
    };
    let counted: Vec<&str> = metrics.lines().filter(is_left).collect();
    assert!(matches!(&*counted, [line] if line.ends_with(" 1")), "{counted:?}");
}

#[tokio::test]
async fn rows_of_the_last_moment_are_written_before_the_end() {
    let mut world = world().await;
    for _ in 0..20 {
        world.chat(&chat("acme/fast")).await.ok();
    }
    world.gateway.sigterm();
    assert!(world.gateway.ended().await.success());
    let data = world.gateway.dir().join("data");
    assert_eq!(rows(&world.gateway, 20).await.len(), 20);
    assert_eq!(journals(&data), 0, "the journal is empty");
}

fn journals(data: &Path) -> usize {
    std::fs::read_dir(data.join("journal")).expect("the journal's directory").count()
}

#[tokio::test]
async fn c02_drained_streams_cost_what_the_provider_says_in_the_end() {
    let world = Setup { routing: "on_disconnect = \"drain\"", ..Setup::default() }.start().await;
    let more = Signal::new();
    let pieces = chat_transcript(&["Hello, ", "world"]);
    world.upstream.enqueue(Answer::sse().all(&pieces[..2]).wait(&more).all(&pieces[2..]).done().end());
    let mut stream =
        world.client.stream("/v1/chat/completions", &chat_with("acme/fast", json!({"stream": true}))).await;
    while let Some(data) = stream.data().await {
        if data.contains("Hello") {
            break;
        }
    }
    stream.reset();
    assert_drained(&world, &more).await;
}

#[tokio::test]
async fn c03_drained_answers_cost_what_the_provider_says_in_the_end() {
    let world = Setup { routing: "on_disconnect = \"drain\"", ..Setup::default() }.start().await;
    let more = Signal::new();
    let body = gw_testkit::upstream::chat_body("m", "x").to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    world.upstream.enqueue(Answer::steps(Vec::new()).wait(&more).bytes(head + &body));
    let client = world.client.clone();
    let asking =
        tokio::spawn(async move { client.post_json("/v1/chat/completions", &chat("acme/fast")).await });
    world.upstream.request(0).await;
    asking.abort();
    assert_drained(&world, &more).await;
}

#[tokio::test]
async fn the_call_that_was_cut_left_or_refused_is_named() {
    let extra = "[[keys]]\nname = \"poor\"\nkey = \"sk-poor\"\nbudget_usd = 0.000000001\n".to_owned();
    let world = Setup { extra, ..Setup::default() }.start().await;
    let cut = chat_with("demo/cut", json!({"stream": true}));
    world.client.stream("/v1/chat/completions", &cut).await.rest().await;
    assert_eq!(world.chat(&chat("demo/panic")).await.status, 500);
    let poor = world.gateway.client().with_key("sk-poor");
    assert_eq!(poor.post_json("/v1/chat/completions", &chat("acme/fast")).await.code(), "insufficient_quota");
    let found = rows(&world.gateway, 3).await;
    let row = |status: &str| {
        found.iter().find(|row| row.status == status).unwrap_or_else(|| panic!("{status}: {found:?}"))
    };
    for (status, model) in [("upstream_stream_error", "demo/cut"), ("internal_error", "demo/panic")] {
        let attempt = &row(status).attempts[0];
        assert_eq!((&*attempt.model, &*attempt.status), (model, status));
    }
    let refused = row("insufficient_quota");
    assert_eq!((&*refused.model, &*refused.provider, refused.cost), ("acme/fast", "acme", 0));
    assert_eq!(refused.attempts, []);
}
