//! Queries of the ledger: reports and the request log.

use std::collections::BTreeMap;

use super::attribution::{push_detail, push_named_days};
use super::source::{counted, push_hours, push_source};
use super::{Cursor, Entry, Filter, GroupBy, HOUR_MS, Sums, Tokens, joined, line, sqlite};
use crate::db::{Result, Store};
use crate::sql::{Row, Sql};

impl Store {
    /// Sums of the requests that match the filter, by group, the most expensive group first.
    ///
    /// By session or surface, at most the 1,000 most expensive groups are listed. A group without a name has the sums of all
    /// other requests: those without a session, and those that are older than the request log.
    pub async fn usage(&self, by: GroupBy, filter: &Filter) -> Result<Vec<(String, Sums)>> {
        if by.is_of_sessions() {
            return self.usage_of_sessions(by, filter).await;
        }
        if let (GroupBy::Hour, [(dimension, name)]) = (by, &*filter.names)
            && filter.session.is_none()
            && !filter.has_columns()
        {
            return Ok(by_cost(self.hours_of_name((*dimension, name), filter).await?));
        }
        let mut sql = Sql::new("SELECT ");
        sql.push(by.column()).push(" AS name, ").push(SUMS);
        self.push_sums(&mut sql, filter, by);
        sql.push(if by == GroupBy::Hour { " GROUP BY hour" } else { " GROUP BY 1" });
        sql.push(" ORDER BY sum(cost_nano) DESC, 1");
        self.list(sql, |row| Ok((row.get("name")?, read_sums(row)?))).await
    }

    async fn usage_of_sessions(&self, by: GroupBy, filter: &Filter) -> Result<Vec<(String, Sums)>> {
        // One statement sees one moment.
        let mut sql = Sql::new("SELECT * FROM (SELECT ");
        sql.push(by.column()).push(" AS name, ").push(SUMS);
        self.push_sums(&mut sql, filter, by);
        sql.push(" AND ").push(by.column()).push(" <> ''");
        sql.push(" GROUP BY 1 ORDER BY sum(cost_nano) DESC, 1 LIMIT ").push_int(MAX_SESSION_GROUPS);
        sql.push(") AS listed UNION ALL SELECT CAST(NULL AS TEXT) AS name, ").push(SUMS);
        self.push_total_source(&mut sql, filter);
        let rows = self.list(sql, |row| Ok((row.get::<Option<String>>("name")?, read_sums(row)?))).await?;
        let (mut groups, mut others) = (Vec::with_capacity(rows.len()), Sums::default());
        for (name, sums) in rows {
            match name {
                Some(name) => groups.push((name, sums)),
                None => others = sums,
            }
        }
        others = groups.iter().fold(others, |others, (_, sums)| others.without(sums));
        if others.requests > 0 {
            groups.push((String::new(), others));
        }
        groups.sort_by(|(one, costs), (other, more)| more.cost.cmp(&costs.cost).then_with(|| one.cmp(other)));
        Ok(groups)
    }

    /// Sums of all requests that match the filter.
    pub async fn total(&self, filter: &Filter) -> Result<Sums> {
        let mut sql = Sql::new("SELECT ");
        sql.push(SUMS);
        self.push_total_source(&mut sql, filter);
        self.only(sql, read_sums).await
    }

    /// Writes `FROM … WHERE …` for the sums of all requests that match the filter.
    pub(super) fn push_total_source<'q>(&self, sql: &mut Sql<'q>, filter: &'q Filter) {
        self.push_sums(sql, filter, GroupBy::Day);
    }

    /// Writes `FROM … WHERE …` with sums that have the column of the group and match the filter.
    fn push_sums<'q>(&self, sql: &mut Sql<'q>, filter: &'q Filter, by: GroupBy) {
        // The hours are in order, so their sums need no sorting. They are not in the sums of days, and neither are sessions.
        let has_whole_days = !matches!(by, GroupBy::Hour | GroupBy::Session);
        if filter.names.is_empty() {
            let table = if by.is_of_sessions() { "usage_sessions" } else { filter.sums_table() };
            push_source(sql, filter, table, self.has_days() && has_whole_days);
        } else if filter.names.len() == 1 && filter.session.is_none() && has_whole_days {
            push_named_days(sql, filter, self.is_postgres());
        } else {
            push_detail(sql, filter, self.is_postgres());
        }
    }

    /// A page of the request log, newest first.
    pub async fn requests(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Vec<Entry>> {
        if !filter.names.is_empty() && filter.session.is_none() {
            return self.requests_with_names(filter, after, limit).await;
        }
        let sql = if self.is_postgres() {
            page(filter, after, limit, None)
        } else {
            sqlite::page(filter, after, limit, None)
        };
        self.search(sql, read).await
    }

    /// The newest requests of a key that failed, the newest first.
    pub async fn failures(&self, key_id: &str, limit: u32) -> Result<Vec<Entry>> {
        let sql = if self.is_postgres() { failures(key_id, limit) } else { sqlite::failures(key_id, limit) };
        self.search(sql, read).await
    }

    /// The request with this id.
    pub async fn request(&self, request_id: &str) -> Result<Option<Entry>> {
        let sql = if self.is_postgres() {
            Sql::new("SELECT entry FROM ledger WHERE request_id = $1").name(request_id)
        } else {
            sqlite::one(request_id)
        };
        self.first(sql, read).await
    }

    /// Deletes the sums by session and by name of the hours before this time (unix milliseconds) that have no rows any more; returns how
    /// many. The other sums stay.
    pub async fn purge_detailed_sums(&self, before: i64) -> Result<u64> {
        let oldest = if self.is_postgres() {
            "SELECT min(at) AS at FROM ledger"
        } else {
            "SELECT min(at) AS at FROM ledger_rows"
        };
        // Without rows it is not known up to when there were some.
        let Some(oldest) = self.only(Sql::new(oldest), |row| row.get::<Option<i64>>("at")).await? else {
            return Ok(0);
        };
        let before = before.min(oldest);
        let has_old_days = self.purge_name_blocks(before).await?;
        let mut deleted = 0;
        for delete in [
            "DELETE FROM usage_sessions WHERE (hour + 3600) * 1000 <= ",
            "DELETE FROM usage_prompt_cache_sessions WHERE (hour + 3600) * 1000 <= ",
            "DELETE FROM usage_prompt_cache_names WHERE (hour + 3600) * 1000 <= ",
            "DELETE FROM usage_attributions WHERE (hour + 3600) * 1000 <= ",
        ] {
            let mut sql = Sql::new(delete);
            sql.push_int(before);
            deleted += self.run(sql).await?;
        }
        deleted += self.purge_names(before).await?;
        if has_old_days {
            self.purge_name_ids().await?;
        }
        Ok(deleted)
    }
}

/// The groups of hours, the most expensive one first.
fn by_cost(hours: BTreeMap<i64, Sums>) -> Vec<(String, Sums)> {
    let mut groups: Vec<_> = hours.into_iter().map(|(hour, sums)| (hour.to_string(), sums)).collect();
    groups.sort_by(|(one, costs), (other, more)| more.cost.cmp(&costs.cost).then_with(|| one.cmp(other)));
    groups
}

/// A page of the log in PostgreSQL. `listed`: the hours that hold matching rows, as a JSON array.
pub(super) fn page<'q>(
    filter: &'q Filter,
    after: Option<&'q Cursor>,
    limit: u32,
    listed: Option<String>,
) -> Sql<'q> {
    let mut sql = Sql::new("SELECT ledger.entry FROM ");
    // Single states and the failures of a key have an index. Otherwise the hourly sums show the hours that hold matching rows, even if
    // these are rare.
    let named = [&filter.team, &filter.model, &filter.provider, &filter.surface];
    let is_named = named.iter().any(|name| name.is_some());
    let by_hours = listed.is_some()
        || filter.session.is_none()
            && match filter.status.as_deref() {
                None | Some("ok") => is_named,
                Some("failed") => is_named && filter.key_id.is_none(),
                Some(_) => false,
            };
    if by_hours {
        match listed {
            Some(list) => {
                sql.push("(SELECT CAST(value AS BIGINT) AS hour FROM json_array_elements_text(CAST(");
                sql.push_owned(list).push(" AS json)) AS listed(value)) AS hours ");
            }
            None => push_hours_with(&mut sql, filter, after, limit),
        }
        // The planner would read the whole ledger; a limit inside the lateral query prevents that.
        sql.push("CROSS JOIN LATERAL (SELECT * FROM ");
        sql.push("ledger WHERE at >= hours.hour * 1000 AND at < hours.hour * 1000 + 3600000");
    } else {
        sql.push("ledger WHERE 1 = 1");
    }
    if let Some(since) = filter.since {
        sql.push(" AND at >= ").push_int(since);
    }
    if let Some(until) = filter.until {
        sql.push(" AND at < ").push_int(until);
    }
    filter.push_columns(&mut sql);
    filter.push_session(&mut sql);
    filter.push_names(&mut sql, "ledger", true);
    filter.push_end_user(&mut sql);
    if let Some(status) = &filter.status {
        if status != "ok" {
            sql.push(" AND status <> 'ok'");
        }
        if status != "failed" {
            sql.push(" AND status = ").push_text(status);
        }
    }
    if let Some(Cursor { at, request_id }) = after {
        sql.push(" AND at <= ").push_int(*at);
        sql.push(" AND (at, request_id) < (").push_int(*at).push(", ").push_name(request_id).push(")");
    }
    sql.push(NEWEST_FIRST).push_int(i64::from(limit));
    if by_hours {
        sql.push(") AS ledger").push(NEWEST_FIRST).push_int(i64::from(limit));
    }
    sql
}

/// The newest failures of a key in PostgreSQL.
fn failures(key_id: &str, limit: u32) -> Sql<'_> {
    let mut sql = Sql::new("SELECT entry FROM ledger WHERE status <> 'ok' AND key_id = ");
    sql.push_name(key_id).push(NEWEST_FIRST).push_int(i64::from(limit));
    sql
}

/// The most groups of a report by session.
const MAX_SESSION_GROUPS: i64 = 1_000;

const NEWEST_FIRST: &str = " ORDER BY at DESC, request_id DESC LIMIT ";

/// The columns that `read_sums` reads.
pub(super) const SUMS: &str = "CAST(coalesce(sum(requests), 0) AS BIGINT) AS requests, \
    CAST(coalesce(sum(failed), 0) AS BIGINT) AS failed, \
    CAST(coalesce(sum(cache_hits), 0) AS BIGINT) AS cache_hits, \
    CAST(coalesce(sum(prompt_tokens), 0) AS BIGINT) AS prompt_tokens, \
    CAST(coalesce(sum(completion_tokens), 0) AS BIGINT) AS completion_tokens, \
    CAST(coalesce(sum(cached_tokens), 0) AS BIGINT) AS cached_tokens, \
    CAST(coalesce(sum(cache_write_tokens), 0) AS BIGINT) AS cache_write_tokens, \
    CAST(coalesce(sum(reasoning_tokens), 0) AS BIGINT) AS reasoning_tokens, \
    CAST(coalesce(sum(cost_nano), 0) AS BIGINT) AS cost_nano, \
    CAST(coalesce(sum(cost_rest), 0) AS BIGINT) AS cost_rest, \
    CAST(coalesce(sum(saved_nano), 0) AS BIGINT) AS saved_nano, \
    CAST(coalesce(sum(saved_rest), 0) AS BIGINT) AS saved_rest, \
    CAST(coalesce(sum(unpriced), 0) AS BIGINT) AS unpriced";

/// The newest hours that together hold as many matching rows as the page needs. The hour of the cursor counts as empty,
/// because the number of its remaining rows is unknown. Hours with deleted rows are older than all others.
pub(super) fn push_hours_with<'q>(sql: &mut Sql<'q>, filter: &'q Filter, after: Option<&Cursor>, limit: u32) {
    let newest = after.map(|cursor| cursor.at.div_euclid(HOUR_MS) * 3600);
    let last = filter.until.map(|until| until.saturating_sub(1).div_euclid(HOUR_MS) * 3600);
    let unsure = newest.into_iter().chain(last).min().unwrap_or(i64::MAX);
    sql.push(
        "(SELECT hour FROM (SELECT hour, rows, sum(rows) OVER (ORDER BY hour DESC) - rows AS newer FROM (SELECT hour, \
         CAST(sum(CASE WHEN hour >= ",
    );
    sql.push_int(unsure);
    sql.push(" THEN 0 ELSE ").push(counted(filter)).push(" END) AS BIGINT) AS rows");
    sql.push(" FROM ").push(filter.sums_table()).push(" WHERE 1 = 1");
    push_hours(sql, filter);
    if let Some(newest) = newest {
        sql.push(" AND hour <= ").push_int(newest);
    }
    sql.push(" GROUP BY hour) AS counted) AS added WHERE newer < ").push_int(i64::from(limit));
    if filter.status.is_some() {
        // Most hours have no failure of a rare name.
        sql.push(" AND (rows > 0 OR hour >= ").push_int(unsure).push(")");
    }
    sql.push(") AS hours ");
}

fn count(row: &Row, column: &str) -> sqlx::Result<u64> {
    row.get::<i64>(column).map(|count| u64::try_from(count).unwrap_or(0))
}

fn read_tokens(row: &Row) -> sqlx::Result<Tokens> {
    Ok(Tokens {
        prompt: count(row, "prompt_tokens")?,
        completion: count(row, "completion_tokens")?,
        cached: count(row, "cached_tokens")?,
        cache_write: count(row, "cache_write_tokens")?,
        reasoning: count(row, "reasoning_tokens")?,
    })
}

pub(super) fn read_sums(row: &Row) -> sqlx::Result<Sums> {
    Ok(Sums {
        requests: count(row, "requests")?,
        failed: count(row, "failed")?,
        cache_hits: count(row, "cache_hits")?,
        tokens: read_tokens(row)?,
        cost: joined(row.get("cost_nano")?, row.get("cost_rest")?),
        unpriced: count(row, "unpriced")?,
        saved: joined(row.get("saved_nano")?, row.get("saved_rest")?),
    })
}

pub(super) fn read(row: &Row) -> sqlx::Result<Entry> {
    line::read(&row.get::<String>("entry")?)
}
