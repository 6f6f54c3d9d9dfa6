//! A client's socket with its clocks: the first byte, the head, the idle time between requests, the write stall.
//!
//! One timer serves all of them and is armed only while a read or a write waits; a busy connection costs none.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

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
}

impl Activity {
    /// A request is being answered until the guard drops.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.active.fetch_add(1, Ordering::AcqRel);
        self.begun.fetch_add(1, Ordering::AcqRel);
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

    /// Fails once the earliest running clock is over; otherwise sees to it that the task is woken then.
    fn check_clocks(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let deadline = match (self.reading_deadline(), self.stalled_at) {
            (Some(read), Some(write)) => read.min(write),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return Ok(()),
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if deadline < timer.deadline() {
            timer.as_mut().reset(deadline);
        }
        // A timer left over from an earlier, shorter clock is moved only when it fires.
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            timer.as_mut().reset(deadline);
        }
        Ok(())
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

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
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

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
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
