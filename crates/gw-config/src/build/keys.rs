//! `[[keys]]`.

use std::collections::BTreeMap;

use gw_engine::settings::{KeySettings, Limits};
use secrecy::ExposeSecret;

use super::super::binding::filled;
use super::super::problems::ProblemReport;
use super::super::tree::Table;

/// Reads every entry. No two may share a name or a key, because a request could then be charged to either.
pub(super) fn keys(root: &Table, report: &mut ProblemReport) -> Vec<KeySettings> {
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    let mut secrets: BTreeMap<&str, &str> = BTreeMap::new();
    let mut keys = Vec::new();
    for (index, table) in root.tables("keys").enumerate() {
        let mut settings = KeySettings { limits: limits(table, report), ..filled(Some(table)) };
        if settings.name.is_empty() {
            settings.name = format!("key-{}", index + 1);
        }
        let name = &settings.name;
        if let Some(first) = names.get(name) {
            report.fault(
                table.position("name"),
                &table.path("name"),
                format!("is already the name of {first}"),
            );
        }
        names.entry(name.clone()).or_insert(&table.path);
        let Some(key) = table.secret("key") else { continue };
        if let Some(first) = secrets.get(key.expose_secret()) {
            report.fault(table.position("key"), &table.path("key"), format!("is also the key of {first}"));
        }
        secrets.entry(key.expose_secret()).or_insert(&table.path);
        keys.push(settings);
    }
    keys
}

/// Reads the limits of a key. An option of a limit needs the limit itself.
pub(super) fn limits(table: &Table, report: &mut ProblemReport) -> Limits {
    for (part, whole) in [("budget_period", "budget_usd"), ("on_budget", "budget_usd"), ("burst", "rpm")] {
        if table.has(part) && !table.has(whole) {
            report.fault(table.position(part), &table.path(part), format!("needs '{whole}'"));
        }
    }
    filled(Some(table))
}
