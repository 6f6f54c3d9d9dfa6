//! Brings a database's schema up to date: all migrations in one transaction, by one process at a time.

use std::time::Duration;

use sqlx::Row;

use super::{Pool, PooledConnection};
use crate::error::{Error, Result};
use crate::sql::Sql;

/// All migrations, oldest first. A released migration is never edited; a change is a new file.
pub(super) const CHANGES: [(i64, &str); 24] = [
    (1, include_str!("../../migrations/postgres/0001_start.sql")),
    (2, include_str!("../../migrations/postgres/0002_payloads.sql")),
    (3, include_str!("../../migrations/postgres/0003_burst_and_on_budget.sql")),
    (4, include_str!("../../migrations/postgres/0004_clock.sql")),
    (5, include_str!("../../migrations/postgres/0005_sessions.sql")),
    (6, include_str!("../../migrations/postgres/0006_secrets.sql")),
    (7, include_str!("../../migrations/postgres/0007_responses.sql")),
    (8, include_str!("../../migrations/postgres/0008_identity.sql")),
    (9, include_str!("../../migrations/postgres/0009_configuration.sql")),
    (10, include_str!("../../migrations/postgres/0010_running_responses.sql")),
    (11, include_str!("../../migrations/postgres/0011_response_chains.sql")),
    (12, include_str!("../../migrations/postgres/0012_unpriced.sql")),
    (13, include_str!("../../migrations/postgres/0013_response_sums.sql")),
    (14, include_str!("../../migrations/postgres/0014_sign_in_links.sql")),
    (15, include_str!("../../migrations/postgres/0015_budget_periods.sql")),
    (16, include_str!("../../migrations/postgres/0016_usage_units.sql")),
    (17, include_str!("../../migrations/postgres/0017_attribution.sql")),
    (18, include_str!("../../migrations/postgres/0018_alerts.sql")),
    (20, include_str!("../../migrations/postgres/0020_prompt_caches.sql")),
    (22, include_str!("../../migrations/postgres/0022_reconciliations.sql")),
    (23, include_str!("../../migrations/postgres/0023_provider_costs.sql")),
    (24, include_str!("../../migrations/postgres/0024_name_blocks.sql")),
    (25, include_str!("../../migrations/postgres/0025_failures_by_key.sql")),
    (26, include_str!("../../migrations/postgres/0026_requests_by_end_user.sql")),
];
/// The lock that processes starting at the same time compete for.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7310003465208157025)";
/// Longer than any migration takes.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The schema of a database and the time of its server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemaReport {
    /// None: the database has no schema of this program.
    pub(crate) found: Option<i64>,
    /// The newest version that this program knows.
    pub(crate) known: i64,
    /// Unix milliseconds.
    pub(crate) server_time: i64,
}

/// The newest version that this program knows.
fn newest_version() -> i64 {
    CHANGES.iter().map(|(version, _)| *version).max().unwrap_or_default()
}

/// Reads the schema version and the server's clock. Changes nothing.
pub(super) async fn inspect(pool: &Pool) -> Result<SchemaReport> {
    let failed = |error: sqlx::Error| pool.address.error(&error);
    let mut held = pool.begin().await.map_err(failed)?;
    let found = version(&mut held).await.map_err(failed)?;
    let ask = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now";
    let (rows, _) = held.run(Sql::new(ask)).await.map_err(failed)?;
    let now = rows.first().map(|row| row.try_get::<i64, _>("now")).transpose().map_err(failed)?;
    held.rollback().await.map_err(failed)?;
    Ok(SchemaReport { found, known: newest_version(), server_time: now.unwrap_or_default() })
}

pub(super) async fn run(pool: &Pool) -> Result<()> {
    let failed = |error: sqlx::Error| pool.address.error(&error);
    let newest = newest_version();
    let mut held = pool.begin().await.map_err(failed)?;
    let found = version(&mut held).await.map_err(failed)?;
    held.rollback().await.map_err(failed)?;
    // Most starts find an up-to-date schema and need not wait for the lock.
    if check(pool, found, newest)? == Some(newest) {
        return Ok(());
    }
    let mut held = pool.begin_with("BEGIN", TIMEOUT).await.map_err(failed)?;
    held.run(Sql::new(LOCK)).await.map_err(failed)?;
    let found = check(pool, version(&mut held).await.map_err(failed)?, newest)?;
    if found.is_none() {
        refuse_foreign(pool, &mut held).await?;
        let make = "CREATE TABLE gateway_schema (version BIGINT PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT now())";
        held.query(sqlx::raw_sql(make)).await.map_err(failed)?;
    }
    for (version, change) in CHANGES.into_iter().filter(|(version, _)| Some(*version) > found) {
        held.query(sqlx::raw_sql(change)).await.map_err(failed)?;
        let note = Sql::new("INSERT INTO gateway_schema (version) VALUES ($1)").int(version);
        held.run(note).await.map_err(failed)?;
    }
    held.commit().await.map_err(failed)
}

fn check(pool: &Pool, found: Option<i64>, known: i64) -> Result<Option<i64>> {
    match found {
        Some(found) if found > known => {
            Err(Error::Newer { location: pool.address.location.clone(), found, known })
        }
        found => Ok(found),
    }
}

/// The schema version; None if there is no schema of this program.
async fn version(held: &mut PooledConnection<'_>) -> sqlx::Result<Option<i64>> {
    // to_regclass could answer from before the lock was acquired.
    let look = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'gateway_schema' \
        AND pg_catalog.pg_table_is_visible(oid)) AS ours";
    let (rows, _) = held.run(Sql::new(look)).await?;
    let ours = rows.first().map_or(Ok(false), |row| row.try_get("ours"))?;
    if !ours {
        return Ok(None);
    }
    let (rows, _) =
        held.run(Sql::new("SELECT coalesce(max(version), 0) AS version FROM gateway_schema")).await?;
    rows.first().map(|row| row.try_get("version")).transpose()
}

/// The tables that the migrations make.
fn tables() -> impl Iterator<Item = &'static str> {
    let lines = CHANGES.into_iter().flat_map(|(_, change)| change.lines());
    lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split([' ', '(']).next())
}

/// Refuses tables of other programs with the names of ours. Other tables may share the database.
async fn refuse_foreign(pool: &Pool, held: &mut PooledConnection<'_>) -> Result<()> {
    let names: Vec<&str> = tables().collect();
    let sql = Sql::new(
        "SELECT relname::text AS name FROM pg_catalog.pg_class \
         WHERE relname = ANY(string_to_array($1, ',')) AND pg_catalog.pg_table_is_visible(oid)",
    );
    let sql = sql.owned(Some(names.join(",")));
    let found = held
        .run(sql)
        .await
        .and_then(|(rows, _)| rows.first().map(|row| row.try_get::<String, _>("name")).transpose());
    match found.map_err(|error| pool.address.error(&error))? {
        Some(name) => Err(Error::Damaged {
            location: pool.address.location.clone(),
            reason: format!("another program's table named {name:?}"),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_the_migrations_is_found() {
        let statements =
            CHANGES.iter().map(|(_, change)| change.to_ascii_uppercase().matches("CREATE TABLE").count());
        let names: Vec<_> = tables().collect();
        assert_eq!(names.len(), statements.sum::<usize>(), "{names:?}");
        assert!(names.contains(&"gateway_audit_head") && names.contains(&"response_items"), "{names:?}");
        let is_name = |name: &&str| name.chars().all(|each| each == '_' || each.is_ascii_lowercase());
        assert!(names.iter().all(is_name), "{names:?}");
    }
}
