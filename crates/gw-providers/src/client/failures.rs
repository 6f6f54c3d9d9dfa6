//! The failures of the transport: sentences a client may read, details for the log.

use std::error::Error;
use std::fmt::Write;

use gw_wire::failure::{Failure, FailureKind};

/// No connection, or it broke before the response head.
pub(crate) fn unreachable(detail: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Unreachable, "The upstream provider could not be reached.").with_detail(detail)
}

/// Connecting took too long.
pub(crate) fn connect_timeout() -> Failure {
    Failure::new(FailureKind::Timeout, "The upstream provider could not be reached in time.")
        .with_detail("connect timeout")
}

/// No response head in time.
pub(crate) fn head_timeout() -> Failure {
    Failure::new(FailureKind::Timeout, "The upstream provider did not answer in time.")
        .with_detail("no response head")
}

/// The body stalled, or took longer than the request may.
pub(crate) fn body_timeout(detail: &'static str) -> Failure {
    Failure::new(FailureKind::Timeout, "The upstream provider did not answer in time.").with_detail(detail)
}

/// The answer is not one we can read.
pub(crate) fn invalid(detail: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::InvalidResponse, "The upstream provider's answer could not be read.")
        .with_detail(detail)
}

/// The body broke off.
pub(crate) fn broken(detail: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::StreamBroken, "The upstream provider's answer broke off.").with_detail(detail)
}

/// What went wrong before a response head arrived.
pub(crate) fn before_head(error: &hyper::Error) -> Failure {
    if error.is_parse() { invalid(chain(error)) } else { unreachable(chain(error)) }
}

/// An error with its causes, on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let _infallible = write!(text, ": {cause}");
        next = cause.source();
    }
    text
}
