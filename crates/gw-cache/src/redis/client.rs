//! Reads, writes and purges over the connection to Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use gw_redis::{
    CallError, Connection, LogMessages, OnTimeout, PendingCount, ReceiveBudget, Session, Supervisor,
};
use gw_wire::hex;
use redis::{RedisError, Value};

use super::purge_table::{self, LAST, PurgeTable};
use super::settings::RedisSettings;
use crate::entry::Stored;
use crate::freshness::Freshness;
use crate::key::Key;
use crate::purge_log::{Purge, PurgeError, PurgeLog};
use crate::stamp::Stamp;

/// The time limit of a purge and of a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// The number of values in one read or write.
pub(super) const VALUES_PER_GROUP: usize = 64;
/// The number of reads at the same time.
const MAX_CONCURRENT_GROUPS: usize = 4;
/// The least length of a request for one value, in bytes.
const MIN_REQUEST_BYTES: i64 = 64;
const LOG_MESSAGES: LogMessages = LogMessages {
    lost: "Redis is away: nothing is found in the cache",
    restored: "Redis answers: the cache is shared again",
};

/// The connection to Redis, and what this process knows of purges and of its pending writes.
pub(super) struct Client {
    pub(super) settings: RedisSettings,
    pub(super) supervisor: Supervisor,
    pub(super) purges: PurgeLog,
    /// Questions without a usable answer.
    pub(super) unanswered: AtomicU64,
    /// Answers that were not written.
    pub(super) unwritten: AtomicU64,
    /// Groups of answers that wait to be written.
    pub(super) pending_writes: PendingCount,
    pub(super) pending_bytes: AtomicUsize,
}

impl Session for Client {
    type Prepared = ();

    async fn prepare(&self, connection: &Arc<Connection>) -> Result<(), CallError> {
        let reading = self.read_purges(connection);
        let read = tokio::time::timeout(self.settings.timeout, reading).await;
        self.count_unanswered(read.unwrap_or(Err(CallError::TimedOut)))
    }

    async fn heartbeat(&self, connection: &Arc<Connection>) {
        let reading = self.read_purges(connection);
        let read = self.supervisor.call(connection, self.settings.timeout, OnTimeout::CountMiss, reading);
        let _reported = self.count_unanswered(read.await);
    }
}

impl Client {
    pub(super) fn new(settings: RedisSettings) -> Self {
        let max_entry_bytes = i64::try_from(settings.max_entry_bytes).unwrap_or(i64::MAX);
        let receive_budget = ReceiveBudget {
            initial_bytes: 1 << 20,
            bytes_per_request_byte: max_entry_bytes / MIN_REQUEST_BYTES + 1,
            max_bytes: max_entry_bytes.saturating_mul(8).max(64 << 20),
        };
        let supervisor =
            Supervisor::new(&settings.url, settings.ca_file.as_deref(), receive_budget, LOG_MESSAGES);
        Self {
            settings,
            supervisor,
            purges: PurgeLog::default(),
            unanswered: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            pending_writes: PendingCount::default(),
            pending_bytes: AtomicUsize::new(0),
        }
    }

    fn purge_table_key(&self) -> String {
        format!("{}purges", self.settings.prefix)
    }

    fn value_key(&self, key: &Key) -> String {
        let mut name = self.settings.prefix.clone();
        name.push_str(&hex::encode(key.bytes()));
        name
    }

    fn count_unanswered<T>(&self, answer: Result<T, CallError>) -> Result<T, CallError> {
        answer.inspect_err(|_| {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// The answer under a key, if it comes in time.
    pub(super) async fn get(&self, key: &Key, now_ms: u64) -> Option<Arc<Stored>> {
        self.get_all(std::slice::from_ref(key), now_ms).await.0.pop().flatten()
    }

    /// The answers under these keys that come in time, in the order of the keys. Also returns whether the lookup was
    /// complete: only then do the missing answers not exist.
    pub(super) async fn get_all(&self, keys: &[Key], now_ms: u64) -> (Vec<Option<Arc<Stored>>>, bool) {
        let mut found = vec![None; keys.len()];
        let Some(connection) = self.supervisor.connection() else { return (found, false) };
        let mut has_answered = false;
        let reading = async {
            let groups = keys.chunks(VALUES_PER_GROUP).zip(found.chunks_mut(VALUES_PER_GROUP));
            let reads: Vec<_> =
                groups.map(|(keys, found)| self.read_group(&connection, keys, found, now_ms)).collect();
            let mut reads = stream::iter(reads).buffer_unordered(MAX_CONCURRENT_GROUPS);
            while reads.try_next().await?.is_some() {
                has_answered = true;
            }
            Ok(())
        };
        let read = tokio::time::timeout(self.settings.timeout, reading).await;
        let read = self.count_unanswered(read.unwrap_or(Err(CallError::TimedOut)));
        let is_complete = read.is_ok();
        if has_answered && matches!(read, Err(CallError::TimedOut)) {
            // Redis works, but it is too slow for this number of values.
            self.supervisor.record(&connection, &Ok(()), OnTimeout::CountMiss);
        } else {
            self.supervisor.record(&connection, &read, OnTimeout::CountMiss);
        }
        (found, is_complete)
    }

    /// Reads the valid values under these keys. A value is valid if it was written under its key and was not purged.
    async fn read_group(
        &self,
        connection: &Connection,
        keys: &[Key],
        found: &mut [Option<Arc<Stored>>],
        now_ms: u64,
    ) -> Result<(), CallError> {
        let mut pipeline = redis::pipe();
        keys.iter().for_each(|key| {
            pipeline.cmd("GET").arg(self.value_key(key));
        });
        pipeline.cmd("HGET").arg(self.purge_table_key()).arg(LAST);
        let mut values = connection.ask_all(&pipeline).await?;
        if values.len() != keys.len() + 1 {
            return Err(CallError::UnexpectedAnswer);
        }
        let last_purge = values.pop().ok_or(CallError::UnexpectedAnswer)?.extract_error()?;
        let mut decoded = Vec::with_capacity(keys.len());
        for (key, value) in keys.iter().zip(values) {
            decoded.push(self.decode(key, value.extract_error()?)?);
        }
        if decoded.iter().all(Option::is_none) {
            return Ok(());
        }
        let last_purge =
            redis::from_redis_value::<Option<u64>>(last_purge).map_err(|_| CallError::UnexpectedAnswer)?;
        // Without the table no value is known to be valid. The next heartbeat creates the table.
        let Some(last_purge) = last_purge else { return Ok(()) };
        if last_purge > self.purges.stamp().0 {
            let read = purge_table::read_command(&self.purge_table_key());
            self.merge_purges(connection.ask(&read).await?)?;
        }
        for (decoded, found) in decoded.into_iter().zip(found) {
            let Some((stored, stamp)) = decoded else { continue };
            let is_valid =
                stamp.0 <= last_purge && self.purges.is_valid_at(&stored, stamp, Stamp(last_purge));
            if is_valid && stored.lifetime.at(now_ms, Duration::MAX) != Freshness::Expired {
                *found = Some(Arc::new(stored));
            }
        }
        Ok(())
    }

    fn decode(&self, key: &Key, value: Value) -> Result<Option<(Stored, Stamp)>, CallError> {
        let bytes = match value {
            Value::Nil => return Ok(None),
            Value::BulkString(bytes) => Bytes::from(bytes),
            _ => return Err(CallError::UnexpectedAnswer),
        };
        let decoded = Stored::decode(&bytes, key);
        if decoded.is_none() {
            // A damaged value says nothing about the others. The next answer under its key replaces it.
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(decoded)
    }

    fn merge_purges(&self, table: Value) -> Result<(), CallError> {
        let PurgeTable { last, names } = purge_table::parse(table).ok_or(CallError::UnexpectedAnswer)?;
        self.purges.merge(last, names);
        Ok(())
    }

    /// Reads the table of purges. The caller sets the time limit.
    async fn read_purges(&self, connection: &Connection) -> Result<(), CallError> {
        let table = connection.ask(&purge_table::read_command(&self.purge_table_key())).await?;
        let PurgeTable { last, names } = purge_table::parse(table).ok_or(CallError::UnexpectedAnswer)?;
        if last < self.purges.stamp().0 {
            // Redis lost the table, and its clock went back. The numbers of the old table mean nothing now.
            self.purges.clear();
        }
        self.purges.merge(last, names);
        Ok(())
    }

    /// Writes answers. Returns whether Redis confirmed all of them.
    pub(super) async fn set_all(&self, answers: &[(Key, Arc<Stored>)], stamp: Stamp) -> bool {
        let Some(connection) = self.supervisor.connection() else { return false };
        let mut pipeline = redis::pipe();
        for (key, stored) in answers {
            let value = stored.encode(key, stamp);
            let ttl_ms = stored.lifetime.kept_ms().max(1);
            pipeline.cmd("SET").arg(self.value_key(key)).arg(value).arg("PX").arg(ttl_ms);
        }
        let writing = async {
            let answers = connection.ask_all(&pipeline).await?;
            answers.into_iter().try_for_each(|answer| answer.extract_error().map(drop))?;
            Ok(())
        };
        let written = self.supervisor.call(&connection, WRITE_TIMEOUT, OnTimeout::CountMiss, writing).await;
        self.count_unanswered(written).is_ok()
    }

    /// Adds a purge to the table, so that it applies to all replicas.
    pub(super) async fn purge(&self, purge: &Purge) -> Result<(), PurgeError> {
        let connection = self.supervisor.connection().ok_or(PurgeError)?;
        let command = purge_table::purge_command(&self.purge_table_key(), purge);
        let asking = async { connection.ask(&command).await.map_err(|error: RedisError| error.into()) };
        let table = self.supervisor.call(&connection, WRITE_TIMEOUT, OnTimeout::CountMiss, asking).await;
        let table = self.count_unanswered(table).map_err(|_| PurgeError)?;
        self.merge_purges(table).map_err(|_| PurgeError)
    }
}
