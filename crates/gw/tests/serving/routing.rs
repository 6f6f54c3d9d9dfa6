//! The choice of the upstream: names, fallbacks, retries, and their report in the member `gateway`.

mod diagnostics;
mod divided_retries;
pub(crate) mod failover;
mod hedging;
mod preset_echo;
mod preset_names;
mod presets;
mod properties;
pub(crate) mod strategies;
mod upgrades;

use gw_testkit::sse::{chunks, text_of};
use gw_testkit::upstream::{chat_body, sse_data};
use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use crate::harness::answers::{attempts, fallback, pairs};
use crate::harness::{Setup, World, assert_error, chat, chat_with, with, world};

async fn no_retries() -> World {
    Setup { routing: "retries = 0", ..Setup::default() }.start().await
}

fn model_sent(upstream: &FakeUpstream) -> Value {
    upstream.last().json()["model"].clone()
}

#[tokio::test]
async fn full_ids_bare_names_and_aliases_find_their_model() {
    let world = world().await;
    for (name, used) in [
        ("acme/fast", "acme/fast"),
        ("fast", "acme/fast"),
        ("smart", "acme/fast"),
        ("plain", "acme/plain"),
        ("beta/fast", "beta/fast"),
    ] {
        let body = world.chat_ok(&chat(name)).await;
        assert_eq!(body["gateway"]["model_used"], used, "{name}");
        assert_eq!(body["gateway"]["fallback_used"], false, "{name}");
    }
    assert_eq!(model_sent(&world.upstream), "plain");
    assert_eq!(model_sent(&world.second), "fast");
}

#[tokio::test]
async fn another_provider_of_the_same_bare_name_takes_over_and_is_no_fallback() {
    let world = no_retries().await;
    world.upstream.enqueue(Answer::error(500, "x", "boom"));
    let body = world.chat_ok(&chat("fast")).await;
    assert_eq!(body["gateway"]["model_used"], "beta/fast");
    assert_eq!(body["gateway"]["provider"], "beta");
    assert_eq!(body["gateway"]["fallback_used"], false);
    assert_eq!(attempts(&body), pairs(&[("acme/fast", "upstream_error"), ("beta/fast", "ok")]));
}

#[tokio::test]
async fn a_full_id_stays_with_its_provider() {
    let world = no_retries().await;
    world.upstream.always(Answer::error(500, "x", "boom"));
    let answer = world.chat(&chat("acme/fast")).await;
    assert_error("alone", &answer, 502, "upstream_error", "upstream_error");
    assert_eq!(world.second.hits(), 0);
}

#[tokio::test]
async fn fallbacks_are_tried_in_the_clients_order() {
    let world = no_retries().await;
    world.upstream.always(Answer::error(503, "x", "busy"));
    let body = chat_with("acme/fast", fallback(&["acme/fast", "acme/plain", "acme/plain", "beta/spare"]));
    let body = world.chat_ok(&body).await;
    assert_eq!(body["gateway"]["model_used"], "beta/spare");
    assert_eq!(body["gateway"]["fallback_used"], true);
    let expected =
        [("acme/fast", "upstream_overloaded"), ("acme/plain", "upstream_overloaded"), ("beta/spare", "ok")];
    assert_eq!(attempts(&body), pairs(&expected), "own model removed, others once");
    assert_eq!(
        body["usage"]["cost_usd"],
        json!((10.0 * 3.0 + 5.0 * 15.0) / 1e6),
        "the price of the serving model"
    );
}

#[tokio::test]
async fn a_fallbacks_output_limit_is_kept_for_it() {
    let world = no_retries().await;
    world.upstream.always(Answer::error(500, "x", "boom"));
    let mut body = chat_with("acme/fast", fallback(&["beta/spare"]));
    body["max_tokens"] = json!(5000);
    let clamped = json!(["parameter_clamped:max_tokens"]);
    assert_eq!(world.chat_ok(&body).await["gateway"]["warnings"], clamped);
    assert_eq!(
        world.upstream.last().json()["max_tokens"],
        5000,
        "the requested model gets the requested limit"
    );
    assert_eq!(world.second.last().json()["max_tokens"], 100, "the fallback gets its own limit");
    body["stream"] = json!(true);
    let last = chunks(&world.client.stream("/v1/chat/completions", &body).await.rest().await).pop();
    assert_eq!(last.expect("a chunk")["gateway"]["warnings"], clamped);
    // What fits, and what nobody asked for, is not clamped.
    for max_tokens in [json!(100), json!(null)] {
        body = with(body, json!({ "max_tokens": max_tokens, "stream": false }));
        assert_eq!(world.chat_ok(&body).await["gateway"]["warnings"], json!([]), "{max_tokens}");
    }
}

#[tokio::test]
async fn which_failures_move_on() {
    // A target with so many failures would be asked last.
    let routing = "retries = 0\n[routing.breaker]\nfailures = 1000";
    let world = Setup { routing, ..Setup::default() }.start().await;
    let moves = [
        Answer::error(408, "x", "m"),
        Answer::error(409, "x", "m"),
        Answer::error(429, "x", "m"),
        Answer::error(500, "x", "m"),
        Answer::error(529, "x", "m"),
        Answer::error(402, "x", "m"),
        Answer::error(404, "x", "m"),
        Answer::error(400, "context_length_exceeded", "m"),
        Answer::full(200, &[], "<html>"),
        Answer::default().reset(),
    ];
    for failure in moves {
        let (label, before) = (format!("{failure:?}"), world.second.hits());
        world.upstream.enqueue(failure);
        let body = world.chat_ok(&chat_with("acme/fast", fallback(&["beta/spare"]))).await;
        assert_eq!(body["gateway"]["model_used"], "beta/spare", "{label}");
        assert_eq!(world.second.hits(), before + 1, "{label}");
    }
    for (failure, code) in [
        (Answer::error(400, "bad", "m"), "bad"),
        (Answer::error(422, "bad", "m"), "bad"),
        (Answer::error(413, "big", "m"), "request_too_large"),
        (Answer::error(400, "content_filter", "m"), "content_filter"),
    ] {
        let before = world.second.hits();
        world.upstream.enqueue(failure);
        let answer = world.chat(&chat_with("acme/fast", fallback(&["beta/spare"]))).await;
        assert_eq!(answer.code(), code, "{}", answer.text());
        assert_eq!(world.second.hits(), before, "{code} stays");
    }
}

#[tokio::test]
async fn operators_faults_move_on_too() {
    for status in [401, 403] {
        let world = no_retries().await;
        world.upstream.enqueue(Answer::error(status, "x", "m"));
        let body = world.chat_ok(&chat_with("acme/fast", fallback(&["beta/spare"]))).await;
        assert_eq!(body["gateway"]["model_used"], "beta/spare", "{status}");
    }
}

#[tokio::test]
async fn with_fallback_on_4xx_every_error_moves_on() {
    let world = Setup { routing: "retries = 0\nfallback_on_4xx = true", ..Setup::default() }.start().await;
    world.upstream.enqueue(Answer::error(400, "bad", "m"));
    let body = world.chat_ok(&chat_with("acme/fast", fallback(&["beta/spare"]))).await;
    assert_eq!(body["gateway"]["model_used"], "beta/spare");
}

#[tokio::test]
async fn one_retry_on_the_same_target_before_its_first_byte() {
    let world = world().await;
    world.upstream.enqueue(Answer::error(500, "x", "boom"));
    let body = world.chat_ok(&chat("acme/fast")).await;
    assert_eq!(attempts(&body), pairs(&[("acme/fast", "upstream_error"), ("acme/fast", "ok")]));
    assert_eq!(body["gateway"]["fallback_used"], false);
    world.upstream.always(Answer::error(500, "x", "boom"));
    let before = world.upstream.hits();
    assert_eq!(world.chat(&chat("acme/fast")).await.status, 502);
    assert_eq!(world.upstream.hits() - before, 2);
}

#[tokio::test]
async fn max_attempts_counts_every_call() {
    let world = Setup { routing: "max_attempts = 3\nretries = 1", ..Setup::default() }.start().await;
    world.upstream.always(Answer::error(500, "x", "boom"));
    world.second.always(Answer::error(500, "x", "boom"));
    let body = chat_with("acme/fast", fallback(&["acme/plain", "beta/spare", "beta/fast"]));
    assert_eq!(world.chat(&body).await.status, 502);
    assert_eq!(world.upstream.hits() + world.second.hits(), 3);
}

#[tokio::test]
async fn when_all_fail_the_last_error_is_told_and_429_only_when_all_are() {
    let world = no_retries().await;
    world.upstream.enqueue(Answer::error(429, "x", "slow"));
    world.second.enqueue(Answer::error(500, "x", "boom"));
    let answer = world.chat(&chat_with("acme/fast", fallback(&["beta/spare"]))).await;
    assert_error("429 then 500", &answer, 502, "upstream_error", "upstream_error");
    for model in ["acme/fast", "beta/spare"] {
        assert!(answer.message().contains(model), "names the models tried: {}", answer.message());
    }
}

#[tokio::test]
async fn a_stream_falls_back_silently_before_its_first_event() {
    let world = no_retries().await;
    let failures = [
        Answer::error(500, "x", "boom"),
        Answer::sse()
            .data(&json!({ "error": { "message": "overloaded", "type": "overloaded_error" } }))
            .done(),
        Answer::sse().chunk(": processing\n\n").end(),
        Answer::sse().data(&sse_data(&json!({ "role": "assistant" }), None)).reset(),
    ];
    for failure in failures {
        let label = format!("{failure:?}");
        world.upstream.enqueue(failure);
        let mut body = chat_with("acme/fast", fallback(&["beta/spare"]));
        body["stream"] = json!(true);
        let frames = world.client.stream("/v1/chat/completions", &body).await.rest().await;
        assert_eq!(text_of(&frames, 0), "Hello from upstream", "{label}");
        let last = chunks(&frames).pop().expect("chunks");
        assert_eq!(last["gateway"]["model_used"], "beta/spare", "{label}");
        assert_eq!(last["gateway"]["fallback_used"], true);
    }
}

#[tokio::test]
async fn embeddings_and_text_completions_fall_over_too() {
    let world = no_retries().await;
    world.upstream.enqueue(Answer::error(500, "x", "boom"));
    let body = json!({ "model": "acme/fast", "prompt": "x", "routing": { "fallback": ["beta/spare"] } });
    let body = world.client.post_json("/v1/completions", &body).await.ok().json();
    assert_eq!(body["gateway"]["model_used"], "beta/spare");
}

#[tokio::test]
async fn every_strategy_is_taken_by_each_of_its_names_and_reported_by_its_first() {
    let world = world().await;
    for (canonical, others) in [
        ("default", &[][..]),
        ("cheapest", &["cost", "price", "lowest_cost"]),
        ("fastest", &["latency", "lowest_latency"]),
        ("throughput", &[]),
        ("best_quality", &["quality"]),
        ("balanced", &[]),
        ("availability", &[]),
        ("least_busy", &[]),
        ("round_robin", &["weighted"]),
    ] {
        for name in others.iter().chain(&[canonical]) {
            let body = chat_with("fast", json!({ "routing": { "strategy": name } }));
            let body = world.chat_ok(&body).await;
            assert_eq!(body["gateway"]["routing_strategy"], canonical, "{name}");
        }
    }
    let routing = json!({ "strategy": "default", "fallback": [], "allow_upgrade": false });
    let cache = json!({ "enabled": false, "ttl": 60 });
    let body = world.chat_ok(&chat_with("acme/fast", json!({ "routing": routing, "cache": cache }))).await;
    assert_eq!(body["gateway"]["routing_strategy"], "default");
    for (name, strategy) in [("fast:floor", "cheapest"), ("acme/fast:nitro", "throughput")] {
        let body = world.chat_ok(&chat(name)).await;
        assert_eq!(body["gateway"]["routing_strategy"], strategy, "{name}");
        let body = chat_with(name, json!({ "routing": { "strategy": "quality" } }));
        let body = world.chat_ok(&body).await;
        assert_eq!(body["gateway"]["routing_strategy"], "best_quality", "an explicit strategy beats {name}");
    }
}

#[tokio::test]
async fn the_upstreams_model_name_is_reported_as_it_says() {
    let world = world().await;
    world.upstream.enqueue(Answer::json(200, &chat_body("fast-2026-01-variant", "x")));
    let body = world.chat_ok(&chat("acme/fast")).await;
    assert_eq!(body["model"], "fast-2026-01-variant");
    assert_eq!(body["gateway"]["model_used"], "acme/fast");
}

#[tokio::test]
async fn a_stream_that_opened_on_the_first_candidate_never_changes_it() {
    let world = no_retries().await;
    world.upstream.enqueue(Answer::sse().data(&sse_data(&json!({ "content": "begun" }), None)).reset());
    let mut body = chat_with("acme/fast", fallback(&["beta/spare"]));
    body["stream"] = json!(true);
    let frames = world.client.stream("/v1/chat/completions", &body).await.rest().await;
    crate::harness::answers::assert_broken_off(&frames, "upstream_stream_error");
    assert_eq!(world.second.hits(), 0);
}

#[tokio::test]
async fn no_fallback_leads_out_of_a_keys_list() {
    let world = no_retries().await;
    world.upstream.always(Answer::error(500, "x", "boom"));
    let limited = world.client.with_key(crate::harness::LIMITED);
    // A bare name stands only for the models that the key may use.
    let answer = limited.post_json("/v1/chat/completions", &chat("plain")).await;
    assert_error("plain", &answer, 502, "upstream_error", "upstream_error");
    let answer = limited.post_json("/v1/chat/completions", &chat("fast")).await;
    assert_error("fast", &answer, 403, "permission_error", "model_not_allowed");
    assert_eq!(world.second.hits(), 0);
}
