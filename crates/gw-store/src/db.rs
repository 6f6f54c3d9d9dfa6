//! The store: opens a database of either kind and runs statements on it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
use sqlx::sqlite::SqlitePool;
use sqlx::{Sqlite, Transaction};

pub use crate::error::{Error, Result};
use crate::ledger::groups::Groups;
use crate::ledger::known_days::KnownDays;
use crate::postgres::{DatabaseUrl, Pool, PooledConnection};
use crate::sql::{Row, Sql};
use crate::sqlite;

/// The longest time of a search. Callers choose what is searched for, and a search takes a connection and a processor.
pub(crate) const MAX_SEARCH_TIME: Duration = Duration::from_secs(2);

/// How often SQLite's revision is polled.
const POLL: Duration = Duration::from_millis(500);

/// Bytes that count as one row for the write-ahead log.
pub(crate) const BYTES_PER_ROW: usize = 1024;

/// The store: an embedded SQLite file, or a PostgreSQL database that several replicas share. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    backend: Backend,
    location: Arc<str>,
    /// The numbers of the ledger's groups, as far as SQLite's writer knows them.
    pub(crate) groups: Arc<Groups>,
    /// Where the sums by day end, as far as this process knows.
    pub(crate) days: Arc<KnownDays>,
}

#[derive(Clone)]
enum Backend {
    Sqlite(Arc<sqlite::SqlitePools>),
    Postgres(Arc<Pool>),
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("location", &self.location).finish_non_exhaustive()
    }
}

impl Store {
    fn of(backend: Backend, location: &str) -> Self {
        Self { backend, location: location.into(), groups: Arc::default(), days: Arc::default() }
    }

    /// Opens the file, creates it if it is missing, and brings its schema up to date. A file that cannot be used is left
    /// unchanged.
    ///
    /// # Errors
    /// One line for the operator.
    pub async fn open(path: &Path) -> Result<Self> {
        let backend = Backend::Sqlite(Arc::new(sqlite::open(path).await?));
        Ok(Self::of(backend, &path.display().to_string()))
    }

    /// A store in memory that ends with the process.
    ///
    /// # Errors
    /// Only if SQLite itself fails.
    pub async fn in_memory() -> Result<Self> {
        Ok(Self::of(Backend::Sqlite(Arc::new(sqlite::in_memory().await?)), ":memory:"))
    }

    /// Opens the store of a URL: `sqlite:…` like [`Store::open`] and [`Store::in_memory`]; `postgres://…` and
    /// `postgresql://…` bring the schema of the database up to date. Tries once, for a few seconds at most.
    ///
    /// # Errors
    /// One line for the operator, without the URL's password. [`Error::is_passing`] says whether to try again.
    pub async fn open_url(url: &str) -> Result<Self> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let pool = Pool::open(DatabaseUrl::parse(url)?).await?;
            let location = pool.address.location.clone();
            return Ok(Self::of(Backend::Postgres(Arc::new(pool)), &location));
        }
        let path = url.strip_prefix("sqlite:").ok_or(Error::Url("is neither sqlite:// nor postgres://"))?;
        match path.strip_prefix("//").unwrap_or(path) {
            ":memory:" => Self::in_memory().await,
            path => Self::open(Path::new(path)).await,
        }
    }

    /// Checks that the store answers.
    pub async fn ping(&self) -> Result<()> {
        self.all(Sql::new("SELECT 1")).await.map(drop)
    }

    /// A number that grows with every change of a key or a team, by any process.
    pub async fn revision(&self) -> Result<i64> {
        self.only(Sql::new("SELECT number FROM revision"), |row| row.get("number")).await
    }

    /// Waits until [`Store::revision`] may have grown: until PostgreSQL reports a change, and at most half a second.
    pub async fn changed(&self) {
        match &self.backend {
            Backend::Sqlite(..) => tokio::time::sleep(POLL).await,
            Backend::Postgres(pool) => {
                let _ = tokio::time::timeout(POLL, pool.news.notified()).await;
            }
        }
    }

    /// Waits for running queries and closes the connections. SQLite's write-ahead log is written back into the file.
    pub async fn close(&self) {
        match &self.backend {
            Backend::Sqlite(pools) => pools.close().await,
            Backend::Postgres(pool) => pool.close().await,
        }
    }

    /// Whether the store is a server that replicas on several machines share.
    #[must_use]
    pub fn is_server(&self) -> bool {
        self.is_postgres()
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.backend, Backend::Postgres(_))
    }

    #[cfg(test)]
    pub(crate) fn sqlite(&self) -> &SqlitePool {
        match &self.backend {
            Backend::Sqlite(pools) => &pools.readers,
            Backend::Postgres(_) => panic!("this is not SQLite"),
        }
    }

    #[cfg(test)]
    pub(crate) fn postgres(&self) -> &Pool {
        match &self.backend {
            Backend::Postgres(pool) => pool,
            Backend::Sqlite(..) => panic!("this is not PostgreSQL"),
        }
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn all(&self, sql: Sql<'_>) -> Result<Vec<Row>> {
        let rows = match &self.backend {
            Backend::Sqlite(pools) => sql.for_sqlite().fetch_all(&pools.readers).await.map(sqlite_rows),
            Backend::Postgres(pool) => pool.run(sql).await.map(|(rows, _)| postgres_rows(rows)),
        };
        rows.map_err(|error| self.error(&error))
    }

    /// Runs a statement and reads each row.
    pub(crate) async fn list<T>(
        &self,
        sql: Sql<'_>,
        read: impl Fn(&Row) -> sqlx::Result<T>,
    ) -> Result<Vec<T>> {
        let rows = self.all(sql).await?;
        rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(|error| self.error(&error))
    }

    /// As [`Store::list`], for a search that its caller has chosen: it ends after [`MAX_SEARCH_TIME`].
    ///
    /// # Errors
    /// [`Error::TooSlow`].
    pub(crate) async fn search<T>(
        &self,
        sql: Sql<'_>,
        read: impl Fn(&Row) -> sqlx::Result<T>,
    ) -> Result<Vec<T>> {
        let rows = match &self.backend {
            Backend::Sqlite(pools) => pools.search(sql, MAX_SEARCH_TIME).await.map(sqlite_rows),
            Backend::Postgres(pool) => pool.search(sql).await.map(postgres_rows),
        };
        let rows = rows.map_err(|error| match &error {
            // PostgreSQL's `query_canceled` and SQLite's SQLITE_INTERRUPT.
            sqlx::Error::Database(database) if matches!(database.code().as_deref(), Some("57014" | "9")) => {
                self.too_slow()
            }
            _ => self.error(&error),
        })?;
        rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(|error| self.error(&error))
    }

    /// Runs a statement and reads the first row.
    pub(crate) async fn first<T>(
        &self,
        sql: Sql<'_>,
        read: impl Fn(&Row) -> sqlx::Result<T>,
    ) -> Result<Option<T>> {
        let rows = self.all(sql).await?;
        rows.first().map(read).transpose().map_err(|error| self.error(&error))
    }

    /// Runs a statement that always returns a row, and reads it.
    pub(crate) async fn only<T>(&self, sql: Sql<'_>, read: impl Fn(&Row) -> sqlx::Result<T>) -> Result<T> {
        self.first(sql, read).await?.ok_or_else(|| self.error(&sqlx::Error::RowNotFound))
    }

    /// Runs a statement and returns the number of written rows.
    pub(crate) async fn run(&self, sql: Sql<'_>) -> Result<u64> {
        self.wait_for_room().await?;
        let written = match &self.backend {
            Backend::Sqlite(pools) => {
                sql.for_sqlite().execute(&pools.writer).await.map(|done| done.rows_affected())
            }
            Backend::Postgres(pool) => pool.run(sql).await.map(|(_, written)| written),
        };
        written.map_err(|error| self.error(&error))
    }

    /// Begins a write transaction. On SQLite it excludes all other writers. Without a commit it is rolled back.
    pub(crate) async fn begin(&self) -> Result<WriteTransaction<'_>> {
        self.begin_large(0).await
    }

    /// As [`Store::begin`], for a transaction that writes about this many bytes.
    pub(crate) async fn begin_large(&self, bytes: u64) -> Result<WriteTransaction<'_>> {
        let change = match &self.backend {
            Backend::Sqlite(pools) => match pools.begin(bytes).await {
                Ok(None) => return Err(self.log_full()),
                Ok(Some(change)) => Ok(WriteTransaction::Sqlite(change)),
                Err(error) => Err(error),
            },
            Backend::Postgres(pool) => pool.begin().await.map(WriteTransaction::Postgres),
        };
        change.map_err(|error| self.error(&error))
    }

    /// Begins a transaction whose statements read one moment. It must not write.
    pub(crate) async fn begin_snapshot(&self) -> Result<WriteTransaction<'_>> {
        let snapshot = match &self.backend {
            Backend::Sqlite(pools) => pools.readers.begin().await.map(WriteTransaction::Sqlite),
            Backend::Postgres(pool) => pool.begin_snapshot().await.map(WriteTransaction::Postgres),
        };
        snapshot.map_err(|error| self.error(&error))
    }

    /// Waits until SQLite's write-ahead log has room for a statement.
    ///
    /// # Errors
    /// [`Error::LogFull`] if a reader has kept the log from being shortened meanwhile.
    async fn wait_for_room(&self) -> Result<()> {
        let Backend::Sqlite(pools) = &self.backend else { return Ok(()) };
        match pools.has_room(0).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.log_full()),
            Err(error) => Err(self.error(&error)),
        }
    }

    /// The error of a search that takes longer than [`MAX_SEARCH_TIME`].
    pub(crate) fn too_slow(&self) -> Error {
        Error::TooSlow { location: self.location.to_string(), seconds: MAX_SEARCH_TIME.as_secs() }
    }

    fn log_full(&self) -> Error {
        Error::LogFull { location: self.location.to_string() }
    }

    /// The most bytes of one transaction. None: there is no bound.
    pub(crate) fn max_transaction_bytes(&self) -> Option<u64> {
        (!self.is_postgres()).then_some(sqlite::MAX_TRANSACTION_BYTES)
    }

    /// Counts written bytes and occasionally shortens SQLite's write-ahead log.
    pub(crate) async fn wrote(&self, bytes: usize) {
        let Backend::Sqlite(pools) = &self.backend else { return };
        if let Err(error) = pools.wrote(bytes.div_ceil(BYTES_PER_ROW) as u64).await {
            tracing::debug!("the write-ahead log was not shortened: {error}");
        }
    }

    pub(crate) fn error(&self, error: &sqlx::Error) -> Error {
        match &self.backend {
            Backend::Sqlite(..) => sqlite::describe(&self.location, error),
            Backend::Postgres(pool) => pool.address.error(error),
        }
    }
}

/// A transaction that writes, or that reads one moment.
pub(crate) enum WriteTransaction<'s> {
    Sqlite(Transaction<'s, Sqlite>),
    Postgres(PooledConnection<'s>),
}

impl WriteTransaction<'_> {
    pub(crate) async fn all(&mut self, sql: Sql<'_>) -> sqlx::Result<Vec<Row>> {
        match self {
            Self::Sqlite(change) => sql.for_sqlite().fetch_all(&mut **change).await.map(sqlite_rows),
            Self::Postgres(held) => held.run(sql).await.map(|(rows, _)| postgres_rows(rows)),
        }
    }

    pub(crate) async fn run(&mut self, sql: Sql<'_>) -> sqlx::Result<u64> {
        match self {
            Self::Sqlite(change) => {
                sql.for_sqlite().execute(&mut **change).await.map(|done| done.rows_affected())
            }
            Self::Postgres(held) => held.run(sql).await.map(|(_, written)| written),
        }
    }

    pub(crate) async fn commit(self) -> sqlx::Result<()> {
        match self {
            Self::Sqlite(change) => change.commit().await,
            Self::Postgres(held) => held.commit().await,
        }
    }

    pub(crate) async fn rollback(self) -> sqlx::Result<()> {
        match self {
            Self::Sqlite(change) => change.rollback().await,
            Self::Postgres(held) => held.rollback().await,
        }
    }
}

fn sqlite_rows(rows: Vec<sqlx::sqlite::SqliteRow>) -> Vec<Row> {
    rows.into_iter().map(Row::Sqlite).collect()
}

fn postgres_rows(rows: Vec<sqlx::postgres::PgRow>) -> Vec<Row> {
    rows.into_iter().map(Row::Postgres).collect()
}

#[cfg(test)]
mod tests;
