//! Pages of the request log with the requests that have certain names, however rare the names are.
//!
//! The sums by name and day tell the days on which a name occurs, and the blocks tell its hours. Only the rows of these hours are read. The
//! newest day comes first; then each step looks at more days, so that a name that occurs everywhere needs one step, and a rare one few.

use std::collections::BTreeMap;
use std::time::Instant;

use super::known_days::DAY;
use super::source::{counted, push_hours};
use super::{Cursor, Entry, Filter, HOUR_MS, Sums, read, sqlite};
use crate::db::{MAX_SEARCH_TIME, Result, Store};
use crate::sql::{Row, Sql};

/// The most days of one step.
const MOST_DAYS: i64 = 64;
/// How many times more days or rows the next step looks at.
const GROWTH: i64 = 4;
const HOUR: i64 = HOUR_MS / 1000;
const DAY_MS: i64 = DAY * 1000;

/// Hours in unix seconds, each with the most matching rows that it can have.
type Hours = BTreeMap<i64, i64>;

impl Store {
    /// A page of the request log for a filter with names and without a session, newest first.
    pub(super) async fn requests_with_names(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Vec<Entry>> {
        let begun = Instant::now();
        let last = filter.until.map(|until| until.saturating_sub(1));
        let newest = last.into_iter().chain(after.map(|cursor| cursor.at)).min().unwrap_or(i64::MAX);
        let mut bound = newest.div_euclid(DAY_MS).saturating_mul(DAY);
        let first = filter.since.map_or(i64::MIN, |since| since.div_euclid(HOUR_MS).saturating_mul(HOUR));
        let mut days = 1;
        let mut found = Vec::new();
        while let Some(day) = self.newest_day_with_names(filter, bound).await? {
            let begin = day.saturating_sub((days - 1) * DAY).max(first);
            if day.saturating_add(DAY) <= first {
                break;
            }
            let mut hours = self.hours_with_names(filter, (begin, day.saturating_add(DAY))).await?;
            let mut wanted = i64::from(limit);
            while !hours.is_empty() {
                let some = newest_of(&mut hours, wanted);
                wanted = wanted.saturating_mul(GROWTH);
                let missing = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
                found.extend(self.requests_of_hours(filter, after, missing, &some).await?);
                if found.len() >= limit as usize {
                    return Ok(found);
                }
                self.check_time(begun)?;
            }
            self.check_time(begun)?;
            bound = begin.div_euclid(DAY).saturating_sub(1).saturating_mul(DAY);
            days = (days * GROWTH).min(MOST_DAYS);
        }
        Ok(found)
    }

    /// All steps together take no longer than a search.
    fn check_time(&self, begun: Instant) -> Result<()> {
        if begun.elapsed() > MAX_SEARCH_TIME { Err(self.too_slow()) } else { Ok(()) }
    }

    /// The newest rows of these hours that match.
    async fn requests_of_hours(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u32,
        hours: &[i64],
    ) -> Result<Vec<Entry>> {
        let list = serde_json::to_string(hours).unwrap_or_default();
        let sql = match self.is_postgres() {
            true => read::page(filter, after, limit, Some(list)),
            false => sqlite::page(filter, after, limit, Some(list)),
        };
        self.search(sql, read::read).await
    }

    /// The newest day up to `bound` that may have rows with all names: the earliest of the names' own newest days.
    async fn newest_day_with_names(&self, filter: &Filter, bound: i64) -> Result<Option<i64>> {
        let mut newest = bound;
        for (dimension, name) in &filter.names {
            let mut sql = Sql::new("SELECT max(hour) AS hour FROM usage_names WHERE kind = ");
            sql.push_text(dimension.name()).push(" AND name = ").push_text(name);
            sql.push(" AND hour <= ").push_int(newest);
            match self.only(sql, |row| row.get::<Option<i64>>("hour")).await? {
                Some(hour) => newest = hour,
                None => return Ok(None),
            }
        }
        Ok(Some(newest))
    }

    /// The hours of `span` (unix seconds) that may have matching rows.
    async fn hours_with_names(&self, filter: &Filter, span: (i64, i64)) -> Result<Hours> {
        let mut hours: Option<Hours> = None;
        if filter.has_columns() {
            let within = within(filter, span);
            let mut sql = Sql::new("SELECT hour, CAST(sum(");
            sql.push(counted(filter)).push(") AS BIGINT) AS rows FROM ").push(filter.sums_table());
            sql.push(" WHERE 1 = 1");
            push_hours(&mut sql, &within);
            sql.push(" GROUP BY hour");
            hours = Some(
                self.search(sql, hour_and_rows).await?.into_iter().filter(|(_, rows)| *rows > 0).collect(),
            );
        }
        for (dimension, name) in &filter.names {
            let days = self.days_with_name(filter, (dimension.name(), name), span).await?;
            let (Some(first), Some(last)) = (days.first(), days.last()) else { return Ok(Hours::new()) };
            let around = (span.0.max(*first), span.1.min(last.saturating_add(DAY)));
            // Requests that are moved from here into a block meanwhile are then found there.
            let late = self.late_hours(filter, around).await?;
            let packed = self.packed_hours(*dimension, name, around).await?;
            let mut own: Hours =
                packed.sums.iter().map(|(hour, sums)| (*hour, rows_of(filter, sums))).collect();
            for unpacked in [(around.0, packed.bounds.0), (packed.bounds.1, around.1)] {
                own.extend(self.unpacked_hours(filter, unpacked).await?);
            }
            for (hour, rows) in late {
                *own.entry(hour).or_default() += rows;
            }
            own.retain(|hour, rows| *rows > 0 && days.binary_search(&(hour.div_euclid(DAY) * DAY)).is_ok());
            hours = Some(match hours {
                None => own,
                Some(hours) => own
                    .into_iter()
                    .filter_map(|(hour, rows)| Some((hour, rows.min(*hours.get(&hour)?))))
                    .collect(),
            });
        }
        Ok(hours.unwrap_or_default())
    }

    /// The days of `span` on which the name occurs in rows with the columns of the filter, in their order.
    async fn days_with_name(
        &self,
        filter: &Filter,
        (kind, name): (&'static str, &str),
        span: (i64, i64),
    ) -> Result<Vec<i64>> {
        let mut sql = Sql::new("SELECT hour, CAST(sum(");
        sql.push(counted(filter)).push(") AS BIGINT) AS rows FROM usage_names WHERE kind = ");
        sql.push_text(kind).push(" AND name = ").push_text(name);
        sql.push(" AND hour >= ").push_int(span.0.div_euclid(DAY).saturating_mul(DAY));
        sql.push(" AND hour < ").push_int(span.1);
        filter.push_columns(&mut sql);
        sql.push(" GROUP BY hour ORDER BY hour");
        let days = self.search(sql, hour_and_rows).await?;
        Ok(days.into_iter().filter_map(|(day, rows)| (rows > 0).then_some(day)).collect())
    }

    /// The hours of late requests that are in no block yet.
    async fn late_hours(&self, filter: &Filter, (first, end): (i64, i64)) -> Result<Vec<(i64, i64)>> {
        let mut sql = Sql::new("SELECT hour, CAST(sum(");
        sql.push(counted(filter)).push(") AS BIGINT) AS rows FROM usage_name_late AS late WHERE hour >= ");
        sql.push_int(first).push(" AND hour < ").push_int(end);
        filter.push_names(&mut sql, "late", self.is_postgres());
        sql.push(" GROUP BY hour");
        self.search(sql, hour_and_rows).await
    }

    /// The hours without blocks that have matching rows.
    async fn unpacked_hours(&self, filter: &Filter, (first, end): (i64, i64)) -> Result<Vec<(i64, i64)>> {
        if first >= end {
            return Ok(Vec::new());
        }
        let mut sql = Sql::new("SELECT hour, CAST(sum(");
        sql.push(counted(filter)).push(") AS BIGINT) AS rows FROM usage_attributions AS a WHERE hour >= ");
        sql.push_int(first).push(" AND hour < ").push_int(end);
        filter.push_names(&mut sql, "a", self.is_postgres());
        filter.push_columns(&mut sql);
        sql.push(" GROUP BY hour");
        self.search(sql, hour_and_rows).await
    }
}

/// As [`counted`], of these sums.
fn rows_of(filter: &Filter, sums: &Sums) -> i64 {
    let rows = match filter.status.as_deref() {
        None => sums.requests,
        Some("ok") => sums.requests.saturating_sub(sums.failed),
        Some(_) => sums.failed,
    };
    i64::try_from(rows).unwrap_or(i64::MAX)
}

fn hour_and_rows(row: &Row) -> sqlx::Result<(i64, i64)> {
    Ok((row.get("hour")?, row.get("rows")?))
}

/// Takes the newest hours out of the list that together may have as many rows as are wanted.
fn newest_of(hours: &mut Hours, wanted: i64) -> Vec<i64> {
    let (mut some, mut rows) = (Vec::new(), 0);
    while rows < wanted
        && let Some((hour, count)) = hours.pop_last()
    {
        some.push(hour);
        rows = i64::saturating_add(rows, count);
    }
    some
}

/// The filter for the sums of the hours of a span.
fn within(filter: &Filter, (first, end): (i64, i64)) -> Filter {
    Filter {
        since: Some(first.saturating_mul(1000)),
        until: Some(end.saturating_mul(1000)),
        ..filter.clone()
    }
}
