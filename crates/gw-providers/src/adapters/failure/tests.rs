//! One row per kind of upstream error.

use std::time::Duration;

use gw_wire::failure::FailureKind::{self, *};
use http::HeaderMap;

fn kind(status: u16, body: &str) -> FailureKind {
    super::classify(status, &HeaderMap::new(), body.as_bytes()).kind
}

#[test]
fn a_404_that_names_no_model_speaks_of_the_address() {
    let message = |status, body: &str| super::classify(status, &HeaderMap::new(), body.as_bytes()).message;
    for body in [
        "",
        "404 page not found",
        "<html>404 Not Found</html>",
        r#"{"detail":"Not Found"}"#,
        r#"{"error":{"message":"Invalid URL (POST /chat/completions)","type":"invalid_request_error","code":null}}"#,
    ] {
        for status in [404, 405] {
            assert_eq!(message(status, body), super::WRONG_ADDRESS, "{body}");
        }
    }
    for body in [
        r#"{"error":{"message":"The model `m` does not exist.","code":"model_not_found"}}"#,
        r#"{"error":"model 'm' not found"}"#,
        r#"{"error":{"message":"not found","code":"model_not_found"}}"#,
    ] {
        assert_eq!(message(404, body), "The upstream provider does not offer this model.", "{body}");
    }
    assert_eq!(message(410, ""), "The upstream provider does not offer this model.");
}

#[test]
fn every_status_has_its_kind() {
    for (status, expected) in [
        (100, InvalidResponse),
        (101, InvalidResponse),
        (103, InvalidResponse),
        (204, InvalidResponse),
        (206, InvalidResponse),
        (301, InvalidResponse),
        (304, InvalidResponse),
        (307, InvalidResponse),
        (400, BadRequest),
        (401, Auth),
        (402, Billing),
        (403, Auth),
        (404, ModelMissing),
        (405, ModelMissing),
        (408, Timeout),
        (409, Server),
        (410, ModelMissing),
        (413, BadRequest),
        (415, BadRequest),
        (422, BadRequest),
        (424, Server),
        (429, RateLimited),
        (498, Overloaded),
        (499, BadRequest),
        (500, Server),
        (502, Server),
        (503, Overloaded),
        (504, Timeout),
        (520, Server),
        (524, Timeout),
        (529, Overloaded),
        (599, Server),
        (600, InvalidResponse),
        (999, InvalidResponse),
    ] {
        for body in ["", "<html>", "{}", "[]", "null", "{\"error\":{\"message\":\"x\"}}"] {
            assert_eq!(kind(status, body), expected, "{status} {body}");
        }
    }
}

#[test]
fn error_codes_and_messages_refine_the_kind() {
    for (status, body, expected) in [
        (400, r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#, ContextLength),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens."}}"#,
            ContextLength,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#,
            ContextLength,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
            ContextLength,
        ),
        (413, r#"{"object":"error","message":"maximum context length is 5","code":413}"#, ContextLength),
        (422, r#"{"detail":[{"msg":"input is too long"}]}"#, ContextLength),
        (
            500,
            r#"{"error":{"message":"context window exceeded","code":"context_length_exceeded"}}"#,
            ContextLength,
        ),
        (400, r#"{"error":{"code":"content_filter","message":"x"}}"#, ContentFilter),
        (
            403,
            r#"{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged"}}"#,
            ContentFilter,
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#,
            Auth,
        ),
        (400, r#"{"code":"Client error","error":"Incorrect API key provided: xa***Zz"}"#, Auth),
        (429, r#"{"error":{"code":"insufficient_quota","message":"x"}}"#, Billing),
        (429, r#"{"error":{"type":"exceeded_current_quota_error","message":"x"}}"#, Billing),
        (429, r#"{"error":{"code":"1113","message":"x"}}"#, Billing),
        (429, r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#, RateLimited),
        (403, r#"{"error":{"code":"model_not_found","message":"x"}}"#, ModelMissing),
        (400, r#"{"error":{"code":"model_not_found","message":"x"}}"#, ModelMissing),
    ] {
        assert_eq!(kind(status, body), expected, "{status} {body}");
    }
}

#[test]
fn only_faults_of_the_request_are_quoted_and_redacted() {
    let body =
        r#"{"error":{"message":"Bad key sk-live-0123456789abcdef in https://x.y/z","type":"t","code":17}}"#;
    let bad = super::classify(400, &HeaderMap::new(), body.as_bytes());
    assert_eq!((bad.message.as_str(), bad.code.as_deref()), ("Bad key [redacted] in [address]", Some("17")));
    for status in [401, 402, 404, 429, 500, 503] {
        let failure = super::classify(status, &HeaderMap::new(), body.as_bytes());
        assert!(!failure.message.contains("Bad key") && failure.code.is_none(), "{failure:?}");
        assert!(!format!("{failure:?}").contains("sk-live"), "{failure:?}");
        assert_eq!(failure.status, Some(status));
        // The log gets the code and the type only, because the message may quote the prompt.
        assert_eq!(failure.detail.as_deref(), Some("17 t"));
    }
    let odd = r#"{"error":{"message":"x","code":"a b\n<script>"}}"#;
    assert_eq!(super::classify(400, &HeaderMap::new(), odd.as_bytes()).code, None);
}

#[test]
fn u16_retry_after_is_kept() {
    let headers: HeaderMap = [("retry-after".parse().unwrap(), "2".parse().unwrap())].into_iter().collect();
    for status in [429, 503, 529] {
        assert_eq!(super::classify(status, &headers, b"").retry_after, Some(Duration::from_secs(2)));
    }
}

#[test]
fn a_redirect_is_reported_as_one() {
    let failure = super::classify(302, &HeaderMap::new(), b"");
    assert!(failure.message.contains("redirects are not followed"), "{failure}");
}

#[test]
fn validation_errors_name_their_fields() {
    let detail = r#"{"detail":[{"type":"extra_forbidden","loc":["body","messages",0,"user","name"],"msg":"Extra inputs are not permitted","input":"sekret"},{"msg":"x"}]}"#;
    let inside =
        format!(r#"{{"object":"error","message":{detail},"type":"invalid_request_error","code":null}}"#);
    for body in [detail, &inside] {
        let failure = super::classify(422, &HeaderMap::new(), body.as_bytes());
        let told = "messages.0.user.name: Extra inputs are not permitted; x";
        assert_eq!((failure.kind, failure.message.as_str()), (BadRequest, told));
    }
}
