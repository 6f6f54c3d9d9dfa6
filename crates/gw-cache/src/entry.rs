//! A complete answer as it is kept: without what belongs to one request, and as bytes that can tell when they were
//! changed on the way.

use std::sync::Arc;

use bytes::Bytes;
use gw_wire::money::Money;
use gw_wire::reply::Finish;
use gw_wire::usage::{Usage, small};
use sha2::{Digest, Sha256};

use crate::fields::{Fields, put_bytes, put_count, put_optional};
use crate::key::{Key, Scope};
use crate::life::Life;
use crate::purges::Stamp;

/// An answer that was complete and a success. What is put in here is the caller's promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Whose it is.
    pub scope: Scope,
    /// The request that it was made for: `req_…`.
    pub source: Arc<str>,
    /// The model as it was asked for.
    pub model: Arc<str>,
    /// The model that answered, as `gateway.model_used` shows it.
    pub model_used: Arc<str>,
    /// The provider that answered.
    pub provider: Arc<str>,
    /// The answer as JSON in OpenAI's shape without what belongs to one request (`id`, `created`, `gateway`, cost): model,
    /// choices, usage, fingerprint. A plain answer and a stream can both be made of it. For embeddings: one vector.
    pub body: Bytes,
    /// Why each choice ended.
    pub finishes: Vec<Finish>,
    /// What was used, as it was reported or estimated.
    pub usage: Usage,
    /// What it cost: what a hit saves.
    pub cost: Money,
    /// How long it took, ms: what a hit saves.
    pub took_ms: u64,
    /// How long it may be used.
    pub life: Life,
}

/// The first byte of a value. Another one is another gateway's: a miss.
const VERSION: u8 = 3;
/// Bytes of the checksum at a value's end.
const CHECKSUM: usize = 32;

impl Stored {
    /// Bytes of memory that it takes, about: the text, the names, and what an allocator adds.
    #[must_use]
    pub fn size(&self) -> u64 {
        let parts = [
            self.scope.id().len(),
            self.source.len(),
            self.model.len(),
            self.model_used.len(),
            self.provider.len(),
            self.body.len(),
            self.finishes.len(),
        ];
        let allocated =
            |bytes: usize| if bytes == 0 { 0 } else { (bytes + 16).next_multiple_of(16) + bytes / 8 };
        let own = size_of::<Self>() + 2 * size_of::<usize>();
        parts.into_iter().map(allocated).sum::<usize>() as u64 + allocated(own) as u64
    }

    /// As bytes for a store that is shared, under this key.
    #[must_use]
    pub fn encode(&self, key: &Key, stamp: Stamp) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.len() + 512);
        out.push(VERSION);
        out.extend_from_slice(key.bytes());
        out.extend_from_slice(&stamp.0.to_le_bytes());
        for text in
            [self.scope.kind(), self.scope.id(), &self.source, &self.model, &self.model_used, &self.provider]
        {
            put_bytes(&mut out, text.as_bytes());
        }
        put_bytes(&mut out, &self.body);
        put_bytes(&mut out, &self.finishes.iter().map(|finish| finish_byte(*finish)).collect::<Vec<u8>>());
        let Usage { prompt, completion, estimated, .. } = self.usage;
        let Life { stored_at_ms, fresh_ms, stale_ms } = self.life;
        for count in [prompt, completion, self.took_ms, stored_at_ms, fresh_ms, stale_ms] {
            put_count(&mut out, count);
        }
        for count in details(&self.usage) {
            put_optional(&mut out, count);
        }
        out.push(u8::from(estimated));
        out.extend_from_slice(&self.cost.femtos().to_le_bytes());
        let checksum: [u8; CHECKSUM] = Sha256::digest(&out).into();
        out.extend_from_slice(&checksum);
        out
    }

    /// What bytes say that were found under this key: the answer and its stamp. None when they were written under another
    /// key, by another version, or are not what was written.
    #[must_use]
    pub fn decode(bytes: &Bytes, key: &Key) -> Option<(Self, Stamp)> {
        let (written, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM)?)?;
        // The key first: it tells most of what is wrong, and cheaply.
        let mut fields = Fields::of(bytes.slice_ref(written));
        if fields.byte()? != VERSION || fields.take(key.bytes().len())?.as_ref() != key.bytes() {
            return None;
        }
        if <[u8; CHECKSUM]>::from(Sha256::digest(written)) != checksum {
            return None;
        }
        let stamp = Stamp(fields.count()?);
        let (kind, id) = (fields.text()?, fields.text()?);
        let scope = match &*kind {
            "k" => Scope::Key(id),
            "t" => Scope::Team(id),
            _ => return None,
        };
        let source = fields.text()?;
        let (model, model_used, provider) = (fields.text()?, fields.text()?, fields.text()?);
        // A copy of its own: the slice would keep the whole answer of the store alive.
        let body = Bytes::copy_from_slice(&fields.bytes()?);
        let finishes = fields.bytes()?.iter().map(|byte| finish_of(*byte)).collect::<Option<Vec<_>>>()?;
        let (prompt, completion, took_ms) = (fields.count()?, fields.count()?, fields.count()?);
        let life =
            Life { stored_at_ms: fields.count()?, fresh_ms: fields.count()?, stale_ms: fields.count()? };
        let usage = Usage {
            prompt,
            completion,
            cached: fields.optional()?,
            cache_write: fields.optional()?,
            reasoning: fields.optional()?,
            audio_prompt: fields.optional()?.map(small),
            audio_completion: fields.optional()?.map(small),
            accepted_prediction: fields.optional()?.map(small),
            rejected_prediction: fields.optional()?.map(small),
            estimated: fields.byte()? == 1,
        };
        let cost = Money::from_femtos(i128::from_le_bytes(fields.array()?));
        let stored =
            Self { scope, source, model, model_used, provider, body, finishes, usage, cost, took_ms, life };
        fields.is_empty().then_some((stored, stamp))
    }
}

/// The counts that may be unknown, in the order in which they are written.
fn details(usage: &Usage) -> [Option<u64>; 7] {
    [
        usage.cached,
        usage.cache_write,
        usage.reasoning,
        usage.audio_prompt.map(u64::from),
        usage.audio_completion.map(u64::from),
        usage.accepted_prediction.map(u64::from),
        usage.rejected_prediction.map(u64::from),
    ]
}

fn finish_byte(finish: Finish) -> u8 {
    match finish {
        Finish::Stop => b's',
        Finish::Length => b'l',
        Finish::ToolCalls => b't',
        Finish::ContentFilter => b'c',
        Finish::FunctionCall => b'f',
    }
}

fn finish_of(byte: u8) -> Option<Finish> {
    let all = [Finish::Stop, Finish::Length, Finish::ToolCalls, Finish::ContentFilter, Finish::FunctionCall];
    all.into_iter().find(|finish| finish_byte(*finish) == byte)
}

#[cfg(test)]
mod tests;
