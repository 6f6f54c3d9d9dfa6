//! Common mistakes of new clients: wrong base URLs, other gateways' probes, a key in `x-api-key`.

use gw_testkit::{Answer, Launch};
use serde_json::json;

use crate::harness::{ADMIN, KEY, LIMITED, assert_error, binary, chat, world};

#[tokio::test]
async fn a_wrong_base_url_is_answered_with_the_right_one() {
    let world = world().await;
    let nobody = world.gateway.client();
    for (path, right) in [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/chat/completions", "/v1/chat/completions"),
        ("/completions", "/v1/completions"),
        ("/api/v1/embeddings", "/v1/embeddings"),
        ("/api/v1/rerank", "/v1/rerank"),
        ("/models", "/v1/models"),
        ("/models/acme/fast", "/v1/models/acme/fast"),
    ] {
        let client = if path.starts_with("/v1") { &world.client } else { &nobody };
        let answer = client.post_json(path, &chat("acme/fast")).await;
        assert_error(path, &answer, 404, "invalid_request_error", "unknown_url");
        let told = format!("Did you mean {right}? The base URL ends in /v1.");
        assert!(answer.message().ends_with(&told), "{path}: {}", answer.message());
    }
    let base = world.client.get("/v1").await;
    assert_error("/v1", &base, 404, "invalid_request_error", "unknown_url");
    assert!(base.message().contains("/v1/chat/completions"), "{}", base.message());
    // Below /v1 the key is checked first, so an unknown caller learns nothing about URLs.
    let answer = nobody.get("/v1/v1/chat/completions").await;
    assert_error("no key", &answer, 401, "authentication_error", "invalid_api_key");
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn the_bare_address_tells_where_everything_is_and_nothing_of_the_installation() {
    let world = world().await;
    let answer = world.gateway.client().get("/").await.ok();
    let links = answer.json();
    assert_eq!(links["base_url"], "/v1");
    let endpoints = ["chat/completions", "responses", "messages", "completions", "embeddings", "models"];
    assert_eq!(links["endpoints"], json!(endpoints.map(|endpoint| format!("/v1/{endpoint}"))));
    for path in ["documentation", "openapi", "health"] {
        let path = links[path].as_str().expect("a path");
        assert_eq!(world.gateway.client().get(path).await.status, 200, "{path}");
    }
    let text = answer.text();
    for secret in [env!("CARGO_PKG_VERSION"), "acme", "demo", "127.0.0.1"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[tokio::test]
async fn two_listeners_tell_each_its_own() {
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n[[providers]]\nname = \"demo\"\napi = \"demo\"\n\
         [[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n"
    );
    let gateway = Launch::new(binary()).file("gateway.toml", config).start().await;
    let links = gateway.client().get("/").await.ok().json();
    assert!(links.get("base_url").is_some() && links.get("documentation").is_none(), "{links}");
}

#[tokio::test]
async fn other_gateways_names_of_the_probes_are_answered() {
    let world = world().await;
    let nobody = world.gateway.client();
    for (path, body) in [
        ("/health", json!({ "status": "ok" })),
        ("/health/", json!({ "status": "ok" })),
        ("/health/liveliness", json!({ "status": "ok" })),
        ("/health/liveness", json!({ "status": "ok" })),
        ("/health/readiness", json!({ "status": "ready" })),
    ] {
        assert_eq!(nobody.get(path).await.ok().json(), body, "{path}");
    }
}

#[tokio::test]
async fn a_key_in_x_api_key_is_a_key_on_every_endpoint() {
    let world = world().await;
    let nobody = world.gateway.client();
    let client = nobody.with_header("x-api-key", KEY);
    for (path, body) in [
        ("/v1/chat/completions", chat("acme/fast")),
        ("/v1/completions", json!({ "model": "acme/fast", "prompt": "Hello" })),
        ("/v1/embeddings", json!({ "model": "acme/embed", "input": "Hello" })),
        ("/v1/rerank", json!({ "model": "acme/rerank", "query": "q", "documents": ["x"] })),
        ("/v1/moderations", json!({ "model": "acme/moderation", "input": "x" })),
        ("/v1/images/generations", json!({ "model": "acme/paint", "prompt": "x" })),
        ("/v1/audio/speech", json!({ "model": "acme/speak", "input": "x", "voice": "v" })),
        ("/v1beta/models/acme/fast:generateContent", json!({ "contents": [{ "parts": [{ "text": "x" }] }] })),
    ] {
        client.post_json(path, &body).await.ok();
        let sent = world.upstream.last();
        assert_eq!(sent.header("x-api-key"), None, "{path}: it is not handed on");
        assert!(!sent.headers.iter().any(|(_, value)| value.contains(KEY)), "{path}");
    }
    client.get("/v1/models").await.ok();
    nobody.with_header("x-api-key", ADMIN).get("/admin/v1/keys").await.ok();
    let refused = client.get("/admin/v1/keys").await;
    assert_error("not an admin", &refused, 403, "permission_error", "admin_required");
    // Both headers with equal keys.
    world.client.with_header("x-api-key", KEY).get("/v1/models").await.ok();
    for (client, word) in [
        (world.client.with_header("x-api-key", ADMIN), "different"),
        (world.gateway.client().with_key("sk-wrong").with_header("x-api-key", KEY), "different"),
        (nobody.with_header("x-api-key", "sk-wrong"), "Incorrect"),
        (client.with_header("x-api-key", KEY), "More than one x-api-key"),
    ] {
        let answer = client.get("/v1/models").await;
        assert_error(word, &answer, 401, "authentication_error", "invalid_api_key");
        assert!(answer.message().contains(word), "{}", answer.message());
    }
    let log = world.gateway.stdout().join("\n") + &world.gateway.stderr().join("\n");
    assert!(!log.contains(KEY) && !log.contains(ADMIN) && !log.contains("sk-wrong"), "no key is in a log");
}

#[tokio::test]
async fn a_model_of_a_provider_that_is_off_says_how_to_switch_it_on() {
    let world = world().await;
    for (model, hint) in [
        (
            "openai/gpt-made-up",
            "The provider 'openai' is switched off: set OPENAI_API_KEY and start the gateway without a configuration file, or add \
             [[providers]] with name = \"openai\" in gateway.toml.",
        ),
        (
            "vllm/m",
            "The provider 'vllm' is switched off: add [[providers]] with name = \"vllm\" in gateway.toml.",
        ),
    ] {
        let answer = world.client.post_json("/v1/chat/completions", &chat(model)).await;
        assert_error(model, &answer, 404, "invalid_request_error", "model_not_found");
        assert!(answer.message().ends_with(hint), "{model}: {}", answer.message());
    }
    // A key with a list of models learns nothing about the configuration, and neither does a typo at a provider that is on.
    let limited = world.gateway.client().with_key(LIMITED);
    for (client, model) in
        [(&limited, "openai/gpt-made-up"), (&world.client, "acme/none"), (&world.client, "nobody/m")]
    {
        let answer = client.post_json("/v1/chat/completions", &chat(model)).await;
        assert_error(model, &answer, 404, "invalid_request_error", "model_not_found");
        assert!(!answer.message().contains("switched off"), "{model}: {}", answer.message());
    }
}

#[tokio::test]
async fn a_text_completion_at_a_provider_with_chats_alone_says_so() {
    let world = world().await;
    let body = json!({ "model": "acme/fast", "prompt": "Once" });
    for status in [404, 405] {
        world.upstream.enqueue(Answer::full(
            status,
            &[("content-type", "application/json")],
            r#"{"detail":"Not Found"}"#,
        ));
        let answer = world.client.post_json("/v1/completions", &body).await;
        assert_error("chats alone", &answer, 400, "invalid_request_error", "unsupported_model");
        assert_eq!(
            answer.message(),
            "The model 'acme/fast' cannot complete text: its provider has no /completions. Send a chat to POST \
             /v1/chat/completions instead."
        );
    }
    world.upstream.enqueue(Answer::error(404, "model_not_found", "The model `fast-2026-01` does not exist."));
    let missing = world.client.post_json("/v1/completions", &body).await;
    assert_error("missing", &missing, 502, "upstream_error", "upstream_model_missing");
    // Another candidate may have text completions, and the circuit of the first one stays closed for chats.
    world.upstream.enqueue(Answer::error(404, "not_found", "Not here."));
    let routed = json!({ "model": "acme/fast", "prompt": "Once", "routing": { "fallback": ["beta/fast"] } });
    let served = world.client.post_json("/v1/completions", &routed).await.ok();
    assert_eq!(served.header("x-gateway-model"), Some("beta/fast"));
}
