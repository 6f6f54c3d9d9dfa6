//! Vectors that were found: of one model all of them, or none.

use std::sync::Arc;

use bytes::Bytes;
use gw_cache::Stored;
use gw_wire::embeddings::{Packed, max_encoded_bytes};
use gw_wire::reply::Vector;
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;

/// What stands around each vector of an answer, at the most.
const FRAME: usize = 64;
/// For how long a vector is taken, in numbers, when nobody knows: models have 3,072 at the most, with few exceptions.
const UNKNOWN: usize = 4096;

/// A kept vector as it is in the cache: the length of the model's name, the name, the vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    /// The model as its upstream reports it.
    pub(super) model: &'a str,
    pub(super) vector: Packed<'a>,
}

impl<'a> Entry<'a> {
    pub(super) fn read(body: &'a [u8]) -> Option<Self> {
        let (length, rest) = body.split_first_chunk::<2>()?;
        let (model, vector) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        Some(Self { model: std::str::from_utf8(model).ok()?, vector: Packed::read(vector)? })
    }
}

/// The body of an entry; None for a model whose name nobody would give one.
pub(super) fn body(model: &str, vector: &Vector<'_>) -> Option<Bytes> {
    let length = u16::try_from(model.len()).ok()?;
    let packed = vector.pack();
    let mut out = Vec::with_capacity(2 + model.len() + packed.len());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(model.as_bytes());
    out.extend_from_slice(&packed);
    Some(out.into())
}

/// What was found under each key.
#[derive(Debug)]
pub(super) struct Vectors(Vec<Option<Arc<Stored>>>);

impl Vectors {
    /// Nothing, under so many keys.
    pub(super) fn none(count: usize) -> Self {
        Self(vec![None; count])
    }

    /// None of them when they are not of one model, or not of one length.
    pub(super) fn of(mut found: Vec<Option<Arc<Stored>>>) -> Self {
        // One that cannot be read is not there.
        for place in &mut found {
            *place = place.take().filter(|stored| Entry::read(&stored.body).is_some());
        }
        let kind = |stored: &Arc<Stored>| {
            let Entry { model, vector } = Entry::read(&stored.body)?;
            Some((Arc::clone(&stored.model_used), model.to_owned(), vector.dimensions()))
        };
        let mut kinds = found.iter().flatten().map(kind);
        let first = kinds.next();
        if kinds.all(|kind| Some(&kind) == first.as_ref()) { Self(found) } else { Self::none(found.len()) }
    }

    pub(super) fn are_all_there(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }

    /// The numbers of the keys that nothing was found under.
    pub(super) fn missing(&self) -> Vec<usize> {
        (0..self.0.len()).filter(|number| self.get(*number).is_none()).collect()
    }

    pub(super) fn get(&self, number: usize) -> Option<&Arc<Stored>> {
        self.0.get(number)?.as_ref()
    }

    /// One of them, for what all have in common.
    pub(super) fn first(&self) -> Option<&Arc<Stored>> {
        self.0.iter().flatten().next()
    }

    pub(super) fn model_used(&self) -> Option<&str> {
        Some(&self.first()?.model_used)
    }

    /// Whether a vector of this model as its upstream reports it, of this length, goes with them.
    pub(super) fn take(&self, model: &str, dimensions: usize) -> bool {
        let Some(first) = self.first() else { return true };
        Entry::read(&first.body)
            .is_some_and(|entry| entry.model == model && entry.vector.dimensions() == dimensions)
    }

    /// How much of an answer to a request, whose inputs have these keys, no upstream will send, at the most: the vectors that were found, and
    /// all but the first of an input that is there many times.
    pub(super) fn unsent(&self, at: &[usize], request: &EmbeddingsRequest) -> usize {
        let shown = |stored: &Arc<Stored>| {
            Some(Entry::read(&stored.body)?.vector.max_encoded_bytes(request.encoding) + FRAME)
        };
        let mut known: Vec<Option<usize>> = self.0.iter().map(|found| shown(found.as_ref()?)).collect();
        let asked = request.dimensions.map_or(UNKNOWN, |asked| asked as usize);
        let others = || max_encoded_bytes(asked, request.encoding).saturating_add(FRAME);
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

    /// All that was found as one answer: what it would have cost, how old its oldest part is, and the tokens of these inputs. None
    /// when nothing was.
    pub(super) fn sum(&self, at: &[usize]) -> Option<Stored> {
        let found = || self.0.iter().flatten();
        let oldest = found().min_by_key(|stored| stored.life.stored_at_ms)?;
        let usages = at.iter().filter_map(|number| Some(self.get(*number)?.usage));
        Some(Stored {
            body: Bytes::new(),
            usage: usages.fold(Usage::default(), |sum, usage| sum.plus(&usage)),
            cost: found().map(|stored| stored.cost).sum(),
            // They could have been asked for in one call.
            took_ms: found().map(|stored| stored.took_ms).max().unwrap_or_default(),
            ..Stored::clone(oldest)
        })
    }
}
