//! Stored answers in this process, bounded by the memory that they take.
//!
//! `quick_cache` evicts answers that are not used again, and resists scans. Its bound is a sum of weights. The weight
//! of an answer is the memory that it takes, its share of the tables included. So the bound holds for answers of any
//! size. Scopes that need the memory together have shares of it ([`shares`]).

mod shares;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use crate::entry::Stored;
use crate::freshness::Freshness;
use crate::key::{Key, Scope};
use crate::purge_log::{Purge, PurgeLog};
use crate::stamp::Stamp;
use shares::ScopeShares;

/// Bytes that the tables need for each answer: a slot in a list that doubles when it is full, a slot in an index, memory
/// of evicted keys, and the key in the queue of its scope.
const TABLE_BYTES_PER_ENTRY: u64 = 288;
/// The least size of a shard. Each shard has its own lock.
const MIN_SHARD_BYTES: u64 = 8 << 20;
const MAX_SHARDS: u64 = 64;
/// The usual size of an answer, from which the memory of evicted keys is sized.
const USUAL_ENTRY_BYTES: u64 = 4096;

/// The most answers that make room for a new one.
const MAX_LEAVING: usize = 64;
/// The scopes whose oldest answers are looked at before an answer leaves that is alive.
const LOOKS: usize = 4;

/// The answers in memory.
pub(crate) struct InProcessStore {
    answers: Cache<Key, Arc<Slot>, Weight, DefaultHashBuilder, Evictions>,
    shares: Mutex<ScopeShares>,
    /// The memory that scopes share. The rest is for the shards, which are never filled alike.
    room: u64,
    /// The time of the latest lookup.
    now_ms: AtomicU64,
    purges: PurgeLog,
    max_entry_bytes: u64,
}

struct Slot {
    stored: Arc<Stored>,
    stamp: Stamp,
    /// It was read since it was last looked at to make room.
    is_used: AtomicBool,
}

impl Slot {
    fn bytes(&self) -> u64 {
        self.stored.size_bytes() + TABLE_BYTES_PER_ENTRY
    }
}

/// Collects the answers that the table evicts.
#[derive(Clone)]
struct Evictions;

impl Lifecycle<Key, Arc<Slot>> for Evictions {
    type RequestState = Vec<Arc<Slot>>;

    fn on_evict(&self, evicted: &mut Self::RequestState, _key: Key, slot: Arc<Slot>) {
        evicted.push(slot);
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Arc<Slot>> for Weight {
    fn weight(&self, _key: &Key, slot: &Arc<Slot>) -> u64 {
        slot.bytes()
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
            Ok(options) => Cache::with_options(options, Weight, hasher, Evictions),
            // This cannot happen: both capacities are set.
            Err(_) => Cache::with(usual_entries, max_bytes, Weight, hasher, Evictions),
        };
        let max_entry_bytes = answers.shard_capacity() / 4;
        Self {
            answers,
            shares: Mutex::default(),
            room: max_bytes - max_bytes / 8,
            now_ms: AtomicU64::new(0),
            purges: PurgeLog::default(),
            max_entry_bytes,
        }
    }

    /// The answer under a key. An answer that was purged or has expired is removed.
    pub(crate) fn get(&self, key: &Key, now_ms: u64) -> Option<Arc<Stored>> {
        self.now_ms.store(now_ms, Ordering::Relaxed);
        let slot = self.answers.get(key)?;
        if self.is_alive(&slot, now_ms) {
            slot.is_used.store(true, Ordering::Relaxed);
            return Some(Arc::clone(&slot.stored));
        }
        // Another request may have stored a new answer meanwhile, which stays.
        if let Some((_, gone)) = self.answers.remove_if(key, |now| Arc::ptr_eq(now, &slot)) {
            self.shares.lock().remove(&gone.stored.scope, gone.bytes());
        }
        None
    }

    fn is_alive(&self, slot: &Slot, now_ms: u64) -> bool {
        slot.stored.lifetime.at(now_ms, std::time::Duration::MAX) != Freshness::Expired
            && self.purges.is_valid(&slot.stored, slot.stamp)
    }

    /// Stores an answer. An answer that takes more than a quarter of a shard is not stored.
    pub(crate) fn put(&self, key: Key, stored: Arc<Stored>, stamp: Stamp) -> bool {
        let slot = Arc::new(Slot { stored, stamp, is_used: AtomicBool::new(false) });
        let bytes = slot.bytes();
        if bytes > self.max_entry_bytes || !self.purges.is_valid(&slot.stored, stamp) {
            return false;
        }
        let scope = slot.stored.scope.clone();
        let mut shares = self.shares.lock();
        self.remove(&mut shares, &key);
        self.make_room(&mut shares, &scope, bytes);
        shares.add(&scope, key, bytes);
        let mut evicted = Vec::new();
        self.answers.insert_with_lifecycle(key, slot, &mut evicted);
        for gone in &evicted {
            shares.remove(&gone.stored.scope, gone.bytes());
        }
        shares.tidy(&scope, |key| self.answers.contains_key(key));
        true
    }

    fn remove(&self, shares: &mut ScopeShares, key: &Key) {
        if let Some((_, gone)) = self.answers.remove(key) {
            shares.remove(&gone.stored.scope, gone.bytes());
        }
    }

    /// Removes answers until a new one has room, if several scopes need the memory: first dead ones, then the oldest ones of
    /// the scope beyond its share, unless they were read since they were last looked at.
    fn make_room(&self, shares: &mut ScopeShares, scope: &Scope, bytes: u64) {
        for _ in 0..MAX_LEAVING {
            if !shares.is_pressed(scope, bytes, self.room) {
                return;
            }
            if self.remove_dead(shares) {
                continue;
            }
            let Some(giver) = shares.giver(scope, bytes, self.room) else { return };
            let Some(key) = shares.take_oldest(&giver) else { return };
            let Some(slot) = self.answers.peek(&key) else { continue };
            if slot.is_used.swap(false, Ordering::Relaxed) {
                shares.renew(&giver, key);
            } else {
                self.remove(shares, &key);
            }
        }
    }

    /// Removes an expired or purged answer if one of the next oldest answers is one.
    fn remove_dead(&self, shares: &mut ScopeShares) -> bool {
        let now_ms = self.now_ms.load(Ordering::Relaxed);
        for _ in 0..LOOKS {
            let Some((scope, key)) = shares.next_oldest() else { return false };
            match self.answers.peek(&key) {
                Some(slot) if self.is_alive(&slot, now_ms) => {}
                Some(_) => {
                    shares.take_oldest(&scope);
                    self.remove(shares, &key);
                    return true;
                }
                None => drop(shares.take_oldest(&scope)),
            }
        }
        false
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.purges.stamp()
    }

    /// Voids answers. A purge of everything frees the memory at once. Other purges free it when an answer is looked up,
    /// or when room is needed.
    pub(crate) fn purge(&self, purge: &Purge) {
        self.purges.add(purge);
        if *purge == Purge::All {
            let mut shares = self.shares.lock();
            self.answers.clear();
            shares.clear();
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
