//! Failover: the next target, targets that cool down, and the client's error (U15 to U19 of tests/guarantees.md).

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use gw_store::ledger::Entry;
use gw_testkit::measured::at_most;
use gw_testkit::sse::{chunks, text_of};
use gw_testkit::upstream::{Step, default_answer, sse_data};
use gw_testkit::{Answer, Signal, eventually};
use serde_json::{Value, json};

use crate::harness::answers::{attempts, fallback, pairs};
use crate::harness::ledger::rows;
use crate::harness::{ADMIN, Setup, World, assert_error, chat, chat_with};

const CHAT: &str = "/v1/chat/completions";

fn with_spare(streamed: bool) -> Value {
    let mut body = chat_with("acme/fast", fallback(&["beta/spare"]));
    body["stream"] = json!(streamed);
    body
}

/// The record of a target in `/admin/v1/providers`; null for a target without calls.
async fn target(world: &World, provider: &str, model: &str) -> Value {
    let told = world.client.with_key(ADMIN).get("/admin/v1/providers").await.ok().json();
    let row = |rows: &Value, name: &str, is: &str| {
        let rows = rows.as_array().cloned().unwrap_or_default();
        rows.into_iter().find(|row| row[name] == is).unwrap_or_default()
    };
    row(&row(&told["data"], "name", provider)["targets"], "model", model)
}

/// The state of its circuit breaker.
async fn standing(world: &World, provider: &str, model: &str) -> String {
    target(world, provider, model).await["standing"].as_str().unwrap_or("able").to_owned()
}

/// The attempts in a row of the ledger: models and statuses.
pub(crate) fn row_attempts(row: &Entry) -> Vec<(String, String)> {
    let gateway = json!({ "gateway": { "attempts": serde_json::to_value(&row.attempts).expect("JSON") } });
    attempts(&gateway)
}

/// Sends a stream that `acme` does not begin: `beta` serves it. Checks the text, the attempts and the only row of the ledger.
async fn assert_stream_moves_on(label: &str, world: &World, code: &str, failed: i128) {
    let mut stream = world.client.stream(CHAT, &with_spare(true)).await;
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    let frames = stream.rest().await;
    assert_eq!(text_of(&frames, 0), "Hello from upstream", "{label}: {frames:?}");
    let last = chunks(&frames).pop().expect("a last chunk");
    let expected = pairs(&[("acme/fast", code), ("beta/spare", "ok")]);
    assert_eq!(attempts(&last), expected, "{label}: {last}");
    let mut count = 1;
    let row = loop {
        let found = rows(&world.gateway, count).await;
        if let Some(row) = found.iter().find(|row| *row.request_id == *id) {
            break row.clone();
        }
        count = found.len() + 1;
    };
    assert_eq!((&*row.status, &*row.model, row_attempts(&row)), ("ok", "beta/spare", expected), "{label}");
    let served = (10 * 3 + 5 * 15) * 1_000_000_000;
    assert_eq!(row.cost, served + failed, "{label}: the attempt that served, and the one that may be billed");
}

#[tokio::test]
async fn u14_a_target_that_only_sends_comments_is_left_for_another() {
    let acme = "timeouts = { first_token_ms = 500, idle_ms = 30000, total_ms = 60000 }".to_owned();
    let world = Setup { acme, routing: "retries = 0", ..Setup::default() }.start().await;
    let role = sse_data(&json!({ "role": "assistant" }), None);
    for start in [Answer::sse(), Answer::sse().data(&role)] {
        world.upstream.always(start.then(Step::Endless(b":\n\n".to_vec(), Duration::from_millis(20))));
        assert_stream_moves_on("comments", &world, "upstream_timeout", 10 * 150_000_000).await;
        world.upstream.last().until_closed().await;
    }
}

#[tokio::test]
async fn u15_an_error_as_the_first_event_has_its_place_in_the_ledger() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let overloaded =
        json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
    world.upstream.always(Answer::sse().data(&overloaded).done());
    assert_stream_moves_on("first event", &world, "upstream_overloaded", 0).await;
    let answer = world.client.try_stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
    let answer = answer.expect_err("no other target");
    assert_error("alone", &answer, 503, "upstream_error", "upstream_overloaded");
}

#[tokio::test]
async fn u16_a_rate_limit_rests_its_target_and_is_told_to_the_client() {
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, bool);
    let dates = [("date", "Sat, 01 Jan 2000 00:00:00 GMT"), ("retry-after", "Sat, 01 Jan 2000 00:00:07 GMT")];
    let cases: [Case<'_>; 9] = [
        (&[("retry-after", "2")], "2", true),
        (&[("retry-after", "65")], "65", true),
        (&dates, "7", true),
        (&[("retry-after-ms", "61500"), ("retry-after", "9")], "62", true),
        (&[("retry-after", "1e12")], "120", true),
        (&[("retry-after", "0")], "1", true),
        (&[("retry-after", "-1")], "1", false),
        (&[("retry-after", "soon")], "1", false),
        (&[], "1", false),
    ];
    for (headers, told, rests) in cases {
        let label = format!("{headers:?}");
        let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
        let limited =
            json!({ "error": { "message": "slow down", "type": "x", "code": "rate_limit_exceeded" } });
        world.upstream.always(Answer::json_with(429, headers, &limited));
        // Seven failures of an only target: more than the number that opens a breaker.
        for _ in 0..7 {
            let answer = world.chat(&chat("acme/fast")).await;
            assert_error(&label, &answer, 429, "rate_limit_error", "upstream_rate_limited");
            assert_eq!(answer.header("retry-after"), Some(told), "{label}");
        }
        assert_eq!(world.upstream.hits(), 7, "{label}: an only target is asked all the same");
        // A short rest may be over before the next question.
        if told.len() == 1 && told < "7" && rests {
            continue;
        }
        assert_eq!(
            standing(&world, "acme", "acme/fast").await,
            if rests { "resting" } else { "able" },
            "{label}"
        );
        let left = target(&world, "acme", "acme/fast").await["asked_again_in_seconds"].as_f64();
        assert!(left.is_none_or(|left| left <= 300.0), "{label}: {left:?} s");
        // Another target serves meanwhile, and the target that cools down is not asked before it.
        let body = world.chat_ok(&chat("fast")).await;
        assert_eq!(body["gateway"]["model_used"], "beta/fast", "{label}");
        assert_eq!(world.upstream.hits(), if rests { 7 } else { 8 }, "{label}");
    }
}

#[tokio::test]
async fn u16_after_its_rest_a_target_is_asked_first_again() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    world.upstream.enqueue(Answer::json_with(429, &[("retry-after-ms", "300")], &json!({})));
    let start = Instant::now();
    let body = world.chat_ok(&chat("fast")).await;
    assert_eq!(attempts(&body), pairs(&[("acme/fast", "upstream_rate_limited"), ("beta/fast", "ok")]));
    while world.upstream.hits() == 1 {
        assert!(start.elapsed() < gw_testkit::wait::DEADLINE, "it rests for ever");
        world.chat_ok(&chat("fast")).await;
    }
    assert!(start.elapsed() >= Duration::from_secs(1), "a second at least: {:?}", start.elapsed());
}

/// Sends this many requests, ten at a time; gives the number of 200s and the duration.
async fn storm(world: &World, model: &str, count: usize) -> (usize, Duration) {
    let start = Instant::now();
    let asked = (0..count).map(|_| async { world.chat(&chat(model)).await.status == 200 });
    let good = futures_util::stream::iter(asked).buffer_unordered(10).filter(|ok| std::future::ready(*ok));
    (good.count().await, start.elapsed())
}

#[tokio::test]
async fn u17_an_outage_is_not_made_worse_by_retries() {
    const REQUESTS: usize = 600;
    let routing = "[routing.breaker]\ncooldown_ms = 300";
    for (model, targets) in [("acme/fast", 1), ("fast", 2)] {
        let world = Setup { routing, ..Setup::default() }.start().await;
        world.upstream.always(Answer::error(500, "x", "down"));
        world.second.always(Answer::error(500, "x", "down"));
        let (good, took) = storm(&world, model, REQUESTS).await;
        assert_eq!(good, 0);
        let calls = world.upstream.hits() + world.second.hits();
        assert!(calls >= REQUESTS, "an open circuit refuses no request: {calls}");
        // A fifth of the requests, or ten per second where that is more on a slow machine.
        let extra = (REQUESTS as f64 / 5.0).max(10.0 * took.as_secs_f64() + 20.0);
        assert!((calls - REQUESTS) as f64 <= extra, "{targets} targets: {calls} calls in {took:?}");
    }
}

#[tokio::test]
async fn u17_a_breaker_opens_after_few_failures_and_its_client_notices_nothing() {
    let routing = "retries = 0\n[routing.breaker]\ncooldown_ms = 600000";
    let world = Setup { routing, ..Setup::default() }.start().await;
    world.upstream.always(Answer::error(500, "x", "down"));
    for _ in 0..30 {
        world.chat_ok(&chat("fast")).await;
    }
    assert!((1..=7).contains(&world.upstream.hits()), "{} failures", world.upstream.hits());
    assert_eq!(standing(&world, "acme", "acme/fast").await, "open");
    let metrics = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    let opened: Vec<_> =
        metrics.lines().filter(|line| line.starts_with("gateway_breaker_opened_total")).collect();
    assert!(opened.iter().any(|line| line.contains("acme/fast") && line.ends_with(" 1")), "{opened:?}");
    // The breaker is per model: another model of the provider is unaffected.
    assert_eq!(standing(&world, "acme", "acme/plain").await, "able");
}

/// The openings of a target's circuit, those after a failed probe among them.
async fn times_opened(world: &World, model: &str) -> u64 {
    let metrics = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    let mut lines = metrics.lines().filter(|line| line.starts_with("gateway_breaker_opened_total"));
    let line = lines.find(|line| line.contains(model)).expect("its counter");
    line.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a number")
}

#[tokio::test]
async fn u17_one_probe_at_a_time_and_a_quick_recovery() {
    let routing = "retries = 0\n[routing.breaker]\ncooldown_ms = 300\nramp_ms = 0";
    let world = Setup { routing, ..Setup::default() }.start().await;
    world.upstream.always(Answer::error(500, "x", "down"));
    while standing(&world, "acme", "acme/fast").await != "open" {
        world.chat_ok(&chat("fast")).await;
    }
    let failed = world.upstream.hits();
    // From now on the upstream waits for a signal.
    let go = Signal::new();
    world.upstream.always(Answer::error(500, "x", "still down").after(Step::Wait(go.clone())));
    let ask = || {
        tokio::spawn({
            let client = world.client.clone();
            async move { client.post_json(CHAT, &chat("fast")).await.status }
        })
    };
    let mut asked = vec![ask()];
    eventually("a probe is out", || {
        asked.push(ask());
        (world.upstream.hits() > failed).then_some(())
    })
    .await;
    assert_eq!(standing(&world, "acme", "acme/fast").await, "probing");
    // During the probe no other request is sent there, and none waits for it.
    let (good, _) = storm(&world, "fast", 50).await;
    assert_eq!((good, world.upstream.hits()), (50, failed + 1), "one probe");
    // The others are answered first, so that none of them is late enough to be the next probe.
    let is_answered = || asked.iter().filter(|asked| !asked.is_finished()).count() == 1;
    eventually("the probe alone is left", || is_answered().then_some(())).await;
    let opened = times_opened(&world, "acme/fast").await;
    go.fire();
    for asked in asked {
        assert_eq!(asked.await.expect("it was asked"), 200);
    }
    // A pause of the test may outlast the cooldown, but the count stays.
    assert_eq!(times_opened(&world, "acme/fast").await, opened + 1, "the probe has failed");
    // The upstream is healthy again, and the next probe notices.
    let healed = Instant::now();
    world.upstream.respond_with(default_answer);
    loop {
        let body = world.chat_ok(&chat("fast")).await;
        if body["gateway"]["model_used"] == "acme/fast" {
            break;
        }
        at_most(
            "u17_one_probe_at_a_time_and_a_quick_recovery",
            healed.elapsed(),
            5 * Duration::from_millis(600 + 1000),
        );
    }
    assert_eq!(standing(&world, "acme", "acme/fast").await, "able");
}

#[tokio::test]
async fn u18_an_overloaded_upstream_fails_over_or_is_told_with_its_wait() {
    for status in [503, 529] {
        let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
        let busy = |headers: &[(&str, &str)]| {
            Answer::json_with(status, headers, &json!({ "error": { "message": "busy" } }))
        };
        world.upstream.always(busy(&[]));
        let body = world.chat_ok(&with_spare(false)).await;
        assert_eq!(attempts(&body), pairs(&[("acme/fast", "upstream_overloaded"), ("beta/spare", "ok")]));
        assert_stream_moves_on(&status.to_string(), &world, "upstream_overloaded", 0).await;
        for (headers, told) in [(&[][..], "1"), (&[("retry-after", "3")], "3")] {
            world.upstream.always(busy(headers));
            let answer = world.chat(&chat("acme/fast")).await;
            assert_error("alone", &answer, 503, "upstream_error", "upstream_overloaded");
            assert_eq!(answer.header("retry-after"), Some(told), "{status}");
            let body = chat_with("acme/fast", json!({ "stream": true }));
            let answer = world.client.try_stream(CHAT, &body).await.expect_err("no stream");
            assert_error("alone", &answer, 503, "upstream_error", "upstream_overloaded");
        }
        // `acme` asked for three seconds, so another target is asked first.
        let before = world.upstream.hits();
        assert_eq!(world.chat_ok(&chat("fast")).await["gateway"]["model_used"], "beta/fast");
        assert_eq!(world.upstream.hits(), before, "{status}");
    }
}

#[tokio::test]
async fn u19_when_all_targets_fail_each_was_tried_once_and_one_error_is_told() {
    let acme = "timeouts = { first_token_ms = 1500 }".to_owned();
    let world = Setup { acme, routing: "retries = 1\nmax_attempts = 10", ..Setup::default() }.start().await;
    world.upstream.respond_with(|request| match request.json()["model"].as_str() {
        Some("fast-2026-01") => Answer::error(500, "x", "down"),
        Some("plain") => Answer::default().hang(),
        _ => Answer::default().reset(),
    });
    world.second.respond_with(|request| match request.json()["model"].as_str() {
        Some("fast") => Answer::full(200, &[], "<html>"),
        _ => Answer::error(503, "x", "busy"),
    });
    let order = [
        ("acme/fast", "upstream_error"),
        ("acme/plain", "upstream_timeout"),
        ("acme/unpriced", "upstream_unreachable"),
        ("beta/fast", "upstream_invalid_response"),
        ("beta/spare", "upstream_overloaded"),
    ];
    let names: Vec<&str> = order.iter().skip(1).map(|(name, _)| *name).collect();
    for streamed in [false, true] {
        let mut body = chat_with("acme/fast", fallback(&names));
        body["stream"] = json!(streamed);
        let before = world.upstream.hits() + world.second.hits();
        let start = Instant::now();
        let answer = match streamed {
            true => world.client.try_stream(CHAT, &body).await.expect_err("no stream"),
            false => world.chat(&body).await,
        };
        assert_error("all", &answer, 503, "upstream_error", "upstream_overloaded");
        at_most(
            "u19_when_all_targets_fail_each_was_tried_once_and_one_error_is_told",
            start.elapsed(),
            Duration::from_millis(7500),
        );
        assert_eq!(world.upstream.hits() + world.second.hits(), before + order.len(), "each once");
        for (name, _) in order {
            assert!(answer.message().contains(name), "{}", answer.message());
        }
    }
    let found = rows(&world.gateway, 2).await;
    assert_eq!(found.len(), 2);
    for row in found {
        assert_eq!((&*row.status, row_attempts(&row)), ("upstream_overloaded", pairs(&order)));
        // Targets that may have read the prompt of ten tokens are charged: the silent one and the one with an invalid answer. One has no price.
        let costs: Vec<Option<i128>> = row.attempts.iter().map(|attempt| attempt.cost).collect();
        assert_eq!(costs, [Some(0), Some(10_000_000_000), None, Some(3_000_000_000), Some(0)], "{row:?}");
        assert_eq!(row.cost, 13_000_000_000);
    }
}
