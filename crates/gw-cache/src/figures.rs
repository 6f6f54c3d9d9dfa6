//! What the cache was good for.

use std::sync::atomic::{AtomicU64, Ordering};

use gw_wire::money::Money;
use parking_lot::Mutex;

use crate::entry::Stored;

/// How a request went that asked for the cache. Each request is one of these.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// Answered with what was stored.
    Hit(&'a Stored),
    /// Answered with what was stored and too old, because no upstream answered.
    Stale(&'a Stored),
    /// Shared the upstream call of an identical request.
    Coalesced(&'a Stored),
    /// Answered with what a similar request was answered.
    Similar(&'a Stored),
    /// An upstream was called.
    Miss,
    /// An upstream was called, for the part that was not there: a miss that saved what this would have cost.
    Partial(&'a Stored),
    /// Was not to be answered from the cache, or not by its own wish.
    Bypass,
}

/// Counts since the start of the process, and what is kept now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Answered with what was stored.
    pub hits: u64,
    /// Answered with what was too old.
    pub stale: u64,
    /// Shared another request's call.
    pub coalesced: u64,
    /// Answered with a similar request's answer.
    pub similar: u64,
    /// Called an upstream.
    pub misses: u64,
    /// Those of the misses that found a part of what they asked for.
    pub partial: u64,
    /// Did not look.
    pub bypassed: u64,
    /// Answers that were stored.
    pub stored: u64,
    /// What the answers that were not asked for again would have cost.
    pub saved: Money,
    /// How long they took when they were made, ms. Shared calls save none.
    pub saved_ms: u64,
    /// Answers that are kept now. Unknown (0) when others share the store.
    pub entries: u64,
    /// Bytes that they take. Unknown (0) when others share the store.
    pub bytes: u64,
    /// Questions that the shared store did not answer in time, or not with an answer.
    pub unanswered: u64,
    /// Answers that were not written to the shared store, because it was away or slow.
    pub unwritten: u64,
}

impl Figures {
    /// Answered without an upstream call of their own, of all that asked for the cache and looked; 0 before the first.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        let hits = self.hits + self.stale + self.coalesced + self.similar;
        let all = hits + self.misses;
        if all == 0 { 0.0 } else { hits as f64 / all as f64 }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
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

impl Counts {
    pub(crate) fn count(&self, outcome: Outcome<'_>) {
        let (counter, saved) = match outcome {
            Outcome::Hit(stored) => (&self.hits, Some((stored, stored.took_ms))),
            Outcome::Stale(stored) => (&self.stale, Some((stored, stored.took_ms))),
            Outcome::Similar(stored) => (&self.similar, Some((stored, stored.took_ms))),
            Outcome::Coalesced(stored) => (&self.coalesced, Some((stored, 0))),
            Outcome::Miss => (&self.misses, None),
            Outcome::Partial(stored) => {
                self.partial.fetch_add(1, Ordering::Relaxed);
                // What is not there takes as long as all of it.
                (&self.misses, Some((stored, 0)))
            }
            Outcome::Bypass => (&self.bypassed, None),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some((stored, ms)) = saved {
            self.saved_ms.fetch_add(ms, Ordering::Relaxed);
            if stored.cost != Money::ZERO {
                *self.saved.lock() += stored.cost;
            }
        }
    }

    pub(crate) fn were_stored(&self, count: u64) {
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
