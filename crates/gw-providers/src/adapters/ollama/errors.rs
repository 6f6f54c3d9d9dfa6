//! Ollama's errors: `{"error": "…"}` with a status, or as a line of a stream.

use gw_wire::failure::{Failure, FailureKind};
use http::HeaderMap;
use serde_json::Value;

use crate::adapters::failure;

/// A body larger than this is not taken apart.
const MAX_BODY_BYTES: usize = 256 << 10;

/// A non-2xx answer.
pub(super) fn classify(status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
    match inner(body) {
        Some(inner) => failure::classify(status, headers, inner.as_bytes()),
        None => failure::classify(status, headers, body),
    }
}

/// An error inside a 200. `otherwise` is the kind of one that does not say what it is.
pub(super) fn reported(text: &str, otherwise: FailureKind) -> Failure {
    let inner = inner(text.as_bytes());
    let error = serde_json::from_str(inner.as_deref().unwrap_or(text)).unwrap_or(Value::Null);
    failure::reported(&error, otherwise)
}

/// The runner's own error, which is passed on as a text of JSON:
/// `{"error":"{\"error\":{\"code\":400,\"type\":\"exceed_context_size_error\",…}}"}`.
fn inner(body: &[u8]) -> Option<String> {
    if body.len() > MAX_BODY_BYTES {
        return None;
    }
    let outer: Value = serde_json::from_slice(body).ok()?;
    let said = outer.get("error")?.as_str()?;
    // Some runners put words before it.
    let begin = said.find('{')?;
    let inner: Value = serde_json::from_str(said.get(begin..)?).ok()?;
    inner.get("error").is_some().then(|| inner.to_string())
}
