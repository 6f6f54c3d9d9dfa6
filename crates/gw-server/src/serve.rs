//! Listening, accepting, and the shutdown: not ready, no new connections, the rest in peace, then the cut.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::FutureExt;
use hyper::service::service_fn;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::Gate;
use crate::connection::{self, Glance, Terms};
use crate::edge::{Edge, Place};
use crate::guarded::{Activity, Limits};
use crate::handler::{self, Origin};
use crate::lingering::Lingering;
use crate::refusal::Porter;
use crate::router::Door;

/// Kernel memory of what a client does not read.
const SEND_BUFFER: usize = 256 << 10;
/// Of which so much may be unsent.
const UNSENT: u32 = 64 << 10;
/// The pause after the system could not hand over a connection for want of descriptors or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(75);
/// How often the log says that connections cannot be accepted.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// Between the cut of the streams and the end of their connections.
const LAST_WORDS: Duration = Duration::from_millis(1500);
/// How often a shutdown looks whether anything still runs.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Connections that may wait to be accepted: a burst must not wait for TCP's second try.
const BACKLOG: i32 = 1024;
/// The work of accepting in a row, in refused connections: those that are there must go on too.
const ACCEPTED_IN_A_ROW: u32 = 128;
/// What a connection that is served is of that work.
const SERVED: u32 = 4;
/// Threads per worker for what blocks (name resolution).
const BLOCKING_THREADS: usize = 4;
/// What dropped connections take to be gone.
const LAST_STEPS: Duration = Duration::from_millis(300);

/// The bound sockets; the program binds them, so that it can say which port it got.
#[derive(Debug)]
pub struct Listeners {
    /// `listen`.
    pub public: TcpListener,
    /// `admin_listen`.
    pub admin: Option<TcpListener>,
}

/// The two signals of a shutdown.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    drain: CancellationToken,
    now: CancellationToken,
}

impl Shutdown {
    /// Nothing signalled yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The first signal: finish what runs.
    pub fn begin(&self) {
        self.drain.cancel();
    }

    /// The second: end at once.
    pub fn now(&self) {
        self.drain.cancel();
        self.now.cancel();
    }
}

/// Serves on `workers` threads until the shutdown is over.
///
/// Each thread has a runtime of its own and accepts for itself, and a connection stays on its thread with everything
/// that is done for it: no request is handed from core to core.
///
/// # Errors
/// When a listener cannot be shared or a thread cannot be started.
pub async fn serve(
    edge: Arc<Edge>,
    listeners: Listeners,
    workers: usize,
    shutdown: Shutdown,
) -> io::Result<()> {
    let house = House::new(&edge);
    let public_door = if listeners.admin.is_some() { Door::Public } else { Door::Whole };
    let doors = [(Some(listeners.public), public_door), (listeners.admin, Door::Admin)];
    let mut shared = Vec::new();
    for (listener, door) in doors {
        let Some(listener) = listener else { continue };
        bound_kernel_memory(&listener);
        shared.push((listener.into_std()?, door));
    }
    let acceptors = TaskTracker::new();
    let gone = CancellationToken::new();
    let mut threads = Vec::new();
    for number in 0..workers.max(1) {
        let doors: io::Result<Vec<_>> =
            shared.iter().map(|(listener, door)| Ok((listener.try_clone()?, *door))).collect();
        threads.push(worker(number, doors?, house.clone(), acceptors.clone(), gone.clone())?);
    }
    drop(shared);
    shutdown.drain.cancelled().await;
    edge.leave();
    tokio::select! {
        () = tokio::time::sleep(edge.settings.drain_delay) => {}
        () = shutdown.now.cancelled() => {}
    }
    edge.drain();
    let deadline = Instant::now() + edge.settings.drain;
    house.ending.store(true, Ordering::Release);
    house.leaving.cancel();
    // While something still runs, whoever asks must be able to hear that we are not ready.
    house.last_request(&edge, deadline, &shutdown).await;
    house.closed.cancel();
    acceptors.close();
    acceptors.wait().await;
    house.finish(&edge, deadline, &shutdown).await;
    gone.cancel();
    let ended =
        tokio::task::spawn_blocking(move || threads.into_iter().for_each(|thread| drop(thread.join())));
    let _ = ended.await;
    Ok(())
}

/// Starts a thread that accepts and serves until `gone`.
fn worker(
    number: usize,
    doors: Vec<(std::net::TcpListener, Door)>,
    mut house: House,
    acceptors: TaskTracker,
    gone: CancellationToken,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()?;
    // Counted before the thread runs, so that a shutdown cannot overtake it.
    let token = acceptors.token();
    house.gate = Arc::new(house.edge.gate(number));
    house.lingering = Arc::default();
    std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        runtime.block_on(async {
            let gate = Arc::clone(&house.gate);
            tokio::spawn(async move { gate.turn().await });
            let lingering = Arc::clone(&house.lingering);
            tokio::spawn(async move { lingering.watch().await });
            for (listener, door) in doors {
                match TcpListener::from_std(listener) {
                    Ok(listener) => drop(acceptors.spawn(accept(listener, door, house.clone()))),
                    Err(error) => tracing::error!(%error, "a listener could not be shared with a thread"),
                }
            }
            drop(token);
            gone.cancelled().await;
        });
        runtime.shutdown_background();
    })
}

/// What the acceptors and the shutdown share.
#[derive(Clone)]
struct House {
    edge: Arc<Edge>,
    terms: Terms,
    places: Arc<Semaphore>,
    /// Connections that were there end after their request; later ones serve one request each.
    leaving: CancellationToken,
    /// No new connections.
    closed: CancellationToken,
    /// Whatever still runs says its last words.
    cut: CancellationToken,
    /// Connections are dropped.
    dropped: CancellationToken,
    /// Of the worker.
    gate: Arc<Gate>,
    /// Refused connections of the worker.
    lingering: Arc<Lingering>,
    /// Set before any of the tokens is cancelled.
    ending: Arc<AtomicBool>,
    tracker: TaskTracker,
}

impl House {
    fn new(edge: &Arc<Edge>) -> Self {
        let settings = &edge.settings;
        let tracker = TaskTracker::new();
        let leaving = CancellationToken::new();
        let ending = Arc::new(AtomicBool::new(false));
        let limits = Limits {
            head: settings.head_timeout,
            idle: settings.idle_timeout,
            write_stall: settings.write_stall,
        };
        Self {
            terms: Terms {
                limits,
                tls: edge.tls.clone(),
                drain: leaving.clone(),
                ending: Arc::clone(&ending),
                tracker: tracker.clone(),
                porter: None,
            },
            places: Arc::new(Semaphore::new(settings.max_connections.clamp(1, Semaphore::MAX_PERMITS))),
            edge: Arc::clone(edge),
            leaving,
            closed: CancellationToken::new(),
            cut: CancellationToken::new(),
            dropped: CancellationToken::new(),
            gate: Arc::new(edge.gate(0)),
            lingering: Arc::default(),
            ending,
            tracker,
        }
    }

    /// Until nothing runs any more, or the grace is over.
    async fn last_request(&self, edge: &Edge, deadline: Instant, shutdown: &Shutdown) {
        let idle = async {
            while edge.metrics.in_flight.get() > 0 {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            _ = timeout_at(deadline, idle) => {}
            () = shutdown.now.cancelled() => {}
        }
    }

    /// Waits for what runs, within the grace; then cuts the streams, then drops the connections.
    async fn finish(&self, edge: &Edge, deadline: Instant, shutdown: &Shutdown) {
        self.tracker.close();
        tokio::select! {
            finished = timeout_at(deadline, self.tracker.wait()) => if finished.is_ok() { return },
            () = shutdown.now.cancelled() => {}
        }
        edge.cut();
        self.cut.cancel();
        let open = self.tracker.len();
        tracing::warn!(open, "the grace of the shutdown is over: ending what is left");
        if timeout(LAST_WORDS, self.tracker.wait()).await.is_err() {
            self.dropped.cancel();
            let _ = timeout(LAST_STEPS, self.tracker.wait()).await;
        }
    }

    /// What asks a connection to come back later, if the worker has too much to do.
    fn porter(&self, door: Door) -> Porter {
        Porter {
            edge: Arc::clone(&self.edge),
            gate: Arc::clone(&self.gate),
            door,
            is_tls: self.edge.tls.is_some(),
        }
    }

    /// Refuses an accepted connection or serves it in a task of its own; gives the work of it.
    fn welcome(
        &self,
        socket: TcpStream,
        client: SocketAddr,
        porter: &Porter,
        permit: OwnedSemaphorePermit,
    ) -> u32 {
        let place = Place::take(&self.edge.metrics.connections);
        if porter.refuse_now(&socket) {
            self.lingering.add(socket, (permit, place, self.tracker.token()));
            return 1;
        }
        let (mut house, door) = (self.clone(), porter.door);
        house.terms.porter = Some(porter.clone());
        if house.leaving.is_cancelled() {
            house.terms.drain = house.closed.clone();
        }
        self.tracker.spawn(async move {
            let _occupied = (permit, place);
            // Small writes must leave at once: every event of a stream is one.
            let _ = socket.set_nodelay(true);
            let activity = Arc::new(Activity::default());
            let gate = house.gate;
            let origin = Origin { edge: house.edge, door, client, activity: Arc::clone(&activity), gate };
            let service = service_fn(move |request| {
                handler::respond(origin.clone(), request).map(Ok::<_, Infallible>).boxed()
            });
            let mut connection = std::pin::pin!(connection::run(socket, house.terms, activity, service));
            let mut dropped = std::pin::pin!(house.dropped.cancelled());
            let mut cut = std::pin::pin!(house.cut.cancelled());
            let mut glance = Glance::new(house.ending);
            let mut woken = false;
            poll_fn(|cx| {
                if connection.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                if glance.is_due() {
                    if dropped.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                    // Only so that the handler is polled again and sees the cut.
                    if !woken && cut.as_mut().poll(cx).is_ready() {
                        woken = true;
                        cx.waker().wake_by_ref();
                    }
                }
                Poll::Pending
            })
            .await;
        });
        SERVED
    }
}

/// Accepted sockets inherit these. A client that reads nothing then costs little, and its stream waits.
fn bound_kernel_memory(listener: &TcpListener) {
    let socket = socket2::SockRef::from(listener);
    // A second listen changes nothing but the backlog.
    let bounded = socket.listen(BACKLOG).and_then(|()| socket.set_send_buffer_size(SEND_BUFFER));
    #[cfg(target_os = "linux")]
    let bounded = bounded.and_then(|()| socket.set_tcp_notsent_lowat(UNSENT));
    if let Err(error) = bounded {
        tracing::warn!(%error, "the send buffers of client connections could not be bounded");
    }
}

async fn accept(listener: TcpListener, door: Door, house: House) {
    let porter = house.porter(door);
    let mut last_warning: Option<Instant> = None;
    let mut in_a_row = 0;
    loop {
        if in_a_row >= ACCEPTED_IN_A_ROW {
            in_a_row = 0;
            yield_now().await;
        }
        let permit = tokio::select! {
            permit = Arc::clone(&house.places).acquire_owned() => permit,
            () = house.closed.cancelled() => return,
        };
        let Ok(permit) = permit else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // The kernel has shaken hands for us with those who wait in its queue: they are not sent away.
            () = house.closed.cancelled() => match listener.accept().now_or_never() {
                Some(accepted) => accepted,
                None => return,
            },
        };
        match accepted {
            Ok((socket, client)) => in_a_row += house.welcome(socket, client, &porter, permit),
            Err(error) if is_of_the_client(&error) => in_a_row += 1,
            Err(error) => {
                house.edge.metrics.accept_errors.inc();
                if last_warning.is_none_or(|at| at.elapsed() > WARN_EVERY) {
                    last_warning = Some(Instant::now());
                    tracing::warn!(%error, "connections cannot be accepted; trying on");
                }
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// The client left before it was accepted; anything else would come back at once, and the loop would spin.
fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
