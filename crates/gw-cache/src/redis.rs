//! Answers that replicas share over Redis or Valkey.
//!
//! **Values.** An answer lies under its key for as long as it is kept. It contains its key, the stamp of its call and a
//! checksum. A value that does not match is a miss, whether it belongs to another key, is damaged, or comes from
//! another version.
//!
//! **Purges.** A table in Redis, `…purges`, has a number for each purged name, and the number of the last purge. Each
//! lookup asks for its value and for that last number. If the number is new, it asks for the table too. So a purge
//! applies to every lookup that begins after it, on all replicas. A lost table (FLUSHALL, eviction) begins again with a
//! purge of everything.
//!
//! **While Redis does not answer**, lookups cost nothing. No lookup takes longer than [`RedisSettings::timeout`]. After
//! [`gw_redis::MAX_MISSED_ANSWERS`] lookups without an answer, or when the connection breaks, every lookup is a miss
//! until a task in the background has reconnected.
//!
//! **Writes** are the work of one task, a few values at a time, so that large values do not delay lookups for long. An
//! answer that does not fit into its queue is not stored.
//!
//! **Lookups of many keys** run in groups, a few groups at a time, within the time limit of one lookup. Late values
//! count as misses.
//!
//! **Memory.** Limits need a Redis that evicts nothing (`noeviction`). A cache needs one that evicts (`allkeys-lru`,
//! with `maxmemory` set). Give a large cache its own Redis, because a full Redis refuses the writes of limits too.

mod client;
mod purge_table;
pub(crate) mod settings;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::client::{Client, VALUES_PER_GROUP};
use self::settings::RedisSettings;
use crate::entry::Stored;
use crate::figures::Figures;
use crate::key::Key;
use crate::purge_log::{Purge, PurgeError};
use crate::stamp::Stamp;

/// The most groups of answers that wait to be written.
const MAX_PENDING_WRITES: usize = 1024;
/// The most bytes that wait to be written.
const MAX_PENDING_BYTES: usize = 32 << 20;
/// The most bytes of a group, unless a single answer is larger.
const MAX_GROUP_BYTES: usize = 1 << 20;

/// The store of answers in Redis.
pub(crate) struct RedisStore {
    client: Arc<Client>,
    writes: mpsc::Sender<WriteGroup>,
    /// The upkeep of the connection and the writes. Aborted when the store is dropped.
    _tasks: JoinSet<()>,
}

/// Answers of one call that are written together.
struct WriteGroup {
    answers: Vec<(Key, Arc<Stored>)>,
    stamp: Stamp,
    bytes: usize,
}

impl WriteGroup {
    fn new(stamp: Stamp) -> Self {
        Self { answers: Vec::new(), stamp, bytes: 0 }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.answers.is_empty()
            || self.answers.len() < VALUES_PER_GROUP && self.bytes.saturating_add(bytes) <= MAX_GROUP_BYTES
    }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The settings hide their URL, which may contain a password.
        f.debug_struct("RedisStore").field("settings", &self.client.settings).finish_non_exhaustive()
    }
}

impl RedisStore {
    /// Connects and starts the background tasks.
    pub(crate) async fn start(settings: RedisSettings) -> Self {
        let client = Arc::new(Client::new(settings));
        client.supervisor.connect_at_start(&*client).await;
        let (writes, pending) = mpsc::channel(MAX_PENDING_WRITES);
        let mut tasks = JoinSet::new();
        let upkeep = Arc::clone(&client);
        tasks.spawn(async move { upkeep.supervisor.run(&*upkeep).await });
        tasks.spawn(write(Arc::clone(&client), pending));
        Self { client, writes, _tasks: tasks }
    }

    pub(crate) async fn get(&self, key: &Key, now_ms: u64) -> Option<Arc<Stored>> {
        self.client.get(key, now_ms).await
    }

    /// The answers under these keys that come in time.
    pub(crate) async fn get_all(&self, keys: &[Key], now_ms: u64) -> Vec<Option<Arc<Stored>>> {
        self.client.get_all(keys, now_ms).await.0
    }

    /// The answer under a key. None if Redis did not answer in time.
    pub(crate) async fn peek(&self, key: &Key, now_ms: u64) -> Option<Option<Arc<Stored>>> {
        let (mut found, is_complete) = self.client.get_all(std::slice::from_ref(key), now_ms).await;
        is_complete.then(|| found.pop().flatten())
    }

    /// Hands answers over to the writing task. Returns how many will be written.
    pub(crate) fn put_all(&self, answers: Vec<(Key, Arc<Stored>)>, stamp: Stamp) -> usize {
        let client = &self.client;
        let mut accepted = 0;
        let mut group = WriteGroup::new(stamp);
        for (key, stored) in answers {
            let bytes = stored.body.len();
            // A stamp of zero was taken before the first answer of Redis, so it does not know of any purge.
            let is_valid = stamp.0 > 0 && client.purges.is_valid(&stored, stamp);
            if bytes > client.settings.max_entry_bytes || !is_valid {
                continue;
            }
            if !group.has_room(bytes) {
                accepted += self.hand_over(std::mem::replace(&mut group, WriteGroup::new(stamp)));
            }
            group.answers.push((key, stored));
            group.bytes = group.bytes.saturating_add(bytes);
        }
        if !group.answers.is_empty() {
            accepted += self.hand_over(group);
        }
        accepted
    }

    /// Hands one group over. Returns how many of its answers will be written: all or none.
    fn hand_over(&self, group: WriteGroup) -> usize {
        let client = &self.client;
        let (count, bytes) = (group.answers.len(), group.bytes);
        let has_room = !client.supervisor.is_disconnected()
            && client.pending_bytes.load(Ordering::Relaxed).saturating_add(bytes) <= MAX_PENDING_BYTES;
        client.pending_writes.add(1);
        client.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
        if has_room && self.writes.try_send(group).is_ok() {
            return count;
        }
        client.unwritten.fetch_add(count as u64, Ordering::Relaxed);
        client.finish_write(bytes);
        0
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.client.purges.stamp()
    }

    pub(crate) async fn purge(&self, purge: &Purge) -> Result<(), PurgeError> {
        self.client.purge(purge).await
    }

    /// Waits until no writes are pending.
    pub(crate) async fn wait_until_written(&self) {
        self.client.pending_writes.wait_until_zero().await;
    }

    pub(crate) fn is_away(&self) -> bool {
        self.client.supervisor.is_disconnected()
    }

    pub(crate) fn add_figures(&self, figures: &mut Figures) {
        figures.unanswered = self.client.unanswered.load(Ordering::Relaxed);
        figures.unwritten = self.client.unwritten.load(Ordering::Relaxed);
    }
}

impl Client {
    fn finish_write(&self, bytes: usize) {
        self.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.pending_writes.finish(1);
    }
}

/// Writes groups of answers until the task is aborted.
async fn write(client: Arc<Client>, mut pending: mpsc::Receiver<WriteGroup>) {
    while let Some(group) = pending.recv().await {
        if !client.set_all(&group.answers, group.stamp).await {
            client.unwritten.fetch_add(group.answers.len() as u64, Ordering::Relaxed);
        }
        client.finish_write(group.bytes);
    }
}

#[cfg(test)]
mod tests;
