//! HTTP: CORS, HEAD, OPTIONS, media types, encodings, and the order of the checks.

use gw_testkit::wire::RawClient;
use serde_json::json;

use crate::harness::{KEY, LIMITED, METERED, Setup, assert_error, assert_request_id, chat, chat_with, world};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn preflights_are_answered_without_a_key_and_mirror_the_headers() {
    let world = world().await;
    let client = world
        .client
        .without_key()
        .with_header("origin", "https://app.example")
        .with_header("access-control-request-method", "POST")
        .with_header("access-control-request-headers", "authorization,content-type,x-stainless-lang");
    for path in [CHAT, "/v1/models", "/v1/models/acme/fast", "/v1/responses/resp_1", "/v1/unknown"] {
        let answer = client.send("OPTIONS", path, None, None).await;
        assert_eq!(answer.status, 204, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        let methods = answer.header("access-control-allow-methods").unwrap_or_default();
        assert!(
            ["GET", "POST", "DELETE", "OPTIONS"].iter().all(|method| methods.contains(method)),
            "{methods}"
        );
        assert_eq!(answer.header("access-control-max-age"), Some("86400"));
        assert_eq!(
            answer.header("access-control-allow-headers"),
            Some("authorization,content-type,x-stainless-lang")
        );
        assert!(answer.body.is_empty());
    }
}

#[tokio::test]
async fn every_answer_exposes_the_headers_that_clients_read() {
    let world = world().await;
    let client = world.client.with_header("origin", "https://app.example");
    for answer in [client.get("/v1/models").await, client.get("/v1/nothing").await] {
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        let exposed = answer.header("access-control-expose-headers").unwrap_or_default().to_lowercase();
        let exposed: Vec<_> = exposed.split(", ").collect();
        for header in [
            "x-request-id",
            "request-id",
            "retry-after",
            "x-gateway-token-count",
            "x-gateway-budget-left-usd",
            "x-gateway-rule",
            "x-gateway-rule-resets-at",
        ] {
            assert!(exposed.contains(&header), "{header}: {exposed:?}");
        }
    }
}

#[tokio::test]
async fn configured_origins_are_the_only_ones() {
    let world =
        Setup { server: "cors_origins = [\"https://good.example\"]", ..Setup::default() }.start().await;
    let good = world.client.with_header("origin", "https://good.example").get("/v1/models").await;
    assert_eq!(good.header("access-control-allow-origin"), Some("https://good.example"));
    let bad = world.client.with_header("origin", "https://bad.example").get("/v1/models").await;
    assert_eq!(bad.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let world = world().await;
    for path in ["/v1/models", "/v1/models/acme/fast", "/v1/models/compare?models=fast,plain", "/healthz"] {
        let answer = world.client.send("HEAD", path, None, None).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.is_empty());
        assert_request_id(path, answer.header("x-request-id"));
    }
    assert_eq!(world.client.send("HEAD", "/v1/nothing", None, None).await.status, 404);
}

#[tokio::test]
async fn json_media_types_are_accepted_in_every_spelling_and_when_missing() {
    let world = world().await;
    let body = chat("acme/fast").to_string();
    let kinds = [
        None,
        Some("application/json"),
        Some("Application/JSON; charset=utf-8"),
        Some("application/vnd.api+json"),
    ];
    for kind in kinds {
        let answer = world.client.send("POST", CHAT, kind, Some(body.as_bytes())).await;
        assert_eq!(answer.status, 200, "{kind:?}: {}", answer.text());
    }
    let answer = world.client.with_header("accept", "text/html").post_bytes(CHAT, body.as_bytes()).await;
    assert_eq!(answer.status, 200, "accept is ignored");
}

#[tokio::test]
async fn chunked_request_bodies_are_read() {
    let world = world().await;
    let body = chat("acme/fast").to_string();
    let mut wire = RawClient::connect(world.gateway.addr).await;
    let client = world.client.with_header("transfer-encoding", "chunked");
    wire.send(client.head("POST", CHAT, Some("application/json"), None)).await;
    for piece in body.as_bytes().chunks(7) {
        wire.send(format!("{:x}\r\n", piece.len())).await;
        wire.send(piece).await;
        wire.send("\r\n").await;
    }
    wire.send("0\r\n\r\n").await;
    wire.response().await.expect("an answer").ok();
}

#[tokio::test]
async fn connections_are_kept_for_the_next_request() {
    let world = world().await;
    let mut wire = RawClient::connect(world.gateway.addr).await;
    for _ in 0..3 {
        wire.send(world.client.head("GET", "/v1/models", None, None)).await;
        wire.response().await.expect("an answer").ok();
        let body = chat("acme/fast").to_string();
        wire.send(world.client.head("POST", CHAT, Some("application/json"), Some(body.len())) + &body).await;
        wire.response().await.expect("an answer").ok();
    }
    assert_eq!(world.upstream.connections(), 1, "and so are the upstream's");
}

#[tokio::test]
async fn request_ids_are_ours_and_differ() {
    let world = world().await;
    let client =
        world.client.with_header("x-request-id", "mine").with_header("x-client-request-id", "mine-too");
    let (first, second) = (client.get("/v1/models").await, client.get("/v1/models").await);
    assert_request_id("first", first.header("x-request-id"));
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
}

/// A request with two faults is answered with the fault that is checked first.
#[tokio::test]
async fn faults_are_found_in_the_order_of_the_contract() {
    let world = Setup { server: "body_limit_mib = 1", ..Setup::default() }.start().await;
    let anonymous = world.client.without_key();
    let big = "x".repeat((1 << 20) + 1);
    let spent = world.client.with_key(METERED);
    for _ in 0..2 {
        spent.post_json(CHAT, &chat("acme/fast")).await.ok();
    }
    // The key is checked before the URL, the media type and the body.
    for (path, kind, body) in
        [("/v1/unknown", "text/plain", "x"), (CHAT, "text/plain", "x"), (CHAT, "application/json", "{")]
    {
        let answer = anonymous.send("POST", path, Some(kind), Some(body.as_bytes())).await;
        assert_error(path, &answer, 401, "authentication_error", "invalid_api_key");
    }
    // The URL and the method are checked before the media type and the body.
    let answer = world.client.send("POST", "/v1/unknown", Some("text/plain"), Some(b"{")).await;
    assert_error("2 < 4", &answer, 404, "invalid_request_error", "unknown_url");
    let answer = world.client.send("PUT", CHAT, Some("text/plain"), Some(b"{")).await;
    assert_error("2 < 4", &answer, 405, "invalid_request_error", "method_not_allowed");
    // The rate limit is checked before the media type, the size and the body.
    let answer = spent.send("POST", CHAT, Some("text/plain"), Some(b"{")).await;
    assert_error("3 < 4", &answer, 429, "rate_limit_error", "rate_limit_exceeded");
    // The media type is checked before the size and the body.
    let answer = world.client.send("POST", CHAT, Some("text/plain"), Some(big.as_bytes())).await;
    assert_error("4 < 5", &answer, 415, "invalid_request_error", "unsupported_media_type");
    // The size is checked before the JSON.
    let answer = world.client.post_bytes(CHAT, big.as_bytes()).await;
    assert_error("5 < 6", &answer, 413, "invalid_request_error", "request_too_large");
    // The JSON is checked before the members.
    let answer = world.client.post_bytes(CHAT, b"{\"temperature\":9,").await;
    assert_error("6 < 7", &answer, 400, "invalid_request_error", "invalid_json");
    // The members are checked before the model is looked up.
    let answer = world.chat(&chat_with("no/such", json!({ "temperature": 9 }))).await;
    assert_error("7 < 8", &answer, 400, "invalid_request_error", "decimal_above_max_value");
    // An unknown fallback is reported before the key's right to the model.
    let limited = world.client.with_key(LIMITED);
    let answer = limited
        .post_json(CHAT, &chat_with("acme/fast", json!({ "routing": { "fallback": ["no/such"] } })))
        .await;
    assert_error("8 < 9", &answer, 404, "invalid_request_error", "model_not_found");
    // The key's right to the model is checked before the model's capabilities.
    let answer = limited.post_json(CHAT, &chat("acme/embed")).await;
    assert_error("9 < 10", &answer, 403, "permission_error", "model_not_allowed");
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn probes_need_no_key_and_metrics_need_a_role() {
    let world = world().await;
    let anonymous = world.client.without_key();
    anonymous.get("/healthz").await.ok();
    anonymous.get("/readyz").await.ok();
    assert_eq!(anonymous.get("/metrics").await.status, 401);
    let answer = world.client.with_key(KEY).get("/metrics").await;
    assert_error("inference key", &answer, 403, "permission_error", "admin_required");
    let message = |roles| format!("This needs the role {roles}, and your role is inference.");
    assert_eq!(answer.json()["error"]["message"], message("viewer, operator or admin"));
    for (path, roles) in [("/admin/v1/keys", "operator or admin"), ("/admin/v1/config/undo", "admin")] {
        let refused = world.client.with_key(KEY).post_json(path, &json!({ "name": "n" })).await;
        assert_eq!(refused.json()["error"]["message"], message(roles), "{path}");
    }
}
