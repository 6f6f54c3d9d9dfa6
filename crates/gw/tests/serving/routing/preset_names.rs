//! Every way to a preset: lists of models, fallbacks, aliases behind aliases, other surfaces, explanations.

use gw_testkit::Answer;
use serde_json::json;

use super::presets::{used, version, with_aliases};
use crate::harness::management::create;
use crate::harness::{ADMIN, chat, chat_with, world};

const PRESETS: &str = r#"
[[aliases]]
name = "kind"
targets = "acme/fast"
overrides = { temperature = 0.5, tools = [{ type = "function", function = { name = "ours" } }] }
strip = ["service_tier"]
system = "Ours."
system_mode = "replace"

[[aliases]]
name = "by"
targets = [{ model = "acme/fast", match = { header = { x-tier = "gold" } } }, "acme/plain"]
"#;

#[tokio::test]
async fn a_list_of_models_without_a_model_names_a_preset() {
    let world = with_aliases(PRESETS).await;
    let body = json!({ "models": ["kind", "acme/plain"], "messages": [{ "role": "user", "content": "x" }] });
    let answer = world.chat_ok(&body).await;
    let sent = world.upstream.last().json();
    assert_eq!((&sent["model"], &sent["temperature"]), (&json!("fast-2026-01"), &json!(0.5)), "{sent}");
    assert_eq!(version(&answer, "kind").len(), 12);
}

#[tokio::test]
async fn conditions_hold_for_fallbacks_and_targets_that_the_key_may_not_use_are_passed_over() {
    let world = with_aliases(PRESETS).await;
    let gold = world.client.with_header("x-tier", "gold");
    let body = chat_with("beta/fast", json!({ "routing": { "fallback": ["by"] } }));
    for (client, expected) in [(&gold, "acme/fast"), (&world.client, "acme/plain")] {
        world.second.enqueue(Answer::error(500, "x", "boom"));
        let answer = client.post_json("/v1/chat/completions", &body).await.ok();
        assert_eq!(used(&answer), expected);
    }
    let admin = world.gateway.client().with_key(ADMIN);
    let entry = json!({ "name": "narrow", "models": ["acme/plain"] });
    let (key, _) = create(&admin, entry).await;
    let answer = gold.with_key(&key).post_json("/v1/chat/completions", &chat("by")).await.ok();
    assert_eq!(used(&answer), "acme/plain");
}

#[tokio::test]
async fn a_preset_replaces_the_system_prompt_and_sets_tools_on_every_surface() {
    let world = with_aliases(PRESETS).await;
    let expected = json!([{ "role": "system", "content": "Ours." }, { "role": "user", "content": "x" }]);
    let told = json!([{ "role": "system", "content": "Mine." }, { "role": "user", "content": "x" }]);
    let contents = json!({
        "systemInstruction": "Mine.", "contents": [{ "role": "user", "parts": [{ "text": "x" }] }],
    });
    for (url, body) in [
        ("/v1/chat/completions", json!({ "model": "kind", "messages": told, "service_tier": "flex" })),
        (
            "/v1/responses",
            json!({ "model": "kind", "input": told, "instructions": "Mine.", "service_tier": "flex" }),
        ),
        (
            "/v1/messages",
            json!({
                "model": "kind", "max_tokens": 9, "system": "Mine.", "messages": told, "service_tier": "auto",
            }),
        ),
        ("/v1beta/models/kind:generateContent", contents),
    ] {
        world.client.post_json(url, &body).await.ok();
        let sent = world.upstream.last().json();
        assert_eq!(sent["messages"], expected, "{url}: {sent}");
        assert_eq!(sent["tools"][0]["function"]["name"], "ours", "{url}: {sent}");
        assert_eq!(sent.get("service_tier"), None, "{url}: {sent}");
    }
}

#[tokio::test]
async fn a_preset_that_does_not_exist_is_404_also_where_no_preset_is_configured() {
    let world = world().await;
    let messages = json!([{ "role": "user", "content": "x" }]);
    let contents = json!({ "preset": "none", "contents": [{ "role": "user", "parts": [{ "text": "x" }] }] });
    for (url, body, code) in [
        ("/v1/chat/completions", chat_with("acme/fast", json!({ "preset": "none" })), "/error/code"),
        ("/v1/responses", json!({ "model": "acme/fast", "input": "x", "preset": "none" }), "/error/code"),
        ("/v1/embeddings", json!({ "model": "acme/embed", "input": "x", "preset": "none" }), "/error/code"),
    ] {
        let answer = world.client.post_json(url, &body).await;
        let found = answer.json().pointer(code).cloned();
        assert_eq!((answer.status, found), (404, Some(json!("model_not_found"))), "{url}: {}", answer.text());
    }
    let message = json!({ "model": "acme/fast", "max_tokens": 9, "messages": messages, "preset": "none" });
    let answer = world.client.post_json("/v1/messages", &message).await;
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (404, &json!("not_found_error")));
    let answer = world.client.post_json("/v1beta/models/acme%2Ffast:generateContent", &contents).await;
    assert_eq!((answer.status, &answer.json()["error"]["status"]), (404, &json!("NOT_FOUND")));
    assert_eq!(world.upstream.hits(), 0);
    // One that names nothing is left out.
    let answer = world.chat_ok(&chat_with("acme/fast", json!({ "preset": "" }))).await;
    assert_eq!(answer["gateway"]["warnings"], json!([]));
    assert_eq!(world.upstream.last().json().get("preset"), None);
}

#[tokio::test]
async fn an_explanation_reads_the_headers_of_conditions() {
    let world = with_aliases(PRESETS).await;
    let admin = world.gateway.client().with_key(ADMIN);
    for (tier, expected) in [("gold", "acme/fast"), ("silver", "acme/plain")] {
        let admin = admin.with_header("x-tier", tier);
        let told = admin.post_json("/admin/v1/routing/explain", &chat("by")).await.ok().json();
        assert_eq!(told["candidates"][0]["model"], expected, "{told}");
    }
}
