//! The result of a shared call, for its leader and its followers.

use std::sync::Arc;

use gw_cache::Stored;
use parking_lot::Mutex;

use crate::call::Call;
use crate::call::answer_closing::AnswerClosing;
use crate::clock::unix_millis;
use crate::error::{Error, Kind};
use crate::request::context::CallLog;

/// The result of a shared call that succeeded.
#[derive(Debug)]
pub(crate) struct SharedAnswer {
    /// The answer for all readers.
    pub(crate) answer: Arc<Stored>,
    /// `answer` has the text. False for an answer that only readers of the live stream can have.
    pub(crate) is_whole: bool,
    /// The leader's own document, if the call made one.
    pub(crate) own: Option<bytes::Bytes>,
    /// The end of the leader's own stream, if the call made one.
    pub(crate) closing: Option<Box<AnswerClosing>>,
    pub(crate) fallback_used: bool,
    /// The answer is stale, and no upstream answered.
    pub(crate) is_stale: bool,
    /// It has fewer choices than the requests asked for.
    pub(crate) lacks_choices: bool,
    /// The answer belongs to a similar question with this cosine similarity.
    pub(crate) similarity: Option<f32>,
}

pub(crate) type FlightResult = Arc<SharedAnswer>;
pub(crate) type FlightError = Arc<SharedFailure>;

/// The error of a shared call that failed.
#[derive(Debug)]
pub(crate) struct SharedFailure {
    pub(crate) error: Error,
    /// The error is about the leader's own limits. Followers have limits of their own.
    pub(crate) is_the_leaders: bool,
    /// The end of the leader's stream, if one of the leader's limits cut its answer.
    pub(crate) closing: Option<Box<AnswerClosing>>,
    /// The leader's call, if nobody can share it. It goes on for its own request.
    unshared: Mutex<Option<Box<Call>>>,
}

impl SharedFailure {
    pub(crate) fn of(error: Error) -> FlightError {
        Arc::new(Self { error, is_the_leaders: false, closing: None, unshared: Mutex::default() })
    }

    /// A failure that is about the leader's own limits.
    pub(crate) fn of_leader(error: Error, closing: Option<Box<AnswerClosing>>) -> FlightError {
        Arc::new(Self { error, is_the_leaders: true, closing, unshared: Mutex::default() })
    }

    /// The leader's limits give its request another plan, so each follower makes a call of its own.
    pub(crate) fn unshared(call: Box<Call>) -> FlightError {
        let unshared = Mutex::new(Some(call));
        Arc::new(Self { error: gone(), is_the_leaders: true, closing: None, unshared })
    }

    /// Takes the leader's call, if it goes on for its own request.
    pub(crate) fn take_unshared(&self) -> Option<Box<Call>> {
        self.unshared.lock().take()
    }
}

/// The time of day in unix milliseconds. Replicas compare it.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(unix_millis()).unwrap_or(0)
}

/// Notes a disconnect of a client whose call runs in a task.
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
