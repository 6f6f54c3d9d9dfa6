//! Answers that replicas share, over Redis or Valkey.
//!
//! **A value** lies under its key's name for as long as it is kept, and carries its key, the stamp of its call and a checksum.
//! What does not fit is a miss: another caller's value, a changed one, one of another version.
//!
//! **Purges** are a table in Redis, `…purges`: a number per name that was purged, and the last one's. A value and the last
//! number are asked for together; when the number is news, the table is asked for, too. So a purge holds on all replicas for every
//! look that begins after it. A table that was lost (FLUSHALL, eviction) begins anew with a purge of everything.
//!
//! **Away.** No look takes longer than [`SharedSettings::timeout`]. After [`gw_redis::MISSES`] in a row without an answer, or when the
//! connection breaks, nobody asks any more until a probe in the background has its answer: a dead Redis costs nothing.
//!
//! **Writing** is the work of one task, one value or a few small ones at a time, so that no large value stands in the way of many
//! looks. What does not fit into its queue is not kept.
//!
//! **Many at once** are looked for in groups, a few groups at a time, all in the time of one look: what came by then is found.
//!
//! **Room.** Limits want a Redis that evicts nothing (`noeviction`), a cache one that evicts (`allkeys-lru`, as much memory as it is to
//! have). Where the cache is large, give it a Redis of its own: one that is full refuses to write limits, too.

mod core;
mod table;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::mpsc;

use self::core::Core;
use crate::entry::Stored;
use crate::figures::Figures;
use crate::key::Key;
use crate::purges::{Purge, Stamp};

/// Writes that wait at most, and their bytes.
const QUEUE: usize = 1024;
const QUEUE_BYTES: usize = 32 << 20;
/// Values that are asked for or written at once, and the bytes of those that are written.
const GROUP: usize = 64;
const GROUP_BYTES: usize = 1 << 20;

/// What is needed to share answers over Redis.
#[derive(Clone, Debug)]
pub struct SharedSettings {
    /// `redis://`, `rediss://` or `unix://`; it may hold a password.
    pub url: SecretString,
    /// Certificates (PEM) that a `rediss://` server's may be signed by, besides those that the machine trusts.
    pub ca_file: Option<PathBuf>,
    /// What all keys in Redis begin with.
    pub prefix: String,
    /// How long a look waits for an answer: the most that a slow Redis costs a request.
    pub timeout: Duration,
    /// The largest answer that is kept, bytes.
    pub most_bytes_of_one: usize,
}

impl SharedSettings {
    /// The defaults: `gw:cache:`, 50 ms, 2 MiB.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            ca_file: None,
            prefix: "gw:cache:".to_owned(),
            timeout: Duration::from_millis(50),
            most_bytes_of_one: 2 << 20,
        }
    }
}

/// The cache over Redis.
pub(crate) struct Shared {
    core: Arc<Core>,
    writes: mpsc::Sender<Write>,
    tasks: [tokio::task::AbortHandle; 2],
}

struct Write {
    answers: Vec<(Key, Arc<Stored>)>,
    stamp: Stamp,
    bytes: usize,
}

impl Write {
    fn of(stamp: Stamp) -> Self {
        Self { answers: Vec::new(), stamp, bytes: 0 }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The settings hide the address themselves: there may be a password in it.
        f.debug_struct("Shared").field("settings", &self.core.settings).finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

impl Shared {
    pub(crate) async fn start(settings: SharedSettings) -> Self {
        let core = Arc::new(Core::new(settings));
        // A moment of patience, so that the first requests do not find it away.
        if tokio::time::timeout(Duration::from_secs(1), core.open()).await.is_err() {
            core.line.say_away("no answer");
        }
        let (writes, waiting) = mpsc::channel(QUEUE);
        let keeper = Arc::clone(&core);
        let keeper = tokio::spawn(async move { keeper.keep().await });
        let writer = tokio::spawn(write(Arc::clone(&core), waiting));
        Self { core, writes, tasks: [keeper.abort_handle(), writer.abort_handle()] }
    }

    pub(crate) async fn get(&self, key: &Key, now_ms: u64) -> Option<Arc<Stored>> {
        self.core.get(key, now_ms).await
    }

    /// All of these that are there, in time.
    pub(crate) async fn get_all(&self, keys: &[Key], now_ms: u64) -> Vec<Option<Arc<Stored>>> {
        self.core.get_all(keys, now_ms).await.0
    }

    /// What is there; None = it did not say so in time.
    pub(crate) async fn peek(&self, key: &Key, now_ms: u64) -> Option<Option<Arc<Stored>>> {
        let (mut found, is_known) = self.core.get_all(std::slice::from_ref(key), now_ms).await;
        is_known.then(|| found.pop().flatten())
    }

    /// Hands answers to the task that writes; gives how many will be kept.
    pub(crate) fn put_all(&self, answers: Vec<(Key, Arc<Stored>)>, stamp: Stamp) -> usize {
        let core = &self.core;
        let mut kept = 0;
        let mut group = Write::of(stamp);
        for (key, stored) in answers {
            let bytes = stored.body.len();
            // A stamp from before the first contact knows no purges, and says nothing.
            let is_known = stamp.0 > 0 && core.purges.allow(&stored, stamp);
            if bytes > core.settings.most_bytes_of_one || !is_known {
                continue;
            }
            let is_full = group.answers.len() == GROUP || group.bytes.saturating_add(bytes) > GROUP_BYTES;
            if is_full && !group.answers.is_empty() {
                kept += self.hand_over(std::mem::replace(&mut group, Write::of(stamp)));
            }
            group.answers.push((key, stored));
            group.bytes = group.bytes.saturating_add(bytes);
        }
        kept + if group.answers.is_empty() { 0 } else { self.hand_over(group) }
    }

    /// Gives how many will be kept: all of them or none.
    fn hand_over(&self, group: Write) -> usize {
        let core = &self.core;
        let (count, bytes) = (group.answers.len(), group.bytes);
        let has_room = core.line.link().is_some()
            && core.waiting_bytes.load(Ordering::Relaxed).saturating_add(bytes) <= QUEUE_BYTES;
        // Counted before it is sent, so that it is not taken off before it was put on.
        core.waiting.fetch_add(1, Ordering::AcqRel);
        core.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if has_room && self.writes.try_send(group).is_ok() {
            return count;
        }
        core.unwritten.fetch_add(count as u64, Ordering::Relaxed);
        core.was_written(bytes);
        0
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.core.purges.stamp()
    }

    pub(crate) async fn purge(&self, purge: &Purge) -> bool {
        self.core.purge(purge).await
    }

    /// Waits until nothing waits to be written.
    pub(crate) async fn written(&self) {
        loop {
            let written = self.core.written.notified();
            if self.core.waiting.load(Ordering::Acquire) == 0 {
                return;
            }
            written.await;
        }
    }

    pub(crate) fn is_away(&self) -> bool {
        self.core.line.link().is_none()
    }

    pub(crate) fn figures(&self, figures: &mut Figures) {
        figures.unanswered = self.core.unanswered.load(Ordering::Relaxed);
        figures.unwritten = self.core.unwritten.load(Ordering::Relaxed);
    }
}

impl Core {
    fn was_written(&self, bytes: usize) {
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        self.written.notify_waiters();
    }
}

/// Writes what is handed to it, until it is aborted.
async fn write(core: Arc<Core>, mut waiting: mpsc::Receiver<Write>) {
    while let Some(write) = waiting.recv().await {
        if !core.set_all(&write.answers, write.stamp).await {
            core.unwritten.fetch_add(write.answers.len() as u64, Ordering::Relaxed);
        }
        core.was_written(write.bytes);
    }
}

#[cfg(test)]
mod tests;
