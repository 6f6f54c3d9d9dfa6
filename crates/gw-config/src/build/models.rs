//! `[[models]]`, and `[aliases]` or `[[aliases]]`.

use std::collections::{BTreeMap, BTreeSet};

use gw_engine::presets::PREFIX as PRESET_PREFIX;
use gw_engine::settings::{AliasSettings, Aliases, ModelSettings, TargetMatch, TierSettings};
use gw_wire::nearest::did_you_mean;

use super::super::binding::filled;
use super::super::fingerprint::version_of;
use super::super::problems::ProblemReport;
use super::super::settings::AgentSettings;
use super::super::tables::{CONDITIONAL_TARGETS, TARGET_NAMES};
use super::super::tree::{Checked, Node, Table};
use super::presets;
use super::providers::is_known;

/// Reads every entry. `providers` are the names of the configured providers.
pub(super) fn models(
    root: &Table,
    providers: &BTreeSet<String>,
    report: &mut ProblemReport,
) -> Vec<ModelSettings> {
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let mut models = Vec::new();
    for table in root.tables("models") {
        let Some(id) = table.text("id") else { continue };
        let (at, path) = (table.position("id"), table.path("id"));
        if let Some(first) = taken.get(&id) {
            report.fault(at, &path, format!("is already the id of {first}"));
        }
        taken.entry(id.clone()).or_insert_with(|| table.path.clone());
        let provider = id.split_once('/').map_or("", |(provider, _)| provider);
        if !providers.contains(provider) && !is_known(provider) {
            let hint = report.search(|| did_you_mean(provider, providers.iter().map(String::as_str)));
            report.fault_with_hint(at, &path, "begins with an unknown provider", hint);
        }
        if let Some(pricing) = table.table("pricing") {
            rising_tiers(pricing, report);
        }
        models.push(filled(Some(table)));
    }
    models
}

/// Checks that the tiers rise, so that each prompt length has one price.
pub(super) fn rising_tiers(pricing: &Table, report: &mut ProblemReport) {
    let mut last = 0;
    for table in pricing.tables("tiers") {
        let above = filled::<TierSettings>(Some(table)).above_input_tokens;
        if above > 0 && last >= above {
            let (at, path) = (table.position("above_input_tokens"), table.path("above_input_tokens"));
            report.fault(at, &path, "must be greater than in the tier before");
        }
        last = above;
    }
}

/// Reads both forms of aliases. The catalogue checks later that their targets exist.
pub(super) fn aliases(root: &Table, agents: &AgentSettings, report: &mut ProblemReport) -> Aliases {
    let mut aliases = BTreeMap::new();
    for (name, node) in root.map("aliases") {
        let mut settings = AliasSettings {
            targets: (TARGET_NAMES.read)(&node.value).unwrap_or_default(),
            ..AliasSettings::default()
        };
        check_targets(name, node, &mut settings, report);
        aliases.insert(name.clone(), settings);
    }
    for table in root.tables("aliases") {
        let (Some(name), Some(node)) = (table.text("name"), table.node("targets")) else { continue };
        if aliases.contains_key(&name) {
            report.fault(table.position("name"), &table.path("name"), "is already the name of another alias");
        }
        let mut settings: AliasSettings = filled(Some(table));
        settings.has_claude_name &= agents.claude_aliases;
        settings.conditional = (CONDITIONAL_TARGETS.read)(&node.value).unwrap_or_default();
        if !settings.is_plain() {
            settings.version = version_of(table);
            presets::check_parameters(table, report);
        }
        check_targets(&name, node, &mut settings, report);
        if name.starts_with(PRESET_PREFIX) {
            report.fault(
                table.position("name"),
                &table.path("name"),
                "begins as the names of presets in requests do",
            );
        }
        if settings.preset.system.as_deref().is_some_and(|system| system.trim().is_empty()) {
            report.fault(table.position("system"), &table.path("system"), "is empty");
        }
        aliases.insert(name, settings);
    }
    check_nesting(root, &aliases, report);
    aliases
}

/// The most targets of an alias. Each request for the alias judges all of them.
const MAX_TARGETS: usize = 64;

/// Checks the targets of an alias. Too many are dropped, so that later checks need not judge them.
fn check_targets(alias: &str, node: &Node, settings: &mut AliasSettings, report: &mut ProblemReport) {
    let single = std::slice::from_ref(node);
    let nodes = if let Checked::List(nodes) = &node.value { nodes } else { single };
    if nodes.len() > MAX_TARGETS {
        report.fault(&node.at, &node.path, "has more than 64 targets");
        settings.targets.clear();
        return;
    }
    for node in nodes {
        let table = node.value.table();
        let model = table.and_then(|table| table.text("model"));
        if node.value.text().or(model.as_deref()) == Some(alias) {
            report.fault(&node.at, &node.path, "is an alias of itself");
        }
        if let Some(condition) = table.and_then(|table| table.table("match")) {
            check_condition(condition, report);
        }
    }
}

/// Checks the condition of a target.
fn check_condition(condition: &Table, report: &mut ProblemReport) {
    let is_empty = |node: &&Node| match &node.value {
        Checked::Map(entries) => entries.is_empty(),
        Checked::Table(table) => table.nodes.is_empty(),
        _ => false,
    };
    let hint = || Some("leave `match` out for a target of all other requests".to_owned());
    if condition.nodes.is_empty() {
        report.fault_with_hint(&condition.at, &condition.path, "has no condition", hint());
    }
    for node in condition.nodes.values().filter(is_empty) {
        report.fault_with_hint(&node.at, &node.path, "has no condition", hint());
    }
    let TargetMatch { prompt_tokens_above, prompt_tokens_below, .. } = filled(Some(condition));
    if let Some((above, below)) = prompt_tokens_above.zip(prompt_tokens_below)
        && below <= above.saturating_add(1)
    {
        let (at, path) = (condition.position("prompt_tokens"), condition.path("prompt_tokens"));
        report.fault(at, &path, "no prompt is longer than `above` and shorter than `below`");
    }
}

/// Checks that no alias stands for an alias that is more than its targets: its parameters and its conditions would be lost.
fn check_nesting(root: &Table, aliases: &Aliases, report: &mut ProblemReport) {
    const FAULT: &str = "is an alias with parameters or conditions, which would be lost";
    for table in root.tables("aliases") {
        let Some(node) = table.node("targets") else { continue };
        let single = std::slice::from_ref(node);
        let nodes = if let Checked::List(nodes) = &node.value { nodes } else { single };
        for node in nodes {
            let model = node.value.table().and_then(|table| table.text("model"));
            let name = node.value.text().or(model.as_deref());
            if name.and_then(|name| aliases.get(name)).is_some_and(|target| !target.is_plain()) {
                let hint = Some("write the targets of that alias".to_owned());
                report.fault_with_hint(&node.at, &node.path, FAULT, hint);
            }
        }
    }
}

/// The names of the aliases in both forms.
pub(super) fn alias_names(root: &Table) -> Vec<String> {
    let map = root.map("aliases").map(|(name, _)| name.clone());
    map.chain(root.tables("aliases").filter_map(|table| table.text("name"))).collect()
}
