//! The errors of the Responses API. All four members of an error are strings, because strict clients accept nothing else.

use crate::dialects::chat_members::{in_own_names, named_member};
use crate::dialects::client_dialect::ClientDialect;
use crate::json::ObjectWriter;

/// Writes the error body of this surface. `param` is the field that the message names, or an empty string.
#[must_use]
pub fn error_body(message: &str, kind: &str, code: &str) -> Vec<u8> {
    let message = &*in_own_names(ClientDialect::Responses, message, code);
    let mut out = Vec::with_capacity(64 + message.len() + kind.len() + code.len());
    let mut body = ObjectWriter::begin(&mut out);
    body.object("error", |error| write_error(error, message, kind, code));
    body.finish();
    out
}

/// Writes the members of an error.
pub(super) fn write_error(error: &mut ObjectWriter<'_>, message: &str, kind: &str, code: &str) {
    error.string("message", message);
    error.string("type", kind);
    error.string("param", named_member(message).unwrap_or_default());
    error.string("code", code);
}

/// The code of a failed response. OpenAI's clients know these codes only. `kind` and `code` are those of the fault behind it.
pub(super) fn failed_code(kind: &str, code: &str) -> &'static str {
    match (kind, code) {
        // The request may be right, and a repetition may be in time.
        (_, "request_timeout") => "server_error",
        (_, "context_length_exceeded") => "context_length_exceeded",
        (_, "insufficient_quota") | ("insufficient_quota", _) => "insufficient_quota",
        ("rate_limit_error", _) | (_, "rate_limit_exceeded" | "upstream_rate_limited") => {
            "rate_limit_exceeded"
        }
        ("invalid_request_error", _) | (_, "content_filter") => "invalid_prompt",
        _ => "server_error",
    }
}

#[cfg(test)]
mod unit_tests {
    use super::{error_body, failed_code};
    use crate::dialects::StreamError;

    #[test]
    fn a_failed_response_has_the_code_of_the_fault_behind_it() {
        for (cause, code) in [
            ("invalid_request", "invalid_prompt"),
            ("unsupported_value", "invalid_prompt"),
            ("content_filter", "invalid_prompt"),
            ("context_length_exceeded", "context_length_exceeded"),
            ("insufficient_quota", "insufficient_quota"),
            ("upstream_rate_limited", "rate_limit_exceeded"),
            ("session_limit_reached", "rate_limit_exceeded"),
            ("request_timeout", "server_error"),
            ("upstream_overloaded", "server_error"),
            ("upstream_stream_error", "server_error"),
        ] {
            let error = StreamError { cause, ..StreamError::new("", "upstream_error", "x") };
            assert_eq!(failed_code(error.cause_kind(), cause), code, "{cause}");
        }
    }

    #[test]
    fn an_error_has_four_strings() {
        let body = error_body("Invalid 'input[0].role': wrong.", "invalid_request_error", "invalid_value");
        assert_eq!(
            String::from_utf8(body).unwrap(),
            r#"{"error":{"message":"Invalid 'input[0].role': wrong.","type":"invalid_request_error","param":"input[0].role","code":"invalid_value"}}"#
        );
        let body = String::from_utf8(error_body("No.", "server_error", "internal_error")).unwrap();
        assert!(body.contains(r#""param":"","code":"internal_error""#), "{body}");
    }
}
