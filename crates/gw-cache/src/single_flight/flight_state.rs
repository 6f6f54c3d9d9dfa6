//! The state of one flight: its chunks, its followers with their positions, and the tasks that wait. One lock guards
//! all of it, so nothing changes between a look and the start of a wait. The wakers to call are returned, and called
//! outside the lock.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::chunk_log::ChunkLog;
use super::delivery::{End, FlightBounds, Next, Wants};

#[derive(Debug)]
pub(super) struct FlightState<T, E> {
    log: ChunkLog,
    end: Option<End<T, E>>,
    accepts: Accepts,
    /// The followers by slot. A follower that leaves frees its slot.
    followers: Vec<Option<FollowerState>>,
    free_slots: Vec<usize>,
    /// The number of followers that can still get the whole answer.
    participants: usize,
    /// The leader's task, which waits for the last participant to leave.
    driver: Option<Waker>,
    /// The leader's work, which waits for a follower to read.
    publisher: Option<Waker>,
}

/// The followers that may join. While every follower may join, all chunks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepts {
    AllFollowers,
    /// Followers that want the end alone.
    EndOnly,
    NoFollowers,
}

#[derive(Debug)]
struct FollowerState {
    wants: Wants,
    /// The number of the chunk that it reads next.
    next: u64,
    read_bytes: u64,
    is_too_slow: bool,
    waker: Option<Waker>,
}

impl FollowerState {
    /// Whether it will read the chunks from `next` on.
    fn is_reading(&self) -> bool {
        self.wants == Wants::Chunks && !self.is_too_slow
    }
}

/// The consequences of the departure of a follower.
pub(super) struct Departure {
    /// The last participant has left.
    pub(super) is_abandoned: bool,
    pub(super) wakers: [Option<Waker>; 2],
}

impl<T, E> FlightState<T, E> {
    /// A flight without followers. `total_bytes` counts the bytes of all flights.
    pub(super) fn new(total_bytes: Arc<AtomicUsize>) -> Self {
        Self {
            log: ChunkLog::new(total_bytes),
            end: None,
            accepts: Accepts::AllFollowers,
            followers: Vec::new(),
            free_slots: Vec::new(),
            participants: 0,
            driver: None,
            publisher: None,
        }
    }

    /// Adds a follower. Returns its slot, or None if the flight does not accept it.
    pub(super) fn join(&mut self, wants: Wants) -> Option<usize> {
        match (self.accepts, wants) {
            (Accepts::AllFollowers, _) | (Accepts::EndOnly, Wants::End) => {}
            (Accepts::EndOnly, Wants::Chunks) | (Accepts::NoFollowers, _) => return None,
        }
        if wants == Wants::Chunks {
            self.log.add_reader(0);
        }
        let follower = Some(FollowerState { wants, next: 0, read_bytes: 0, is_too_slow: false, waker: None });
        self.participants += 1;
        let free = self.free_slots.pop();
        if let Some((slot, entry)) = free.and_then(|slot| Some((slot, self.followers.get_mut(slot)?))) {
            *entry = follower;
            return Some(slot);
        }
        self.followers.push(follower);
        Some(self.followers.len() - 1)
    }

    /// Removes a follower.
    pub(super) fn leave(&mut self, slot: usize) -> Departure {
        if let Some(follower) = self.followers.get_mut(slot).and_then(Option::take) {
            if follower.is_reading() {
                self.log.remove_reader(follower.next);
            }
            self.participants -= usize::from(!follower.is_too_slow);
            self.free_slots.push(slot);
        }
        let is_abandoned = self.participants == 0 && self.end.is_none();
        if is_abandoned {
            self.accepts = Accepts::NoFollowers;
        }
        self.drop_read_chunks();
        // The departure may change which follower is the fastest, so the publisher looks again.
        Departure { is_abandoned, wakers: [self.driver.take_if(|_| is_abandoned), self.publisher.take()] }
    }

    /// Stops accepting followers that want chunks. Chunks that all followers have read are dropped from now on.
    pub(super) fn close_to_readers(&mut self) {
        if self.accepts == Accepts::AllFollowers {
            self.accepts = Accepts::EndOnly;
            self.drop_read_chunks();
        }
    }

    /// Appends a chunk. Returns the followers to wake.
    pub(super) fn publish(&mut self, chunk: Bytes, bounds: &FlightBounds) -> Vec<Waker> {
        if self.end.is_some() || chunk.is_empty() {
            return Vec::new();
        }
        self.log.append(chunk);
        let is_log_full = self.log.kept_bytes() > bounds.max_log_bytes;
        if is_log_full || self.log.total_kept_bytes() > bounds.max_total_bytes {
            self.close_to_readers();
        }
        self.enforce_bounds(bounds);
        self.take_wakers(|follower| follower.wants == Wants::Chunks)
    }

    /// Ends the flight. Returns the followers to wake.
    pub(super) fn finish(&mut self, end: End<T, E>, bounds: &FlightBounds) -> Vec<Waker> {
        if self.end.is_some() {
            return Vec::new();
        }
        self.accepts = Accepts::NoFollowers;
        self.end = Some(end);
        self.enforce_bounds(bounds);
        self.take_wakers(|_| true)
    }

    fn enforce_bounds(&mut self, bounds: &FlightBounds) {
        self.drop_read_chunks();
        let is_total_exceeded = self.log.total_kept_bytes() > bounds.max_total_bytes.saturating_mul(2);
        self.drop_slow_followers(if is_total_exceeded {
            bounds.max_ahead_bytes
        } else {
            bounds.max_log_bytes
        });
    }

    fn take_wakers(&mut self, is_woken: impl Fn(&FollowerState) -> bool) -> Vec<Waker> {
        let followers = self.followers.iter_mut().flatten().filter(|follower| is_woken(follower));
        followers.filter_map(|follower| follower.waker.take()).collect()
    }

    fn drop_read_chunks(&mut self) {
        if self.accepts != Accepts::AllFollowers {
            self.log.drop_read_chunks();
        }
    }

    /// Gives up the slowest followers until the others are at most `max_behind_bytes` behind. The fastest follower is
    /// never given up, and neither is one that has only the next chunk to read, however large it is. A follower that is
    /// given up does not keep the work alive.
    fn drop_slow_followers(&mut self, max_behind_bytes: usize) {
        while self.log.bytes_after_first() > max_behind_bytes {
            let (first, fastest) = (self.log.first(), self.fastest_read_bytes());
            let readers = self.followers.iter_mut().flatten().filter(|follower| follower.is_reading());
            let mut has_dropped = false;
            for follower in readers.filter(|reader| reader.next <= first && reader.read_bytes < fastest) {
                follower.is_too_slow = true;
                self.log.remove_reader(follower.next);
                self.participants -= 1;
                has_dropped = true;
            }
            if !has_dropped {
                return;
            }
            self.drop_read_chunks();
        }
    }

    /// The bytes that the fastest follower has read. A follower that wants the end alone is never behind.
    fn fastest_read_bytes(&self) -> u64 {
        let appended = self.log.appended_bytes();
        let read = |follower: &FollowerState| {
            if follower.wants == Wants::End { appended } else { follower.read_bytes }
        };
        let followers = self.followers.iter().flatten().filter(|follower| !follower.is_too_slow);
        followers.map(read).max().unwrap_or(appended)
    }

    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.log.kept_bytes()
    }

    /// Ready when no participant is left.
    pub(super) fn poll_abandoned(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.participants == 0 {
            return Poll::Ready(());
        }
        self.driver = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ready when the fastest follower has caught up enough for the next chunk.
    pub(super) fn poll_room(&mut self, context: &mut Context<'_>, bounds: &FlightBounds) -> Poll<()> {
        // While all flights together hold too much, the work does not run ahead.
        let is_total_exceeded = self.log.total_kept_bytes() > bounds.max_total_bytes;
        let max_ahead = if is_total_exceeded { 0 } else { bounds.max_ahead_bytes };
        let ahead = self.log.appended_bytes() - self.fastest_read_bytes();
        if self.end.is_some() || ahead <= max_ahead as u64 {
            return Poll::Ready(());
        }
        self.publisher = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T: Clone, E: Clone> FlightState<T, E> {
    /// The next item for a follower, and the publisher's waker if it waits for this read.
    pub(super) fn poll_next(
        &mut self,
        slot: usize,
        context: &mut Context<'_>,
    ) -> (Poll<Next<T, E>>, Option<Waker>) {
        let Some(follower) = self.followers.get_mut(slot).and_then(Option::as_mut) else {
            return (Poll::Ready(Next::End(End::WorkLost)), None);
        };
        if follower.is_too_slow {
            return (Poll::Ready(Next::End(End::TooSlow)), None);
        }
        if follower.wants == Wants::Chunks
            && let Some(chunk) = self.log.read(follower.next)
        {
            follower.next += 1;
            follower.read_bytes += chunk.len() as u64;
            self.drop_read_chunks();
            return (Poll::Ready(Next::Chunk(chunk)), self.publisher.take());
        }
        if let Some(end) = &self.end {
            return (Poll::Ready(Next::End(end.clone())), None);
        }
        follower.waker = Some(context.waker().clone());
        (Poll::Pending, None)
    }
}
