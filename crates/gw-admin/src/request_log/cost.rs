//! The cost of a request line by line, at today's prices of its model.

use gw_engine::Engine;
use gw_store::ledger::Entry;
use gw_wire::money::{Price, UnitPrice};
use gw_wire::usage::Unit;
use serde::Serialize;

use crate::json::{Count, Usd};

/// The cost of a request. The ledger keeps tokens and the whole cost, and no prices: so the lines are computed from today's prices.
#[derive(Serialize)]
pub(super) struct CostObject {
    currency: &'static str,
    model: String,
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
    /// Whether the lines add up to the logged cost. Otherwise the prices have changed since, or the request had units that the log
    /// does not keep, such as audio or calls of hosted tools.
    matches_log: bool,
}

#[derive(Serialize)]
struct CostLine {
    kind: &'static str,
    tokens: u64,
    usd_per_million: Usd,
    cost_usd: Usd,
}

/// The cost of units other than tokens.
#[derive(Serialize)]
struct UnitLine {
    unit: &'static str,
    count: Count,
    usd_per_unit: Usd,
    cost_usd: Usd,
}

/// The cost of a request. None: it called no upstream, or a price of its model is unknown now.
pub(super) fn cost(engine: &Engine, entry: &Entry) -> Option<CostObject> {
    if entry.attempts.is_empty() || entry.unpriced {
        return None;
    }
    let prices = engine.prices(&entry.model)?;
    let prices_in_force = prices.prices.as_ref().filter(|prices| prices.is_usd())?;
    let rates = prices_in_force.rates(entry.tokens.prompt);
    let tokens = entry.tokens;
    let cached = tokens.cached.min(tokens.prompt);
    let written = tokens.cache_write.min(tokens.prompt - cached);
    let hour = entry.cache_write_1h.min(written);
    let units = entry
        .units
        .get()
        .and_then(|(unit, count)| Some((unit, count, prices_in_force.unit_price(entry.units)?)));
    // A call with priced units or a fee needs no price of its tokens.
    let has_other = units.is_some() || prices_in_force.units.of(Unit::Query).is_some();
    let input = if has_other { rates.input } else { Some(rates.input?) };
    let kinds: [(&'static str, u64, Option<Price>); 5] = [
        ("prompt", tokens.prompt - cached - written, input),
        ("cached", cached, rates.cached_input.or(input)),
        ("cache_write", written - hour, rates.cache_write.or(input)),
        ("cache_write_1h", hour, rates.hour_write()),
        ("completion", tokens.completion, rates.output),
    ];
    let mut lines = Vec::with_capacity(kinds.len());
    let mut served = prices_in_force.units.of(Unit::Query).map(UnitPrice::whole).unwrap_or_default();
    for (kind, tokens, price) in kinds {
        let is_main = ["prompt", "completion"].contains(&kind);
        let Some(price) = price else { continue };
        if tokens > 0 || is_main {
            let cost = price.cost(tokens);
            served += cost;
            let per_million = price.cost(1_000_000);
            lines.push(CostLine {
                kind,
                tokens,
                usd_per_million: Usd(per_million.femtos()),
                cost_usd: Usd(cost.femtos()),
            });
        }
    }
    let units = units.map(|(unit, count, price)| {
        let cost = count.cost(price);
        served += cost;
        let usd_per_unit = Usd(price.whole().femtos());
        let count = Count(count);
        vec![UnitLine { unit: unit.name(), count, usd_per_unit, cost_usd: Usd(cost.femtos()) }]
    });
    // The lines are of the attempt that served, or else of the last one.
    let served_at = entry.attempts.iter().rposition(|attempt| attempt.status == "ok");
    let shown = served_at.unwrap_or(entry.attempts.len().saturating_sub(1));
    let others = entry.attempts.iter().enumerate().filter(|(at, _)| *at != shown);
    let others: i128 = others.filter_map(|(_, attempt)| attempt.cost).sum();
    let total = served.femtos().saturating_add(others);
    Some(CostObject {
        currency: "USD",
        model: entry.model.clone(),
        price_as_of: prices.as_of,
        price_source: prices.source,
        lines,
        units,
        other_attempts_usd: Usd(others),
        total_usd: Usd(total),
        matches_log: total == entry.cost,
    })
}
