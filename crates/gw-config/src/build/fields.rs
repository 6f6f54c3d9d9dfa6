//! Checks that several sections share.

use super::super::file;
use super::super::problems::ProblemReport;
use super::super::tree::Table;

/// Checks that a file is a regular one. A named pipe would block its later reader.
pub(super) fn regular(table: &Table, key: &str, report: &mut ProblemReport) {
    if let Some(kind) = table.file(key).and_then(|path| file::not_regular(&path)) {
        report.fault(table.position(key), &table.path(key), format!("is {kind}, not a regular file"));
    }
}
