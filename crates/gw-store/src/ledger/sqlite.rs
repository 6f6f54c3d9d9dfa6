//! The ledger's rows in SQLite. A row is written on the path of every request, so a table has one order only, time and
//! id, and one index, of what failed; what many rows have in common is a row of `ledger_groups`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row as _, Sqlite};

use super::line::{Line, Names};
use super::read::push_hours_with;
use super::{Cursor, Filter};
use crate::sql::Sql;

/// Groups whose number is remembered. There are as many as keys have models.
const REMEMBERED: usize = 10_000;
/// A row that was written by a version whose rows were younger than their ids is at most so many milliseconds younger.
const YOUNGER: i64 = 600_000;

/// The numbers of groups that are in the database: their text is looked for once.
pub(crate) type Groups = Mutex<HashMap<Box<str>, i64>>;

/// The numbers that the lines of a transaction need.
pub(super) struct Numbers {
    of: Vec<i64>,
    new: Vec<(Box<str>, i64)>,
}

impl Numbers {
    /// Finds or makes the groups.
    pub(super) async fn find(
        connection: &mut SqliteConnection,
        known: &Groups,
        wanted: &[(&str, Names)],
    ) -> sqlx::Result<Self> {
        const MAKE: &str = "INSERT INTO ledger_groups (key_id, team, model, provider, entry) VALUES ($1, $2, $3, $4, $5) \
            ON CONFLICT (entry) DO UPDATE SET entry = excluded.entry RETURNING id";
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
                    let number = make.fetch_one(&mut *connection).await?.try_get(0)?;
                    numbers.new.push(((*text).into(), number));
                    number
                }
            };
            numbers.of.push(number);
        }
        Ok(numbers)
    }

    /// The transaction was committed: what is new is there to stay.
    pub(super) fn remember(self, known: &Groups) {
        let mut known = known.lock();
        if known.len() + self.new.len() > REMEMBERED {
            known.clear();
        }
        known.extend(self.new);
    }
}

/// Rows that are left empty are not inserted: so a few texts, each understood once, are enough for any number, and
/// seldom more than one statement, which is a call to another thread.
macro_rules! insert {
    ($rows:expr, $end:expr) => {
        concat!(
            "INSERT INTO ledger_rows (at, request_id, who, status, entry) SELECT * FROM (VALUES ",
            $rows,
            ") WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING",
            $end
        )
    };
}
macro_rules! row {
    () => {
        "(?,?,?,?,?)"
    };
}
macro_rules! four {
    ($row:expr) => {
        concat!($row, ",", $row, ",", $row, ",", $row)
    };
}
pub(super) use four;

/// A statement for so many rows or fewer, and how many it takes.
fn statement(rows: usize) -> (&'static str, usize) {
    match rows {
        ..=1 => (insert!(row!(), ""), 1),
        2..=16 => (insert!(four!(four!(row!())), ""), 16),
        17..=64 => (insert!(four!(four!(four!(row!()))), ""), 64),
        _ => (insert!(four!(four!(four!(four!(row!())))), ""), 256),
    }
}

/// Inserts lines, each with the place of its group, as long as all of them are new. False: some were there already, and
/// nobody knows which. The transaction is of no use then.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    numbers: &Numbers,
    mut lines: &[(&Line, usize)],
) -> sqlx::Result<bool> {
    while !lines.is_empty() {
        let (sql, count) = statement(lines.len());
        let (chunk, after) = lines.split_at(count.min(lines.len()));
        lines = after;
        let done = bound(sql, numbers, chunk).execute(&mut *connection).await?;
        if done.rows_affected() != chunk.len() as u64 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// As [`insert()`], and says which of the lines were new. Every new row is said by the database, which takes its time.
pub(super) async fn insert_some(
    connection: &mut SqliteConnection,
    numbers: &Numbers,
    lines: &[(&Line, usize)],
) -> sqlx::Result<Vec<bool>> {
    const INSERT: &str = insert!(four!(four!(four!(row!()))), " RETURNING at, request_id");
    let mut is_new = Vec::with_capacity(lines.len());
    for chunk in lines.chunks(64) {
        let mut new: HashSet<(i64, String)> = HashSet::new();
        for row in bound(INSERT, numbers, chunk).fetch_all(&mut *connection).await? {
            new.insert((row.try_get(0)?, row.try_get(1)?));
        }
        // The same line twice in one batch is one row.
        is_new.extend(chunk.iter().map(|(line, _)| new.remove(&(line.at, line.request_id.clone()))));
    }
    Ok(is_new)
}

fn bound(
    sql: &'static str,
    numbers: &Numbers,
    lines: &[(&Line, usize)],
) -> sqlx::query::Query<'static, Sqlite, sqlx::sqlite::SqliteArguments> {
    let mut query = sqlx::query::<Sqlite>(sql);
    for (line, group) in lines {
        // As an `Arc`, a text is copied once on its way.
        query = query
            .bind(line.at)
            .bind(Arc::<str>::from(&*line.request_id))
            .bind(numbers.of.get(*group).copied());
        query = query.bind(line.failure.as_deref()).bind(Arc::<str>::from(line.rest()));
    }
    query
}

/// A row as one JSON text, from the tables `r` and `g`.
const ENTRY: &str = "SELECT CASE WHEN r.entry LIKE '{%' THEN r.entry ELSE '[' || json_quote(r.request_id) || ',' || r.at || \
    ',' || g.entry || ',' || json_quote(coalesce(r.status, 'ok')) || ',' || r.entry || ']' END AS entry FROM ";
const WITH_GROUP: &str = " CROSS JOIN ledger_groups AS g ON g.id = r.who";

/// A page of the log, newest first. The rows are found first, and then only those of the page are put together.
pub(super) fn page<'q>(filter: &'q Filter, after: Option<&'q Cursor>, limit: u32) -> Sql<'q> {
    let mut sql = Sql::new(ENTRY);
    sql.push("(SELECT r.at AS found_at, r.request_id AS found_id FROM ");
    // Failures have an index. Otherwise the sums tell in which hours the wanted rows are, however rare they are.
    let is_named = filter.names().iter().any(|(_, name)| name.is_some());
    if is_named && filter.status.as_deref().is_none_or(|status| status == "ok") {
        push_hours_with(&mut sql, filter, after, limit);
        sql.push("CROSS JOIN ledger_rows AS r WHERE r.at >= hours.hour * 1000 AND r.at < hours.hour * 1000 + 3600000");
    } else {
        sql.push("ledger_rows AS r WHERE 1 = 1");
    }
    if let Some(since) = filter.since {
        sql.push(" AND r.at >= ").push_int(since);
    }
    if let Some(until) = filter.until {
        sql.push(" AND r.at < ").push_int(until);
    }
    if is_named {
        sql.push(" AND r.who IN (SELECT id FROM ledger_groups WHERE 1 = 1");
        filter.push_names(&mut sql);
        sql.push(")");
    }
    match filter.status.as_deref() {
        Some("ok") => sql.push(" AND r.status IS NULL"),
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

/// One request. Its id tells where it is; one that tells nothing is not of this program, and looked for everywhere.
pub(super) fn one(request_id: &str) -> Sql<'_> {
    let mut sql = Sql::new(ENTRY);
    sql.push("ledger_rows AS r").push(WITH_GROUP).push(" WHERE r.request_id = ").push_name(request_id);
    if let Some(at) = gw_wire::request_id::timestamp_millis(request_id) {
        sql.push(" AND r.at >= ").push_int(at).push(" AND r.at <= ").push_int(at.saturating_add(YOUNGER));
    }
    sql.push(" ORDER BY r.at LIMIT 1");
    sql
}

/// Forgets the rows before this time, the oldest first.
pub(super) const FORGET: &str = "DELETE FROM ledger_rows WHERE (at, request_id) IN \
    (SELECT at, request_id FROM ledger_rows WHERE at < $1 ORDER BY at, request_id LIMIT $2)";
