//! The head clock of HTTP/2.
//!
//! A header block must be complete within the head timeout: it may span CONTINUATION frames, and until its last one the
//! connection can carry nothing else. The same holds for every other frame but DATA, whose pace is the body's matter.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::forward::forward_writes;

/// Length, type, flags and stream of a frame.
const FRAME_HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Follows the frames of a byte stream without keeping them.
#[derive(Debug)]
struct Frames {
    head: [u8; FRAME_HEAD],
    /// Bytes of `head` that have come.
    have: usize,
    /// Bytes of the payload that are still to come.
    left: usize,
    /// The frame that `left` belongs to is not timed here.
    is_data: bool,
    /// A header block has begun, and its last frame has not.
    in_block: bool,
}

impl Frames {
    fn new() -> Self {
        Self { head: [0; FRAME_HEAD], have: 0, left: 0, is_data: false, in_block: false }
    }

    /// Takes the next bytes. True: at least one unit (a frame, or a header block as a whole) ended in them.
    fn feed(&mut self, mut bytes: &[u8]) -> bool {
        let mut ended = false;
        while !bytes.is_empty() {
            let taken = if self.left > 0 { self.left.min(bytes.len()) } else { self.feed_head(bytes) };
            if self.have == FRAME_HEAD {
                self.have = 0;
                self.begin();
            } else if self.left > 0 {
                self.left -= taken;
            }
            ended |= self.is_between();
            bytes = bytes.get(taken..).unwrap_or_default();
        }
        ended
    }

    /// Takes what the head of the next frame still needs.
    fn feed_head(&mut self, bytes: &[u8]) -> usize {
        let missing = self.head.iter_mut().skip(self.have);
        let taken = missing.zip(bytes).map(|(to, from)| *to = *from).count();
        self.have += taken;
        taken
    }

    /// The head is complete.
    fn begin(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.is_data = kind == DATA;
        if matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION) {
            self.in_block = flags & END_HEADERS == 0;
        }
    }

    /// Nothing has begun that must be complete in time.
    fn is_between(&self) -> bool {
        self.have == 0 && (self.left == 0 || self.is_data) && !self.in_block
    }
}

/// A socket of an HTTP/2 connection whose preface has been read, with the head clock.
#[derive(Debug)]
pub(crate) struct FrameClock<T> {
    inner: T,
    limit: Duration,
    frames: Frames,
    /// When what has begun must be complete.
    deadline: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<T> FrameClock<T> {
    /// The client's SETTINGS belong to its preface, so the clock runs until they have come.
    pub(crate) fn new(inner: T, limit: Duration, first_frame: Instant) -> Self {
        Self { inner, limit, frames: Frames::new(), deadline: Some(first_frame), timer: None }
    }

    fn follow(&mut self, bytes: &[u8]) {
        let ended = self.frames.feed(bytes);
        if self.frames.is_between() {
            self.deadline = None;
        } else if ended || self.deadline.is_none() {
            self.deadline = Some(Instant::now() + self.limit);
        }
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if deadline < timer.deadline() {
            timer.as_mut().reset(deadline);
        }
        // A timer of an earlier frame is moved only when it fires.
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            timer.as_mut().reset(deadline);
        }
        Ok(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for FrameClock<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        if read.is_pending() {
            self.check(cx)?;
        } else if let Some(bytes) = buf.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            self.follow(bytes);
        }
        read
    }
}

forward_writes!(FrameClock);

#[cfg(test)]
mod tests;
