//! `[[guards]]`.

use std::collections::BTreeSet;

use gw_engine::settings::GuardSettings;
use gw_wire::nearest::did_you_mean;

use super::super::binding::filled;
use super::super::problems::ProblemReport;
use super::super::tree::Table;
use super::models::alias_names;

const LIMITS: [&str; 4] = ["max_calls", "max_cost_usd", "max_minutes", "max_repeats"];

pub(super) fn guards(root: &Table, report: &mut ProblemReport) -> Vec<GuardSettings> {
    let aliases: BTreeSet<String> = alias_names(root).into_iter().collect();
    root.tables("guards").map(|table| guard(table, &aliases, report)).collect()
}

fn guard(table: &Table, aliases: &BTreeSet<String>, report: &mut ProblemReport) -> GuardSettings {
    if !LIMITS.iter().any(|limit| table.has(limit)) {
        let message = format!("has no limit; set one of {}", LIMITS.join(", "));
        report.fault(&table.at, &table.path, message);
    }
    let settings: GuardSettings = filled(Some(table));
    if settings.limits.max_cost_femtos == Some(0) {
        let (at, path) = (table.position("max_cost_usd"), table.path("max_cost_usd"));
        report.fault(at, &path, "must be more than 0");
    }
    if let Some(matched) = table.table("match") {
        check_aliases(matched, aliases, report);
    }
    settings
}

/// A guard of a name that no request can ask for would guard nothing.
fn check_aliases(matched: &Table, aliases: &BTreeSet<String>, report: &mut ProblemReport) {
    for node in matched.list("aliases").unwrap_or_default() {
        let Some(alias) = node.value.text().filter(|alias| !aliases.contains(*alias)) else { continue };
        let hint = report.search(|| did_you_mean(alias, aliases.iter().map(String::as_str)));
        report.fault_with_hint(&node.at, &node.path, "is not in [aliases]", hint);
    }
}
