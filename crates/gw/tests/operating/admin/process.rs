//! The process: probes, metrics, log lines without secrets, and shutdown.

use std::time::Duration;

use gw_testkit::measured::at_most;
use gw_testkit::upstream::sse_data;
use gw_testkit::{Answer, Signal, eventually};
use serde_json::json;

use crate::harness::ledger::rows;
use crate::harness::{ADMIN, KEY, Setup, UPSTREAM_KEY, chat, chat_with, world};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn every_request_is_one_json_line_on_stdout() {
    let world = world().await;
    let client = world.client.with_header("x-client-request-id", "trace-17");
    let answer = client.post_json(CHAT, &chat("smart")).await.ok();
    let line = world.gateway.log_of(answer.header("x-request-id").expect("an id")).await;
    let expected = json!({
        "request_id": answer.header("x-request-id"), "client_request_id": "trace-17", "method": "POST", "path": CHAT,
        "status": 200, "code": "ok", "key": "ci", "model": "acme/fast", "provider": "acme", "prompt_tokens": 10,
        "completion_tokens": 5, "estimated": false, "cost_usd": 0.000_004_5, "attempts": 1, "stream": false, "fallback": false
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&line[name], value, "{name} in {line}");
    }
    assert!(line["duration_ms"].is_u64() && line["ts"].is_string(), "{line}");
    let refused = world.client.get("/v1/nothing").await;
    let line = world.gateway.log_of(refused.header("x-request-id").expect("an id")).await;
    assert_eq!((&line["status"], &line["code"]), (&json!(404), &json!("unknown_url")), "{line}");
    let mut stream = world.client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    stream.rest().await;
    let line = world.gateway.log_of(&id).await;
    assert_eq!(
        (&line["stream"], &line["prompt_tokens"], &line["code"]),
        (&json!(true), &json!(10), &json!("ok")),
        "{line}"
    );
    assert!(line["ttft_ms"].is_u64(), "{line}");
    assert_eq!(world.gateway.stdout().len(), 3, "one line each: {:?}", world.gateway.stdout());
}

#[tokio::test]
async fn a_key_in_a_url_or_in_the_id_of_a_request_is_logged_without_its_secret() {
    let world = world().await;
    let key = format!("sk-gw-abc123{}", "S3cr3t".repeat(7));
    let client = world.client.with_header("x-client-request-id", &format!("mine-{key}"));
    let answer = client.get(&format!("/v1/models/{key}")).await;
    assert_eq!(answer.status, 404);
    let line = world.gateway.log_of(answer.header("x-request-id").expect("an id")).await;
    assert_eq!(
        (&line["path"], &line["client_request_id"]),
        (&json!("/v1/models/sk-gw-abc123***"), &json!("mine-sk-gw-abc123***")),
        "{line}"
    );
    let said = [world.gateway.stdout(), world.gateway.stderr()].concat().join("\n");
    assert!(!said.contains("S3cr3t"), "{said}");
}

#[tokio::test]
async fn prompts_answers_and_keys_never_show_up_in_logs() {
    let world = Setup { extra: String::new(), ..Setup::default() }.start().await;
    let canary = "canary-prompt-4711";
    world.upstream.enqueue(Answer::error(
        401,
        "invalid_api_key",
        &format!("bad key {UPSTREAM_KEY} for {canary}"),
    ));
    world.upstream.enqueue(Answer::error(400, "bad", &format!("bad key {UPSTREAM_KEY}")));
    world.upstream.enqueue(Answer::full(200, &[], format!("<html>{canary} {UPSTREAM_KEY}")));
    for _ in 0..6 {
        let messages = json!({ "messages": [{ "role": "user", "content": canary }], "user": canary });
        let answer = world.chat(&chat_with("acme/fast", messages)).await;
        assert!(!answer.text().contains(UPSTREAM_KEY), "{}", answer.text());
        world.gateway.log_of(answer.header("x-request-id").expect("an id")).await;
    }
    world.client.with_key("sk-wrong-canary-key").get("/v1/models?x=canary-prompt-4711").await;
    let metrics = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    let everything = [world.gateway.stdout(), world.gateway.stderr(), vec![metrics]].concat().join("\n");
    for secret in [canary, UPSTREAM_KEY, KEY, ADMIN, "sk-wrong-canary-key"] {
        assert!(!everything.contains(secret), "{secret} in the logs");
    }
}

#[tokio::test]
async fn metrics_count_requests_attempts_tokens_and_cost() {
    let world = world().await;
    world.upstream.enqueue(Answer::error(500, "x", "boom"));
    world.chat_ok(&chat("acme/fast")).await;
    world.chat_ok(&chat("acme/unpriced")).await;
    let text = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    assert!(text.ends_with("# EOF\n"), "OpenMetrics ends so");
    let sum = |name: &str, label: &str| -> f64 {
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    assert!(sum("gateway_tokens", "acme/fast") >= 15.0, "{text}");
    assert!(sum("gateway_cost_usd", "acme/fast") > 0.0, "{text}");
    for word in ["requests", "duration", "attempts", "in_flight", "price"] {
        assert!(
            text.lines().any(|line| line.starts_with("# TYPE") && line.contains(word)),
            "{word} in {text}"
        );
    }
}

#[tokio::test]
async fn the_interface_describes_itself() {
    let world = world().await;
    let document = world.client.get("/openapi.json").await.ok().json();
    for path in [
        CHAT,
        "/v1/completions",
        "/v1/embeddings",
        "/v1/rerank",
        "/v1/moderations",
        "/v1/images/generations",
        "/v1/images/edits",
        "/v1/images/variations",
        "/v1/audio/speech",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        "/v1beta/models/{model_id}:generateContent",
        "/v1/realtime",
        "/v1/models",
        "/v1/models/{model_id}",
        "/v1/models/compare",
    ] {
        assert!(document["paths"].get(path).is_some(), "{path}");
    }
    assert!(
        world
            .client
            .get("/docs")
            .await
            .ok()
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/html"))
    );
}

#[tokio::test]
async fn a_sigterm_lets_live_streams_finish() {
    let mut world = world().await;
    let release = Signal::new();
    let answer = Answer::sse()
        .data(&sse_data(&json!({ "content": "before" }), None))
        .wait(&release)
        .data(&sse_data(&json!({ "content": " after" }), None))
        .data(&sse_data(&json!({}), Some("stop")))
        .done();
    world.upstream.enqueue(answer);
    let mut stream = world.client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
    stream.json().await;
    stream.json().await;
    world.gateway.sigterm();
    // New connections are refused or answered with 503. The live stream goes on undisturbed.
    let addr = world.gateway.addr;
    let refused = || async move { tokio::net::TcpStream::connect(addr).await.is_err() };
    let start = std::time::Instant::now();
    while !refused().await {
        let answer = world.client.without_key().get("/readyz").await;
        if answer.status == 503 {
            break;
        }
        assert!(start.elapsed() < gw_testkit::wait::DEADLINE, "still taking new work");
    }
    assert!(world.gateway.is_running());
    release.fire();
    let frames = stream.rest().await;
    assert_eq!(gw_testkit::sse::text_of(&frames, 0), " after");
    assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"));
    let status = world.gateway.ended().await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_stream_that_does_not_finish_in_the_grace_is_ended_with_an_error() {
    let mut world = Setup { server: "drain_seconds = 1", ..Setup::default() }.start().await;
    world.upstream.enqueue(Answer::sse().data(&sse_data(&json!({ "content": "begun" }), None)).hang());
    let mut stream = world.client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    stream.json().await;
    let text = stream.json().await;
    assert_eq!(text["choices"][0]["delta"]["content"], "begun");
    let plain = {
        world.upstream.enqueue(Answer::default().hang());
        let client = world.client.clone();
        tokio::spawn(async move { client.post_json(CHAT, &chat("acme/fast")).await })
    };
    world.upstream.request(1).await;
    let start = std::time::Instant::now();
    world.gateway.sigterm();
    let frames = stream.rest().await;
    let claims = frames.iter().any(|frame| frame.contains("\"finish_reason\":\""));
    assert!(!claims, "never a fake end: {frames:?}");
    assert!(
        frames.iter().any(|frame| frame.contains("\"upstream_stream_error\"")),
        "an error event: {frames:?}"
    );
    assert_eq!(plain.await.expect("an answer").status, 503);
    assert_eq!(world.gateway.log_of(&id).await["code"], "gateway_shutdown");
    let ended: Vec<String> =
        rows(&world.gateway, 2).await.into_iter().map(|row| row.status.into_owned()).collect();
    assert_eq!(ended, ["gateway_shutdown", "gateway_shutdown"]);
    let status = world.gateway.ended().await;
    assert_eq!(status.code(), Some(0));
    at_most(
        "a_stream_that_does_not_finish_in_the_grace_is_ended_with_an_error",
        start.elapsed(),
        Duration::from_secs(4),
    );
}

#[tokio::test]
async fn an_idle_gateway_stops_at_once() {
    let mut world = world().await;
    let mut wire = gw_testkit::wire::RawClient::connect(world.gateway.addr).await;
    wire.send(world.client.head("GET", "/v1/models", None, None)).await;
    wire.response().await.expect("an answer").ok();
    let start = std::time::Instant::now();
    world.gateway.sigterm();
    assert_eq!(world.gateway.ended().await.code(), Some(0));
    at_most("an_idle_gateway_stops_at_once", start.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn half_sent_heads_and_silent_connections_are_closed_at_their_clock() {
    let world = Setup { server: "head_timeout_ms = 300", ..Setup::default() }.start().await;
    for bytes in ["", "GET /v1/mod", "GET /v1/models HTTP/1.1\r\nhost: x\r\n", "PRI * HTTP/2.0\r\n\r\nSM"] {
        let mut wire = gw_testkit::wire::RawClient::connect(world.gateway.addr).await;
        wire.send(bytes).await;
        let start = std::time::Instant::now();
        wire.until_closed().await;
        at_most(
            "half_sent_heads_and_silent_connections_are_closed_at_their_clock",
            start.elapsed(),
            Duration::from_secs(3),
        );
    }
    eventually("the gateway still serves", || Some(())).await;
    world.chat_ok(&chat("acme/fast")).await;
}

#[tokio::test]
async fn the_attempt_of_a_stream_that_the_shutdown_cuts_before_its_first_token_says_so() {
    let server = "drain_seconds = 1\nkeepalive_seconds = 1";
    let mut world = Setup { server, ..Setup::default() }.start().await;
    world.upstream.enqueue(Answer::sse().hang());
    let mut stream = world.client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
    world.gateway.sigterm();
    assert!(stream.rest().await.iter().any(|frame| frame.contains("\"upstream_stream_error\"")));
    let rows = rows(&world.gateway, 1).await;
    let attempts: Vec<_> = rows[0].attempts.iter().map(|attempt| &*attempt.status).collect();
    assert_eq!((&*rows[0].status, &attempts[..]), ("gateway_shutdown", &["gateway_shutdown"][..]));
    assert_eq!(world.gateway.ended().await.code(), Some(0));
}
