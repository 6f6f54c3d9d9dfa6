//! The consequences of a failed attempt: retry, next candidate or stop, and the client's error.

use std::time::Duration;

use gw_wire::dialects::messages::errors::thread_code;
use gw_wire::failure::{Failure, FailureKind};

use crate::error::{Error, Kind};

/// The decision after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// A retry of the target may succeed, and so may another candidate.
    Retry,
    /// Another candidate may answer.
    Next,
    /// The request would fail everywhere.
    Stop,
}

/// Decides what happens after a failure.
pub(crate) fn verdict(failure: &Failure, fallback_on_4xx: bool) -> RetryDecision {
    match failure.kind {
        FailureKind::Unreachable | FailureKind::Server | FailureKind::StreamBroken => RetryDecision::Retry,
        FailureKind::Timeout
        | FailureKind::RateLimited
        | FailureKind::Overloaded
        | FailureKind::Auth
        | FailureKind::Billing
        | FailureKind::NoKey
        | FailureKind::Unsupported
        | FailureKind::ImageAddress
        // The connections to another upstream may be open already.
        | FailureKind::NoOpenFile
        | FailureKind::ModelMissing
        | FailureKind::ContextLength
        | FailureKind::InvalidResponse => RetryDecision::Next,
        FailureKind::ContentFilter | FailureKind::BadRequest if fallback_on_4xx => RetryDecision::Next,
        // The answer of another candidate needs as much memory, and this answer is already paid for.
        FailureKind::ContentFilter | FailureKind::BadRequest | FailureKind::NoMemory => {
            RetryDecision::Stop
        }
    }
}

/// Whether a failure of the first of two simultaneous attempts ends the second one, too. Another answer may fit into the memory that is
/// left, and it is paid for.
pub(crate) fn ends_hedge(failure: &Failure, fallback_on_4xx: bool) -> bool {
    failure.kind != FailureKind::NoMemory && verdict(failure, fallback_on_4xx) == RetryDecision::Stop
}

/// The kind of error that the client gets if a failure is the last one, before a stream began.
pub(crate) fn kind(failure: &Failure) -> Kind {
    match failure.kind {
        FailureKind::Unreachable => Kind::UpstreamUnreachable,
        FailureKind::Timeout => Kind::UpstreamTimeout,
        FailureKind::RateLimited => Kind::UpstreamRateLimited,
        FailureKind::Overloaded => Kind::UpstreamOverloaded,
        FailureKind::Server | FailureKind::StreamBroken => Kind::UpstreamError,
        FailureKind::Auth => Kind::UpstreamAuthError,
        FailureKind::Billing => Kind::UpstreamBillingError,
        // The key itself holds the memory that its answer waits for.
        FailureKind::NoMemory if failure.code.as_deref() == Some(Kind::RateLimitExceeded.code()) => {
            Kind::RateLimitExceeded
        }
        FailureKind::NoKey | FailureKind::NoMemory | FailureKind::NoOpenFile => Kind::NoAvailableProvider,
        FailureKind::Unsupported => match failure.code.as_deref() {
            Some("unsupported_model") => Kind::UnsupportedModel,
            Some("unsupported_parameter") => Kind::UnsupportedParameter,
            Some(code) if thread_code(code).is_some() => Kind::Invalid,
            _ => Kind::UnsupportedValue,
        },
        FailureKind::ImageAddress => image_kind(failure),
        FailureKind::ModelMissing if is_chat_only(failure) => Kind::UnsupportedModel,
        FailureKind::ModelMissing => Kind::UpstreamModelMissing,
        FailureKind::ContextLength => Kind::ContextLengthExceeded,
        FailureKind::ContentFilter => Kind::ContentFilter,
        FailureKind::BadRequest if failure.status == Some(413) => Kind::RequestTooLarge,
        FailureKind::BadRequest => Kind::Invalid,
        FailureKind::InvalidResponse => Kind::UpstreamInvalidResponse,
    }
}

/// The code of an image that cannot be fetched: OpenAI's own.
pub(crate) const INVALID_IMAGE_URL: &str = "invalid_image_url";

/// The kind of error for an image whose bytes are missing: the address is refused, it could not be fetched, or the gateway
/// is busy with other images.
fn image_kind(failure: &Failure) -> Kind {
    let is = |kind: Kind| failure.code.as_deref() == Some(kind.code());
    if failure.code.as_deref() == Some(INVALID_IMAGE_URL) {
        Kind::Invalid
    } else if is(Kind::RateLimitExceeded) {
        Kind::RateLimitExceeded
    } else if is(Kind::NoAvailableProvider) {
        Kind::NoAvailableProvider
    } else {
        Kind::UnsupportedValue
    }
}

/// Whether a failure counts against the upstream's availability. Requests that fail everywhere do not count, and
/// neither do rate limits, because the upstream is available, nor the gateway's own lack of memory or of open files.
pub(crate) fn is_upstreams_fault(failure: &Failure) -> bool {
    !is_chat_only(failure)
        && !matches!(
            failure.kind,
            FailureKind::BadRequest
                | FailureKind::Unsupported
                | FailureKind::ImageAddress
                | FailureKind::NoKey
                | FailureKind::ContentFilter
                | FailureKind::ContextLength
                | FailureKind::RateLimited
                | FailureKind::NoMemory
                | FailureKind::NoOpenFile
        )
}

/// Whether the upstream has chats and no text completions.
fn is_chat_only(failure: &Failure) -> bool {
    failure.kind == FailureKind::ModelMissing && failure.code.as_deref() == Some("unsupported_model")
}

/// Whether the attempt reached an upstream.
pub(crate) fn was_sent(failure: &Failure) -> bool {
    !matches!(
        failure.kind,
        FailureKind::Unsupported | FailureKind::ImageAddress | FailureKind::NoKey | FailureKind::NoOpenFile
    )
}

/// Whether another key of the provider may succeed.
pub(crate) fn is_about_the_key(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Auth | FailureKind::Billing | FailureKind::RateLimited)
}

/// The kind of error that ends a stream.
pub(crate) fn stream_kind(failure: &Failure) -> Kind {
    match failure.kind {
        FailureKind::Timeout => Kind::UpstreamTimeout,
        _ => Kind::UpstreamStreamError,
    }
}

/// The `Retry-After` if the upstream gave none.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The client's error if every attempt failed. `tried` are the models in order.
pub(crate) fn error(failure: &Failure, tried: &[&str], retry_after: Option<Duration>) -> Error {
    let kind = kind(failure);
    let mut message = failure.message.clone();
    // The only upstream's verdict on the request is passed on unchanged. After a fallback the client must know which
    // models were tried.
    if tried.len() > 1 || (kind.row().0 >= 429 && !tried.is_empty()) {
        let stop = if message.ends_with(['.', '!', '?']) { "" } else { "." };
        message = format!("{message}{stop} Models tried: {}.", tried.join(", "));
    }
    let mut error = Error::new(kind, message);
    if kind == Kind::Invalid {
        error.code = failure.code.clone().map(Into::into);
    }
    if matches!(
        kind,
        Kind::UpstreamRateLimited
            | Kind::UpstreamOverloaded
            | Kind::NoAvailableProvider
            | Kind::RateLimitExceeded
    ) {
        error.retry_after = Some(retry_after.or(failure.retry_after).unwrap_or(DEFAULT_RETRY_AFTER));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_tried_are_named_after_a_fallback_and_never_for_a_lone_fault_of_the_request() {
        let refused = Failure::new(FailureKind::BadRequest, "bad foo");
        assert_eq!(error(&refused, &["a/x"], None).message, "bad foo");
        assert_eq!(error(&refused, &["a/x", "b/y"], None).message, "bad foo. Models tried: a/x, b/y.");
        let down = Failure::new(FailureKind::Server, "It failed.");
        assert_eq!(error(&down, &["a/x"], None).message, "It failed. Models tried: a/x.");
    }

    #[test]
    fn a_hedge_ends_when_the_first_upstream_refuses_the_request_and_not_when_memory_is_short() {
        let ends = |kind, fallback| ends_hedge(&Failure::new(kind, "x"), fallback);
        assert!(ends(FailureKind::BadRequest, false) && ends(FailureKind::ContentFilter, false));
        assert!(!ends(FailureKind::BadRequest, true) && !ends(FailureKind::Server, false));
        assert!(!ends(FailureKind::NoMemory, false));
    }
}
