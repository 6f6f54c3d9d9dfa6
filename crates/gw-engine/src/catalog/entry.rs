//! The JSON of one catalogue entry, written once when the catalogue is built.

use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;

use super::date::created;
use super::model::{Dimensions, Model, Performance};
use super::prices::{ImagePrice, Prices, Rates, Tier};
use super::shipped::{ShippedPricing, ShippedScores};
use gw_wire::hosted_tools::HostedTool;
use gw_wire::json::ObjectWriter;
use gw_wire::usage::{ImageQuality, Unit};

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
    let mut entry = ObjectWriter::begin(&mut out);
    entry.string("id", &model.id);
    let id_end = entry.buffer_len();
    identity(&mut entry, model);
    abilities(&mut entry, model);
    entry.object("pricing", |pricing| prices(pricing, model.prices.as_ref()));
    let start = entry.buffer_len();
    performance(&mut entry, model.performance);
    let performance_at = start..entry.buffer_len();
    entry.object("quality_scores", |scores| quality(scores, model));
    extras(&mut entry, model);
    let mut hasher = DefaultHasher::new();
    (&out, &model.upstream_model, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    model.revision = hasher.finish();
    model.entry = Bytes::copy_from_slice(&out);
    model.id_end = id_end;
    model.performance_at = performance_at;
    let mut end = Vec::new();
    sources(&mut end, provenance);
    model.entry_end = if end.is_empty() { Bytes::from_static(b"}") } else { Bytes::copy_from_slice(&end) };
}

/// Copies the entry with its current figures: measured values replace the configured ones.
pub(super) fn copy(model: &Model, out: &mut Vec<u8>) {
    copy_from(model, 0, out);
}

/// Copies the entry as that of an alias whose first model this is. `targets` are the ids of all its models.
pub(super) fn copy_alias<'m>(
    alias: &str,
    model: &Model,
    targets: impl Iterator<Item = &'m str>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"id\":");
    gw_wire::json::write_str(out, alias);
    copy_from(model, model.id_end, out);
    ObjectWriter::resume(out).strings("targets", targets);
}

/// Copies the entry from a place before its figures on.
fn copy_from(model: &Model, start: usize, out: &mut Vec<u8>) {
    let at = &model.performance_at;
    match (model.entry.get(start..at.start), model.entry.get(at.end..)) {
        (Some(before), Some(after)) if model.measured.window().samples > 0 => {
            out.extend_from_slice(before);
            performance(&mut ObjectWriter::resume(out), model.performance());
            out.extend_from_slice(after);
        }
        _ => out.extend_from_slice(model.entry.get(start..).unwrap_or_default()),
    }
}

fn performance(entry: &mut ObjectWriter<'_>, known: Performance) {
    entry.object("performance", |performance| {
        performance.number_or_null("availability", known.availability);
        performance.number_or_null("latency_p50_ms", known.latency_p50_ms);
        performance.number_or_null("latency_p99_ms", known.latency_p99_ms);
    });
}

fn identity(entry: &mut ObjectWriter<'_>, model: &Model) {
    entry.string("object", "model");
    entry.number_or_null("created", Some(created(model.release_date.as_deref())));
    entry.string("owned_by", &model.provider);
    entry.string("name", &model.name);
    entry.string("provider", &model.provider);
    entry.string("description", &model.description);
}

fn abilities(entry: &mut ObjectWriter<'_>, model: &Model) {
    entry.strings("category", texts(model.category.as_deref()));
    entry.number_or_null("context_length", model.context_length);
    entry.number_or_null("max_output_tokens", model.max_output_tokens);
    let modalities = model.modalities.as_ref();
    entry.object("modalities", |object| {
        object.strings("input", texts(modalities.map(|known| &*known.input)));
        object.strings("output", texts(modalities.map(|known| &*known.output)));
    });
    entry.strings("features", texts(model.features.as_deref()));
    entry.string("license", model.license.as_deref().unwrap_or("unknown"));
}

fn texts(list: Option<&[Box<str>]>) -> impl Iterator<Item = &str> {
    list.unwrap_or_default().iter().map(|text| &**text)
}

fn prices(object: &mut ObjectWriter<'_>, prices: Option<&Prices>) {
    let nothing = Prices::default();
    let prices = prices.unwrap_or(&nothing);
    rates(object, prices.official, prices.gateway);
    units(object, prices);
    object.string("currency", &prices.currency);
    if !prices.tiers.is_empty() {
        object.array("tiers", &prices.tiers, |out, tier: &Tier| {
            let mut object = ObjectWriter::begin(out);
            object.number_or_null("above_input_tokens", Some(tier.above_input_tokens));
            rates(&mut object, tier.official, tier.gateway);
            object.finish();
        });
    }
    if !prices.tools.is_empty() {
        object.object("tools", |tools| {
            for tool in HostedTool::ALL {
                known(tools, tool.price_name(), prices.tools.of(tool));
            }
        });
    }
}

fn rates(object: &mut ObjectWriter<'_>, official: Rates, gateway: Rates) {
    object.number_or_null("official_input_per_m", official.input);
    object.number_or_null("official_output_per_m", official.output);
    object.number_or_null("gateway_input_per_m", gateway.input);
    object.number_or_null("gateway_output_per_m", gateway.output);
    object.number_or_null("cached_input_per_m", gateway.cached_input);
    known(object, "cache_write_per_m", gateway.cache_write);
    known(object, "cache_write_1h_per_m", gateway.cache_write_1h);
    media_rates(object, official, gateway);
}

/// The prices of audio and image tokens.
fn media_rates(object: &mut ObjectWriter<'_>, official: Rates, gateway: Rates) {
    for (name, price, charged_name, charged) in [
        (
            "official_audio_input_per_m",
            official.audio_input,
            "gateway_audio_input_per_m",
            gateway.audio_input,
        ),
        (
            "official_audio_output_per_m",
            official.audio_output,
            "gateway_audio_output_per_m",
            gateway.audio_output,
        ),
        (
            "official_image_input_per_m",
            official.image_input,
            "gateway_image_input_per_m",
            gateway.image_input,
        ),
        (
            "official_image_output_per_m",
            official.image_output,
            "gateway_image_output_per_m",
            gateway.image_output,
        ),
    ] {
        known(object, name, price);
        known(object, charged_name, charged);
    }
}

/// The prices of units other than tokens.
fn units(object: &mut ObjectWriter<'_>, prices: &Prices) {
    for unit in Unit::ALL {
        known(object, unit.official_price_name(), prices.official_units.of(unit));
        known(object, unit.gateway_price_name(), prices.units.of(unit));
    }
    if !prices.images.is_empty() {
        object.array("images", &prices.images, |out, row: &ImagePrice| {
            let mut object = ObjectWriter::begin(out);
            object.optional_string("size", row.form.size.map(|size| size.to_string()).as_deref());
            object.optional_string("quality", row.form.quality.map(ImageQuality::name));
            known(&mut object, Unit::Image.official_price_name(), row.official);
            known(&mut object, Unit::Image.gateway_price_name(), row.gateway);
            object.finish();
        });
    }
}

/// The official and the gateway prices of a model in a comparison. Of tokens of text, those that are charged are never absent.
pub(super) fn compared_prices(object: &mut ObjectWriter<'_>, prices: &Prices) {
    object.number_or_null("gateway_input_per_m", prices.gateway.input);
    object.number_or_null("gateway_output_per_m", prices.gateway.output);
    known(object, "official_input_per_m", prices.official.input);
    known(object, "official_output_per_m", prices.official.output);
    known(object, "cached_input_per_m", prices.gateway.cached_input);
    media_rates(object, prices.official, prices.gateway);
    units(object, prices);
}

/// The `quality_scores` object, in entries and comparisons.
pub(super) fn quality(object: &mut ObjectWriter<'_>, model: &Model) {
    object.number_or_null("overall", model.scores.overall);
    object.number_or_null("code", model.scores.code);
    object.number_or_null("math", model.scores.math);
    object.number_or_null("reasoning", model.scores.reasoning);
}

fn extras(entry: &mut ObjectWriter<'_>, model: &Model) {
    known(entry, "open_weights", model.open_weights);
    entry.optional_string("release_date", model.release_date.as_deref());
    entry.optional_string("knowledge_cutoff", model.knowledge_cutoff.as_deref());
    entry.optional_string("deprecation_date", model.deprecation_date.as_deref());
    let number = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(value.to_string().as_bytes());
    match &model.dimensions {
        None => {}
        Some(Dimensions::Native(size)) => entry.number_or_null("embedding_dimensions", Some(size)),
        Some(Dimensions::Set(set)) => entry.array("embedding_dimensions", set.iter().copied(), number),
        Some(Dimensions::Range(least, most)) => entry.array("embedding_dimensions", [*least, *most], number),
    }
}

fn known(object: &mut ObjectWriter<'_>, key: &'static str, value: Option<impl Display>) {
    if value.is_some() {
        object.number_or_null(key, value);
    }
}

/// `,"sources":{…}}`, or nothing if there are no sources.
fn sources(out: &mut Vec<u8>, from: Provenance<'_>) {
    let pricing = from.pricing.filter(|pricing| pricing.source.is_some());
    let scores = from.scores.filter(|scores| scores.source.is_some());
    if pricing.is_none() && scores.is_none() && from.license.is_none() {
        return;
    }
    let mut entry = ObjectWriter::resume(out);
    entry.object("sources", |sources| {
        if let Some(pricing) = pricing {
            sources.object("pricing", |object| {
                object.optional_string("source", pricing.source.as_deref());
                object.optional_string("as_of", pricing.as_of.as_deref());
                object.optional_string("note", pricing.note.as_deref());
            });
        }
        if let Some(scores) = scores {
            sources.object("quality_scores", |object| {
                object.optional_string("benchmark", scores.benchmark.as_deref());
                object.optional_string("release", scores.release.as_deref());
                object.optional_string("variant", scores.variant.as_deref());
                object.optional_string("source", scores.source.as_deref());
                object.optional_string("as_of", scores.as_of.as_deref());
                object.optional_string("note", scores.note.as_deref());
            });
        }
        sources.optional_string("license", from.license);
    });
    entry.finish();
}
