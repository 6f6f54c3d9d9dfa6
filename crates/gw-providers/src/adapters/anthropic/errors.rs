//! Classification of the errors of the Messages API ("Errors" at platform.claude.com).

use gw_wire::failure::{Failure, FailureKind};
use http::HeaderMap;
use serde_json::{Value, json};

use crate::adapters::failure;

/// Classifies a non-2xx response in Anthropic's error format.
pub(in crate::adapters) fn classify(status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
    let failure = failure::classify(status, headers, body);
    match (failure.kind, status) {
        (FailureKind::BadRequest, 413) => {
            Failure { code: failure.code.or(Some("request_too_large".to_owned())), ..failure }
        }
        (FailureKind::BadRequest, 400) => refine(failure, body),
        _ => failure,
    }
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
