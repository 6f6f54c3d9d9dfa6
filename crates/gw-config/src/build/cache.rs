//! `[cache]` and `[[cache.semantic]]`.

use std::collections::BTreeSet;
use std::time::Duration;

use gw_cache::{SimilarityMode, SimilaritySettings};
use gw_engine::response_cache::SemanticSettings;

use super::super::problems::ProblemReport;
use super::super::settings::CacheSettings;
use super::super::tree::Table;
use super::fields::set;
use super::models::alias_names;
use super::providers::is_known;
use gw_wire::nearest::did_you_mean;

pub(super) fn cache(root: &Table, providers: &BTreeSet<String>, report: &mut ProblemReport) -> CacheSettings {
    let mut settings = CacheSettings::default();
    let Some(cache) = root.table("cache") else { return settings };
    set(&mut settings.enabled, cache.bool("enabled"));
    set(&mut settings.max_bytes, cache.int::<u64>("max_mib").map(|mib| mib << 20));
    set(&mut settings.caching.default_ttl, cache.seconds("default_ttl_seconds"));
    set(&mut settings.caching.stale_if_error, cache.seconds("stale_if_error_seconds"));
    set(&mut settings.caching.completions, cache.bool("completions"));
    set(&mut settings.caching.embeddings, cache.bool("embeddings"));
    set(&mut settings.caching.shared_by_teams, cache.texts("shared_by_teams"));
    settings.shared = cache.choice("backend") == Some("redis");
    if settings.shared && !root.has("redis") {
        report.fault(cache.position("backend"), &cache.path("backend"), "needs the section [redis]");
    }
    let aliases: BTreeSet<String> = alias_names(root).into_iter().collect();
    let mut taken = BTreeSet::new();
    for table in cache.tables("semantic") {
        settings.semantic.extend(semantic(table, &aliases, providers, &mut taken, report));
    }
    settings
}

fn semantic(
    table: &Table,
    aliases: &BTreeSet<String>,
    providers: &BTreeSet<String>,
    taken: &mut BTreeSet<String>,
    report: &mut ProblemReport,
) -> Option<SemanticSettings> {
    let (alias, embedding_model) = (table.text("alias")?, table.text("embedding_model")?);
    let (at, path) = (table.position("alias"), table.path("alias"));
    if !aliases.contains(&alias) {
        let hint = report.search(|| did_you_mean(&alias, aliases.iter().map(String::as_str)));
        report.fault_with_hint(at, &path, "is not in [aliases]", hint);
    }
    if !taken.insert(alias.clone()) {
        report.fault(at, &path, "already has an entry");
    }
    let (at, path) = (table.position("embedding_model"), table.path("embedding_model"));
    let provider = embedding_model.split_once('/').map_or("", |(provider, _)| provider);
    if !providers.contains(provider) && !is_known(provider) {
        let hint = report.search(|| did_you_mean(provider, providers.iter().map(String::as_str)));
        report.fault_with_hint(at, &path, "begins with an unknown provider", hint);
    }
    let mut similar = SimilaritySettings::default();
    if table.choice("mode") == Some("answer") {
        similar.mode = SimilarityMode::Answer;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a part of one")]
    set(&mut similar.threshold, table.number("threshold").map(|threshold| threshold as f32));
    set(&mut similar.max_bytes, table.int::<usize>("max_mib").map(|mib| mib << 20));
    let mut timeout = Duration::from_secs(1);
    set(&mut timeout, table.millis("timeout_ms"));
    Some(SemanticSettings { alias, embedding_model, similar, timeout })
}
