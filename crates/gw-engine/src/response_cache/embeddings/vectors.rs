//! Cached vectors of one model.

use std::sync::Arc;

use bytes::Bytes;
use gw_cache::Stored;
use gw_wire::embeddings::{Packed, max_encoded_bytes};
use gw_wire::reply::Vector;
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;

/// Bytes around each vector of an answer, at most.
const FRAME_BYTES: usize = 64;
/// The assumed length of an unknown vector. Most models have at most 3,072 components.
const ASSUMED_COMPONENTS: usize = 4096;

/// A cached vector: the length of the model's name, the name, the vector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedVector<'a> {
    /// The model that the upstream reported.
    pub(crate) model: &'a str,
    pub(crate) vector: Packed<'a>,
}

impl<'a> CachedVector<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Option<Self> {
        let (length, rest) = body.split_first_chunk::<2>()?;
        let (model, vector) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        Some(Self { model: std::str::from_utf8(model).ok()?, vector: Packed::read(vector)? })
    }
}

/// The body of a cache entry; None if the model's name is too long.
pub(crate) fn body(model: &str, vector: &Vector<'_>) -> Option<Bytes> {
    let length = u16::try_from(model.len()).ok()?;
    let packed = vector.pack();
    let mut out = Vec::with_capacity(2 + model.len() + packed.len());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(model.as_bytes());
    out.extend_from_slice(&packed);
    Some(out.into())
}

/// The vector under each key.
#[derive(Debug)]
pub(crate) struct CachedVectors(Vec<Option<Arc<Stored>>>);

impl CachedVectors {
    /// No vectors for this many keys.
    pub(crate) fn none(count: usize) -> Self {
        Self(vec![None; count])
    }

    /// The vectors; none of them if they differ in model or length.
    pub(crate) fn of(mut found: Vec<Option<Arc<Stored>>>) -> Self {
        // An unreadable entry counts as missing.
        for place in &mut found {
            *place = place.take().filter(|stored| CachedVector::read(&stored.body).is_some());
        }
        let kind = |stored: &Arc<Stored>| {
            let CachedVector { model, vector } = CachedVector::read(&stored.body)?;
            Some((Arc::clone(&stored.model_used), model.to_owned(), vector.dimensions()))
        };
        let mut kinds = found.iter().flatten().map(kind);
        let first = kinds.next();
        if kinds.all(|kind| Some(&kind) == first.as_ref()) { Self(found) } else { Self::none(found.len()) }
    }

    pub(crate) fn are_all_there(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }

    /// The key numbers without a vector.
    pub(crate) fn missing(&self) -> Vec<usize> {
        (0..self.0.len()).filter(|number| self.get(*number).is_none()).collect()
    }

    pub(crate) fn get(&self, number: usize) -> Option<&Arc<Stored>> {
        self.0.get(number)?.as_ref()
    }

    /// One of the vectors, for the facts that all share.
    pub(crate) fn first(&self) -> Option<&Arc<Stored>> {
        self.0.iter().flatten().next()
    }

    pub(crate) fn model_used(&self) -> Option<&str> {
        Some(&self.first()?.model_used)
    }

    /// Whether a vector of this reported model and length goes with them.
    pub(crate) fn accepts(&self, model: &str, dimensions: usize) -> bool {
        let Some(first) = self.first() else { return true };
        CachedVector::read(&first.body)
            .is_some_and(|entry| entry.model == model && entry.vector.dimensions() == dimensions)
    }

    /// The largest size of the answer's part that no upstream sends: the cached vectors, and the repetitions of inputs.
    pub(crate) fn unsent(&self, at: &[usize], request: &EmbeddingsRequest) -> usize {
        let shown = |stored: &Arc<Stored>| {
            Some(CachedVector::read(&stored.body)?.vector.max_encoded_bytes(request.encoding) + FRAME_BYTES)
        };
        let mut known: Vec<Option<usize>> = self.0.iter().map(|found| shown(found.as_ref()?)).collect();
        let asked = request.dimensions.map_or(ASSUMED_COMPONENTS, |asked| asked as usize);
        let others = || max_encoded_bytes(asked, request.encoding).saturating_add(FRAME_BYTES);
        let other = known.iter().flatten().max().copied().unwrap_or_else(others);
        let mut of = |number: &usize| match known.get_mut(*number) {
            Some(Some(bytes)) => *bytes,
            Some(first) => {
                *first = Some(other);
                0
            }
            None => 0,
        };
        at.iter().fold(0, |sum: usize, number| sum.saturating_add(of(number)))
    }

    /// The vectors as one answer: its cost, its age (that of the oldest vector), and the tokens of these inputs. None
    /// if there are no vectors.
    pub(crate) fn sum(&self, at: &[usize]) -> Option<Stored> {
        let found = || self.0.iter().flatten();
        let oldest = found().min_by_key(|stored| stored.lifetime.stored_at_ms)?;
        let usages = at.iter().filter_map(|number| Some(self.get(*number)?.usage));
        Some(Stored {
            body: Bytes::new(),
            usage: usages.fold(Usage::default(), |sum, usage| sum.plus(&usage)),
            cost: found().map(|stored| stored.cost).sum(),
            // One call could have fetched all of them.
            took_ms: found().map(|stored| stored.took_ms).max().unwrap_or_default(),
            ..Stored::clone(oldest)
        })
    }
}
