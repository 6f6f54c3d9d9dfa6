//! Writes rows to the ledger together with their sums.

use std::borrow::Cow;
use std::collections::hash_map::Entry as Place;
use std::collections::{BTreeMap, HashMap, HashSet};

use sqlx::Row as _;

use super::attribution::{self, AttributedSums};
use super::days;
use super::line::{Line, Names};
use super::rare_sums::add::add_up as add_rare;
use super::sqlite::{self, Numbers, four};
use super::trim::{LogSizes, ROW_OVERHEAD_BYTES, add_sizes, count_bytes};
use super::usage_rows::{POSTGRES_ROWS, UsageRow, add_rows_postgres, add_rows_sqlite, counts};
use super::{Entry, HOUR_MS, Sums, units};
use crate::db::{Result, Store, WriteTransaction};
use crate::postgres::PooledConnection;
use crate::sql::without_nul;

impl Store {
    /// Writes these entries. Existing entries stay unchanged and are not counted again.
    pub async fn record(&self, entries: &[Entry]) -> Result<()> {
        self.record_lines(&entries.iter().cloned().map(Line::new).collect::<Vec<_>>()).await
    }

    /// As [`Store::record`], for encoded entries.
    pub async fn record_lines(&self, lines: &[Line]) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        // Nearly always all rows are new. Only otherwise is it worth asking which ones are.
        if write(self, lines, false).await?.is_none() {
            write(self, lines, true).await?;
        }
        self.wrote(lines.iter().map(|line| line.rest().len() + ROW_OVERHEAD_BYTES).sum()).await;
        Ok(())
    }
}

/// Writes lines and their sums; `None` if some rows existed and the write must be repeated with `is_careful`.
async fn write(store: &Store, lines: &[Line], is_careful: bool) -> Result<Option<()>> {
    let failed = |error: sqlx::Error| store.error(&error);
    let (groups, placed) = grouped(lines).map_err(failed)?;
    let mut change = store.begin().await?;
    let mut numbers = None;
    let is_new = match &mut change {
        WriteTransaction::Sqlite(transaction) => {
            let found = Numbers::find(transaction, &store.groups, &groups).await.map_err(failed)?;
            let is_new = if is_careful {
                sqlite::insert_some(transaction, &found, &placed).await.map_err(failed)?
            } else if sqlite::insert(transaction, &found, &placed).await.map_err(failed)? {
                vec![true; lines.len()]
            } else {
                change.rollback().await.map_err(failed)?;
                return Ok(None);
            };
            numbers = Some(found);
            is_new
        }
        WriteTransaction::Postgres(held) => into_postgres(held, &groups, &placed).await.map_err(failed)?,
    };
    let counted: Vec<_> =
        placed.iter().zip(is_new).filter(|(_, is_new)| *is_new).map(|(placed, _)| *placed).collect();
    units::add_up(&mut change, &groups, counted.iter().copied()).await.map_err(failed)?;
    add_rare(&mut change, &groups, counted.iter().copied()).await.map_err(failed)?;
    let mut sizes = LogSizes::new();
    let is_postgres = store.is_postgres();
    for (line, _) in &counted {
        let text = if is_postgres { line.json() } else { line.rest() };
        count_bytes(&mut sizes, line.at, text.len() + ROW_OVERHEAD_BYTES);
    }
    // Sorted by group, so that two processes do not deadlock.
    let (by_hour, by_session, attributed) = added_up(&groups, counted.into_iter());
    match &mut change {
        WriteTransaction::Sqlite(transaction) => {
            add_rows_sqlite(transaction, &by_hour, sqlite_hours).await.map_err(failed)?;
            add_rows_sqlite(transaction, &by_session, sqlite_sessions).await.map_err(failed)?;
            days::add_late(transaction, &store.days, &by_session).await.map_err(failed)?;
            attribution::add_up_sqlite(transaction, &attributed).await.map_err(failed)?;
        }
        WriteTransaction::Postgres(held) => {
            add_rows_postgres(held, &by_hour, POSTGRES_HOURS).await.map_err(failed)?;
            add_rows_postgres(held, &by_session, POSTGRES_SESSIONS).await.map_err(failed)?;
            attribution::add_up_postgres(held, &attributed).await.map_err(failed)?;
        }
    }
    add_sizes(&mut change, &sizes).await.map_err(failed)?;
    change.commit().await.map_err(failed)?;
    if let Some(numbers) = numbers {
        numbers.remember(&store.groups);
    }
    Ok(Some(()))
}

/// The distinct shared parts of lines, and each line with the index of its shared part.
type Grouped<'l> = (Vec<(&'l str, Names)>, Vec<(&'l Line, usize)>);

fn grouped(lines: &[Line]) -> sqlx::Result<Grouped<'_>> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let (mut groups, mut placed) = (Vec::new(), Vec::with_capacity(lines.len()));
    // Requests of one client often come together, and a comparison takes less than a hash.
    let mut last = ("", 0);
    for line in lines {
        if line.shared_part() == last.0 {
            placed.push((line, last.1));
            continue;
        }
        let place = match places.entry(line.shared_part()) {
            Place::Occupied(place) => *place.get(),
            Place::Vacant(place) => {
                groups.push((line.shared_part(), Names::read(line.shared_part())?));
                *place.insert(groups.len() - 1)
            }
        };
        last = (line.shared_part(), place);
        placed.push((line, place));
    }
    Ok((groups, placed))
}

/// The sums of lines: by hour and names, by session and surface, too, and of those with an attribution.
fn added_up<'g>(
    groups: &'g [(&str, Names)],
    lines: impl Iterator<Item = (&'g Line, usize)>,
) -> (Vec<UsageRow<'g, 4>>, Vec<UsageRow<'g, 6>>, AttributedSums<'g>) {
    let mut of_groups: BTreeMap<(i64, usize, &str), Sums> = BTreeMap::new();
    let mut of_others = Vec::new();
    let mut attributed = AttributedSums::default();
    for (line, place) in lines {
        let hour = line.at.div_euclid(HOUR_MS) * 3600;
        let session = line.session.as_deref().unwrap_or("");
        of_groups.entry((hour, place, session)).or_default().join(&line.sums);
        if line.names.is_some()
            && let Some((_, names)) = groups.get(place)
        {
            attributed.add(line, names);
        }
        of_others.extend(line.others.iter().map(|other| ((hour, place, session), other)));
    }
    let mut by_hour: BTreeMap<(i64, [&str; 4]), Sums> = BTreeMap::new();
    let mut by_session: BTreeMap<(i64, [&str; 6]), Sums> = BTreeMap::new();
    let of_groups = of_groups.into_iter().map(|(group, sums)| (group, sums, None));
    let of_others = of_others.into_iter().map(|(group, other)| (group, other.sums, Some(other)));
    for ((hour, place, session), more, other) in of_groups.chain(of_others) {
        let Some((_, names)) = groups.get(place) else { continue };
        let team = names.team.as_deref().unwrap_or("");
        let Names { key_id, model, provider, surface, .. } = names;
        // A cost belongs to the model and the provider of its own call.
        let (model, provider) = other.map_or((model, provider), |other| (&other.model, &other.provider));
        by_hour.entry((hour, [key_id, team, model, provider])).or_default().join(&more);
        let group = [session, surface, key_id, team, model, provider];
        by_session.entry((hour, group)).or_default().join(&more);
    }
    (rows(&by_hour), rows(&by_session), attributed)
}

/// Sorted rows of a table of sums.
fn rows<'e, const NAMES: usize>(sums: &BTreeMap<(i64, [&'e str; NAMES]), Sums>) -> Vec<UsageRow<'e, NAMES>> {
    let row = |(&(hour, names), sums): (&(i64, [&'e str; NAMES]), &Sums)| UsageRow {
        hour,
        names,
        counts: counts(sums),
    };
    sums.iter().map(row).collect()
}

/// Inserts lines as arrays, one per column, so that one text serves any number of rows. Returns which lines were new.
async fn into_postgres(
    held: &mut PooledConnection<'_>,
    groups: &[(&str, Names)],
    lines: &[(&Line, usize)],
) -> sqlx::Result<Vec<bool>> {
    const INSERT: &str = "INSERT INTO ledger (request_id, at, key_id, team, model, provider, status, entry, session, surface, names) \
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], \
        $7::text[], $8::text[], $9::text[], $10::text[], $11::text[]) ON CONFLICT (request_id) DO NOTHING RETURNING request_id";
    let mut is_new = Vec::with_capacity(lines.len());
    for chunk in lines.chunks(POSTGRES_ROWS) {
        let names = |pick: fn(&Names) -> Option<&str>| -> Vec<Option<&str>> {
            chunk.iter().map(|(_, place)| groups.get(*place).and_then(|(_, names)| pick(names))).collect()
        };
        let texts = |pick: fn(&Line) -> &str| -> Vec<Cow<'_, str>> {
            chunk.iter().map(|(line, _)| without_nul(pick(line))).collect()
        };
        let query = sqlx::query(INSERT)
            .persistent(false)
            .bind(texts(|line| &*line.request_id))
            .bind(chunk.iter().map(|(line, _)| line.at).collect::<Vec<_>>())
            .bind(names(|names| Some(&names.key_id)))
            .bind(names(|names| names.team.as_deref()))
            .bind(names(|names| Some(&names.model)))
            .bind(names(|names| Some(&names.provider)))
            .bind(texts(|line| line.failure.as_deref().unwrap_or("ok")))
            .bind(chunk.iter().map(|(line, _)| line.json()).collect::<Vec<_>>())
            .bind(chunk.iter().map(|(line, _)| line.session.as_deref()).collect::<Vec<_>>())
            .bind(names(|names| Some(&names.surface)))
            .bind(chunk.iter().map(|(line, _)| line.names.as_deref().map(without_nul)).collect::<Vec<_>>());
        let (rows, _) = held.query(query).await?;
        let mut new = rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<HashSet<String>>>()?;
        // An id that occurs twice in one batch is one row.
        is_new.extend(chunk.iter().map(|(line, _)| new.remove(&*line.request_id)));
    }
    Ok(is_new)
}

/// A statement that adds rows to the sums of a table. `$names` are the columns of its key besides the hour.
macro_rules! add_up {
    ($table:expr, $names:expr, $rows:expr) => {
        add_up!($table, $names, $names, $rows)
    };
    ($table:expr, $names:expr, $key:expr, $rows:expr) => {
        concat!(
            "INSERT INTO ",
            $table,
            " AS sums (hour, ",
            $names,
            ", requests, failed, cache_hits, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, \
             reasoning_tokens, cost_nano, cost_rest, saved_nano, saved_rest, unpriced) ",
            $rows,
            " ON CONFLICT (hour, ",
            $key,
            ") DO UPDATE SET requests = sums.requests + excluded.requests, failed = sums.failed + excluded.failed, \
             cache_hits = sums.cache_hits + excluded.cache_hits, \
             prompt_tokens = sums.prompt_tokens + excluded.prompt_tokens, \
             completion_tokens = sums.completion_tokens + excluded.completion_tokens, \
             cached_tokens = sums.cached_tokens + excluded.cached_tokens, \
             cache_write_tokens = sums.cache_write_tokens + excluded.cache_write_tokens, \
             reasoning_tokens = sums.reasoning_tokens + excluded.reasoning_tokens, \
             cost_nano = sums.cost_nano + excluded.cost_nano, cost_rest = sums.cost_rest + excluded.cost_rest, \
             saved_nano = sums.saved_nano + excluded.saved_nano, saved_rest = sums.saved_rest + excluded.saved_rest, \
             unpriced = sums.unpriced + excluded.unpriced"
        )
    };
}
macro_rules! hours {
    ($rows:expr) => {
        add_up!("usage_hours", "key_id, team, model, provider", $rows)
    };
}
macro_rules! days {
    ($rows:expr) => {
        add_up!("usage_days", "surface, key_id, team, model, provider", $rows)
    };
}
macro_rules! sessions {
    ($rows:expr) => {
        add_up!("usage_sessions", "session, surface, key_id, team, model, provider", $rows)
    };
}

macro_rules! attributions {
    ($rows:expr) => {
        add_up!(
            "usage_attributions",
            "digest, names, session, surface, key_id, team, model, provider",
            "digest",
            $rows
        )
    };
}
macro_rules! names {
    ($rows:expr) => {
        add_up!("usage_names", "kind, name, surface, key_id, team, model, provider", $rows)
    };
}

/// The statements for 1, 16, 64 and 256 rows, of which `$row` is one.
macro_rules! sqlite_statement {
    ($add_up:ident, $row:expr, $count:expr) => {
        match $count {
            ..=1 => (sqlite_statement!($add_up, $row), 1),
            2..=16 => (sqlite_statement!($add_up, four!(four!($row))), 16),
            17..=64 => (sqlite_statement!($add_up, four!(four!(four!($row)))), 64),
            _ => (sqlite_statement!($add_up, four!(four!(four!(four!($row))))), 256),
        }
    };
    ($add_up:ident, $rows:expr) => {
        $add_up!(concat!("SELECT * FROM (VALUES ", $rows, ") WHERE column1 IS NOT NULL"))
    };
}

/// A statement that adds this many rows or fewer to the sums by hour, and its number of rows.
fn sqlite_hours(rows: usize) -> (&'static str, usize) {
    sqlite_statement!(hours, "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", rows)
}

/// As [`sqlite_hours`], for the sums by session.
fn sqlite_sessions(rows: usize) -> (&'static str, usize) {
    sqlite_statement!(sessions, "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", rows)
}

/// As [`sqlite_hours`], for the sums by day.
pub(super) fn sqlite_days(rows: usize) -> (&'static str, usize) {
    sqlite_statement!(days, "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", rows)
}

/// As [`sqlite_hours`], for the sums by combination of names.
pub(super) fn sqlite_attributions(rows: usize) -> (&'static str, usize) {
    sqlite_statement!(attributions, "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", rows)
}

/// As [`sqlite_hours`], for the sums by name.
pub(super) fn sqlite_names(rows: usize) -> (&'static str, usize) {
    sqlite_statement!(names, "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", rows)
}

const POSTGRES_HOURS: &str = hours!(
    "SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], \
     $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[])"
);
const POSTGRES_SESSIONS: &str = sessions!(
    "SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], \
     $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[])"
);

pub(super) const POSTGRES_ATTRIBUTIONS: &str = attributions!(
    "SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], \
     $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], \
     $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[])"
);
pub(super) const POSTGRES_NAMES: &str = names!(
    "SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], \
     $8::text[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], \
     $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[])"
);
