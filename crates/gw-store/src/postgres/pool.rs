//! A small connection pool for one server. Every wait has a deadline: a connection whose statement timed out, was cancelled
//! or failed is closed and never reused or waited for.
//!
//! sqlx's pool tests each returned connection without a deadline, so a hanging server would use up its slots.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, TryStreamExt};
use parking_lot::Mutex;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Either, Executor};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::migrate::{self, SchemaReport};
use super::{BEGIN, BEGIN_SEARCH, BEGIN_SNAPSHOT, DatabaseUrl, TIMEOUT, listener};
use crate::error::Result;
use crate::sql::Sql;

/// Maximum number of connections.
const CONNECTIONS: usize = 8;
/// Time in which a connection that was idle must answer.
const LIVENESS_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of rows of a result.
const MAX_ROWS: usize = 500_000;

pub(crate) struct Pool {
    pub(crate) address: DatabaseUrl,
    idle: Mutex<Vec<PgConnection>>,
    slots: Semaphore,
    /// Notified when any process has changed a key or a team.
    pub(crate) news: Arc<Notify>,
    listener: Mutex<Option<AbortHandle>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("place", &self.address.location).finish_non_exhaustive()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get_mut().take() {
            listener.abort();
        }
    }
}

impl Pool {
    /// Connects, brings the schema up to date and starts to listen for changes.
    pub(crate) async fn open(address: DatabaseUrl) -> Result<Self> {
        let pool = Self::unopened(address);
        migrate::run(&pool).await?;
        let task = tokio::spawn(listener::run(pool.address.clone(), Arc::clone(&pool.news)));
        *pool.listener.lock() = Some(task.abort_handle());
        Ok(pool)
    }

    fn unopened(address: DatabaseUrl) -> Self {
        Self {
            address,
            idle: Mutex::default(),
            slots: Semaphore::new(CONNECTIONS),
            news: Arc::default(),
            listener: Mutex::default(),
        }
    }

    /// Connects without changing the database. Returns what [`migrate::inspect`] found.
    pub(crate) async fn inspect(address: DatabaseUrl) -> Result<SchemaReport> {
        let pool = Self::unopened(address);
        let report = migrate::inspect(&pool).await;
        pool.close().await;
        report
    }

    /// Runs one statement in its own transaction: PgBouncer could otherwise divide it between two connections.
    pub(crate) async fn run(&self, sql: Sql<'_>) -> sqlx::Result<(Vec<PgRow>, u64)> {
        self.run_after(BEGIN, sql).await
    }

    /// As [`Pool::run`], for a search: the server gives it less time.
    pub(crate) async fn search(&self, sql: Sql<'_>) -> sqlx::Result<Vec<PgRow>> {
        self.run_after(BEGIN_SEARCH, sql).await.map(|(rows, _)| rows)
    }

    async fn run_after(&self, begin: &'static str, sql: Sql<'_>) -> sqlx::Result<(Vec<PgRow>, u64)> {
        let mut held = self.begin_with(begin, TIMEOUT).await?;
        match held.run(sql).await {
            Ok(done) => held.commit().await.map(|()| done),
            Err(error) => {
                if held.is_sound {
                    let _ = held.rollback().await;
                }
                Err(error)
            }
        }
    }

    /// Begins a transaction whose statements together take at most `TIMEOUT`. Without a commit it is rolled back.
    pub(crate) async fn begin(&self) -> sqlx::Result<PooledConnection<'_>> {
        self.begin_with(BEGIN, TIMEOUT).await
    }

    /// As [`Pool::begin`], for statements that read one moment.
    pub(crate) async fn begin_snapshot(&self) -> sqlx::Result<PooledConnection<'_>> {
        self.begin_with(BEGIN_SNAPSHOT, TIMEOUT).await
    }

    pub(super) async fn begin_with(
        &self,
        begin: &'static str,
        patience: Duration,
    ) -> sqlx::Result<PooledConnection<'_>> {
        let deadline = Instant::now() + patience;
        let slot = tokio::time::timeout_at(deadline, self.slots.acquire()).await;
        let slot = slot.map_err(|_| late())?.map_err(|_| sqlx::Error::PoolClosed)?;
        let mut held = PooledConnection {
            pool: self,
            connection: None,
            _slot: slot,
            deadline,
            is_sound: false,
            is_open: false,
        };
        // The answer to BEGIN shows whether an idle connection is still alive.
        while let Some(connection) = self.take() {
            held.connection = Some(connection);
            held.deadline = deadline.min(Instant::now() + LIVENESS_TIMEOUT);
            if held.query(sqlx::raw_sql(begin)).await.is_ok() {
                held.is_open = true;
                held.deadline = deadline;
                return Ok(held);
            }
            held.connection = None;
        }
        held.deadline = deadline;
        // Boxed, because it is large and rarely needed.
        let connecting = Box::pin(PgConnection::connect_with(&self.address.options));
        held.connection = Some(guarded(deadline, connecting).await??);
        held.query(sqlx::raw_sql(begin)).await?;
        held.is_open = true;
        Ok(held)
    }

    fn take(&self) -> Option<PgConnection> {
        self.idle.lock().pop()
    }

    /// Closes all connections. Running statements may finish first.
    pub(crate) async fn close(&self) {
        if let Some(listener) = self.listener.lock().take() {
            listener.abort();
        }
        let _ = tokio::time::timeout(TIMEOUT, self.slots.acquire_many(CONNECTIONS as u32)).await;
        self.slots.close();
        while let Some(connection) = self.take() {
            let _ = tokio::time::timeout(LIVENESS_TIMEOUT, connection.close()).await;
        }
    }

    /// The number of connections in use and of idle ones.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        (CONNECTIONS - self.slots.available_permits(), self.idle.lock().len())
    }
}

/// A connection in use.
pub(crate) struct PooledConnection<'p> {
    pool: &'p Pool,
    connection: Option<PgConnection>,
    _slot: SemaphorePermit<'p>,
    deadline: Instant,
    /// Whether no statement was interrupted, so that the connection can be reused.
    is_sound: bool,
    /// Whether a transaction has begun and not ended.
    is_open: bool,
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && self.is_sound
            && !self.is_open
        {
            self.pool.idle.lock().push(connection);
        }
    }
}

impl PooledConnection<'_> {
    /// Runs a statement; returns its rows and the number of written rows.
    pub(crate) async fn run(&mut self, sql: Sql<'_>) -> sqlx::Result<(Vec<PgRow>, u64)> {
        self.query(sql.for_postgres()).await
    }

    /// As [`PooledConnection::run`], for any query.
    pub(crate) async fn query<'q>(
        &mut self,
        query: impl sqlx::Execute<'q, sqlx::Postgres> + 'q,
    ) -> sqlx::Result<(Vec<PgRow>, u64)> {
        let Some(connection) = &mut self.connection else { return Err(late()) };
        self.is_sound = false;
        let answer = async {
            let (mut rows, mut written) = (Vec::new(), 0);
            let mut stream = connection.fetch_many(query);
            while let Some(next) = stream.try_next().await? {
                match next {
                    Either::Left(done) => written += done.rows_affected(),
                    Either::Right(row) => rows.push(row),
                }
                if rows.len() > MAX_ROWS {
                    return Err(sqlx::Error::Protocol("the result has too many rows".to_owned()));
                }
            }
            Ok((rows, written))
        };
        let answer = guarded(self.deadline, answer).await?;
        // A statement that the server rejects leaves the connection intact.
        self.is_sound = matches!(answer, Ok(_) | Err(sqlx::Error::Database(_)));
        answer
    }

    /// Commits. After an error it is unknown whether the transaction was committed.
    pub(crate) async fn commit(mut self) -> sqlx::Result<()> {
        self.query(sqlx::raw_sql("COMMIT")).await?;
        self.is_open = false;
        Ok(())
    }

    /// Rolls back all statements since [`Pool::begin`].
    pub(crate) async fn rollback(mut self) -> sqlx::Result<()> {
        self.query(sqlx::raw_sql("ROLLBACK")).await?;
        self.is_open = false;
        Ok(())
    }
}

fn late() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time"))
}

/// Runs work with a deadline and catches the driver's panics: malformed answers of a server can make it panic.
pub(super) async fn guarded<T>(deadline: Instant, work: impl Future<Output = T>) -> sqlx::Result<T> {
    let work = AssertUnwindSafe(work).catch_unwind();
    match tokio::time::timeout_at(deadline, work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => {
            Err(sqlx::Error::Protocol("the server's answer is not PostgreSQL's protocol".to_owned()))
        }
        Err(_) => Err(late()),
    }
}
