//! The head clock of HTTP/2.
//!
//! A header block, with its CONTINUATION frames, must be complete within the head timeout: until then the connection can
//! carry nothing else. Every other frame has the same limit, except DATA, whose pace the body's own timeout limits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use crate::deadline_timer::DeadlineTimer;
use crate::forward::forward_writes;

/// The bytes before a frame's payload: length, type, flags and stream.
const FRAME_HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Follows the frames of a byte stream without storing them.
#[derive(Debug)]
struct FrameTracker {
    head: [u8; FRAME_HEAD_BYTES],
    /// The bytes of `head` that have arrived.
    head_len: usize,
    /// The bytes of the payload that have not arrived yet.
    payload_left: usize,
    /// The current frame is DATA, which is not timed here.
    is_data: bool,
    /// A header block has begun and its last frame has not ended.
    is_in_block: bool,
}

impl FrameTracker {
    fn new() -> Self {
        Self { head: [0; FRAME_HEAD_BYTES], head_len: 0, payload_left: 0, is_data: false, is_in_block: false }
    }

    /// Follows the next bytes. Returns whether a frame or a whole header block ended in them.
    fn feed(&mut self, mut bytes: &[u8]) -> bool {
        let mut ended = false;
        while !bytes.is_empty() {
            let taken = if self.payload_left > 0 {
                self.payload_left.min(bytes.len())
            } else {
                self.feed_head(bytes)
            };
            if self.head_len == FRAME_HEAD_BYTES {
                self.head_len = 0;
                self.begin_payload();
            } else if self.payload_left > 0 {
                self.payload_left -= taken;
            }
            ended |= self.is_between();
            bytes = bytes.get(taken..).unwrap_or_default();
        }
        ended
    }

    /// Takes the missing bytes of the next frame's head, and returns their number.
    fn feed_head(&mut self, bytes: &[u8]) -> usize {
        let missing = self.head.iter_mut().skip(self.head_len);
        let taken = missing.zip(bytes).map(|(to, from)| *to = *from).count();
        self.head_len += taken;
        taken
    }

    /// Reads a complete frame head.
    fn begin_payload(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.payload_left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.is_data = kind == DATA;
        if matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION) {
            self.is_in_block = flags & END_HEADERS == 0;
        }
    }

    /// Whether no timed frame or header block is incomplete.
    fn is_between(&self) -> bool {
        self.head_len == 0 && (self.payload_left == 0 || self.is_data) && !self.is_in_block
    }
}

/// The socket of an HTTP/2 connection whose preface has been read, with the head clock.
#[derive(Debug)]
pub(crate) struct FrameClock<T> {
    inner: T,
    limit: Duration,
    frames: FrameTracker,
    /// The time by which the current frame or header block must be complete.
    deadline: Option<Instant>,
    timer: DeadlineTimer,
}

impl<T> FrameClock<T> {
    /// Starts the clock: the client's SETTINGS belong to its preface and must arrive by `first_frame`.
    pub(crate) fn new(inner: T, limit: Duration, first_frame: Instant) -> Self {
        Self {
            inner,
            limit,
            frames: FrameTracker::new(),
            deadline: Some(first_frame),
            timer: DeadlineTimer::default(),
        }
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
        if self.timer.poll_is_over(cx, deadline) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
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
