//! CPU-heavy steps of a request run on threads of their own.
//!
//! A worker thread serves many connections, so a step that computes for longer than about a millisecond makes all of them wait.
//! A step marks itself with [`offload`]. A request's future is wrapped once with [`CpuPool::host`]; the wrapper has a thread of
//! the pool poll it for exactly those steps. Sockets and timers stay with the worker. Nothing is copied and no step has to
//! own its data, because the whole future moves.
//!
//! While a step waits for a thread, the worker still polls the future: its clocks run, and dropping it frees all that it
//! holds. A poll in the pool runs one step. So a request that is dropped while its step runs ends after this step: a step is
//! bounded by the limits on a request's size and structure ([`gw_wire::request`]).
//!
//! Tenants take turns: the steps of one wait for its own, and for one step of each other tenant.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use memchr::{memchr2, memmem};
use prometheus_client::registry::Registry;
use queue::Queue;
use rand::Rng;
use slot::{Slot, Taken};

mod queue;
mod slot;

/// How much a pool thread gives way to the workers: a worker that has something to do runs first.
const NICE: i32 = 5;
/// A body up to this size takes less than a millisecond to read, unless the schemas in it refer to one another.
pub const LIGHT_BYTES: usize = 16 << 10;
/// A body from this size on always leaves the worker.
pub(crate) const HEAVY_BYTES: usize = 512 << 10;
/// JSON values in a body between the two that take about a millisecond to read.
const HEAVY_VALUES: usize = 4_000;

/// Threads for steps that compute, as one tenant sees them. Cheap to clone; without threads, every step runs in place.
#[derive(Clone, Debug, Default)]
pub struct CpuPool {
    threads: Option<Arc<Threads>>,
    tenant: Option<Arc<str>>,
}

/// The threads end when the last handle drops.
#[derive(Debug)]
struct Threads {
    queue: Arc<Queue>,
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl CpuPool {
    /// A pool of so many threads, which start at once.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn new(threads: usize) -> io::Result<Self> {
        let started = Threads { queue: Arc::default() };
        for _ in 0..threads.max(1) {
            let queue = Arc::clone(&started.queue);
            let work = move || {
                give_way();
                while let Some(step) = queue.next() {
                    // A panic of a step is its request's. This one comes from dropping a request that nobody waits for.
                    let _ = catch_unwind(AssertUnwindSafe(|| step.run()));
                }
            };
            std::thread::Builder::new().name("cpu-pool".to_owned()).spawn(work)?;
        }
        Ok(Self { threads: Some(Arc::new(started)), tenant: None })
    }

    /// The pool for the steps of a tenant.
    #[must_use]
    pub fn of(&self, tenant: &Arc<str>) -> Self {
        Self { threads: self.threads.clone(), tenant: Some(Arc::clone(tenant)) }
    }

    /// Adds the pool's metrics; nothing without threads.
    pub fn register(&self, registry: &mut Registry) {
        if let Some(threads) = &self.threads {
            threads.queue.register(registry);
        }
    }

    /// How long the oldest step of this tenant has waited for a thread.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        let Some(threads) = &self.threads else { return Duration::ZERO };
        threads.queue.lateness(self.tenant.as_ref())
    }

    /// Runs a future whose [`offload`] steps move to this pool.
    pub fn host<F>(&self, future: F) -> Hosted<F>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Hosted { state: HostState::Here(Box::pin(future), WaitingParts::default()), pool: self.clone() }
    }
}

/// Lets the workers run first when there are fewer cores than threads.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE) {
        tracing::debug!(%error, "a thread of the CPU pool keeps the priority of the workers");
    }
}

/// The shortest body whose references can multiply into more than a millisecond's work.
const SHORTEST_MULTIPLYING: usize = 512;

/// Whether a step over these bytes of JSON may take longer than a millisecond. The number of values decides, not the size: a
/// long text is read in no time. It is estimated from samples across the body, whose places no client can know. References in
/// schemas decide, too, because what they refer to may be copied.
#[must_use]
pub fn is_heavy(json: &[u8]) -> bool {
    const WINDOW: usize = 64;
    const WINDOWS: usize = 64;
    if json.len() >= HEAVY_BYTES {
        return true;
    }
    if json.len() > LIGHT_BYTES {
        let stride = json.len() / WINDOWS;
        let place = rand::rng().random_range(0..=stride.saturating_sub(WINDOW));
        let windows = json.chunks(stride).filter_map(|chunk| chunk.get(place..place + WINDOW));
        let is_structure = |byte: &&u8| matches!(byte, b',' | b':' | b'[' | b'{' | b'\\');
        let seen: usize = windows.map(|window| window.iter().filter(is_structure).count()).sum();
        return seen * stride / WINDOW >= HEAVY_VALUES;
    }
    // A name may be spelled with escapes.
    json.len() > SHORTEST_MULTIPLYING
        && memchr2(b'$', b'\\', json).is_some()
        && (memmem::find(json, b"$ref").is_some() || memmem::find(json, b"\\u").is_some())
}

/// Runs a step on the CPU pool; in place where the future is not hosted by one.
pub async fn offload<T>(step: impl FnOnce() -> T) -> T {
    seated(Seat::Pool).await;
    let done = step();
    // A request that was dropped meanwhile ends here, before it does anything with the result.
    seated(Seat::Worker).await;
    done
}

/// As [`offload`] when the step is heavy, else in place.
pub async fn offload_if<T>(is_heavy: bool, step: impl FnOnce() -> T) -> T {
    if is_heavy { offload(step).await } else { step() }
}

/// Where a hosted future is being polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    Worker,
    Pool,
}

/// The parts of a hosted future that wait to be polled at a seat.
#[derive(Debug, Default)]
struct WaitingParts {
    pool: Vec<Waker>,
    worker: Vec<Waker>,
}

impl WaitingParts {
    fn at(&mut self, seat: Seat) -> &mut Vec<Waker> {
        match seat {
            Seat::Pool => &mut self.pool,
            Seat::Worker => &mut self.worker,
        }
    }

    fn add(&mut self, seat: Seat, waker: &Waker) {
        let wakers = self.at(seat);
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }
}

/// One poll of a hosted future.
#[derive(Debug)]
struct Hosting {
    seat: Seat,
    waiting: WaitingParts,
    /// A step has run in this poll.
    has_stepped: bool,
}

thread_local! {
    /// Set while a hosted future is polled on this thread.
    static HOSTING: RefCell<Option<Hosting>> = const { RefCell::new(None) };
}

/// Waits until the future is polled there. At once when nobody hosts it. In the pool, one caller a poll goes on.
async fn seated(seat: Seat) {
    poll_fn(|cx| {
        HOSTING.with_borrow_mut(|hosting| {
            let Some(hosting) = hosting else { return Poll::Ready(()) };
            if hosting.seat != seat || (seat == Seat::Pool && hosting.has_stepped) {
                hosting.waiting.add(seat, cx.waker());
                return Poll::Pending;
            }
            hosting.has_stepped = seat == Seat::Pool;
            Poll::Ready(())
        })
    })
    .await;
}

/// Puts back what was there before, also when the poll panics.
struct Restore(Option<Hosting>);

impl Drop for Restore {
    fn drop(&mut self) {
        HOSTING.set(self.0.take());
    }
}

/// Polls a hosted future with its parts that wait for this seat woken.
fn poll_seated<F: Future>(
    future: Pin<&mut F>,
    cx: &mut Context<'_>,
    seat: Seat,
    mut waiting: WaitingParts,
) -> (Poll<F::Output>, WaitingParts) {
    let mut outer = Restore(HOSTING.take());
    // Inside a host that is in the pool already, this one is, too.
    let in_pool = outer.0.as_mut().filter(|outer| outer.seat == Seat::Pool);
    let seat = if in_pool.is_some() { Seat::Pool } else { seat };
    let has_stepped = in_pool.as_ref().is_some_and(|outer| outer.has_stepped);
    waiting.at(seat).drain(..).for_each(Waker::wake);
    HOSTING.set(Some(Hosting { seat, waiting, has_stepped }));
    let polled = future.poll(cx);
    let Some(inner) = HOSTING.take() else { return (polled, WaitingParts::default()) };
    if let Some(outer) = in_pool {
        outer.has_stepped = inner.has_stepped;
        if !inner.waiting.worker.is_empty() {
            outer.waiting.add(Seat::Worker, cx.waker());
        }
    }
    (polled, inner.waiting)
}

enum HostState<F: Future> {
    Here(Pin<Box<F>>, WaitingParts),
    /// A step waits for a thread, or runs.
    There(Arc<Slot<F>>),
    Over,
}

/// A future whose [`offload`] steps run in a [`CpuPool`]. Dropping it drops the future: at once, or when the step that runs
/// is done.
pub struct Hosted<F: Future> {
    state: HostState<F>,
    pool: CpuPool,
}

impl<F: Future> std::fmt::Debug for Hosted<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosted")
            .field("is_there", &matches!(self.state, HostState::There(_)))
            .finish_non_exhaustive()
    }
}

impl<F: Future> Drop for Hosted<F> {
    fn drop(&mut self) {
        if let HostState::There(slot) = &self.state {
            drop(slot.leave());
        }
    }
}

impl<F> Future for Hosted<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        loop {
            match std::mem::replace(&mut this.state, HostState::Over) {
                HostState::Here(mut future, waiting) => {
                    let Some(threads) = &this.pool.threads else {
                        let polled = future.as_mut().poll(cx);
                        if polled.is_pending() {
                            this.state = HostState::Here(future, waiting);
                        }
                        return polled;
                    };
                    let (polled, waiting) = poll_seated(future.as_mut(), cx, Seat::Worker, waiting);
                    if polled.is_ready() {
                        return polled;
                    }
                    if waiting.pool.is_empty() {
                        this.state = HostState::Here(future, waiting);
                        return Poll::Pending;
                    }
                    let slot = Arc::new(Slot::new(future, waiting, cx.waker().clone()));
                    threads.queue.push(this.pool.tenant.as_ref(), Arc::clone(&slot) as Arc<dyn queue::Step>);
                    this.state = HostState::There(slot);
                    return Poll::Pending;
                }
                HostState::There(slot) => match slot.poll(cx) {
                    Taken::Output(output) => return Poll::Ready(output),
                    // A wake-up meant for it may have come while it was away: it is polled at once.
                    Taken::Future(future, waiting) => this.state = HostState::Here(future, waiting),
                    Taken::Nothing => {
                        this.state = HostState::There(slot);
                        return Poll::Pending;
                    }
                },
                HostState::Over => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests;
