//! Drives a connection inside the task that waits for it. This needs no task per connection, no wake-up between
//! threads, and no wake-up of the running task.
//!
//! hyper passes chunks through channels and wakes their other end. Both ends are in one task here, so these wake-ups
//! would only schedule the running task again for each chunk. The connection and its socket therefore get a waker of
//! their own. While the task polls the connection, the waker only sets a flag. At other times it wakes the task. A task
//! that was woken for another reason finds no flag and does not poll the connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// The task is polling the connection.
const INSIDE: u8 = 1;
/// The connection was woken, or was not polled since it was last ready.
const WOKEN: u8 = 2;

/// The most polls of a connection that keeps waking itself, before the task yields.
const ROUNDS: usize = 8;

/// The waker between a connection and the task that drives it.
pub(crate) struct Relay {
    state: AtomicU8,
    task: Mutex<Waker>,
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(WOKEN, Ordering::AcqRel) & INSIDE == 0 {
            self.task.lock().wake_by_ref();
        }
    }
}

impl Relay {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(WOKEN), task: Mutex::new(Waker::noop().clone()) })
    }

    /// Prepares for a new driver, so wake-ups until then do not reach the previous driver.
    pub(crate) fn enter(&self) {
        self.state.store(INSIDE | WOKEN, Ordering::Release);
    }

    /// Polls `step` with `waker`, which must be this relay's, if the connection was woken. Repeats until `step` is
    /// ready or was not woken while it ran.
    pub(crate) fn drive<T>(
        &self,
        waker: &Waker,
        cx: &mut Context<'_>,
        mut step: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        {
            let mut task = self.task.lock();
            if !task.will_wake(cx.waker()) {
                task.clone_from(cx.waker());
            }
        }
        // A later wake-up reaches the task, because its waker is already stored.
        if self.state.load(Ordering::Acquire) & WOKEN == 0 {
            return Poll::Pending;
        }
        let mut inner = Context::from_waker(waker);
        for _ in 0..ROUNDS {
            self.state.store(INSIDE, Ordering::Release);
            let polled = step(&mut inner);
            if polled.is_ready() {
                self.state.store(WOKEN, Ordering::Release);
                return polled;
            }
            // The swap is atomic: a wake-up from elsewhere is either seen here or reaches the task.
            if self.state.swap(0, Ordering::AcqRel) & WOKEN == 0 {
                return Poll::Pending;
            }
        }
        self.state.store(WOKEN, Ordering::Release);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A socket, encrypted or not.
pub(crate) enum Socket {
    /// Cleartext.
    Plain(TcpStream),
    /// TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Self::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(tcp) => tcp.is_write_vectored(),
            Self::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            // A TCP socket has nothing to flush. This is called once per chunk.
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
