//! A few connections to one server. Every wait ends: a connection whose statement did not end in time, was cancelled or
//! went wrong is closed, never given to the next caller and never waited for.
//!
//! Not sqlx's pool, which asks each connection that comes back whether it is well, for as long as that takes: a server
//! that hangs would keep its places.

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

use super::{Address, BEGIN, PATIENCE, listener, migrate};
use crate::error::Result;
use crate::sql::Sql;

/// Connections at one time.
const CONNECTIONS: usize = 8;
/// A connection that was idle is asked whether it still lives, and given this long to say so.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// No answer has more rows than this.
const MOST_ROWS: usize = 500_000;

pub(crate) struct Pool {
    pub(crate) address: Address,
    idle: Mutex<Vec<PgConnection>>,
    places: Semaphore,
    /// Somebody has changed a key or a team.
    pub(crate) news: Arc<Notify>,
    listener: Mutex<Option<AbortHandle>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("place", &self.address.place).finish_non_exhaustive()
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
    /// Connects, brings the schema up to date, and begins to listen for changes.
    pub(crate) async fn open(address: Address) -> Result<Self> {
        let pool = Self {
            address,
            idle: Mutex::default(),
            places: Semaphore::new(CONNECTIONS),
            news: Arc::default(),
            listener: Mutex::default(),
        };
        migrate::run(&pool).await?;
        let task = tokio::spawn(listener::run(pool.address.clone(), Arc::clone(&pool.news)));
        *pool.listener.lock() = Some(task.abort_handle());
        Ok(pool)
    }

    /// One statement, in a transaction of its own (PgBouncer could otherwise divide it between two connections).
    pub(crate) async fn run(&self, sql: Sql<'_>) -> sqlx::Result<(Vec<PgRow>, u64)> {
        let mut held = self.begin().await?;
        match held.run(sql).await {
            Ok(done) => held.commit().await.map(|()| done),
            Err(error) => {
                if held.sound {
                    let _ = held.rollback().await;
                }
                Err(error)
            }
        }
    }

    /// A transaction whose statements together take no longer than `PATIENCE`. One that is not committed is undone.
    pub(crate) async fn begin(&self) -> sqlx::Result<Held<'_>> {
        self.begin_with(BEGIN, PATIENCE).await
    }

    pub(super) async fn begin_with(&self, begin: &'static str, patience: Duration) -> sqlx::Result<Held<'_>> {
        let deadline = Instant::now() + patience;
        let place = tokio::time::timeout_at(deadline, self.places.acquire()).await;
        let place = place.map_err(|_| late())?.map_err(|_| sqlx::Error::PoolClosed)?;
        let mut held =
            Held { pool: self, connection: None, _place: place, deadline, sound: false, open: false };
        // The first answer shows whether a connection that was idle still lives.
        while let Some(connection) = self.take() {
            held.connection = Some(connection);
            held.deadline = deadline.min(Instant::now() + SIGN_OF_LIFE);
            if held.query(sqlx::raw_sql(begin)).await.is_ok() {
                held.open = true;
                held.deadline = deadline;
                return Ok(held);
            }
            held.connection = None;
        }
        held.deadline = deadline;
        // Boxed: it is large, and rarely needed.
        let connecting = Box::pin(PgConnection::connect_with(&self.address.options));
        held.connection = Some(guarded(deadline, connecting).await??);
        held.query(sqlx::raw_sql(begin)).await?;
        held.open = true;
        Ok(held)
    }

    fn take(&self) -> Option<PgConnection> {
        self.idle.lock().pop()
    }

    /// Says goodbye to the server. Statements that run are let go to their end.
    pub(crate) async fn close(&self) {
        if let Some(listener) = self.listener.lock().take() {
            listener.abort();
        }
        let _ = tokio::time::timeout(PATIENCE, self.places.acquire_many(CONNECTIONS as u32)).await;
        self.places.close();
        while let Some(connection) = self.take() {
            let _ = tokio::time::timeout(SIGN_OF_LIFE, connection.close()).await;
        }
    }

    /// Connections in use, and those that wait for use.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        (CONNECTIONS - self.places.available_permits(), self.idle.lock().len())
    }
}

/// A connection in use.
pub(crate) struct Held<'p> {
    pool: &'p Pool,
    connection: Option<PgConnection>,
    _place: SemaphorePermit<'p>,
    deadline: Instant,
    /// No statement was broken off.
    sound: bool,
    /// A transaction has begun and not ended.
    open: bool,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && self.sound
            && !self.open
        {
            self.pool.idle.lock().push(connection);
        }
    }
}

impl Held<'_> {
    /// Rows, and how many were written.
    pub(crate) async fn run(&mut self, sql: Sql<'_>) -> sqlx::Result<(Vec<PgRow>, u64)> {
        self.query(sql.for_postgres()).await
    }

    /// As [`Held::run`].
    pub(crate) async fn query<'q>(
        &mut self,
        query: impl sqlx::Execute<'q, sqlx::Postgres> + 'q,
    ) -> sqlx::Result<(Vec<PgRow>, u64)> {
        let Some(connection) = &mut self.connection else { return Err(late()) };
        self.sound = false;
        let answer = async {
            let (mut rows, mut written) = (Vec::new(), 0);
            let mut stream = connection.fetch_many(query);
            while let Some(next) = stream.try_next().await? {
                match next {
                    Either::Left(done) => written += done.rows_affected(),
                    Either::Right(row) => rows.push(row),
                }
                if rows.len() > MOST_ROWS {
                    return Err(sqlx::Error::Protocol("more rows than anybody asked for".to_owned()));
                }
            }
            Ok((rows, written))
        };
        let answer = guarded(self.deadline, answer).await?;
        // An error that the server says of a statement leaves the connection as it was.
        self.sound = matches!(answer, Ok(_) | Err(sqlx::Error::Database(_)));
        answer
    }

    /// After an error nobody knows whether it was done.
    pub(crate) async fn commit(mut self) -> sqlx::Result<()> {
        self.query(sqlx::raw_sql("COMMIT")).await?;
        self.open = false;
        Ok(())
    }

    /// Undoes what was done since [`Pool::begin`].
    pub(crate) async fn rollback(mut self) -> sqlx::Result<()> {
        self.query(sqlx::raw_sql("ROLLBACK")).await?;
        self.open = false;
        Ok(())
    }
}

fn late() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time"))
}

/// With an end, and without the driver's panics: some answers that no server gives make it panic.
pub(super) async fn guarded<T>(deadline: Instant, work: impl Future<Output = T>) -> sqlx::Result<T> {
    let work = AssertUnwindSafe(work).catch_unwind();
    match tokio::time::timeout_at(deadline, work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => Err(sqlx::Error::Protocol("an answer that is not PostgreSQL's".to_owned())),
        Err(_) => Err(late()),
    }
}
