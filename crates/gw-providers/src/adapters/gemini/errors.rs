//! Classification of Google's errors by `google.rpc.Status` and its details:
//! <https://ai.google.dev/gemini-api/docs/troubleshooting>, <https://cloud.google.com/apis/design/errors>.

use std::time::Duration;

use gw_wire::failure::{Failure, FailureKind};
use http::HeaderMap;
use serde_json::Value;

use crate::adapters::failure as generic;

/// The largest error body that is parsed.
const MAX_ERROR_BODY_BYTES: usize = 256 << 10;

/// The bounds of a believable `retry_after`.
const MIN_RETRY_AFTER: Duration = Duration::from_secs(1);
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Classifies a non-2xx response.
pub(in crate::adapters) fn classify(status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
    let failure = generic::classify(status, headers, body);
    if body.len() > MAX_ERROR_BODY_BYTES {
        return failure;
    }
    let value = serde_json::from_slice(body).unwrap_or(Value::Null);
    refine(failure, status, &value)
}

/// Classifies an error object inside a 200 or a stream.
pub(super) fn reported(value: &Value, otherwise: FailureKind) -> Failure {
    let failure = generic::reported(value, otherwise);
    let status = failure.status.or_else(|| error_of(value).get("code")?.as_u64()?.try_into().ok());
    refine(failure, status.unwrap_or(0), value)
}

/// Returns the first entry of a list that is an error.
pub(super) fn in_list(value: &Value) -> Option<&Value> {
    value.as_array()?.iter().find(|entry| entry.get("error").is_some_and(|error| !error.is_null()))
}

fn error_of(value: &Value) -> &Value {
    let value = in_list(value).unwrap_or(value);
    value.get("error").unwrap_or(value)
}

fn refine(mut failure: Failure, status: u16, value: &Value) -> Failure {
    let error = error_of(value);
    let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if failure.retry_after.is_none() {
        failure.retry_after = details.iter().find_map(retry_delay);
    }
    let message = error.get("message").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let class = error.get("status").and_then(Value::as_str).unwrap_or_default();
    let has_reason =
        |wanted: &str| details.iter().any(|detail| detail.get("reason").is_some_and(|it| it == wanted));
    let kind = match (status, class) {
        (400, _) if has_reason("API_KEY_INVALID") || message.contains("api key expired") => FailureKind::Auth,
        // The operator's account or location causes these errors, not the request.
        (400, "FAILED_PRECONDITION") if message.contains("billing") => FailureKind::Billing,
        (400, "FAILED_PRECONDITION") if message.contains("location is not supported") => FailureKind::Auth,
        (403, _) if has_reason("BILLING_DISABLED") => FailureKind::Billing,
        // Google cancelled the call.
        (499, _) => FailureKind::Server,
        _ => return failure,
    };
    if kind == failure.kind {
        return failure;
    }
    let mut refined = Failure::new(kind, message_of(kind));
    refined.status = failure.status;
    refined.retry_after = failure.retry_after;
    refined.reason = failure.reason;
    refined.detail = failure.detail.or_else(|| (!class.is_empty()).then(|| class.chars().take(64).collect()));
    refined
}

fn message_of(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Auth => "The upstream provider refused the gateway's credentials.",
        FailureKind::Billing => "The gateway's account at the upstream provider has no quota left.",
        _ => "The upstream provider failed.",
    }
}

/// Reads the delay of a `google.rpc.RetryInfo`, such as `34s` or `34.074824224s`.
fn retry_delay(detail: &Value) -> Option<Duration> {
    let seconds: f64 = detail.get("retryDelay")?.as_str()?.strip_suffix('s')?.parse().ok()?;
    let is_delay = seconds.is_finite() && seconds >= 0.0;
    is_delay.then(|| {
        let bounded = seconds.clamp(MIN_RETRY_AFTER.as_secs_f64(), MAX_RETRY_AFTER.as_secs_f64());
        Duration::from_secs_f64(bounded)
    })
}
