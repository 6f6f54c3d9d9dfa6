//! The cost of a request line by line.

use std::sync::Arc;

use gw_engine::Engine;
use gw_engine::catalog::prices::Prices;
use gw_store::ledger::{Attempt, Entry};
use gw_wire::charges::{ChargeLine, Charges};
use gw_wire::money::Money;
use gw_wire::usage::{Usage, small};
use serde::Serialize;

use crate::json::{Count, Usd};

/// The kinds of tokens. All other units are those of the unit lines.
const TOKENS: [&str; 9] = [
    "prompt",
    "cached",
    "cache_write",
    "cache_write_1h",
    "audio_prompt",
    "image_prompt",
    "completion",
    "audio_completion",
    "image_completion",
];
/// A price of tokens is that of a million.
const MILLION: i128 = 1_000_000;

/// The cost of a request. The ledger keeps the lines of requests with more than text, and of those with several calls. Those of all others
/// are computed from their tokens at today's prices.
#[derive(Serialize)]
pub(super) struct CostObject {
    currency: &'static str,
    model: Arc<str>,
    /// The date of the prices, where the catalogue tells it.
    price_as_of: Option<String>,
    price_source: Option<String>,
    lines: Vec<CostLine>,
    /// Only if the request has units other than tokens that have a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    units: Option<Vec<UnitLine>>,
    /// The cost of the other attempts.
    other_attempts_usd: Usd,
    total_usd: Usd,
    /// Whether the lines add up to the logged cost. Otherwise the prices have changed since, or an earlier release has written the row.
    matches_log: bool,
}

#[derive(Serialize)]
struct CostLine {
    kind: String,
    tokens: u64,
    usd_per_million: Usd,
    cost_usd: Usd,
    price_as_of: Option<String>,
}

/// The cost of units other than tokens.
#[derive(Serialize)]
struct UnitLine {
    unit: String,
    count: Count,
    usd_per_unit: Usd,
    cost_usd: Usd,
    price_as_of: Option<String>,
}

/// The cost of a request. None: it called no upstream, or a price is unknown.
pub(super) fn cost(engine: &Engine, entry: &Entry) -> Option<CostObject> {
    if entry.attempts.is_empty() || entry.unpriced {
        return None;
    }
    let in_force = engine.prices(&entry.model).unwrap_or_default();
    let charges = match &entry.charges {
        Some(charges) => (**charges).clone(),
        None => today(in_force.prices.as_ref()?, in_force.as_of.as_deref(), entry)?,
    };
    let total = charges.lines.iter().map(|line| line.cost.femtos()).sum::<i128>();
    let total = total.saturating_add(charges.other.femtos());
    let as_of = charges.price_as_of.as_deref().map(str::to_owned);
    let (tokens, units): (Vec<ChargeLine>, Vec<ChargeLine>) =
        charges.lines.into_iter().partition(|line| TOKENS.contains(&&*line.unit));
    let token_line = |ChargeLine { unit, count, price, cost }| CostLine {
        kind: String::from(unit),
        tokens: count.floor(),
        usd_per_million: Usd(price.femtos().saturating_mul(MILLION)),
        cost_usd: Usd(cost.femtos()),
        price_as_of: as_of.clone(),
    };
    let unit_line = |ChargeLine { unit, count, price, cost }| UnitLine {
        unit: String::from(unit),
        count: Count(count),
        usd_per_unit: Usd(price.femtos()),
        cost_usd: Usd(cost.femtos()),
        price_as_of: as_of.clone(),
    };
    Some(CostObject {
        currency: "USD",
        model: Arc::clone(&entry.model),
        lines: tokens.into_iter().map(token_line).collect(),
        units: (!units.is_empty()).then(|| units.into_iter().map(unit_line).collect()),
        price_as_of: as_of,
        price_source: in_force.source,
        other_attempts_usd: Usd(charges.other.femtos()),
        total_usd: Usd(total),
        matches_log: total == entry.cost,
    })
}

/// The charge of the tokens of a row at today's prices. None: a price is unknown now.
fn today(prices: &Prices, as_of: Option<&str>, entry: &Entry) -> Option<Charges> {
    let tokens = entry.tokens;
    let usage = Usage {
        prompt: tokens.prompt,
        completion: tokens.completion,
        cached: Some(tokens.cached),
        cache_write: Some(tokens.cache_write),
        cache_write_1h: Some(small(entry.cache_write_1h)),
        units: entry.units,
        ..Usage::default()
    };
    let (charge, lines) = prices.itemised(&usage);
    // A request that used nothing costs nothing, though a call with an unknown count would.
    if !charge.is_complete && usage.total() > 0 {
        return None;
    }
    // The lines are of the attempt that served, or else of the last one of the row's model.
    let last = |of_it: &dyn Fn(&Attempt) -> bool| entry.attempts.iter().rposition(of_it);
    let served_at =
        last(&|attempt| attempt.status == "ok").or_else(|| last(&|attempt| attempt.model == entry.model));
    let shown = served_at.unwrap_or(entry.attempts.len().saturating_sub(1));
    let others = entry.attempts.iter().enumerate().filter(|(at, _)| *at != shown);
    let other = Money::from_femtos(others.filter_map(|(_, attempt)| attempt.cost).sum());
    Some(Charges { lines, other, price_as_of: as_of.map(Into::into) })
}
