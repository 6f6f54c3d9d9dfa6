//! Rows into the ledger, and their sums with them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use sqlx::sqlite::SqliteConnection;
use sqlx::{Row as _, Sqlite};

use super::{Entry, HOUR, Line, Sums, Tokens, split};
use crate::db::{Change, Result, Store};
use crate::postgres::Held;
use crate::sql::{Sql, without_nul};

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
        write(self.begin().await?, lines).await.map_err(|error| self.error(&error))
    }
}

async fn write(mut change: Change<'_>, lines: &[Line]) -> sqlx::Result<()> {
    let mut sums: BTreeMap<(i64, &str, &str, &str, &str), Sums> = BTreeMap::new();
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
    for (group, sums) in &sums {
        change.run(add_up(*group, sums)).await?;
    }
    change.commit().await
}

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

macro_rules! insert {
    ($rows:expr) => {
        concat!(
            "INSERT INTO ledger (request_id, at, key_id, team, model, provider, status, entry) VALUES ",
            $rows,
            " ON CONFLICT (request_id) DO NOTHING"
        )
    };
}
macro_rules! row {
    () => {
        "(?,?,?,?,?,?,?,?)"
    };
}
macro_rules! eight {
    ($row:expr) => {
        concat!($row, ",", $row, ",", $row, ",", $row, ",", $row, ",", $row, ",", $row, ",", $row)
    };
}

/// A statement for so many rows or fewer, and how many it takes.
fn sqlite_insert(rows: usize) -> (&'static str, usize) {
    match rows {
        64.. => (insert!(eight!(eight!(row!()))), 64),
        8.. => (insert!(eight!(row!())), 8),
        _ => (insert!(row!()), 1),
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

const ADD_UP: &str = "INSERT INTO usage_hours (hour, key_id, team, model, provider, requests, failed, cache_hits, \
    prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, cost_nano, \
    cost_rest, saved_nano, saved_rest) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
    $14, $15, $16, $17) ON CONFLICT (hour, key_id, team, model, provider) DO UPDATE SET requests = \
    usage_hours.requests + excluded.requests, failed = usage_hours.failed + excluded.failed, cache_hits \
    = usage_hours.cache_hits + excluded.cache_hits, prompt_tokens = usage_hours.prompt_tokens + \
    excluded.prompt_tokens, completion_tokens = usage_hours.completion_tokens + \
    excluded.completion_tokens, cached_tokens = usage_hours.cached_tokens + excluded.cached_tokens, \
    cache_write_tokens = usage_hours.cache_write_tokens + excluded.cache_write_tokens, reasoning_tokens \
    = usage_hours.reasoning_tokens + excluded.reasoning_tokens, cost_nano = usage_hours.cost_nano + \
    excluded.cost_nano, cost_rest = usage_hours.cost_rest + excluded.cost_rest, saved_nano = \
    usage_hours.saved_nano + excluded.saved_nano, saved_rest = usage_hours.saved_rest + \
    excluded.saved_rest";

fn add_up<'q>(
    (hour, key, team, model, provider): (i64, &'q str, &'q str, &'q str, &'q str),
    sums: &Sums,
) -> Sql<'q> {
    let Tokens { prompt, completion, cached, cache_write, reasoning } = sums.tokens;
    let counts =
        [sums.requests, sums.failed, sums.cache_hits, prompt, completion, cached, cache_write, reasoning];
    let ((cost_nano, cost_rest), (saved_nano, saved_rest)) = (split(sums.cost), split(sums.saved));
    let mut sql = Sql::new(ADD_UP).int(hour).text(key).text(team).text(model).text(provider);
    for count in counts {
        sql = sql.int(int(count));
    }
    sql.int(cost_nano).int(cost_rest).int(saved_nano).int(saved_rest)
}
