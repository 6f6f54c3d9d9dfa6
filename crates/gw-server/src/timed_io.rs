//! A client's socket with its timeouts: the request head, the pause between requests, `send_timeout`, the deadline of an
//! answer.
//!
//! One timer serves all timeouts. It is armed only while a read or a write waits, so a busy connection arms none.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use gw_engine::LastKey;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::deadline_timer::DeadlineTimer;
use crate::takeover::{Takeover, TakeoverSlot};

/// The time after the deadline of an answer in which the client may still take its last bytes. A stream ends itself at its
/// deadline, and its last event leaves in this time.
pub(crate) const LAST_BYTES: Duration = Duration::from_millis(150);

/// A transport below [`TimedIo`].
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes the close drop the bytes that the peer has not taken. The kernel would keep them for minutes.
    fn abandon(&self);
}

impl Transport for TcpStream {
    fn abandon(&self) {
        // The socket is closed even if this fails.
        let _ignored = self.set_zero_linger();
    }
}

/// The timeouts of a client connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientTimeouts {
    pub(crate) head: Duration,
    pub(crate) idle: Duration,
    pub(crate) send_timeout: Duration,
}

/// The facts that request handlers tell the socket below them.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    active: AtomicU32,
    begun: AtomicU64,
    unread: AtomicBool,
    /// The time by which the client must have taken the current answer. Only HTTP/1 uses it, which has one answer at a time.
    deadline: Mutex<Option<Instant>>,
    last_key: LastKey,
    takeover: TakeoverSlot,
}

impl Activity {
    /// Notes a new request. The request is over when the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> RequestGuard {
        self.active.fetch_add(1, Ordering::AcqRel);
        self.begun.fetch_add(1, Ordering::AcqRel);
        self.answer_by(None);
        RequestGuard(Arc::clone(self))
    }

    /// The number of requests in progress.
    pub(crate) fn active(&self) -> u32 {
        self.active.load(Ordering::Acquire)
    }

    /// The number of requests since the connection began.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Notes that the client still sends although its answer is given. The connection must then linger instead of closing
    /// with a reset.
    pub(crate) fn leave_unread(&self) {
        self.unread.store(true, Ordering::Release);
    }

    /// Sets the time by which the client must have taken the current answer; None = no limit.
    pub(crate) fn answer_by(&self, deadline: Option<Instant>) {
        *self.deadline.lock() = deadline;
    }

    /// Takes what serves the connection after its 101. None: the connection has been HTTP to its end.
    pub(crate) fn take_takeover(&self) -> Option<Takeover> {
        self.takeover.take()
    }

    /// Whether [`Activity::leave_unread`] was called.
    pub(crate) fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Acquire)
    }
}

/// A request in progress. It ends when this guard is dropped.
#[derive(Debug)]
pub(crate) struct RequestGuard(Arc<Activity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::AcqRel);
    }
}

impl RequestGuard {
    /// The last accepted key of the connection.
    pub(crate) fn last_key(&self) -> &LastKey {
        &self.0.last_key
    }

    /// Hands the connection over, once the answer of this request is written.
    pub(crate) fn leave_takeover(&self, takeover: Takeover) {
        self.0.takeover.leave(takeover);
    }

    /// Sets the time by which the client must have taken the answer.
    pub(crate) fn answer_by(&self, deadline: Instant) {
        self.0.answer_by(Some(deadline));
    }
}

/// The timeout that reading has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadTimeout {
    /// None here: the protocol detection or HTTP/2 has its own, or a request is in progress.
    Untimed,
    /// A request head has begun and must be complete by this time.
    Head(Instant),
    /// A new request must begin by this time.
    Idle(Instant),
}

/// A socket with timeouts.
#[derive(Debug)]
pub(crate) struct TimedIo<T> {
    inner: T,
    activity: Arc<Activity>,
    timeouts: ClientTimeouts,
    is_http1: bool,
    /// The number of requests at the last look.
    requests_seen: u64,
    reading: ReadTimeout,
    stalled_at: Option<Instant>,
    timer: DeadlineTimer,
}

impl<T> TimedIo<T> {
    /// Until [`TimedIo::expect_head`] only `send_timeout` is timed.
    pub(crate) fn new(inner: T, activity: Arc<Activity>, timeouts: ClientTimeouts) -> Self {
        Self {
            inner,
            activity,
            timeouts,
            is_http1: false,
            requests_seen: 0,
            reading: ReadTimeout::Untimed,
            stalled_at: None,
            timer: DeadlineTimer::default(),
        }
    }

    /// Declares that this is HTTP/1, whose first request head must be complete by `deadline`.
    pub(crate) fn expect_head(&mut self, deadline: Instant) {
        self.is_http1 = true;
        self.reading = ReadTimeout::Head(deadline);
    }

    /// Ends the read timeout when a new request has begun.
    fn follow_requests(&mut self) {
        let begun = self.activity.begun();
        if begun != self.requests_seen {
            self.requests_seen = begun;
            self.reading = ReadTimeout::Untimed;
        }
    }

    fn reading_deadline(&self) -> Option<Instant> {
        match self.reading {
            ReadTimeout::Untimed => None,
            ReadTimeout::Head(at) | ReadTimeout::Idle(at) => (self.activity.active() == 0).then_some(at),
        }
    }

    /// The time by which the waiting bytes must be written.
    fn writing_deadline(&self) -> Option<Instant> {
        let stalled = self.stalled_at?;
        // Each stream of HTTP/2 is watched by its own task (`stall.rs`).
        let answer = self.is_http1.then(|| *self.activity.deadline.lock()).flatten();
        Some(answer.map_or(stalled, |answer| stalled.min(answer + LAST_BYTES)))
    }
}

impl<T: Transport> TimedIo<T> {
    /// Fails when a timeout is over. Otherwise makes sure that the task wakes at the next one.
    fn check_timeouts(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let write = self.writing_deadline();
        let Some(deadline) = [self.reading_deadline(), write].into_iter().flatten().min() else {
            return Ok(());
        };
        if !self.timer.poll_is_over(cx, deadline) {
            return Ok(());
        }
        if write.is_some() {
            self.inner.abandon();
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn after_write(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled_at = None;
            return written;
        }
        if self.stalled_at.is_none() {
            self.stalled_at = Some(Instant::now() + self.timeouts.send_timeout);
        }
        self.check_timeouts(cx)?;
        Poll::Pending
    }
}

impl<T: Transport> AsyncRead for TimedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let read = Pin::new(&mut this.inner).poll_read(cx, buf);
        if this.is_http1 {
            this.follow_requests();
            let is_idle = this.activity.active() == 0;
            match (&read, this.reading) {
                (Poll::Ready(Ok(())), ReadTimeout::Untimed | ReadTimeout::Idle(_))
                    if is_idle && buf.filled().len() > before =>
                {
                    this.reading = ReadTimeout::Head(Instant::now() + this.timeouts.head);
                }
                (Poll::Pending, ReadTimeout::Untimed) if is_idle => {
                    this.reading = ReadTimeout::Idle(Instant::now() + this.timeouts.idle);
                }
                _ => {}
            }
        }
        if read.is_pending() {
            this.check_timeouts(cx)?;
        }
        read
    }
}

impl<T: Transport> AsyncWrite for TimedIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.after_write(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.after_write(cx, written)
    }
}

#[cfg(test)]
mod tests;
