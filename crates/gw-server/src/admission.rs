//! Admission: how many generation requests a worker begins at one time, and when it refuses more.
//!
//! A worker is one thread. A *turn* is the time in which each of its tasks that is ready runs once. A [`Gate`] lets so
//! many requests begin in a turn that the turn stays short; the others wait in their order. So requests that have begun
//! finish soon, however many arrive, and the queue is in one place, where its length tells how long a new request will
//! wait. A request that would wait too long is refused at once. Requests that wait for their upstream or for their
//! client need no turn: they are no load, however many they are.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

/// How long a new request would wait in a queue outside this crate.
pub type LoadSignal = Box<dyn Fn() -> Duration + Send + Sync>;

/// The begun requests of a turn should keep the worker busy for so long.
const TURN: Duration = Duration::from_millis(1);
/// Requests that may begin in one turn, however slow they are. A turn in which much is refused is long, and must still hold
/// more work on answers than on refusals.
const FEWEST_IN_A_TURN: usize = 8;
/// Requests that may begin in one turn, however quick they are.
const MOST_IN_A_TURN: usize = 64;
/// A queue that is not longer is no overload, however slow the requests are.
const SHORT_QUEUE: u32 = 8;
/// A queue that has not been empty for so long is more than a burst.
const STANDING: Duration = Duration::from_millis(100);
/// Within a burst a request may wait so many times longer.
const BURST: u32 = 5;
/// The pace follows a new measurement by this part of the difference.
const SMOOTHING: u64 = 8;
/// How often the log says that requests are refused.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// Queues outside this crate that requests wait in, set once.
#[derive(Default)]
pub(crate) struct Signals(OnceLock<Vec<LoadSignal>>);

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signals").field(&self.0.get().map(Vec::len)).finish()
    }
}

impl Signals {
    /// False: they were set before.
    pub(crate) fn set(&self, signals: Vec<LoadSignal>) -> bool {
        self.0.set(signals).is_ok()
    }

    fn longest(&self) -> Duration {
        let signals = self.0.get().into_iter().flatten();
        signals.map(|signal| signal()).max().unwrap_or_default()
    }
}

/// What a gate reports to.
#[derive(Debug)]
pub(crate) struct Reports {
    /// Requests that were refused.
    pub(crate) refused: Counter,
    /// Seconds that a new request would wait.
    pub(crate) wait: Gauge<f64, AtomicU64>,
}

/// The gate of one worker.
#[derive(Debug)]
pub(crate) struct Gate {
    /// A request that would wait longer is refused. Zero: nothing waits, nothing is refused.
    limit: Duration,
    signals: Arc<Signals>,
    reports: Reports,
    /// What may still begin in this turn.
    places: Semaphore,
    waiting: AtomicU32,
    /// Nanoseconds between two requests that begin, while the worker is busy.
    pace: AtomicU64,
    /// When the queue began, in nanoseconds since `origin`.
    queued_since: AtomicU64,
    /// When the log said that requests are refused, in nanoseconds since `origin`; 0 = never.
    warned_at: AtomicU64,
    origin: Instant,
    /// Something has begun, or waits.
    turning: Notify,
}

/// The worker has more to do than it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overloaded;

impl Gate {
    pub(crate) fn new(limit: Duration, signals: Arc<Signals>, reports: Reports) -> Self {
        Self {
            limit,
            signals,
            reports,
            places: Semaphore::new(MOST_IN_A_TURN),
            waiting: AtomicU32::new(0),
            pace: AtomicU64::new(0),
            queued_since: AtomicU64::new(0),
            warned_at: AtomicU64::new(0),
            origin: Instant::now(),
            turning: Notify::new(),
        }
    }

    /// Waits until a request may begin; or says at once that it would wait too long.
    pub(crate) async fn enter(&self) -> Result<(), Overloaded> {
        if self.limit.is_zero() {
            return Ok(());
        }
        if self.is_overloaded() {
            self.count_refusal();
            return Err(Overloaded);
        }
        if let Ok(place) = self.places.try_acquire() {
            place.forget();
            self.turning.notify_one();
            return Ok(());
        }
        let _waiting = self.wait();
        self.turning.notify_one();
        // The semaphore is never closed.
        if let Ok(place) = self.places.acquire().await {
            place.forget();
        }
        Ok(())
    }

    /// Whether a request that comes now is refused.
    pub(crate) fn is_overloaded(&self) -> bool {
        if self.limit.is_zero() {
            return false;
        }
        let burst = self.limit * BURST;
        if self.signals.longest() > burst {
            return true;
        }
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting <= SHORT_QUEUE {
            return false;
        }
        let is_standing =
            self.now().saturating_sub(self.queued_since.load(Ordering::Relaxed)) > nanos(STANDING);
        self.expected_wait(waiting) > if is_standing { self.limit } else { burst }
    }

    /// Counts a request that was refused, and says now and then in the log that requests are.
    pub(crate) fn count_refusal(&self) {
        let refused = self.reports.refused.inc() + 1;
        let now = self.now();
        let warned = self.warned_at.load(Ordering::Relaxed);
        if warned == 0 || now.saturating_sub(warned) > nanos(WARN_EVERY) {
            self.warned_at.store(now.max(1), Ordering::Relaxed);
            let waiting = self.waiting.load(Ordering::Relaxed);
            let wait_ms = self.expected_wait(waiting).as_millis();
            tracing::warn!(refused, waiting, wait_ms, "overloaded: new requests are answered with 503");
        }
    }

    /// Gives places out turn by turn; runs on the gate's worker as long as it does.
    pub(crate) async fn turn(&self) {
        loop {
            self.turning.notified().await;
            let mut since = self.now();
            loop {
                // With nobody waiting, a look at the sockets in between would cost a system call for nothing.
                if self.waiting.load(Ordering::Relaxed) == 0 {
                    once_around().await
                } else {
                    yield_now().await
                }
                let now = self.now();
                if !self.refill(now.saturating_sub(since)) {
                    break;
                }
                since = now;
            }
        }
    }

    /// Begins the next turn after one that lasted so many nanoseconds. False: nobody waits.
    fn refill(&self, lasted: u64) -> bool {
        let pace = self.pace.load(Ordering::Relaxed);
        let left = self.places.available_permits();
        let taken = u64::try_from(places(pace).saturating_sub(left)).unwrap_or(0).max(1);
        let pace = pace - pace / SMOOTHING + lasted / taken / SMOOTHING;
        self.pace.store(pace, Ordering::Relaxed);
        let target = places(pace);
        if left < target {
            self.places.add_permits(target - left);
        } else {
            self.places.forget_permits(left - target);
        }
        let waiting = self.waiting.load(Ordering::Relaxed);
        self.reports.wait.set(self.expected_wait(waiting).as_secs_f64());
        waiting > 0
    }

    fn expected_wait(&self, waiting: u32) -> Duration {
        Duration::from_nanos(self.pace.load(Ordering::Relaxed).saturating_mul(u64::from(waiting)))
    }

    fn wait(&self) -> Waiting<'_> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) == 0 {
            self.queued_since.store(self.now(), Ordering::Relaxed);
        }
        Waiting(self)
    }

    fn now(&self) -> u64 {
        nanos(self.origin.elapsed())
    }
}

/// A request in the queue, until dropped.
struct Waiting<'a>(&'a Gate);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many requests may begin in a turn at this pace.
fn places(pace: u64) -> usize {
    let fitting = nanos(TURN).checked_div(pace).and_then(|fitting| usize::try_from(fitting).ok());
    fitting.unwrap_or(MOST_IN_A_TURN).clamp(FEWEST_IN_A_TURN, MOST_IN_A_TURN)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Until all tasks that are ready now have run.
async fn once_around() {
    let mut is_over = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut is_over, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
