//! The ledger's rows in SQLite. Every request writes a row, so the table has only one order, by time and id, and one index,
//! of failures. The part that many rows share is a row of `ledger_groups`.

use std::collections::HashSet;
use std::sync::Arc;

use sqlx::sqlite::SqliteConnection;
use sqlx::{Row as _, Sqlite};

use super::groups::Groups;
use super::line::{Line, Names};
use super::read::push_hours_with;
use super::{Cursor, Filter};
use crate::sql::Sql;

/// Maximum number of cached groups. There are about as many groups as keys times models.
const MAX_CACHED_GROUPS: usize = 10_000;
/// Older versions wrote rows up to this many milliseconds later than the time in their ids.
const MAX_ROW_DELAY_MS: i64 = 600_000;

/// The group numbers of the lines of a transaction.
pub(super) struct Numbers {
    of: Vec<i64>,
    new: Vec<(Box<str>, i64)>,
}

impl Numbers {
    /// Finds the numbers of the groups and inserts missing groups.
    pub(super) async fn find(
        connection: &mut SqliteConnection,
        known: &Groups,
        wanted: &[(&str, Names)],
    ) -> sqlx::Result<Self> {
        const MAKE: &str = "INSERT INTO ledger_groups (key_id, team, model, provider, entry, surface) \
            VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (entry) DO UPDATE SET surface = excluded.surface RETURNING id";
        let found: Vec<Option<i64>> = {
            let known = known.lock();
            wanted.iter().map(|(text, _)| known.get(*text).copied()).collect()
        };
        let mut numbers = Self { of: Vec::with_capacity(wanted.len()), new: Vec::new() };
        for ((text, names), found) in wanted.iter().zip(found) {
            let number = match found {
                Some(number) => number,
                None => {
                    let make = sqlx::query(MAKE).bind(&*names.key_id).bind(names.team.as_deref());
                    let make = make.bind(&*names.model).bind(&*names.provider).bind(*text);
                    let make = make.bind(&*names.surface);
                    let number = make.fetch_one(&mut *connection).await?.try_get(0)?;
                    numbers.new.push(((*text).into(), number));
                    number
                }
            };
            numbers.of.push(number);
        }
        Ok(numbers)
    }

    /// Caches the new groups after the transaction was committed.
    pub(super) fn remember(self, known: &Groups) {
        let mut known = known.lock();
        if known.len() + self.new.len() > MAX_CACHED_GROUPS {
            known.clear();
        }
        known.extend(self.new);
    }
}

/// An insert statement for a fixed number of rows; unused rows are NULL and not inserted. A few statements, each prepared
/// once, are thus enough for any number of rows, usually in one call to SQLite's thread.
macro_rules! insert {
    ($columns:expr, $rows:expr, $end:expr) => {
        concat!(
            "INSERT INTO ledger_rows (",
            $columns,
            ") SELECT * FROM (VALUES ",
            $rows,
            ") WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING",
            $end
        )
    };
}
macro_rules! columns {
    () => {
        "at, request_id, who, status, entry"
    };
    (named) => {
        concat!(columns!(), ", session, names")
    };
}
macro_rules! row {
    () => {
        "(?,?,?,?,?)"
    };
    (named) => {
        "(?,?,?,?,?,?,?)"
    };
}
macro_rules! two {
    ($row:expr) => {
        concat!($row, ",", $row)
    };
}
macro_rules! four {
    ($row:expr) => {
        concat!($row, ",", $row, ",", $row, ",", $row)
    };
}
pub(super) use four;

macro_rules! statement {
    ($rows:expr, $($named:ident)?) => {
        match $rows {
            ..=1 => (insert!(columns!($($named)?), row!($($named)?), ""), 1),
            2..=4 => (insert!(columns!($($named)?), four!(row!($($named)?)), ""), 4),
            5..=16 => (insert!(columns!($($named)?), four!(four!(row!($($named)?))), ""), 16),
            17..=32 => (insert!(columns!($($named)?), two!(four!(four!(row!($($named)?)))), ""), 32),
            33..=64 => (insert!(columns!($($named)?), four!(four!(four!(row!($($named)?)))), ""), 64),
            _ => (insert!(columns!($($named)?), four!(four!(four!(four!(row!($($named)?))))), ""), 256),
        }
    };
}

/// A statement for this many rows or fewer, and its number of rows. SQLite clears and reads all parameters, so rows that
/// name neither a session nor an attribution have none for them.
fn statement(rows: usize, is_named: bool) -> (&'static str, usize) {
    if is_named { statement!(rows, named) } else { statement!(rows,) }
}

/// Whether one of the lines names a session or an attribution.
fn is_named(lines: &[(&Line, usize)]) -> bool {
    lines.iter().any(|(line, _)| line.session.is_some() || line.names.is_some())
}

/// Inserts lines, each with the index of its group, if all of them are new. False: some rows existed already, so the
/// transaction must be rolled back.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    numbers: &Numbers,
    mut lines: &[(&Line, usize)],
) -> sqlx::Result<bool> {
    let is_named = is_named(lines);
    while !lines.is_empty() {
        let (sql, count) = statement(lines.len(), is_named);
        let (chunk, after) = lines.split_at(count.min(lines.len()));
        lines = after;
        let done = bound(sql, numbers, chunk, is_named).execute(&mut *connection).await?;
        if done.rows_affected() != chunk.len() as u64 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// As [`insert()`], and returns which lines were new. The database returns every new row, which takes time.
pub(super) async fn insert_some(
    connection: &mut SqliteConnection,
    numbers: &Numbers,
    lines: &[(&Line, usize)],
) -> sqlx::Result<Vec<bool>> {
    const INSERT: &str =
        insert!(columns!(named), four!(four!(four!(row!(named)))), " RETURNING at, request_id");
    let mut is_new = Vec::with_capacity(lines.len());
    for chunk in lines.chunks(64) {
        let mut new: HashSet<(i64, Arc<str>)> = HashSet::new();
        for row in bound(INSERT, numbers, chunk, true).fetch_all(&mut *connection).await? {
            new.insert((row.try_get(0)?, row.try_get::<&str, _>(1)?.into()));
        }
        // A line that occurs twice in one batch is one row.
        is_new.extend(chunk.iter().map(|(line, _)| new.remove(&(line.at, Arc::clone(&line.request_id)))));
    }
    Ok(is_new)
}

fn bound(
    sql: &'static str,
    numbers: &Numbers,
    lines: &[(&Line, usize)],
    is_named: bool,
) -> sqlx::query::Query<'static, Sqlite, sqlx::sqlite::SqliteArguments> {
    let mut query = sqlx::query::<Sqlite>(sql);
    for (line, group) in lines {
        // An `Arc` spares a copy of the text.
        query = query
            .bind(line.at)
            .bind(Arc::<str>::from(&*line.request_id))
            .bind(numbers.of.get(*group).copied());
        query = query.bind(line.failure.as_deref()).bind(Arc::<str>::from(line.rest()));
        if is_named {
            query = query.bind(line.session.as_deref()).bind(line.names.as_deref());
        }
    }
    query
}

/// Builds a row's entry as one JSON text, from the tables `r` and `g`.
const ENTRY: &str = "SELECT CASE WHEN r.entry LIKE '{%' THEN r.entry ELSE '[' || json_quote(r.request_id) || ',' || r.at || \
    ',' || g.entry || ',' || json_quote(coalesce(r.status, 'ok')) || ',' || r.entry || ']' END AS entry FROM ";
const OF_HOUR: &str = " WHERE r.at >= hours.hour * 1000 AND r.at < hours.hour * 1000 + 3600000";
const WITH_GROUP: &str = " CROSS JOIN ledger_groups AS g ON g.id = r.who";

/// A page of the log, newest first. The rows are found first; then only the rows of the page are put together. `listed`: the hours that
/// hold matching rows, as a JSON array.
pub(super) fn page<'q>(
    filter: &'q Filter,
    after: Option<&'q Cursor>,
    limit: u32,
    listed: Option<String>,
) -> Sql<'q> {
    let mut sql = Sql::new(ENTRY);
    sql.push("(SELECT r.at AS found_at, r.request_id AS found_id FROM ");
    // Sessions and failures have an index. Otherwise the hourly sums tell which hours hold matching rows, however rare they are.
    let is_named = filter.has_columns();
    let is_failed = filter.status.as_deref().is_some_and(|status| status != "ok");
    if let Some(list) = listed {
        sql.push("(SELECT value AS hour FROM json_each(")
            .push_owned(list)
            .push(")) AS hours CROSS JOIN ledger_rows AS r");
        sql.push(if is_failed { " INDEXED BY ledger_by_failure" } else { "" });
        sql.push(OF_HOUR);
    } else if filter.session.is_some() {
        sql.push("ledger_rows AS r WHERE 1 = 1");
    } else if is_failed {
        sql.push("ledger_rows AS r INDEXED BY ledger_by_failure WHERE 1 = 1");
    } else if is_named {
        push_hours_with(&mut sql, filter, after, limit);
        sql.push("CROSS JOIN ledger_rows AS r").push(OF_HOUR);
    } else {
        sql.push("ledger_rows AS r WHERE 1 = 1");
    }
    if let Some(since) = filter.since {
        sql.push(" AND r.at >= ").push_int(since);
    }
    if let Some(until) = filter.until {
        sql.push(" AND r.at < ").push_int(until);
    }
    filter.push_session(&mut sql);
    filter.push_names(&mut sql, "r", false);
    if is_named {
        sql.push(" AND r.who IN (SELECT id FROM ledger_groups WHERE 1 = 1");
        filter.push_columns(&mut sql);
        sql.push(")");
    }
    match filter.status.as_deref() {
        Some("ok") => sql.push(" AND r.status IS NULL"),
        Some("failed") => sql.push(" AND r.status IS NOT NULL"),
        Some(status) => sql.push(" AND r.status = ").push_text(status),
        None => &mut sql,
    };
    if let Some(Cursor { at, request_id }) = after {
        sql.push(" AND r.at <= ").push_int(*at);
        sql.push(" AND (r.at, r.request_id) < (").push_int(*at).push(", ").push_name(request_id).push(")");
    }
    sql.push(" ORDER BY r.at DESC, r.request_id DESC LIMIT ").push_int(i64::from(limit));
    sql.push(") CROSS JOIN ledger_rows AS r ON r.at = found_at AND r.request_id = found_id").push(WITH_GROUP);
    sql.push(" ORDER BY r.at DESC, r.request_id DESC");
    sql
}

/// The newest failures of a key.
pub(super) fn failures(key_id: &str, limit: u32) -> Sql<'_> {
    let mut sql = Sql::new(ENTRY);
    sql.push("(SELECT r.at AS found_at, r.request_id AS found_id FROM (");
    // Each of these hours has a failure of the key, so as many hours as failures are enough.
    sql.push("SELECT DISTINCT hour FROM usage_hours WHERE failed > 0 AND key_id = ").push_name(key_id);
    sql.push(" ORDER BY hour DESC LIMIT ").push_int(i64::from(limit));
    sql.push(
        ") AS hours CROSS JOIN ledger_rows AS r INDEXED BY ledger_by_failure WHERE r.at >= hours.hour * 1000",
    );
    sql.push(" AND r.at < hours.hour * 1000 + 3600000 AND r.status IS NOT NULL");
    sql.push(" AND r.who IN (SELECT id FROM ledger_groups WHERE key_id = ").push_name(key_id);
    sql.push(") ORDER BY r.at DESC, r.request_id DESC LIMIT ").push_int(i64::from(limit));
    sql.push(") CROSS JOIN ledger_rows AS r ON r.at = found_at AND r.request_id = found_id").push(WITH_GROUP);
    sql.push(" ORDER BY r.at DESC, r.request_id DESC");
    sql
}

/// The request with this id. The id holds its time; an id of another form is searched for in all rows.
pub(super) fn one(request_id: &str) -> Sql<'_> {
    let mut sql = Sql::new(ENTRY);
    sql.push("ledger_rows AS r").push(WITH_GROUP).push(" WHERE r.request_id = ").push_name(request_id);
    if let Some(at) = gw_wire::request_id::timestamp_millis(request_id) {
        sql.push(" AND r.at >= ")
            .push_int(at)
            .push(" AND r.at <= ")
            .push_int(at.saturating_add(MAX_ROW_DELAY_MS));
    }
    sql.push(" ORDER BY r.at LIMIT 1");
    sql
}

/// Deletes the rows before a time, the oldest first.
pub(super) const PURGE: &str = "DELETE FROM ledger_rows WHERE (at, request_id) IN \
    (SELECT at, request_id FROM ledger_rows WHERE at < $1 ORDER BY at, request_id LIMIT $2)";
