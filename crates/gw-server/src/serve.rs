//! Accepts connections on worker threads, and shuts down in steps: not ready, no new connections, a grace for running
//! requests, then the cut.

mod accepting;

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
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::accepting::{accept, bound_kernel_memory};
use crate::address_limits::AddressPermit;
use crate::admission::Admission;
use crate::connection::{self, CancelPoll, ConnectionSettings};
use crate::connection_refusal::ConnectionRefusal;
use crate::connection_slots::ConnectionSlots;
use crate::cors::Audience;
use crate::handler;
use crate::in_flight::InFlightPermit;
use crate::lingering::Lingering;
use crate::listener::Listener;
use crate::origin::Origin;
use crate::proxy_protocol;
use crate::quiet_body::QuietBody;
use crate::shutdown::Shutdown;
use crate::state::ServerState;
use crate::timed_io::{Activity, ClientTimeouts};

/// The time that streams have for their error event after the cut.
const CUT_GRACE: Duration = Duration::from_millis(1500);
/// The time that responses in the background have after the cut to note their failure in the store.
const STORE_GRACE: Duration = Duration::from_secs(5);
/// The time between two checks whether a request still runs during a shutdown.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The work of a connection that is served.
const SERVED_WORK: u32 = 4;
/// The most threads per worker for blocking work, such as name resolution.
const BLOCKING_THREADS: usize = 4;
/// The time that the tasks of dropped connections have to end.
const DROP_GRACE: Duration = Duration::from_millis(300);

/// The bound sockets. The program binds them, so that it can log the port.
#[derive(Debug)]
pub struct Listeners {
    /// The socket of `server.listen`.
    pub public: TcpListener,
    /// The socket of `server.admin_listen`.
    pub admin: Option<TcpListener>,
}

/// The time that kept connections have for one more request after a hand-over. Its answer tells the client to close.
const KEPT_GRACE: Duration = Duration::from_secs(2);

/// Serves on `workers` threads until the shutdown is over.
///
/// Each thread has its own runtime and accepts connections itself. A connection and its requests stay on their thread.
///
/// # Errors
/// When a listener cannot be shared or a thread cannot be started.
pub async fn serve(
    state: Arc<ServerState>,
    listeners: Listeners,
    workers: usize,
    shutdown: Shutdown,
) -> io::Result<()> {
    let context = ServeContext::new(&state);
    let public = if listeners.admin.is_some() { Listener::Public } else { Listener::Single };
    let sockets = [(Some(listeners.public), public), (listeners.admin, Listener::Admin)];
    let mut shared = Vec::new();
    for (socket, listener) in sockets {
        let Some(socket) = socket else { continue };
        bound_kernel_memory(&socket);
        shared.push((socket.into_std()?, listener));
    }
    let acceptors = TaskTracker::new();
    let stopped = CancellationToken::new();
    let mut threads = Vec::new();
    for number in 0..workers.max(1) {
        let sockets: io::Result<Vec<_>> =
            shared.iter().map(|(socket, listener)| Ok((socket.try_clone()?, *listener))).collect();
        threads.push(worker(number, sockets?, context.clone(), acceptors.clone(), stopped.clone())?);
    }
    drop(shared);
    shutdown.drain.cancelled().await;
    let deadline = if shutdown.is_handed_over.load(Ordering::Acquire) {
        context.hand_over(&state, &acceptors, &shutdown).await
    } else {
        context.leave(&state, &acceptors, &shutdown).await
    };
    context.finish(&state, deadline, &shutdown).await;
    stopped.cancel();
    let ended =
        tokio::task::spawn_blocking(move || threads.into_iter().for_each(|thread| drop(thread.join())));
    let _ = ended.await;
    Ok(())
}

/// Starts a thread that accepts and serves connections until `stopped` is cancelled.
fn worker(
    number: usize,
    sockets: Vec<(std::net::TcpListener, Listener)>,
    mut context: ServeContext,
    acceptors: TaskTracker,
    stopped: CancellationToken,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()?;
    // The token is taken before the thread runs, so that a shutdown that begins now waits for it.
    let token = acceptors.token();
    context.admission = Arc::new(context.state.new_admission(number));
    context.lingering = Arc::default();
    std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        runtime.block_on(async {
            let admission = Arc::clone(&context.admission);
            tokio::spawn(async move { admission.run().await });
            let lingering = Arc::clone(&context.lingering);
            tokio::spawn(async move { lingering.run().await });
            for (socket, listener) in sockets {
                match TcpListener::from_std(socket) {
                    Ok(socket) => drop(acceptors.spawn(accept(socket, listener, context.clone()))),
                    Err(error) => tracing::error!(%error, "a listener could not be shared with a thread"),
                }
            }
            drop(token);
            stopped.cancelled().await;
        });
        runtime.shutdown_background();
    })
}

/// The parts that a worker's connections and the shutdown share.
#[derive(Clone)]
struct ServeContext {
    state: Arc<ServerState>,
    settings: ConnectionSettings,
    /// The places of the listener for clients.
    slots: ConnectionSlots,
    /// The places of the admin listener: a flood of clients does not keep operators out.
    admin_slots: ConnectionSlots,
    /// Cancelled when connections should end after their current request. Later connections serve one request each.
    leaving: CancellationToken,
    /// Cancelled when no new connections are accepted.
    closed: CancellationToken,
    /// Cancelled when running requests must end now.
    cut: CancellationToken,
    /// Cancelled when connections are dropped.
    dropped: CancellationToken,
    /// The admission queue of the worker.
    admission: Arc<Admission>,
    /// The refused connections of the worker.
    lingering: Arc<Lingering>,
    /// Set before any of the tokens is cancelled.
    is_ending: Arc<AtomicBool>,
    tracker: TaskTracker,
}

impl ServeContext {
    fn new(state: &Arc<ServerState>) -> Self {
        let settings = &state.settings;
        let tracker = TaskTracker::new();
        let leaving = CancellationToken::new();
        let is_ending = Arc::new(AtomicBool::new(false));
        let timeouts = ClientTimeouts {
            head: settings.head_timeout,
            idle: settings.idle_timeout,
            send_timeout: settings.send_timeout,
        };
        Self {
            settings: ConnectionSettings {
                timeouts,
                tls: None,
                drain: leaving.clone(),
                is_ending: Arc::clone(&is_ending),
                tracker: tracker.clone(),
                head_error_cors: Arc::new(state.cors.of(Audience::Users).of_unread()),
            },
            slots: ConnectionSlots::new(settings.max_connections),
            admin_slots: ConnectionSlots::new(settings.max_connections),
            state: Arc::clone(state),
            leaving,
            closed: CancellationToken::new(),
            cut: CancellationToken::new(),
            dropped: CancellationToken::new(),
            admission: Arc::new(state.new_admission(0)),
            lingering: Arc::default(),
            is_ending,
            tracker,
        }
    }

    /// Leaves the new connections to another process. Returns the end of the grace.
    async fn hand_over(&self, state: &ServerState, acceptors: &TaskTracker, shutdown: &Shutdown) -> Instant {
        state.hand_over();
        self.closed.cancel();
        acceptors.close();
        acceptors.wait().await;
        let deadline = Instant::now() + state.settings.drain;
        self.tracker.close();
        tokio::select! {
            _ = timeout_at(deadline.min(Instant::now() + KEPT_GRACE), self.tracker.wait()) => {}
            () = shutdown.now.cancelled() => {}
        }
        self.is_ending.store(true, Ordering::Release);
        self.leaving.cancel();
        deadline
    }

    /// Tells load balancers and clients to go elsewhere, and closes the sockets when no request runs. Returns the end of the
    /// grace.
    async fn leave(&self, state: &ServerState, acceptors: &TaskTracker, shutdown: &Shutdown) -> Instant {
        state.leave();
        tokio::select! {
            () = tokio::time::sleep(state.settings.drain_delay) => {}
            () = shutdown.now.cancelled() => {}
        }
        state.drain();
        let deadline = Instant::now() + state.settings.drain;
        self.is_ending.store(true, Ordering::Release);
        self.leaving.cancel();
        // New connections are accepted while requests run, so that load balancers get the 503 of `/readyz`.
        self.wait_for_requests(state, deadline, shutdown).await;
        self.closed.cancel();
        acceptors.close();
        acceptors.wait().await;
        deadline
    }

    /// Waits until no request runs, or the grace is over.
    async fn wait_for_requests(&self, state: &ServerState, deadline: Instant, shutdown: &Shutdown) {
        let idle = async {
            while state.metrics.in_flight.get() > 0 {
                tokio::time::sleep(DRAIN_CHECK_INTERVAL).await;
            }
        };
        tokio::select! {
            _ = timeout_at(deadline, idle) => {}
            () = shutdown.now.cancelled() => {}
        }
    }

    /// Waits for the connections and the responses in the background within the grace, then cuts their streams, then drops the
    /// connections.
    async fn finish(&self, state: &ServerState, deadline: Instant, shutdown: &Shutdown) {
        self.tracker.close();
        let engine = &state.engine;
        let all_ended = async {
            self.tracker.wait().await;
            engine.background_ended().await;
        };
        tokio::select! {
            finished = timeout_at(deadline, all_ended) => if finished.is_ok() { return },
            () = shutdown.now.cancelled() => {}
        }
        state.cut();
        self.cut.cancel();
        let (open, background) = (self.tracker.len(), engine.background_count());
        tracing::warn!(
            open,
            background,
            "the grace of the shutdown is over: ending the connections and background responses that are left"
        );
        let cut_at = Instant::now();
        if timeout(CUT_GRACE, self.tracker.wait()).await.is_err() {
            self.dropped.cancel();
            let _ = timeout(DROP_GRACE, self.tracker.wait()).await;
        }
        if timeout_at(cut_at + STORE_GRACE, engine.background_ended()).await.is_err() {
            let background = engine.background_count();
            tracing::warn!(background, "background responses ended without a mark in the store");
        }
    }

    /// The refusal of the connections of a listener.
    fn connection_refusal(&self, listener: Listener) -> ConnectionRefusal {
        ConnectionRefusal { state: Arc::clone(&self.state), listener, is_tls: self.state.tls.is_some() }
    }

    /// The client of a new connection, with its permit. None: the connection is refused.
    async fn client_of(
        &self,
        socket: &mut TcpStream,
        peer: SocketAddr,
    ) -> Option<(SocketAddr, AddressPermit)> {
        let settings = &self.state.settings;
        let mut client = peer;
        if settings.proxy_protocol && settings.trusted_proxies.contains(peer.ip()) {
            let told = tokio::select! {
                biased;
                told = timeout(settings.head_timeout, proxy_protocol::read(socket)) => told,
                () = self.leaving.cancelled() => return None,
            };
            let Ok(Ok(told)) = told else {
                self.state.metrics.refused_connections.inc();
                return None;
            };
            client = told.unwrap_or(peer);
        }
        // The connections of a proxy are those of many clients.
        if settings.trusted_proxies.contains(client.ip()) {
            return Some((client, AddressPermit::default()));
        }
        let permit = self.state.connection_limit.admit(client.ip());
        if permit.is_err() {
            self.state.metrics.refused_connections.inc();
        }
        Some((client, permit.ok()?))
    }

    /// Tells a connection that it has no place, and closes it when its client does.
    fn refuse_connection(&self, socket: TcpStream, slots: &ConnectionSlots, refusal: &ConnectionRefusal) {
        self.state.metrics.refused_connections.inc();
        if let Some(permit) = slots.refuse()
            && refusal.refuse(&socket)
        {
            self.lingering.add(socket, (permit, self.tracker.token()));
        }
    }

    /// Serves an accepted connection in a task of its own. Returns the work that this was.
    fn take_connection(
        &self,
        mut socket: TcpStream,
        peer: SocketAddr,
        listener: Listener,
        permit: OwnedSemaphorePermit,
    ) -> u32 {
        let in_flight = InFlightPermit::take(&self.state.metrics.connections);
        let mut context = self.clone();
        context.settings.tls = self.state.tls.clone();
        if context.leaving.is_cancelled() {
            context.settings.drain = context.closed.clone();
        }
        // In a box, because the future of a connection has 12 KiB, and a task copies its future several times.
        self.tracker.spawn(Box::pin(async move {
            let _permits = (permit, in_flight);
            // Every event of a stream is a small write and must leave at once.
            let _ = socket.set_nodelay(true);
            let Some((client, _address_permit)) = context.client_of(&mut socket, peer).await else { return };
            let activity = Arc::new(Activity::default());
            let admission = context.admission;
            let origin =
                Origin { state: context.state, listener, client, activity: Arc::clone(&activity), admission };
            let service = service_fn(move |request: Request<Incoming>| {
                handler::respond(origin.clone(), request.map(QuietBody)).map(Ok::<_, Infallible>).boxed()
            });
            let mut connection = std::pin::pin!(connection::run(socket, context.settings, activity, service));
            let mut dropped = std::pin::pin!(context.dropped.cancelled());
            let mut cut = std::pin::pin!(context.cut.cancelled());
            let mut cancel_poll = CancelPoll::new(context.is_ending);
            let mut is_woken = false;
            poll_fn(|cx| {
                if connection.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                if cancel_poll.is_due() {
                    if dropped.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                    // The wake-up polls the handler again, which then sees the cut.
                    if !is_woken && cut.as_mut().poll(cx).is_ready() {
                        is_woken = true;
                        cx.waker().wake_by_ref();
                    }
                }
                Poll::Pending
            })
            .await;
        }));
        SERVED_WORK
    }
}
