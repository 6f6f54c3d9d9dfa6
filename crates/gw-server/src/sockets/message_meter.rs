//! The memory of messages that are not complete or that wait: a peer that sends a large one holds its bytes in a pool, and one beyond
//! its share is read no further.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use gw_engine::realtime::{ReadMeter, poll_divided};
use gw_engine::shared_pool::{PoolHolding, UNCOUNTED_BYTES};
use gw_wire::websocket_frames::FrameDivider;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};

use crate::forward::forward_writes;

/// The holding grows in steps of this size.
const STEP_BYTES: u64 = 64 << 10;

#[derive(Debug)]
struct Unfinished {
    bytes: u64,
    holding: PoolHolding,
    is_refused: bool,
}

/// Counts the bytes since the last whole message.
#[derive(Clone, Debug)]
pub(super) struct MessageMeter(Arc<Mutex<Unfinished>>);

impl MessageMeter {
    pub(super) fn new(holding: PoolHolding) -> Self {
        Self(Arc::new(Mutex::new(Unfinished { bytes: 0, holding, is_refused: false })))
    }

    /// Takes the memory of a message that is whole now.
    pub(super) fn take(&self, fresh: PoolHolding) -> PoolHolding {
        let mut unfinished = self.0.lock();
        unfinished.bytes = 0;
        std::mem::replace(&mut unfinished.holding, fresh)
    }

    /// Whether there was no memory for a message.
    pub(super) fn is_refused(&self) -> bool {
        self.0.lock().is_refused
    }
}

impl ReadMeter for MessageMeter {
    fn add(&self, bytes: usize) -> io::Result<()> {
        let mut unfinished = self.0.lock();
        unfinished.bytes += bytes as u64;
        if unfinished.bytes <= UNCOUNTED_BYTES as u64 {
            return Ok(());
        }
        let wanted = unfinished.bytes.next_multiple_of(STEP_BYTES);
        if unfinished.holding.amount() < wanted && unfinished.holding.set(wanted).is_err() {
            unfinished.is_refused = true;
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        Ok(())
    }
}

/// The connection of a socket, whose reads are counted and whose large frames come in fragments.
#[derive(Debug)]
pub(super) struct MeteredIo<T> {
    inner: T,
    frames: FrameDivider,
    meter: MessageMeter,
}

impl<T> MeteredIo<T> {
    /// `most_bytes` is the largest message that the socket takes.
    pub(super) fn new(inner: T, meter: MessageMeter, most_bytes: usize) -> Self {
        Self { inner, frames: FrameDivider::new(most_bytes), meter }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for MeteredIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let read = poll_divided(&mut this.frames, Pin::new(&mut this.inner), cx, buf);
        if let Poll::Ready(Ok(())) = read {
            this.meter.add(buf.filled().len() - before)?;
        }
        read
    }
}

forward_writes!(MeteredIo);
