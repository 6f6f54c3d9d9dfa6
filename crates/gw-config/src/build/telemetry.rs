//! `[telemetry.otlp]`.

use gw_telemetry::{OtlpProtocol, OtlpSettings, SemanticGeneration};

use super::super::problems::ProblemReport;
use super::super::tree::Table;
use super::fields::{regular, set};
use super::providers::headers;

/// Composes the collector; None = no traces are written.
pub(super) fn otlp(root: &Table, report: &mut ProblemReport) -> Option<OtlpSettings> {
    let table = root.table("telemetry")?.table("otlp")?;
    let mut settings = OtlpSettings::new(table.text("endpoint")?);
    if table.choice("protocol") == Some("grpc") {
        settings.protocol = OtlpProtocol::Grpc;
    }
    settings.headers = headers(table, report);
    regular(table, "ca_file", report);
    settings.ca_file = table.file("ca_file");
    set(&mut settings.sample_ratio, table.number("sample_ratio"));
    set(&mut settings.content, table.bool("content"));
    settings.langfuse = table.choice("compat") == Some("langfuse");
    if table.choice("semantic_conventions") == Some("next") {
        settings.generation = SemanticGeneration::Next;
    }
    set(&mut settings.service_name, table.text("service_name"));
    set(&mut settings.timeout, table.millis("timeout_ms"));
    Some(settings)
}
