//! The body of an error answer: `{"error":{"message","type","code"}}`, all three strings.

use crate::json::ObjectWriter;

/// Writes the body.
#[must_use]
pub fn error_body(message: &str, kind: &str, code: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(48 + message.len() + kind.len() + code.len());
    let mut body = ObjectWriter::begin(&mut out);
    body.object("error", |error| {
        error.string("message", message);
        error.string("type", kind);
        error.string("code", code);
    });
    body.finish();
    out
}
