//! `[cache]` and `[[cache.semantic]]`.

use std::time::Duration;

use gw_cache::{SimilarMode, SimilarSettings};
use gw_engine::cached::SemanticSettings;

use super::super::CacheSettings;
use super::super::nearest::did_you_mean;
use super::super::place::Report;
use super::super::tree::Table;
use super::providers::is_known;
use super::set;

pub(super) fn cache(root: &Table, providers: &[String], report: &mut Report) -> CacheSettings {
    let mut settings = CacheSettings::default();
    let Some(cache) = root.table("cache") else { return settings };
    set(&mut settings.enabled, cache.bool("enabled"));
    set(&mut settings.max_bytes, cache.int::<u64>("max_mib").map(|mib| mib << 20));
    set(&mut settings.caching.default_ttl, cache.seconds("default_ttl_seconds"));
    set(&mut settings.caching.stale_if_error, cache.seconds("stale_if_error_seconds"));
    set(&mut settings.caching.completions, cache.bool("completions"));
    set(&mut settings.caching.embeddings, cache.bool("embeddings"));
    settings.shared = cache.choice("backend") == Some("redis");
    if settings.shared && !root.has("redis") {
        report.fault(cache.place("backend"), &cache.path("backend"), "needs the section [redis]");
    }
    for table in cache.tables("semantic") {
        settings.semantic.extend(semantic(root, table, providers, &settings.semantic, report));
    }
    settings
}

fn semantic(
    root: &Table,
    table: &Table,
    providers: &[String],
    before: &[SemanticSettings],
    report: &mut Report,
) -> Option<SemanticSettings> {
    let (alias, embedding_model) = (table.text("alias")?, table.text("embedding_model")?);
    let (at, path) = (table.place("alias"), table.path("alias"));
    let known = || root.map("aliases").map(|(name, _)| name.as_str());
    if !known().any(|name| name == alias) {
        report.fault_with_hint(at, &path, "is not in [aliases]", did_you_mean(&alias, known()));
    }
    if before.iter().any(|other| other.alias == alias) {
        report.fault(at, &path, "has an entry already");
    }
    let (at, path) = (table.place("embedding_model"), table.path("embedding_model"));
    let provider = embedding_model.split_once('/').map_or("", |(provider, _)| provider);
    if !providers.iter().any(|name| name == provider) && !is_known(provider) {
        let hint = did_you_mean(provider, providers.iter().map(String::as_str));
        report.fault_with_hint(at, &path, "begins with the name of no provider", hint);
    }
    let mut similar = SimilarSettings::default();
    if table.choice("mode") == Some("answer") {
        similar.mode = SimilarMode::Answer;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a part of one")]
    set(&mut similar.threshold, table.number("threshold").map(|threshold| threshold as f32));
    set(&mut similar.most_bytes, table.int::<usize>("max_mib").map(|mib| mib << 20));
    let mut timeout = Duration::from_secs(1);
    set(&mut timeout, table.millis("timeout_ms"));
    Some(SemanticSettings { alias, embedding_model, similar, timeout })
}
