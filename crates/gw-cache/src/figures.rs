//! Figures of the cache: outcomes of requests, and the money and time that hits saved.

use std::sync::atomic::{AtomicU64, Ordering};

use gw_wire::money::Money;
use parking_lot::Mutex;

use crate::entry::Stored;

/// The outcome of a request that asked for the cache.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// Answered with a stored answer.
    Hit(&'a Stored),
    /// Answered with a stale answer, because no upstream answered.
    Stale(&'a Stored),
    /// Shared the upstream call of an identical request.
    Coalesced(&'a Stored),
    /// Answered with the stored answer to a similar question.
    Similar(&'a Stored),
    /// An upstream was called.
    Miss,
    /// An upstream was called for the part of the answer that was not stored. Carries the stored part, whose cost was
    /// saved.
    Partial(&'a Stored),
    /// The request or the configuration excluded the cache.
    Bypass,
}

/// Counters since the start of the process, and the current size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests answered with a stored answer.
    pub hits: u64,
    /// Requests answered with a stale answer.
    pub stale: u64,
    /// Requests that shared another request's upstream call.
    pub coalesced: u64,
    /// Requests answered with the answer to a similar question.
    pub similar: u64,
    /// Requests that called an upstream.
    pub misses: u64,
    /// Misses that found a part of their answer.
    pub partial: u64,
    /// Requests that did not use the cache.
    pub bypassed: u64,
    /// Answers stored.
    pub stored: u64,
    /// The cost of the upstream calls that the cache saved.
    pub saved: Money,
    /// The time that those calls took originally, in ms. A shared call saves none.
    pub saved_ms: u64,
    /// Answers in the cache. 0 (unknown) over Redis.
    pub entries: u64,
    /// The memory that they take, in bytes. 0 (unknown) over Redis.
    pub bytes: u64,
    /// Questions without a usable answer of Redis in time.
    pub unanswered: u64,
    /// Answers that were not written to Redis, because it was slow or did not answer.
    pub unwritten: u64,
}

impl Figures {
    /// The share of requests answered without an upstream call of their own, among those that looked anything up. 0
    /// before the first one.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        let hits = self.hits + self.stale + self.coalesced + self.similar;
        let all = hits + self.misses;
        if all == 0 { 0.0 } else { hits as f64 / all as f64 }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    hits: AtomicU64,
    stale: AtomicU64,
    coalesced: AtomicU64,
    similar: AtomicU64,
    misses: AtomicU64,
    partial: AtomicU64,
    bypassed: AtomicU64,
    stored: AtomicU64,
    saved_ms: AtomicU64,
    saved: Mutex<Money>,
}

impl Counters {
    pub(crate) fn count(&self, outcome: Outcome<'_>) {
        let (counter, saved) = match outcome {
            Outcome::Hit(stored) => (&self.hits, Some((stored, stored.took_ms))),
            Outcome::Stale(stored) => (&self.stale, Some((stored, stored.took_ms))),
            Outcome::Similar(stored) => (&self.similar, Some((stored, stored.took_ms))),
            Outcome::Coalesced(stored) => (&self.coalesced, Some((stored, 0))),
            Outcome::Miss => (&self.misses, None),
            Outcome::Partial(stored) => {
                self.partial.fetch_add(1, Ordering::Relaxed);
                // The missing part takes as long as the whole answer.
                (&self.misses, Some((stored, 0)))
            }
            Outcome::Bypass => (&self.bypassed, None),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some((stored, ms)) = saved {
            self.saved_ms.fetch_add(ms, Ordering::Relaxed);
            if let Some(cost) = stored.cost.filter(|cost| *cost != Money::ZERO) {
                *self.saved.lock() += cost;
            }
        }
    }

    pub(crate) fn add_stored(&self, count: u64) {
        self.stored.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            hits: read(&self.hits),
            stale: read(&self.stale),
            coalesced: read(&self.coalesced),
            similar: read(&self.similar),
            misses: read(&self.misses),
            partial: read(&self.partial),
            bypassed: read(&self.bypassed),
            stored: read(&self.stored),
            saved: *self.saved.lock(),
            saved_ms: read(&self.saved_ms),
            ..Figures::default()
        }
    }
}
