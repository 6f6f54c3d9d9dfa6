//! Errors of the Messages API: `{"type":"error","error":{"type","message"},"request_id"}`.

use super::overflow;
use crate::dialects::chat_members::in_own_names;
use crate::dialects::{ClientDialect, StreamError};
use crate::json::ObjectWriter;

/// The status for overload in this API.
const OVERLOADED: u16 = 529;

/// The codes for a message thread that the target cannot begin, and for one that it cannot continue. Anthropic's SDKs then
/// send the whole conversation (anthropic-sdk-typescript 1.12.0 and anthropic-sdk-python 2.12.0, November 2026).
pub const THREAD_UNSUPPORTED: &str = "thread_unsupported_request";
/// See [`THREAD_UNSUPPORTED`].
pub const THREAD_NOT_FOUND: &str = "thread_not_found";

/// The code of a message thread if `code` is one. Anthropic's SDKs decide by it whether they send the whole conversation.
#[must_use]
pub fn thread_code(code: &str) -> Option<&'static str> {
    const CODES: [&str; 5] = [
        THREAD_UNSUPPORTED,
        THREAD_NOT_FOUND,
        "thread_already_continued",
        "thread_continue_in_flight",
        "thread_fingerprint_mismatch",
    ];
    CODES.into_iter().find(|known| *known == code)
}

/// Codes of limits on money and on sessions. Clients must not retry them.
const BILLING_CODES: [&str; 2] = ["insufficient_quota", "session_limit_reached"];

/// The status and the body of an error. `status`, `kind` and `code` are those of the same error in OpenAI's shape.
#[must_use]
pub fn error_body(status: u16, kind: &str, code: &str, message: &str, request_id: &str) -> (u16, Vec<u8>) {
    let (status, error_type) = match code {
        "upstream_overloaded" | "no_available_provider" => (OVERLOADED, "overloaded_error"),
        _ => (status, error_type(status, kind, code)),
    };
    let message = &*in_own_names(ClientDialect::Messages, message, code);
    let mut out = Vec::with_capacity(128 + message.len() + request_id.len());
    let mut body = ObjectWriter::begin(&mut out);
    body.string("type", "error");
    body.object("error", |error| {
        error.string("type", error_type);
        if code == "context_length_exceeded" {
            error.string("message", &overflow::wording(message));
        } else {
            error.string("message", message);
        }
        if thread_code(code).is_some() {
            error.object("details", |details| {
                details.string("error_code", code);
                if code == THREAD_UNSUPPORTED {
                    details.raw("unsupported", "[\"thread\"]");
                }
            });
        }
    });
    body.string("request_id", request_id);
    body.finish();
    (status, out)
}

/// The error type of a status that is not overload.
fn error_type(status: u16, kind: &str, code: &str) -> &'static str {
    match status {
        _ if BILLING_CODES.contains(&code) => "billing_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        408 | 504 => "timeout_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        OVERLOADED => "overloaded_error",
        500.. => "api_error",
        400..=499 => "invalid_request_error",
        _ => kind_type(kind),
    }
}

/// The error type of an error inside a stream, which has no status.
pub(super) fn stream_error_type(error: &StreamError<'_>) -> &'static str {
    match error.cause {
        code if BILLING_CODES.contains(&code) => "billing_error",
        "upstream_overloaded" | "no_available_provider" => "overloaded_error",
        "upstream_timeout" | "request_timeout" => "timeout_error",
        "rate_limit_exceeded" | "upstream_rate_limited" => "rate_limit_error",
        "model_not_found" => "not_found_error",
        "request_too_large" => "request_too_large",
        _ => kind_type(error.cause_kind()),
    }
}

fn kind_type(kind: &str) -> &'static str {
    match kind {
        "invalid_request_error" => "invalid_request_error",
        "authentication_error" => "authentication_error",
        "permission_error" => "permission_error",
        "rate_limit_error" => "rate_limit_error",
        "insufficient_quota" => "billing_error",
        _ => "api_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_type() {
        let rows = [
            (400, "invalid_request_error", "invalid_type", 400, "invalid_request_error"),
            (401, "authentication_error", "invalid_api_key", 401, "authentication_error"),
            (403, "permission_error", "model_not_allowed", 403, "permission_error"),
            (404, "invalid_request_error", "model_not_found", 404, "not_found_error"),
            (405, "invalid_request_error", "method_not_allowed", 405, "invalid_request_error"),
            (408, "invalid_request_error", "request_timeout", 408, "timeout_error"),
            (413, "invalid_request_error", "request_too_large", 413, "request_too_large"),
            (415, "invalid_request_error", "unsupported_media_type", 415, "invalid_request_error"),
            (429, "rate_limit_error", "rate_limit_exceeded", 429, "rate_limit_error"),
            (429, "insufficient_quota", "insufficient_quota", 429, "billing_error"),
            (429, "rate_limit_error", "session_limit_reached", 429, "billing_error"),
            (500, "server_error", "internal_error", 500, "api_error"),
            (502, "upstream_error", "upstream_billing_error", 502, "api_error"),
            (503, "upstream_error", "no_available_provider", 529, "overloaded_error"),
            (503, "upstream_error", "upstream_overloaded", 529, "overloaded_error"),
            (503, "server_error", "store_unavailable", 503, "api_error"),
            (504, "upstream_error", "upstream_timeout", 504, "timeout_error"),
        ];
        for (status, kind, code, wire, error_type) in rows {
            let (got, body) = error_body(status, kind, code, "No \"luck\".", "req_1");
            let expected = format!(
                r#"{{"type":"error","error":{{"type":"{error_type}","message":"No \"luck\"."}},"request_id":"req_1"}}"#
            );
            assert_eq!((got, String::from_utf8(body).unwrap()), (wire, expected), "{code}");
        }
    }

    #[test]
    fn a_stream_tells_the_type_by_the_fault_behind_the_error() {
        for (kind, cause, error_type) in [
            ("upstream_error", "upstream_stream_error", "api_error"),
            ("upstream_error", "upstream_timeout", "timeout_error"),
            ("upstream_error", "upstream_overloaded", "overloaded_error"),
            ("insufficient_quota", "insufficient_quota", "billing_error"),
            ("invalid_request_error", "content_filter", "invalid_request_error"),
            ("upstream_error", "content_filter", "invalid_request_error"),
        ] {
            let error = StreamError { cause, ..StreamError::new("", kind, "upstream_stream_error") };
            assert_eq!(stream_error_type(&error), error_type, "{cause}");
        }
    }

    #[test]
    fn an_overflow_has_the_words_that_start_a_compaction() {
        let message = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.";
        let (_, body) = error_body(400, "invalid_request_error", "context_length_exceeded", message, "req_1");
        assert!(
            String::from_utf8(body).unwrap().contains("\"prompt is too long: 9001 tokens > 8192 maximum\"")
        );
    }
}
