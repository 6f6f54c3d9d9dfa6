//! `[telemetry.otlp]`.

use gw_telemetry::OtlpSettings;

use super::super::binding::filled;
use super::super::problems::ProblemReport;
use super::super::tree::Table;
use super::fields::regular;
use super::providers::distinct_headers;

/// Composes the collector; None = no traces are written.
pub(super) fn otlp(root: &Table, report: &mut ProblemReport) -> Option<OtlpSettings> {
    let table = root.table("telemetry")?.table("otlp")?;
    table.node("endpoint")?;
    regular(table, "ca_file", report);
    distinct_headers(table, report);
    Some(filled(Some(table)))
}
