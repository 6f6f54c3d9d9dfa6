//! Reports and the request log.

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

use super::{By, Cursor, Entry, Filter, HOUR, Sums, Tokens, joined};
use crate::db::{Result, Store};

impl Store {
    /// Sums of the requests that pass the filter, by group, the dearest first.
    pub async fn usage(&self, by: By, filter: &Filter) -> Result<Vec<(String, Sums)>> {
        let mut query = QueryBuilder::<Sqlite>::new("SELECT ");
        query.push(by.column()).push(" AS name, ").push(SUMS).push(" FROM usage_hours WHERE 1 = 1");
        push_hours(&mut query, filter);
        query.push(" GROUP BY 1 ORDER BY sum(cost_nano) DESC, 1");
        let rows = query.build().fetch_all(self.pool()).await.map_err(|error| self.error(error))?;
        let read = |row: &SqliteRow| Ok((row.try_get("name")?, read_sums(row)?));
        rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(|error| self.error(error))
    }

    /// Sums of all requests that pass the filter.
    pub async fn total(&self, filter: &Filter) -> Result<Sums> {
        let mut query = QueryBuilder::<Sqlite>::new("SELECT ");
        query.push(SUMS).push(" FROM usage_hours WHERE 1 = 1");
        push_hours(&mut query, filter);
        let row = query.build().fetch_one(self.pool()).await.map_err(|error| self.error(error))?;
        read_sums(&row).map_err(|error| self.error(error))
    }

    /// The log, newest first.
    pub async fn requests(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Vec<Entry>> {
        let mut query = QueryBuilder::<Sqlite>::new("SELECT * FROM ledger WHERE 1 = 1");
        if let Some(since) = filter.since {
            query.push(" AND at >= ").push_bind(since);
        }
        if let Some(until) = filter.until {
            query.push(" AND at < ").push_bind(until);
        }
        push_names(&mut query, filter);
        if let Some(status) = &filter.status {
            query.push(" AND status = ").push_bind(status.clone());
        }
        if let Some(Cursor { at, request_id }) = after {
            query.push(" AND (at, request_id) < (").push_bind(*at).push(", ");
            query.push_bind(request_id.clone()).push(")");
        }
        query.push(" ORDER BY at DESC, request_id DESC LIMIT ").push_bind(i64::from(limit));
        let rows = query.build().fetch_all(self.pool()).await.map_err(|error| self.error(error))?;
        rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(|error| self.error(error))
    }

    /// One request.
    pub async fn request(&self, request_id: &str) -> Result<Option<Entry>> {
        let query = sqlx::query("SELECT * FROM ledger WHERE request_id = $1").bind(request_id);
        let row = query.fetch_optional(self.pool()).await.map_err(|error| self.error(error))?;
        row.as_ref().map(read).transpose().map_err(|error| self.error(error))
    }

    /// Forgets the rows before this time (unix milliseconds), so many at most; says how many. The sums stay.
    pub async fn forget(&self, before: i64, at_most: u32) -> Result<u64> {
        let delete =
            "DELETE FROM ledger WHERE request_id IN (SELECT request_id FROM ledger WHERE at < $1 LIMIT $2)";
        let done = sqlx::query(delete).bind(before).bind(i64::from(at_most)).execute(self.pool()).await;
        done.map(|done| done.rows_affected()).map_err(|error| self.error(error))
    }
}

/// Columns of the sums, in the order that `read_sums` wants.
const SUMS: &str = "coalesce(sum(requests), 0) AS requests, coalesce(sum(failed), 0) AS failed, \
    coalesce(sum(cache_hits), 0) AS cache_hits, coalesce(sum(prompt_tokens), 0) AS prompt_tokens, \
    coalesce(sum(completion_tokens), 0) AS completion_tokens, coalesce(sum(cached_tokens), 0) AS cached_tokens, \
    coalesce(sum(cache_write_tokens), 0) AS cache_write_tokens, \
    coalesce(sum(reasoning_tokens), 0) AS reasoning_tokens, coalesce(sum(cost_nano), 0) AS cost_nano, \
    coalesce(sum(cost_rest), 0) AS cost_rest, coalesce(sum(saved_nano), 0) AS saved_nano, \
    coalesce(sum(saved_rest), 0) AS saved_rest";

fn push_hours(query: &mut QueryBuilder<Sqlite>, filter: &Filter) {
    if let Some(since) = filter.since {
        query.push(" AND hour >= ").push_bind(since.div_euclid(HOUR) * 3600);
    }
    if let Some(until) = filter.until {
        query.push(" AND hour * 1000 < ").push_bind(until);
    }
    push_names(query, filter);
}

fn push_names(query: &mut QueryBuilder<Sqlite>, filter: &Filter) {
    let names = [
        ("key_id", &filter.key_id),
        ("team", &filter.team),
        ("model", &filter.model),
        ("provider", &filter.provider),
    ];
    for (column, value) in names {
        if let Some(value) = value {
            query.push(" AND ").push(column).push(" = ").push_bind(value.clone());
        }
    }
}

fn count(row: &SqliteRow, column: &str) -> sqlx::Result<u64> {
    row.try_get::<i64, _>(column).map(|count| u64::try_from(count).unwrap_or(0))
}

fn read_tokens(row: &SqliteRow) -> sqlx::Result<Tokens> {
    Ok(Tokens {
        prompt: count(row, "prompt_tokens")?,
        completion: count(row, "completion_tokens")?,
        cached: count(row, "cached_tokens")?,
        cache_write: count(row, "cache_write_tokens")?,
        reasoning: count(row, "reasoning_tokens")?,
    })
}

fn read_sums(row: &SqliteRow) -> sqlx::Result<Sums> {
    Ok(Sums {
        requests: count(row, "requests")?,
        failed: count(row, "failed")?,
        cache_hits: count(row, "cache_hits")?,
        tokens: read_tokens(row)?,
        cost: joined(row.try_get("cost_nano")?, row.try_get("cost_rest")?),
        saved: joined(row.try_get("saved_nano")?, row.try_get("saved_rest")?),
    })
}

fn read(row: &SqliteRow) -> sqlx::Result<Entry> {
    Ok(Entry {
        request_id: row.try_get("request_id")?,
        at: row.try_get("at")?,
        key_id: row.try_get("key_id")?,
        key_name: row.try_get("key_name")?,
        team: row.try_get("team")?,
        operation: row.try_get("operation")?,
        requested_model: row.try_get("requested_model")?,
        model: row.try_get("model")?,
        provider: row.try_get("provider")?,
        status: row.try_get("status")?,
        strategy: row.try_get("strategy")?,
        stream: row.try_get("stream")?,
        cache_hit: row.try_get("cache_hit")?,
        fallback: row.try_get("fallback")?,
        tokens: read_tokens(row)?,
        estimated: row.try_get("estimated")?,
        cost: joined(row.try_get("cost_nano")?, row.try_get("cost_rest")?),
        saved: joined(row.try_get("saved_nano")?, row.try_get("saved_rest")?),
        ttft_ms: row.try_get::<Option<i64>, _>("ttft_ms")?.and_then(|ms| u64::try_from(ms).ok()),
        latency_ms: count(row, "latency_ms")?,
        attempts: row.try_get("attempts")?,
        end_user: row.try_get("end_user")?,
        client: row.try_get("client")?,
    })
}
