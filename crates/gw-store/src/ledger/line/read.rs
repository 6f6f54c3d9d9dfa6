//! Reads entries that [`super`] has written, also those of later versions with more values at the end of an array.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use gw_wire::attribution::Attribution;
use gw_wire::usage::{Unit, UnitCount, Units};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{CACHE_HIT, ESTIMATED, FALLBACK, STREAM, UNKNOWN_SAVED, UNPRICED};
use crate::ledger::charges::EncodedCharges;
use crate::ledger::prompt_caches::EncodedPromptCache;
use crate::ledger::{Attempt, Decision, Entry, Tokens};

/// Maximum bytes of an entry that is searched for in damaged bytes.
const MAX_ENTRY_BYTES: usize = 1 << 20;

/// A value that is read from the start of an array. A later version may have put more values behind it.
struct Leading<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Leading<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(LeadingVisitor(PhantomData))
    }
}

struct LeadingVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for LeadingVisitor<T> {
    type Value = Leading<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        let value = T::deserialize(SeqAccessDeserializer::new(&mut values))?;
        while values.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Leading(value))
    }
}

/// An entry in the order in which [`super::encode`] writes it. Fields without a default are always written.
#[derive(Deserialize)]
struct EncodedFields {
    request_id: Arc<str>,
    at: i64,
    key_id: Arc<str>,
    key_name: Arc<str>,
    team: Option<Arc<str>>,
    operation: Cow<'static, str>,
    model: Arc<str>,
    provider: Arc<str>,
    strategy: Cow<'static, str>,
    status: Cow<'static, str>,
    requested_model: String,
    latency_ms: u64,
    prompt: u64,
    completion: u64,
    cost: i128,
    ttft_ms: Option<u64>,
    calls: Vec<Leading<Call>>,
    user: Option<String>,
    client: Option<String>,
    #[serde(default)]
    flags: u8,
    #[serde(default)]
    cached: u64,
    #[serde(default)]
    cache_write: u64,
    #[serde(default)]
    reasoning: u64,
    #[serde(default)]
    saved: i128,
    #[serde(default)]
    session: Option<String>,
    #[serde(default)]
    cache_write_1h: u64,
    #[serde(default)]
    decision: Option<Leading<Decision>>,
    /// The name of a unit other than tokens.
    #[serde(default)]
    unit: Option<String>,
    #[serde(default)]
    unit_count: f64,
    #[serde(default)]
    attribution: Option<Leading<EncodedAttribution>>,
    #[serde(default)]
    prompt_cache: Option<Leading<EncodedPromptCache>>,
    #[serde(default)]
    provider_cost: Option<i128>,
    #[serde(default)]
    charges: Option<Leading<EncodedCharges>>,
}

#[derive(Deserialize)]
struct EncodedAttribution {
    tags: Vec<Box<str>>,
    end_user: Option<Box<str>>,
    repository: Option<Box<str>>,
    branch: Option<Box<str>>,
    pull_request: Option<Box<str>>,
}

impl From<EncodedAttribution> for Attribution {
    fn from(said: EncodedAttribution) -> Self {
        let EncodedAttribution { tags, end_user, repository, branch, pull_request } = said;
        Self { end_user, tags, repository, branch, pull_request }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Call {
    status: String,
    latency_ms: u64,
    provider: Option<Arc<str>>,
    model: Option<Arc<str>>,
    reason: Option<String>,
    /// None: the usual cost.
    #[serde(deserialize_with = "written_cost")]
    cost: Option<Option<i128>>,
    known_part: i128,
    started_ms: u64,
    image_fetch_ms: u64,
}

/// Reads a cost that is written; null is an unknown price.
fn written_cost<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i128>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl Entry {
    /// Reads an entry from a line of the journal, without the letter before it. None = the text is no entry.
    #[must_use]
    pub fn from_line(json: &str) -> Option<Self> {
        read(json).ok()
    }
}

/// Reads an entry, also in the old format with member names.
pub(crate) fn read(json: &str) -> sqlx::Result<Entry> {
    if json.starts_with('{') {
        let mut entry: Entry = serde_json::from_str(json).map_err(unreadable)?;
        if let [only] = entry.attempts.as_mut_slice() {
            only.cost = Some(entry.cost);
        }
        return Ok(entry);
    }
    serde_json::from_str(json).map(|Leading(said)| entry(said)).map_err(unreadable)
}

/// Reads the entry at the start of these bytes, whatever follows, and returns its length. `Err` holds the number of bytes
/// that were examined without finding an entry.
pub(crate) fn read_prefix(bytes: &[u8]) -> Result<(Entry, usize), usize> {
    let bytes = bytes.get(..MAX_ENTRY_BYTES).unwrap_or(bytes);
    let (entry, length) = if bytes.starts_with(b"{") {
        first(bytes)?
    } else {
        first(bytes).map(|(Leading(said), n)| (entry(said), n))?
    };
    // Other bytes may look like an entry by chance.
    if entry.request_id.starts_with("req_") { Ok((entry, length)) } else { Err(length) }
}

fn first<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<(T, usize), usize> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter();
    match values.next() {
        Some(Ok(value)) => Ok((value, values.byte_offset())),
        // Without line breaks the column is the offset.
        Some(Err(error)) => Err(error.column()),
        None => Err(0),
    }
}

fn entry(said: EncodedFields) -> Entry {
    let (provider, model) = (Arc::clone(&said.provider), Arc::clone(&said.model));
    let usual_cost = if said.calls.len() == 1 { said.cost } else { 0 };
    let call = |Leading(call): Leading<Call>| Attempt {
        provider: call.provider.unwrap_or_else(|| Arc::clone(&provider)),
        model: call.model.unwrap_or_else(|| Arc::clone(&model)),
        status: call.status.into(),
        latency_ms: call.latency_ms,
        started_ms: call.started_ms,
        image_fetch_ms: call.image_fetch_ms,
        cost: call.cost.unwrap_or(Some(usual_cost)),
        known_part: call.known_part,
        reason: call.reason,
    };
    let is_on = |bit| said.flags & bit != 0;
    Entry {
        stream: is_on(STREAM),
        cache_hit: is_on(CACHE_HIT),
        fallback: is_on(FALLBACK),
        estimated: is_on(ESTIMATED),
        unpriced: is_on(UNPRICED),
        unknown_saved: is_on(UNKNOWN_SAVED),
        attempts: said.calls.into_iter().map(call).collect(),
        request_id: said.request_id,
        at: said.at,
        key_id: said.key_id,
        key_name: said.key_name,
        team: said.team,
        operation: said.operation,
        requested_model: said.requested_model,
        model: said.model,
        provider: said.provider,
        status: said.status,
        strategy: said.strategy,
        tokens: Tokens {
            prompt: said.prompt,
            completion: said.completion,
            cached: said.cached,
            cache_write: said.cache_write,
            reasoning: said.reasoning,
        },
        cost: said.cost,
        saved: said.saved,
        ttft_ms: said.ttft_ms,
        latency_ms: said.latency_ms,
        user: said.user,
        client: said.client,
        session: said.session,
        cache_write_1h: said.cache_write_1h,
        decision: said.decision.map(|Leading(decision)| Box::new(decision)),
        units: said
            .unit
            .and_then(|name| Unit::named(&name))
            .map(|unit| Units::counted(unit, UnitCount::of_number(said.unit_count).unwrap_or_default()))
            .unwrap_or_default(),
        attribution: said.attribution.map(|Leading(names)| Arc::new(names.into())),
        prompt_cache: said.prompt_cache.map(|Leading(used)| Arc::new(used.into())),
        provider_cost: said.provider_cost,
        charges: said.charges.map(|Leading(charges)| Box::new(charges.into())),
    }
}

pub(super) fn unreadable(error: serde_json::Error) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}
