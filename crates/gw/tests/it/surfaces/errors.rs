//! The form of errors on every path of both surfaces.

use gw_testkit::Response;
use serde_json::{Value, json};

use super::{message, response};
use crate::harness::{EXPIRED, KEY, LIMITED, world};

/// Checks Anthropic's envelope.
#[track_caller]
fn assert_envelope(label: &str, answer: &Response, status: u16, kind: &str) {
    let body = answer.json();
    assert_eq!(
        (answer.status, body["error"]["type"].as_str()),
        (status, Some(kind)),
        "{label}: {}",
        answer.text()
    );
    assert_eq!(body["type"], "error", "{label}");
    assert_eq!(body["request_id"].as_str(), answer.header("request-id"), "{label}");
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(3), "{label}");
    assert_eq!(body["error"].as_object().map(serde_json::Map::len), Some(2), "{label}");
}

/// Checks the four strings of the Responses API.
#[track_caller]
fn assert_four(label: &str, answer: &Response, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{label}: {}", answer.text());
    let body = answer.json();
    let error = body["error"].as_object().expect("an object");
    assert_eq!(error.keys().collect::<Vec<_>>().len(), 4, "{label}");
    assert!(error.values().all(Value::is_string), "{label}: {}", answer.text());
}

#[tokio::test]
async fn every_error_below_messages_has_anthropics_envelope() {
    let world = world().await;
    let keyless = world.gateway.client();
    let body = message("acme/fast").to_string();
    for (label, client, method, path, body, status, kind) in [
        ("no key", keyless.clone(), "POST", "/v1/messages", body.as_str(), 401, "authentication_error"),
        ("expired", keyless.with_key(EXPIRED), "POST", "/v1/messages", &body, 401, "authentication_error"),
        ("model", keyless.with_key(LIMITED), "POST", "/v1/messages", &body, 403, "permission_error"),
        ("method", keyless.with_key(KEY), "GET", "/v1/messages", "", 405, "invalid_request_error"),
        ("unknown", keyless.with_key(KEY), "POST", "/v1/messages/batches", "{}", 404, "not_found_error"),
        ("no JSON", keyless.with_key(KEY), "POST", "/v1/messages", "{", 400, "invalid_request_error"),
        ("empty", keyless.with_key(KEY), "POST", "/v1/messages", "{}", 400, "invalid_request_error"),
        (
            "count",
            keyless.with_key(KEY),
            "POST",
            "/v1/messages/count_tokens",
            "{}",
            400,
            "invalid_request_error",
        ),
    ] {
        let answer = client.send(method, path, Some("application/json"), Some(body.as_bytes())).await;
        assert_envelope(label, &answer, status, kind);
    }
}

#[tokio::test]
async fn overload_and_budgets_have_their_own_types() {
    let world = world().await;
    world.upstream.always(gw_testkit::Answer::error(503, "overloaded", "busy"));
    world.second.always(gw_testkit::Answer::error(503, "overloaded", "busy"));
    let answer = super::ask_messages(&world.client, &message("acme/fast")).await;
    assert_envelope("overload", &answer, 529, "overloaded_error");
}

#[tokio::test]
async fn every_error_below_responses_has_four_strings() {
    let world = world().await;
    let keyless = world.gateway.client();
    let client = keyless.with_key(KEY);
    let body = response("acme/fast").to_string();
    for (label, client, method, path, body, status, code) in [
        ("no key", &keyless, "POST", "/v1/responses", body.as_str(), 401, "invalid_api_key"),
        ("method", &client, "PUT", "/v1/responses", "{}", 405, "method_not_allowed"),
        ("unknown", &client, "GET", "/v1/responses/resp_1/nothing", "", 404, "unknown_url"),
        ("missing", &client, "GET", "/v1/responses/resp_1", "", 404, "not_found"),
        ("no JSON", &client, "POST", "/v1/responses", "[", 400, "invalid_json"),
        ("empty", &client, "POST", "/v1/responses", "{}", 400, "missing_required_parameter"),
    ] {
        let answer = client.send(method, path, Some("application/json"), Some(body.as_bytes())).await;
        assert_four(label, &answer, status, code);
    }
}

#[tokio::test]
async fn two_different_keys_are_refused_on_both_surfaces() {
    let world = world().await;
    let client = world.client.with_header("x-api-key", LIMITED);
    assert_envelope(
        "messages",
        &super::ask_messages(&client, &message("acme/fast")).await,
        401,
        "authentication_error",
    );
    assert_four(
        "responses",
        &super::ask_responses(&client, &response("acme/fast")).await,
        401,
        "invalid_api_key",
    );
    let alone = world.gateway.client().with_header("x-api-key", KEY);
    super::ask_messages(&alone, &message("acme/fast")).await.ok();
    let both = alone.with_key(KEY);
    assert_eq!(super::ask_responses(&both, &json!({"model": "acme/fast", "input": "x"})).await.status, 200);
}
