//! The cache, as the engine sees it: lookups, stores, purges and figures.

use std::sync::Arc;
use std::time::Duration;

use crate::entry::Stored;
use crate::figures::{Counters, Figures, Outcome};
use crate::freshness::Freshness;
use crate::in_process::InProcessStore;
use crate::key::Key;
use crate::purge_log::{Purge, PurgeError};
use crate::redis::RedisStore;
use crate::redis::settings::RedisSettings;
use crate::stamp::Stamp;

/// The result of a lookup.
#[derive(Clone, Debug)]
pub enum Found {
    /// An answer to use.
    Fresh(Arc<Stored>),
    /// An answer that is too old for this request. It may only stand in for an error, and the response has to say so.
    Stale(Arc<Stored>),
    /// No answer, or none in time.
    Nothing,
}

impl Found {
    fn of(stored: Option<Arc<Stored>>, max_age: Duration, now_ms: u64) -> Self {
        let Some(stored) = stored else { return Self::Nothing };
        match stored.lifetime.at(now_ms, max_age) {
            Freshness::Fresh => Self::Fresh(stored),
            Freshness::Stale => Self::Stale(stored),
            Freshness::Expired => Self::Nothing,
        }
    }
}

/// The answer that is stored under a key, at any age.
#[derive(Clone, Debug)]
pub enum Peeked {
    /// This answer.
    Present(Arc<Stored>),
    /// No answer.
    Absent,
    /// Redis did not answer.
    Unknown,
}

/// Stored answers, in this process or shared by replicas over Redis. The cache fails open: every fault is a miss.
#[derive(Debug)]
pub struct Cache {
    store: Store,
    counters: Counters,
}

#[derive(Debug)]
enum Store {
    InProcess(InProcessStore),
    Redis(RedisStore),
}

impl Cache {
    /// A cache in this process, of at most `max_bytes`.
    #[must_use]
    pub fn in_process(max_bytes: u64) -> Self {
        Self { store: Store::InProcess(InProcessStore::new(max_bytes)), counters: Counters::default() }
    }

    /// A cache over Redis or Valkey that replicas share. If Redis does not answer now, a task in the background goes on
    /// trying.
    pub async fn over_redis(settings: RedisSettings) -> Self {
        Self { store: Store::Redis(RedisStore::start(settings).await), counters: Counters::default() }
    }

    /// The stamp of a call that begins now. Take it before the first lookup and pass it to [`Cache::store`]: a purge in
    /// between voids the answer.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        match &self.store {
            Store::InProcess(store) => store.stamp(),
            Store::Redis(store) => store.stamp(),
        }
    }

    /// Looks up an answer that is at most `max_age` old. Does not count anything: see [`Cache::count`].
    pub async fn look(&self, key: &Key, max_age: Duration, now_ms: u64) -> Found {
        let stored = match &self.store {
            Store::InProcess(store) => store.get(key, now_ms),
            Store::Redis(store) => store.get(key, now_ms).await,
        };
        Found::of(stored, max_age, now_ms)
    }

    /// As [`Cache::look`], without waiting. None: the answers are in Redis.
    pub fn look_here(&self, key: &Key, max_age: Duration, now_ms: u64) -> Option<Found> {
        match &self.store {
            Store::InProcess(store) => Some(Found::of(store.get(key, now_ms), max_age, now_ms)),
            Store::Redis(_) => None,
        }
    }

    /// Looks up the answer under a key, at any age.
    pub async fn peek(&self, key: &Key, now_ms: u64) -> Peeked {
        let found = match &self.store {
            Store::InProcess(store) => Some(store.get(key, now_ms)),
            Store::Redis(store) => store.peek(key, now_ms).await,
        };
        match found {
            Some(Some(stored)) => Peeked::Present(stored),
            Some(None) => Peeked::Absent,
            None => Peeked::Unknown,
        }
    }

    /// Looks up many answers, within the time limit of one lookup. The results are in the order of the keys.
    pub async fn look_all(&self, keys: &[Key], max_age: Duration, now_ms: u64) -> Vec<Found> {
        let found = match &self.store {
            Store::InProcess(store) => keys.iter().map(|key| store.get(key, now_ms)).collect(),
            Store::Redis(store) => store.get_all(keys, now_ms).await,
        };
        found.into_iter().map(|stored| Found::of(stored, max_age, now_ms)).collect()
    }

    /// Stores an answer, in place of an earlier one. It does not wait: a task in the background writes to Redis. In
    /// process, lookups find the answer at once. Returns whether it will be stored.
    pub fn store(&self, key: Key, stored: Arc<Stored>, stamp: Stamp) -> bool {
        self.store_all(vec![(key, stored)], stamp) > 0
    }

    /// Stores many answers of one call. Returns how many will be stored.
    pub fn store_all(&self, answers: Vec<(Key, Arc<Stored>)>, stamp: Stamp) -> usize {
        let stored = match &self.store {
            Store::InProcess(store) => {
                answers.into_iter().filter(|(key, stored)| store.put(*key, Arc::clone(stored), stamp)).count()
            }
            Store::Redis(store) => store.put_all(answers, stamp),
        };
        self.counters.add_stored(stored as u64);
        stored
    }

    /// Removes answers, and those whose calls are in flight. The effort does not depend on their number.
    ///
    /// # Errors
    /// Redis did not confirm the purge within a second.
    pub async fn purge(&self, purge: &Purge) -> Result<(), PurgeError> {
        match &self.store {
            Store::InProcess(store) => store.purge(purge),
            Store::Redis(store) => store.purge(purge).await?,
        }
        Ok(())
    }

    /// Waits until all answers so far are written to Redis, or given up.
    pub async fn wait_until_written(&self) {
        if let Store::Redis(store) = &self.store {
            store.wait_until_written().await;
        }
    }

    /// Whether the cache is in Redis and Redis does not answer. Every lookup is a miss then.
    #[must_use]
    pub fn is_away(&self) -> bool {
        match &self.store {
            Store::InProcess(_) => false,
            Store::Redis(store) => store.is_away(),
        }
    }

    /// Counts the outcome of a request. Call it once for each request that asked for the cache.
    pub fn count(&self, outcome: Outcome<'_>) {
        self.counters.count(outcome);
    }

    /// The figures since the start.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let mut figures = self.counters.read();
        match &self.store {
            Store::InProcess(store) => {
                figures.entries = store.entries();
                figures.bytes = store.bytes();
            }
            Store::Redis(store) => store.add_figures(&mut figures),
        }
        figures
    }
}

#[cfg(test)]
mod tests;
