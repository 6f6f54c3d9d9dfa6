//! Repeats the routing decisions: for every request with a choice, the model that the strategy picks, and its cost and speed.

use std::collections::BTreeMap;
use std::sync::Arc;

use gw_admin::time::format_millis;
use gw_engine::catalog::{Catalog, Model};
use gw_routing::facts::{Facts, Prior};
use gw_routing::score::{Weights, order};
use gw_routing::strategy::Strategy;
use gw_store::ledger::Entry;
use gw_wire::money::Money;
use gw_wire::usage::{Usage, small};

use super::figures::{LogFigures, Mean, ModelFigures, has_strategy};

/// The reason why a row is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SkipReason {
    /// The request failed.
    Failed,
    /// Embeddings have no strategy.
    NoStrategy,
    /// The response cache answered.
    Cached,
    /// The catalogue does not know the requested name.
    UnknownName,
    /// Only one model could serve the request.
    NoChoice,
    /// A fallback or an upgrade served the request.
    Elsewhere,
    /// One of the two models has no price in USD.
    Unpriced,
}

impl SkipReason {
    /// The name in JSON.
    #[must_use]
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NoStrategy => "no_strategy",
            Self::Cached => "cached",
            Self::UnknownName => "unknown_name",
            Self::NoChoice => "no_choice",
            Self::Elsewhere => "served_elsewhere",
            Self::Unpriced => "unpriced",
        }
    }

    /// The text in the report.
    #[must_use]
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NoStrategy => "without a text to write (embeddings, rankings, images, …)",
            Self::Cached => "answered from the cache",
            Self::UnknownName => "of a name that the catalogue does not know",
            Self::NoChoice => "with only one model to choose",
            Self::Elsewhere => "served by a fallback or an upgrade",
            Self::Unpriced => "without a price",
        }
    }
}

/// The sums of some requests, as they were and as they would be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// The number of requests.
    pub requests: u64,
    /// Requests that another model would serve.
    pub moved: u64,
    /// Their cost.
    pub cost_was: Money,
    /// Their cost with the strategy.
    pub cost_would: Money,
    /// Milliseconds to the end, for requests with both figures.
    pub latency_was: Mean,
    /// Milliseconds to the end with the strategy.
    pub latency_would: Mean,
    /// Milliseconds to the first token, for streams with both figures.
    pub first_token_was: Mean,
    /// Milliseconds to the first token with the strategy.
    pub first_token_would: Mean,
    /// The expected percentage of first picks that fail.
    pub failing: Mean,
}

impl Sums {
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.moved += other.moved;
        self.cost_was += other.cost_was;
        self.cost_would += other.cost_would;
        self.latency_was.merge(other.latency_was);
        self.latency_would.merge(other.latency_would);
        self.first_token_was.merge(other.first_token_was);
        self.first_token_would.merge(other.first_token_would);
        self.failing.merge(other.failing);
    }
}

/// The requests that a model served, and those that it would serve.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServedCount {
    /// Requests that it served.
    pub was: u64,
    /// Requests that it would serve.
    pub would: u64,
}

/// A replay and its result.
#[derive(Debug)]
pub(super) struct Replay {
    /// The simulated strategy.
    pub strategy: Strategy,
    weights: Weights,
    log: LogFigures,
    /// The number of decisions.
    turn: u64,
    /// The sums by day (UTC).
    pub days: BTreeMap<String, Sums>,
    /// The counts and figures by model.
    pub models: BTreeMap<Arc<str>, (ServedCount, ModelFigures)>,
    /// The skipped rows by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
}

impl Replay {
    /// A replay of this strategy. `weights` are those of `balanced`; `log` holds the figures of the same rows.
    #[must_use]
    pub(super) fn new(strategy: Strategy, weights: Weights, log: LogFigures) -> Self {
        Self {
            strategy,
            weights,
            log,
            turn: 0,
            days: BTreeMap::new(),
            models: BTreeMap::new(),
            skipped: BTreeMap::new(),
        }
    }

    /// The sums of all days.
    #[must_use]
    pub(super) fn total(&self) -> Sums {
        self.days.values().fold(Sums::default(), |mut total, day| {
            total.merge(day);
            total
        })
    }

    /// Repeats the decision about a row.
    pub(super) fn add(&mut self, catalog: &Catalog, entry: &Entry) {
        if let Err(reason) = self.judge(catalog, entry) {
            *self.skipped.entry(reason).or_default() += 1;
        }
    }

    fn judge(&mut self, catalog: &Catalog, entry: &Entry) -> Result<(), SkipReason> {
        let candidates = candidates(catalog, entry)?;
        let served =
            candidates.iter().find(|model| *model.id == *entry.model).ok_or(SkipReason::Elsewhere)?;
        let usage = usage(entry);
        served.cost(&usage).filter(|_| !entry.unpriced).ok_or(SkipReason::Unpriced)?;
        let facts: Vec<Facts> =
            candidates.iter().map(|model| facts(model, &usage, &self.log.of(&model.id))).collect();
        let order = order(self.strategy, &self.weights, &facts, self.turn);
        self.turn += 1;
        let pick = order.first().and_then(|first| candidates.get(first.index)).ok_or(SkipReason::NoChoice)?;
        let would = pick.cost(&usage).ok_or(SkipReason::Unpriced)?;
        let figures = self.log.of(&pick.id);
        for (model, is_pick) in [(served, false), (pick, true)] {
            let (share, of) = self.models.entry(Arc::clone(&model.id)).or_default();
            *of = self.log.of(&model.id);
            *if is_pick { &mut share.would } else { &mut share.was } += 1;
        }
        let sums = self.days.entry(day(entry.at)).or_default();
        sums.requests += 1;
        sums.moved += u64::from(pick.id != served.id);
        sums.cost_was += Money::from_femtos(entry.cost);
        sums.cost_would += would;
        let (end, first) = figures.expected(pick, entry.stream);
        if let Some(end) = end {
            sums.latency_was.add(entry.latency_ms as f64);
            sums.latency_would.add(end);
        }
        if let Some((was, would)) = entry.ttft_ms.zip(first) {
            sums.first_token_was.add(was as f64);
            sums.first_token_would.add(would);
        }
        if let Some(percent) = figures.failed_percent() {
            sums.failing.add(percent);
        }
        Ok(())
    }
}

/// The models that could serve the request, in the order of the catalogue. There are at least two.
fn candidates<'c>(catalog: &'c Catalog, entry: &Entry) -> Result<Vec<&'c Arc<Model>>, SkipReason> {
    if !has_strategy(entry) {
        return Err(SkipReason::NoStrategy);
    }
    if entry.status != "ok" {
        return Err(SkipReason::Failed);
    }
    if entry.cache_hit {
        return Err(SkipReason::Cached);
    }
    let resolved = catalog.resolve(&entry.requested_model).ok_or(SkipReason::UnknownName)?;
    let tokens = entry.tokens.prompt.saturating_add(entry.tokens.completion);
    let fits =
        |model: &&Arc<Model>| model.is_chat() && model.context_length.is_none_or(|most| tokens <= most);
    let candidates: Vec<_> = resolved.models.iter().filter(fits).collect();
    if candidates.len() < 2 { Err(SkipReason::NoChoice) } else { Ok(candidates) }
}

fn facts(model: &Model, usage: &Usage, figures: &ModelFigures) -> Facts {
    Facts {
        cost_usd: model.cost(usage).map(Money::approx_usd),
        usd_per_million: model.price_per_million(),
        quality: model.scores.overall,
        weight: model.weight,
        prior: Prior {
            ttft_ms: model.performance.latency_p50_ms,
            availability: model.performance.availability,
        },
        averages: figures.seen(),
        ..Facts::default()
    }
}

fn usage(entry: &Entry) -> Usage {
    let tokens = &entry.tokens;
    Usage {
        prompt: tokens.prompt,
        completion: tokens.completion,
        cached: Some(tokens.cached),
        cache_write: Some(tokens.cache_write),
        cache_write_1h: Some(small(entry.cache_write_1h)),
        reasoning: Some(tokens.reasoning),
        units: entry.units,
        estimated: false,
        ..Usage::default()
    }
}

/// The UTC day of a time in unix milliseconds.
fn day(at: i64) -> String {
    format_millis(at).chars().take("2026-11-21".len()).collect()
}
