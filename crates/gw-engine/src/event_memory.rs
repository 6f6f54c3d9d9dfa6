//! One bound for the whole process over the large events that wait for their clients. Each key has a share of it.
//!
//! A stream reads its upstream only when its client has taken the previous output, so a slow client holds one event.
//! Small events are part of the cost of a stream. Large ones are counted here, while they arrive and from the moment
//! they are sent until their last byte is written or dropped.

use std::sync::Arc;

use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;

use crate::shared_pool::{PoolHolding, SharedPool};

/// Events up to this size are not counted.
pub(crate) const SMALL_EVENT: usize = 64 << 10;
/// Output up to this size is copied, and the stream keeps its buffer.
const MAX_COPIED_BYTES: usize = 8 << 10;
/// Bytes of large events that may wait at the same time in a test.
#[cfg(test)]
const LIMIT_BYTES: u64 = 256 << 20;

/// Takes small output for the client. No spare capacity is kept while it waits for the client.
pub(crate) fn take_small(output: &mut Vec<u8>) -> Bytes {
    if output.len() > MAX_COPIED_BYTES {
        return Bytes::from(std::mem::take(output).into_boxed_slice());
    }
    let piece = Bytes::copy_from_slice(output);
    output.clear();
    piece
}

/// Hands output to the client. The output is copied only if half of its memory is unused.
pub(crate) fn hand_over(mut output: Vec<u8>) -> Bytes {
    if output.capacity() / 2 > output.len() {
        output.shrink_to_fit();
    }
    output.into()
}

/// Counts the bytes of large events.
#[derive(Clone, Debug)]
pub(crate) struct EventMemory {
    pool: Arc<SharedPool>,
}

#[cfg(test)]
impl Default for EventMemory {
    fn default() -> Self {
        Self::new(LIMIT_BYTES)
    }
}

/// Counts the large events that a stream holds.
#[derive(Debug)]
pub(crate) struct HalfEvent(PoolHolding);

impl HalfEvent {
    /// Sets the number of bytes that the stream holds.
    ///
    /// # Errors
    /// [`Full`] when there is no room for more.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), Full> {
        let bytes = if bytes > SMALL_EVENT { bytes as u64 } else { 0 };
        self.0.set(bytes).map_err(|_| Full)
    }

    /// Moves the counted bytes into a new counter.
    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    /// Returns the end of a stream as bytes, for which the stream holds at least as much memory. A large end counts until it is
    /// dropped.
    pub(crate) fn hand_out(self, mut event: Vec<u8>) -> Bytes {
        let mut bytes = self.0;
        if event.len() <= SMALL_EVENT {
            return hand_over(event);
        }
        event.shrink_to_fit();
        // The estimate before the end was written stays if it was too low and there is no more room.
        let _ = bytes.set(event.capacity() as u64);
        Bytes::from_owner(Counted { event, _bytes: bytes })
    }
}

/// There is no room: the key holds its share, or all keys hold everything.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// A large event, counted until it is dropped.
struct Counted {
    event: Vec<u8>,
    _bytes: PoolHolding,
}

impl EventMemory {
    /// A pool of `limit_bytes` bytes for large events.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self { pool: SharedPool::new(limit_bytes) }
    }

    /// The bytes in use, for the metrics.
    pub(crate) fn gauge(&self) -> Gauge {
        self.pool.gauge()
    }

    /// The counter of a new stream of this key.
    pub(crate) fn half_event(&self, key: &Arc<str>) -> HalfEvent {
        HalfEvent(self.pool.holding(key))
    }

    /// Counts a large event of this key, and returns it as bytes without a copy.
    ///
    /// # Errors
    /// [`Full`] when there is no room for it.
    pub(crate) fn hand_out(&self, key: &Arc<str>, mut event: Vec<u8>) -> Result<Bytes, Full> {
        // Shrinking may copy, which is not worth a few bytes.
        if event.capacity() - event.len() > event.len() / 8 {
            event.shrink_to_fit();
        }
        let mut bytes = self.pool.holding(key);
        bytes.set(event.capacity() as u64).map_err(|_| Full)?;
        Ok(Bytes::from_owner(Counted { event, _bytes: bytes }))
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    #[test]
    fn large_events_are_counted_until_their_last_slice_is_dropped() {
        let memory = EventMemory::default();
        let mut event = memory.hand_out(&key("a"), vec![b'x'; 100_000]).unwrap();
        assert_eq!(memory.gauge().get(), 100_000);
        let rest = event.split_off(90_000);
        drop(event);
        assert_eq!(memory.gauge().get(), 100_000, "its memory is in use as long as a part of it is");
        drop(rest);
        assert_eq!(memory.gauge().get(), 0);
    }

    #[test]
    fn an_event_counts_while_it_arrives() {
        let memory = EventMemory::default();
        let mut half = memory.half_event(&key("a"));
        for (bytes, counted) in
            [(SMALL_EVENT, 0), (100_000, 100_000), (200_000, 200_000), (0, 0), (70_000, 70_000)]
        {
            half.set(bytes).unwrap();
            assert_eq!(memory.gauge().get(), counted);
        }
        assert_eq!(half.set(1 << 30), Err(Full));
        drop(half);
        assert_eq!(memory.gauge().get(), 0);
    }

    #[test]
    fn the_end_of_a_stream_counts_until_it_is_dropped() {
        let memory = EventMemory::default();
        let mut half = memory.half_event(&key("a"));
        half.set(300_000).unwrap();
        let end = half.take().hand_out(vec![b'x'; 100_000]);
        assert_eq!(memory.gauge().get(), 100_000);
        drop((half, end));
        assert_eq!(memory.gauge().get(), 0);
        let mut half = memory.half_event(&key("a"));
        half.set(SMALL_EVENT + 1).unwrap();
        let small = half.take().hand_out(vec![b'x'; 1_000]);
        assert_eq!((memory.gauge().get(), small.len()), (0, 1_000));
    }

    #[test]
    fn beyond_its_share_a_key_gets_nothing_and_others_do() {
        let memory = EventMemory::default();
        let share = usize::try_from(LIMIT_BYTES / 2).unwrap();
        let mut most = memory.half_event(&key("a"));
        most.set(share - 100_000).unwrap();
        let held = memory.hand_out(&key("a"), vec![b'x'; 100_000]).unwrap();
        assert_eq!(memory.hand_out(&key("a"), vec![b'x'; 70_000]), Err(Full));
        assert_eq!(memory.gauge().get(), i64::try_from(share).unwrap(), "what was refused is not counted");
        let other = memory.hand_out(&key("b"), vec![b'x'; 32 << 20]).unwrap();
        drop((held, other));
        memory.hand_out(&key("a"), vec![b'x'; 70_000]).unwrap();
    }
}
