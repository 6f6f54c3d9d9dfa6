//! A stored answer: complete, without the fields of a single request, and with an encoding whose checksum reveals
//! damage.

use std::sync::Arc;

use bytes::Bytes;
use gw_wire::kept_answer::KeptPlaces;
use gw_wire::money::Money;
use gw_wire::reply::Finish;
use gw_wire::usage::{Usage, small};

use crate::encoding::{FieldReader, put_bytes, put_number, put_optional};
use crate::freshness::Lifetime;
use crate::hasher::{DIGEST_BYTES, sha256};
use crate::key::{Key, Scope};
use crate::stamp::Stamp;

/// An answer that was complete and successful. The caller guarantees both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The scope in which it may be used.
    pub scope: Scope,
    /// The id of the request that produced it: `req_…`.
    pub source: Arc<str>,
    /// The model as the client named it.
    pub model: Arc<str>,
    /// The model that answered, as `gateway.model_used` shows it.
    pub model_used: Arc<str>,
    /// The provider that answered.
    pub provider: Arc<str>,
    /// The answer as JSON in OpenAI's shape: model, choices, usage, fingerprint. The fields of a single request (`id`,
    /// `created`, `gateway`, cost) are left out. Both a plain answer and a stream can be built from it. For embeddings
    /// it is one vector.
    pub body: Bytes,
    /// Why each choice ended.
    pub finishes: Vec<Finish>,
    /// The usage, as reported or estimated.
    pub usage: Usage,
    /// The cost, which a hit saves; None = a price was unknown.
    pub cost: Option<Money>,
    /// The duration of the call in ms, which a hit saves.
    pub took_ms: u64,
    /// How long it may be used.
    pub lifetime: Lifetime,
    /// Where the members of a request are put into `body`, once the first hit has found out.
    pub places: KeptPlaces,
}

/// The first byte of a value. A value with another byte comes from another version, and is a miss.
const VERSION: u8 = 5;
/// The length of the checksum at the end of a value.
const CHECKSUM_BYTES: usize = DIGEST_BYTES;

impl Stored {
    /// The memory that it takes in bytes, approximately: the text, the names, and the overhead of the allocator.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
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

    /// Encodes the answer for Redis, under this key.
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
        let Lifetime { stored_at_ms, fresh_ms, stale_ms } = self.lifetime;
        for count in [prompt, completion, self.took_ms, stored_at_ms, fresh_ms, stale_ms] {
            put_number(&mut out, count);
        }
        for count in details(&self.usage) {
            put_optional(&mut out, count);
        }
        out.push(u8::from(estimated));
        out.push(u8::from(self.cost.is_some()));
        out.extend_from_slice(&self.cost.unwrap_or_default().femtos().to_le_bytes());
        let checksum = sha256(&out);
        out.extend_from_slice(&checksum);
        out
    }

    /// Decodes a value that was found under this key. None if it was written under another key or by another version,
    /// or if it is damaged.
    #[must_use]
    pub fn decode(bytes: &Bytes, key: &Key) -> Option<(Self, Stamp)> {
        let (written, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_BYTES)?)?;
        // The key is compared first, because that is cheap and finds most faults.
        let mut fields = FieldReader::new(bytes.slice_ref(written));
        if fields.byte()? != VERSION || fields.take(key.bytes().len())?.as_ref() != key.bytes() {
            return None;
        }
        if sha256(written) != checksum {
            return None;
        }
        let stamp = Stamp(fields.number()?);
        let (kind, id) = (fields.text()?, fields.text()?);
        let scope = match &*kind {
            "k" => Scope::Key(id),
            "t" => Scope::Team(id),
            _ => return None,
        };
        let source = fields.text()?;
        let (model, model_used, provider) = (fields.text()?, fields.text()?, fields.text()?);
        // A copy, because a slice would keep the whole value of Redis alive.
        let body = Bytes::copy_from_slice(&fields.bytes()?);
        let finishes = fields.bytes()?.iter().map(|byte| finish_of(*byte)).collect::<Option<Vec<_>>>()?;
        let (prompt, completion, took_ms) = (fields.number()?, fields.number()?, fields.number()?);
        let lifetime = Lifetime {
            stored_at_ms: fields.number()?,
            fresh_ms: fields.number()?,
            stale_ms: fields.number()?,
        };
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
            cache_write_1h: fields.optional()?.map(small),
            image_completion: fields.optional()?.map(small),
            estimated: fields.byte()? == 1,
            ..Usage::default()
        };
        let has_cost = fields.byte()? == 1;
        let cost = Some(Money::from_femtos(i128::from_le_bytes(fields.array()?))).filter(|_| has_cost);
        let stored = Self {
            scope,
            source,
            model,
            model_used,
            provider,
            body,
            finishes,
            usage,
            cost,
            took_ms,
            lifetime,
            places: KeptPlaces::default(),
        };
        fields.is_empty().then_some((stored, stamp))
    }
}

/// The counts that may be unknown, in the order of the encoding.
fn details(usage: &Usage) -> [Option<u64>; 9] {
    [
        usage.cached,
        usage.cache_write,
        usage.reasoning,
        usage.audio_prompt.map(u64::from),
        usage.audio_completion.map(u64::from),
        usage.accepted_prediction.map(u64::from),
        usage.rejected_prediction.map(u64::from),
        usage.cache_write_1h.map(u64::from),
        usage.image_completion.map(u64::from),
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
