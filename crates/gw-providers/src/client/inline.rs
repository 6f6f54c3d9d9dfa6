//! Drives a connection inside the task that waits for it: no task of its own, no wake-up between threads, and no
//! wake-up of the very task that is running.
//!
//! hyper passes chunks through channels and wakes their other end. Both ends live in one task here, so those wakes
//! would only schedule the running task once more per chunk. The connection and the socket below it therefore get a waker of
//! their own, which takes a note while the task is inside and wakes it otherwise. A task that was woken for another reason
//! finds no note, and leaves the connection alone.

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
/// Somebody woke the connection, or nobody has looked at it since it gave something.
const WOKEN: u8 = 2;

/// How often a connection that wakes itself is polled again before the task yields.
const ROUNDS: usize = 8;

/// The waker that stands between a connection and the task it is driven by.
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

    /// The connection is about to be driven: what wakes it until then need not wake whoever drove it before.
    pub(crate) fn enter(&self) {
        self.state.store(INSIDE | WOKEN, Ordering::Release);
    }

    /// Polls `step` with `waker` (this relay's), if anything woke it, until it is ready or nothing woke it while it ran.
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
        // A wake after this look reaches the task, whose waker is in its place by now.
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
            // One step: a wake from elsewhere is either noted before this or reaches the task after it.
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
            // A TCP socket has nothing to flush; this is called once per chunk.
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
