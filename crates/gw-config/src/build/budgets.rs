//! `[[budgets]]`.

use std::collections::BTreeMap;

use gw_engine::settings::RuleSettings;

use super::super::binding::filled;
use super::super::problems::ProblemReport;
use super::super::tree::Table;

const LIMITS: [&str; 4] = ["budget_usd", "rpm", "tpm", "in_flight"];

/// Reads every rule. No two may share a name, because a refusal could then be either's.
pub(super) fn budgets(root: &Table, report: &mut ProblemReport) -> Vec<RuleSettings> {
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
        if let Some(first) = names.get(&rule.name) {
            let message = format!("is already the name of {first}");
            report.fault(table.position("name"), &table.path("name"), message);
        }
        names.entry(rule.name.clone()).or_insert(&table.path);
        rules.push(rule);
    }
    rules
}
