//! Cohere's errors: `{"message": …}` with a status of docs.cohere.com/reference/errors.

use gw_wire::failure::{Failure, FailureKind};
use http::HeaderMap;

use crate::adapters::failure;

/// The part of a body that is searched for phrases.
const MAX_SEARCHED_BYTES: usize = 64 << 10;

/// The failure that a response other than 2xx means.
pub(super) fn classify(status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
    let mut failure = failure::classify(status, headers, body);
    let words = body.get(..body.len().min(MAX_SEARCHED_BYTES)).unwrap_or_default();
    let words = String::from_utf8_lossy(words).to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    let kind = match (status, failure.kind) {
        // The request or the answer holds a deny-listed token.
        (498, _) => FailureKind::ContentFilter,
        // "Request cancelled", but not by the gateway.
        (499, _) => FailureKind::Server,
        (400 | 413 | 422, FailureKind::BadRequest) if says(&["too many tokens", "is too long"]) => {
            FailureKind::ContextLength
        }
        (400, FailureKind::BadRequest) if says(&["model '"]) && says(&["not found"]) => {
            FailureKind::ModelMissing
        }
        // A trial key has used its monthly calls, so waiting does not help.
        (429, FailureKind::RateLimited) if says(&["calls / month", "calls per month"]) => {
            FailureKind::Billing
        }
        _ => return failure,
    };
    failure.kind = kind;
    failure.code = None;
    let own = match kind {
        FailureKind::ContentFilter => "The upstream provider's filter refused the request or its answer.",
        FailureKind::Billing => "The gateway's account at the upstream provider has no quota left.",
        FailureKind::ModelMissing => "The upstream provider does not offer this model.",
        FailureKind::Server => "The upstream provider cancelled the request.",
        // Cohere's own message says by how many tokens the prompt is too long.
        _ => return failure,
    };
    own.clone_into(&mut failure.message);
    failure
}
