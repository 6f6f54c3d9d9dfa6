//! Classification of the errors of the Messages API ("Errors" at platform.claude.com).

use gw_wire::dialects::messages::errors::{THREAD_UNSUPPORTED, thread_code};
use gw_wire::failure::{Failure, FailureKind};
use http::HeaderMap;
use memchr::memmem;
use serde_json::{Value, json};

use crate::adapters::failure;

/// Classifies a non-2xx response in Anthropic's error format.
pub(in crate::adapters) fn classify(status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
    if (400..500).contains(&status)
        && let Some(code) = of_thread(body)
    {
        // A verdict on the request: no other model has the thread, and the client sends the whole conversation.
        let failure = failure::classify(400, headers, body).with_status(status);
        return Failure { kind: FailureKind::BadRequest, code: Some(code.to_owned()), ..failure };
    }
    let failure = failure::classify(status, headers, body);
    match (failure.kind, status) {
        (FailureKind::BadRequest, 400) => refine(failure, body),
        _ => failure,
    }
}

/// The code of an error about a message thread. A host that knows no threads refuses the member itself.
fn of_thread(body: &[u8]) -> Option<&'static str> {
    memmem::find(body, b"thread")?;
    let error = serde_json::from_slice::<Value>(body).ok()?;
    let text = |path: &str| error.pointer(path).and_then(Value::as_str);
    let named = text("/error/details/error_code").and_then(thread_code);
    let is_unknown = || text("/error/message")?.strip_prefix("thread: Extra inputs");
    named.or_else(|| is_unknown().map(|_| THREAD_UNSUPPORTED))
}

/// Corrects two errors that the API reports as invalid requests: an empty account, and an input that exceeds the
/// model's context.
fn refine(failure: Failure, body: &[u8]) -> Failure {
    let Ok(error) = serde_json::from_slice::<Value>(body) else { return failure };
    let message = error.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
    if message.contains("credit balance is too low") {
        let billing = failure::reported(&json!({"type": "billing_error"}), FailureKind::Billing);
        let Failure { status, retry_after, reason, .. } = failure;
        return Failure { status, retry_after, reason, ..billing };
    }
    if message.contains("exceed context limit") {
        return Failure { kind: FailureKind::ContextLength, ..failure };
    }
    failure
}
