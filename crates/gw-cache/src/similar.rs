//! Answers to similar questions: the vectors of last turns, by the context in which they stood, and which of them is nearest.
//!
//! Vectors have length one, so that their dot product is the cosine of the angle between them. What is found is a key: whether
//! its answer is still there, fresh and not purged, is for the cache to say.
//!
//! **The threshold** is 0.97 unless it is set. A wrong answer is worse than a call that was not needed, and how near a different
//! question lies depends on the embedding model: a "not" or another name moves many models' vectors by a few hundredths only.
//! At 0.97 what remains is the same question with other punctuation, politeness or order. Who wants more lets it run as a shadow first
//! ([`SimilarMode::Shadow`]), which only counts.
//!
//! **Memory** is bounded by bytes. Of a context the vector goes that was of no use for longest, of all contexts the one that was
//! asked about longest ago.

mod lru;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use self::lru::Contexts;
use crate::key::Key;

/// The cosine from which on two questions count as one, unless it is set.
pub const THRESHOLD: f32 = 0.97;

/// What is done with what is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimilarMode {
    /// It is only counted.
    Shadow,
    /// It is the answer.
    Answer,
}

/// How similar answers are looked for.
#[derive(Clone, Copy, Debug)]
pub struct SimilarSettings {
    /// The least cosine. Above 0, at most 1.
    pub threshold: f32,
    /// Whether it is used.
    pub mode: SimilarMode,
    /// Vectors of one context: each look compares with all of them.
    pub most_of_one: usize,
    /// Bytes of all vectors.
    pub most_bytes: usize,
}

impl Default for SimilarSettings {
    /// 0.97, a shadow, 256 vectors of a context, 64 MiB.
    fn default() -> Self {
        Self { threshold: THRESHOLD, mode: SimilarMode::Shadow, most_of_one: 256, most_bytes: 64 << 20 }
    }
}

/// A direction: a vector of length one.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit(Box<[f32]>);

/// The nearest question that was answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Where its answer is kept.
    pub key: Key,
    /// The cosine.
    pub similarity: f32,
    /// Whether the answer is to be used; else it was only counted.
    pub counts: bool,
}

/// What came of it, since the start of the process, and what is kept now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimilarFigures {
    /// Looks.
    pub looks: u64,
    /// Looks that found something near enough, to be used.
    pub matches: u64,
    /// Looks that would have, but for the shadow.
    pub shadows: u64,
    /// Vectors.
    pub vectors: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Vectors of questions, and where their answers are.
#[derive(Debug)]
pub struct Similar {
    settings: SimilarSettings,
    contexts: Mutex<Contexts>,
    looks: AtomicU64,
    matches: AtomicU64,
    shadows: AtomicU64,
}

impl Unit {
    /// The direction of a vector. None when it has none: it is empty, zero, or not of finite numbers.
    #[must_use]
    pub fn of(vector: &[f32]) -> Option<Self> {
        let square: f64 = vector.iter().map(|number| f64::from(*number).powi(2)).sum();
        let length = square.sqrt();
        if !length.is_finite() || length <= f64::from(f32::MIN_POSITIVE) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "between -1 and 1: a float of half the digits will do"
        )]
        let scaled = vector.iter().map(|number| (f64::from(*number) / length) as f32).collect();
        Some(Self(scaled))
    }

    /// The cosine of the angle to another. None when they are of different lengths, and of different models therefore.
    #[must_use]
    pub fn cosine(&self, other: &Self) -> Option<f32> {
        const LANES: usize = 8;
        if self.0.len() != other.0.len() {
            return None;
        }
        // Several sums side by side: one after the other could not be computed at once.
        let mut sums = [0_f32; LANES];
        let (ours, our_rest) = self.0.as_chunks::<LANES>();
        let (theirs, their_rest) = other.0.as_chunks::<LANES>();
        for (ours, theirs) in ours.iter().zip(theirs) {
            for ((sum, our), their) in sums.iter_mut().zip(ours).zip(theirs) {
                *sum += our * their;
            }
        }
        let rest: f32 = our_rest.iter().zip(their_rest).map(|(our, their)| our * their).sum();
        Some(sums.iter().sum::<f32>() + rest)
    }

    /// Bytes that it takes.
    fn bytes(&self) -> usize {
        self.0.len() * size_of::<f32>()
    }
}

impl Similar {
    /// Empty.
    #[must_use]
    pub fn new(settings: SimilarSettings) -> Self {
        let contexts = Contexts::new(settings.most_of_one, settings.most_bytes);
        Self {
            settings,
            contexts: Mutex::new(contexts),
            looks: AtomicU64::new(0),
            matches: AtomicU64::new(0),
            shadows: AtomicU64::new(0),
        }
    }

    /// The nearest questions of a context that are near enough, at most so many, the nearest first. Counts nothing: see
    /// [`Similar::looked`].
    #[must_use]
    pub fn find(&self, context: &Key, vector: &Unit, most: usize) -> Vec<Match> {
        // Compared outside of the lock: it is the most work of all.
        let known = self.contexts.lock().of(context);
        let counts = self.settings.mode == SimilarMode::Answer;
        let near = known.iter().filter_map(|entry| {
            let similarity = entry.vector.cosine(vector)?;
            (similarity >= self.settings.threshold).then_some(Match { key: entry.key, similarity, counts })
        });
        let mut near: Vec<Match> = near.collect();
        near.sort_by(|one, other| other.similarity.total_cmp(&one.similarity));
        near.truncate(most);
        near
    }

    /// Counts a look, and what was used of it, or would have been.
    pub fn looked(&self, context: &Key, found: Option<&Match>) {
        self.looks.fetch_add(1, Ordering::Relaxed);
        if let Some(found) = found {
            self.contexts.lock().was_of_use(context, &found.key);
            (if found.counts { &self.matches } else { &self.shadows }).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that a question was answered, and where the answer is kept.
    pub fn add(&self, context: Key, vector: Unit, key: Key) {
        self.contexts.lock().add(context, vector, key);
    }

    /// Its answer is not there any more.
    pub fn forget(&self, context: &Key, key: &Key) {
        self.contexts.lock().forget(context, key);
    }

    /// What came of it so far.
    #[must_use]
    pub fn figures(&self) -> SimilarFigures {
        let (vectors, bytes) = self.contexts.lock().size();
        SimilarFigures {
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
