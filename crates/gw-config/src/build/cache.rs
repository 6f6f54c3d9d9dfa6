//! `[cache]` and `[[cache.semantic]]`.

use std::collections::BTreeSet;

use gw_engine::response_cache::SemanticSettings;

use super::super::binding::filled;
use super::super::problems::ProblemReport;
use super::super::settings::CacheSettings;
use super::super::tree::Table;
use super::models::alias_names;
use super::providers::is_known;
use gw_wire::nearest::did_you_mean;

pub(super) fn cache(root: &Table, providers: &BTreeSet<String>, report: &mut ProblemReport) -> CacheSettings {
    let Some(cache) = root.table("cache") else { return CacheSettings::default() };
    let mut settings: CacheSettings = filled(Some(cache));
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
    Some(filled(Some(table)))
}
