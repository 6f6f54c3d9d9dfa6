//! Classification of errors.

use gw_wire::failure::FailureKind;
use http::HeaderMap;

use super::super::errors::classify;

fn headers(kind: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !kind.is_empty() {
        headers.insert("x-amzn-errortype", kind.parse().unwrap());
    }
    headers
}

#[test]
fn every_error_type_has_its_kind() {
    let suffix = "ValidationException:http://internal.amazon.com/coral/com.amazon.bedrock/";
    let malformed = "The provided model identifier is invalid.";
    let profile = "Invocation of model ID x with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile.";
    for (status, kind, message, expected) in [
        (429, "ThrottlingException", "Too many requests", FailureKind::RateLimited),
        (400, "ThrottlingException", "Rate exceeded", FailureKind::RateLimited),
        (429, "ModelNotReadyException", "x", FailureKind::RateLimited),
        (400, "ServiceQuotaExceededException", "x", FailureKind::RateLimited),
        (400, "ValidationException", "Malformed input request", FailureKind::BadRequest),
        (400, suffix, "Input is too long for requested model.", FailureKind::ContextLength),
        (
            400,
            "ValidationException",
            "The model returned the following errors: prompt is too long: 9 tokens > 8 maximum",
            FailureKind::ContextLength,
        ),
        (
            400,
            "ValidationException",
            "Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
            FailureKind::ContextLength,
        ),
        (400, "ValidationException", malformed, FailureKind::ModelMissing),
        (400, "ValidationException", profile, FailureKind::ModelMissing),
        (403, "AccessDeniedException", "You don't have access to the model", FailureKind::Auth),
        (
            403,
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
            FailureKind::Auth,
        ),
        (400, "ExpiredTokenException", "expired", FailureKind::Auth),
        (404, "ResourceNotFoundException", "x", FailureKind::ModelMissing),
        (408, "ModelTimeoutException", "x", FailureKind::Timeout),
        (424, "ModelErrorException", "x", FailureKind::Server),
        (424, "ModelStreamErrorException", "x", FailureKind::Server),
        (500, "InternalServerException", "x", FailureKind::Server),
        (503, "ServiceUnavailableException", "x", FailureKind::Overloaded),
        (400, "", "x", FailureKind::BadRequest),
        (502, "NewsException", "x", FailureKind::Server),
    ] {
        let body = serde_json::json!({"message": message}).to_string();
        let failure = classify(status, &headers(kind), body.as_bytes());
        assert_eq!((failure.kind, failure.status), (expected, Some(status)), "{kind} {message}");
    }
}

#[test]
fn the_error_type_may_be_in_the_body_and_any_body_is_read() {
    let body = br#"{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"User: arn:aws:iam::1:user/x is not authorized"}"#;
    let failure = classify(400, &HeaderMap::new(), body);
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(!failure.message.contains("arn:"), "{}", failure.message);
    for body in [&b""[..], b"<html>", b"[]", b"null", b"{\"message\":5}", &[0xff, 0xfe]] {
        assert_eq!(classify(400, &HeaderMap::new(), body).kind, FailureKind::BadRequest);
        assert_eq!(classify(503, &HeaderMap::new(), body).kind, FailureKind::Overloaded);
    }
}

#[test]
fn retry_after_is_kept() {
    let mut headers = headers("ThrottlingException");
    headers.insert("retry-after", "7".parse().unwrap());
    assert_eq!(classify(429, &headers, b"{}").retry_after, Some(std::time::Duration::from_secs(7)));
}
