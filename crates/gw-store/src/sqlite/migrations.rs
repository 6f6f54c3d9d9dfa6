//! The migrations of the SQLite file: the list, and the examination of an existing file.

use std::fs;
use std::io::Read;
use std::path::Path;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Row, SqlSafeStr};

use super::{describe, read_only};
use crate::error::{Error, Result, one_line};

/// All migrations with their numbers and names, oldest first. A released migration is never edited; a change is a new file.
pub(super) const CHANGES: [(i64, &str, &str); 30] = [
    (1, "keys", include_str!("../../migrations/0001_keys.sql")),
    (2, "limits and ledger", include_str!("../../migrations/0002_limits_and_ledger.sql")),
    (3, "revision", include_str!("../../migrations/0003_revision.sql")),
    (4, "cheaper indices", include_str!("../../migrations/0004_cheaper_indices.sql")),
    (5, "short rows", include_str!("../../migrations/0005_short_rows.sql")),
    (6, "payloads", include_str!("../../migrations/0006_payloads.sql")),
    (7, "rows in order", include_str!("../../migrations/0007_rows_in_order.sql")),
    (8, "burst and on_budget", include_str!("../../migrations/0008_burst_and_on_budget.sql")),
    (9, "clock", include_str!("../../migrations/0009_clock.sql")),
    (10, "sessions", include_str!("../../migrations/0010_sessions.sql")),
    (11, "secrets", include_str!("../../migrations/0011_secrets.sql")),
    (12, "responses", include_str!("../../migrations/0012_responses.sql")),
    (13, "identity", include_str!("../../migrations/0013_identity.sql")),
    (14, "configuration", include_str!("../../migrations/0014_configuration.sql")),
    (15, "running responses", include_str!("../../migrations/0015_running_responses.sql")),
    (16, "response chains", include_str!("../../migrations/0016_response_chains.sql")),
    (17, "unpriced", include_str!("../../migrations/0017_unpriced.sql")),
    (18, "response sums", include_str!("../../migrations/0018_response_sums.sql")),
    (19, "sign-in links", include_str!("../../migrations/0019_sign_in_links.sql")),
    (20, "large ledgers", include_str!("../../migrations/0020_large_ledgers.sql")),
    (21, "budget periods", include_str!("../../migrations/0021_budget_periods.sql")),
    (22, "usage units", include_str!("../../migrations/0022_usage_units.sql")),
    (23, "attribution", include_str!("../../migrations/0023_attribution.sql")),
    (24, "days by team", include_str!("../../migrations/0024_days_by_team.sql")),
    (25, "alerts", include_str!("../../migrations/0025_alerts.sql")),
    (27, "prompt caches", include_str!("../../migrations/0027_prompt_caches.sql")),
    (29, "reconciliations", include_str!("../../migrations/0029_reconciliations.sql")),
    (30, "name totals", include_str!("../../migrations/0030_name_totals.sql")),
    (31, "provider costs", include_str!("../../migrations/0031_provider_costs.sql")),
    (32, "name blocks", include_str!("../../migrations/0032_name_blocks.sql")),
];

pub(super) fn migrator() -> Migrator {
    let change = |(version, name, sql): (i64, &'static str, &'static str)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(CHANGES.into_iter().map(change).collect())
}

pub(super) fn newer(location: &str, found: i64) -> Error {
    Error::Newer { location: location.to_owned(), found, known: newest_version() }
}

/// The schema version of an existing file; None for a file without tables. The file stays unchanged to the byte.
pub(crate) async fn probe(path: &Path) -> Result<Option<i64>> {
    Ok(examine(path).await?.map(|found| found.version))
}

/// The migrations that a file has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Migrations {
    /// The number of the newest one.
    version: i64,
    /// The number of all.
    count: i64,
}

impl Migrations {
    /// Whether the file has every migration of this program.
    pub(super) fn is_complete(self) -> bool {
        self.version == newest_version() && usize::try_from(self.count) == Ok(CHANGES.len())
    }
}

/// Examines an existing file through a read-only connection, so that a file that cannot be used stays unchanged to the
/// byte. None for a file without tables.
pub(super) async fn examine(path: &Path) -> Result<Option<Migrations>> {
    let location = path.display().to_string();
    // SQLite would take a file shorter than one page for a new database and overwrite it.
    let mut header = [0; 512];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    if read.is_err() || !header.starts_with(b"SQLite format 3\0") {
        return Err(Error::Damaged { location, reason: "no SQLite header".to_owned() });
    }
    let failed = |error: sqlx::Error| describe(&location, &error);
    let mut connection = read_only(path).await.map_err(failed)?;
    let found = schema(&mut connection).await.map_err(failed)?;
    connection.close().await.map_err(failed)?;
    match found {
        Schema::Empty => Ok(None),
        Schema::Migrated(found) if migrator().version_exists(found.version) => Ok(Some(found)),
        Schema::Migrated(found) => Err(newer(&location, found.version)),
        Schema::Foreign => Err(Error::Damaged { location, reason: "another program's tables".to_owned() }),
        Schema::Damaged(reason) => Err(Error::Damaged { location, reason: one_line(&reason) }),
    }
}

/// The newest schema version that this program knows.
pub(crate) fn newest_version() -> i64 {
    migrator().iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// The content of a file.
enum Schema {
    Empty,
    Migrated(Migrations),
    Foreign,
    Damaged(String),
}

async fn schema(connection: &mut SqliteConnection) -> sqlx::Result<Schema> {
    let tables: Vec<String> = sqlx::query("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .fetch_all(&mut *connection)
        .await?
        .iter()
        .map(|row| row.try_get(0))
        .collect::<sqlx::Result<_>>()?;
    if !tables.iter().any(|table| table == "_sqlx_migrations") {
        return Ok(if tables.is_empty() { Schema::Empty } else { Schema::Foreign });
    }
    let row = sqlx::query("SELECT max(version), count(*) FROM _sqlx_migrations")
        .fetch_one(&mut *connection)
        .await?;
    let (version, count): (Option<i64>, i64) = (row.try_get(0)?, row.try_get(1)?);
    // Checks one small table: checking the whole file would take long with a large ledger.
    let verdict: String = sqlx::query("PRAGMA quick_check(keys)").fetch_one(connection).await?.try_get(0)?;
    Ok(match version {
        _ if verdict != "ok" => Schema::Damaged(verdict),
        None => Schema::Empty,
        Some(version) => Schema::Migrated(Migrations { version, count }),
    })
}
