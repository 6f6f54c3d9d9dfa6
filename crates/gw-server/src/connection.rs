//! One client connection: TLS if asked for, HTTP/1 or HTTP/2 by its first bytes, then requests until it ends.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::frames::FrameClock;
use crate::guarded::{Activity, Guarded, Limits, Transport};
use crate::head_errors::{self, HoldBack};
use crate::refusal::Porter;
use crate::rewind::Rewind;
use crate::stall::Watching;

/// What an HTTP/2 client sends first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const MAX_HEAD: usize = 32 << 10;
const MAX_HEADERS: usize = 64;
/// Beyond it HTTP/2 answers by itself, and without a body. The handler refuses less, with one.
const MAX_HTTP2_HEADER_LIST: u32 = 32 << 10;
const MAX_BUFFER: usize = 64 << 10;
/// After an answer that the client did not wait for: so much is read, and so long is waited, before the close.
const LINGER_BYTES: u64 = 64 << 10;
const LINGER: Duration = Duration::from_secs(2);
/// What the first byte of a connection may still take then.
const LAST_FIRST_BYTE: Duration = Duration::from_millis(200);
/// What a request head that has begun may still take when the shutdown begins.
const LAST_HEAD: Duration = Duration::from_secs(1);
/// How often an HTTP/2 connection is asked whether it is idle.
const IDLE_CHECK: Duration = Duration::from_secs(15);

/// What every connection is given.
#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) limits: Limits,
    pub(crate) tls: Option<TlsAcceptor>,
    /// Cancelled when no new request should come.
    pub(crate) drain: CancellationToken,
    /// Set before `drain` is cancelled.
    pub(crate) ending: Arc<AtomicBool>,
    /// Where the tasks of HTTP/2 streams are counted.
    pub(crate) tracker: TaskTracker,
    /// Refuses connections under overload; None: none is refused.
    pub(crate) porter: Option<Porter>,
}

/// When a token that is hardly ever cancelled must be polled: once, so that it knows whom to wake, and again when the
/// flag is up. Polling it whenever its task runs would take its lock for every piece of every stream.
pub(crate) struct Glance {
    flag: Arc<AtomicBool>,
    armed: bool,
}

impl Glance {
    pub(crate) fn new(flag: Arc<AtomicBool>) -> Self {
        Self { flag, armed: false }
    }

    pub(crate) fn is_due(&mut self) -> bool {
        !std::mem::replace(&mut self.armed, true) || self.flag.load(Ordering::Acquire)
    }
}

/// A socket whose HTTP/1 clocks can be started through whatever wraps it.
trait Clocked: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn expect_head(&mut self, deadline: Instant);
}

impl<T: Transport> Clocked for Guarded<T> {
    fn expect_head(&mut self, deadline: Instant) {
        Self::expect_head(self, deadline);
    }
}

impl<T: Transport> Clocked for TlsStream<Guarded<T>> {
    fn expect_head(&mut self, deadline: Instant) {
        self.get_mut().0.expect_head(deadline);
    }
}

/// Serves a connection to its end. `activity` is what `service` reports its requests to.
pub(crate) async fn run<T, S, B>(socket: T, terms: Terms, activity: Arc<Activity>, service: S)
where
    T: Transport,
    S: Service<Request<Incoming>, Response = Response<B>, Error = std::convert::Infallible>
        + Unpin
        + Send
        + 'static,
    S::Future: Unpin + Send + 'static,
    B: Body<Data = Bytes, Error = std::convert::Infallible> + Unpin + Send + 'static,
{
    let deadline = Instant::now() + terms.limits.head;
    let socket = Guarded::new(socket, Arc::clone(&activity), terms.limits);
    let Some(tls) = terms.tls.clone() else {
        return plain(socket, deadline, terms, &activity, service).await;
    };
    let handshake = timeout_at(deadline, tls.accept(socket));
    let accepted = tokio::select! {
        accepted = handshake => accepted,
        () = terms.drain.cancelled() => return,
    };
    if let Ok(Ok(stream)) = accepted {
        plain(stream, deadline, terms, &activity, service).await;
    }
}

/// From the first byte of HTTP on.
async fn plain<T, S, B>(mut io: T, deadline: Instant, terms: Terms, activity: &Activity, service: S)
where
    T: Clocked,
    S: Service<Request<Incoming>, Response = Response<B>, Error = std::convert::Infallible>
        + Unpin
        + Send
        + 'static,
    S::Future: Unpin + Send + 'static,
    B: Body<Data = Bytes, Error = std::convert::Infallible> + Unpin + Send + 'static,
{
    let detected = {
        let mut detecting = std::pin::pin!(timeout_at(deadline, detect(&mut io)));
        tokio::select! {
            detected = &mut detecting => detected,
            // Whoever was let in just before the end still gets an answer, if the request is on its way.
            () = terms.drain.cancelled() => match timeout(LAST_FIRST_BYTE, &mut detecting).await {
                Ok(detected) => detected,
                Err(_) => return,
            },
        }
    };
    match detected {
        Ok(Ok(Some((Protocol::Http1, prefix)))) => {
            if let Some(porter) = &terms.porter {
                match porter.refuse(&prefix, io).await {
                    Some(back) => io = back,
                    None => return,
                }
            }
            io.expect_head(deadline);
            serve_http1(Rewind::new(prefix, io), &terms, activity, service).await;
        }
        Ok(Ok(Some((Protocol::Http2, prefix)))) => {
            let io = FrameClock::new(io, terms.limits.head, deadline);
            serve_http2(Rewind::new(prefix, io), &terms, activity, service).await;
        }
        Ok(Ok(None) | Err(_)) | Err(_) => {}
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// Reads until the first bytes can only be one protocol. None: the client left without a word.
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

async fn serve_http1<T, S, B>(io: T, terms: &Terms, activity: &Activity, service: S)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = std::convert::Infallible> + Unpin,
    S::Future: Unpin,
    B: Body<Data = Bytes, Error = std::convert::Infallible> + 'static,
{
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .half_close(false)
        .keep_alive(true)
        .pipeline_flush(false)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_BUFFER);
    let mut connection = builder.serve_connection(TokioIo::new(HoldBack::new(io)), service);
    let mut drain = std::pin::pin!(terms.drain.cancelled());
    let mut last_head = std::pin::pin!(tokio::time::sleep(Duration::MAX / 4));
    let mut glance = Glance::new(Arc::clone(&terms.ending));
    let mut drained = false;
    let ended = poll_fn(|cx| {
        if let Poll::Ready(ended) = connection.poll_without_shutdown(cx) {
            return Poll::Ready(Some(ended));
        }
        if !glance.is_due() {
            return Poll::Pending;
        }
        if !drained && drain.as_mut().poll(cx).is_ready() {
            drained = true;
            last_head.as_mut().reset(Instant::now() + LAST_HEAD);
            Pin::new(&mut connection).graceful_shutdown();
            cx.waker().wake_by_ref();
        }
        while drained && last_head.as_mut().poll(cx).is_ready() {
            // A request head that is still on its way must not hold up the shutdown.
            if activity.active() == 0 {
                return Poll::Ready(None);
            }
            last_head.as_mut().reset(Instant::now() + LAST_HEAD);
        }
        Poll::Pending
    })
    .await;
    let Some(ended) = ended else { return };
    let (io, held) = connection.into_parts().io.into_inner().into_parts();
    match &ended {
        Ok(()) => close(io, held, activity.is_unread()).await,
        Err(error) if error.is_parse() => {
            let answer = if held.is_empty() { held } else { head_errors::answer(&held, error) };
            close(io, answer, true).await;
        }
        // The socket failed, or one of its clocks ran out.
        Err(_) => {}
    }
}

/// Writes the last words and says goodbye. A client that is still sending gets the time to read its answer: closing at once would reset the
/// connection, and the answer could be lost with it.
async fn close<T: AsyncRead + AsyncWrite + Unpin>(mut io: T, last: Vec<u8>, is_unread: bool) {
    let goodbye = async {
        if io.write_all(&last).await.is_err() || io.shutdown().await.is_err() || !is_unread {
            return;
        }
        let mut rest = AsyncReadExt::take(&mut io, LINGER_BYTES);
        let drained = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
        // Not all of it: the rest is left to the flow control of the kernel until the time is over.
        if drained.is_ok_and(|bytes| bytes == LINGER_BYTES) {
            std::future::pending::<()>().await;
        }
    };
    let _ = timeout(LINGER, goodbye).await;
}

async fn serve_http2<T, S, B>(io: T, terms: &Terms, activity: &Activity, service: S)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = std::convert::Infallible> + Unpin + Send,
    S::Future: Send + 'static,
    B: Body<Data = Bytes, Error = std::convert::Infallible> + Send + 'static,
{
    let watching = Watching { tracker: terms.tracker.clone(), limit: terms.limits.write_stall };
    let mut builder = http2::Builder::new(watching);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(100)
        .initial_stream_window_size(64 << 10)
        .initial_connection_window_size(1 << 20)
        .max_header_list_size(MAX_HTTP2_HEADER_LIST)
        .max_send_buf_size(MAX_BUFFER)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(64)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(io), service));
    let mut checks = tokio::time::interval(IDLE_CHECK.min(terms.limits.idle));
    let mut idle = Idle { since: Instant::now(), begun: 0 };
    let mut drained = false;
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = terms.drain.cancelled(), if !drained => {
                drained = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = checks.tick() => {
                if idle.lasts(activity) >= terms.limits.idle {
                    connection.as_mut().graceful_shutdown();
                    // The goodbye itself may not be answered either.
                    let _ = timeout(LINGER, connection.as_mut()).await;
                    return;
                }
            }
        }
    }
}

/// Since when an HTTP/2 connection has had no request.
struct Idle {
    since: Instant,
    begun: u64,
}

impl Idle {
    fn lasts(&mut self, activity: &Activity) -> Duration {
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
