//! One bound for the whole process over the large events that wait for their clients.
//!
//! A stream reads its upstream only when its client has taken the previous output, so a slow client holds one event.
//! Small events are part of the cost of a stream. Large ones are counted here, while they arrive and from the moment
//! they are sent until their last byte is written or dropped.

use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;

/// Events up to this size are not counted.
pub(crate) const SMALL_EVENT: usize = 64 << 10;
/// Output up to this size is copied, and the stream keeps its buffer.
const MAX_COPIED_BYTES: usize = 8 << 10;
/// Bytes of large events that may wait at the same time.
const LIMIT_BYTES: i64 = 256 << 20;

/// Takes small output for the client. No spare capacity is kept while it waits for the client.
pub(crate) fn take_small(output: &mut Vec<u8>) -> Bytes {
    if output.len() > MAX_COPIED_BYTES {
        return Bytes::from(std::mem::take(output).into_boxed_slice());
    }
    let piece = Bytes::copy_from_slice(output);
    output.clear();
    piece
}

/// Counts the bytes of large events.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventMemory {
    used: Gauge,
}

/// Counts the large events that a stream holds.
#[derive(Debug)]
pub(crate) struct HalfEvent {
    bytes: i64,
    memory: EventMemory,
}

impl HalfEvent {
    /// Sets the number of bytes that the stream holds.
    ///
    /// # Errors
    /// [`Full`] when there is no room for more.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), Full> {
        let bytes = if bytes > SMALL_EVENT { i64::try_from(bytes).unwrap_or(i64::MAX) } else { 0 };
        let more = bytes - self.bytes;
        if more == 0 {
            return Ok(());
        }
        self.bytes = bytes;
        let before = self.memory.used.inc_by(more);
        if more > 0 && before.saturating_add(more) > LIMIT_BYTES { Err(Full) } else { Ok(()) }
    }
}

impl Drop for HalfEvent {
    fn drop(&mut self) {
        self.memory.used.dec_by(self.bytes);
    }
}

/// The bound is reached.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// A large event, counted until it is dropped.
struct Counted {
    event: Vec<u8>,
    bytes: i64,
    used: Gauge,
}

impl EventMemory {
    /// The bytes in use, for the metrics.
    pub(crate) fn gauge(&self) -> Gauge {
        self.used.clone()
    }

    /// The counter of a new stream.
    pub(crate) fn half_event(&self) -> HalfEvent {
        HalfEvent { bytes: 0, memory: self.clone() }
    }

    /// Counts a large event and gives it as bytes, without a copy.
    ///
    /// # Errors
    /// [`Full`] when there is no room for it.
    pub(crate) fn hand_out(&self, mut event: Vec<u8>) -> Result<Bytes, Full> {
        // Shrinking may copy, which is not worth a few bytes.
        if event.capacity() - event.len() > event.len() / 8 {
            event.shrink_to_fit();
        }
        let bytes = i64::try_from(event.capacity()).unwrap_or(i64::MAX);
        let before = self.used.inc_by(bytes);
        let counted = Counted { event, bytes, used: self.used.clone() };
        if before.saturating_add(bytes) > LIMIT_BYTES { Err(Full) } else { Ok(Bytes::from_owner(counted)) }
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.event
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.used.dec_by(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_events_are_counted_until_their_last_slice_is_dropped() {
        let memory = EventMemory::default();
        let mut event = memory.hand_out(vec![b'x'; 100_000]).unwrap();
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
        let mut half = memory.half_event();
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
    fn beyond_the_bound_nothing_is_handed_out() {
        let memory = EventMemory::default();
        memory.gauge().set(LIMIT_BYTES - 100_000);
        let held = memory.hand_out(vec![b'x'; 100_000]).unwrap();
        assert_eq!(memory.hand_out(vec![b'x'; 70_000]), Err(Full));
        assert_eq!(memory.gauge().get(), LIMIT_BYTES, "what was refused is not counted");
        drop(held);
        memory.hand_out(vec![b'x'; 70_000]).unwrap();
    }
}
