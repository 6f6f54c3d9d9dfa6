//! Strategies, upgrades and explanations over real sockets.

use gw_testkit::Answer;
use gw_testkit::upstream::chat_body;
use serde_json::{Value, json};

use crate::harness::{ADMIN, Setup, World, assert_error, assert_invalid, chat, chat_with, with};

/// `one` is cheap and weak, `two` is expensive and good, `three` is in between. All have the bare name `m`.
pub(crate) const THREE: &str = r#"
[[providers]]
name = "gamma"
api = "openai"
base_url = "<acme_url>"
api_key = "k"

[[models]]
id = "acme/m"
category = ["chat"]
context_length = 8000
features = ["streaming"]
pricing = { official_input_per_m = 2.0, official_output_per_m = 4.0 }
quality_scores = { overall = 50.0 }
performance = { latency_p50_ms = 300, availability = 99.0 }

[[models]]
id = "beta/m"
category = ["chat"]
context_length = 16000
features = ["streaming", "function_calling"]
pricing = { official_input_per_m = 9.0, official_output_per_m = 20.0 }
quality_scores = { overall = 90.0 }
performance = { latency_p50_ms = 900, availability = 99.99 }
weight = 3

[[models]]
id = "gamma/m"
category = ["chat"]
context_length = 8000
features = ["streaming"]
pricing = { official_input_per_m = 0.5, official_output_per_m = 1.0 }
quality_scores = { overall = 40.0 }
performance = { latency_p50_ms = 600, availability = 98.0 }
"#;

async fn three(routing: &'static str) -> World {
    Setup { routing, extra: THREE.to_owned(), ..Setup::default() }.start().await
}

fn used(body: &Value) -> &str {
    body["gateway"]["model_used"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn each_strategy_has_its_own_winner() {
    for (strategy, winner) in [
        ("default", "acme/m"),
        ("cheapest", "gamma/m"),
        ("fastest", "acme/m"),
        ("best_quality", "beta/m"),
        ("availability", "beta/m"),
    ] {
        let world = three("").await;
        let body = chat_with("m", json!({ "routing": { "strategy": strategy } }));
        let body = world.chat_ok(&body).await;
        assert_eq!(used(&body), winner, "{strategy}");
        assert_eq!(body["gateway"]["routing_strategy"], strategy);
        assert_eq!(
            body["gateway"]["fallback_used"], false,
            "a second entry with an equal name adds no provider"
        );
    }
}

#[tokio::test]
async fn the_configured_strategy_is_that_of_requests_without_one() {
    let world = three("strategy = \"cost\"").await;
    let body = world.chat_ok(&chat("m")).await;
    assert_eq!((used(&body), &body["gateway"]["routing_strategy"]), ("gamma/m", &json!("cheapest")));
    let body = world.chat_ok(&chat_with("m", json!({ "routing": { "strategy": "default" } }))).await;
    assert_eq!((used(&body), &body["gateway"]["routing_strategy"]), ("acme/m", &json!("default")));
}

#[tokio::test]
async fn round_robin_gives_turns_by_weight() {
    let world = three("").await;
    let mut turns = std::collections::BTreeMap::<String, u32>::new();
    for turn in 0..20 {
        let more = json!({ "routing": { "strategy": "round_robin" }, "messages": [{ "role": "user", "content": turn.to_string() }] });
        let body = world.chat_ok(&chat_with("m", more)).await;
        *turns.entry(used(&body).to_owned()).or_default() += 1;
    }
    assert_eq!(turns["beta/m"], 12, "three of five: {turns:?}");
    assert_eq!((turns["acme/m"], turns["gamma/m"]), (4, 4));
}

#[tokio::test]
async fn a_strategy_orders_the_requested_name_and_leaves_the_fallbacks_order_alone() {
    let world = three("retries = 0").await;
    world.upstream.always(Answer::error(500, "x", "down"));
    world.second.always(Answer::error(500, "x", "down"));
    let routing = json!({ "strategy": "best_quality", "fallback": ["demo/chat", "acme/fast"] });
    let body = world.chat_ok(&chat_with("m", json!({ "routing": routing }))).await;
    let models: Vec<&str> =
        body["gateway"]["attempts"].as_array().unwrap().iter().filter_map(|a| a["model"].as_str()).collect();
    assert_eq!(models, ["beta/m", "acme/m", "gamma/m", "demo/chat"]);
}

#[tokio::test]
async fn without_permission_nothing_but_what_was_named_serves() {
    let world = three("retries = 0").await;
    world.upstream.always(Answer::error(500, "x", "down"));
    let answer = world.chat(&chat("gamma/m")).await;
    assert_error("no upgrade", &answer, 502, "upstream_error", "upstream_error");
    assert_eq!(world.second.hits(), 0);
}

#[tokio::test]
async fn an_upgrade_serves_when_the_requested_model_cannot_and_is_reported() {
    let upgrade = json!({ "routing": { "allow_upgrade": true } });
    // The first model is down.
    let world = three("retries = 0").await;
    world.upstream.always(Answer::error(500, "x", "down"));
    let body = world.chat_ok(&chat_with("gamma/m", upgrade.clone())).await;
    assert_eq!(used(&body), "beta/m", "{body}");
    assert_eq!(body["gateway"]["fallback_used"], true);
    assert_eq!(body["gateway"]["warnings"], json!(["upgraded_for_availability"]));
    assert_eq!(
        body["usage"]["cost_usd"],
        json!((10.0 * 9.0 + 5.0 * 20.0) / 1e6),
        "the price of the serving model"
    );
    // The prompt is too long for the model.
    let world = three("retries = 0").await;
    world.upstream.always(Answer::error(400, "context_length_exceeded", "too long"));
    let body = world.chat_ok(&chat_with("gamma/m", upgrade.clone())).await;
    assert_eq!(
        (used(&body), &body["gateway"]["warnings"]),
        ("beta/m", &json!(["upgraded_for_context_length"]))
    );
    // The model lacks a feature.
    let world = three("").await;
    let tools =
        json!([{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }]);
    let with_tools = chat_with("gamma/m", json!({ "tools": tools }));
    assert_invalid("no permission", &world.chat(&with_tools).await, "unsupported_parameter");
    let body = world.chat_ok(&with(with_tools, upgrade.clone())).await;
    assert_eq!((used(&body), &body["gateway"]["warnings"]), ("acme/fast", &json!(["upgraded_for_feature"])));
    // No upgrade when the model can serve the request.
    let world = three("").await;
    let body = world.chat_ok(&chat_with("gamma/m", upgrade.clone())).await;
    assert_eq!((used(&body), &body["gateway"]["fallback_used"]), ("gamma/m", &json!(false)));
    // An invalid request is refused, and no model is asked.
    world.upstream.always(Answer::error(400, "bad", "m"));
    assert_eq!(world.chat(&chat_with("gamma/m", upgrade)).await.code(), "bad");
    assert_eq!(world.second.hits(), 0);
}

#[tokio::test]
async fn an_upgrade_is_never_a_downgrade_nor_dearer_than_the_bound_nor_out_of_the_keys_list() {
    let upgrade = json!({ "routing": { "allow_upgrade": true } });
    let world = three("retries = 0").await;
    world.second.always(Answer::error(500, "x", "down"));
    let answer = world.chat(&chat_with("beta/m", upgrade.clone())).await;
    assert_error("nothing is better", &answer, 502, "upstream_error", "upstream_error");
    assert_eq!(world.upstream.hits(), 0);

    let world = three("retries = 0\nupgrade_max_price_ratio = 2").await;
    world.upstream.always(Answer::error(500, "x", "down"));
    let answer = world.chat(&chat_with("gamma/m", upgrade.clone())).await;
    assert_error("too dear", &answer, 502, "upstream_error", "upstream_error");
    assert_eq!(world.second.hits(), 0);

    let world = three("retries = 0").await;
    world.upstream.always(Answer::error(500, "x", "down"));
    let limited = world.client.with_key(crate::harness::LIMITED);
    let answer = limited.post_json("/v1/chat/completions", &chat_with("acme/plain", upgrade)).await;
    assert_error("the key's list", &answer, 502, "upstream_error", "upstream_error");
    assert_eq!(world.second.hits(), 0);
}

#[tokio::test]
async fn a_conversations_next_turn_goes_where_its_prompt_is_cached() {
    let world = three("strategy = \"round_robin\"").await;
    let turn = |count: usize| {
        let mut messages = vec![json!({ "role": "user", "content": "How long is the coast of Britain?" })];
        for _ in 0..count {
            messages.push(json!({ "role": "assistant", "content": "It depends." }));
            messages.push(json!({ "role": "user", "content": "On what?" }));
        }
        json!({ "model": "m", "messages": messages })
    };
    let first = world.chat_ok(&turn(0)).await;
    for count in 1..6 {
        let next = world.chat_ok(&turn(count)).await;
        assert_eq!(used(&next), used(&first), "turn {count}");
    }
}

#[tokio::test]
async fn explain_tells_the_decision_and_asks_nobody() {
    let world = three("").await;
    let admin = world.client.with_key(ADMIN);
    let routing = json!({ "strategy": "cheapest", "fallback": ["acme/fast"], "allow_upgrade": true });
    let request = chat_with("m", json!({ "max_tokens": 100, "routing": routing }));
    let told = admin.post_json("/admin/v1/routing/explain", &request).await.ok().json();
    let order: Vec<(&str, &str)> = told["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["model"].as_str().unwrap(), row["named_as"].as_str().unwrap()))
        .collect();
    let expected = [
        ("gamma/m", "requested"),
        ("acme/m", "requested"),
        ("beta/m", "requested"),
        ("acme/fast", "fallback"),
    ];
    assert_eq!(order[..4], expected, "{told}");
    assert_eq!((&told["object"], &told["strategy"]), (&json!("routing.explanation"), &json!("cheapest")));
    assert!(
        told["candidates"][0]["score"].is_number() && told["candidates"][0]["standing"] == "able",
        "{told}"
    );
    assert!(told["worst_case"]["cost_usd"].as_f64().unwrap() > 0.0, "{told}");
    assert_eq!(world.upstream.hits() + world.second.hits(), 0);
    // The explanation equals the real decision.
    assert_eq!(used(&world.chat_ok(&request).await), "gamma/m");
    // Models that cannot serve the request, each with its reason.
    let tools = json!([{ "type": "function", "function": { "name": "f" } }]);
    let told = admin.post_json("/admin/v1/routing/explain", &chat_with("m", json!({ "tools": tools }))).await;
    let told = told.ok().json();
    let out: Vec<&str> =
        told["excluded"].as_array().unwrap().iter().filter_map(|row| row["model"].as_str()).collect();
    assert_eq!(out, ["acme/m", "gamma/m"], "{told}");
    assert!(told["excluded"][0]["reason"].as_str().unwrap().contains("tools"), "{told}");
    // The members of a request distinguish text completions and embeddings.
    let told =
        admin.post_json("/admin/v1/routing/explain", &json!({ "model": "acme/embed", "input": "x" })).await;
    assert_eq!(told.ok().json()["candidates"][0]["model"], "acme/embed");
    let told = admin.post_json("/admin/v1/routing/explain", &json!({ "model": "m", "prompt": "x" })).await;
    assert_eq!(told.ok().json()["candidates"][0]["model"], "acme/m");
    // The error with which the request would be refused, for another key.
    let wrong = admin.post_json("/admin/v1/routing/explain", &chat("nobody/has")).await;
    assert_error("unknown", &wrong, 404, "invalid_request_error", "model_not_found");
    let wrong = admin.post_json("/admin/v1/routing/explain?key=none", &chat("m")).await;
    assert_error("no key", &wrong, 404, "invalid_request_error", "not_found");
    let answer = world.client.post_json("/admin/v1/routing/explain", &chat("m")).await;
    assert_error("not an admin", &answer, 403, "permission_error", "admin_required");
}

#[tokio::test]
async fn what_was_measured_replaces_the_prior_in_the_catalogue_and_in_the_order() {
    let world = three("").await;
    world.upstream.respond_with(|request| {
        let model = request.json()["model"].as_str().unwrap_or_default().to_owned();
        Answer::json(200, &chat_body(&model, "x"))
    });
    let priors = world.client.get("/v1/models/gamma/m").await.ok().json();
    assert_eq!(priors["performance"]["latency_p50_ms"], 600.0);
    for _ in 0..5 {
        world.chat_ok(&chat("gamma/m")).await;
    }
    let seen = world.client.get("/v1/models/gamma/m").await.ok().json();
    assert!(seen["performance"]["latency_p50_ms"].as_f64().unwrap() < 300.0, "{seen}");
    assert_eq!(seen["performance"]["availability"], 100.0);
    let compared = world.client.get("/v1/models/compare?models=gamma/m,acme/m").await.ok().json();
    assert_eq!(compared["highlights"]["fastest"], "gamma/m", "{compared}");
    let body = world.chat_ok(&chat_with("m", json!({ "routing": { "strategy": "fastest" } }))).await;
    assert_eq!(used(&body), "gamma/m", "measured at a few milliseconds, the others by their priors");
    let providers = world.client.with_key(ADMIN).get("/admin/v1/providers").await.ok().json();
    let gamma = &providers["data"].as_array().unwrap().iter().find(|row| row["name"] == "gamma").unwrap()["targets"]
        [0];
    assert_eq!((&gamma["model"], &gamma["standing"]), (&json!("gamma/m"), &json!("able")), "{providers}");
    assert_eq!(gamma["samples"], 6);
}
