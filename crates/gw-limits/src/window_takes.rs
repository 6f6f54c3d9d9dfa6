//! The requests that the sliding windows of rules have counted, remembered until they are taken back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::subject::State;

/// How long a request is remembered. It has left every window by then.
const REMEMBERED: Duration = Duration::from_secs(61);

/// A request that the window of a rule has counted.
#[derive(Debug)]
pub(crate) struct WindowTake {
    /// The state of the rule.
    pub(crate) state: Arc<State>,
    pub(crate) bucket: TakenBucket,
}

impl WindowTake {
    /// Takes the request back, if the window of this process counts it.
    pub(crate) fn give_back_here(&self) {
        if let TakenBucket::Here(moment) = self.bucket {
            self.state.request_window.give_back(moment);
        }
    }
}

/// The bucket that counts a request, by a moment of it in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TakenBucket {
    /// In the window of this process.
    Here(f64),
    /// In the window that Redis holds.
    Redis(f64),
}

/// The buckets that count the requests of one subject, by request. A rule's subject lives as long as a request does, so this holds
/// one entry in most cases. A subject that lives longer holds as many as it admits in a minute.
#[derive(Debug, Default)]
pub(crate) struct WindowTakes(Mutex<VecDeque<RememberedTake>>);

#[derive(Debug)]
struct RememberedTake {
    request_id: Box<str>,
    bucket: TakenBucket,
    since: Instant,
}

impl WindowTakes {
    /// Remembers the bucket that counts a request.
    pub(crate) fn add(&self, request_id: &str, bucket: TakenBucket) {
        let (takes, since) = (&mut *self.0.lock(), Instant::now());
        let is_old = |take: &&RememberedTake| since.duration_since(take.since) > REMEMBERED;
        while takes.front().filter(is_old).is_some() {
            takes.pop_front();
        }
        takes.push_back(RememberedTake { request_id: request_id.into(), bucket, since });
    }

    /// The bucket that counts a request. It is given back once, so it is forgotten. None: no window counts the request.
    pub(crate) fn remove(&self, request_id: &str) -> Option<TakenBucket> {
        let takes = &mut *self.0.lock();
        let index = takes.iter().rposition(|take| *take.request_id == *request_id)?;
        takes.remove(index).map(|take| take.bucket)
    }
}
