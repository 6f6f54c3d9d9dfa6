//! Rows into the ledger, and their sums with them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use sqlx::sqlite::SqliteConnection;
use sqlx::{Row as _, Sqlite};

use super::{Entry, HOUR, Line, Sums, Tokens, split};
use crate::db::{Change, Result, Store};
use crate::postgres::Held;
use crate::sql::without_nul;

impl Store {
    /// Writes these entries. Those that are there already stay as they are and count once.
    pub async fn record(&self, entries: &[Entry]) -> Result<()> {
        self.record_lines(&entries.iter().cloned().map(Line::new).collect::<Vec<_>>()).await
    }

    /// As [`Store::record`], for entries that were said already.
    pub async fn record_lines(&self, lines: &[Line]) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        write(self.begin().await?, lines).await.map_err(|error| self.error(&error))?;
        self.wrote(lines.len() as u64).await;
        Ok(())
    }
}

async fn write(mut change: Change<'_>, lines: &[Line]) -> sqlx::Result<()> {
    let mut sums: BTreeMap<Group<'_>, Sums> = BTreeMap::new();
    let mut rest = lines;
    while !rest.is_empty() {
        let (chunk, new) = match &mut change {
            Change::Sqlite(transaction) => {
                let (sql, count) = sqlite_insert(rest.len());
                let (chunk, after) = rest.split_at(count.min(rest.len()));
                rest = after;
                (chunk, into_sqlite(transaction, sql, chunk).await?)
            }
            Change::Postgres(held) => {
                let (chunk, after) = rest.split_at(ROWS_OF_POSTGRES.min(rest.len()));
                rest = after;
                (chunk, into_postgres(held, chunk).await?)
            }
        };
        let mut counted = HashSet::new();
        for Line { entry, .. } in chunk {
            // The same id twice in one batch is one row.
            let counts = match &new {
                New::All => true,
                New::These(ids) => ids.contains(&entry.request_id) && counted.insert(&entry.request_id),
            };
            if counts {
                let hour = entry.at.div_euclid(HOUR) * 3600;
                let team = entry.team.as_deref().unwrap_or("");
                let group = (hour, &*entry.key_id, team, &*entry.model, &*entry.provider);
                sums.entry(group).or_default().add(entry);
            }
        }
    }
    // In the order of the groups, so that two programs do not wait for each other.
    let sums: Vec<(Group<'_>, Sums)> = sums.into_iter().collect();
    match &mut change {
        Change::Sqlite(transaction) => add_up_sqlite(transaction, &sums).await?,
        Change::Postgres(held) => add_up_postgres(held, &sums).await?,
    }
    change.commit().await
}

/// Hour, key, team, model and provider.
type Group<'e> = (i64, &'e str, &'e str, &'e str, &'e str);

/// Which rows of a chunk were not there before.
enum New {
    All,
    These(HashSet<String>),
}

/// A count for a column.
fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Rows of one statement. All are one text, so that it is understood once.
const ROWS_OF_POSTGRES: usize = 1_000;

/// Rows that are left empty are not inserted: so a few texts, each understood once, are enough for any number, and
/// seldom more than one statement, which is a call to another thread.
macro_rules! insert {
    ($rows:expr) => {
        concat!(
            "INSERT INTO ledger (request_id, at, key_id, team, model, provider, status, entry) SELECT * FROM (VALUES ",
            $rows,
            ") WHERE column1 IS NOT NULL ON CONFLICT (request_id) DO NOTHING"
        )
    };
}
macro_rules! row {
    () => {
        "(?,?,?,?,?,?,?,?)"
    };
}
macro_rules! four {
    ($row:expr) => {
        concat!($row, ",", $row, ",", $row, ",", $row)
    };
}

/// A statement for so many rows or fewer, and how many it takes.
fn sqlite_insert(rows: usize) -> (&'static str, usize) {
    match rows {
        ..=1 => (insert!(row!()), 1),
        2..=16 => (insert!(four!(four!(row!()))), 16),
        17..=64 => (insert!(four!(four!(four!(row!())))), 64),
        _ => (insert!(four!(four!(four!(four!(row!()))))), 256),
    }
}

async fn into_sqlite(
    connection: &mut SqliteConnection,
    sql: &'static str,
    lines: &[Line],
) -> sqlx::Result<New> {
    let mut query = sqlx::query::<Sqlite>(sql);
    for Line { entry, json } in lines {
        query = query.bind(&*entry.request_id).bind(entry.at).bind(&*entry.key_id);
        query = query.bind(entry.team.as_deref()).bind(&*entry.model).bind(&*entry.provider);
        query = query.bind(without_nul(&entry.status)).bind(json);
    }
    let done = query.execute(&mut *connection).await?;
    if done.rows_affected() == lines.len() as u64 {
        return Ok(New::All);
    }
    if done.rows_affected() == 0 {
        return Ok(New::These(HashSet::new()));
    }
    // Row ids are counted up and nobody else writes now, so the new rows are the last ones.
    let before = done.last_insert_rowid() - i64::try_from(done.rows_affected()).unwrap_or(i64::MAX);
    let look = sqlx::query("SELECT request_id FROM ledger WHERE rowid > $1").bind(before);
    let rows = look.fetch_all(connection).await?;
    rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>().map(New::These)
}

/// Column by column, because it takes one text for any number of rows.
async fn into_postgres(held: &mut Held<'_>, lines: &[Line]) -> sqlx::Result<New> {
    const INSERT: &str = "INSERT INTO ledger (request_id, at, key_id, team, model, provider, status, entry) \
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], \
        $7::text[], $8::text[]) ON CONFLICT (request_id) DO NOTHING RETURNING request_id";
    fn texts<'l>(lines: &'l [Line], pick: fn(&Line) -> &str) -> Vec<Cow<'l, str>> {
        lines.iter().map(|line| without_nul(pick(line))).collect()
    }
    let query = sqlx::query(INSERT)
        .persistent(false)
        .bind(texts(lines, |line| &line.entry.request_id))
        .bind(lines.iter().map(|line| line.entry.at).collect::<Vec<_>>())
        .bind(texts(lines, |line| &line.entry.key_id))
        .bind(lines.iter().map(|line| line.entry.team.as_deref().map(without_nul)).collect::<Vec<_>>())
        .bind(texts(lines, |line| &line.entry.model))
        .bind(texts(lines, |line| &line.entry.provider))
        .bind(texts(lines, |line| &line.entry.status))
        .bind(lines.iter().map(|line| &*line.json).collect::<Vec<_>>());
    let (rows, _) = held.query(query).await?;
    rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>().map(New::These)
}

macro_rules! add_up {
    ($rows:expr) => {
        concat!(
            "INSERT INTO usage_hours (hour, key_id, team, model, provider, requests, failed, cache_hits, prompt_tokens, completion_tokens, cached_tokens, \
             cache_write_tokens, reasoning_tokens, cost_nano, cost_rest, saved_nano, saved_rest) ",
            $rows,
            " ON CONFLICT (hour, key_id, team, model, provider) DO UPDATE SET requests = usage_hours.requests + excluded.requests, failed = usage_hours.failed + \
             excluded.failed, cache_hits = usage_hours.cache_hits + excluded.cache_hits, prompt_tokens = \
             usage_hours.prompt_tokens + excluded.prompt_tokens, completion_tokens = \
             usage_hours.completion_tokens + excluded.completion_tokens, cached_tokens = \
             usage_hours.cached_tokens + excluded.cached_tokens, cache_write_tokens = \
             usage_hours.cache_write_tokens + excluded.cache_write_tokens, reasoning_tokens = \
             usage_hours.reasoning_tokens + excluded.reasoning_tokens, cost_nano = usage_hours.cost_nano + \
             excluded.cost_nano, cost_rest = usage_hours.cost_rest + excluded.cost_rest, saved_nano = \
             usage_hours.saved_nano + excluded.saved_nano, saved_rest = usage_hours.saved_rest + \
             excluded.saved_rest"
        )
    };
}
macro_rules! group {
    () => {
        "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    };
}

/// A statement that adds so many groups or fewer, and how many it takes.
fn sqlite_add_up(groups: usize) -> (&'static str, usize) {
    macro_rules! groups {
        ($groups:expr) => {
            add_up!(concat!("SELECT * FROM (VALUES ", $groups, ") WHERE column1 IS NOT NULL"))
        };
    }
    match groups {
        ..=1 => (groups!(group!()), 1),
        2..=16 => (groups!(four!(four!(group!()))), 16),
        17..=64 => (groups!(four!(four!(four!(group!())))), 64),
        _ => (groups!(four!(four!(four!(four!(group!()))))), 256),
    }
}

async fn add_up_sqlite(connection: &mut SqliteConnection, sums: &[(Group<'_>, Sums)]) -> sqlx::Result<()> {
    let mut rest = sums;
    while !rest.is_empty() {
        let (sql, count) = sqlite_add_up(rest.len());
        let (groups, after) = rest.split_at(count.min(rest.len()));
        rest = after;
        let mut query = sqlx::query::<Sqlite>(sql);
        for ((hour, key, team, model, provider), sums) in groups {
            query = query.bind(*hour).bind(*key).bind(*team).bind(*model).bind(*provider);
            for value in values(sums) {
                query = query.bind(value);
            }
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

async fn add_up_postgres(held: &mut Held<'_>, sums: &[(Group<'_>, Sums)]) -> sqlx::Result<()> {
    const ADD_UP: &str = add_up!(
        "SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], \
         $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], \
         $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[])"
    );
    for sums in sums.chunks(ROWS_OF_POSTGRES) {
        let texts =
            |pick: fn(&Group<'_>) -> String| sums.iter().map(|(group, _)| pick(group)).collect::<Vec<_>>();
        let mut query = sqlx::query(ADD_UP)
            .persistent(false)
            .bind(sums.iter().map(|(group, _)| group.0).collect::<Vec<_>>())
            .bind(texts(|group| group.1.to_owned()))
            .bind(texts(|group| group.2.to_owned()))
            .bind(texts(|group| group.3.to_owned()))
            .bind(texts(|group| group.4.to_owned()));
        let rows: Vec<[i64; 12]> = sums.iter().map(|(_, sums)| values(sums)).collect();
        for column in 0..12 {
            query = query.bind(rows.iter().filter_map(|row| row.get(column).copied()).collect::<Vec<_>>());
        }
        held.query(query).await?;
    }
    Ok(())
}

/// What a group adds, in the order of the columns.
fn values(sums: &Sums) -> [i64; 12] {
    let Tokens { prompt, completion, cached, cache_write, reasoning } = sums.tokens;
    let ((cost_nano, cost_rest), (saved_nano, saved_rest)) = (split(sums.cost), split(sums.saved));
    [
        int(sums.requests),
        int(sums.failed),
        int(sums.cache_hits),
        int(prompt),
        int(completion),
        int(cached),
        int(cache_write),
        int(reasoning),
        cost_nano,
        cost_rest,
        saved_nano,
        saved_rest,
    ]
}
