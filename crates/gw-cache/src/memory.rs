//! Answers in this process, bounded by the bytes that they take.
//!
//! Over `quick_cache`, which keeps what is used again and lets scans pass. It counts weights; the weight of an answer here
//! is what it costs in memory, the tables' own share included, so that the bound holds for answers of any size.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::entry::Stored;
use crate::key::Key;
use crate::life::Freshness;
use crate::purges::{Purge, Purges, Stamp};

/// Bytes that the tables need for an answer: a slot in a list that doubles when it is full, another in an index, and the
/// memory of keys that are gone.
const SLOT: u64 = 208;
/// The least that a part of the tables should hold: parts are locked apart from each other.
const LEAST_PART: u64 = 8 << 20;
const MOST_PARTS: u64 = 64;
/// What an answer takes usually, to size what is remembered of those that are gone.
const USUAL: u64 = 4096;

/// Answers in memory.
pub(crate) struct Memory {
    answers: Cache<Key, Held, Weight>,
    purges: Purges,
    most_bytes_of_one: u64,
}

#[derive(Clone)]
struct Held {
    stored: Arc<Stored>,
    stamp: Stamp,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Held> for Weight {
    fn weight(&self, _key: &Key, held: &Held) -> u64 {
        held.stored.size() + SLOT
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("entries", &self.entries()).finish_non_exhaustive()
    }
}

impl Memory {
    /// At most so many bytes.
    pub(crate) fn new(max_bytes: u64) -> Self {
        let parts = (max_bytes / LEAST_PART).clamp(1, MOST_PARTS);
        // Down to a power of two: each part has the same share.
        let parts = 1 << parts.ilog2();
        let usual = usize::try_from(max_bytes / USUAL).unwrap_or(usize::MAX).max(64);
        let mut options = OptionsBuilder::new();
        options
            .shards(usize::try_from(parts).unwrap_or(1))
            .estimated_items_capacity(usual)
            .weight_capacity(max_bytes);
        let hasher = DefaultHashBuilder::default();
        let answers = match options.build() {
            Ok(options) => Cache::with_options(options, Weight, hasher, DefaultLifecycle::default()),
            // Cannot be: both capacities are given.
            Err(_) => Cache::with(usual, max_bytes, Weight, hasher, DefaultLifecycle::default()),
        };
        let most_bytes_of_one = answers.shard_capacity() / 4;
        Self { answers, purges: Purges::default(), most_bytes_of_one }
    }

    /// The answer under a key, unless it was purged or is older than it is kept.
    pub(crate) fn get(&self, key: &Key, now_ms: u64) -> Option<Arc<Stored>> {
        let held = self.answers.get(key)?;
        let lives = held.stored.life.at(now_ms, std::time::Duration::MAX) != Freshness::Dead;
        if lives && self.purges.allow(&held.stored, held.stamp) {
            return Some(held.stored);
        }
        // Not what somebody else has put in its place meanwhile.
        self.answers.remove_if(key, |now| Arc::ptr_eq(&now.stored, &held.stored));
        None
    }

    /// Keeps an answer. One that is larger than a fair part of the whole is not kept.
    pub(crate) fn put(&self, key: Key, stored: Arc<Stored>, stamp: Stamp) -> bool {
        let held = Held { stored, stamp };
        if Weight.weight(&key, &held) > self.most_bytes_of_one || !self.purges.allow(&held.stored, stamp) {
            return false;
        }
        self.answers.insert(key, held);
        true
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.purges.stamp()
    }

    /// Voids what this concerns. Its memory is free when it is asked for or when room is needed; that of everything, now.
    pub(crate) fn purge(&self, purge: &Purge) {
        self.purges.add(purge);
        if *purge == Purge::All {
            self.answers.clear();
        }
    }

    /// How many are kept, the void ones included.
    pub(crate) fn entries(&self) -> u64 {
        self.answers.len() as u64
    }

    /// What they take, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.answers.weight()
    }
}

#[cfg(test)]
mod tests;
