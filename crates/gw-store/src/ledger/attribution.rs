//! Names that requests are attributed to: their text in a row, their sums, and the reports by name.
//!
//! `usage_attributions` has the sums of an hour for each combination of names, so it answers every question. `usage_names` has the sums
//! of a day for each single name, so that a report over months reads few rows.

mod costs;
mod report;
mod sums;

use gw_wire::attribution::{Attribution, Dimension};

use super::Filter;
use crate::sql::Sql;

pub use self::costs::TaggedCost;
pub use self::report::UsageByName;
pub(super) use self::report::{push_detail, push_named_days};
pub(super) use self::sums::{AttributedSums, add_up_postgres, add_up_sqlite};

/// A name with its kind, as rows and sums hold it.
fn text_of(dimension: Dimension, name: &str) -> String {
    format!("{}:{name}", dimension.name())
}

/// The names of a row as a JSON array. A row with tags also has the name `tag:`, by which such rows are counted once.
pub(super) fn names_json(attribution: &Attribution) -> Option<String> {
    let mut texts: Vec<String> =
        attribution.names().map(|(dimension, name)| text_of(dimension, name)).collect();
    if texts.is_empty() {
        return None;
    }
    if !attribution.tags.is_empty() {
        texts.push(text_of(Dimension::Tag, ""));
    }
    serde_json::to_string(&texts).ok()
}

impl Filter {
    /// Writes the condition that the column `names` of `table` has every name that is searched for.
    pub(super) fn push_names<'q>(&'q self, sql: &mut Sql<'q>, table: &'static str, is_postgres: bool) {
        for (dimension, name) in &self.names {
            let element = serde_json::to_string(&text_of(*dimension, name)).unwrap_or_default();
            sql.push(" AND ");
            push_has_element(sql, table, &element, is_postgres);
        }
    }

    /// Writes the condition by which PostgreSQL's index `ledger_by_end_user` finds the rows of an end user, and perhaps a few others.
    pub(super) fn push_end_user(&self, sql: &mut Sql<'_>) {
        let is_end_user = |(dimension, _): &&(Dimension, String)| *dimension == Dimension::EndUser;
        let Some((dimension, name)) = self.names.iter().find(is_end_user) else { return };
        let element = serde_json::to_string(&text_of(*dimension, name)).unwrap_or_default();
        let begin = element.split('"').nth(1).unwrap_or_default();
        sql.push(
            " AND ledger.names LIKE '[\"end\\_user:%' AND left(split_part(ledger.names, '\"', 2), 200) = ",
        );
        sql.push_owned(begin.chars().take(200).collect());
    }
}

/// Writes the condition that the JSON array `names` of `table` has an element that begins with this text. No list has to be taken apart:
/// inside a text of JSON each quotation mark has a backslash before it.
fn push_has_element(sql: &mut Sql<'_>, table: &'static str, begin: &str, is_postgres: bool) {
    let function = if is_postgres { "strpos(" } else { "instr(" };
    sql.push("(");
    for (number, before) in ["[", ","].into_iter().enumerate() {
        sql.push(if number > 0 { " OR " } else { "" });
        sql.push(function).push(table).push(".names, ").push_owned(format!("{before}{begin}")).push(") > 0");
    }
    sql.push(")");
}

#[cfg(test)]
mod tests;
