//! The ledger: one row per request, written in batches, and the sums by hour that reports and budgets read.
//!
//! A row is the entry as JSON, and beside it the few columns by which rows are looked for: what a row costs to write is
//! on the path of every request. What is added up is in the sums.
//!
//! Writing a row again changes nothing (its request id is unique), so a batch whose fate is unknown is simply written
//! again. Rows and sums are one transaction: neither is ever without the other.

mod read;
mod write;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::sql::indexed;

/// Milliseconds of an hour.
const HOUR: i64 = 3_600_000;
/// Femto-USD of a nano-USD.
const REST: i128 = 1_000_000;

/// Tokens by kind. `prompt` includes cached and cache-write tokens, `completion` includes reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names of the usage object")]
pub struct Tokens {
    pub prompt: u64,
    pub completion: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub cached: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub cache_write: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub reasoning: u64,
}

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// `req_…`.
    pub request_id: String,
    /// When it was accepted, unix milliseconds.
    pub at: i64,
    /// Id of the key.
    pub key_id: String,
    /// Its name at the time.
    pub key_name: String,
    /// Its team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// `chat`, `completion` or `embeddings`.
    pub operation: String,
    /// As the client wrote it.
    pub requested_model: String,
    /// Catalogue id that served, else the first candidate; empty when none was found.
    pub model: String,
    /// Its provider.
    pub provider: String,
    /// `ok` or a code of CONTRACT 1.3.
    pub status: String,
    /// Canonical strategy name.
    pub strategy: String,
    /// A stream was asked for.
    #[serde(skip_serializing_if = "is_default")]
    pub stream: bool,
    /// Answered from the cache.
    #[serde(skip_serializing_if = "is_default")]
    pub cache_hit: bool,
    /// Another model than the requested one served.
    #[serde(skip_serializing_if = "is_default")]
    pub fallback: bool,
    /// Tokens.
    pub tokens: Tokens,
    /// The tokens are our own estimate.
    #[serde(skip_serializing_if = "is_default")]
    pub estimated: bool,
    /// Cost in femto-USD.
    pub cost: i128,
    /// What the cache saved, in femto-USD.
    #[serde(skip_serializing_if = "is_default")]
    pub saved: i128,
    /// Milliseconds to the first content of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    /// Milliseconds to the end of the answer.
    pub latency_ms: u64,
    /// JSON array of the upstream calls.
    pub attempts: String,
    /// The request's `user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_user: Option<String>,
    /// Address of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

/// The most that one request counts of anything, whatever an upstream claims: a sum of many still fits 64 bits.
const MOST: u64 = 1_000_000_000_000;
/// And the most that it costs, in femto-USD: a million dollars.
const DEAREST: i128 = 1_000_000_000_000_000_000_000;

/// An entry as it is written: bounded, and said as JSON once.
#[derive(Debug)]
pub struct Line {
    pub(crate) entry: Entry,
    pub(crate) json: String,
}

impl Line {
    /// Bounds what an upstream may have claimed, and says it as JSON.
    #[must_use]
    pub fn new(mut entry: Entry) -> Self {
        entry.bound();
        // Texts and numbers: there is nothing in it that JSON could not say.
        let json = serde_json::to_string(&entry).unwrap_or_default();
        Self { entry, json }
    }
}

impl Entry {
    fn bound(&mut self) {
        let Tokens { prompt, completion, cached, cache_write, reasoning } = &mut self.tokens;
        for count in [prompt, completion, cached, cache_write, reasoning, &mut self.latency_ms] {
            *count = (*count).min(MOST);
        }
        self.ttft_ms = self.ttft_ms.map(|millis| millis.min(MOST));
        let names = [&mut self.request_id, &mut self.key_id, &mut self.model, &mut self.provider];
        for name in names.into_iter().chain(&mut self.team) {
            if let Cow::Owned(other) = indexed(name) {
                *name = other;
            }
        }
        for amount in [&mut self.cost, &mut self.saved] {
            *amount = (*amount).clamp(-DEAREST, DEAREST);
        }
    }
}

/// Sums of some requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// How many.
    pub requests: u64,
    /// Of them without an answer.
    pub failed: u64,
    /// Of them answered from the cache.
    pub cache_hits: u64,
    /// Tokens.
    pub tokens: Tokens,
    /// Cost in femto-USD.
    pub cost: i128,
    /// Saved by the cache, in femto-USD.
    pub saved: i128,
}

impl Sums {
    fn add(&mut self, entry: &Entry) {
        self.requests += 1;
        self.failed += u64::from(entry.status != "ok");
        self.cache_hits += u64::from(entry.cache_hit);
        let (tokens, more) = (&mut self.tokens, &entry.tokens);
        tokens.prompt = tokens.prompt.saturating_add(more.prompt);
        tokens.completion = tokens.completion.saturating_add(more.completion);
        tokens.cached = tokens.cached.saturating_add(more.cached);
        tokens.cache_write = tokens.cache_write.saturating_add(more.cache_write);
        tokens.reasoning = tokens.reasoning.saturating_add(more.reasoning);
        self.cost += entry.cost;
        self.saved += entry.saved;
    }
}

/// What a report is grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum By {
    Key,
    Team,
    Model,
    Provider,
    Day,
    Hour,
}

impl By {
    /// All, as they are spelled.
    pub const ALL: [(&'static str, Self); 6] = [
        ("key", Self::Key),
        ("team", Self::Team),
        ("model", Self::Model),
        ("provider", Self::Provider),
        ("day", Self::Day),
        ("hour", Self::Hour),
    ];

    /// The SQL of the group, as text. Hours and days are unix seconds.
    fn column(self) -> &'static str {
        match self {
            Self::Key => "key_id",
            Self::Team => "team",
            Self::Model => "model",
            Self::Provider => "provider",
            Self::Day => "CAST(hour / 86400 * 86400 AS TEXT)",
            Self::Hour => "CAST(hour AS TEXT)",
        }
    }
}

/// Which requests count. None = all of that kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// From this time on, unix milliseconds (reports: the hour it is in).
    pub since: Option<i64>,
    /// Before this time, unix milliseconds.
    pub until: Option<i64>,
    /// Id of the key.
    pub key_id: Option<String>,
    /// Team.
    pub team: Option<String>,
    /// Catalogue id.
    pub model: Option<String>,
    /// Provider.
    pub provider: Option<String>,
    /// `ok` or an error code (the request log only).
    pub status: Option<String>,
}

/// Whose money it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spender<'s> {
    /// The key of this id.
    Key(&'s str),
    /// All keys of the team of this name.
    Team(&'s str),
}

/// Where a page of the log begins: behind this request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Its time.
    pub at: i64,
    /// Its id.
    pub request_id: String,
}

/// For members that are left out of JSON when they say nothing.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An amount as its two columns.
fn split(femtos: i128) -> (i64, i64) {
    let nano = i64::try_from(femtos.div_euclid(REST)).unwrap_or(i64::MAX);
    (nano, i64::try_from(femtos.rem_euclid(REST)).unwrap_or(0))
}

fn joined(nano: i64, rest: i64) -> i128 {
    i128::from(nano) * REST + i128::from(rest)
}

#[cfg(test)]
mod tests;
