//! The SQLite file: opens it with its pragmas and migrations, or leaves it unchanged if it cannot be used.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::migrate::MigrateError;
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool,
    SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, Row, Sqlite, Transaction};

use crate::error::{Error, Result, one_line};
use crate::private;
use crate::sql::Sql;

mod fresh;
mod migrations;

use self::migrations::{examine, migrator, newer};
pub(crate) use self::migrations::{newest_version, probe};

/// Older versions can corrupt the file when they reset the write-ahead log.
const OLDEST_SQLITE: [u32; 3] = [3, 51, 3];

/// How long to wait for a lock of another process.
const BUSY: Duration = Duration::from_secs(5);

/// Bytes to which a write-ahead log is truncated after a long read has let it grow.
const LOG_LIMIT: &str = "16777216";

/// Number of connections for reading, so that a long report does not block other readers.
const READERS: u32 = 3;
/// Rows of a KiB between two checks of the write-ahead log: about 10 MiB.
const ROWS_OF_LOG: u64 = 10_000;

/// Pages of the write-ahead log (16 MiB) above which it is truncated.
const MAX_LOG_PAGES: i64 = 4_096;
/// SQLite's steps between two readings of the clock in a search: about a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;
/// The bytes that the write-ahead log never exceeds.
const MAX_LOG_BYTES: u64 = 64 << 20;
/// The bytes that are left for a transaction of unknown size.
const USUAL_BYTES: u64 = 24 << 20;
/// The most bytes of one transaction of known size.
pub(crate) const MAX_TRANSACTION_BYTES: u64 = 56 << 20;
/// SQLite's extended result code if the index of the write-ahead log cannot be created or extended. It is the first write of a start.
const IOERR_SHMSIZE: u32 = 4874;
/// How often a transaction asks for room in the log while others fill it.
const BEGIN_ATTEMPTS: usize = 4;
/// How long truncating waits for readers.
const TRUNCATE_TIMEOUT: &str = "PRAGMA busy_timeout = 400";

/// Opens the file, creates it if it is missing, and brings its schema up to date.
pub(crate) async fn open(path: &Path) -> Result<SqlitePools> {
    // SQLite does not wait while another process switches the file to WAL, so this waits.
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

async fn open_once(path: &Path) -> Result<SqlitePools> {
    let is_new = fresh::make(path).await;
    // A file that was used before has the settings of the file itself. To make them again would cost three syncs.
    let mut is_set_up = is_new;
    if !is_new && create_private(path)? {
        let found = examine(path).await?;
        is_set_up = found.is_some_and(|found| found.is_complete()) && has_settings(path);
    }
    // The database, its log and the log's index may have been created by an older version with other permissions.
    for ending in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(ending);
        private::tighten(Path::new(&file));
    }
    let location = path.display().to_string();
    let failed = |error: sqlx::Error| describe(&location, &error);
    let options = SqliteConnectOptions::new()
        .filename(path)
        .synchronous(SqliteSynchronous::Normal)
        .foreign_keys(true)
        .pragma("journal_size_limit", LOG_LIMIT)
        .busy_timeout(BUSY)
        .thread_name(|id| format!("store-{id}"))
        .disable_statement_logging();
    let preparing = async {
        if is_new {
            return Ok(None);
        }
        let mut first = options.clone();
        if !is_set_up {
            // Settings of the file itself are made once, because they need a lock: a later connection must not wait for
            // another process's lock.
            first = first.auto_vacuum(SqliteAutoVacuum::Incremental).journal_mode(SqliteJournalMode::Wal);
        }
        let mut connection = first.connect().await.map_err(failed)?;
        prepare(&mut connection, &location).await?;
        Ok(Some(connection))
    };
    let connecting = async {
        // Fewer checkpoints copy a page that is written repeatedly only once.
        let writing = options.clone().pragma("wal_autocheckpoint", "4000").pragma("cache_size", "-2048");
        tokio::try_join!(pool(options.clone(), READERS), pool(writing, 1)).map_err(failed)
    };
    // Each connection has a thread, so those of a file that needs no change open side by side.
    let (first, (readers, writer)) = if is_set_up {
        tokio::try_join!(preparing, connecting)?
    } else {
        (preparing.await?, connecting.await?)
    };
    if let Some(connection) = first {
        connection.close().await.map_err(failed)?;
    }
    Ok(SqlitePools { readers, writer, written: AtomicU64::new(0), log: Some(beside(path, "-wal")) })
}

/// Whether the head of the file tells the settings of the file itself: the write-ahead log and the incremental vacuum.
fn has_settings(path: &Path) -> bool {
    let mut head = [0; 68];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    let vacuum: &[u8] = head.get(64..).unwrap_or_default();
    read.is_ok() && head.get(18..20) == Some(&[2, 2]) && vacuum.iter().any(|byte| *byte != 0)
}

/// The path with this ending behind its last name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// A database in memory that ends with the process.
pub(crate) async fn in_memory() -> Result<SqlitePools> {
    let location = ":memory:";
    let failed = |error: sqlx::Error| describe(location, &error);
    let options = SqliteConnectOptions::new().in_memory(true).foreign_keys(true).disable_statement_logging();
    // One connection, because each connection in memory has its own database.
    let pool = pool(options, 1).await.map_err(failed)?;
    prepare(&mut *pool.acquire().await.map_err(failed)?, location).await?;
    Ok(SqlitePools { readers: pool.clone(), writer: pool, written: AtomicU64::new(0), log: None })
}

async fn pool(options: SqliteConnectOptions, connections: u32) -> sqlx::Result<SqlitePool> {
    SqlitePoolOptions::new()
        .max_connections(connections)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(2 * BUSY)
        // A full disk ends a transaction inside SQLite, so there is nothing to roll back, but sqlx still counts the
        // transaction. Such a connection would refuse every later transaction.
        .before_acquire(|connection, _| {
            let is_free = !connection.is_in_transaction();
            Box::pin(std::future::ready(Ok(is_free)))
        })
        .connect_with(options)
        .await
}

/// A search that runs. The connection keeps the handler that ends it, which lets other statements pass afterwards.
struct RunningSearch(Arc<AtomicBool>);

impl Default for RunningSearch {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Drop for RunningSearch {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The connections to one file.
pub(crate) struct SqlitePools {
    pub(crate) readers: SqlitePool,
    /// One fixed connection: another one would have to read again what this one has cached.
    pub(crate) writer: SqlitePool,
    written: AtomicU64,
    /// The file of the write-ahead log. None: the database is in memory and has none.
    log: Option<PathBuf>,
}

impl SqlitePools {
    /// Writes the log back into the file, and closes the connections after their queries.
    pub(crate) async fn close(&self) {
        // Done explicitly: if two connections close at once, SQLite takes neither for the last one and keeps the log.
        if let Err(error) = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.writer).await {
            tracing::debug!("the write-ahead log stays until the next start: {error}");
        }
        self.readers.close().await;
        self.writer.close().await;
    }

    /// Runs a search for at most `limit`, after which SQLite interrupts it.
    pub(crate) async fn search(&self, sql: Sql<'_>, limit: Duration) -> sqlx::Result<Vec<SqliteRow>> {
        let mut connection = self.readers.acquire().await?;
        let (begun, search) = (Instant::now(), RunningSearch::default());
        let is_running = Arc::clone(&search.0);
        let may_continue = move || !is_running.load(Ordering::Relaxed) || begun.elapsed() < limit;
        connection.lock_handle().await?.set_progress_handler(STEPS_BETWEEN_LOOKS, may_continue);
        sql.for_sqlite().fetch_all(&mut *connection).await
    }

    /// Counts written rows and occasionally truncates the log. SQLite restarts the log only while no reader is active, which may
    /// never happen. Truncating waits for the current readers but not for later ones.
    pub(crate) async fn wrote(&self, rows: u64) -> sqlx::Result<()> {
        let before = self.written.fetch_add(rows, Ordering::Relaxed);
        if before / ROWS_OF_LOG == (before + rows) / ROWS_OF_LOG {
            return Ok(());
        }
        self.shorten(MAX_LOG_PAGES).await
    }

    /// Whether the log has room for a transaction of this size. A log without it is truncated first, which waits for readers.
    /// Without this, a reader that does not end lets the log grow as fast as the disk takes it.
    pub(crate) async fn has_room(&self, bytes: u64) -> sqlx::Result<bool> {
        if self.fits(bytes) {
            return Ok(true);
        }
        self.shorten(0).await?;
        Ok(self.fits(bytes))
    }

    /// Begins a write transaction of about this size if the log has room for it. Other writers that were waiting for the
    /// connection may have filled the log meanwhile.
    pub(crate) async fn begin(&self, bytes: u64) -> sqlx::Result<Option<Transaction<'static, Sqlite>>> {
        for _ in 0..BEGIN_ATTEMPTS {
            if !self.has_room(bytes).await? {
                return Ok(None);
            }
            let change = self.writer.begin_with("BEGIN IMMEDIATE").await?;
            if self.fits(bytes) {
                return Ok(Some(change));
            }
            change.rollback().await?;
        }
        Ok(None)
    }

    fn fits(&self, bytes: u64) -> bool {
        // The system has the size of an open file in memory, so this does not wait for the disk.
        let size = self.log.as_ref().and_then(|log| fs::metadata(log).ok()).map_or(0, |log| log.len());
        // Each page of the log has a head, and a few pages beside the data change, too.
        let bytes = bytes.saturating_add(bytes / 64).max(USUAL_BYTES);
        size.saturating_add(bytes) <= MAX_LOG_BYTES
    }

    /// Truncates the log if it has more pages than this and nobody reads from it.
    async fn shorten(&self, pages: i64) -> sqlx::Result<()> {
        let mut connection = self.writer.acquire().await?;
        let row = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(&mut *connection).await?;
        if row.try_get::<i64, _>("log")? > pages {
            sqlx::query(TRUNCATE_TIMEOUT).execute(&mut *connection).await?;
            let done = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut *connection).await;
            sqlx::query("PRAGMA busy_timeout = 5000").execute(&mut *connection).await?;
            done?;
        }
        Ok(())
    }
}

/// Runs the migrations in one immediate transaction: it fails at once on a read-only file, and of two processes that start
/// at the same time the second finds the work done.
async fn prepare(connection: &mut SqliteConnection, location: &str) -> Result<()> {
    let failed = |error: sqlx::Error| describe(location, &error);
    let version: String = sqlx::query("SELECT sqlite_version()")
        .fetch_one(&mut *connection)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)?;
    if !is_new_enough(&version) {
        return Err(Error::OldSqlite(version));
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    // The future of `run` is not Send for every lifetime, as its authors note.
    migrator().run_direct(None, &mut *transaction, false).await.map_err(|error| match error {
        MigrateError::VersionMissing(found) => newer(location, found),
        other => Error::Failed { location: location.to_owned(), reason: one_line(&other.to_string()) },
    })?;
    transaction.commit().await.map_err(failed)
}

/// Creates the file if it is missing, readable only by its owner (SQLite gives its log the same mode). Returns true if it
/// exists and is not empty.
fn create_private(path: &Path) -> Result<bool> {
    let failed = |error: io::Error| {
        let (location, reason) = (path.display().to_string(), error.to_string());
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::ReadOnly { location, reason }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull { location },
            _ => Error::Failed { location, reason },
        }
    };
    match private::new_file().write(true).open(path) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Opened without writing: SQLite's own message about a read-only file is not helpful.
            let found = OpenOptions::new().append(true).open(path).and_then(|file| file.metadata());
            found.map(|found| found.len() > 0).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// A connection that cannot write.
pub(crate) async fn read_only(path: &Path) -> sqlx::Result<SqliteConnection> {
    let options = SqliteConnectOptions::new().filename(path).read_only(true).busy_timeout(BUSY);
    options.disable_statement_logging().connect().await
}

fn is_new_enough(version: &str) -> bool {
    let parts: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    parts.as_slice() >= OLDEST_SQLITE.as_slice()
}

/// The error for SQLite's primary result code.
pub(crate) fn describe(location: &str, error: &sqlx::Error) -> Error {
    let location = location.to_owned();
    let sqlx::Error::Database(database) = error else {
        return Error::Failed { location, reason: one_line(&error.to_string()) };
    };
    let reason = one_line(database.message());
    if database.is_unique_violation() {
        return Error::Taken { location };
    }
    let code = database.code().and_then(|code| code.parse::<u32>().ok());
    if code == Some(IOERR_SHMSIZE) {
        return Error::DiskFull { location: format!("{location}-shm") };
    }
    match code.map(|code| code & 0xff) {
        Some(10) => Error::Failed {
            location,
            reason: format!(
                "{reason}: the disk refuses a read or a write; the log of the system may say why"
            ),
        },
        Some(11 | 26) => Error::Damaged { location, reason },
        Some(5 | 6) => Error::Busy { location },
        Some(8) => Error::ReadOnly { location, reason },
        Some(13) => Error::DiskFull { location },
        // In WAL mode even a reader creates files in the directory.
        Some(14) => Error::ReadOnly {
            location,
            reason: format!("{reason}; its directory must be writable, and have room for another file"),
        },
        _ => Error::Failed { location, reason },
    }
}

#[cfg(test)]
mod tests;
