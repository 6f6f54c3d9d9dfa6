//! The two headers that carry a key, on every URL below /v1: either is enough, and two different keys are refused.

use gw_testkit::{Client, Response};
use serde_json::Value;

use crate::harness::{ADMIN, Differences, KEY, World, world};

/// The method and the URL of each endpoint of the API, and of paths below /v1 that lead nowhere.
const URLS: [(&str, &str); 26] = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/rerank"),
    ("POST", "/v2/rerank"),
    ("POST", "/v1/score"),
    ("POST", "/v1/moderations"),
    ("POST", "/v1/images/generations"),
    ("POST", "/v1/images/edits"),
    ("POST", "/v1/images/variations"),
    ("POST", "/v1/audio/speech"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/v1/audio/translations"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/acme/fast"),
    ("GET", "/v1/models/compare?models=acme/fast,beta/fast"),
    ("POST", "/v1/messages?beta=true"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/responses"),
    ("GET", "/v1/responses/resp_1"),
    ("POST", "/v1/responses/input_tokens"),
    ("POST", "/v1beta/models/acme/fast:generateContent"),
    ("POST", "/v1/models/acme/fast:streamGenerateContent?alt=sse"),
    ("GET", "/v1beta/models"),
    ("GET", "/v1beta/nothing"),
    ("GET", "/v1/nothing"),
];

async fn send(client: &Client, method: &str, url: &str) -> Response {
    let body = (method == "POST").then_some(&b"{}"[..]);
    client.send(method, url, Some("application/json"), body).await
}

/// The callers, and whether they are known.
fn callers(world: &World) -> Vec<(&'static str, Client, bool)> {
    let nobody = || world.gateway.client();
    vec![
        ("bearer", nobody().with_key(KEY), true),
        ("x-api-key", nobody().with_header("x-api-key", KEY), true),
        ("both, equal", nobody().with_key(KEY).with_header("x-api-key", KEY), true),
        ("an empty x-api-key", nobody().with_key(KEY).with_header("x-api-key", " "), true),
        ("none", nobody(), false),
        ("both, different", nobody().with_key(KEY).with_header("x-api-key", ADMIN), false),
        (
            "a wrong bearer beside a good x-api-key",
            nobody().with_key("sk-wrong").with_header("x-api-key", KEY),
            false,
        ),
        (
            "a good bearer beside a wrong x-api-key",
            nobody().with_key(KEY).with_header("x-api-key", "sk-wrong"),
            false,
        ),
        ("another scheme", nobody().with_header("authorization", "Basic eDp5"), false),
    ]
}

#[tokio::test]
async fn either_header_is_enough_and_two_different_keys_are_refused() {
    let world = world().await;
    let mut differences = Differences::default();
    for (method, url) in URLS {
        for (caller, client, is_known) in callers(&world) {
            let answer = send(&client, method, url).await;
            differences.check(format!("{method} {url} with {caller}"), answer.status == 401, !is_known);
            if !is_known {
                let challenge = answer.header("www-authenticate").map(str::to_owned);
                differences.check(format!("{url}: challenge"), challenge, Some("Bearer".to_owned()));
            }
        }
    }
    differences.finish();
    assert_eq!(world.upstream.hits() + world.second.hits(), 0);
}

#[tokio::test]
async fn a_refused_key_is_answered_in_the_shape_of_the_clients_api() {
    let world = world().await;
    let nobody = world.gateway.client();
    let kind = |body: &Value, pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    for (method, url) in URLS {
        let answer = send(&nobody, method, url).await;
        let body = answer.json();
        let id = answer.header("x-request-id").map(str::to_owned);
        if url.starts_with("/v1/messages") {
            assert_eq!(kind(&body, "/type").as_deref(), Some("error"), "{url}: {body}");
            assert_eq!(kind(&body, "/error/type").as_deref(), Some("authentication_error"), "{url}: {body}");
            assert_eq!(kind(&body, "/request_id"), id, "{url}: {body}");
            assert_eq!(answer.header("request-id").map(str::to_owned), id, "{url}");
        } else if url.starts_with("/v1beta") || url.contains(":streamGenerateContent") {
            assert_eq!(kind(&body, "/error/status").as_deref(), Some("UNAUTHENTICATED"), "{url}: {body}");
            assert_eq!(body["error"]["code"], 401, "{url}: {body}");
        } else {
            assert_eq!(kind(&body, "/error/code").as_deref(), Some("invalid_api_key"), "{url}: {body}");
            let has_param = body.pointer("/error/param").is_some_and(Value::is_string);
            assert_eq!(has_param, url.starts_with("/v1/responses"), "{url}: {body}");
            assert_eq!(answer.header("request-id"), None, "{url}");
        }
    }
}
