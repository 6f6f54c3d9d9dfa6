//! An entry as text: a JSON array without member names, because they would be repeated in every row. The journal keeps the
//! whole line. SQLite keeps the part that many rows share only once.
//!
//! ```text
//! ["req_…",at,"key_id","key_name",team,"operation","model","provider","strategy","status","requested_model",latency,…]
//!             └──────────────────── shared part ─────────────────────────┘          └────────── the rest ────────────┘
//! ```

mod read;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use gw_wire::attribution::Attribution;
use gw_wire::json::is_plain;
use gw_wire::usage::Units;

use super::attribution::names_json;
use super::charges;
use super::line_text::LineText;
use super::prompt_caches;
use super::rare_sums::RareSums;
use super::{Attempt, Entry, Sums, Tokens, surface_of};
use crate::sql::{indexed, without_nul};

use self::read::unreadable;
pub(crate) use self::read::{read, read_prefix};

/// Maximum count per request, whatever an upstream reports: the sum of many requests still fits 64 bits.
const MAX_COUNT: u64 = 1_000_000_000_000;
/// Maximum cost per request in femto-USD: a million dollars.
const MAX_COST_FEMTOS: i128 = 1_000_000_000_000_000_000_000;

/// Bytes of a journal line before the JSON: the line break and the kind of the line.
const HEAD_BYTES: usize = 2;
/// Nearly all lines fit into this many bytes without growing the buffer.
const USUAL_BYTES: usize = 384;

/// Bits of the number that holds an entry's flags.
const STREAM: u8 = 1;
const CACHE_HIT: u8 = 2;
const FALLBACK: u8 = 4;
const ESTIMATED: u8 = 8;
const UNPRICED: u8 = 16;
const UNKNOWN_SAVED: u8 = 32;

/// An encoded entry: its values are bounded, and it is serialised only once.
#[derive(Debug)]
pub struct Line {
    text: String,
    shared_part: Range<usize>,
    rest: usize,
    pub(crate) request_id: Arc<str>,
    pub(crate) at: i64,
    /// The status of a failed request; `None` for a successful one.
    pub(crate) failure: Option<Cow<'static, str>>,
    pub(crate) session: Option<String>,
    pub(crate) attribution: Option<Arc<Attribution>>,
    /// The names of the attribution, as the row holds them.
    pub(crate) names: Option<String>,
    /// Units other than tokens.
    pub(crate) units: Units,
    /// The amounts that few requests have.
    pub(crate) rare: RareSums,
    /// The entry's share of the sums, without the costs of other models.
    pub(crate) sums: Sums,
    /// The costs of attempts at other models than the entry's, which are these models' share of the sums.
    pub(crate) others: Vec<OtherCost>,
}

/// The cost of attempts at a model that is not the entry's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OtherCost {
    pub(crate) model: String,
    pub(crate) provider: String,
    pub(crate) sums: Sums,
}

/// The names in the shared part by which rows are searched.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) key_id: String,
    pub(crate) team: Option<String>,
    pub(crate) model: String,
    pub(crate) provider: String,
    /// The surface of the operation.
    pub(crate) surface: String,
}

impl Line {
    /// Bounds the values that an upstream may have reported, and encodes the entry.
    #[must_use]
    pub fn new(entry: Entry) -> Self {
        Self::with_head(entry, None)
    }

    /// As [`Line::new`]. `begun` is the line of the same request's begin.
    pub(crate) fn after(begun: Option<&BegunLine>, entry: Entry) -> Self {
        Self::with_head(entry, begun)
    }

    fn with_head(mut entry: Entry, begun: Option<&BegunLine>) -> Self {
        let has_same_names = bound(&mut entry);
        let head = begun.filter(|_| has_same_names).and_then(|begun| begun.head_of(&entry));
        let (text, shared_part, rest) = encode("\nE", &entry, head);
        let mut sums = Sums::default();
        sums.add(&entry);
        let others = costs_of_others(&entry, &mut sums);
        let rare = RareSums::of(&entry);
        let Entry { request_id, at, status, session, attribution, units, .. } = entry;
        let names = attribution.as_deref().and_then(names_json);
        let failure = Some(status).filter(|status| status != "ok");
        Self {
            text,
            shared_part,
            rest,
            request_id,
            at,
            failure,
            session,
            attribution,
            names,
            units,
            rare,
            sums,
            others,
        }
    }

    /// The journal line of a request that begins.
    pub(crate) fn begun(entry: &Entry) -> BegunLine {
        let (text, shared_part, _) = encode("\nB", entry, None);
        BegunLine { text, shared_part }
    }

    /// The journal line of a request's usage so far.
    pub(crate) fn progress(entry: &Entry) -> String {
        encode("\nP", entry, None).0
    }

    /// The journal line.
    pub(crate) fn journal_line(&self) -> &str {
        &self.text
    }

    /// The whole entry, as [`read()`] reads it.
    pub(crate) fn json(&self) -> &str {
        self.text.get(HEAD_BYTES..).unwrap_or_default()
    }

    /// The part that many lines share.
    pub(crate) fn shared_part(&self) -> &str {
        self.text.get(self.shared_part.clone()).unwrap_or_default()
    }

    /// The part after the status, without the end of the array.
    pub(crate) fn rest(&self) -> &str {
        self.text.get(self.rest..self.text.len() - 1).unwrap_or_default()
    }
}

/// The journal line of a request that begins. The line of its end mostly has the same head: all up to the strategy.
#[derive(Debug)]
pub(crate) struct BegunLine {
    text: String,
    shared_part: Range<usize>,
}

impl BegunLine {
    /// The journal line.
    pub(crate) fn journal_line(&self) -> &str {
        &self.text
    }

    /// The head of a later line of the same request, from the array's begin on. None: the target or the strategy has changed, or a
    /// name needs an escape. The other parts of the head never change.
    fn head_of(&self, entry: &Entry) -> Option<(&str, Range<usize>)> {
        let names = [&*entry.model, &*entry.provider, &*entry.strategy];
        let mut head = self.text.get(HEAD_BYTES..self.shared_part.end)?;
        for name in names.iter().rev() {
            // A quote in a name is written with an escape, so the text between two quotes is one whole name.
            let rest = head.strip_suffix('"')?.strip_suffix(*name)?;
            head = rest.strip_suffix('"').filter(|_| is_plain(name))?.strip_suffix(',')?;
        }
        Some((self.text.get(HEAD_BYTES..self.shared_part.end)?, self.shared_part.clone()))
    }
}

impl Names {
    /// Reads the output of [`Line::shared_part`].
    pub(crate) fn read(shared_part: &str) -> sqlx::Result<Self> {
        type Common = (String, String, Option<String>, String, String, String, String);
        let common: Common = serde_json::from_str(&format!("[{shared_part}]")).map_err(unreadable)?;
        let (key_id, _, team, operation, model, provider, _) = common;
        let surface = indexed(surface_of(&operation)).into_owned();
        Ok(Self { key_id, team, model, provider, surface })
    }
}

/// Moves the costs of attempts at other models out of the sums of an entry. All parts add up to the entry. A request with an
/// unknown price counts where the price is missing.
fn costs_of_others(entry: &Entry, sums: &mut Sums) -> Vec<OtherCost> {
    let mut others: Vec<OtherCost> = Vec::new();
    for attempt in &entry.attempts {
        let Attempt { model, provider, cost, .. } = attempt;
        let is_own = **model == *entry.model && **provider == *entry.provider;
        if is_own || *cost == Some(0) {
            continue;
        }
        let (model, provider) = (indexed(model), indexed(provider));
        let place = others.iter().position(|other| other.model == model && other.provider == provider);
        let place = place.unwrap_or_else(|| {
            let (model, provider) = (model.into_owned(), provider.into_owned());
            others.push(OtherCost { model, provider, sums: Sums::default() });
            others.len() - 1
        });
        let Some(OtherCost { sums: other, .. }) = others.get_mut(place) else { continue };
        // The bounds of the entry bound its parts, too.
        let cost = attempt.share_of_cost().clamp(0, sums.cost.max(0));
        other.cost += cost;
        sums.cost -= cost;
    }
    let unpriced = entry.attempts.iter().find(|attempt| attempt.cost.is_none());
    if let Some(Attempt { model, provider, .. }) = unpriced
        && let Some(other) = others
            .iter_mut()
            .find(|other| other.model == indexed(model) && other.provider == indexed(provider))
    {
        other.sums.unpriced = std::mem::take(&mut sums.unpriced);
    }
    others.retain(|other| other.sums != Sums::default());
    others
}

/// Bounds the values that an upstream may have reported. False: a name has changed.
fn bound(entry: &mut Entry) -> bool {
    let mut has_same_names = true;
    let Tokens { prompt, completion, cached, cache_write, reasoning } = &mut entry.tokens;
    for count in
        [prompt, completion, cached, cache_write, reasoning, &mut entry.latency_ms, &mut entry.cache_write_1h]
    {
        *count = (*count).min(MAX_COUNT);
    }
    entry.ttft_ms = entry.ttft_ms.map(|millis| millis.min(MAX_COUNT));
    let names = [&mut entry.request_id, &mut entry.key_id, &mut entry.model, &mut entry.provider];
    for name in names.into_iter().chain(&mut entry.team) {
        if let Cow::Owned(other) = indexed(name) {
            *name = other.into();
            has_same_names = false;
        }
    }
    if let Some(Cow::Owned(other)) = entry.session.as_deref().map(indexed) {
        entry.session = Some(other);
        has_same_names = false;
    }
    if let Cow::Owned(other) = without_nul(&entry.status) {
        entry.status = other.into();
    }
    if let Some(decision) = &mut entry.decision {
        decision.bound();
    }
    for amount in [&mut entry.cost, &mut entry.saved].into_iter().chain(&mut entry.provider_cost) {
        *amount = (*amount).clamp(-MAX_COST_FEMTOS, MAX_COST_FEMTOS);
    }
    has_same_names
}

/// The line, the range of its shared part, and the start of the rest. `head` is the line break and the kind of the line: the
/// line break comes first, so that a line cut off by a full disk does not damage the next one. `known` is the text from the array's
/// begin to the end of the shared part, if an earlier line has the same.
fn encode(
    head: &'static str,
    entry: &Entry,
    known: Option<(&str, Range<usize>)>,
) -> (String, Range<usize>, usize) {
    let mut out = LineText::with_capacity(USUAL_BYTES);
    out.raw(head);
    let shared_part = match known {
        Some((text, shared_part)) => {
            out.raw(text);
            shared_part
        }
        None => {
            out.character('[');
            out.text(&entry.request_id);
            out.next_number(entry.at);
            let common = out.len() + 1;
            out.next_text(&entry.key_id);
            out.next_text(&entry.key_name);
            out.next_text_or_null(entry.team.as_deref());
            for text in [&*entry.operation, &*entry.model, &*entry.provider, &*entry.strategy] {
                out.next_text(text);
            }
            common..out.len()
        }
    };
    out.next_text(&entry.status);
    let rest = out.len() + 1;
    out.next_text(&entry.requested_model);
    out.next_number(entry.latency_ms);
    out.next_number(entry.tokens.prompt);
    out.next_number(entry.tokens.completion);
    out.next_amount(entry.cost);
    match entry.ttft_ms {
        Some(millis) => out.next_number(millis),
        None => out.raw(",null"),
    }
    calls(&mut out, entry);
    out.next_text_or_null(entry.user.as_deref());
    out.next_text_or_null(entry.client.as_deref());
    ending(&mut out, entry);
    out.character(']');
    (out.into_text(), shared_part, rest)
}

/// Encodes the values that most entries lack. Those behind the last one that the entry has are left out.
fn ending(out: &mut LineText, entry: &Entry) {
    let Tokens { cached, cache_write, reasoning, .. } = entry.tokens;
    let flags = flags(entry);
    let attribution = entry.attribution.as_deref();
    let has_provider_cost = entry.provider_cost.is_some() || entry.charges.is_some();
    let has_prompt_cache = entry.prompt_cache.is_some() || has_provider_cost;
    let has_attribution = attribution.is_some() || has_prompt_cache;
    let has_units = has_attribution || !entry.units.is_none();
    let has_decision = entry.decision.is_some() || has_units;
    let has_hour_writes = entry.cache_write_1h != 0 || has_decision;
    let has_end = entry.session.is_some() || has_hour_writes;
    let counts = [flags.into(), cached, cache_write, reasoning];
    let said = match has_end || entry.saved != 0 {
        true => counts.len(),
        false => counts.iter().rposition(|value| *value != 0).map_or(0, |last| last + 1),
    };
    counts.into_iter().take(said).for_each(|count| out.next_number(count));
    if has_end || entry.saved != 0 {
        out.next_amount(entry.saved);
    }
    if has_end {
        out.next_text_or_null(entry.session.as_deref());
    }
    if has_hour_writes {
        out.next_number(entry.cache_write_1h);
    }
    match &entry.decision {
        Some(decision) => {
            out.character(',');
            decision.write(out);
        }
        None if has_decision => out.next_text_or_null(None),
        None => {}
    }
    match entry.units.get() {
        Some((unit, count)) => {
            out.next_text(unit.name());
            out.raw(",");
            out.raw(&count.to_string());
        }
        None if has_units => out.raw(",null,0"),
        None => {}
    }
    match attribution {
        Some(attribution) => attributed(out, attribution),
        None if has_attribution => out.next_text_or_null(None),
        None => {}
    }
    match &entry.prompt_cache {
        Some(used) => prompt_caches::write(out, used),
        None if has_prompt_cache => out.next_text_or_null(None),
        None => {}
    }
    match entry.provider_cost {
        Some(stated) => out.next_amount(stated),
        None if has_provider_cost => out.next_text_or_null(None),
        None => {}
    }
    if let Some(charges) = &entry.charges {
        charges::write(out, charges);
    }
}

/// Encodes whom a request is for, and what it belongs to.
fn attributed(out: &mut LineText, attribution: &Attribution) {
    let Attribution { end_user, tags, repository, branch, pull_request } = attribution;
    out.raw(",[[");
    for (n, tag) in tags.iter().enumerate() {
        out.raw(if n == 0 { "" } else { "," });
        out.text(tag);
    }
    out.character(']');
    for name in [end_user, repository, branch, pull_request] {
        out.next_text_or_null(name.as_deref());
    }
    out.character(']');
}

/// Encodes the upstream calls. Usually there is one, to the entry's model and at the entry's cost. A cost is null if a price
/// is unknown; its known part follows.
fn calls(out: &mut LineText, entry: &Entry) {
    out.raw(",[");
    let are_many = entry.attempts.len() > 1;
    for (n, attempt) in entry.attempts.iter().enumerate() {
        let Attempt { provider, model, status, latency_ms, started_ms, image_fetch_ms, .. } = attempt;
        let Attempt { cost, known_part, reason, .. } = attempt;
        out.raw(if n == 0 { "[" } else { ",[" });
        out.text(status);
        out.next_number(*latency_ms);
        let usual = if are_many { 0 } else { entry.cost };
        let is_last_written = (*started_ms | *image_fetch_ms) != 0;
        let cost = Some(cost).filter(|cost| is_last_written || **cost != Some(usual));
        if **provider != *entry.provider || **model != *entry.model {
            out.next_text(provider);
            out.next_text(model);
        } else if reason.is_some() || cost.is_some() {
            out.raw(",null,null");
        }
        if reason.is_some() || cost.is_some() {
            out.next_text_or_null(reason.as_deref());
        }
        match cost {
            Some(Some(cost)) => out.next_amount(*cost),
            Some(None) => out.raw(",null"),
            None => {}
        }
        if is_last_written || (matches!(cost, Some(None)) && *known_part != 0) {
            out.next_amount(*known_part);
        }
        if is_last_written {
            out.next_number(*started_ms);
        }
        if *image_fetch_ms != 0 {
            out.next_number(*image_fetch_ms);
        }
        out.character(']');
    }
    out.character(']');
}

/// The flags as bits.
fn flags(entry: &Entry) -> u8 {
    let all = [
        (entry.stream, STREAM),
        (entry.cache_hit, CACHE_HIT),
        (entry.fallback, FALLBACK),
        (entry.estimated, ESTIMATED),
        (entry.unpriced, UNPRICED),
        (entry.unknown_saved, UNKNOWN_SAVED),
    ];
    all.into_iter().fold(0, |flags, (is_on, bit)| if is_on { flags | bit } else { flags })
}

#[cfg(test)]
mod tests;
