//! The answer to a request for embeddings: cached vectors and vectors of an upstream.

use bytes::Bytes;
use gw_wire::embeddings::write_embeddings;
use gw_wire::reply::{EmbeddingsReply, Vector};
use gw_wire::request::EncodingFormat;
use gw_wire::usage::Usage;

use crate::cpu_pool::offload;
use crate::document_memory::DocumentPermit;
use crate::error::Result;
use crate::response_cache::embeddings::kept_reply::inconsistent;
use crate::response_cache::embeddings::vectors;
use crate::response_cache::embeddings::vectors::{CachedVector, CachedVectors};
use crate::upstream::embeddings::EmbeddingsOutput;

/// Vector components that are read and written in less than a millisecond. Larger answers use the CPU pool.
const MAX_INLINE_COMPONENTS: usize = 1 << 16;

/// The parts of the answer.
pub(crate) struct EmbeddingsAnswer {
    /// The key number of each input.
    pub(crate) at: Vec<usize>,
    pub(crate) encoding: EncodingFormat,
    /// The usage in the answer to the client.
    pub(crate) usage: Usage,
    pub(crate) found: CachedVectors,
    pub(crate) fresh: Option<FetchedVectors>,
    /// One of them counts the memory of the body: the first that holds any.
    pub(crate) permits: Vec<DocumentPermit>,
}

/// The vectors of an upstream.
pub(crate) struct FetchedVectors {
    pub(crate) output: EmbeddingsOutput,
    /// The key number of each vector.
    pub(crate) numbers: Vec<usize>,
    /// The reported model, else the requested one.
    pub(crate) model: String,
    /// The vectors are to be kept.
    pub(crate) is_kept: bool,
}

impl FetchedVectors {
    /// The bodies of the cache entries, without an answer.
    pub(crate) async fn into_entries(self) -> Result<Vec<Option<Bytes>>> {
        let write = |fresh: &Self| Ok(fresh.entries(&fresh.output.reply().map_err(|_| inconsistent())?));
        if self.output.dimensions.saturating_mul(self.numbers.len()) <= MAX_INLINE_COMPONENTS {
            return write(&self);
        }
        offload(|| write(&self)).await
    }

    /// The bodies of the cache entries; none if the vectors are not to be kept.
    fn entries(&self, reply: &EmbeddingsReply<'_>) -> Vec<Option<Bytes>> {
        let entry = |vector| vectors::body(&self.model, vector);
        if self.is_kept { reply.vectors.iter().map(entry).collect() } else { Vec::new() }
    }
}

/// The client's body, and the bodies of the cache entries.
pub(crate) type WrittenAnswer = (Bytes, Vec<Option<Bytes>>);

impl EmbeddingsAnswer {
    pub(crate) async fn make(self) -> Result<WrittenAnswer> {
        let of_one = match (&self.fresh, self.found.first().and_then(|first| CachedVector::read(&first.body)))
        {
            (Some(fresh), _) => fresh.output.dimensions,
            (None, Some(entry)) => entry.vector.dimensions(),
            (None, None) => return Err(inconsistent()),
        };
        if of_one.saturating_mul(self.at.len()) <= MAX_INLINE_COMPONENTS {
            return self.write();
        }
        offload(|| self.write()).await
    }

    fn write(self) -> Result<WrittenAnswer> {
        let reply = match &self.fresh {
            Some(fresh) => fresh.output.reply().map_err(|_| inconsistent())?,
            None => EmbeddingsReply::default(),
        };
        let numbers = self.fresh.as_ref().map_or(&[][..], |fresh| &fresh.numbers);
        let mut places: Vec<Option<&Vector<'_>>> = Vec::new();
        for (number, vector) in numbers.iter().zip(&reply.vectors) {
            if places.len() <= *number {
                places.resize(*number + 1, None);
            }
            if let Some(slot) = places.get_mut(*number) {
                *slot = Some(vector);
            }
        }
        let vector = |number: &usize| match places.get(*number).copied().flatten() {
            Some(vector) => Some(vector.clone()),
            None => Some(Vector::Packed(CachedVector::read(&self.found.get(*number)?.body)?.vector)),
        };
        let vectors = self.at.iter().map(vector).collect::<Option<_>>().ok_or_else(inconsistent)?;
        let kept =
            self.found.first().and_then(|first| CachedVector::read(&first.body)).map(|entry| entry.model);
        let model = self.fresh.as_ref().map(|fresh| &*fresh.model).or(kept).unwrap_or_default();
        let all = EmbeddingsReply { vectors, ..EmbeddingsReply::default() };
        let body = write_embeddings(&all, self.encoding, model, &self.usage);
        let entries = self.fresh.as_ref().map_or_else(Vec::new, |fresh| fresh.entries(&reply));
        Ok((DocumentPermit::count(self.permits, body.into()), entries))
    }
}
