//! Rows into the ledger, and their sums with them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use sqlx::sqlite::SqliteConnection;
use sqlx::{Row as _, Sqlite};

use super::{Entry, HOUR, Sums, Tokens, split};
use crate::db::{Change, Result, Store};
use crate::postgres::Held;
use crate::sql::{LONGEST_INDEXED, indexed, without_nul};

impl Store {
    /// Writes these entries. Those that are there already stay as they are and count once.
    pub async fn record(&self, entries: &[Entry]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let entries: Vec<Cow<'_, Entry>> = entries.iter().map(storable).collect();
        write(self.begin().await?, &entries).await.map_err(|error| self.error(&error))?;
        self.wrote(entries.len() as u64).await;
        Ok(())
    }
}

async fn write(mut change: Change<'_>, entries: &[Cow<'_, Entry>]) -> sqlx::Result<()> {
    let mut sums: BTreeMap<Group<'_>, Sums> = BTreeMap::new();
    let mut rest = entries;
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
        for entry in chunk {
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

/// The most that one request counts of anything, whatever an upstream claims: a sum of many still fits 64 bits.
const MOST: u64 = 1_000_000_000_000;
/// And the most that it costs, in femto-USD: a million dollars.
const DEAREST: i128 = 1_000_000_000_000_000_000_000;

/// The entry as both databases can keep it.
fn storable(entry: &Entry) -> Cow<'_, Entry> {
    let Entry { request_id, key_id, key_name, operation, requested_model, model, provider, .. } = entry;
    let Entry { status, strategy, attempts, team, end_user, client, tokens, .. } = entry;
    let names = [request_id, key_id, key_name, operation, requested_model, model, provider];
    let others = [status, strategy, attempts].into_iter().chain(team).chain(end_user).chain(client);
    let Tokens { prompt, completion, cached, cache_write, reasoning } = *tokens;
    let most = [prompt, completion, cached, cache_write, reasoning, entry.latency_ms];
    let fits = most.into_iter().chain(entry.ttft_ms).all(|count| count <= MOST)
        && [entry.cost, entry.saved].iter().all(|amount| (-DEAREST..=DEAREST).contains(amount));
    let short = [request_id, key_id, model, provider]
        .into_iter()
        .chain(team)
        .all(|text| text.len() <= LONGEST_INDEXED);
    if fits && short && !names.into_iter().chain(others).any(|text| text.contains('\0')) {
        return Cow::Borrowed(entry);
    }
    let name = |text: &String| indexed(text).into_owned();
    let clean = |text: &String| without_nul(text).into_owned();
    let (count, amount) = (|count: u64| count.min(MOST), |amount: i128| amount.clamp(-DEAREST, DEAREST));
    Cow::Owned(Entry {
        request_id: name(request_id),
        key_id: name(key_id),
        key_name: clean(key_name),
        operation: clean(operation),
        requested_model: clean(requested_model),
        model: name(model),
        provider: name(provider),
        status: clean(status),
        strategy: clean(strategy),
        attempts: clean(attempts),
        team: team.as_ref().map(name),
        end_user: end_user.as_ref().map(clean),
        client: client.as_ref().map(clean),
        tokens: Tokens {
            prompt: count(prompt),
            completion: count(completion),
            cached: count(cached),
            cache_write: count(cache_write),
            reasoning: count(reasoning),
        },
        cost: amount(entry.cost),
        saved: amount(entry.saved),
        ttft_ms: entry.ttft_ms.map(count),
        latency_ms: count(entry.latency_ms),
        ..*entry
    })
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
            "INSERT INTO ledger (request_id, at, key_id, key_name, team, operation, requested_model, model, provider, status, \
             strategy, stream, cache_hit, fallback, prompt_tokens, completion_tokens, cached_tokens, \
             cache_write_tokens, reasoning_tokens, estimated, cost_nano, cost_rest, saved_nano, saved_rest, \
             ttft_ms, latency_ms, attempts, end_user, client) SELECT * FROM (VALUES ",
            $rows,
            ") WHERE column1 IS NOT NULL ON CONFLICT (request_id) DO NOTHING"
        )
    };
}
macro_rules! row {
    () => {
        "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
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
    entries: &[Cow<'_, Entry>],
) -> sqlx::Result<New> {
    let mut query = sqlx::query::<Sqlite>(sql);
    for entry in entries {
        let Tokens { prompt, completion, cached, cache_write, reasoning } = entry.tokens;
        let ((cost_nano, cost_rest), (saved_nano, saved_rest)) = (split(entry.cost), split(entry.saved));
        query = query.bind(&*entry.request_id).bind(entry.at);
        query = query.bind(&*entry.key_id).bind(&*entry.key_name).bind(entry.team.as_deref());
        query = query.bind(&*entry.operation).bind(&*entry.requested_model);
        query = query.bind(&*entry.model).bind(&*entry.provider);
        query = query.bind(&*entry.status).bind(&*entry.strategy);
        query = query.bind(entry.stream).bind(entry.cache_hit).bind(entry.fallback);
        query = query.bind(int(prompt)).bind(int(completion)).bind(int(cached));
        query = query.bind(int(cache_write)).bind(int(reasoning)).bind(entry.estimated);
        query = query.bind(cost_nano).bind(cost_rest).bind(saved_nano).bind(saved_rest);
        query = query.bind(entry.ttft_ms.map(int)).bind(int(entry.latency_ms));
        query = query.bind(&*entry.attempts).bind(entry.end_user.as_deref()).bind(entry.client.as_deref());
    }
    let done = query.execute(&mut *connection).await?;
    if done.rows_affected() == entries.len() as u64 {
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
async fn into_postgres(held: &mut Held<'_>, entries: &[Cow<'_, Entry>]) -> sqlx::Result<New> {
    const INSERT: &str = "INSERT INTO ledger (request_id, at, key_id, key_name, team, operation, requested_model, model, \
        provider, status, strategy, stream, cache_hit, fallback, prompt_tokens, completion_tokens, \
        cached_tokens, cache_write_tokens, reasoning_tokens, estimated, cost_nano, cost_rest, saved_nano, \
        saved_rest, ttft_ms, latency_ms, attempts, end_user, client) SELECT * FROM unnest($1::text[], \
        $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], \
        $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], \
        $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], \
        $23::bigint[], $24::bigint[], $25::bigint[], $26::bigint[], $27::text[], $28::text[], $29::text[]) \
        ON CONFLICT (request_id) DO NOTHING RETURNING request_id";
    let texts = |pick: fn(&Entry) -> &str| entries.iter().map(|entry| pick(entry)).collect::<Vec<_>>();
    let maybe =
        |pick: fn(&Entry) -> Option<&str>| entries.iter().map(|entry| pick(entry)).collect::<Vec<_>>();
    let ints = |pick: fn(&Entry) -> i64| entries.iter().map(|entry| pick(entry)).collect::<Vec<_>>();
    let query = sqlx::query(INSERT)
        .persistent(false)
        .bind(texts(|entry| &entry.request_id))
        .bind(ints(|entry| entry.at))
        .bind(texts(|entry| &entry.key_id))
        .bind(texts(|entry| &entry.key_name))
        .bind(maybe(|entry| entry.team.as_deref()))
        .bind(texts(|entry| &entry.operation))
        .bind(texts(|entry| &entry.requested_model))
        .bind(texts(|entry| &entry.model))
        .bind(texts(|entry| &entry.provider))
        .bind(texts(|entry| &entry.status))
        .bind(texts(|entry| &entry.strategy))
        .bind(ints(|entry| i64::from(entry.stream)))
        .bind(ints(|entry| i64::from(entry.cache_hit)))
        .bind(ints(|entry| i64::from(entry.fallback)))
        .bind(ints(|entry| int(entry.tokens.prompt)))
        .bind(ints(|entry| int(entry.tokens.completion)))
        .bind(ints(|entry| int(entry.tokens.cached)))
        .bind(ints(|entry| int(entry.tokens.cache_write)))
        .bind(ints(|entry| int(entry.tokens.reasoning)))
        .bind(ints(|entry| i64::from(entry.estimated)))
        .bind(ints(|entry| split(entry.cost).0))
        .bind(ints(|entry| split(entry.cost).1))
        .bind(ints(|entry| split(entry.saved).0))
        .bind(ints(|entry| split(entry.saved).1))
        .bind(entries.iter().map(|entry| entry.ttft_ms.map(int)).collect::<Vec<_>>())
        .bind(ints(|entry| int(entry.latency_ms)))
        .bind(texts(|entry| &entry.attempts))
        .bind(maybe(|entry| entry.end_user.as_deref()))
        .bind(maybe(|entry| entry.client.as_deref()));
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
