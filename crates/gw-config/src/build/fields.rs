//! Composes the fields that several sections share.

use gw_providers::settings::TimeoutOverrides;

use super::super::file;
use super::super::problems::ProblemReport;
use super::super::tree::Table;

/// Sets a field to its written value, if there is one.
pub(super) fn set<T>(field: &mut T, written: Option<T>) {
    if let Some(written) = written {
        *field = written;
    }
}

/// Checks that a file is a regular one. A named pipe would block its later reader.
pub(super) fn regular(table: &Table, key: &str, report: &mut ProblemReport) {
    if let Some(kind) = table.file(key).and_then(|path| file::not_regular(&path)) {
        report.fault(table.position(key), &table.path(key), format!("is {kind}, not a regular file"));
    }
}

/// The timeouts of a provider, of a model, or of `[timeouts]`.
pub(super) fn timeouts(table: &Table) -> TimeoutOverrides {
    TimeoutOverrides {
        connect: table.millis("connect_ms"),
        first_token: table.millis("first_token_ms"),
        idle: table.millis("idle_ms"),
        total: table.millis("total_ms"),
    }
}
