//! Errors of the Gemini API: `{"error":{"code","message","status","details"}}`, where `code` is the HTTP status and
//! `status` a name of google.rpc.Code (<https://cloud.google.com/apis/design/errors>).

use crate::dialects::chat_members::in_own_names;
use crate::dialects::{ClientDialect, StreamError};
use crate::json::{ObjectWriter, write_array};

/// The domain of the reasons in `details`.
const DOMAIN: &str = "model-gateway";

/// The body of an error. `code` is the error's code in OpenAI's shape, and becomes the reason in `details`.
/// `retry_seconds`: when a repetition may succeed.
#[must_use]
pub fn error_body(status: u16, code: &str, message: &str, retry_seconds: Option<u64>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + message.len());
    write(&mut out, status, code, &in_own_names(ClientDialect::Gemini, message, code), retry_seconds);
    out
}

fn write(out: &mut Vec<u8>, status: u16, code: &str, message: &str, retry_seconds: Option<u64>) {
    let mut body = ObjectWriter::begin(out);
    body.object("error", |error| {
        error.integer("code", status.into());
        error.string("message", message);
        error.string("status", name(status));
        let retry = retry_seconds.map(ErrorDetail::Retry);
        write_array(
            error.member("details"),
            std::iter::once(ErrorDetail::Reason(code)).chain(retry),
            write_detail,
        );
    });
    body.finish();
}

/// An entry of `details`.
#[derive(Clone, Copy)]
enum ErrorDetail<'a> {
    Reason(&'a str),
    Retry(u64),
}

fn write_detail(out: &mut Vec<u8>, detail: ErrorDetail<'_>) {
    let mut entry = ObjectWriter::begin(out);
    match detail {
        ErrorDetail::Reason(code) => {
            entry.string("@type", "type.googleapis.com/google.rpc.ErrorInfo");
            entry.string("reason", &code.to_ascii_uppercase());
            entry.string("domain", DOMAIN);
        }
        ErrorDetail::Retry(seconds) => {
            entry.string("@type", "type.googleapis.com/google.rpc.RetryInfo");
            entry.string("retryDelay", &format!("{seconds}s"));
        }
    }
    entry.finish();
}

/// The name of a status.
fn name(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        405 | 426 => "UNIMPLEMENTED",
        408 | 504 => "DEADLINE_EXCEEDED",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        503 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

/// Writes an error inside a stream, which has no status of its own.
pub(super) fn write_stream_error(out: &mut Vec<u8>, error: &StreamError<'_>) {
    let status = match (error.cause, error.cause_kind()) {
        ("upstream_overloaded" | "no_available_provider" | "gateway_shutdown", _) => 503,
        ("upstream_timeout", _) => 504,
        ("request_timeout", _) => 408,
        (
            "rate_limit_exceeded" | "upstream_rate_limited" | "session_limit_reached" | "insufficient_quota",
            _,
        )
        | (_, "rate_limit_error" | "insufficient_quota") => 429,
        ("model_not_found", _) => 404,
        ("request_too_large", _) => 413,
        (_, "invalid_request_error") => 400,
        (_, "authentication_error") => 401,
        (_, "permission_error") => 403,
        (_, "upstream_error") => 502,
        _ => 500,
    };
    write(out, status, error.code, error.message, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_name() {
        for (status, name) in [
            (400, "INVALID_ARGUMENT"),
            (401, "UNAUTHENTICATED"),
            (403, "PERMISSION_DENIED"),
            (404, "NOT_FOUND"),
            (405, "UNIMPLEMENTED"),
            (408, "DEADLINE_EXCEEDED"),
            (413, "INVALID_ARGUMENT"),
            (415, "INVALID_ARGUMENT"),
            (429, "RESOURCE_EXHAUSTED"),
            (500, "INTERNAL"),
            (502, "INTERNAL"),
            (503, "UNAVAILABLE"),
            (504, "DEADLINE_EXCEEDED"),
        ] {
            let body = error_body(status, "some_code", "No \"luck\".", None);
            let expected = format!(
                r#"{{"error":{{"code":{status},"message":"No \"luck\".","status":"{name}","details":[{{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"SOME_CODE","domain":"model-gateway"}}]}}}}"#
            );
            assert_eq!(String::from_utf8(body).unwrap(), expected);
        }
    }

    #[test]
    fn a_delay_is_told_in_seconds() {
        let body = String::from_utf8(error_body(429, "x", "", Some(7))).unwrap();
        let delay = r#",{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}"#;
        assert!(body.ends_with(delay), "{body}");
    }

    #[test]
    fn an_error_in_a_stream_has_the_status_of_its_cause() {
        for (kind, cause, status) in [
            ("upstream_error", "upstream_stream_error", 502),
            ("upstream_error", "upstream_timeout", 504),
            ("upstream_error", "upstream_overloaded", 503),
            ("insufficient_quota", "insufficient_quota", 429),
            ("invalid_request_error", "content_filter", 400),
            ("upstream_error", "content_filter", 400),
            ("server_error", "internal_error", 500),
        ] {
            let mut out = Vec::new();
            write_stream_error(&mut out, &StreamError { cause, ..StreamError::new("", kind, "x") });
            let start = format!("{{\"error\":{{\"code\":{status},");
            assert!(String::from_utf8(out).unwrap().starts_with(&start), "{cause}");
        }
    }
}
