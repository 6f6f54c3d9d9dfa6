//! The JSON of one catalogue entry, written once when the catalogue is built.

use std::fmt::Display;

use bytes::Bytes;

use super::date::created;
use super::model::{Dimensions, Model, Performance};
use super::prices::{Prices, Rates, Tier};
use super::shipped::{ShippedPricing, ShippedScores};
use super::write::Object;

/// The sources of a shipped entry's facts. An overridden part has no source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Provenance<'a> {
    pub(super) pricing: Option<&'a ShippedPricing<'a>>,
    pub(super) scores: Option<&'a ShippedScores<'a>>,
    pub(super) license: Option<&'a str>,
}

/// Writes the entry into the model.
pub(super) fn render(model: &mut Model, provenance: Provenance<'_>) {
    let mut out = Vec::with_capacity(1536);
    let mut entry = Object::new(&mut out);
    identity(&mut entry, model);
    abilities(&mut entry, model);
    entry.object("pricing", |pricing| prices(pricing, model.prices.as_ref()));
    let start = entry.written();
    performance(&mut entry, model.performance);
    let performance_at = start..entry.written();
    entry.object("quality_scores", |scores| quality(scores, model));
    extras(&mut entry, model);
    model.entry = Bytes::copy_from_slice(&out);
    model.performance_at = performance_at;
    let mut end = Vec::new();
    sources(&mut end, provenance);
    model.entry_end = if end.is_empty() { Bytes::from_static(b"}") } else { Bytes::copy_from_slice(&end) };
}

/// Copies the entry with its current figures: measured values replace the configured ones.
pub(super) fn copy(model: &Model, out: &mut Vec<u8>) {
    let at = &model.performance_at;
    match (model.entry.get(..at.start), model.entry.get(at.end..)) {
        (Some(before), Some(after)) if model.measured.window().samples > 0 => {
            out.extend_from_slice(before);
            performance(&mut Object::more(out), model.performance());
            out.extend_from_slice(after);
        }
        _ => out.extend_from_slice(&model.entry),
    }
}

fn performance(entry: &mut Object<'_>, known: Performance) {
    entry.object("performance", |performance| {
        performance.number("availability", known.availability);
        performance.number("latency_p50_ms", known.latency_p50_ms);
        performance.number("latency_p99_ms", known.latency_p99_ms);
    });
}

fn identity(entry: &mut Object<'_>, model: &Model) {
    entry.text("id", &model.id);
    entry.text("object", "model");
    entry.number("created", Some(created(model.release_date.as_deref())));
    entry.text("owned_by", &model.provider);
    entry.text("name", &model.name);
    entry.text("provider", &model.provider);
    entry.text("description", &model.description);
}

fn abilities(entry: &mut Object<'_>, model: &Model) {
    entry.texts("category", texts(model.category.as_deref()));
    entry.number("context_length", model.context_length);
    entry.number("max_output_tokens", model.max_output_tokens);
    let modalities = model.modalities.as_ref();
    entry.object("modalities", |object| {
        object.texts("input", texts(modalities.map(|known| &*known.input)));
        object.texts("output", texts(modalities.map(|known| &*known.output)));
    });
    entry.texts("features", texts(model.features.as_deref()));
    entry.text("license", model.license.as_deref().unwrap_or("unknown"));
}

fn texts(list: Option<&[Box<str>]>) -> impl Iterator<Item = &str> {
    list.unwrap_or_default().iter().map(|text| &**text)
}

fn prices(object: &mut Object<'_>, prices: Option<&Prices>) {
    let nothing = Prices::default();
    let prices = prices.unwrap_or(&nothing);
    rates(object, prices.official, prices.gateway);
    object.text("currency", &prices.currency);
    if !prices.tiers.is_empty() {
        object.list("tiers", &prices.tiers, |out, tier: &Tier| {
            let mut object = Object::new(out);
            object.number("above_input_tokens", Some(tier.above_input_tokens));
            rates(&mut object, tier.official, tier.gateway);
            object.end();
        });
    }
}

fn rates(object: &mut Object<'_>, official: Rates, gateway: Rates) {
    object.number("official_input_per_m", official.input);
    object.number("official_output_per_m", official.output);
    object.number("gateway_input_per_m", gateway.input);
    object.number("gateway_output_per_m", gateway.output);
    object.number("cached_input_per_m", gateway.cached_input);
    known(object, "cache_write_per_m", gateway.cache_write);
}

/// The `quality_scores` object, in entries and comparisons.
pub(super) fn quality(object: &mut Object<'_>, model: &Model) {
    object.number("overall", model.scores.overall);
    object.number("code", model.scores.code);
    object.number("math", model.scores.math);
    object.number("reasoning", model.scores.reasoning);
}

fn extras(entry: &mut Object<'_>, model: &Model) {
    known(entry, "open_weights", model.open_weights);
    entry.known("release_date", model.release_date.as_deref());
    entry.known("knowledge_cutoff", model.knowledge_cutoff.as_deref());
    entry.known("deprecation_date", model.deprecation_date.as_deref());
    let number = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(value.to_string().as_bytes());
    match &model.dimensions {
        None => {}
        Some(Dimensions::Native(size)) => entry.number("embedding_dimensions", Some(size)),
        Some(Dimensions::Set(set)) => entry.list("embedding_dimensions", set.iter().copied(), number),
        Some(Dimensions::Range(least, most)) => entry.list("embedding_dimensions", [*least, *most], number),
    }
}

fn known(object: &mut Object<'_>, key: &str, value: Option<impl Display>) {
    if value.is_some() {
        object.number(key, value);
    }
}

/// `,"sources":{…}}`, or nothing if there are no sources.
fn sources(out: &mut Vec<u8>, from: Provenance<'_>) {
    let pricing = from.pricing.filter(|pricing| pricing.source.is_some());
    let scores = from.scores.filter(|scores| scores.source.is_some());
    if pricing.is_none() && scores.is_none() && from.license.is_none() {
        return;
    }
    let mut entry = Object::more(out);
    entry.object("sources", |sources| {
        if let Some(pricing) = pricing {
            sources.object("pricing", |object| {
                object.known("source", pricing.source.as_deref());
                object.known("as_of", pricing.as_of.as_deref());
                object.known("note", pricing.note.as_deref());
            });
        }
        if let Some(scores) = scores {
            sources.object("quality_scores", |object| {
                object.known("benchmark", scores.benchmark.as_deref());
                object.known("release", scores.release.as_deref());
                object.known("variant", scores.variant.as_deref());
                object.known("source", scores.source.as_deref());
                object.known("as_of", scores.as_of.as_deref());
                object.known("note", scores.note.as_deref());
            });
        }
        sources.known("license", from.license);
    });
    entry.end();
}
