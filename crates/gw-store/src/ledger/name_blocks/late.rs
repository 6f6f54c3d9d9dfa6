//! Requests that come after their hour was closed.

use std::collections::BTreeMap;

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;

use super::codec::{Entries, Packed};
use super::named::{Batch, add_total, get_part, put_part};
use super::{Level, Progress, damaged, day_of, week_of};
use crate::db::{Result, Store, WriteTransaction};
use crate::ledger::source::COUNTERS;
use crate::ledger::usage_rows::{UsageRow, add_rows_postgres, add_rows_sqlite};
use crate::postgres::PooledConnection;
use crate::sql::{Row, Sql};

/// The late rows that one transaction adds to their blocks.
const ADDED_AT_ONCE: i64 = 2_000;

macro_rules! insert {
    ($rows:literal) => {
        concat!(
            "INSERT INTO usage_name_late (hour, names, requests, failed, cache_hits, prompt_tokens, completion_tokens, \
             cached_tokens, cache_write_tokens, reasoning_tokens, cost_nano, cost_rest, saved_nano, saved_rest, unpriced) ",
            $rows
        )
    };
}

fn sqlite_late(_: usize) -> (&'static str, usize) {
    (insert!("VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"), 1)
}

const POSTGRES_LATE: &str = insert!(
    "SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[])"
);

/// Notes sums of closed hours as late. `rows_before` has the rows of the hours before a time.
pub(in crate::ledger) async fn add_sqlite<'e>(
    connection: &mut SqliteConnection,
    rows_before: impl Fn(i64) -> Vec<UsageRow<'e, 1>>,
) -> sqlx::Result<()> {
    let closed = sqlx::query("SELECT closed FROM usage_name_progress").fetch_one(&mut *connection).await?;
    add_rows_sqlite(connection, &rows_before(closed.try_get(0)?), sqlite_late).await
}

/// As [`add_sqlite`], for PostgreSQL.
pub(in crate::ledger) async fn add_postgres<'e>(
    held: &mut PooledConnection<'_>,
    rows_before: impl Fn(i64) -> Vec<UsageRow<'e, 1>>,
) -> sqlx::Result<()> {
    // The second statement begins when the lock is there, so it sees the hours that were closed before.
    let look = "SELECT pg_advisory_xact_lock_shared(1735880290); SELECT closed FROM usage_name_progress";
    let (rows, _) = held.query(sqlx::raw_sql(look)).await?;
    let closed: i64 = rows.last().ok_or(sqlx::Error::RowNotFound)?.try_get("closed")?;
    add_rows_postgres(held, &rows_before(closed), POSTGRES_LATE).await
}

impl Store {
    /// Adds some late rows to the blocks of their hours and days. False: there are none.
    pub(super) async fn add_late_names(&self) -> Result<bool> {
        let failed = |error: sqlx::Error| self.error(&error);
        let mut looking = self.begin_snapshot().await?;
        let progress = Progress::read(&mut looking, false).await.map_err(failed)?;
        let rows = late_rows(&mut looking, progress.until).await.map_err(failed)?;
        looking.rollback().await.map_err(failed)?;
        if rows.is_empty() {
            return Ok(false);
        }
        let mut batch = Batch::default();
        for row in &rows {
            batch.add(row, None).map_err(failed)?;
        }
        self.number_names(&batch).await?;
        let mut change = self.begin().await?;
        let is_done = add_rows(&mut change).await.map_err(failed)?;
        if is_done {
            change.commit().await.map_err(failed)?;
        } else {
            change.rollback().await.map_err(failed)?;
        }
        Ok(is_done)
    }
}

/// Late rows of hours that have blocks.
async fn late_rows(change: &mut WriteTransaction<'_>, until: i64) -> sqlx::Result<Vec<Row>> {
    let mut sql = Sql::new("SELECT id, hour, names, ");
    sql.push(COUNTERS).push(" FROM usage_name_late WHERE hour < ").push_int(until);
    sql.push(" ORDER BY id LIMIT ").push_int(ADDED_AT_ONCE);
    change.all(sql).await
}

/// Adds late rows to the blocks. False: another one came meanwhile, whose names have no numbers.
async fn add_rows(change: &mut WriteTransaction<'_>) -> sqlx::Result<bool> {
    let progress = Progress::read(change, true).await?;
    let rows = late_rows(change, progress.until).await?;
    let mut blocks: BTreeMap<(Level, i64), Batch> = BTreeMap::new();
    let mut ids: Vec<i64> = Vec::with_capacity(rows.len());
    for row in &rows {
        let hour: i64 = row.get("hour")?;
        ids.push(row.get("id")?);
        blocks.entry((Level::Hour, hour)).or_default().add(row, None)?;
        if hour < progress.days_until {
            blocks.entry((Level::Day, day_of(hour))).or_default().add(row, None)?;
        }
        if (progress.weeks_from..progress.weeks_until).contains(&hour) {
            blocks.entry((Level::Week, week_of(hour))).or_default().add(row, None)?;
        }
    }
    for (block, batch) in &blocks {
        let Some(placed) = batch.placed(change).await? else { return Ok(false) };
        for ((kind, part), entries) in &placed {
            let found = get_part(change, *block, (kind, *part)).await?;
            let packed = joined(&found, entries, block.0).ok_or_else(damaged)?;
            put_part(change, *block, (kind, *part), &packed).await?;
        }
        for (kind, sums) in batch.totals.iter().filter(|_| block.0 != Level::Week) {
            add_total(change, *block, kind, sums).await?;
        }
    }
    forget(change, &ids).await?;
    Ok(true)
}

/// A part with further sums. None: it is damaged.
pub(super) fn joined(packed: &Packed, more: &Entries, level: Level) -> Option<Packed> {
    let mut entries = packed.entries()?;
    for (number, sums) in more {
        entries.entry(*number).or_default().join(sums);
    }
    Some(match level {
        Level::Hour => Packed::whole(&entries),
        Level::Day | Level::Week => {
            Packed::costs_of(entries.iter().map(|(number, sums)| (*number, sums.cost)))
        }
    })
}

/// Deletes late rows that are in their blocks.
pub(super) async fn forget(change: &mut WriteTransaction<'_>, ids: &[i64]) -> sqlx::Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let list = serde_json::to_string(ids).unwrap_or_default();
    let sql = Sql::new(if matches!(change, WriteTransaction::Postgres(_)) {
        "DELETE FROM usage_name_late WHERE id = ANY(ARRAY(SELECT CAST(json_array_elements_text(CAST($1 AS json)) AS BIGINT)))"
    } else {
        "DELETE FROM usage_name_late WHERE id IN (SELECT value FROM json_each($1))"
    });
    change.run(sql.owned(Some(list))).await.map(drop)
}
