//! Stored answers in this process, bounded by the memory that they take.
//!
//! `quick_cache` evicts answers that are not used again, and resists scans. Its bound is a sum of weights. The weight
//! of an answer is the memory that it takes, its share of the tables included. So the bound holds for answers of any
//! size.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::entry::Stored;
use crate::freshness::Freshness;
use crate::key::Key;
use crate::purge_log::{Purge, PurgeLog};
use crate::stamp::Stamp;

/// Bytes that the tables need for each answer: a slot in a list that doubles when it is full, a slot in an index, and
/// memory of evicted keys.
const TABLE_BYTES_PER_ENTRY: u64 = 208;
/// The least size of a shard. Each shard has its own lock.
const MIN_SHARD_BYTES: u64 = 8 << 20;
const MAX_SHARDS: u64 = 64;
/// The usual size of an answer, from which the memory of evicted keys is sized.
const USUAL_ENTRY_BYTES: u64 = 4096;

/// The answers in memory.
pub(crate) struct InProcessStore {
    answers: Cache<Key, Slot, Weight>,
    purges: PurgeLog,
    max_entry_bytes: u64,
}

#[derive(Clone)]
struct Slot {
    stored: Arc<Stored>,
    stamp: Stamp,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Slot> for Weight {
    fn weight(&self, _key: &Key, slot: &Slot) -> u64 {
        slot.stored.size_bytes() + TABLE_BYTES_PER_ENTRY
    }
}

impl std::fmt::Debug for InProcessStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcessStore").field("entries", &self.entries()).finish_non_exhaustive()
    }
}

impl InProcessStore {
    /// A store of at most `max_bytes`.
    pub(crate) fn new(max_bytes: u64) -> Self {
        let shards = (max_bytes / MIN_SHARD_BYTES).clamp(1, MAX_SHARDS);
        // Rounded down to a power of two, so that every shard has the same share of the memory.
        let shards = 1 << shards.ilog2();
        let usual_entries = usize::try_from(max_bytes / USUAL_ENTRY_BYTES).unwrap_or(usize::MAX).max(64);
        let mut options = OptionsBuilder::new();
        options
            .shards(usize::try_from(shards).unwrap_or(1))
            .estimated_items_capacity(usual_entries)
            .weight_capacity(max_bytes);
        let hasher = DefaultHashBuilder::default();
        let answers = match options.build() {
            Ok(options) => Cache::with_options(options, Weight, hasher, DefaultLifecycle::default()),
            // This cannot happen: both capacities are set.
            Err(_) => Cache::with(usual_entries, max_bytes, Weight, hasher, DefaultLifecycle::default()),
        };
        let max_entry_bytes = answers.shard_capacity() / 4;
        Self { answers, purges: PurgeLog::default(), max_entry_bytes }
    }

    /// The answer under a key. An answer that was purged or has expired is removed.
    pub(crate) fn get(&self, key: &Key, now_ms: u64) -> Option<Arc<Stored>> {
        let slot = self.answers.get(key)?;
        let is_alive = slot.stored.lifetime.at(now_ms, std::time::Duration::MAX) != Freshness::Expired;
        if is_alive && self.purges.is_valid(&slot.stored, slot.stamp) {
            return Some(slot.stored);
        }
        // Another request may have stored a new answer meanwhile, which stays.
        self.answers.remove_if(key, |now| Arc::ptr_eq(&now.stored, &slot.stored));
        None
    }

    /// Stores an answer. An answer that takes more than a quarter of a shard is not stored.
    pub(crate) fn put(&self, key: Key, stored: Arc<Stored>, stamp: Stamp) -> bool {
        let slot = Slot { stored, stamp };
        if Weight.weight(&key, &slot) > self.max_entry_bytes || !self.purges.is_valid(&slot.stored, stamp) {
            return false;
        }
        self.answers.insert(key, slot);
        true
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.purges.stamp()
    }

    /// Voids answers. A purge of everything frees the memory at once. Other purges free it when an answer is looked up,
    /// or when room is needed.
    pub(crate) fn purge(&self, purge: &Purge) {
        self.purges.add(purge);
        if *purge == Purge::All {
            self.answers.clear();
        }
    }

    /// The number of answers, void ones included.
    pub(crate) fn entries(&self) -> u64 {
        self.answers.len() as u64
    }

    /// The memory that the answers take, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.answers.weight()
    }
}

#[cfg(test)]
mod tests;
