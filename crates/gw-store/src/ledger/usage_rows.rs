//! Rows of tables of sums, as both databases get them.

use sqlx::Sqlite;
use sqlx::sqlite::SqliteConnection;

use super::{Sums, Tokens, split};
use crate::postgres::PooledConnection;

/// Rows per statement of PostgreSQL. The statement's text does not depend on the number of rows.
pub(super) const POSTGRES_ROWS: usize = 1_000;

/// The counters of most tables of sums.
const USUAL_COUNTS: usize = 13;

/// A row of a table of sums: its key columns and its counters, in the order in which both databases bind them.
pub(super) struct UsageRow<'e, const NAMES: usize, const COUNTS: usize = USUAL_COUNTS> {
    pub(super) hour: i64,
    pub(super) names: [&'e str; NAMES],
    pub(super) counts: [i64; COUNTS],
}

pub(super) async fn add_rows_sqlite<const NAMES: usize, const COUNTS: usize>(
    connection: &mut SqliteConnection,
    rows: &[UsageRow<'_, NAMES, COUNTS>],
    statement: fn(usize) -> (&'static str, usize),
) -> sqlx::Result<()> {
    let mut rest = rows;
    while !rest.is_empty() {
        let (sql, count) = statement(rest.len());
        let (rows, after) = rest.split_at(count.min(rest.len()));
        rest = after;
        let mut query = sqlx::query::<Sqlite>(sql);
        for row in rows {
            query = query.bind(row.hour);
            query = row.names.iter().fold(query, |query, name| query.bind(*name));
            query = row.counts.iter().fold(query, |query, count| query.bind(*count));
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

pub(super) async fn add_rows_postgres<const NAMES: usize, const COUNTS: usize>(
    held: &mut PooledConnection<'_>,
    rows: &[UsageRow<'_, NAMES, COUNTS>],
    statement: &'static str,
) -> sqlx::Result<()> {
    for rows in rows.chunks(POSTGRES_ROWS) {
        let hours: Vec<i64> = rows.iter().map(|row| row.hour).collect();
        let mut query = sqlx::query(statement).persistent(false).bind(hours);
        for column in 0..NAMES {
            let names = rows.iter().filter_map(|row| row.names.get(column).copied().map(str::to_owned));
            query = query.bind(names.collect::<Vec<_>>());
        }
        for column in 0..COUNTS {
            query =
                query.bind(rows.iter().filter_map(|row| row.counts.get(column).copied()).collect::<Vec<_>>());
        }
        held.query(query).await?;
    }
    Ok(())
}

/// The counters of a group, in the order of the columns.
pub(super) fn counts(sums: &Sums) -> [i64; USUAL_COUNTS] {
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
        int(sums.unpriced),
    ]
}

/// A count as a column value.
fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
