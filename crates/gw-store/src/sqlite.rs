//! The SQLite file: opened with its pragmas and its migrations, or left alone when it cannot be used.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool,
    SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, Row, SqlSafeStr};

use crate::error::{Error, Result, one_line};
use crate::private;

/// Before 3.51.3 a reset of the write-ahead log could corrupt the file.
const OLDEST_SQLITE: [u32; 3] = [3, 51, 3];

/// How long a lock of another program is waited for.
const BUSY: Duration = Duration::from_secs(5);

/// What is left of a log that a long reader has made larger.
const LOG_LIMIT: &str = "16777216";

/// Connections that read: a long report must not keep others from reading.
const READERS: u32 = 3;
/// Rows of a KiB between two looks at the write-ahead log: some 10 MiB of it.
const ROWS_OF_LOG: u64 = 10_000;

/// Pages of the write-ahead log (16 MiB) beyond which it is made to begin anew.
const LONG_LOG: i64 = 4_096;
/// How long that waits for those who read.
const LOG_PATIENCE: &str = "PRAGMA busy_timeout = 400";

/// Opens the file, makes it if it is missing, and brings its schema up to date.
pub(crate) async fn open(path: &Path) -> Result<Pools> {
    // The switch to WAL of another program's first start cannot be waited for inside SQLite.
    let deadline = Instant::now() + BUSY;
    loop {
        match open_once(path).await {
            Err(Error::Busy { .. }) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            done => return done,
        }
    }
}

async fn open_once(path: &Path) -> Result<Pools> {
    if create_private(path)? {
        probe(path).await?;
    }
    // The database, its log and the log's index may be older than this rule.
    for ending in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(ending);
        private::tighten(Path::new(&file));
    }
    let place = path.display().to_string();
    let failed = |error: sqlx::Error| describe(&place, &error);
    let options = SqliteConnectOptions::new()
        .filename(path)
        .synchronous(SqliteSynchronous::Normal)
        .foreign_keys(true)
        .pragma("journal_size_limit", LOG_LIMIT)
        .busy_timeout(BUSY)
        .thread_name(|id| format!("store-{id}"))
        .disable_statement_logging();
    // What is kept in the file itself is set once, because it needs the lock: a connection that is made later must not
    // wait for another program's.
    let made =
        options.clone().auto_vacuum(SqliteAutoVacuum::Incremental).journal_mode(SqliteJournalMode::Wal);
    let mut connection = made.connect().await.map_err(failed)?;
    prepare(&mut connection, &place).await?;
    let readers = pool(options.clone(), READERS).await.map_err(failed)?;
    // Fewer checkpoints: pages that are written again and again are copied once.
    let writing = options.pragma("wal_autocheckpoint", "4000").pragma("cache_size", "-8192");
    let writer = pool(writing, 1).await.map_err(failed)?;
    connection.close().await.map_err(failed)?;
    Ok(Pools { readers, writer, written: AtomicU64::new(0) })
}

/// A database that ends with the program.
pub(crate) async fn in_memory() -> Result<Pools> {
    let place = ":memory:";
    let failed = |error: sqlx::Error| describe(place, &error);
    let options = SqliteConnectOptions::new().in_memory(true).foreign_keys(true).disable_statement_logging();
    // One connection: each has a database of its own.
    let pool = pool(options, 1).await.map_err(failed)?;
    prepare(&mut *pool.acquire().await.map_err(failed)?, place).await?;
    Ok(Pools { readers: pool.clone(), writer: pool, written: AtomicU64::new(0) })
}

async fn pool(options: SqliteConnectOptions, connections: u32) -> sqlx::Result<SqlitePool> {
    SqlitePoolOptions::new()
        .max_connections(connections)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(2 * BUSY)
        // A full disk ends a transaction inside SQLite; there is nothing to undo then, and sqlx goes on counting it: such
        // a connection would refuse every transaction from then on.
        .before_acquire(|connection, _| {
            let is_free = !connection.is_in_transaction();
            Box::pin(std::future::ready(Ok(is_free)))
        })
        .connect_with(options)
        .await
}

/// The connections to one file.
pub(crate) struct Pools {
    pub(crate) readers: SqlitePool,
    /// Always the same connection: what another one had written, it would have to read again.
    pub(crate) writer: SqlitePool,
    written: AtomicU64,
}

impl Pools {
    /// Writes the log back into the file, and ends the connections once their queries have ended.
    pub(crate) async fn close(&self) {
        // Not left to SQLite: of two connections that close at once neither is the last, and neither writes it back.
        if let Err(error) = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.writer).await {
            tracing::debug!("the log stays beside the store until the next start: {error}");
        }
        self.readers.close().await;
        self.writer.close().await;
    }

    /// So many rows were written: from time to time the log is looked after. SQLite lets it begin anew when nobody
    /// reads, which may be never; this waits for those who read now, and not for those who come meanwhile.
    pub(crate) async fn wrote(&self, rows: u64) -> sqlx::Result<()> {
        let before = self.written.fetch_add(rows, Ordering::Relaxed);
        if before / ROWS_OF_LOG == (before + rows) / ROWS_OF_LOG {
            return Ok(());
        }
        let mut connection = self.writer.acquire().await?;
        let row = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(&mut *connection).await?;
        if row.try_get::<i64, _>("log")? > LONG_LOG {
            sqlx::query(LOG_PATIENCE).execute(&mut *connection).await?;
            let done = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut *connection).await;
            sqlx::query("PRAGMA busy_timeout = 5000").execute(&mut *connection).await?;
            done?;
        }
        Ok(())
    }
}

/// One immediate transaction: it fails at once on a file that cannot be written, and of two programs that start
/// together the second finds the work done.
async fn prepare(connection: &mut SqliteConnection, place: &str) -> Result<()> {
    let failed = |error: sqlx::Error| describe(place, &error);
    let version: String = sqlx::query("SELECT sqlite_version()")
        .fetch_one(&mut *connection)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)?;
    if !is_new_enough(&version) {
        return Err(Error::OldSqlite(version));
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    // Not `run`: its future is not Send for every lifetime, as its authors note.
    migrator().run_direct(None, &mut *transaction, false).await.map_err(|error| match error {
        MigrateError::VersionMissing(found) => newer(place, found),
        other => Error::Failed { place: place.to_owned(), reason: one_line(&other.to_string()) },
    })?;
    transaction.commit().await.map_err(failed)
}

/// Every schema change, oldest first. A file that was released is never edited: a change is a new file.
fn migrator() -> Migrator {
    let change = |version, name: &'static str, sql: &'static str| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(vec![
        change(1, "keys", include_str!("../migrations/0001_keys.sql")),
        change(2, "limits and ledger", include_str!("../migrations/0002_limits_and_ledger.sql")),
        change(3, "revision", include_str!("../migrations/0003_revision.sql")),
        change(4, "cheaper indices", include_str!("../migrations/0004_cheaper_indices.sql")),
        change(5, "short rows", include_str!("../migrations/0005_short_rows.sql")),
        change(6, "payloads", include_str!("../migrations/0006_payloads.sql")),
        change(7, "rows in order", include_str!("../migrations/0007_rows_in_order.sql")),
        change(8, "burst and on_budget", include_str!("../migrations/0008_burst_and_on_budget.sql")),
    ])
}

fn newer(place: &str, found: i64) -> Error {
    let known = migrator().iter().map(|migration| migration.version).max().unwrap_or_default();
    Error::Newer { place: place.to_owned(), found, known }
}

/// Makes the file if it is missing, readable by its owner alone (SQLite gives its log the same mode). True when there
/// is something in it already.
fn create_private(path: &Path) -> Result<bool> {
    let failed = |error: io::Error| {
        let (place, reason) = (path.display().to_string(), error.to_string());
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::ReadOnly { place, reason }
            }
            _ => Error::Failed { place, reason },
        }
    };
    match private::new_file().write(true).open(path) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Opened, and not touched: SQLite's own words for a file that cannot be written are no help.
            let found = OpenOptions::new().append(true).open(path).and_then(|file| file.metadata());
            found.map(|found| found.len() > 0).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Looks at a file that was there before us through a connection that cannot write, so that one we must not use is
/// left to the byte as it was found.
async fn probe(path: &Path) -> Result<()> {
    let place = path.display().to_string();
    // SQLite takes a file shorter than one page for a new database and would write over it.
    let mut header = [0; 512];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    if read.is_err() || !header.starts_with(b"SQLite format 3\0") {
        return Err(Error::Damaged { place, reason: "no SQLite header".to_owned() });
    }
    let failed = |error: sqlx::Error| describe(&place, &error);
    let options = SqliteConnectOptions::new().filename(path).read_only(true).disable_statement_logging();
    let mut connection = options.connect().await.map_err(failed)?;
    let found = schema(&mut connection).await.map_err(failed)?;
    connection.close().await.map_err(failed)?;
    match found {
        Schema::Empty => Ok(()),
        Schema::Version(version) if migrator().version_exists(version) => Ok(()),
        Schema::Version(version) => Err(newer(&place, version)),
        Schema::Foreign => Err(Error::Damaged { place, reason: "another program's tables".to_owned() }),
        Schema::Damaged(reason) => Err(Error::Damaged { place, reason: one_line(&reason) }),
    }
}

/// What a file holds.
enum Schema {
    Empty,
    Version(i64),
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
    let version: Option<i64> = sqlx::query("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(&mut *connection)
        .await?
        .try_get(0)?;
    // One small table: the whole file would take its time when the ledger has grown.
    let verdict: String = sqlx::query("PRAGMA quick_check(keys)").fetch_one(connection).await?.try_get(0)?;
    Ok(match version {
        _ if verdict != "ok" => Schema::Damaged(verdict),
        None => Schema::Empty,
        Some(version) => Schema::Version(version),
    })
}

fn is_new_enough(version: &str) -> bool {
    let parts: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    parts.as_slice() >= OLDEST_SQLITE.as_slice()
}

/// SQLite's primary result codes that deserve words of their own.
pub(crate) fn describe(place: &str, error: &sqlx::Error) -> Error {
    let place = place.to_owned();
    let sqlx::Error::Database(database) = error else {
        return Error::Failed { place, reason: one_line(&error.to_string()) };
    };
    let reason = one_line(database.message());
    if database.is_unique_violation() {
        return Error::Taken { place };
    }
    match database.code().and_then(|code| code.parse::<u32>().ok()).map(|code| code & 0xff) {
        Some(11 | 26) => Error::Damaged { place, reason },
        Some(5 | 6) => Error::Busy { place },
        Some(8) => Error::ReadOnly { place, reason },
        // In WAL mode even a reader makes files beside it.
        Some(14) => {
            Error::ReadOnly { place, reason: format!("{reason}; its directory must be writable too") }
        }
        _ => Error::Failed { place, reason },
    }
}

#[cfg(test)]
mod tests;
