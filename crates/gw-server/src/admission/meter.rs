//! Measures the CPU time that a request takes from its worker.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::Admission;

/// Measures one request. Dropping it reports the CPU time to the admission queue.
#[derive(Debug)]
pub(crate) struct Meter {
    admission: Arc<Admission>,
    key: Arc<str>,
    used: Duration,
    /// The CPU time that the queue knows of already.
    told: Duration,
}

impl Meter {
    pub(super) fn new(admission: &Arc<Admission>, key: &Arc<str>) -> Self {
        Self {
            admission: Arc::clone(admission),
            key: Arc::clone(key),
            used: Duration::ZERO,
            told: Duration::ZERO,
        }
    }

    /// Does a piece of the request's work.
    pub(crate) fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = thread_time();
        let done = work();
        self.used += thread_time().saturating_sub(before);
        done
    }

    /// Does a step of the request's work. When the request begins to wait, the queue is told what it used, each time that this
    /// has doubled: the end may be minutes away, and requests of the same kind may come until then.
    pub(crate) fn poll<T>(&mut self, step: impl FnOnce() -> Poll<T>) -> Poll<T> {
        let polled = self.measure(step);
        if polled.is_pending() && self.used > self.told * 2 {
            self.told = self.used;
            self.admission.learn_at_least(&self.key, self.used);
        }
        polled
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.admission.learn(&self.key, self.used);
    }
}

/// The CPU time of this thread. Time in which other processes had the core does not count.
pub(super) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
