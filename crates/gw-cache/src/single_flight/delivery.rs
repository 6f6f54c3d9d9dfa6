//! The types that describe what a follower wants and gets, and how much memory flights may hold.

use bytes::Bytes;

/// The memory that flights may hold.
#[derive(Clone, Copy, Debug)]
pub struct FlightBounds {
    /// The most bytes of chunks that a flight keeps for slow followers.
    pub max_log_bytes: usize,
    /// The most bytes that the leader's work may be ahead of the fastest follower. Less than half of `max_log_bytes`.
    pub max_ahead_bytes: usize,
    /// The bytes of all flights together from which on each keeps less. They never hold more than about twice as many.
    pub max_total_bytes: usize,
}

impl Default for FlightBounds {
    /// 4 MiB per flight, 256 KiB ahead, 64 MiB for all flights.
    fn default() -> Self {
        Self { max_log_bytes: 4 << 20, max_ahead_bytes: 256 << 10, max_total_bytes: 64 << 20 }
    }
}

/// The end of a flight, for one follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End<T, E> {
    /// The answer is complete.
    Complete(T),
    /// The work failed. For a follower that reads chunks this may be in the middle of the answer.
    Failed(E),
    /// The work was dropped before its end: the process is stopping, or the work panicked.
    WorkLost,
    /// This follower read too slowly.
    TooSlow,
}

/// The next item for a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<T, E> {
    /// A chunk of the answer.
    Chunk(Bytes),
    /// The end. A follower that asks again gets it again.
    End(End<T, E>),
}

/// The part of an answer that a follower wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// The chunks as they come, and the end.
    Chunks,
    /// The end alone.
    End,
}
