//! One client connection: TLS if configured, HTTP/1 or HTTP/2 by its first bytes, then requests until it ends.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::frame_clock::FrameClock;
use crate::head_errors::{self, HyperErrorFilter};
use crate::lingering::{LINGER, MAX_LINGER};
use crate::quiet_body::QuietWaker;
use crate::rewind::Rewind;
use crate::stall::WatchdogExecutor;
use crate::timed_io::{Activity, ClientTimeouts, TimedIo, Transport};
use crate::tls::LiveTls;

/// The first bytes of an HTTP/2 client.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const MAX_HEAD_BYTES: usize = 32 << 10;
const MAX_HEADERS: usize = 64;
/// hyper answers a larger HTTP/2 header list itself, without a body. The handler refuses smaller lists with an error body.
const MAX_HTTP2_HEADER_LIST_BYTES: u32 = 32 << 10;
const MAX_BUFFER_BYTES: usize = 64 << 10;
/// The most bytes that are read from a client that still sends after its answer: a large body, and no stream without an end.
const LINGER_BYTES: usize = 8 << 20;
/// The bytes of one read from this client.
const LINGER_READ_BYTES: usize = 16 << 10;
/// The time that a new connection still has for its first byte when the shutdown begins.
const SHUTDOWN_FIRST_BYTE: Duration = Duration::from_millis(200);
/// The time that a request head still has when the shutdown begins.
const SHUTDOWN_HEAD: Duration = Duration::from_secs(1);
/// The time between two checks whether an HTTP/2 connection is idle.
const IDLE_CHECK: Duration = Duration::from_secs(15);

/// The settings of a connection.
#[derive(Clone)]
pub(crate) struct ConnectionSettings {
    pub(crate) timeouts: ClientTimeouts,
    pub(crate) tls: Option<LiveTls>,
    /// Cancelled when the connection should take no new request.
    pub(crate) drain: CancellationToken,
    /// Set before `drain` is cancelled.
    pub(crate) is_ending: Arc<AtomicBool>,
    /// Counts the tasks of HTTP/2 streams.
    pub(crate) tracker: TaskTracker,
    /// The CORS headers of answers to heads that cannot be read.
    pub(crate) head_error_cors: Arc<HeaderMap>,
}

/// Decides when to poll a cancellation token: once at first, so that the token knows the task to wake, and again when the
/// flag is set. Polling it whenever the task runs would take the token's lock for every chunk of every stream.
pub(crate) struct CancelPoll {
    flag: Arc<AtomicBool>,
    is_armed: bool,
}

impl CancelPoll {
    pub(crate) fn new(flag: Arc<AtomicBool>) -> Self {
        Self { flag, is_armed: false }
    }

    pub(crate) fn is_due(&mut self) -> bool {
        !std::mem::replace(&mut self.is_armed, true) || self.flag.load(Ordering::Acquire)
    }
}

/// A socket, perhaps inside TLS, whose HTTP/1 timeouts can be started.
trait HeadTimed: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn expect_head(&mut self, deadline: Instant);
}

impl<T: Transport> HeadTimed for TimedIo<T> {
    fn expect_head(&mut self, deadline: Instant) {
        Self::expect_head(self, deadline);
    }
}

impl<T: Transport> HeadTimed for Box<TlsStream<TimedIo<T>>> {
    fn expect_head(&mut self, deadline: Instant) {
        self.as_mut().get_mut().0.expect_head(deadline);
    }
}

/// The error of a response body that broke off.
type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Serves a connection to its end. `service` reports its requests to `activity`.
pub(crate) async fn run<T, S, B>(socket: T, settings: ConnectionSettings, activity: Arc<Activity>, service: S)
where
    T: Transport,
    S: Service<Request<Incoming>, Response = Response<B>, Error = std::convert::Infallible>
        + Unpin
        + Send
        + 'static,
    S::Future: Unpin + Send + 'static,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BodyError>,
{
    let deadline = Instant::now() + settings.timeouts.head;
    let socket = TimedIo::new(socket, Arc::clone(&activity), settings.timeouts);
    let Some(tls) = settings.tls.clone() else {
        return serve_http(socket, deadline, settings, &activity, service).await;
    };
    let handshake = timeout_at(deadline, tls.acceptor().accept(socket));
    let accepted = tokio::select! {
        accepted = handshake => accepted,
        () = settings.drain.cancelled() => return,
    };
    if let Ok(Ok(stream)) = accepted {
        // A TLS session has 1.5 KiB, and each state of the future below would have room for several copies, also without TLS.
        serve_http(Box::new(stream), deadline, settings, &activity, service).await;
    }
}

/// Serves a connection from its first byte of HTTP, after any TLS handshake.
async fn serve_http<T, S, B>(
    mut io: T,
    deadline: Instant,
    settings: ConnectionSettings,
    activity: &Arc<Activity>,
    service: S,
) where
    T: HeadTimed,
    S: Service<Request<Incoming>, Response = Response<B>, Error = std::convert::Infallible>
        + Unpin
        + Send
        + 'static,
    S::Future: Unpin + Send + 'static,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BodyError>,
{
    let detected = {
        let mut detecting = std::pin::pin!(timeout_at(deadline, detect(&mut io)));
        tokio::select! {
            detected = &mut detecting => detected,
            // A connection that was accepted just before the shutdown still gets its answer.
            () = settings.drain.cancelled() => match timeout(SHUTDOWN_FIRST_BYTE, &mut detecting).await {
                Ok(detected) => detected,
                Err(_) => return,
            },
        }
    };
    match detected {
        Ok(Ok(Some((Protocol::Http1, prefix)))) => {
            io.expect_head(deadline);
            serve_http1(Rewind::new(prefix, io), &settings, activity, service).await;
        }
        Ok(Ok(Some((Protocol::Http2, prefix)))) => {
            let io = FrameClock::new(io, settings.timeouts.head, deadline);
            serve_http2(Rewind::new(prefix, io), &settings, activity, service).await;
        }
        Ok(Ok(None) | Err(_)) | Err(_) => {}
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// Reads until the first bytes can only be one protocol. None: the client closed without sending a byte.
async fn detect<T: AsyncRead + Unpin>(io: &mut T) -> io::Result<Option<(Protocol, Bytes)>> {
    let mut seen = BytesMut::with_capacity(PREFACE.len());
    loop {
        let room = PREFACE.len() - seen.len();
        let count =
            AsyncReadExt::take(&mut *io, u64::try_from(room).unwrap_or(0)).read_buf(&mut seen).await?;
        if count == 0 {
            return Ok(None);
        }
        if !PREFACE.starts_with(&seen) {
            return Ok(Some((Protocol::Http1, seen.freeze())));
        }
        if seen.len() == PREFACE.len() {
            return Ok(Some((Protocol::Http2, seen.freeze())));
        }
    }
}

async fn serve_http1<T, S, B>(io: T, settings: &ConnectionSettings, activity: &Arc<Activity>, service: S)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = std::convert::Infallible> + Unpin,
    S::Future: Unpin,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<BodyError>,
{
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .half_close(false)
        .keep_alive(true)
        .pipeline_flush(false)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_BUFFER_BYTES);
    let mut connection = builder.serve_connection(TokioIo::new(HyperErrorFilter::new(io)), service);
    let mut drain = std::pin::pin!(settings.drain.cancelled());
    let mut last_head = std::pin::pin!(tokio::time::sleep(Duration::MAX / 4));
    let mut cancel_poll = CancelPoll::new(Arc::clone(&settings.is_ending));
    let mut is_draining = false;
    let mut quiet = QuietWaker::default();
    let ended = poll_fn(|cx| {
        if let Poll::Ready(ended) = connection.poll_without_shutdown(&mut Context::from_waker(quiet.of(cx))) {
            return Poll::Ready(Some(ended));
        }
        if !cancel_poll.is_due() {
            return Poll::Pending;
        }
        if !is_draining && drain.as_mut().poll(cx).is_ready() {
            is_draining = true;
            last_head.as_mut().reset(Instant::now() + SHUTDOWN_HEAD);
            Pin::new(&mut connection).graceful_shutdown();
            cx.waker().wake_by_ref();
        }
        while is_draining && last_head.as_mut().poll(cx).is_ready() {
            // An incomplete request head must not hold up the shutdown.
            if activity.active() == 0 {
                return Poll::Ready(None);
            }
            last_head.as_mut().reset(Instant::now() + SHUTDOWN_HEAD);
        }
        Poll::Pending
    })
    .await;
    let Some(ended) = ended else { return };
    let parts = connection.into_parts();
    let (mut io, held) = parts.io.into_inner().into_parts();
    match &ended {
        Ok(()) if let Some(take_over) = activity.take_takeover() => {
            // A request in progress has no timeout for reading.
            let _guard = activity.begin();
            if io.write_all(&held).await.is_ok() {
                take_over(Box::new(Rewind::new(parts.read_buf, io)), settings.drain.clone()).await;
            }
        }
        Ok(()) => close(io, held, activity.is_unread()).await,
        Err(error) if error.is_parse() => {
            let answer = if held.is_empty() {
                held
            } else {
                head_errors::answer(&held, error, &settings.head_error_cors)
            };
            close(io, answer, true).await;
        }
        // The socket failed, or one of its timeouts is over.
        Err(_) => {}
    }
}

/// Writes the last bytes and closes. A client that still sends may finish and read its answer, because closing at once
/// would reset the connection and could lose the answer.
async fn close<T: AsyncRead + AsyncWrite + Unpin>(mut io: T, last: Vec<u8>, is_unread: bool) {
    let written = timeout(LINGER, async {
        io.write_all(&last).await?;
        io.shutdown().await
    });
    if !matches!(written.await, Ok(Ok(()))) || !is_unread {
        return;
    }
    let discarding = async {
        let mut piece = vec![0; LINGER_READ_BYTES];
        let mut left = LINGER_BYTES;
        while let Ok(Ok(read @ 1..)) = timeout(LINGER, io.read(&mut piece)).await {
            left = left.saturating_sub(read);
            if left == 0 {
                // The client sends even more. It may read its answer, while flow control stops its sending.
                tokio::time::sleep(LINGER).await;
                return;
            }
        }
    };
    let _ = timeout(MAX_LINGER, discarding).await;
}

async fn serve_http2<T, S, B>(io: T, settings: &ConnectionSettings, activity: &Activity, service: S)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = std::convert::Infallible> + Unpin + Send,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    let executor =
        WatchdogExecutor { tracker: settings.tracker.clone(), limit: settings.timeouts.send_timeout };
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(100)
        .initial_stream_window_size(64 << 10)
        .initial_connection_window_size(1 << 20)
        .max_header_list_size(MAX_HTTP2_HEADER_LIST_BYTES)
        .max_send_buf_size(MAX_BUFFER_BYTES)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(64)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(io), service));
    let mut checks = tokio::time::interval(IDLE_CHECK.min(settings.timeouts.idle));
    let mut idle = Idle { since: Instant::now(), begun: 0 };
    let mut is_draining = false;
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = settings.drain.cancelled(), if !is_draining => {
                is_draining = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = checks.tick() => {
                if idle.duration(activity) >= settings.timeouts.idle {
                    connection.as_mut().graceful_shutdown();
                    // The client may not react to the goodbye either, so the wait for it is bounded.
                    let _ = timeout(LINGER, connection.as_mut()).await;
                    return;
                }
            }
        }
    }
}

/// Measures how long an HTTP/2 connection has had no request.
struct Idle {
    since: Instant,
    begun: u64,
}

impl Idle {
    fn duration(&mut self, activity: &Activity) -> Duration {
        let begun = activity.begun();
        if activity.active() > 0 || begun != self.begun {
            self.begun = begun;
            self.since = Instant::now();
        }
        self.since.elapsed()
    }
}

#[cfg(test)]
mod tests;
