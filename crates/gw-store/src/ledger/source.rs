//! The source of a report: the sums of days for the whole days that are added up, and the sums of hours for the rest.

use super::known_days::DAY;
use super::{Filter, HOUR_MS};
use crate::sql::Sql;

const HOUR: i64 = 3_600;
/// The counters that every table of sums has.
macro_rules! counters {
    () => {
        "requests, failed, cache_hits, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, \
         cost_nano, cost_rest, saved_nano, saved_rest, unpriced"
    };
}
pub(super) const COUNTERS: &str = counters!();
/// The columns that every table of sums by hour or day has.
pub(super) const COLUMNS: &str = concat!("hour, key_id, team, model, provider, ", counters!());
const UNTIL: &str = "(SELECT until FROM usage_rollup)";

/// The hours of a filter in unix seconds: the first one, and the end of the last one. None: there is no bound.
pub(super) fn hours(filter: &Filter) -> (Option<i64>, Option<i64>) {
    let hour = |at: i64| at.div_euclid(HOUR_MS) * HOUR;
    (filter.since.map(hour), filter.until.map(|until| hour(until.saturating_sub(1)) + HOUR))
}

/// Writes the conditions of a filter on the sums of hours.
pub(super) fn push_hours<'q>(sql: &mut Sql<'q>, filter: &'q Filter) {
    let (first, end) = hours(filter);
    if let Some(first) = first {
        sql.push(" AND hour >= ").push_int(first);
    }
    if let Some(end) = end {
        sql.push(" AND hour < ").push_int(end);
    }
    filter.push_columns(sql);
    filter.push_session(sql);
}

/// The column of sums with the number of rows that may have the status of the filter.
pub(super) fn counted(filter: &Filter) -> &'static str {
    match filter.status.as_deref() {
        None => "requests",
        Some("ok") => "requests - failed",
        Some(_) => "failed",
    }
}

/// The whole days of a filter in unix seconds: the first one, and the end of the last one. None: there is none.
pub(super) fn whole_days(filter: &Filter) -> Option<(i64, i64)> {
    let (first, end) = hours(filter);
    let first = first.map_or(i64::MIN, |hour| (hour + DAY - 1).div_euclid(DAY) * DAY);
    let end = end.map_or(i64::MAX, |hour| hour.div_euclid(DAY) * DAY);
    (first < end).then_some((first, end))
}

/// Writes `FROM … WHERE …` with all conditions of the filter: the sums of `table`, or those of whole days where there are some.
pub(super) fn push_source<'q>(sql: &mut Sql<'q>, filter: &'q Filter, table: &'static str, has_days: bool) {
    let Some((first, end)) = whole_days(filter).filter(|_| has_days && filter.session.is_none()) else {
        sql.push(" FROM ").push(table).push(" WHERE 1 = 1");
        return push_hours(sql, filter);
    };
    let begin = |sql: &mut Sql<'q>, table: &'static str| {
        sql.push("SELECT ").push(COLUMNS);
        // The sums by hour have no surfaces, and their reports do not ask for them.
        sql.push(if table == "usage_hours" { ", '' AS surface FROM " } else { ", surface FROM " });
        sql.push(table).push(" WHERE hour >= ");
    };
    let days_end = |sql: &mut Sql<'q>| {
        sql.push("min(").push_int(end).push(", ").push(UNTIL).push(")");
    };
    sql.push(" FROM (");
    begin(sql, "usage_days");
    sql.push_int(first).push(" AND hour < ");
    days_end(sql);
    filter.push_columns(sql);
    if let (Some(since), _) = hours(filter) {
        sql.push(" UNION ALL ");
        begin(sql, table);
        sql.push_int(since).push(" AND hour < ").push_int(first);
        filter.push_columns(sql);
    }
    sql.push(" UNION ALL ");
    begin(sql, table);
    sql.push("max(").push_int(first).push(", ");
    days_end(sql);
    sql.push(")");
    push_hours(sql, filter);
    sql.push(") WHERE 1 = 1");
}
