//! `[[guards]]`.

use std::collections::BTreeSet;
use std::time::Duration;

use gw_engine::settings::{GuardAction, GuardSettings, SessionLimits};
use gw_wire::nearest::did_you_mean;

use super::super::problems::ProblemReport;
use super::super::tree::Table;
use super::models::alias_names;

/// Femto-USD of a nano-USD.
const FEMTOS_OF_NANO: i128 = 1_000_000;
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
    let cost = table.price("max_cost_usd").map(|usd| i128::from(usd.nanos()) * FEMTOS_OF_NANO);
    if cost == Some(0) {
        let (at, path) = (table.position("max_cost_usd"), table.path("max_cost_usd"));
        report.fault(at, &path, "must be more than 0");
    }
    let matched = table.table("match");
    if let Some(matched) = matched {
        check_aliases(matched, aliases, report);
    }
    let list = |name: &str| matched.and_then(|matched| matched.texts(name)).unwrap_or_default();
    GuardSettings {
        keys: list("keys"),
        aliases: list("aliases"),
        teams: list("teams"),
        limits: SessionLimits {
            max_calls: table.int("max_calls"),
            max_cost_femtos: cost,
            max_age: table.int::<u64>("max_minutes").map(|minutes| Duration::from_secs(minutes * 60)),
            max_repeats: table.int("max_repeats"),
        },
        action: if table.choice("action") == Some("warn") { GuardAction::Warn } else { GuardAction::Stop },
    }
}

/// A guard of a name that no request can ask for would guard nothing.
fn check_aliases(matched: &Table, aliases: &BTreeSet<String>, report: &mut ProblemReport) {
    for node in matched.list("aliases").unwrap_or_default() {
        let Some(alias) = node.value.text().filter(|alias| !aliases.contains(*alias)) else { continue };
        let hint = report.search(|| did_you_mean(alias, aliases.iter().map(String::as_str)));
        report.fault_with_hint(&node.at, &node.path, "is not in [aliases]", hint);
    }
}
