//! The store: where it is, and how its statements are run, whichever database it is.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
use sqlx::sqlite::SqlitePool;
use sqlx::{Sqlite, Transaction};

pub use crate::error::{Error, Result};
use crate::ledger::Groups;
use crate::postgres::{Address, Held, Pool};
use crate::sql::{Row, Sql};
use crate::sqlite;

/// How often the revision is worth a look.
const POLL: Duration = Duration::from_millis(500);

/// The store: an embedded SQLite file, or a PostgreSQL database that several replicas share. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    base: Base,
    place: Arc<str>,
    /// What SQLite's writer knows of the ledger's groups.
    pub(crate) groups: Arc<Groups>,
}

#[derive(Clone)]
enum Base {
    Sqlite(Arc<sqlite::Pools>),
    Postgres(Arc<Pool>),
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Store {
    fn of(base: Base, place: &str) -> Self {
        Self { base, place: place.into(), groups: Arc::default() }
    }

    /// Opens the file, makes it if it is missing, and brings its schema up to date. A file that cannot be used is left
    /// as it is.
    ///
    /// # Errors
    /// The one line to show an operator.
    pub async fn open(path: &Path) -> Result<Self> {
        let base = Base::Sqlite(Arc::new(sqlite::open(path).await?));
        Ok(Self::of(base, &path.display().to_string()))
    }

    /// A store that ends with the program.
    ///
    /// # Errors
    /// None that an operator could do something about.
    pub async fn in_memory() -> Result<Self> {
        Ok(Self::of(Base::Sqlite(Arc::new(sqlite::in_memory().await?)), ":memory:"))
    }

    /// Opens the store of a URL: `sqlite:…` as [`Store::open`] and [`Store::in_memory`] do, `postgres://…` or
    /// `postgresql://…` by bringing the schema of the database up to date. Tries once, for some seconds at most.
    ///
    /// # Errors
    /// The one line to show an operator, without the URL's password. [`Error::is_passing`] when it is worth another
    /// try.
    pub async fn open_url(url: &str) -> Result<Self> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let pool = Pool::open(Address::parse(url)?).await?;
            let place = pool.address.place.clone();
            return Ok(Self::of(Base::Postgres(Arc::new(pool)), &place));
        }
        let path = url.strip_prefix("sqlite:").ok_or(Error::Url("is neither sqlite:// nor postgres://"))?;
        match path.strip_prefix("//").unwrap_or(path) {
            ":memory:" => Self::in_memory().await,
            path => Self::open(Path::new(path)).await,
        }
    }

    /// Whether the store still answers.
    pub async fn ping(&self) -> Result<()> {
        self.all(Sql::new("SELECT 1")).await.map(drop)
    }

    /// A number that grows with every change of a key or a team, by whichever program.
    pub async fn revision(&self) -> Result<i64> {
        self.only(Sql::new("SELECT number FROM revision"), |row| row.get("number")).await
    }

    /// Resolves when [`Store::revision`] may have grown: at once when PostgreSQL says so, else after half a second.
    pub async fn changed(&self) {
        match &self.base {
            Base::Sqlite(..) => tokio::time::sleep(POLL).await,
            Base::Postgres(pool) => {
                let _ = tokio::time::timeout(POLL, pool.news.notified()).await;
            }
        }
    }

    /// Waits for running queries and ends the connections; SQLite's log is written back into the file.
    pub async fn close(&self) {
        match &self.base {
            Base::Sqlite(pools) => pools.close().await,
            Base::Postgres(pool) => pool.close().await,
        }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.base, Base::Postgres(_))
    }

    #[cfg(test)]
    pub(crate) fn sqlite(&self) -> &SqlitePool {
        match &self.base {
            Base::Sqlite(pools) => &pools.readers,
            Base::Postgres(_) => panic!("this is not SQLite"),
        }
    }

    #[cfg(test)]
    pub(crate) fn postgres(&self) -> &Pool {
        match &self.base {
            Base::Postgres(pool) => pool,
            Base::Sqlite(..) => panic!("this is not PostgreSQL"),
        }
    }

    /// The rows of a statement.
    pub(crate) async fn all(&self, sql: Sql<'_>) -> Result<Vec<Row>> {
        let rows = match &self.base {
            Base::Sqlite(pools) => sql.for_sqlite().fetch_all(&pools.readers).await.map(sqlite_rows),
            Base::Postgres(pool) => pool.run(sql).await.map(|(rows, _)| postgres_rows(rows)),
        };
        rows.map_err(|error| self.error(&error))
    }

    /// The rows of a statement, read.
    pub(crate) async fn list<T>(
        &self,
        sql: Sql<'_>,
        read: impl Fn(&Row) -> sqlx::Result<T>,
    ) -> Result<Vec<T>> {
        let rows = self.all(sql).await?;
        rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(|error| self.error(&error))
    }

    /// The first row of a statement, read.
    pub(crate) async fn first<T>(
        &self,
        sql: Sql<'_>,
        read: impl Fn(&Row) -> sqlx::Result<T>,
    ) -> Result<Option<T>> {
        let rows = self.all(sql).await?;
        rows.first().map(read).transpose().map_err(|error| self.error(&error))
    }

    /// The row of a statement that always has one, read.
    pub(crate) async fn only<T>(&self, sql: Sql<'_>, read: impl Fn(&Row) -> sqlx::Result<T>) -> Result<T> {
        self.first(sql, read).await?.ok_or_else(|| self.error(&sqlx::Error::RowNotFound))
    }

    /// Runs a statement; says how many rows it wrote.
    pub(crate) async fn run(&self, sql: Sql<'_>) -> Result<u64> {
        let written = match &self.base {
            Base::Sqlite(pools) => {
                sql.for_sqlite().execute(&pools.writer).await.map(|done| done.rows_affected())
            }
            Base::Postgres(pool) => pool.run(sql).await.map(|(_, written)| written),
        };
        written.map_err(|error| self.error(&error))
    }

    /// A transaction that will write. On SQLite nobody else writes meanwhile. One that is not committed is undone.
    pub(crate) async fn begin(&self) -> Result<Change<'_>> {
        let change = match &self.base {
            Base::Sqlite(pools) => pools.writer.begin_with("BEGIN IMMEDIATE").await.map(Change::Sqlite),
            Base::Postgres(pool) => pool.begin().await.map(Change::Postgres),
        };
        change.map_err(|error| self.error(&error))
    }

    /// So many rows were written: from time to time SQLite's log is looked after.
    pub(crate) async fn wrote(&self, rows: u64) {
        let Base::Sqlite(pools) = &self.base else { return };
        if let Err(error) = pools.wrote(rows).await {
            tracing::debug!("the write-ahead log stays as long as it is: {error}");
        }
    }

    pub(crate) fn error(&self, error: &sqlx::Error) -> Error {
        match &self.base {
            Base::Sqlite(..) => sqlite::describe(&self.place, error),
            Base::Postgres(pool) => pool.address.error(error),
        }
    }
}

/// A transaction.
pub(crate) enum Change<'s> {
    Sqlite(Transaction<'s, Sqlite>),
    Postgres(Held<'s>),
}

impl Change<'_> {
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
