//! The finish reasons of Cohere.

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::Finish;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::adapters::failure::reported;

/// The reason of an answer that a stop sequence ended.
pub(super) const STOP_SEQUENCE: &str = "STOP_SEQUENCE";

/// OpenAI's form of `finish_reason`, or the failure that it means. `otherwise` is the kind of a failure without
/// details.
pub(super) fn read(
    reason: &str,
    has_calls: bool,
    error: Option<&RawValue>,
    otherwise: FailureKind,
) -> Result<Finish, Failure> {
    match reason {
        "MAX_TOKENS" | "ERROR_LIMIT" => Ok(Finish::Length),
        "ERROR_TOXIC" => Ok(Finish::ContentFilter),
        "TIMEOUT" => Err(Failure::new(FailureKind::Timeout, "The upstream provider timed out.")),
        "USER_CANCEL" => Err(failed(error, otherwise)),
        reason if reason.starts_with("ERROR") => Err(failed(error, otherwise)),
        _ if has_calls => Ok(Finish::ToolCalls),
        _ => Ok(Finish::Stop),
    }
}

/// The failure that `delta.error` describes.
fn failed(error: Option<&RawValue>, otherwise: FailureKind) -> Failure {
    let error_json: Value = error.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let mut failure = reported(&json!({ "error": error_json }), otherwise);
    if failure.kind == otherwise {
        "The upstream provider gave up its answer with an error.".clone_into(&mut failure.message);
    }
    failure
}
