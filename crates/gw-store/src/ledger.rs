//! The ledger: one row per request, written in batches, and the sums by hour that reports and budgets read.
//!
//! A row is the entry as JSON without the names of its members ([`Line`]), and beside it the few columns by which rows
//! are looked for: what a row costs to write is on the path of every request. What is added up is in the sums.
//!
//! Writing a row again changes nothing (its request id is unique), so a batch whose fate is unknown is simply written
//! again. Rows and sums are one transaction: neither is ever without the other.

mod line;
mod read;
mod sqlite;
mod write;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

pub use line::Line;
pub(crate) use line::read as read_json;
pub(crate) use sqlite::Groups;

use crate::sql::Sql;

/// Milliseconds of an hour.
const HOUR: i64 = 3_600_000;
/// Femto-USD of a nano-USD.
const REST: i128 = 1_000_000;

/// Tokens by kind. `prompt` includes cached and cache-write tokens, `completion` includes reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names of the usage object")]
pub struct Tokens {
    pub prompt: u64,
    pub completion: u64,
    pub cached: u64,
    pub cache_write: u64,
    pub reasoning: u64,
}

impl Tokens {
    fn add(&mut self, more: &Self) {
        self.prompt = self.prompt.saturating_add(more.prompt);
        self.completion = self.completion.saturating_add(more.completion);
        self.cached = self.cached.saturating_add(more.cached);
        self.cache_write = self.cache_write.saturating_add(more.cache_write);
        self.reasoning = self.reasoning.saturating_add(more.reasoning);
    }
}

/// A call to an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Who was asked.
    pub provider: Arc<str>,
    /// Catalogue id of the model.
    pub model: Arc<str>,
    /// `ok` or a code of CONTRACT 1.3.
    pub status: Cow<'static, str>,
    /// Milliseconds to its answer or failure.
    pub latency_ms: u64,
    /// What the provider charges for it, in femto-USD; 0 = nothing, or no price is known.
    #[serde(default)]
    pub cost: i128,
    /// What the upstream of a failed call said, for operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One request. Read from JSON it has the names that rows and journals had until [`Line`] left them out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// `req_…`. The same is always written with the same `at`, which for ids of this program is the time that they tell.
    pub request_id: String,
    /// When it was accepted, unix milliseconds.
    pub at: i64,
    /// Id of the key.
    pub key_id: String,
    /// Its name at the time.
    pub key_name: String,
    /// Its team.
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
    pub stream: bool,
    /// Answered from the cache.
    pub cache_hit: bool,
    /// Another model than the requested one served.
    pub fallback: bool,
    /// Tokens.
    pub tokens: Tokens,
    /// The tokens are our own estimate.
    pub estimated: bool,
    /// Cost in femto-USD.
    pub cost: i128,
    /// What the cache saved, in femto-USD.
    pub saved: i128,
    /// Milliseconds to the first content of a stream.
    pub ttft_ms: Option<u64>,
    /// Milliseconds to the end of the answer.
    pub latency_ms: u64,
    /// The upstream calls, in their order.
    #[serde(deserialize_with = "said_within")]
    pub attempts: Vec<Attempt>,
    /// The request's `user`.
    pub end_user: Option<String>,
    /// Address of the client.
    pub client: Option<String>,
}

/// Attempts were JSON within a text of the JSON.
fn said_within<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Attempt>, D::Error> {
    let text = String::deserialize(deserializer)?;
    serde_json::from_str(&text).map_err(serde::de::Error::custom)
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
        self.tokens.add(&entry.tokens);
        self.cost += entry.cost;
        self.saved += entry.saved;
    }

    fn join(&mut self, more: &Self) {
        self.requests += more.requests;
        self.failed += more.failed;
        self.cache_hits += more.cache_hits;
        self.tokens.add(&more.tokens);
        self.cost += more.cost;
        self.saved += more.saved;
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

impl Filter {
    /// Names that are looked for, each with its column.
    fn names(&self) -> [(&'static str, Option<&String>); 4] {
        [
            (" AND key_id = ", self.key_id.as_ref()),
            (" AND team = ", self.team.as_ref()),
            (" AND model = ", self.model.as_ref()),
            (" AND provider = ", self.provider.as_ref()),
        ]
    }

    fn push_names<'q>(&'q self, sql: &mut Sql<'q>) {
        for (piece, value) in self.names() {
            if let Some(value) = value {
                sql.push(piece).push_name(value);
            }
        }
    }
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
