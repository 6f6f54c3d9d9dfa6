//! The task that adds up the hours and days that are over, and the end of blocks that are too old.

use std::collections::BTreeMap;

use super::codec::{Entries, Packed};
use super::finished;
use super::late::{forget, joined};
use super::named::{Batch, add_total, put_part};
use super::ranking::PartCosts;
use super::{CLOSING, HOUR, Level, PART_NAMES, Progress, WEEK, day_of, week_from, week_of};
use crate::db::{Result, Store, WriteTransaction};
use crate::ledger::Sums;
use crate::ledger::known_days::DAY;
use crate::ledger::read::SUMS;
use crate::ledger::source::COUNTERS;
use crate::sql::{Row, Sql};

/// The sums of combinations that are read at once.
const READ_AT_ONCE: i64 = 10_000;
/// How often an hour is read anew because a late request brought a new name.
const ATTEMPTS: usize = 4;
/// The bytes of a row besides its packed sums.
const ROW_BYTES: usize = 200;

/// The parts of a block by kind and number.
type Parts = BTreeMap<(String, i64), Packed>;

/// A block of an hour that is not written yet.
#[derive(Default)]
struct HourBlock {
    parts: Parts,
    totals: BTreeMap<String, Sums>,
    /// The late rows that are in it.
    late: Vec<i64>,
}

impl Store {
    /// Closes the hours that ended before `before` (unix seconds), adds them and their days up by name, each in a transaction of its own,
    /// and adds late requests to theirs. Returns the number of hours.
    pub async fn roll_up_names(&self, before: i64) -> Result<u64> {
        self.close_hours(before.div_euclid(HOUR) * HOUR).await?;
        let mut hours = 0;
        while self.roll_up_next_names().await? {
            hours += 1;
            while self.roll_up_day_of_names().await? {}
        }
        while self.roll_up_week_of_names().await? {}
        while self.add_late_names().await? {}
        Ok(hours)
    }

    async fn close_hours(&self, closed: i64) -> Result<()> {
        let failed = |error: sqlx::Error| self.error(&error);
        let mut change = self.begin().await?;
        if Progress::read(&mut change, true).await.map_err(failed)?.closed >= closed {
            return change.rollback().await.map_err(failed);
        }
        if self.is_postgres() {
            let mut lock = Sql::new("SELECT CAST(pg_advisory_xact_lock(");
            lock.push_int(CLOSING).push(") AS TEXT)");
            change.all(lock).await.map_err(failed)?;
        }
        let sql = Sql::new("UPDATE usage_name_progress SET closed = $1");
        change.run(sql.int(closed)).await.map_err(failed)?;
        change.commit().await.map_err(failed)
    }

    /// Adds up the next closed hour. False: there is none, or another process did it.
    async fn roll_up_next_names(&self) -> Result<bool> {
        let failed = |error: sqlx::Error| self.error(&error);
        let mut looking = self.begin_snapshot().await?;
        let progress = Progress::read(&mut looking, false).await.map_err(failed)?;
        let next = next_hour(&mut looking, &progress).await.map_err(failed)?;
        looking.rollback().await.map_err(failed)?;
        let Some(hour) = next else {
            // An hour without requests has no block. If late ones come, they stay late.
            let sql =
                Sql::new("UPDATE usage_name_progress SET until = closed WHERE until = $1 AND closed = $2");
            if progress.until < progress.closed {
                self.run(sql.int(progress.until).int(progress.closed)).await?;
                while self.roll_up_day_of_names().await? {}
            }
            return Ok(false);
        };
        for _ in 0..ATTEMPTS {
            self.number_names_of(hour).await?;
            let mut reading = self.begin_snapshot().await?;
            let block = read_hour(&mut reading, hour).await.map_err(failed)?;
            reading.rollback().await.map_err(failed)?;
            let Some(block) = block else { continue };
            return self.write_hour(hour, &progress, &block).await;
        }
        Ok(false)
    }

    /// Gives numbers to the names of an hour, before its sums are read at one moment.
    async fn number_names_of(&self, hour: i64) -> Result<()> {
        let failed = |error: sqlx::Error| self.error(&error);
        let mut after = String::new();
        loop {
            let mut looking = self.begin_snapshot().await?;
            let rows = combinations(&mut looking, hour, &after).await.map_err(failed)?;
            looking.rollback().await.map_err(failed)?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.get("digest").map_err(failed)?;
            self.number_names(&added_up(rows).await.map_err(failed)?).await?;
        }
    }

    async fn write_hour(&self, hour: i64, before: &Progress, block: &HourBlock) -> Result<bool> {
        let failed = |error: sqlx::Error| self.error(&error);
        let bytes: usize =
            block.parts.values().map(|part| part.costs.len() + part.counts.len() + ROW_BYTES).sum();
        let mut change = self.begin_large(bytes as u64).await?;
        if Progress::read(&mut change, true).await.map_err(failed)?.until != before.until {
            change.rollback().await.map_err(failed)?;
            return Ok(false);
        }
        let written = async {
            for ((kind, part), packed) in &block.parts {
                put_part(&mut change, (Level::Hour, hour), (kind, *part), packed).await?;
            }
            for (kind, sums) in &block.totals {
                add_total(&mut change, (Level::Hour, hour), kind, sums).await?;
            }
            forget(&mut change, &block.late).await?;
            let sql = Sql::new("UPDATE usage_name_progress SET until = $1");
            change.run(sql.int(hour + HOUR)).await?;
            change.commit().await
        };
        written.await.map_err(failed)?;
        self.wrote(bytes).await;
        Ok(true)
    }

    /// Adds up the next day that has all its hours. False: there is none.
    async fn roll_up_day_of_names(&self) -> Result<bool> {
        let failed = |error: sqlx::Error| self.error(&error);
        let mut change = self.begin().await?;
        let progress = Progress::read(&mut change, true).await.map_err(failed)?;
        let end = day_of(progress.until);
        if progress.days_until >= end {
            change.rollback().await.map_err(failed)?;
            return Ok(false);
        }
        let next = Sql::new(
            "SELECT min(start) AS start FROM usage_name_block_sums WHERE level = 0 AND start >= $1 AND start < $2",
        );
        let written = async {
            let rows = change.all(next.int(progress.days_until).int(end)).await?;
            let start = rows.first().map(|row| row.get::<Option<i64>>("start")).transpose()?.flatten();
            let days_until = match start.map(day_of) {
                Some(day) => {
                    add_days(&mut change, (Level::Day, day), (Level::Hour, day + DAY)).await?;
                    add_day_total(&mut change, day).await?;
                    day + DAY
                }
                None => end,
            };
            let sql = Sql::new("UPDATE usage_name_progress SET days_until = $1");
            change.run(sql.int(days_until)).await?;
            change.commit().await
        };
        written.await.map_err(failed)?;
        Ok(true)
    }

    /// Adds up the next eight days that have all their days. False: there are none.
    async fn roll_up_week_of_names(&self) -> Result<bool> {
        let failed = |error: sqlx::Error| self.error(&error);
        let mut change = self.begin().await?;
        let progress = Progress::read(&mut change, true).await.map_err(failed)?;
        let (from, end) = (progress.weeks_until.max(progress.weeks_from), week_of(progress.days_until));
        if from >= end {
            change.rollback().await.map_err(failed)?;
            return Ok(false);
        }
        let next = Sql::new(
            "SELECT min(start) AS start FROM usage_name_block_sums WHERE level = 1 AND start >= $1 AND start < $2",
        );
        let written = async {
            let rows = change.all(next.int(from).int(end)).await?;
            let start = rows.first().map(|row| row.get::<Option<i64>>("start")).transpose()?.flatten();
            let weeks_until = match start.map(week_of) {
                Some(week) => {
                    add_days(&mut change, (Level::Week, week), (Level::Day, week + WEEK)).await?;
                    week + WEEK
                }
                None => end,
            };
            let sql = Sql::new("UPDATE usage_name_progress SET weeks_until = $1");
            change.run(sql.int(weeks_until)).await?;
            change.commit().await
        };
        written.await.map_err(failed)?;
        Ok(true)
    }

    /// Deletes the blocks of hours and days that ended before this time (unix milliseconds). Returns whether a day went.
    pub(in crate::ledger) async fn purge_name_blocks(&self, before: i64) -> Result<bool> {
        let failed = |error: sqlx::Error| self.error(&error);
        let before = before.div_euclid(1_000);
        let mut change = self.begin().await?;
        let purged = async {
            Progress::read(&mut change, true).await?;
            let mut days = 0;
            for (level, length) in [(Level::Hour, HOUR), (Level::Day, DAY)] {
                for delete in [
                    "DELETE FROM usage_name_blocks WHERE level = $1 AND start <= $2",
                    "DELETE FROM usage_name_block_sums WHERE level = $1 AND start <= $2",
                ] {
                    let sql = Sql::new(delete).int(level.number()).int(before.saturating_sub(length));
                    days = change.run(sql).await?;
                }
            }
            // Eight days that lose one are read day by day.
            let sql = Sql::new("DELETE FROM usage_name_blocks WHERE level = 2 AND start < $1");
            change.run(sql.int(day_of(before))).await?;
            let sql = Sql::new("UPDATE usage_name_progress SET weeks_from = $1 WHERE weeks_from < $1");
            change.run(sql.int(week_from(day_of(before)))).await?;
            // Late rows of a day that is deleted have no block any more.
            let sql = Sql::new("DELETE FROM usage_name_late WHERE hour < $1");
            change.run(sql.int(day_of(before))).await?;
            let sql = Sql::new("UPDATE usage_name_progress SET first = 0 WHERE first <= $1");
            change.run(sql.int(day_of(before))).await?;
            // Hours that went before they had a block are missing in the block of their day.
            let sql = Sql::new("UPDATE usage_name_progress SET first = $1 WHERE days_until < $2");
            change.run(sql.int(day_of(before) + DAY).int(day_of(before))).await?;
            change.commit().await?;
            Ok(days > 0)
        };
        purged.await.map_err(failed)
    }

    /// Deletes the numbers of names that no sums have any more.
    pub(in crate::ledger) async fn purge_name_ids(&self) -> Result<()> {
        let mut after = Some(i64::MIN);
        while let Some(first) = after {
            let mut end = Sql::new("SELECT id FROM usage_name_ids WHERE id > ");
            end.push_int(first).push(" ORDER BY id LIMIT 1 OFFSET ").push_int(READ_AT_ONCE);
            let end = self.first(end, |row| row.get::<i64>("id")).await?;
            let mut sql = Sql::new("DELETE FROM usage_name_ids WHERE id > ");
            sql.push_int(first).push(" AND id <= ").push_int(end.unwrap_or(i64::MAX));
            sql.push(" AND NOT EXISTS (SELECT 1 FROM usage_names AS n WHERE n.kind = usage_name_ids.kind AND n.name = usage_name_ids.name)");
            self.run(sql).await?;
            after = end;
        }
        Ok(())
    }
}

/// The next closed hour that has requests with names.
async fn next_hour(change: &mut WriteTransaction<'_>, progress: &Progress) -> sqlx::Result<Option<i64>> {
    let next = Sql::new("SELECT min(hour) AS hour FROM usage_attributions WHERE hour >= $1 AND hour < $2");
    let rows = change.all(next.int(progress.until).int(progress.closed)).await?;
    rows.first().map_or(Ok(None), |row| row.get("hour"))
}

/// Sums of combinations of an hour, in the order of their digests.
async fn combinations(change: &mut WriteTransaction<'_>, hour: i64, after: &str) -> sqlx::Result<Vec<Row>> {
    let mut sql = Sql::new("SELECT digest, names, ");
    sql.push(COUNTERS).push(" FROM usage_attributions WHERE hour = ").push_int(hour);
    sql.push(" AND digest > ").push_text(after);
    sql.push(" ORDER BY digest LIMIT ").push_int(READ_AT_ONCE);
    change.all(sql).await
}

/// Adds up an hour. None: a name has no number.
async fn read_hour(change: &mut WriteTransaction<'_>, hour: i64) -> sqlx::Result<Option<HourBlock>> {
    let mut block = HourBlock::default();
    let late = Sql::new("SELECT id FROM usage_name_late WHERE hour = $1").int(hour);
    for row in change.all(late).await? {
        block.late.push(row.get("id")?);
    }
    let mut after = String::new();
    loop {
        let rows = combinations(change, hour, &after).await?;
        let Some(last) = rows.last() else { return Ok(Some(block)) };
        after = last.get("digest")?;
        let batch = added_up(rows).await?;
        let Some(placed) = batch.placed(change).await? else { return Ok(None) };
        let parts = std::mem::take(&mut block.parts);
        block.parts = finished(tokio::task::spawn_blocking(move || with_entries(parts, placed))).await?;
        for (kind, sums) in batch.totals {
            block.totals.entry(kind).or_default().join(&sums);
        }
    }
}

/// Adds up rows beside the tasks that must not wait for it.
async fn added_up(rows: Vec<Row>) -> sqlx::Result<Batch> {
    let adding = tokio::task::spawn_blocking(move || {
        let mut batch = Batch::default();
        rows.iter().try_for_each(|row| batch.add(row, None)).ok().map(|()| batch)
    });
    finished(adding).await
}

/// Parts with further sums. None: one is damaged.
fn with_entries(mut parts: Parts, placed: BTreeMap<(String, i64), Entries>) -> Option<Parts> {
    for (place, entries) in placed {
        let packed = parts.entry(place).or_default();
        *packed = joined(packed, &entries, Level::Hour)?;
    }
    Some(parts)
}

/// Adds up the costs of days or eight days from the blocks of the lower level that begin before `end`.
async fn add_days(
    change: &mut WriteTransaction<'_>,
    (level, start): (Level, i64),
    (lower, end): (Level, i64),
) -> sqlx::Result<()> {
    let parts = Sql::new(
        "SELECT DISTINCT kind, part FROM usage_name_blocks WHERE level = $1 AND start >= $2 AND start < $3",
    );
    for row in change.all(parts.int(lower.number()).int(start).int(end)).await? {
        let (kind, part): (String, i64) = (row.get("kind")?, row.get("part")?);
        let blocks = Sql::new(
            "SELECT costs FROM usage_name_blocks WHERE level = $1 AND start >= $2 AND start < $3 AND kind = $4 AND part = $5",
        );
        let blocks = blocks.int(lower.number()).int(start).int(end).text(&*kind).int(part);
        let blocks = change.all(blocks).await?;
        let blocks: Vec<Vec<u8>> =
            blocks.iter().map(|block| block.get("costs")).collect::<sqlx::Result<_>>()?;
        let adding = tokio::task::spawn_blocking(move || {
            let mut costs = PartCosts::new(part * PART_NAMES as i64);
            blocks.iter().try_for_each(|block| costs.add_packed(block))?;
            Some(Packed::costs_of(costs.all()))
        });
        put_part(change, (level, start), (&kind, part), &finished(adding).await?).await?;
    }
    Ok(())
}

/// Adds up the sums over all names of a day.
async fn add_day_total(change: &mut WriteTransaction<'_>, day: i64) -> sqlx::Result<()> {
    let mut sql = Sql::new("INSERT INTO usage_name_block_sums SELECT 1, ");
    sql.push_int(day)
        .push(", kind, ")
        .push(SUMS)
        .push(" FROM usage_name_block_sums WHERE level = 0 AND start >= ");
    sql.push_int(day).push(" AND start < ").push_int(day + DAY).push(" GROUP BY kind");
    change.run(sql).await.map(drop)
}
