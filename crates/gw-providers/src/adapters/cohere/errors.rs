//! Cohere's errors: `{"message": …}` with a status of docs.cohere.com/reference/errors.

use gw_wire::failure::{Failure, FailureKind};
use http::HeaderMap;

use crate::adapters::failure;

/// A body whose words are looked at is no longer than this.
const MAX_SEARCHED_BYTES: usize = 64 << 10;

/// A non-2xx answer.
pub(super) fn classify(status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
    let mut failure = failure::classify(status, headers, body);
    let words = body.get(..body.len().min(MAX_SEARCHED_BYTES)).unwrap_or_default();
    let words = String::from_utf8_lossy(words).to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    let kind = match (status, failure.kind) {
        // A deny-listed token in the request or the answer.
        (498, _) => FailureKind::ContentFilter,
        // "Request cancelled", and not by us.
        (499, _) => FailureKind::Server,
        (400 | 413 | 422, FailureKind::BadRequest) if says(&["too many tokens", "is too long"]) => {
            FailureKind::ContextLength
        }
        (400, FailureKind::BadRequest) if says(&["model '"]) && says(&["not found"]) => {
            FailureKind::ModelMissing
        }
        // A trial key's monthly calls are used up: waiting does not help.
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
        // Cohere's own words, which say how many tokens too many there are.
        _ => return failure,
    };
    own.clone_into(&mut failure.message);
    failure
}
