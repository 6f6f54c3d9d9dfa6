//! Admission: how many generation requests a worker starts at one time, and when it refuses more.
//!
//! A worker is one thread. In a *turn* each of its tasks that is ready runs once. [`Admission`] starts so few requests in a
//! turn that the turn stays short; further requests wait in a queue in their order. Requests that have started therefore
//! finish soon. The length of the queue tells how long a new request will wait, and a request that would wait too long is
//! refused at once. Requests that wait for their upstream or their client take no turn, so they are no load.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

/// Tells how long a new request would wait in a queue outside this crate.
pub type LoadSignal = Box<dyn Fn() -> Duration + Send + Sync>;

/// The time that the requests started in one turn should take.
const TURN: Duration = Duration::from_millis(1);
/// The requests that start in a turn even when each is slow. A turn with many refusals is long, and must still spend more
/// time on answers than on refusals.
const MIN_STARTS_PER_TURN: usize = 8;
/// The most requests that start in a turn, even when each is quick.
const MAX_STARTS_PER_TURN: usize = 64;
/// A queue of at most this length is no overload, even when each request is slow.
const MAX_HARMLESS_QUEUE: u32 = 8;
/// A queue that has not been empty for longer than this is no burst any more.
const BURST_DURATION: Duration = Duration::from_millis(100);
/// In a burst a request may wait this many times the limit.
const BURST_WAIT_FACTOR: u32 = 5;
/// A new measurement moves the pace by one part in this many of the difference.
const SMOOTHING: u64 = 8;
/// The time between two warnings that requests are refused.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// The queues outside this crate that requests wait in. They are set once.
#[derive(Default)]
pub(crate) struct LoadSignals(OnceLock<Vec<LoadSignal>>);

impl fmt::Debug for LoadSignals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoadSignals").field(&self.0.get().map(Vec::len)).finish()
    }
}

impl LoadSignals {
    /// Sets the queues. Returns false when they were set before.
    pub(crate) fn set(&self, signals: Vec<LoadSignal>) -> bool {
        self.0.set(signals).is_ok()
    }

    fn longest_wait(&self) -> Duration {
        let signals = self.0.get().into_iter().flatten();
        signals.map(|signal| signal()).max().unwrap_or_default()
    }
}

/// The metrics of an admission queue.
#[derive(Debug)]
pub(crate) struct AdmissionMetrics {
    /// Requests that were refused.
    pub(crate) refused: Counter,
    /// Expected wait of a new request, in seconds.
    pub(crate) wait: Gauge<f64, AtomicU64>,
}

/// The admission queue of one worker.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The longest wait that is not refused. Zero switches admission off: no request waits and none is refused.
    limit: Duration,
    signals: Arc<LoadSignals>,
    metrics: AdmissionMetrics,
    /// The requests that may still start in this turn.
    permits: Semaphore,
    waiting: AtomicU32,
    /// Nanoseconds between two starts while the worker is busy.
    pace: AtomicU64,
    /// The time at which the queue was last empty, in nanoseconds since `origin`.
    queued_since: AtomicU64,
    /// The time of the last warning, in nanoseconds since `origin`; 0 = no warning yet.
    warned_at: AtomicU64,
    origin: Instant,
    /// Notified when a request starts or waits.
    activity: Notify,
}

/// The worker is overloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overloaded;

impl Admission {
    pub(crate) fn new(limit: Duration, signals: Arc<LoadSignals>, metrics: AdmissionMetrics) -> Self {
        Self {
            limit,
            signals,
            metrics,
            permits: Semaphore::new(MAX_STARTS_PER_TURN),
            waiting: AtomicU32::new(0),
            pace: AtomicU64::new(0),
            queued_since: AtomicU64::new(0),
            warned_at: AtomicU64::new(0),
            origin: Instant::now(),
            activity: Notify::new(),
        }
    }

    /// Waits until a request may start, or refuses it at once because it would wait too long.
    pub(crate) async fn admit(&self) -> Result<(), Overloaded> {
        if self.limit.is_zero() {
            return Ok(());
        }
        if self.is_overloaded() {
            self.count_refusal();
            return Err(Overloaded);
        }
        if let Ok(permit) = self.permits.try_acquire() {
            permit.forget();
            self.activity.notify_one();
            return Ok(());
        }
        let _waiting = self.enqueue();
        self.activity.notify_one();
        // The semaphore is never closed.
        if let Ok(permit) = self.permits.acquire().await {
            permit.forget();
        }
        Ok(())
    }

    /// Whether a new request is refused now.
    pub(crate) fn is_overloaded(&self) -> bool {
        if self.limit.is_zero() {
            return false;
        }
        let burst = self.limit * BURST_WAIT_FACTOR;
        if self.signals.longest_wait() > burst {
            return true;
        }
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting <= MAX_HARMLESS_QUEUE {
            return false;
        }
        let is_standing =
            self.now().saturating_sub(self.queued_since.load(Ordering::Relaxed)) > nanos(BURST_DURATION);
        self.expected_wait(waiting) > if is_standing { self.limit } else { burst }
    }

    /// Counts a refused request, and logs a warning now and then.
    pub(crate) fn count_refusal(&self) {
        let refused = self.metrics.refused.inc() + 1;
        let now = self.now();
        let warned = self.warned_at.load(Ordering::Relaxed);
        if warned == 0 || now.saturating_sub(warned) > nanos(WARN_EVERY) {
            self.warned_at.store(now.max(1), Ordering::Relaxed);
            let waiting = self.waiting.load(Ordering::Relaxed);
            let wait_ms = self.expected_wait(waiting).as_millis();
            tracing::warn!(refused, waiting, wait_ms, "overloaded: new generation requests get 503");
        }
    }

    /// Starts requests turn by turn. Runs on the worker for as long as the worker runs.
    pub(crate) async fn run(&self) {
        loop {
            self.activity.notified().await;
            let mut since = self.now();
            loop {
                // `yield_now` also polls the sockets, a system call that an empty queue is not worth.
                if self.waiting.load(Ordering::Relaxed) == 0 {
                    run_ready_tasks().await
                } else {
                    yield_now().await
                }
                let now = self.now();
                if !self.begin_turn(now.saturating_sub(since)) {
                    break;
                }
                since = now;
            }
        }
    }

    /// Begins the next turn, after one that took `elapsed_ns`. Returns whether requests wait.
    fn begin_turn(&self, elapsed_ns: u64) -> bool {
        let pace = self.pace.load(Ordering::Relaxed);
        let left = self.permits.available_permits();
        let taken = u64::try_from(starts_per_turn(pace).saturating_sub(left)).unwrap_or(0).max(1);
        let pace = pace - pace / SMOOTHING + elapsed_ns / taken / SMOOTHING;
        self.pace.store(pace, Ordering::Relaxed);
        let target = starts_per_turn(pace);
        if left < target {
            self.permits.add_permits(target - left);
        } else {
            self.permits.forget_permits(left - target);
        }
        let waiting = self.waiting.load(Ordering::Relaxed);
        self.metrics.wait.set(self.expected_wait(waiting).as_secs_f64());
        waiting > 0
    }

    fn expected_wait(&self, waiting: u32) -> Duration {
        Duration::from_nanos(self.pace.load(Ordering::Relaxed).saturating_mul(u64::from(waiting)))
    }

    fn enqueue(&self) -> Waiting<'_> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) == 0 {
            self.queued_since.store(self.now(), Ordering::Relaxed);
        }
        Waiting(self)
    }

    /// Nanoseconds since `origin`.
    fn now(&self) -> u64 {
        nanos(self.origin.elapsed())
    }
}

/// A request in the queue. It leaves the queue when this is dropped.
struct Waiting<'a>(&'a Admission);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number of requests that may start in a turn at this pace, in nanoseconds per request.
fn starts_per_turn(pace: u64) -> usize {
    let fitting = nanos(TURN).checked_div(pace).and_then(|fitting| usize::try_from(fitting).ok());
    fitting.unwrap_or(MAX_STARTS_PER_TURN).clamp(MIN_STARTS_PER_TURN, MAX_STARTS_PER_TURN)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Waits until every task that is ready now has run.
async fn run_ready_tasks() {
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
