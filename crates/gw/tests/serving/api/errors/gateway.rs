//! Errors of the gateway itself: keys, models, addresses, sizes, limits and load.

use gw_testkit::{Answer, Response, Signal};
use serde_json::json;

use super::{CHAT, EMBED, TEXT, embed, text};
use crate::harness::{EXPIRED, LIMITED, METERED, Setup, assert_error, chat, chat_with, world};

#[tokio::test]
async fn keys_that_do_not_open_are_401_with_one_code() {
    let world = world().await;
    let anonymous = world.client.without_key();
    let clients = [
        ("no header", anonymous.clone()),
        ("wrong key", anonymous.with_key("sk-wrong")),
        ("expired", anonymous.with_key(EXPIRED)),
        ("other scheme", anonymous.with_header("authorization", "Basic c2s6eA==")),
        ("empty key", anonymous.with_header("authorization", "Bearer ")),
        ("no scheme", anonymous.with_header("authorization", crate::harness::KEY)),
    ];
    for (label, client) in clients {
        let answers = [
            client.post_json(CHAT, &chat("acme/fast")).await,
            client.post_json(TEXT, &text(json!({}))).await,
            client.post_json(EMBED, &embed(json!({}))).await,
            client.get("/v1/models").await,
            client.get("/v1/models/acme/fast").await,
            client.get("/v1/models/compare?models=acme/fast,acme/plain").await,
            client.get("/v1/unknown").await,
        ];
        for answer in answers {
            assert_error(label, &answer, 401, "authentication_error", "invalid_api_key");
        }
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_model_outside_the_keys_list_is_403_and_unknown_to_its_catalogue() {
    let world = world().await;
    let limited = world.client.with_key(LIMITED);
    for body in
        [chat("acme/fast"), chat_with("acme/plain", json!({ "routing": { "fallback": ["beta/spare"] } }))]
    {
        let answer = limited.post_json(CHAT, &body).await;
        assert_error("limited", &answer, 403, "permission_error", "model_not_allowed");
    }
    limited.post_json(CHAT, &chat("acme/plain")).await.ok();
    let answer = limited.get("/v1/models/acme/fast").await;
    assert_error("retrieve", &answer, 404, "invalid_request_error", "model_not_found");
}

#[tokio::test]
async fn an_unknown_model_is_404_wherever_it_is_named() {
    let world = world().await;
    let not_found = |label: &str, answer: &Response| {
        assert_error(label, answer, 404, "invalid_request_error", "model_not_found")
    };
    for model in ["acme/none", "none", "ACME/fast", "nobody/fast"] {
        not_found(model, &world.chat(&chat(model)).await);
        not_found(model, &world.client.post_json(TEXT, &text(json!({ "model": model }))).await);
        not_found(model, &world.client.post_json(EMBED, &embed(json!({ "model": model }))).await);
        not_found(model, &world.client.get(&format!("/v1/models/{model}")).await);
        let answer = world.client.get(&format!("/v1/models/compare?models=acme/fast,{model}")).await;
        not_found(model, &answer);
        assert!(answer.message().contains(model), "{}", answer.message());
        let routed = chat_with("acme/fast", json!({ "routing": { "fallback": ["acme/plain", model] } }));
        not_found(model, &world.chat(&routed).await);
    }
    assert_eq!(world.upstream.hits(), 0, "a typo is not served by something else");
}

#[tokio::test]
async fn unknown_urls_are_404_and_wrong_methods_405() {
    let world = world().await;
    for path in ["/v1", "/v1/", "/v1/unknown", "/v1/chat", "/v1/chat/completions/x", "/v1/engines"] {
        let answer = world.client.get(path).await;
        assert_error(path, &answer, 404, "invalid_request_error", "unknown_url");
    }
    let wrong = [
        ("GET", CHAT, "POST"),
        ("DELETE", CHAT, "POST"),
        ("GET", TEXT, "POST"),
        ("PUT", EMBED, "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", "/v1/models/acme/fast", "GET"),
        ("POST", "/v1/models/compare", "GET"),
    ];
    for (method, path, allowed) in wrong {
        let answer = world.client.send(method, path, None, None).await;
        assert_error(
            &format!("{method} {path}"),
            &answer,
            405,
            "invalid_request_error",
            "method_not_allowed",
        );
        assert!(answer.header("allow").is_some_and(|allow| allow.contains(allowed)), "{method} {path}");
    }
}

#[tokio::test]
async fn a_client_that_stops_sending_its_body_gets_408() {
    let world = Setup { server: "body_timeout_ms = 200", ..Setup::default() }.start().await;
    let head = world.client.head("POST", CHAT, Some("application/json"), Some(100));
    let mut wire = gw_testkit::wire::RawClient::connect(world.gateway.addr).await;
    wire.send(head).await;
    wire.send("{\"model\":").await;
    let answer = wire.response().await.expect("an answer before the connection is closed");
    assert_error("slow body", &answer, 408, "invalid_request_error", "request_timeout");
    wire.until_closed().await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_and_another_media_type_415() {
    let world = Setup { server: "body_limit_mib = 1", ..Setup::default() }.start().await;
    let big = format!("{{\"model\":\"acme/fast\",\"x\":\"{}\"}}", "y".repeat(1 << 20));
    let answer = world.client.post_bytes(CHAT, big.as_bytes()).await;
    assert_error("too large", &answer, 413, "invalid_request_error", "request_too_large");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json"]
    {
        let body = chat("acme/fast").to_string();
        let answer = world.client.send("POST", CHAT, Some(kind), Some(body.as_bytes())).await;
        assert_error(kind, &answer, 415, "invalid_request_error", "unsupported_media_type");
    }
}

#[tokio::test]
async fn a_key_over_its_requests_per_minute_gets_429_with_the_limits_in_headers() {
    let world = world().await;
    let metered = world.client.with_key(METERED);
    let first = metered.post_json(CHAT, &chat("acme/fast")).await.ok();
    assert_eq!(first.header("x-ratelimit-limit-requests"), Some("2"));
    assert_eq!(first.header("x-ratelimit-remaining-requests"), Some("1"));
    assert!(first.header("x-ratelimit-reset-requests").is_some_and(|reset| reset.ends_with('s')));
    // Catalogue requests do not count against the limit.
    metered.get("/v1/models").await.ok();
    metered.post_json(EMBED, &embed(json!({}))).await.ok();
    let third = metered.post_json(TEXT, &text(json!({}))).await;
    assert_error("third", &third, 429, "rate_limit_error", "rate_limit_exceeded");
    assert_eq!(third.header("x-ratelimit-remaining-requests"), Some("0"));
    // Other keys are unaffected, and keys without a limit get no rate limit headers.
    let other = world.client.post_json(CHAT, &chat("acme/fast")).await.ok();
    assert_eq!(other.header("x-ratelimit-limit-requests"), None);
}

#[tokio::test]
async fn a_client_that_goes_away_is_499_in_the_log_only() {
    let world = world().await;
    world.upstream.always(Answer::default().hang());
    let body = chat("acme/fast").to_string();
    let wire = world.client.open("POST", CHAT, Some("application/json"), Some(body.as_bytes())).await;
    let upstream = world.upstream.request(0).await;
    drop(wire);
    upstream.until_closed().await;
    let line = world.gateway.log_with("client_closed_request").await.to_string();
    assert!(line.contains("499"), "{line}");
}

#[tokio::test]
async fn a_bug_in_the_gateway_is_500() {
    let world = world().await;
    let answer = world.chat(&chat("demo/panic")).await;
    assert_error("panic", &answer, 500, "server_error", "internal_error");
    world.chat_ok(&chat("acme/fast")).await;
}

#[tokio::test]
async fn beyond_max_in_flight_it_is_503_at_once() {
    let world = Setup { server: "max_in_flight = 1", ..Setup::default() }.start().await;
    let release = Signal::new();
    let body = gw_testkit::upstream::chat_body("fast-2026-01", "late");
    let whole = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.to_string().len()
    );
    world.upstream.enqueue(Answer::default().wait(&release).bytes(whole));
    let bytes = chat("acme/fast").to_string();
    let mut first = world.client.open("POST", CHAT, Some("application/json"), Some(bytes.as_bytes())).await;
    world.upstream.request(0).await;
    let answer = world.chat(&chat("acme/fast")).await;
    assert_error("second", &answer, 503, "upstream_error", "no_available_provider");
    release.fire();
    first.response().await.expect("the first is answered").ok();
    world.chat_ok(&chat("acme/fast")).await;
}
