//! The ledger: one row per request, written in batches, and the hourly sums that reports and budgets read.
//!
//! A row is the entry as JSON without member names ([`Line`]) with the few columns by which rows are searched: every
//! request pays for writing its row. Totals come from the sums.
//!
//! Writing a row again changes nothing (its request id is unique), so a batch with an unknown outcome is simply written
//! again. Rows and sums are written in one transaction, so they always agree.

mod attribution;
mod charges;
mod days;
mod decision;
pub(crate) mod groups;
pub(crate) mod known_days;
mod line;
mod line_text;
mod name_blocks;
mod named_pages;
mod prompt_caches;
mod rare_sums;
mod read;
mod source;
mod spending;
mod sqlite;
pub(crate) mod trim;
mod units;
mod usage_rows;
mod write;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

pub use attribution::{TaggedCost, UsageByName};
pub use decision::{Decision, ExcludedModel, RankedModel};
pub use line::Line;
pub(crate) use line::{BegunLine, read as read_json, read_prefix};
pub use prompt_caches::PromptCacheSums;
pub use rare_sums::{RareSums, RareSumsByName};
pub use spending::Spent;
pub use units::UnitSums;

use gw_wire::attribution::{Attribution, Dimension};
use gw_wire::charges::Charges;
use gw_wire::operation::Operation;
use gw_wire::prompt_cache::PromptCacheUse;
use gw_wire::usage::Units;

use crate::sql::Sql;

/// Milliseconds per hour.
const HOUR_MS: i64 = 3_600_000;
/// Femto-USD per nano-USD.
const FEMTOS_PER_NANO: i128 = 1_000_000;

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

    fn subtract(&mut self, part: &Self) {
        self.prompt = self.prompt.saturating_sub(part.prompt);
        self.completion = self.completion.saturating_sub(part.completion);
        self.cached = self.cached.saturating_sub(part.cached);
        self.cache_write = self.cache_write.saturating_sub(part.cache_write);
        self.reasoning = self.reasoning.saturating_sub(part.reasoning);
    }
}

/// An attempt: a call to an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Name of the provider.
    pub provider: Arc<str>,
    /// Catalogue id of the model.
    pub model: Arc<str>,
    /// `ok` or an error code.
    pub status: Cow<'static, str>,
    /// Milliseconds to its answer or failure.
    pub latency_ms: u64,
    /// Milliseconds from the acceptance of the request to the start of the attempt. Old rows have 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub started_ms: u64,
    /// Milliseconds in which the gateway fetched the images of the request before this attempt. 0: it fetched none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub image_fetch_ms: u64,
    /// Its cost in femto-USD; None = a price is unknown. Old rows have 0 then.
    #[serde(default = "free")]
    pub cost: Option<i128>,
    /// The part of an unknown cost whose prices are known, in femto-USD. 0 if the cost is known.
    #[serde(default)]
    pub known_part: i128,
    /// The upstream's message about a failed call, for operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Attempt {
    /// The part of the entry's cost that belongs to this attempt.
    pub(crate) fn share_of_cost(&self) -> i128 {
        self.cost.unwrap_or(self.known_part)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::unnecessary_wraps, reason = "the type of the member")]
fn free() -> Option<i128> {
    Some(0)
}

/// One request. Deserialising it reads the old JSON format with member names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// `req_…`. An id always has the same `at`: the time that the id holds.
    pub request_id: Arc<str>,
    /// Time of acceptance in unix milliseconds.
    pub at: i64,
    /// Id of the key.
    pub key_id: Arc<str>,
    /// Name of the key at that time.
    pub key_name: Arc<str>,
    /// The key's team.
    pub team: Option<Arc<str>>,
    /// The name of the operation: `chat`, `completion`, `embeddings`, `messages`, and so on.
    pub operation: Cow<'static, str>,
    /// The model name as the client wrote it.
    pub requested_model: String,
    /// Catalogue id of the model that served, else of the first candidate; empty without candidates.
    pub model: Arc<str>,
    /// Provider of that model.
    pub provider: Arc<str>,
    /// `ok` or an error code.
    pub status: Cow<'static, str>,
    /// Canonical strategy name.
    pub strategy: Cow<'static, str>,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// Whether the answer came from the cache.
    pub cache_hit: bool,
    /// Whether another model than the requested one served.
    pub fallback: bool,
    /// Tokens.
    pub tokens: Tokens,
    /// Whether the gateway estimated the tokens.
    pub estimated: bool,
    /// The part of `tokens.cache_write` that the provider's cache keeps for an hour.
    pub cache_write_1h: u64,
    /// Units other than tokens.
    #[serde(skip)]
    pub units: Units,
    /// Cost in femto-USD, as far as prices are known.
    pub cost: i128,
    /// Whether a price that the cost needs is unknown.
    pub unpriced: bool,
    /// The sum of the costs that the answers of upstreams stated, in femto-USD; None: none stated one.
    #[serde(skip)]
    pub provider_cost: Option<i128>,
    /// The cost that the cache saved, in femto-USD.
    pub saved: i128,
    /// Whether the saved cost is unknown, because the answer in the cache was made at an unknown price.
    pub unknown_saved: bool,
    /// Milliseconds to the first content of a stream.
    pub ttft_ms: Option<u64>,
    /// Milliseconds to the end of the answer.
    pub latency_ms: u64,
    /// The attempts in order.
    #[serde(deserialize_with = "read_nested_attempts")]
    pub attempts: Vec<Attempt>,
    /// The request's `user`.
    #[serde(rename = "end_user")]
    pub user: Option<String>,
    /// The request's end user, tags, repository, branch and pull request.
    #[serde(skip)]
    pub attribution: Option<Arc<Attribution>>,
    /// IP address of the client.
    pub client: Option<String>,
    /// The session that the request belongs to: a run of an agent.
    pub session: Option<String>,
    /// How it was routed, if there was a choice, and its warnings. None: neither, or a row of an older version.
    #[serde(skip)]
    pub decision: Option<Box<Decision>>,
    /// The use of the provider's prompt cache.
    #[serde(skip)]
    pub prompt_cache: Option<Arc<PromptCacheUse>>,
    /// The lines of the charge. None: the tokens tell them, or a row of an older version.
    #[serde(skip)]
    pub charges: Option<Box<Charges>>,
}

impl Entry {
    /// The cost in femto-USD; None = a price is unknown.
    #[must_use]
    pub fn known_cost(&self) -> Option<i128> {
        (!self.unpriced).then_some(self.cost)
    }

    /// The cost that the cache saved, in femto-USD; None = unknown.
    #[must_use]
    pub fn known_saved(&self) -> Option<i128> {
        (!self.unknown_saved).then_some(self.saved)
    }

    /// The API through which the request came: `chat`, `responses`, `messages`, `completions`, and so on.
    #[must_use]
    pub fn surface(&self) -> &str {
        surface_of(&self.operation)
    }
}

/// The surface of an operation.
fn surface_of(operation: &str) -> &str {
    Operation::named(operation).map_or(operation, |operation| operation.row().surface)
}

/// Reads attempts in the old format: JSON text inside a JSON string.
fn read_nested_attempts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Attempt>, D::Error> {
    let text = String::deserialize(deserializer)?;
    serde_json::from_str(&text).map_err(serde::de::Error::custom)
}

/// Sums over requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests without an answer.
    pub failed: u64,
    /// Number of requests answered from the cache.
    pub cache_hits: u64,
    /// Tokens.
    pub tokens: Tokens,
    /// Cost in femto-USD, as far as prices are known.
    pub cost: i128,
    /// Number of requests of which a price is unknown.
    pub unpriced: u64,
    /// Cost saved by the cache, in femto-USD.
    pub saved: i128,
}

impl Sums {
    fn add(&mut self, entry: &Entry) {
        self.requests += 1;
        self.failed += u64::from(entry.status != "ok");
        self.cache_hits += u64::from(entry.cache_hit);
        self.tokens.add(&entry.tokens);
        self.cost += entry.cost;
        self.unpriced += u64::from(entry.unpriced);
        self.saved += entry.saved;
    }

    /// All of these sums together.
    pub fn of<'s>(parts: impl Iterator<Item = &'s Self>) -> Self {
        parts.fold(Self::default(), |mut total, part| {
            total.join(part);
            total
        })
    }

    /// These sums without a part of them.
    fn without(mut self, part: &Self) -> Self {
        self.requests = self.requests.saturating_sub(part.requests);
        self.failed = self.failed.saturating_sub(part.failed);
        self.cache_hits = self.cache_hits.saturating_sub(part.cache_hits);
        self.tokens.subtract(&part.tokens);
        self.cost -= part.cost;
        self.unpriced = self.unpriced.saturating_sub(part.unpriced);
        self.saved -= part.saved;
        self
    }

    fn join(&mut self, more: &Self) {
        self.requests += more.requests;
        self.failed += more.failed;
        self.cache_hits += more.cache_hits;
        self.tokens.add(&more.tokens);
        self.cost += more.cost;
        self.unpriced += more.unpriced;
        self.saved += more.saved;
    }
}

/// The column that a report is grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum GroupBy {
    Key,
    Team,
    Model,
    Provider,
    Session,
    Surface,
    Day,
    Hour,
}

impl GroupBy {
    /// Whether only the sums by session have the column.
    fn is_of_sessions(self) -> bool {
        matches!(self, Self::Session | Self::Surface)
    }

    /// All groupings with their names.
    pub const ALL: [(&'static str, Self); 8] = [
        ("key", Self::Key),
        ("team", Self::Team),
        ("model", Self::Model),
        ("provider", Self::Provider),
        ("session", Self::Session),
        ("surface", Self::Surface),
        ("day", Self::Day),
        ("hour", Self::Hour),
    ];

    /// The SQL expression of the group as text. Hours and days are unix seconds.
    fn column(self) -> &'static str {
        match self {
            Self::Key => "key_id",
            Self::Team => "team",
            Self::Model => "model",
            Self::Provider => "provider",
            Self::Session => "session",
            Self::Surface => "surface",
            Self::Day => "CAST(hour / 86400 * 86400 AS TEXT)",
            Self::Hour => "CAST(hour AS TEXT)",
        }
    }
}

/// The requests that count. None = all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Start time in unix milliseconds (reports: the hour that contains it).
    pub since: Option<i64>,
    /// End time in unix milliseconds, exclusive.
    pub until: Option<i64>,
    /// Id of the key.
    pub key_id: Option<String>,
    /// Team name.
    pub team: Option<String>,
    /// Catalogue id of the model.
    pub model: Option<String>,
    /// Provider name.
    pub provider: Option<String>,
    /// The session of the requests.
    pub session: Option<String>,
    /// The API of the requests, as [`Entry::surface`] names it.
    pub surface: Option<String>,
    /// Names that the requests have, each with its kind.
    pub names: Vec<(Dimension, String)>,
    /// `ok`, an error code, or `failed` for every error (only in the request log).
    pub status: Option<String>,
}

impl Filter {
    /// The values to search for, each with the SQL condition of its column.
    fn columns(&self) -> [(&'static str, Option<&String>); 4] {
        [
            (" AND key_id = ", self.key_id.as_ref()),
            (" AND team = ", self.team.as_ref()),
            (" AND model = ", self.model.as_ref()),
            (" AND provider = ", self.provider.as_ref()),
        ]
    }

    fn push_columns<'q>(&'q self, sql: &mut Sql<'q>) {
        for (piece, value) in self.columns() {
            if let Some(value) = value {
                sql.push(piece).push_name(value);
            }
        }
        if let Some(surface) = &self.surface {
            sql.push(" AND surface = ").push_name(surface);
        }
    }

    fn push_session<'q>(&'q self, sql: &mut Sql<'q>) {
        if let Some(session) = &self.session {
            sql.push(" AND session = ").push_name(session);
        }
    }

    /// Whether a column other than the session is searched for.
    fn has_columns(&self) -> bool {
        self.surface.is_some() || self.columns().iter().any(|(_, name)| name.is_some())
    }

    /// The table of hourly sums that has every column of a filter without names.
    fn sums_table(&self) -> &'static str {
        if self.session.is_some() || self.surface.is_some() { "usage_sessions" } else { "usage_hours" }
    }
}

/// The owner of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spender<'s> {
    /// The key of this id.
    Key(&'s str),
    /// All keys of the team of this name.
    Team(&'s str),
}

/// The start of a page of the log: after this request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Time of the request.
    pub at: i64,
    /// Id of the request.
    pub request_id: Arc<str>,
}

/// An amount as its two columns: nano-USD and the remaining femto-USD.
fn split(femtos: i128) -> (i64, i64) {
    let nano = i64::try_from(femtos.div_euclid(FEMTOS_PER_NANO)).unwrap_or(i64::MAX);
    (nano, i64::try_from(femtos.rem_euclid(FEMTOS_PER_NANO)).unwrap_or(0))
}

fn joined(nano: i64, rest: i64) -> i128 {
    i128::from(nano) * FEMTOS_PER_NANO + i128::from(rest)
}

#[cfg(test)]
mod tests;
