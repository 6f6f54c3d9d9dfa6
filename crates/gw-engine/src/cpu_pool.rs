//! CPU-heavy steps of a request run on threads of their own.
//!
//! A worker thread serves many connections, so a step that computes for longer than about a millisecond makes all of them wait.
//! A step marks itself with [`offload`]. A request's future is wrapped once with [`CpuPool::host`]; the wrapper polls it on a
//! thread of the pool for exactly those steps. Sockets and timers stay with the worker. Nothing is copied and no step has to
//! own its data, because the whole future moves.
//!
//! A request that is dropped while its step runs ends after this step: a step is bounded by the limits on a request's size
//! and structure ([`gw_wire::request`]).

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;

/// How much a pool thread gives way to the workers: a worker that has something to do runs first.
const NICE: i32 = 5;
/// A body up to this size never leaves the worker: reading it takes less than a millisecond, whatever it holds.
pub const LIGHT_BYTES: usize = 16 << 10;
/// A body from this size on always does.
const HEAVY_BYTES: usize = 512 << 10;
/// JSON values in a body between the two that take about a millisecond to read.
const HEAVY_VALUES: usize = 4_000;

/// Threads for steps that compute. Cheap to clone; without threads, every step runs in place.
#[derive(Clone, Debug, Default)]
pub struct CpuPool {
    shared: Option<Arc<Shared>>,
}

#[derive(Debug)]
struct Shared {
    /// Only its blocking threads are used. Taken when the last handle drops.
    runtime: Option<Runtime>,
    /// When each step began to wait for a thread; the oldest is in front.
    waiting: Mutex<VecDeque<Instant>>,
    figures: Figures,
}

/// The pool's metrics.
#[derive(Debug)]
struct Figures {
    waiting: Gauge,
    waits: Histogram,
}

impl Default for Figures {
    fn default() -> Self {
        let waits = Histogram::new([0.000_1, 0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0]);
        Self { waiting: Gauge::default(), waits }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl CpuPool {
    /// A pool of so many threads. They start when they are needed.
    ///
    /// # Errors
    /// The system refuses what a runtime needs.
    pub fn new(threads: usize) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .thread_name("cpu-pool")
            .max_blocking_threads(threads.max(1))
            .on_thread_start(give_way)
            .build()?;
        let shared =
            Shared { runtime: Some(runtime), waiting: Mutex::default(), figures: Figures::default() };
        Ok(Self { shared: Some(Arc::new(shared)) })
    }

    /// Adds the pool's metrics; nothing without threads.
    pub fn register(&self, registry: &mut Registry) {
        let Some(shared) = &self.shared else { return };
        registry.register(
            "gateway_cpu_pool_waiting",
            "Steps of requests that wait for a thread of the CPU pool",
            shared.figures.waiting.clone(),
        );
        registry.register_with_unit(
            "gateway_cpu_pool_wait",
            "How long a step waited for a thread of the CPU pool",
            Unit::Seconds,
            shared.figures.waits.clone(),
        );
    }

    /// Steps that wait for a thread, and how long the oldest of them has waited.
    #[must_use]
    pub fn queue(&self) -> (usize, Duration) {
        let Some(shared) = &self.shared else { return (0, Duration::ZERO) };
        let waiting = shared.waiting.lock();
        (waiting.len(), waiting.front().map(Instant::elapsed).unwrap_or_default())
    }

    /// Runs a future whose [`offload`] steps move to this pool.
    pub fn host<F>(&self, future: F) -> Hosted<F>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Hosted { state: State::Here(Box::pin(future), Waiting::default()), shared: self.shared.clone() }
    }
}

/// Lets the workers run first when there are fewer cores than threads.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE) {
        tracing::debug!(%error, "a thread of the CPU pool keeps the priority of the workers");
    }
}

/// Whether a step over these bytes of JSON may take longer than a millisecond. The number of values decides, not the size: a
/// long text is read in no time. It is estimated from samples across the body.
#[must_use]
pub fn is_heavy(json: &[u8]) -> bool {
    const WINDOW: usize = 64;
    const WINDOWS: usize = 64;
    if json.len() <= LIGHT_BYTES {
        return false;
    }
    if json.len() >= HEAVY_BYTES {
        return true;
    }
    let stride = json.len() / WINDOWS;
    let windows = json.chunks(stride).filter_map(|chunk| chunk.get(..WINDOW));
    let is_structure = |byte: &&u8| matches!(byte, b',' | b':' | b'[' | b'{' | b'\\');
    let seen: usize = windows.map(|window| window.iter().filter(is_structure).count()).sum();
    seen * stride / WINDOW >= HEAVY_VALUES
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
struct Waiting {
    pool: Vec<Waker>,
    worker: Vec<Waker>,
}

impl Waiting {
    fn at(&mut self, seat: Seat) -> &mut Vec<Waker> {
        match seat {
            Seat::Pool => &mut self.pool,
            Seat::Worker => &mut self.worker,
        }
    }
}

thread_local! {
    /// Set while a hosted future is polled on this thread.
    static HOSTING: RefCell<Option<(Seat, Waiting)>> = const { RefCell::new(None) };
}

/// Waits until the future is polled there. At once when nobody hosts it.
async fn seated(seat: Seat) {
    poll_fn(|cx| {
        HOSTING.with_borrow_mut(|hosting| match hosting {
            Some((now, waiting)) if *now != seat => {
                waiting.at(seat).push(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        })
    })
    .await;
}

/// Puts back what was there before, also when the poll panics.
struct Restore(Option<(Seat, Waiting)>);

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
    mut waiting: Waiting,
) -> (Poll<F::Output>, Waiting) {
    let outer = Restore(HOSTING.take());
    // Inside a host that is in the pool already, this one is, too.
    let is_in_pool = matches!(outer.0, Some((Seat::Pool, _)));
    let seat = if is_in_pool { Seat::Pool } else { seat };
    waiting.at(seat).drain(..).for_each(Waker::wake);
    HOSTING.set(Some((seat, waiting)));
    let polled = future.poll(cx);
    let waiting = HOSTING.take().map(|(_, waiting)| waiting).unwrap_or_default();
    (polled, waiting)
}

/// A future that is back from the pool, its result and its waiting parts; or the panic that ended it.
type Back<F> = Result<(Pin<Box<F>>, Poll<<F as Future>::Output>, Waiting), Box<dyn Any + Send>>;

enum State<F: Future> {
    Here(Pin<Box<F>>, Waiting),
    Away(oneshot::Receiver<Back<F>>),
    Over,
}

/// A future whose [`offload`] steps run in a [`CpuPool`]. Dropping it drops the future: at once, or when the step that runs
/// is done.
pub struct Hosted<F: Future> {
    state: State<F>,
    shared: Option<Arc<Shared>>,
}

impl<F: Future> std::fmt::Debug for Hosted<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosted")
            .field("is_away", &matches!(self.state, State::Away(_)))
            .finish_non_exhaustive()
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
            match &mut this.state {
                State::Here(future, waiting) => {
                    let Some(shared) = &this.shared else { return future.as_mut().poll(cx) };
                    let (polled, waits) =
                        poll_seated(future.as_mut(), cx, Seat::Worker, std::mem::take(waiting));
                    if polled.is_ready() {
                        this.state = State::Over;
                        return polled;
                    }
                    *waiting = waits;
                    if waiting.pool.is_empty() {
                        return Poll::Pending;
                    }
                    let State::Here(future, waiting) = std::mem::replace(&mut this.state, State::Over) else {
                        return Poll::Pending;
                    };
                    this.state = State::Away(shared.send(future, waiting, cx.waker().clone()));
                }
                State::Away(back) => match std::task::ready!(Pin::new(back).poll(cx)) {
                    Ok(Ok((_, Poll::Ready(output), _))) => {
                        this.state = State::Over;
                        return Poll::Ready(output);
                    }
                    // A wake-up meant for it may have come while it was away: it is polled at once.
                    Ok(Ok((future, Poll::Pending, waiting))) => this.state = State::Here(future, waiting),
                    Ok(Err(panic)) => {
                        this.state = State::Over;
                        resume_unwind(panic);
                    }
                    // The pool is gone: the process is ending, and so is this connection.
                    Err(_) => {
                        this.state = State::Over;
                        return Poll::Pending;
                    }
                },
                State::Over => return Poll::Pending,
            }
        }
    }
}

impl Shared {
    fn begin_wait(&self) {
        self.figures.waiting.inc();
        self.waiting.lock().push_back(Instant::now());
    }

    /// Steps begin in the order in which they came: the oldest has got its thread.
    fn end_wait(&self) {
        let oldest = self.waiting.lock().pop_front();
        self.figures.waiting.dec();
        self.figures.waits.observe(oldest.map(|since| since.elapsed().as_secs_f64()).unwrap_or_default());
    }

    /// Polls the future once on a thread of the pool, inside the caller's runtime.
    fn send<F>(
        self: &Arc<Self>,
        mut future: Pin<Box<F>>,
        waiting: Waiting,
        waker: Waker,
    ) -> oneshot::Receiver<Back<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let worker = Handle::try_current();
        let shared = Arc::downgrade(self);
        self.begin_wait();
        let step = move || {
            if let Some(shared) = shared.upgrade() {
                shared.end_wait();
            }
            let _inside = worker.as_ref().ok().map(Handle::enter);
            if sender.is_closed() {
                return drop(future);
            }
            let polled = catch_unwind(AssertUnwindSafe(|| {
                let mut cx = Context::from_waker(&waker);
                poll_seated(future.as_mut(), &mut cx, Seat::Pool, waiting)
            }));
            // Refused when the request was dropped: then the future ends here, still inside its runtime.
            drop(sender.send(polled.map(|(polled, waiting)| (future, polled, waiting))));
        };
        if let Some(runtime) = &self.runtime {
            drop(runtime.spawn_blocking(step));
        }
        receiver
    }
}

#[cfg(test)]
mod tests;
