//! Admission: in which order a busy worker starts generation requests, and when it refuses one.
//!
//! A worker is one thread, and its tasks run in the order in which they became ready. While that run queue is short, a
//! request starts at once: it costs a counter and a comparison. When many requests become ready together, the rest of them
//! waits in a queue for each key ([`FairQueue`]). One task starts them in turns of about a millisecond of CPU time, so that
//! the run queue stays short and the wait is here, where keys take turns.
//!
//! Nothing is forecast. A request is refused when it has really waited longer than the limit, and refusals have a budget
//! of CPU time ([`RefusalBudget`]). Requests beyond that budget are held. Where more wait than a worker should hold, the newest
//! of the key with most waiting requests are refused, from the same budget, so that one key cannot take the places of others. A held request keeps its connection, which sends
//! no further request meanwhile, and new connections stay in the kernel. So refusals cannot take the worker's time, and
//! cannot become the reason of further refusals. A request that waits for its upstream or its client is in no queue.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::task::yield_now;

use fair_queue::{FairQueue, Stage, Verdict, WaitingRequest};
use intake::Intake;
pub(crate) use meter::Meter;
use meter::thread_time;
use refusal_budget::RefusalBudget;

mod fair_queue;
mod intake;
mod meter;
mod refusal_budget;

/// The CPU time of the requests that one turn starts.
const TURN: Duration = Duration::from_millis(1);
/// The most requests that start without a queue before the worker's run queue is empty again.
const MAX_FREE_STARTS: u32 = 32;
/// So many of them start however long they take. A queue for fewer would cost more than it saves.
const MIN_FREE_STARTS: u32 = 8;
/// The longest time in which the others start. Heavy requests use it up soon.
const FREE_TIME: Duration = Duration::from_millis(4);
/// The time between two looks at the ages of the waiting requests.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// With more waiting requests a worker refuses, whatever their age. Only one HTTP/1 request of a connection waits, so HTTP/2
/// alone reaches this.
const MAX_WAITING: usize = 65_536;
/// With more of them it refuses beyond the budget, because each takes memory.
const MAX_HELD: usize = 2 * MAX_WAITING;
/// The CPU time of one request in this many is measured.
const METERED_SHARE: u32 = 8;
/// The time between two warnings that requests are refused.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// The metrics of an admission queue.
#[derive(Debug)]
pub(crate) struct AdmissionMetrics {
    /// Requests that were refused.
    pub(crate) refused: Counter,
    /// The age of the oldest waiting request, in seconds.
    pub(crate) wait: Gauge<f64, AtomicU64>,
}

/// The part that the admission queues of all workers share.
#[derive(Debug, Default)]
pub(crate) struct SharedAdmission {
    /// Tests stop all starts with this.
    pub(crate) is_held: AtomicBool,
    /// The requests that wait for their start on any worker.
    pub(crate) waiting: AtomicI64,
}

/// The admission queue of one worker. Only the worker's own thread uses it, so its locks never wait.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The longest wait that is not refused. Zero: nothing is refused.
    limit: Duration,
    shared: Arc<SharedAdmission>,
    metrics: AdmissionMetrics,
    /// Counts how often the worker's run queue was empty.
    runtime: OnceLock<RuntimeMetrics>,
    free: FreeStarts,
    /// Requests wait, or have waited in this turn.
    is_queueing: AtomicBool,
    /// The number of turns that [`Admission::run`] has begun.
    turns: AtomicU64,
    queue: Mutex<FairQueue>,
    /// Notified when a request begins to wait.
    work: tokio::sync::Notify,
    intake: Intake,
    /// The time of the last warning, in nanoseconds since `origin`; 0 = no warning yet.
    warned_at: AtomicU64,
    origin: Instant,
}

/// The starts since the worker's run queue was last empty.
#[derive(Debug)]
struct FreeStarts {
    /// How often the run queue had been empty at the first of them.
    parks: AtomicU64,
    /// The time of the first of them, in nanoseconds since the origin.
    began: AtomicU64,
    count: AtomicU32,
}

/// The request has waited too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overloaded;

impl Admission {
    pub(crate) fn new(limit: Duration, shared: Arc<SharedAdmission>, metrics: AdmissionMetrics) -> Self {
        Self {
            limit,
            shared,
            metrics,
            runtime: OnceLock::new(),
            free: FreeStarts {
                parks: AtomicU64::new(u64::MAX),
                began: AtomicU64::new(0),
                count: AtomicU32::new(0),
            },
            is_queueing: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            queue: Mutex::default(),
            work: tokio::sync::Notify::new(),
            intake: Intake::default(),
            warned_at: AtomicU64::new(0),
            origin: Instant::now(),
        }
    }

    /// Whether a request may start without waiting. `now` may be the time at which its head was read.
    pub(crate) fn is_free(&self, now: Instant) -> bool {
        if self.is_queueing.load(Ordering::Relaxed) || self.shared.is_held.load(Ordering::Relaxed) {
            return false;
        }
        let (parks, now) = (self.parks(), self.since_origin(now));
        if parks != self.free.parks.load(Ordering::Relaxed) {
            self.free.parks.store(parks, Ordering::Relaxed);
            self.free.began.store(now, Ordering::Relaxed);
            self.free.count.store(1, Ordering::Relaxed);
            return true;
        }
        let count = self.free.count.load(Ordering::Relaxed);
        let elapsed = now.saturating_sub(self.free.began.load(Ordering::Relaxed));
        if count >= MAX_FREE_STARTS || (count >= MIN_FREE_STARTS && elapsed > nanos(FREE_TIME)) {
            return false;
        }
        self.free.count.store(count + 1, Ordering::Relaxed);
        true
    }

    /// A number that changes when other tasks have run: what was ready before it changed has had its turn.
    pub(crate) fn moment(&self) -> u64 {
        self.parks().wrapping_add(self.turns.load(Ordering::Relaxed))
    }

    /// Waits until a request of this key may start. Its head was read at `since`.
    pub(crate) async fn wait(
        self: &Arc<Self>,
        key: &Arc<str>,
        since: Instant,
    ) -> Result<Option<Box<Meter>>, Overloaded> {
        let beyond = self.queue.lock().take_beyond(MAX_HELD, 1);
        self.refuse(beyond, Duration::ZERO);
        match self.queued(key, Stage::New, since).await {
            Verdict::Refused => Err(Overloaded),
            Verdict::Started { is_metered: false } => Ok(None),
            Verdict::Started { is_metered: true } => Ok(Some(Box::new(Meter::new(self, key)))),
        }
    }

    /// Waits until a request whose body came later than its start may go on. It is never refused.
    pub(crate) async fn wait_again(&self, key: &Arc<str>) {
        self.queued(key, Stage::Continued, Instant::now()).await;
    }

    async fn queued(&self, key: &Arc<str>, stage: Stage, since: Instant) -> Verdict {
        let (id, verdict) = self.queue.lock().push(key, stage, since);
        // A request that goes on holds its body and its permits.
        let is_new = stage == Stage::New;
        self.shared.waiting.fetch_add(i64::from(is_new), Ordering::Relaxed);
        self.is_queueing.store(true, Ordering::Relaxed);
        self.work.notify_one();
        let _entry = QueueEntry { admission: self, key, id, is_new };
        verdict.await.unwrap_or(Verdict::Refused)
    }

    /// Waits while the worker refuses requests and has not finished one for each connection that it accepts.
    pub(crate) async fn may_accept(&self) {
        self.intake.may_accept().await;
    }

    /// Starts and refuses waiting requests, turn by turn. Runs on the worker for as long as the worker runs.
    pub(crate) async fn run(&self) {
        let _ = self.runtime.set(Handle::current().metrics());
        let mut budget = RefusalBudget::default();
        let mut looked = self.origin;
        loop {
            self.work.notified().await;
            let mut cpu = thread_time();
            while self.queue.lock().len() > 0 {
                self.turns.store(self.turns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
                let started = self.start_turn();
                self.intake.finished(started);
                // Every task that is ready runs, and the sockets are polled.
                yield_now().await;
                let now = thread_time();
                budget.earn(now.saturating_sub(cpu));
                cpu = now;
                let time = Instant::now();
                if time.saturating_duration_since(looked) >= LOOK_INTERVAL {
                    looked = time;
                    cpu = self.look(time, &mut budget, cpu).await;
                }
                if started == 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            self.is_queueing.store(false, Ordering::Relaxed);
            // All that was ready has run, so the next request is the first of its turn.
            self.free.parks.store(u64::MAX, Ordering::Relaxed);
            self.intake.set_refusing(false);
            self.metrics.wait.set(0.0);
        }
    }

    /// Starts the requests whose turn it is. Returns their number.
    fn start_turn(&self) -> usize {
        if self.shared.is_held.load(Ordering::Relaxed) {
            return 0;
        }
        self.queue.lock().start(TURN)
    }

    /// Looks at the ages and the number of the waiting requests, and refuses those that are too old or too many, as far as the
    /// budget allows. Returns the worker's CPU time.
    async fn look(&self, now: Instant, budget: &mut RefusalBudget, cpu: Duration) -> Duration {
        let age_of = |at: Option<Instant>| at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let (oldest, age, len) = {
            let queue = self.queue.lock();
            (age_of(queue.oldest()), age_of(queue.oldest_new()), queue.len())
        };
        self.metrics.wait.set(oldest.as_secs_f64());
        let is_late = !self.limit.is_zero() && age > self.limit;
        let is_refusing = is_late || len > MAX_WAITING;
        self.intake.set_refusing(is_refusing);
        if !is_refusing {
            return cpu;
        }
        let refused =
            self.take_refused(is_late.then(|| now.checked_sub(self.limit)).flatten(), budget.allowed());
        let count = refused.len();
        self.intake.finished(count.max(1));
        if count == 0 {
            return cpu;
        }
        self.refuse(refused, age);
        // The refused requests are the tasks that are ready now, so this time is theirs.
        run_ready_tasks().await;
        let after = thread_time();
        budget.spend(count, after.saturating_sub(cpu));
        after
    }

    /// Takes up to `most` requests to refuse: those that wait since before `since`, then those beyond the bound.
    fn take_refused(&self, since: Option<Instant>, most: usize) -> Vec<WaitingRequest> {
        let mut queue = self.queue.lock();
        let mut refused = since.map_or_else(Vec::new, |since| queue.take_older(since, most));
        refused.extend(queue.take_beyond(MAX_WAITING, most - refused.len()));
        refused
    }

    fn refuse(&self, requests: Vec<WaitingRequest>, age: Duration) {
        for request in requests {
            self.count_refusal(age);
            request.decide(Verdict::Refused);
        }
    }

    /// Notes the CPU time of a request.
    fn learn(&self, key: &Arc<str>, cpu: Duration) {
        self.queue.lock().learn(key, cpu);
    }

    /// Notes the CPU time that a request has used so far.
    fn learn_at_least(&self, key: &Arc<str>, cpu: Duration) {
        self.queue.lock().learn_at_least(key, cpu);
    }

    /// Counts a refused request, and logs a warning now and then.
    fn count_refusal(&self, age: Duration) {
        let refused = self.metrics.refused.inc() + 1;
        let now = self.since_origin(Instant::now());
        let warned = self.warned_at.load(Ordering::Relaxed);
        if warned == 0 || now.saturating_sub(warned) > nanos(WARN_EVERY) {
            self.warned_at.store(now.max(1), Ordering::Relaxed);
            let (waiting, wait_ms) = (self.queue.lock().len(), age.as_millis());
            tracing::warn!(
                refused,
                waiting,
                wait_ms,
                "overloaded: generation requests that waited too long get 503"
            );
        }
    }

    /// How often the worker's run queue has been empty.
    fn parks(&self) -> u64 {
        self.runtime.get().map_or(0, |runtime| runtime.worker_park_count(0))
    }

    /// Nanoseconds from `origin` to `time`.
    fn since_origin(&self, time: Instant) -> u64 {
        nanos(time.saturating_duration_since(self.origin))
    }
}

/// The place of a request in the queue. It leaves the queue when this is dropped.
struct QueueEntry<'a> {
    admission: &'a Admission,
    key: &'a Arc<str>,
    id: u64,
    is_new: bool,
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        self.admission.queue.lock().remove(self.key, self.id);
        self.admission.shared.waiting.fetch_sub(i64::from(self.is_new), Ordering::Relaxed);
    }
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
