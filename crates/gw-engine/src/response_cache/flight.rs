//! The end of a shared call, as its leader and its followers get it.

use std::sync::Arc;

use gw_cache::Stored;

use crate::clock::unix_millis;
use crate::error::{Error, Kind};
use crate::request::context::CallLog;

/// What a flight ends with.
#[derive(Debug)]
pub(crate) struct SharedAnswer {
    /// The answer, for everybody.
    pub(crate) answer: Arc<Stored>,
    /// False for an answer of a kind that only those can have who read it as it came: its text is not in `answer`.
    pub(crate) is_whole: bool,
    /// The leader's own answer, when it was made for it.
    pub(crate) own: Option<bytes::Bytes>,
    pub(crate) fallback_used: bool,
    /// It was kept for too long, and no upstream answers.
    pub(crate) is_stale: bool,
    /// It was kept for a similar question, with a vector this near.
    pub(crate) similarity: Option<f32>,
}

pub(crate) type FlightResult = Arc<SharedAnswer>;
pub(crate) type FlightError = Arc<SharedFailure>;

/// Why a flight has failed.
#[derive(Debug)]
pub(crate) struct SharedFailure {
    pub(crate) error: Error,
    /// It is about the leader's own limits, and nothing to those who wait: each has its own.
    pub(crate) is_the_leaders: bool,
}

impl SharedFailure {
    pub(crate) fn of(error: Error) -> FlightError {
        Arc::new(Self { error, is_the_leaders: false })
    }
}

/// When an answer was kept, which replicas must agree on: unix milliseconds.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(unix_millis()).unwrap_or(0)
}

/// Notes that a client went away whose call is a task's.
pub(crate) struct LogOnDisconnect(pub(crate) Option<Arc<CallLog>>);

impl Drop for LogOnDisconnect {
    fn drop(&mut self) {
        if let Some(log) = self.0.take() {
            log.ended(Kind::ClientClosedRequest.code());
        }
    }
}

pub(crate) fn gone() -> Error {
    Error::new(Kind::UpstreamStreamError, "The shared call ended without an answer.")
}
