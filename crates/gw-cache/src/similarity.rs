//! An index of answered questions by similarity. It holds the vectors of last turns by their [`crate::Context`], and
//! finds the nearest ones.
//!
//! A match is a key. The cache decides whether its answer is still stored, fresh and not purged.
//!
//! **The threshold** is 0.97 by default. A wrong answer is worse than an unnecessary call. How near a different
//! question lies depends on the embedding model: a "not" or another name moves the vectors of many models by a few
//! hundredths only. At 0.97 the questions that match differ in punctuation, politeness or word order. To try a lower
//! threshold, run it in [`SimilarityMode::Shadow`] first, which only counts.
//!
//! **Memory** is bounded in bytes. A full context drops its least recently used vector. A full index drops the context
//! whose last lookup is the longest ago.

mod contexts;
pub(crate) mod vector;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use self::contexts::Contexts;
use self::vector::UnitVector;
use crate::key::Key;

/// The default threshold: two questions with at least this cosine are similar.
pub const DEFAULT_THRESHOLD: f32 = 0.97;

/// The use of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimilarityMode {
    /// The match is only counted.
    Shadow,
    /// The answer of the match is used.
    Answer,
}

/// The settings of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimilaritySettings {
    /// The least cosine of a match. Above 0, at most 1.
    pub threshold: f32,
    /// The use of a match.
    pub mode: SimilarityMode,
    /// The most vectors of one context. A lookup compares with all of them.
    pub max_vectors_per_context: usize,
    /// The most memory of the index, in bytes.
    pub max_bytes: usize,
}

impl Default for SimilaritySettings {
    /// Threshold 0.97, shadow mode, 256 vectors per context, 64 MiB.
    fn default() -> Self {
        Self {
            threshold: DEFAULT_THRESHOLD,
            mode: SimilarityMode::Shadow,
            max_vectors_per_context: 256,
            max_bytes: 64 << 20,
        }
    }
}

/// A similar question that was answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// The key of its answer.
    pub key: Key,
    /// The cosine of the two vectors.
    pub similarity: f32,
    /// Whether to use the answer. False in shadow mode.
    pub is_usable: bool,
}

/// Counts since the start of the process, and the current size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimilarityFigures {
    /// Lookups.
    pub looks: u64,
    /// Lookups whose match was used.
    pub matches: u64,
    /// Lookups whose match was only counted (shadow mode).
    pub shadows: u64,
    /// Vectors in the index.
    pub vectors: u64,
    /// The memory that they take, in bytes.
    pub bytes: u64,
}

/// The vectors of questions, and the keys of their answers.
#[derive(Debug)]
pub struct SimilarityIndex {
    settings: SimilaritySettings,
    contexts: Mutex<Contexts>,
    looks: AtomicU64,
    matches: AtomicU64,
    shadows: AtomicU64,
}

impl SimilarityIndex {
    /// An empty index.
    #[must_use]
    pub fn new(settings: SimilaritySettings) -> Self {
        let contexts = Contexts::new(settings.max_vectors_per_context, settings.max_bytes);
        Self {
            settings,
            contexts: Mutex::new(contexts),
            looks: AtomicU64::new(0),
            matches: AtomicU64::new(0),
            shadows: AtomicU64::new(0),
        }
    }

    /// The similar questions of a context, the nearest first, at most `max_matches`. Does not count anything: see
    /// [`SimilarityIndex::record_lookup`].
    #[must_use]
    pub fn find(&self, context: &Key, vector: &UnitVector, max_matches: usize) -> Vec<Match> {
        // The comparison is the largest part of the work, so it runs outside the lock.
        let known = self.contexts.lock().entries(context);
        let is_usable = self.settings.mode == SimilarityMode::Answer;
        let near = known.iter().filter_map(|entry| {
            let similarity = entry.vector.cosine(vector)?;
            (similarity >= self.settings.threshold).then_some(Match { key: entry.key, similarity, is_usable })
        });
        let mut near: Vec<Match> = near.collect();
        near.sort_by(|one, other| other.similarity.total_cmp(&one.similarity));
        near.truncate(max_matches);
        near
    }

    /// Counts a lookup and its match, which was used or would have been.
    pub fn record_lookup(&self, context: &Key, found: Option<&Match>) {
        self.looks.fetch_add(1, Ordering::Relaxed);
        if let Some(found) = found {
            self.contexts.lock().mark_used(context, &found.key);
            (if found.is_usable { &self.matches } else { &self.shadows }).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds an answered question and the key of its answer.
    pub fn add(&self, context: Key, vector: UnitVector, key: Key) {
        self.contexts.lock().add(context, vector, key);
    }

    /// Removes a question whose answer is not stored any longer.
    pub fn remove(&self, context: &Key, key: &Key) {
        self.contexts.lock().remove(context, key);
    }

    /// The figures since the start.
    #[must_use]
    pub fn figures(&self) -> SimilarityFigures {
        let (vectors, bytes) = self.contexts.lock().size();
        SimilarityFigures {
            looks: self.looks.load(Ordering::Relaxed),
            matches: self.matches.load(Ordering::Relaxed),
            shadows: self.shadows.load(Ordering::Relaxed),
            vectors: vectors as u64,
            bytes: bytes as u64,
        }
    }
}

#[cfg(test)]
mod tests;
