//! The answer to a request for embeddings, put together of what was found and of what an upstream brought.

use bytes::Bytes;
use gw_wire::embeddings::write_embeddings;
use gw_wire::reply::{EmbeddingsReply, Vector};
use gw_wire::request::EncodingFormat;
use gw_wire::usage::Usage;

use super::odd;
use super::room::Place;
use super::vectors::{self, Entry, Vectors};
use crate::cpu_pool::offload;
use crate::embed::Brought;
use crate::error::Result;

/// Numbers that are read and written in less than a millisecond. More than that leave the worker.
const FEW: usize = 1 << 16;

/// All that it takes.
pub(super) struct Page {
    /// The number of each input's key.
    pub(super) at: Vec<usize>,
    pub(super) encoding: EncodingFormat,
    /// What the client is told.
    pub(super) usage: Usage,
    pub(super) found: Vectors,
    pub(super) fresh: Option<Fresh>,
    /// Where the body is held.
    pub(super) place: Place,
}

/// What an upstream brought.
pub(super) struct Fresh {
    pub(super) brought: Brought,
    /// The number of the key of each of its vectors.
    pub(super) numbers: Vec<usize>,
    /// The model as its upstream reports it, else as the client does.
    pub(super) model: String,
    /// It is to be kept, too.
    pub(super) is_kept: bool,
}

impl Fresh {
    /// The bodies of its entries, without an answer.
    pub(super) async fn into_entries(self) -> Result<Vec<Option<Bytes>>> {
        let write = |fresh: &Self| Ok(fresh.entries(&fresh.brought.reply().map_err(|_| odd())?));
        if self.brought.dimensions.saturating_mul(self.numbers.len()) <= FEW {
            return write(&self);
        }
        offload(|| write(&self)).await
    }

    /// Of what it has brought; none when nothing of it is to be kept.
    fn entries(&self, reply: &EmbeddingsReply<'_>) -> Vec<Option<Bytes>> {
        let entry = |vector| vectors::body(&self.model, vector);
        if self.is_kept { reply.vectors.iter().map(entry).collect() } else { Vec::new() }
    }
}

/// A body for the client, and that of an entry for each fresh vector that is to be kept.
pub(super) type Made = (Bytes, Vec<Option<Bytes>>);

impl Page {
    pub(super) async fn make(self) -> Result<Made> {
        let of_one = match (&self.fresh, self.found.first().and_then(|first| Entry::read(&first.body))) {
            (Some(fresh), _) => fresh.brought.dimensions,
            (None, Some(entry)) => entry.vector.dimensions(),
            (None, None) => return Err(odd()),
        };
        if of_one.saturating_mul(self.at.len()) <= FEW {
            return self.write();
        }
        offload(|| self.write()).await
    }

    fn write(self) -> Result<Made> {
        let reply = match &self.fresh {
            Some(fresh) => fresh.brought.reply().map_err(|_| odd())?,
            None => EmbeddingsReply::default(),
        };
        let numbers = self.fresh.as_ref().map_or(&[][..], |fresh| &fresh.numbers);
        let mut places: Vec<Option<&Vector<'_>>> = Vec::new();
        for (number, vector) in numbers.iter().zip(&reply.vectors) {
            if places.len() <= *number {
                places.resize(*number + 1, None);
            }
            if let Some(place) = places.get_mut(*number) {
                *place = Some(vector);
            }
        }
        let vector = |number: &usize| match places.get(*number).copied().flatten() {
            Some(vector) => Some(vector.clone()),
            None => Some(Vector::Packed(Entry::read(&self.found.get(*number)?.body)?.vector)),
        };
        let vectors = self.at.iter().map(vector).collect::<Option<_>>().ok_or_else(odd)?;
        let kept = self.found.first().and_then(|first| Entry::read(&first.body)).map(|entry| entry.model);
        let model = self.fresh.as_ref().map(|fresh| &*fresh.model).or(kept).unwrap_or_default();
        let all = EmbeddingsReply { vectors, ..EmbeddingsReply::default() };
        let body = write_embeddings(&all, self.encoding, model, &self.usage);
        let entries = self.fresh.as_ref().map_or_else(Vec::new, |fresh| fresh.entries(&reply));
        Ok((self.place.of(body), entries))
    }
}
