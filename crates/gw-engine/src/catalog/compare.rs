//! `GET /v1/models/compare`: two to four models side by side, with the best of each figure.

use std::sync::Arc;

use bytes::Bytes;
use gw_wire::json::{ObjectWriter, write_object};
use gw_wire::money::UnitPrice;
use gw_wire::usage::Unit;

use super::entry::{compared_prices, quality};
use super::list::{Visible, not_found, sees};
use super::model::Model;
use super::names::Index;
use super::prices::Prices;
use super::query::{Query, invalid};
use crate::error::Result;

/// The body of the comparison.
pub(super) fn compare(index: &Index, query: &str, visible: Visible<'_>) -> Result<Bytes> {
    let models = asked(index, &Query::parse(query), visible)?;
    let mut out = Vec::with_capacity(2048);
    let mut body = ObjectWriter::begin(&mut out);
    body.string("object", "model_comparison");
    body.strings("models", models.iter().map(|model| &*model.id));
    body.object("comparison", |comparison| {
        for model in &models {
            write_object(comparison.member(&model.id), |side| write_side(side, model));
        }
    });
    body.object("highlights", |highlights| write_highlights(highlights, &models));
    body.finish();
    Ok(Bytes::from(out))
}

/// The requested models, each once, in the order of the request.
fn asked<'i>(index: &'i Index, query: &Query, visible: Visible<'_>) -> Result<Vec<&'i Arc<Model>>> {
    let names = query.items("models");
    if names.is_empty() {
        let message = "Missing required parameter: 'models'. Name two to four models, separated by commas.";
        return Err(invalid("missing_required_parameter", message));
    }
    let mut found: Vec<(&str, Option<_>)> = Vec::new();
    for name in names {
        let resolved = index.resolve(name).map(|resolved| resolved.models);
        let model = resolved.and_then(|models| models.iter().find(|model| sees(visible, model)));
        let id = model.map_or(name, |model| &*model.id);
        if !found.iter().any(|(known, _)| *known == id) {
            found.push((id, model));
        }
        if found.len() > MAX_MODELS {
            break;
        }
    }
    if !(MIN_MODELS..=MAX_MODELS).contains(&found.len()) {
        let got = if found.len() > MAX_MODELS { "more" } else { "one" };
        let message = format!(
            "Invalid 'models': expected {MIN_MODELS} to {MAX_MODELS} different models, but got {got}."
        );
        return Err(invalid("invalid_value", message));
    }
    found.into_iter().map(|(name, model)| model.ok_or_else(|| not_found(name))).collect()
}

const MIN_MODELS: usize = 2;
const MAX_MODELS: usize = 4;

fn write_side(side: &mut ObjectWriter<'_>, model: &Model) {
    side.string("name", &model.name);
    side.string("provider", &model.provider);
    side.number_or_null("context_length", model.context_length);
    let nothing = Prices::default();
    side.object("pricing", |pricing| compared_prices(pricing, model.prices.as_ref().unwrap_or(&nothing)));
    let known = model.performance();
    side.object("performance", |performance| {
        performance.number_or_null("latency_p50_ms", known.latency_p50_ms);
        performance.number_or_null("availability", known.availability);
    });
    side.object("quality_scores", |scores| quality(scores, model));
}

fn write_highlights(highlights: &mut ObjectWriter<'_>, models: &[&Arc<Model>]) {
    let mut currencies = models.iter().filter_map(|model| price(model)).map(|(_, currency)| currency);
    let first = currencies.next();
    // Prices in different currencies cannot be compared.
    let comparable = currencies.all(|currency| Some(currency) == first);
    let most = |figure: Figure| best(models, figure, |new: &f64, old: &f64| new.total_cmp(old).is_gt());
    let has_sums = models.iter().any(|model| price(model).is_some());
    let unit = Unit::ALL.into_iter().find(|unit| models.iter().any(|model| of_unit(model, *unit).is_some()));
    let cheapest = match unit.filter(|_| !has_sums) {
        // Models without prices of tokens are compared by the first unit that has a price.
        Some(unit) => {
            let mut currencies = models.iter().filter_map(|model| of_unit(model, unit)).map(|(_, of)| of);
            let first = currencies.next();
            let comparable = currencies.all(|currency| Some(currency) == first);
            let figure = |model| of_unit(model, unit).filter(|_| comparable).map(|(price, _)| price);
            best(models, figure, |new, old| new < old)
        }
        None => {
            let figure = |model| price(model).filter(|_| comparable).map(|(sum, _)| sum);
            best(models, figure, |new, old| new < old)
        }
    };
    let fastest =
        best(models, |model| model.performance().latency_p50_ms, |new, old| new.total_cmp(old).is_lt());
    highlights.string("cheapest", cheapest);
    highlights.string("fastest", fastest);
    highlights.string("best_quality", most(|model| model.scores.overall));
    highlights.string("best_code", most(|model| model.scores.code));
    let longest = best(models, |model| model.context_length, |new, old| new > old);
    highlights.string("longest_context", longest);
}

/// A figure that some models have.
type Figure = fn(&Model) -> Option<f64>;

/// A price with its currency.
fn price(model: &Model) -> Option<(u128, &str)> {
    let prices = model.prices.as_ref()?;
    Some((prices.sum()?, &prices.currency))
}

/// The price of a unit with its currency. Of the prices of images by size and quality, it is the lowest one.
fn of_unit(model: &Model, unit: Unit) -> Option<(UnitPrice, &str)> {
    let prices = model.prices.as_ref()?;
    let rows = prices.images.iter().filter(|_| unit == Unit::Image).filter_map(|row| row.gateway);
    Some((rows.chain(prices.units.of(unit)).min()?, &prices.currency))
}

/// The id of the model with the best figure. A missing figure is the worst; of equal ones the first wins.
fn best<'m, T>(
    models: &[&'m Arc<Model>],
    figure: impl Fn(&'m Model) -> Option<T>,
    beats: impl Fn(&T, &T) -> bool,
) -> &'m str {
    let mut winner: Option<&'m Model> = None;
    let mut record: Option<T> = None;
    for &model in models {
        let model: &'m Model = model;
        let new = figure(model);
        let wins = match (&record, &new) {
            (Some(old), Some(new)) => beats(new, old),
            (None, Some(_)) => true,
            (_, None) => winner.is_none(),
        };
        if wins {
            (winner, record) = (Some(model), new);
        }
    }
    winner.map_or("", |model| &model.id)
}
