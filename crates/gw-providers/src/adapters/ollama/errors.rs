//! Ollama's errors: `{"error": "…"}` with a status, or as a line of a stream.

use gw_wire::failure::{Failure, FailureKind};
use http::HeaderMap;
use serde_json::Value;

use crate::adapters::failure;

/// A larger body is not parsed for an inner error.
const MAX_BODY_BYTES: usize = 256 << 10;

/// The failure that a response other than 2xx means.
pub(super) fn classify(status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
    match inner(body) {
        Some(inner) => failure::classify(status, headers, inner.as_bytes()),
        None => failure::classify(status, headers, body),
    }
}

/// The failure that an error inside a 200 means. `otherwise` is the kind of an error that names none.
pub(super) fn reported(text: &str, otherwise: FailureKind) -> Failure {
    let inner = inner(text.as_bytes());
    let error = serde_json::from_str(inner.as_deref().unwrap_or(text)).unwrap_or(Value::Null);
    failure::reported(&error, otherwise)
}

/// The error of the model runner, which Ollama passes on as JSON in a string:
/// `{"error":"{\"error\":{\"code\":400,\"type\":\"exceed_context_size_error\",…}}"}`.
fn inner(body: &[u8]) -> Option<String> {
    if body.len() > MAX_BODY_BYTES {
        return None;
    }
    let outer: Value = serde_json::from_slice(body).ok()?;
    let message = outer.get("error")?.as_str()?;
    // Some runners put words before the JSON.
    let begin = message.find('{')?;
    let inner: Value = serde_json::from_str(message.get(begin..)?).ok()?;
    inner.get("error").is_some().then(|| inner.to_string())
}
