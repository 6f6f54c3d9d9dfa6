//! Rows into the ledger, and their sums with them.

use std::collections::{BTreeMap, HashSet};

use sqlx::{QueryBuilder, Row, Sqlite};

use super::{Entry, HOUR, Sums, Tokens, split};
use crate::db::{Result, Store};

/// Rows of one INSERT: their values stay below SQLite's bound of 32,766 parameters.
const ROWS_OF_INSERT: usize = 200;

impl Store {
    /// Writes these entries. Those that are there already stay as they are and count once.
    pub async fn record(&self, entries: &[Entry]) -> Result<()> {
        self.write(entries).await.map_err(|error| self.error(error))
    }

    async fn write(&self, entries: &[Entry]) -> sqlx::Result<()> {
        let mut transaction = self.pool().begin_with("BEGIN IMMEDIATE").await?;
        let mut sums: BTreeMap<(i64, &str, &str, &str, &str), Sums> = BTreeMap::new();
        for entries in entries.chunks(ROWS_OF_INSERT) {
            let mut query = insert(entries);
            let rows = query.build().fetch_all(&mut *transaction).await?;
            let new: HashSet<String> = rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
            let mut counted = HashSet::new();
            for entry in entries.iter().filter(|entry| new.contains(&entry.request_id)) {
                // The same id twice in one batch is one row.
                if counted.insert(&entry.request_id) {
                    let hour = entry.at.div_euclid(HOUR) * 3600;
                    let team = entry.team.as_deref().unwrap_or("");
                    let group = (hour, &*entry.key_id, team, &*entry.model, &*entry.provider);
                    sums.entry(group).or_default().add(entry);
                }
            }
        }
        for (group, sums) in &sums {
            add_up(*group, sums).build().execute(&mut *transaction).await?;
        }
        transaction.commit().await
    }
}

/// A count for a column: SQLite's integers are signed.
fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn insert(entries: &[Entry]) -> QueryBuilder<Sqlite> {
    let mut query = QueryBuilder::new(
        "INSERT INTO ledger (request_id, at, key_id, key_name, team, operation, requested_model, model, provider, \
         status, strategy, stream, cache_hit, fallback, prompt_tokens, completion_tokens, cached_tokens, \
         cache_write_tokens, reasoning_tokens, estimated, cost_nano, cost_rest, saved_nano, saved_rest, ttft_ms, \
         latency_ms, attempts, end_user, client) ",
    );
    query.push_values(entries, |mut row, entry| {
        let Tokens { prompt, completion, cached, cache_write, reasoning } = entry.tokens;
        let ((cost_nano, cost_rest), (saved_nano, saved_rest)) = (split(entry.cost), split(entry.saved));
        row.push_bind(entry.request_id.clone()).push_bind(entry.at);
        row.push_bind(entry.key_id.clone()).push_bind(entry.key_name.clone()).push_bind(entry.team.clone());
        row.push_bind(entry.operation.clone()).push_bind(entry.requested_model.clone());
        row.push_bind(entry.model.clone()).push_bind(entry.provider.clone());
        row.push_bind(entry.status.clone()).push_bind(entry.strategy.clone());
        row.push_bind(entry.stream).push_bind(entry.cache_hit).push_bind(entry.fallback);
        row.push_bind(int(prompt)).push_bind(int(completion)).push_bind(int(cached));
        row.push_bind(int(cache_write)).push_bind(int(reasoning)).push_bind(entry.estimated);
        row.push_bind(cost_nano).push_bind(cost_rest).push_bind(saved_nano).push_bind(saved_rest);
        row.push_bind(entry.ttft_ms.map(int)).push_bind(int(entry.latency_ms));
        row.push_bind(entry.attempts.clone()).push_bind(entry.end_user.clone());
        row.push_bind(entry.client.clone());
    });
    query.push(" ON CONFLICT (request_id) DO NOTHING RETURNING request_id");
    query
}

fn add_up(
    (hour, key, team, model, provider): (i64, &str, &str, &str, &str),
    sums: &Sums,
) -> QueryBuilder<Sqlite> {
    const COLUMNS: [&str; 12] = [
        "requests",
        "failed",
        "cache_hits",
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
        "cost_nano",
        "cost_rest",
        "saved_nano",
        "saved_rest",
    ];
    let ((cost_nano, cost_rest), (saved_nano, saved_rest)) = (split(sums.cost), split(sums.saved));
    let Tokens { prompt, completion, cached, cache_write, reasoning } = sums.tokens;
    let counts =
        [sums.requests, sums.failed, sums.cache_hits, prompt, completion, cached, cache_write, reasoning];
    let mut query = QueryBuilder::new("INSERT INTO usage_hours (hour, key_id, team, model, provider");
    for column in COLUMNS {
        query.push(", ").push(column);
    }
    query.push(") VALUES (").push_bind(hour);
    for name in [key, team, model, provider] {
        query.push(", ").push_bind(name.to_owned());
    }
    for value in counts.map(int).into_iter().chain([cost_nano, cost_rest, saved_nano, saved_rest]) {
        query.push(", ").push_bind(value);
    }
    query.push(") ON CONFLICT (hour, key_id, team, model, provider) DO UPDATE SET ");
    for (place, column) in COLUMNS.into_iter().enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        query.push(format_args!("{comma}{column} = usage_hours.{column} + excluded.{column}"));
    }
    query
}
