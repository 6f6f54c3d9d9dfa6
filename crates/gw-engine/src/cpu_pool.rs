//! Runs the CPU-heavy steps of requests on threads of their own.
//!
//! A worker thread serves many connections, so a step that computes for more than a millisecond delays all of them. A
//! step marks itself with [`offload`]. [`CpuPool::host`] wraps a request's future once, and has a pool thread poll it
//! for exactly those steps. Sockets and timers stay with the worker. Nothing is copied, and no step must own its data,
//! because the whole future moves.
//!
//! While a step waits for a thread, the worker still polls the future: its timeouts run, and a drop frees all that it
//! holds. One poll in the pool runs one step, so a request that is dropped during a step ends after it. The limits on a
//! request's size and structure bound a step ([`gw_wire::request`]).
//!
//! Tenants take turns: a step waits for the earlier steps of its own tenant and for one step of each other tenant.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use memchr::memchr2_iter;
use prometheus_client::registry::Registry;
use queue::Queue;
use rand::Rng;
use slot::{Slot, Taken};

mod queue;
mod slot;

/// The `nice` value of pool threads: a worker with something to do runs first.
const NICE: i32 = 5;
/// Bodies up to this size are read in less than a millisecond, unless their schemas refer to one another.
pub const LIGHT_BYTES: usize = 16 << 10;
/// Bodies from this size on always use the pool.
pub(crate) const HEAVY_BYTES: usize = 512 << 10;
/// JSON values that take about a millisecond to read.
const HEAVY_VALUES: usize = 4_000;

/// The pool as one tenant uses it. Cheap to clone; without threads, each step runs in place.
#[derive(Clone, Debug, Default)]
pub struct CpuPool {
    threads: Option<Arc<Threads>>,
    tenant: Option<Arc<str>>,
}

/// The threads end when the last handle is dropped.
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
    /// A pool with this many threads, which start at once.
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
                    // A step's panic goes to its request. This one comes from dropping a request without a reader.
                    let _ = catch_unwind(AssertUnwindSafe(|| step.run()));
                }
            };
            std::thread::Builder::new().name("cpu-pool".to_owned()).spawn(work)?;
        }
        Ok(Self { threads: Some(Arc::new(started)), tenant: None })
    }

    /// The pool as a tenant uses it.
    #[must_use]
    pub fn of(&self, tenant: &Arc<str>) -> Self {
        Self { threads: self.threads.clone(), tenant: Some(Arc::clone(tenant)) }
    }

    /// Registers the pool's metrics, if it has threads.
    pub fn register(&self, registry: &mut Registry) {
        if let Some(threads) = &self.threads {
            threads.queue.register(registry);
        }
    }

    /// How long the oldest step of this tenant has waited.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        let Some(threads) = &self.threads else { return Duration::ZERO };
        threads.queue.lateness(self.tenant.as_ref())
    }

    /// Hosts a future: its [`offload`] steps move to this pool.
    pub fn host<F>(&self, future: F) -> Hosted<F>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Hosted { state: HostState::Here(Box::pin(future), WaitingParts::default()), pool: self.clone() }
    }
}

/// Gives the pool threads a lower priority, for machines with fewer cores than threads.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE) {
        tracing::debug!(%error, "a thread of the CPU pool keeps the priority of the workers");
    }
}

/// The smallest body whose references can cost more than a millisecond.
const MIN_MULTIPLYING_BYTES: usize = 512;

/// Whether reading these bytes of JSON may take more than a millisecond. The number of values decides, not the size,
/// because long texts are read quickly. It is estimated from samples at places that no client can predict. References
/// in schemas decide, too, because their targets may be copied.
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
        let windows = json.chunks(stride).filter_map(|chunk| chunk.get(place..)?.first_chunk::<WINDOW>());
        // Without branches and checked additions, so that it compiles to vector instructions. A window has fewer bytes
        // than a `u8` counts.
        let is_structure =
            |byte: u8| (byte == b',') | (byte == b':') | (byte == b'[') | (byte == b'{') | (byte == b'\\');
        let count = |window: &[u8; WINDOW]| {
            window.iter().fold(0_u8, |seen, byte| seen.wrapping_add(u8::from(is_structure(*byte))))
        };
        let seen: usize = windows.map(|window| usize::from(count(window))).sum();
        return seen * stride / WINDOW >= HEAVY_VALUES;
    }
    // Member names may be written with escapes.
    let is_reference = |rest: &[u8]| rest.starts_with(b"$ref") || rest.starts_with(b"\\u");
    json.len() > MIN_MULTIPLYING_BYTES
        && memchr2_iter(b'$', b'\\', json).any(|at| json.get(at..).is_some_and(is_reference))
}

/// As [`is_heavy`], for an answer: nobody follows the references in it.
pub(crate) fn is_heavy_answer(json: &[u8]) -> bool {
    json.len() > LIGHT_BYTES && is_heavy(json)
}

/// Runs a step on the CPU pool, or in place if no pool hosts the future.
pub async fn offload<T>(step: impl FnOnce() -> T) -> T {
    seated(Seat::Pool).await;
    let done = step();
    // A request that was dropped meanwhile ends here, before it uses the result.
    seated(Seat::Worker).await;
    done
}

/// Runs a heavy step with [`offload`], and any other in place.
pub async fn offload_if<T>(is_heavy: bool, step: impl FnOnce() -> T) -> T {
    if is_heavy { offload(step).await } else { step() }
}

/// The thread kind that polls a hosted future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    Worker,
    Pool,
}

/// The parts of a hosted future that wait for a seat.
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
    /// Set while this thread polls a hosted future.
    static HOSTING: RefCell<Option<Hosting>> = const { RefCell::new(None) };
}

/// Waits until the future is polled at this seat; at once if no pool hosts it. In the pool, one caller a poll
/// continues.
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

/// Restores the earlier value, even if the poll panics.
struct Restore(Option<Hosting>);

impl Drop for Restore {
    fn drop(&mut self) {
        HOSTING.set(self.0.take());
    }
}

/// Polls a hosted future, and wakes its parts that wait for this seat.
fn poll_seated<F: Future>(
    future: Pin<&mut F>,
    cx: &mut Context<'_>,
    seat: Seat,
    mut waiting: WaitingParts,
) -> (Poll<F::Output>, WaitingParts) {
    let mut outer = Restore(HOSTING.take());
    // A host inside a host that is in the pool is in the pool, too.
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
    /// A step waits for a thread or runs on one.
    There(Arc<Slot<F>>),
    Over,
}

/// A future whose [`offload`] steps run in a [`CpuPool`]. Dropping it drops the future, after the step that runs.
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
                    // A wake-up may have come while the CPU pool polled the future, so it is polled at once.
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
