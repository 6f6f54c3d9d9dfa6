//! `[[reconcile]]`.

use std::collections::BTreeSet;

use super::super::binding::filled;
use super::super::problems::ProblemReport;
use super::super::settings::ReconcileSettings;
use super::super::tree::Table;

/// Reads every entry. A provider has one, and is configured.
pub(super) fn reconcile(
    root: &Table,
    providers: &BTreeSet<String>,
    report: &mut ProblemReport,
) -> Vec<ReconcileSettings> {
    let mut entries: Vec<ReconcileSettings> = Vec::new();
    for table in root.tables("reconcile") {
        let entry: ReconcileSettings = filled(Some(table));
        if table.has("provider") {
            let fault = if entries.iter().any(|known| known.provider == entry.provider) {
                Some("has an entry already")
            } else if providers.contains(&entry.provider) {
                None
            } else {
                Some("is the name of no provider")
            };
            if let Some(fault) = fault {
                report.fault(table.position("provider"), &table.path("provider"), fault);
            }
        }
        entries.push(entry);
    }
    entries
}
