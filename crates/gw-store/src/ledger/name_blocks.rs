//! Sums by name of hours and days that are over, packed into few rows, so that a report about any span reads a million names at once.
//!
//! An hour is closed some minutes after its end. From then on its requests are late: beside their usual sums they write a row of
//! `usage_name_late`. A task adds up the closed hours one after the other, and each day that has all its hours. It adds late rows to the
//! blocks that are there, and deletes them. A report sees one moment: the blocks, the late rows, and the sums by combination of the
//! hours that have no block yet.

mod codec;
mod hours;
mod late;
mod named;
mod ranking;
mod report;
mod roll_up;

use tokio::task::JoinHandle;

use super::known_days::DAY;
use crate::db::WriteTransaction;
use crate::sql::Sql;

pub(super) use late::{add_postgres, add_sqlite};

/// The names of a part of a block. A report has one part after the other in memory.
const PART_NAMES: usize = 65_536;
/// The seconds of an hour.
const HOUR: i64 = 3_600;
/// The seconds of eight days.
const WEEK: i64 = 8 * DAY;
/// The kind of the sums of all requests with tags, each once.
const TAGGED: &str = "tagged";
/// The number that writers share and that closes hours alone in PostgreSQL: no transaction that took an hour for open is left when the
/// hour is closed.
const CLOSING: i64 = 0x6777_6e62;

/// How long the time of a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Hour,
    Day,
    /// Eight days. Reports read only the costs of names from it, so it has no totals.
    Week,
}

impl Level {
    const fn number(self) -> i64 {
        match self {
            Self::Hour => 0,
            Self::Day => 1,
            Self::Week => 2,
        }
    }
}

/// How far the blocks reach, in unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Progress {
    /// Blocks and late rows have everything from here on.
    first: i64,
    /// The requests of earlier hours are late.
    closed: i64,
    /// The end of the hours that have blocks.
    until: i64,
    /// The end of the days that have blocks.
    days_until: i64,
    /// The first eight days that have all their days.
    weeks_from: i64,
    /// The end of the eight days that have blocks.
    weeks_until: i64,
}

impl Progress {
    /// Reads it. `is_locked`: no other process changes it until the end of the transaction.
    async fn read(change: &mut WriteTransaction<'_>, is_locked: bool) -> sqlx::Result<Self> {
        let mut sql = Sql::new(
            "SELECT first, closed, until, days_until, weeks_from, weeks_until FROM usage_name_progress",
        );
        if is_locked && matches!(change, WriteTransaction::Postgres(_)) {
            sql.push(" FOR UPDATE");
        }
        let rows = change.all(sql).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        Ok(Self {
            first: row.get("first")?,
            closed: row.get("closed")?,
            until: row.get("until")?,
            days_until: row.get("days_until")?,
            weeks_from: row.get("weeks_from")?,
            weeks_until: row.get("weeks_until")?,
        })
    }
}

/// The first second of the day of an hour.
fn day_of(hour: i64) -> i64 {
    hour.div_euclid(DAY) * DAY
}

/// The first second of the eight days of an hour.
fn week_of(hour: i64) -> i64 {
    hour.div_euclid(WEEK) * WEEK
}

/// The first second of eight days that begin at this time or later.
fn week_from(time: i64) -> i64 {
    week_of(time.saturating_add(WEEK - 1))
}

/// The number of the part that has this name, and the number of the name in it.
fn place_of(id: i64) -> (i64, u16) {
    let part = id.div_euclid(PART_NAMES as i64);
    (part, u16::try_from(id.rem_euclid(PART_NAMES as i64)).unwrap_or(u16::MAX))
}

/// The error of a block that cannot be read.
fn damaged() -> sqlx::Error {
    sqlx::Error::Protocol("the sums by name of a past hour are damaged".to_owned())
}

/// Waits for work on blocks. An error: a block is damaged.
async fn finished<T>(running: JoinHandle<Option<T>>) -> sqlx::Result<T> {
    running.await.ok().flatten().ok_or_else(damaged)
}

#[cfg(test)]
mod tests;
