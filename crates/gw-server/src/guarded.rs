//! A client's socket with its clocks: the first byte, the head, the idle time between requests, the write stall, the end of
//! an answer's time.
//!
//! One timer serves all of them and is armed only while a read or a write waits; a busy connection costs none.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// How long a client may still take what is ready for it when the time of its answer is used up. A stream ends itself at its
/// time, and its last event gets this long to leave.
pub(crate) const LAST_BYTES: Duration = Duration::from_millis(150);

/// A transport below [`Guarded`].
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Has the close drop what the peer has not taken: the kernel would keep it for minutes.
    fn abandon(&self);
}

impl Transport for TcpStream {
    fn abandon(&self) {
        // A socket that refuses it is closed all the same.
        let _kept = self.set_zero_linger();
    }
}

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) head: Duration,
    pub(crate) idle: Duration,
    pub(crate) write_stall: Duration,
}

/// What the request handlers tell the socket below them.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    active: AtomicU32,
    begun: AtomicU64,
    unread: AtomicBool,
    /// By when the client must have taken the answer; of HTTP/1 only, where there is one at a time.
    due: Mutex<Option<Instant>>,
}

impl Activity {
    /// A request is being answered until the guard drops.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.active.fetch_add(1, Ordering::AcqRel);
        self.begun.fetch_add(1, Ordering::AcqRel);
        self.answer_by(None);
        Busy(Arc::clone(self))
    }

    /// Requests being answered now.
    pub(crate) fn active(&self) -> u32 {
        self.active.load(Ordering::Acquire)
    }

    /// Requests ever begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// An answer was given although the client is still sending: the connection must linger, not be reset.
    pub(crate) fn leave_unread(&self) {
        self.unread.store(true, Ordering::Release);
    }

    /// The answer under way must have been taken by then; None = whenever.
    pub(crate) fn answer_by(&self, due: Option<Instant>) {
        *self.due.lock() = due;
    }

    /// Whether [`Activity::leave_unread`] was called.
    pub(crate) fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Acquire)
    }
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Busy {
    /// The answer must have been taken by then.
    pub(crate) fn answer_by(&self, due: Instant) {
        self.0.answer_by(Some(due));
    }
}

/// Which clock of the reading side runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Someone else keeps time (detection, HTTP/2), or a request is being answered.
    Untimed,
    /// A head has begun and must be complete by then.
    Head(Instant),
    /// Nothing has come since the last answer.
    Idle(Instant),
}

/// A socket with clocks.
#[derive(Debug)]
pub(crate) struct Guarded<T> {
    inner: T,
    activity: Arc<Activity>,
    limits: Limits,
    http1: bool,
    seen: u64,
    reading: Reading,
    stalled_at: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<T> Guarded<T> {
    /// Only the write stall is timed until [`Guarded::expect_head`].
    pub(crate) fn new(inner: T, activity: Arc<Activity>, limits: Limits) -> Self {
        Self {
            inner,
            activity,
            limits,
            http1: false,
            seen: 0,
            reading: Reading::Untimed,
            stalled_at: None,
            timer: None,
        }
    }

    /// This is HTTP/1, and its first head must be complete by `deadline`.
    pub(crate) fn expect_head(&mut self, deadline: Instant) {
        self.http1 = true;
        self.reading = Reading::Head(deadline);
    }

    /// A new request, or the end of one, starts the reading clocks afresh.
    fn follow_requests(&mut self) {
        let begun = self.activity.begun();
        if begun != self.seen {
            self.seen = begun;
            self.reading = Reading::Untimed;
        }
    }

    fn reading_deadline(&self) -> Option<Instant> {
        match self.reading {
            Reading::Untimed => None,
            Reading::Head(at) | Reading::Idle(at) => (self.activity.active() == 0).then_some(at),
        }
    }

    /// When what waits to be written must be gone.
    fn writing_deadline(&self) -> Option<Instant> {
        let stalled = self.stalled_at?;
        // Over HTTP/2 each stream has a watch of its own.
        let due = self.http1.then(|| *self.activity.due.lock()).flatten();
        Some(due.map_or(stalled, |due| stalled.min(due + LAST_BYTES)))
    }
}

impl<T: Transport> Guarded<T> {
    /// Fails once the earliest running clock is over; otherwise sees to it that the task is woken then.
    fn check_clocks(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let write = self.writing_deadline();
        let Some(deadline) = [self.reading_deadline(), write].into_iter().flatten().min() else {
            return Ok(());
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if deadline < timer.deadline() {
            timer.as_mut().reset(deadline);
        }
        // A timer left over from an earlier, shorter clock is moved only when it fires. A timer takes part in the budget of its
        // task, so that a busy task may never see it fire: the time counts, too.
        loop {
            let fired = timer.as_mut().poll(cx).is_ready();
            if Instant::now() >= deadline {
                if write.is_some() {
                    self.inner.abandon();
                }
                return Err(io::ErrorKind::TimedOut.into());
            }
            if !fired {
                return Ok(());
            }
            timer.as_mut().reset(deadline);
        }
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
            self.stalled_at = Some(Instant::now() + self.limits.write_stall);
        }
        self.check_clocks(cx)?;
        Poll::Pending
    }
}

impl<T: Transport> AsyncRead for Guarded<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let read = Pin::new(&mut this.inner).poll_read(cx, buf);
        if this.http1 {
            this.follow_requests();
            let idle = this.activity.active() == 0;
            match (&read, this.reading) {
                (Poll::Ready(Ok(())), Reading::Untimed | Reading::Idle(_))
                    if idle && buf.filled().len() > before =>
                {
                    this.reading = Reading::Head(Instant::now() + this.limits.head);
                }
                (Poll::Pending, Reading::Untimed) if idle => {
                    this.reading = Reading::Idle(Instant::now() + this.limits.idle);
                }
                _ => {}
            }
        }
        if read.is_pending() {
            this.check_clocks(cx)?;
        }
        read
    }
}

impl<T: Transport> AsyncWrite for Guarded<T> {
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
