//! The cache as the engine sees it: look, store, purge, and what it was good for.

use std::sync::Arc;
use std::time::Duration;

use crate::entry::Stored;
use crate::figures::{Counts, Figures, Outcome};
use crate::key::Key;
use crate::life::Freshness;
use crate::memory::Memory;
use crate::purges::{Purge, Stamp};
use crate::shared::{Shared, SharedSettings};

/// What was found under a key.
#[derive(Clone, Debug)]
pub enum Found {
    /// An answer to use.
    Fresh(Arc<Stored>),
    /// An answer that is too old for this reader: to be used only in place of an error, and to say so then.
    Stale(Arc<Stored>),
    /// Nothing, or nothing in time.
    Nothing,
}

impl Found {
    fn of(stored: Option<Arc<Stored>>, max_age: Duration, now_ms: u64) -> Self {
        let Some(stored) = stored else { return Self::Nothing };
        match stored.life.at(now_ms, max_age) {
            Freshness::Fresh => Self::Fresh(stored),
            Freshness::Stale => Self::Stale(stored),
            Freshness::Dead => Self::Nothing,
        }
    }
}

/// What is kept under a key, whatever its age.
#[derive(Clone, Debug)]
pub enum Peeked {
    /// This.
    There(Arc<Stored>),
    /// Nothing any more.
    Absent,
    /// The store that is shared did not say.
    Unknown,
}

/// The store that replicas share did not hear of a purge: it holds nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotPurged;

/// Answers that were kept, in process or shared by replicas. It fails open: whatever is wrong with it is a miss.
#[derive(Debug)]
pub struct Cache {
    kept: Kept,
    counts: Counts,
}

#[derive(Debug)]
enum Kept {
    Here(Memory),
    Shared(Shared),
}

impl Cache {
    /// In this process, of at most so many bytes.
    #[must_use]
    pub fn in_process(max_bytes: u64) -> Self {
        Self { kept: Kept::Here(Memory::new(max_bytes)), counts: Counts::default() }
    }

    /// Over Redis or Valkey, shared by replicas. It need not be there: it is looked for in the background.
    pub async fn shared(settings: SharedSettings) -> Self {
        Self { kept: Kept::Shared(Shared::start(settings).await), counts: Counts::default() }
    }

    /// To be taken before anything is looked for, and given back with what is stored in the end: a purge in between voids it.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        match &self.kept {
            Kept::Here(memory) => memory.stamp(),
            Kept::Shared(shared) => shared.stamp(),
        }
    }

    /// Looks for an answer, for a reader who takes what is at most `max_age` old. Counts nothing: see [`Cache::count`].
    pub async fn look(&self, key: &Key, max_age: Duration, now_ms: u64) -> Found {
        let stored = match &self.kept {
            Kept::Here(memory) => memory.get(key, now_ms),
            Kept::Shared(shared) => shared.get(key, now_ms).await,
        };
        Found::of(stored, max_age, now_ms)
    }

    /// What is there under a key, for readers of whatever patience.
    pub async fn peek(&self, key: &Key, now_ms: u64) -> Peeked {
        let found = match &self.kept {
            Kept::Here(memory) => Some(memory.get(key, now_ms)),
            Kept::Shared(shared) => shared.peek(key, now_ms).await,
        };
        match found {
            Some(Some(stored)) => Peeked::There(stored),
            Some(None) => Peeked::Absent,
            None => Peeked::Unknown,
        }
    }

    /// Looks for many answers at once: what was found of each, in the order of the keys. All of it takes no longer than one
    /// look may.
    pub async fn look_all(&self, keys: &[Key], max_age: Duration, now_ms: u64) -> Vec<Found> {
        let found = match &self.kept {
            Kept::Here(memory) => keys.iter().map(|key| memory.get(key, now_ms)).collect(),
            Kept::Shared(shared) => shared.get_all(keys, now_ms).await,
        };
        found.into_iter().map(|stored| Found::of(stored, max_age, now_ms)).collect()
    }

    /// Keeps an answer, in place of what is there. It never waits; a store that is shared gets it from a task of its own.
    /// In process it is found from now on. Gives whether it will be kept.
    pub fn store(&self, key: Key, stored: Arc<Stored>, stamp: Stamp) -> bool {
        self.store_all(vec![(key, stored)], stamp) > 0
    }

    /// The same for many answers of one call; gives how many will be kept.
    pub fn store_all(&self, answers: Vec<(Key, Arc<Stored>)>, stamp: Stamp) -> usize {
        let kept = match &self.kept {
            Kept::Here(memory) => answers
                .into_iter()
                .filter(|(key, stored)| memory.put(*key, Arc::clone(stored), stamp))
                .count(),
            Kept::Shared(shared) => shared.put_all(answers, stamp),
        };
        self.counts.were_stored(kept as u64);
        kept
    }

    /// Throws answers away, and what is under way and would become one. Its work does not depend on how many they are.
    ///
    /// # Errors
    /// A store that is shared did not hear of it within a second.
    pub async fn purge(&self, purge: &Purge) -> Result<(), NotPurged> {
        match &self.kept {
            Kept::Here(memory) => memory.purge(purge),
            Kept::Shared(shared) if !shared.purge(purge).await => return Err(NotPurged),
            Kept::Shared(_) => {}
        }
        Ok(())
    }

    /// Waits until what was stored so far is written where it is shared, or given up.
    pub async fn written(&self) {
        if let Kept::Shared(shared) = &self.kept {
            shared.written().await;
        }
    }

    /// Whether the store that is shared does not answer: everything is a miss then.
    #[must_use]
    pub fn is_away(&self) -> bool {
        match &self.kept {
            Kept::Here(_) => false,
            Kept::Shared(shared) => shared.is_away(),
        }
    }

    /// Counts how a request went: once for each that asked for the cache.
    pub fn count(&self, outcome: Outcome<'_>) {
        self.counts.count(outcome);
    }

    /// What it was good for so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let mut figures = self.counts.read();
        match &self.kept {
            Kept::Here(memory) => {
                figures.entries = memory.entries();
                figures.bytes = memory.bytes();
            }
            Kept::Shared(shared) => shared.figures(&mut figures),
        }
        figures
    }
}

#[cfg(test)]
mod tests;
