//! Sums by day in SQLite, so that a report over months reads a row a day instead of one an hour. PostgreSQL adds up the hours fast enough.
//!
//! `usage_rollup.until` says which days are there. A request whose day is there already was late (a killed process wrote it down, and a
//! later one found it): its sums go to its hour and to its day in one transaction.

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;

use super::known_days::{DAY, KnownDays};
use super::usage_rows::{UsageRow, add_rows_sqlite};
use super::write::sqlite_days;
use crate::db::{Result, Store, WriteTransaction};
use crate::sql::Sql;

/// The sums of a table of hours, in the order of `usage_days`.
const SUMS: &str = "sum(requests), sum(failed), sum(cache_hits), sum(prompt_tokens), sum(completion_tokens), sum(cached_tokens), \
    sum(cache_write_tokens), sum(reasoning_tokens), sum(cost_nano), sum(cost_rest), sum(saved_nano), sum(saved_rest), sum(unpriced)";

impl Store {
    /// Whether the store has sums by day.
    pub(super) fn has_days(&self) -> bool {
        !self.is_postgres()
    }

    /// Adds up the days that ended before `before` (unix seconds), each in a transaction of its own. Returns their number.
    pub async fn roll_up(&self, before: i64) -> Result<u64> {
        let mut days = 0;
        if !self.has_days() {
            return Ok(days);
        }
        while self.roll_up_next(before).await? {
            days += 1;
        }
        Ok(days)
    }

    /// Adds up the next day that has requests. False: it is not over, or there is none.
    async fn roll_up_next(&self, before: i64) -> Result<bool> {
        let failed = |error: sqlx::Error| self.error(&error);
        let mut change = self.begin().await?;
        let WriteTransaction::Sqlite(transaction) = &mut change else { return Ok(false) };
        let until = read_until(transaction).await.map_err(failed)?;
        self.days.set(until);
        let next: Option<i64> = sqlx::query("SELECT min(hour) FROM usage_hours WHERE hour >= $1")
            .bind(until)
            .fetch_one(&mut **transaction)
            .await
            .and_then(|row| row.try_get(0))
            .map_err(failed)?;
        let Some(day) = next.map(|hour| hour.div_euclid(DAY) * DAY).filter(|day| day + DAY <= before) else {
            return Ok(false);
        };
        add_day(transaction, day).await.map_err(failed)?;
        change.commit().await.map_err(failed)?;
        self.days.set(day + DAY);
        Ok(true)
    }
}

async fn read_until(connection: &mut SqliteConnection) -> sqlx::Result<i64> {
    sqlx::query("SELECT until FROM usage_rollup").fetch_one(connection).await?.try_get(0)
}

/// Adds up a day. Its surfaces are known only while the sums by session are complete. These are deleted together with the rows of the log.
async fn add_day(connection: &mut SqliteConnection, day: i64) -> sqlx::Result<()> {
    const COUNT: &str = "SELECT (SELECT coalesce(sum(requests), 0) FROM usage_hours WHERE hour >= $1 AND hour < $2) = \
        (SELECT coalesce(sum(requests), 0) FROM usage_sessions WHERE hour >= $1 AND hour < $2)";
    let end = day + DAY;
    let is_whole: bool =
        sqlx::query(COUNT).bind(day).bind(end).fetch_one(&mut *connection).await?.try_get(0)?;
    let (surface, table) = if is_whole { ("surface", "usage_sessions") } else { ("''", "usage_hours") };
    let mut sql = Sql::new("INSERT INTO usage_days SELECT ");
    sql.push_int(day).push(", ").push(surface).push(", key_id, team, model, provider, ").push(SUMS);
    sql.push(" FROM ").push(table).push(" WHERE hour >= ").push_int(day).push(" AND hour < ").push_int(end);
    sql.push(" GROUP BY 2, 3, 4, 5, 6");
    sql.for_sqlite().execute(&mut *connection).await?;
    sqlx::query("UPDATE usage_rollup SET until = $1").bind(end).execute(connection).await.map(drop)
}

/// Adds the sums of late requests to the days that are there already. `sums` are by session and surface, the oldest first.
pub(super) async fn add_late(
    connection: &mut SqliteConnection,
    known: &KnownDays,
    sums: &[UsageRow<'_, 6>],
) -> sqlx::Result<()> {
    if !sums.first().is_some_and(|oldest| known.may_have(oldest.hour)) {
        return Ok(());
    }
    let until = read_until(connection).await?;
    known.set(until);
    let late = sums.iter().filter(|row| row.hour < until).map(|row| {
        let [_, surface, key_id, team, model, provider] = row.names;
        let hour = row.hour.div_euclid(DAY) * DAY;
        UsageRow { hour, names: [surface, key_id, team, model, provider], counts: row.counts }
    });
    // Each row has its own statement, because two rows of the same day cannot be in one upsert.
    for row in late {
        add_rows_sqlite(connection, &[row], sqlite_days).await?;
    }
    Ok(())
}
