//! The decisions once more: for every request that had a choice, whom the strategy would have picked, and what that
//! comes to.

use std::collections::BTreeMap;
use std::sync::Arc;

use gw_admin::time::format_millis;
use gw_engine::catalog::{Catalog, Model};
use gw_routing::facts::{Facts, Prior};
use gw_routing::score::{Weights, order};
use gw_routing::strategy::Strategy;
use gw_store::ledger::{Entry, Tokens};
use gw_wire::money::Money;
use gw_wire::usage::Usage;

use super::figures::{Figures, Log, Mean, has_strategy};

/// Why a row cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// It was not answered.
    Failed,
    /// Embeddings have no strategy.
    NoStrategy,
    /// The response cache answered.
    Cached,
    /// The catalogue does not know its name, or no longer.
    UnknownName,
    /// Only one model could have served it.
    NoChoice,
    /// Who served it is not of that name: a fallback or an upgrade of the client's.
    Elsewhere,
    /// Who served it or who would have has no price in USD.
    Unpriced,
}

impl Why {
    /// In JSON.
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

    /// For people.
    #[must_use]
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NoStrategy => "embeddings",
            Self::Cached => "answered from the cache",
            Self::UnknownName => "of a name that the catalogue does not know",
            Self::NoChoice => "with only one model to choose",
            Self::Elsewhere => "served by a fallback or an upgrade",
            Self::Unpriced => "without a price",
        }
    }
}

/// What some requests came to, and what they would have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// How many.
    pub requests: u64,
    /// Of them served by another model.
    pub moved: u64,
    /// What they did cost.
    pub cost_was: Money,
    /// What they would have.
    pub cost_would: Money,
    /// Milliseconds to the end, of requests of which both are known.
    pub latency_was: Mean,
    /// What it would have been.
    pub latency_would: Mean,
    /// Milliseconds to the first token, of streams of which both are known.
    pub first_token_was: Mean,
    /// What it would have been.
    pub first_token_would: Mean,
    /// Percent of first picks that are expected to fail.
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

/// Requests that a model served, and that it would have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// Did.
    pub was: u64,
    /// Would have.
    pub would: u64,
}

/// A replay under way, and its result.
#[derive(Debug)]
pub(super) struct Replay {
    /// Who decides.
    pub strategy: Strategy,
    weights: Weights,
    log: Log,
    /// Decisions made.
    turn: u64,
    /// By day (UTC).
    pub days: BTreeMap<String, Sums>,
    /// By model.
    pub models: BTreeMap<Arc<str>, (Share, Figures)>,
    /// Rows that could not be judged.
    pub left_out: BTreeMap<Why, u64>,
}

impl Replay {
    /// Of this strategy, with these weights of `balanced`, over a log whose figures are known.
    #[must_use]
    pub(super) fn new(strategy: Strategy, weights: Weights, log: Log) -> Self {
        Self {
            strategy,
            weights,
            log,
            turn: 0,
            days: BTreeMap::new(),
            models: BTreeMap::new(),
            left_out: BTreeMap::new(),
        }
    }

    /// All days together.
    #[must_use]
    pub(super) fn total(&self) -> Sums {
        self.days.values().fold(Sums::default(), |mut total, day| {
            total.merge(day);
            total
        })
    }

    /// Decides about a row once more.
    pub(super) fn take(&mut self, catalog: &Catalog, entry: &Entry) {
        if let Err(why) = self.judge(catalog, entry) {
            *self.left_out.entry(why).or_default() += 1;
        }
    }

    fn judge(&mut self, catalog: &Catalog, entry: &Entry) -> Result<(), Why> {
        let candidates = candidates(catalog, entry)?;
        let served = candidates.iter().find(|model| *model.id == *entry.model).ok_or(Why::Elsewhere)?;
        let usage = usage(&entry.tokens);
        served.cost(&usage).ok_or(Why::Unpriced)?;
        let facts: Vec<Facts> =
            candidates.iter().map(|model| facts(model, &usage, &self.log.of(&model.id))).collect();
        let order = order(self.strategy, &self.weights, &facts, self.turn);
        self.turn += 1;
        let pick = order.first().and_then(|first| candidates.get(first.index)).ok_or(Why::NoChoice)?;
        let would = pick.cost(&usage).ok_or(Why::Unpriced)?;
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

/// Who could have served the request, in the catalogue's order: at least two.
fn candidates<'c>(catalog: &'c Catalog, entry: &Entry) -> Result<Vec<&'c Arc<Model>>, Why> {
    if !has_strategy(entry) {
        return Err(Why::NoStrategy);
    }
    if entry.status != "ok" {
        return Err(Why::Failed);
    }
    if entry.cache_hit {
        return Err(Why::Cached);
    }
    let resolved = catalog.resolve(&entry.requested_model).ok_or(Why::UnknownName)?;
    let tokens = entry.tokens.prompt.saturating_add(entry.tokens.completion);
    let fits =
        |model: &&Arc<Model>| model.is_chat() && model.context_length.is_none_or(|most| tokens <= most);
    let candidates: Vec<_> = resolved.models.iter().filter(fits).collect();
    if candidates.len() < 2 { Err(Why::NoChoice) } else { Ok(candidates) }
}

fn facts(model: &Model, usage: &Usage, figures: &Figures) -> Facts {
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

fn usage(tokens: &Tokens) -> Usage {
    Usage {
        prompt: tokens.prompt,
        completion: tokens.completion,
        cached: Some(tokens.cached),
        cache_write: Some(tokens.cache_write),
        reasoning: Some(tokens.reasoning),
        estimated: false,
        ..Usage::default()
    }
}

/// The day that a time is in, UTC.
fn day(at: i64) -> String {
    format_millis(at).chars().take("2026-11-21".len()).collect()
}
