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
//! **Writing** is the work of one task, one value at a time, so that no large value stands in the way of many looks. What
//! does not fit into its queue is not kept.
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
    key: Key,
    stored: Arc<Stored>,
    stamp: Stamp,
    bytes: usize,
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

    /// Hands an answer to the task that writes. False when it will not be kept.
    pub(crate) fn put(&self, key: Key, stored: Arc<Stored>, stamp: Stamp) -> bool {
        let core = &self.core;
        let bytes = stored.body.len();
        // A stamp from before the first contact knows no purges, and says nothing.
        let is_known = stamp.0 > 0 && core.purges.allow(&stored, stamp);
        if bytes > core.settings.most_bytes_of_one || !is_known {
            return false;
        }
        let has_room = core.line.link().is_some()
            && core.waiting_bytes.load(Ordering::Relaxed).saturating_add(bytes) <= QUEUE_BYTES;
        // Counted before it is sent, so that it is not taken off before it was put on.
        core.waiting.fetch_add(1, Ordering::AcqRel);
        core.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if has_room && self.writes.try_send(Write { key, stored, stamp, bytes }).is_ok() {
            return true;
        }
        core.unwritten.fetch_add(1, Ordering::Relaxed);
        core.was_written(bytes);
        false
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
        if !core.set(&write.key, &write.stored, write.stamp).await {
            core.unwritten.fetch_add(1, Ordering::Relaxed);
        }
        core.was_written(write.bytes);
    }
}

#[cfg(test)]
mod tests;
