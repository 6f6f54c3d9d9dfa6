//! Errors whose cause is the upstream.

use std::time::Duration;

use gw_testkit::measured::at_most;
use gw_testkit::upstream::refused_address;
use gw_testkit::{Answer, Response};
use serde_json::{Value, json};

use crate::harness::{Setup, UPSTREAM_KEY, World, assert_error, assert_invalid, chat, chat_with};

/// One attempt only: a retry would hide the first answer.
async fn single_attempt() -> World {
    Setup { routing: "retries = 0", ..Setup::default() }.start().await
}

async fn answered_by(world: &World, answer: Answer) -> Response {
    world.upstream.enqueue(answer);
    world.chat(&chat("acme/fast")).await
}

#[tokio::test]
async fn an_upstream_400_is_the_clients_400_with_the_upstreams_code() {
    let world = single_attempt().await;
    let error = |code: Value| json!({ "error": { "message": "No.", "type": "x", "code": code } });
    let table = [
        (400, error(json!("context_length_exceeded")), "context_length_exceeded"),
        (400, error(json!("content_filter")), "content_filter"),
        (400, error(json!("strange_code")), "strange_code"),
        (400, error(json!(4711)), "4711"),
        (400, error(Value::Null), "invalid_request"),
        (422, error(json!("unprocessable")), "unprocessable"),
        (422, json!({ "detail": [{ "msg": "no" }] }), "invalid_request"),
        (400, json!("not an object"), "invalid_request"),
    ];
    for (status, body, code) in table {
        let answer = answered_by(&world, Answer::json(status, &body)).await;
        assert_invalid(&format!("{status} {body}"), &answer, code);
    }
}

#[tokio::test]
async fn when_every_upstream_says_429_so_do_we() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let limited = |seconds: &str| {
        Answer::json_with(429, &[("retry-after", seconds)], &json!({ "error": { "message": "slow down" } }))
    };
    world.upstream.enqueue(limited("30"));
    world.second.enqueue(limited("7"));
    let answer =
        world.chat(&chat_with("acme/fast", json!({ "routing": { "fallback": ["beta/spare"] } }))).await;
    assert_error("both 429", &answer, 429, "rate_limit_error", "upstream_rate_limited");
    assert_eq!(answer.header("retry-after"), Some("7"), "the smallest wait");
}

#[tokio::test]
async fn upstream_failures_are_502_with_a_code_that_says_whose_fault_it_is() {
    let world = single_attempt().await;
    let echo = format!("Incorrect API key provided: {UPSTREAM_KEY} at http://127.0.0.1/v1");
    let table = [
        (Answer::error(500, "server_error", "boom"), "upstream_error"),
        (Answer::error(502, "bad_gateway", "boom"), "upstream_error"),
        (Answer::full(500, &[("content-type", "text/html")], "<h1>Oops</h1>"), "upstream_error"),
        (Answer::error(401, "invalid_api_key", &echo), "upstream_auth_error"),
        (Answer::error(403, "forbidden", &echo), "upstream_auth_error"),
        (Answer::error(402, "billing", "pay"), "upstream_billing_error"),
        (Answer::error(429, "insufficient_quota", "quota"), "upstream_billing_error"),
        (Answer::error(404, "model_not_found", "no such model"), "upstream_model_missing"),
        (Answer::full(200, &[("content-type", "text/html")], "<h1>Hi</h1>"), "upstream_invalid_response"),
    ];
    for (scripted, code) in table {
        let label = format!("{code}: {scripted:?}").chars().take(80).collect::<String>();
        let answer = answered_by(&world, scripted).await;
        assert_error(&label, &answer, 502, "upstream_error", code);
        // A provider key that is disabled or cooling down must not hide the next row of the table.
        drop(label);
    }
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_is_502() {
    let gone = refused_address().await;
    let setup =
        Setup { routing: "retries = 0", acme_url: Some(format!("http://{gone}/v1")), ..Setup::default() };
    let world = setup.start().await;
    let answer = world.chat(&chat("acme/fast")).await;
    assert_error("refused", &answer, 502, "upstream_error", "upstream_unreachable");
    let setup = Setup {
        routing: "retries = 0",
        acme_url: Some("http://no-such-host.invalid/v1".to_owned()),
        ..Setup::default()
    };
    let world = setup.start().await;
    let answer = world.chat(&chat("acme/fast")).await;
    assert_error("no such name", &answer, 502, "upstream_error", "upstream_unreachable");
}

#[tokio::test]
async fn an_overloaded_upstream_is_503_with_its_wait() {
    let world = single_attempt().await;
    for status in [503, 529] {
        let overloaded =
            Answer::json_with(status, &[("retry-after", "9")], &json!({ "error": { "message": "busy" } }));
        let answer = answered_by(&world, overloaded).await;
        assert_error(&status.to_string(), &answer, 503, "upstream_error", "upstream_overloaded");
        assert_eq!(answer.header("retry-after"), Some("9"));
    }
    let answer = answered_by(&world, Answer::error(503, "overloaded", "busy")).await;
    assert_error("without a wait", &answer, 503, "upstream_error", "upstream_overloaded");
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_504() {
    let setup = Setup { routing: "retries = 0", timeouts: "first_token_ms = 200", ..Setup::default() };
    let world = setup.start().await;
    let start = std::time::Instant::now();
    let answer = answered_by(&world, Answer::default().hang()).await;
    assert_error("silent", &answer, 504, "upstream_error", "upstream_timeout");
    at_most("an_upstream_that_says_nothing_is_504", start.elapsed(), Duration::from_secs(5));
    world.upstream.last().until_closed().await;
}
