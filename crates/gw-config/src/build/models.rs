//! `[[models]]`, and `[aliases]` or `[[aliases]]`.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use gw_engine::catalog::prices::ToolPrices;
use gw_engine::settings::{AliasSettings, Aliases, ModelSettings, PricingSettings, TierSettings};
use gw_wire::nearest::did_you_mean;

use super::super::binding::{fill, filled};
use super::super::problems::ProblemReport;
use super::super::tree::{Checked, Node, Table};
use super::fields::timeouts;
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
        models.push(model(id, table, report));
    }
    models
}

fn model(id: String, table: &Table, report: &mut ProblemReport) -> ModelSettings {
    let below = ["modalities", "quality_scores", "performance"];
    let mut settings = ModelSettings {
        id,
        pricing: table.table("pricing").map(|table| pricing(table, report)).unwrap_or_default(),
        timeouts: table.table("timeouts").map(timeouts).unwrap_or_default(),
        ..filled(Some(table))
    };
    for below in below.into_iter().filter_map(|name| table.table(name)) {
        fill(&mut settings, below);
    }
    settings
}

fn pricing(table: &Table, report: &mut ProblemReport) -> PricingSettings {
    PricingSettings {
        tools: table.table("tools").map(tool_prices).unwrap_or_default(),
        tiers: table.has("tiers").then(|| tiers(table, report)),
        ..filled(Some(table))
    }
}

fn tool_prices(table: &Table) -> ToolPrices {
    ToolPrices::of_each(|tool| table.price(tool.price_name()))
}

/// Reads the tiers. They must rise, so that each prompt length has one price.
fn tiers(pricing: &Table, report: &mut ProblemReport) -> Vec<TierSettings> {
    let mut tiers: Vec<TierSettings> = Vec::new();
    for table in pricing.tables("tiers") {
        let tier: TierSettings = filled(Some(table));
        let above = tier.above_input_tokens;
        if tiers.last().is_some_and(|last| above > 0 && last.above_input_tokens >= above) {
            let (at, path) = (table.position("above_input_tokens"), table.path("above_input_tokens"));
            report.fault(at, &path, "must be greater than in the tier before");
        }
        tiers.push(tier);
    }
    tiers
}

/// Reads both forms of aliases. The catalogue checks later that their targets exist.
pub(super) fn aliases(root: &Table, report: &mut ProblemReport) -> Aliases {
    let mut aliases = BTreeMap::new();
    for (name, node) in root.map("aliases") {
        let targets = targets(name, node, report);
        aliases.insert(name.clone(), AliasSettings { targets, has_claude_name: false });
    }
    let claude_names = root.table("agents").and_then(|table| table.bool("claude_aliases")).unwrap_or(true);
    for table in root.tables("aliases") {
        let (Some(name), Some(node)) = (table.text("name"), table.node("targets")) else { continue };
        if aliases.contains_key(&name) {
            report.fault(table.position("name"), &table.path("name"), "is already the name of another alias");
        }
        let targets = targets(&name, node, report);
        let has_claude_name = claude_names && table.bool("agent").unwrap_or(false);
        aliases.insert(name, AliasSettings { targets, has_claude_name });
    }
    aliases
}

/// The most targets of an alias. Each request for the alias judges all of them.
const MAX_TARGETS: usize = 64;

/// The targets of an alias: one name or a list.
fn targets(alias: &str, node: &Node, report: &mut ProblemReport) -> Vec<String> {
    let mut targets: Vec<String> = Vec::new();
    let mut known: HashSet<&str> = HashSet::new();
    let single = std::slice::from_ref(node);
    let nodes = if let Checked::List(nodes) = &node.value { nodes } else { single };
    if nodes.len() > MAX_TARGETS {
        report.fault(&node.at, &node.path, "has more than 64 targets");
        return targets;
    }
    for node in nodes {
        let Some(target) = node.value.text() else { continue };
        if target == alias {
            report.fault(&node.at, &node.path, "is an alias of itself");
        }
        if known.insert(target) {
            targets.push(target.to_owned());
        }
    }
    targets
}

/// The names of the aliases in both forms.
pub(super) fn alias_names(root: &Table) -> Vec<String> {
    let map = root.map("aliases").map(|(name, _)| name.clone());
    map.chain(root.tables("aliases").filter_map(|table| table.text("name"))).collect()
}
