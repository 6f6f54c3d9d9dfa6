//! Failures of the transport: a message for clients, and a detail for the log.

use std::error::Error;
use std::fmt::Write;
use std::io;
use std::net::SocketAddr;

use gw_wire::failure::{Failure, FailureKind};

/// The code of a host that has no address which may be called.
pub(crate) const NOT_ALLOWED: &str = "address_not_allowed";

/// The error of a system with too many open files.
const ENFILE: i32 = 23;
/// The error of a process with too many open files.
const EMFILE: i32 = 24;

/// A host that has no address which may be called.
pub(crate) fn not_allowed(detail: impl std::fmt::Display) -> Failure {
    Failure { code: Some(NOT_ALLOWED.to_owned()), ..unreachable(detail) }
}

/// No connection, or a connection that broke before the response head.
pub(crate) fn unreachable(detail: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Unreachable, "The upstream provider could not be reached.").with_detail(detail)
}

/// A connection that could not be made. Too few open files are the gateway's own fault.
pub(crate) fn not_connected(place: SocketAddr, error: &io::Error) -> Failure {
    let detail = format_args!("connect {place}: {error}");
    if matches!(error.raw_os_error(), Some(ENFILE | EMFILE)) {
        let message = "The gateway has as many open connections as it may have.";
        return Failure::new(FailureKind::NoOpenFile, message).with_detail(detail);
    }
    unreachable(detail)
}

/// A connection that was not established in time.
pub(crate) fn connect_timeout() -> Failure {
    Failure::new(FailureKind::Timeout, "The upstream provider could not be reached in time.")
        .with_detail("connect timeout")
}

/// A response head that did not arrive in time.
pub(crate) fn head_timeout() -> Failure {
    Failure::new(FailureKind::Timeout, "The upstream provider did not answer in time.")
        .with_detail("no response head")
}

/// A body that stalled or exceeded the request's time.
pub(crate) fn body_timeout(detail: &'static str) -> Failure {
    Failure::new(FailureKind::Timeout, "The upstream provider did not answer in time.").with_detail(detail)
}

/// An answer that cannot be read.
pub(crate) fn invalid(detail: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::InvalidResponse, "The upstream provider's answer could not be read.")
        .with_detail(detail)
}

/// A body that broke off.
pub(crate) fn broken(detail: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::StreamBroken, "The upstream provider's answer broke off.").with_detail(detail)
}

/// The failure of an error before the response head.
pub(crate) fn before_head(error: &hyper::Error) -> Failure {
    if error.is_parse() { invalid(chain(error)) } else { unreachable(chain(error)) }
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let _infallible = write!(text, ": {cause}");
        next = cause.source();
    }
    text
}
