//! `[[budgets]]`.

use std::collections::{BTreeMap, BTreeSet};

use gw_engine::settings::{OnLimit, RuleSettings, Threshold};

use gw_wire::nearest::did_you_mean;

use super::super::binding::filled;
use super::super::problems::ProblemReport;
use super::super::tree::Table;
use super::models::alias_names;

const LIMITS: [&str; 4] = ["budget_usd", "rpm", "tpm", "in_flight"];

/// Reads every rule. No two may share a name, because a refusal could then be either's.
pub(super) fn budgets(root: &Table, report: &mut ProblemReport) -> Vec<RuleSettings> {
    let aliases: BTreeSet<String> = alias_names(root).into_iter().collect();
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    let mut rules = Vec::new();
    for table in root.tables("budgets") {
        let rule = RuleSettings { limits: filled(Some(table)), ..filled(Some(table)) };
        if !LIMITS.iter().any(|limit| table.has(limit)) {
            let message = format!("has no limit; set one of {}", LIMITS.join(", "));
            report.fault(&table.at, &table.path, message);
        }
        if table.has("period") && !table.has("budget_usd") {
            report.fault(table.position("period"), &table.path("period"), "needs 'budget_usd'");
        }
        check_aliases(table, &rule, &aliases, report);
        if let Some(first) = names.get(&rule.name) {
            let message = format!("is already the name of {first}");
            report.fault(table.position("name"), &table.path("name"), message);
        }
        names.entry(rule.name.clone()).or_insert(&table.path);
        rules.push(rule);
    }
    rules
}

/// Checks the aliases that a rule names, and its thresholds.
fn check_aliases(table: &Table, rule: &RuleSettings, aliases: &BTreeSet<String>, report: &mut ProblemReport) {
    if let OnLimit::Fallback(alias) = &rule.on_limit
        && !aliases.contains(alias)
    {
        let hint = report.search(|| did_you_mean(alias, aliases.iter().map(String::as_str)));
        report.fault_with_hint(
            table.position("on_limit"),
            &table.path("on_limit"),
            unknown_alias("names", alias),
            hint,
        );
    }
    let (at, path) = (table.position("thresholds"), table.path("thresholds"));
    if !rule.thresholds.is_empty() && !table.has("budget_usd") {
        report.fault(at, &path, "needs 'budget_usd'");
    }
    for Threshold { nanos, alias } in &rule.thresholds {
        if !(1..=1_000_000_000).contains(nanos) {
            report.fault(at, &path, "has an 'at' that is not above 0 and at most 1");
        }
        if !aliases.contains(alias) {
            let hint = report.search(|| did_you_mean(alias, aliases.iter().map(String::as_str)));
            report.fault_with_hint(at, &path, unknown_alias("uses", alias), hint);
        }
    }
}

fn unknown_alias(verb: &str, alias: &str) -> String {
    format!("{verb} the unknown alias '{}'", alias.escape_debug())
}
