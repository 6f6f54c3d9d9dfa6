//! The error body of SPEC.md: exactly `{"error":{"message","type","code"}}`, all three strings.

/// Writes the body.
#[must_use]
pub fn error_body(message: &str, kind: &str, code: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(48 + message.len() + kind.len() + code.len());
    out.extend_from_slice(b"{\"error\":{\"message\":");
    crate::json::write_str(&mut out, message);
    out.extend_from_slice(b",\"type\":");
    crate::json::write_str(&mut out, kind);
    out.extend_from_slice(b",\"code\":");
    crate::json::write_str(&mut out, code);
    out.extend_from_slice(b"}}");
    out
}
