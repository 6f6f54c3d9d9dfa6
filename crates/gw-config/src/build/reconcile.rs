//! `[[reconcile]]`.

use std::collections::BTreeSet;

use gw_providers::settings::ProviderSettings;

use super::super::binding::filled;
use super::super::problems::ProblemReport;
use super::super::settings::ReconcileSettings;
use super::super::tree::Table;
use crate::report_api::ReportApi;

/// Reads every entry. A provider has one, and is configured. `names` has the names of all providers, and `providers` the settings of
/// those without a problem.
pub(super) fn reconcile(
    root: &Table,
    (names, providers): (&BTreeSet<String>, &[ProviderSettings]),
    report: &mut ProblemReport,
) -> Vec<ReconcileSettings> {
    let mut entries: Vec<ReconcileSettings> = Vec::new();
    for table in root.tables("reconcile") {
        let entry: ReconcileSettings = filled(Some(table));
        if table.has("provider") {
            let fault = if entries.iter().any(|known| known.provider == entry.provider) {
                Some("has an entry already")
            } else if names.contains(&entry.provider) {
                None
            } else {
                Some("is the name of no provider")
            };
            if let Some(fault) = fault {
                report.fault(table.position("provider"), &table.path("provider"), fault);
            }
        }
        let provider = providers.iter().find(|known| known.name == entry.provider);
        if entry.nightly && provider.is_some_and(|provider| ReportApi::of(provider).is_none()) {
            let fault =
                "needs a provider whose reports the gateway can read: OpenAI, Anthropic or OpenRouter";
            report.fault(table.position("nightly"), &table.path("nightly"), fault);
        }
        entries.push(entry);
    }
    entries
}
