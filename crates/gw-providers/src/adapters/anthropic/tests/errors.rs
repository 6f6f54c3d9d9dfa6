//! Classification of the provider's errors ("Errors" at platform.claude.com).

use std::time::Duration;

use gw_wire::failure::{Failure, FailureKind};
use http::HeaderMap;

use crate::adapters::anthropic::adapter;

fn failure(status: u16, kind: &str, message: &str) -> Failure {
    let body = format!(
        r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_1"}}"#
    );
    let headers: HeaderMap = [("retry-after".parse().unwrap(), "7".parse().unwrap())].into_iter().collect();
    adapter().classify(status, &headers, body.as_bytes())
}

#[test]
fn every_documented_error_has_its_kind_and_retry_after() {
    for (status, kind, message, expected) in [
        (400, "invalid_request_error", "max_tokens: Field required", FailureKind::BadRequest),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 205000 tokens > 200000 maximum",
            FailureKind::ContextLength,
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input length or `max_tokens` and try again",
            FailureKind::ContextLength,
        ),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
            FailureKind::Billing,
        ),
        (401, "authentication_error", "invalid x-api-key", FailureKind::Auth),
        (402, "billing_error", "x", FailureKind::Billing),
        (403, "permission_error", "x", FailureKind::Auth),
        (403, "billing_error", "x", FailureKind::Billing),
        (404, "not_found_error", "model: claude-9", FailureKind::ModelMissing),
        (413, "request_too_large", "Request exceeds the maximum size", FailureKind::BadRequest),
        (429, "rate_limit_error", "x", FailureKind::RateLimited),
        (500, "api_error", "Internal server error", FailureKind::Server),
        (504, "timeout_error", "x", FailureKind::Timeout),
        (529, "overloaded_error", "Overloaded", FailureKind::Overloaded),
    ] {
        let failure = failure(status, kind, message);
        assert_eq!(failure.kind, expected, "{status} {kind} {message}");
        assert_eq!((failure.status, failure.retry_after), (Some(status), Some(Duration::from_secs(7))));
    }
    let poor = failure(400, "invalid_request_error", "Your credit balance is too low to access the API.");
    assert!(!poor.message.contains("credit balance"), "{poor}");
    let long = failure(400, "invalid_request_error", "x exceed context limit: 1 > 0");
    assert!(long.message.contains("exceed context limit") && long.code.is_none(), "{long:?}");
}

#[test]
fn an_error_without_a_known_body_is_classified_by_status() {
    for (status, expected) in [
        (400, FailureKind::BadRequest),
        (413, FailureKind::BadRequest),
        (502, FailureKind::Server),
        (529, FailureKind::Overloaded),
    ] {
        for body in ["", "<html>", "{}", "null", r#"{"error":"x"}"#, r#"{"error":{"message":5}}"#] {
            let failure = adapter().classify(status, &HeaderMap::new(), body.as_bytes());
            assert_eq!(failure.kind, expected, "{status} {body}");
        }
    }
}

#[test]
fn embeddings_are_refused() {
    let request = serde_json::json!({"model": "a/b", "input": "x"}).to_string();
    let request = gw_wire::request::embeddings::parse_embeddings(
        request.into(),
        &gw_wire::request::RequestLimits::default(),
    )
    .unwrap();
    let failure = adapter().embeddings(&request, 0..1, &super::target("claude-opus-5")).unwrap_err();
    assert_eq!(
        (failure.kind, failure.code.as_deref()),
        (FailureKind::Unsupported, Some("unsupported_model"))
    );
}
