//! Stores the prompts and answers of keys with payload logging. The edge hands them over, and a task masks and writes
//! them beside the request's path.
//!
//! Best effort: a bounded number waits in memory, of which each key has a share. More are dropped and counted, and a killed
//! process loses the waiting ones. The ledger does not depend on payloads, and no request fails because of them.

mod assemble;
mod captured;
mod patterns;
mod redact;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gw_store::Store;
use gw_store::payloads::Payload;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::unix_millis;
use crate::shared_pool::{PoolHolding, SharedPool};

pub use captured::{CapturedContent, ContentCapture};
pub use patterns::Masks;
pub use redact::Redactor;

/// Payloads that may wait in memory.
const MAX_WAITING: u64 = 10_000;
/// The bytes of the waiting payloads, before masking and cutting.
const MAX_WAITING_BYTES: u64 = 64 << 20;
/// Payloads in one transaction.
const BATCH: usize = 64;
/// The bytes of one transaction: the ledger's rows wait for it.
const BATCH_BYTES: u64 = 4 << 20;
/// How long payloads are gathered before they are written.
const GATHER: Duration = Duration::from_millis(100);
/// The longest pause between two tries while the store is unavailable.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// `[store.payloads]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadSettings {
    /// The kinds of text that are masked.
    pub masks: Masks,
    /// How long payloads are kept; at most as long as the ledger's rows.
    pub retention_days: u32,
    /// The bytes of a body that are kept.
    pub most: usize,
}

impl Default for PayloadSettings {
    fn default() -> Self {
        Self { masks: Masks::ALL, retention_days: 30, most: 256 << 10 }
    }
}

/// The payloads that wait for the store.
#[derive(Debug)]
pub struct Payloads {
    redactor: Arc<Redactor>,
    most: usize,
    waiting: Mutex<VecDeque<Heard>>,
    /// The payloads that wait or are being written, by key.
    places: Arc<SharedPool>,
    /// Their bytes, by key.
    memory: Arc<SharedPool>,
    wake: Notify,
    /// Ends a pause early.
    stop: Notify,
    closing: AtomicBool,
    dropped: AtomicU64,
}

/// The payload of one request.
struct Heard {
    request_id: Arc<str>,
    at: i64,
    request: Bytes,
    response: Bytes,
    is_cut: bool,
    held: HeldRoom,
}

/// The room that a payload takes in the queue until it is written.
#[derive(Debug)]
struct HeldRoom {
    place: PoolHolding,
    memory: PoolHolding,
}

impl std::fmt::Debug for Heard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heard").field("request_id", &self.request_id).finish_non_exhaustive()
    }
}

impl Heard {
    fn bytes(&self) -> u64 {
        (self.request.len() + self.response.len()) as u64
    }

    /// Takes room for the payload. A single payload is always accepted, whatever its size; false beyond the key's share.
    fn take_room(&mut self) -> bool {
        let bytes = self.bytes().min(MAX_WAITING_BYTES);
        self.held.place.set(1).is_ok() && self.held.memory.set(bytes).is_ok()
    }

    fn masked(&self, redactor: &Redactor) -> Payload {
        Payload {
            request_id: self.request_id.to_string(),
            at: self.at,
            request: redactor.body(&self.request, false),
            response: redactor.body(&self.response, self.is_cut),
        }
    }
}

impl Payloads {
    /// An empty queue.
    ///
    /// # Errors
    /// None that an operator could mend.
    pub fn new(settings: &PayloadSettings) -> Result<Arc<Self>, regex::Error> {
        Ok(Arc::new(Self {
            redactor: Arc::new(Redactor::new(settings.masks, settings.most)?),
            most: settings.most,
            waiting: Mutex::default(),
            places: SharedPool::new(MAX_WAITING),
            memory: SharedPool::new(MAX_WAITING_BYTES),
            wake: Notify::new(),
            stop: Notify::new(),
            closing: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        }))
    }

    /// Begins to capture a request whose body was read.
    pub(crate) fn hear(
        self: &Arc<Self>,
        key: &Arc<str>,
        request_id: &Arc<str>,
        request: &Bytes,
    ) -> Box<Capture> {
        Box::new(Capture {
            payloads: Arc::clone(self),
            key: Arc::clone(key),
            request_id: Arc::clone(request_id),
            content: ContentCapture::new(request.clone(), self.most),
        })
    }

    /// The payloads that are not in the store yet.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        u64::try_from(self.places.gauge().get()).unwrap_or_default()
    }

    /// The payloads that were dropped since the start, because too many waited or the store refused them.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Announces the last payload. [`Payloads::run`] ends when all payloads are in the store.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
        self.stop.notify_one();
    }

    fn push(&self, mut heard: Heard) {
        if !heard.take_room() {
            self.missed(1, "too many of one key wait for the store");
            return;
        }
        self.waiting.lock().push_back(heard);
        self.wake.notify_one();
    }

    /// Logs the first drop and every thousandth, not a line per request.
    fn missed(&self, count: usize, reason: &str) {
        let before = self.dropped.fetch_add(count as u64, Ordering::Relaxed);
        let now = before + count as u64;
        if before == 0 || before / 1_000 != now / 1_000 {
            tracing::warn!(dropped = now, "payloads are not stored: {reason}");
        }
    }

    /// Masks payloads and writes them into the store until [`Payloads::close`] and all are written. One task runs it.
    pub async fn run(&self, store: &Store) {
        loop {
            let heard = self.next_batch();
            if heard.is_empty() {
                if self.closing.load(Ordering::Acquire) {
                    return;
                }
                self.wake.notified().await;
                self.pause(GATHER).await;
                continue;
            }
            let count = heard.len();
            let redactor = Arc::clone(&self.redactor);
            // Masking takes milliseconds, so it runs on a thread of its own.
            let masking = tokio::task::spawn_blocking(move || {
                let masked = heard.into_iter().map(|heard| (heard.masked(&redactor), heard.held));
                masked.unzip::<_, _, Vec<_>, Vec<_>>()
            });
            match masking.await {
                // The room is free once the payloads are written.
                Ok((payloads, _held)) => self.write(store, &payloads).await,
                Err(error) => self.missed(count, &format!("they cannot be masked ({error})")),
            }
        }
    }

    /// Tries until the write succeeds, the store refuses it permanently, or the shutdown ends.
    async fn write(&self, store: &Store, payloads: &[Payload]) {
        let mut pause = GATHER;
        while let Err(error) = store.keep_payloads(payloads).await {
            if !error.is_passing() || self.closing.load(Ordering::Acquire) {
                self.missed(payloads.len(), &error.to_string());
                return;
            }
            self.pause(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn pause(&self, pause: Duration) {
        if !self.closing.load(Ordering::Acquire) {
            let _ = tokio::time::timeout(pause, self.stop.notified()).await;
        }
    }

    fn next_batch(&self) -> Vec<Heard> {
        let mut waiting = self.waiting.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH
            && let Some(heard) = waiting.pop_front()
        {
            bytes += heard.bytes();
            batch.push(heard);
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        batch
    }
}

/// Captures one request. Its drop hands the payload to the queue. Its `Debug` output has no payload.
pub struct Capture {
    payloads: Arc<Payloads>,
    key: Arc<str>,
    request_id: Arc<str>,
    content: ContentCapture,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture").field("request_id", &self.request_id).finish_non_exhaustive()
    }
}

impl Capture {
    /// The answer is a stream of events.
    pub fn streams(&mut self) {
        self.content.streams();
    }

    /// A piece of the answer.
    pub fn sent(&mut self, bytes: &Bytes) {
        self.content.sent(bytes);
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let CapturedContent { request, response, is_cut } = self.content.take();
        let (request_id, at) = (Arc::clone(&self.request_id), unix_millis());
        let Payloads { places, memory, .. } = &*self.payloads;
        let held = HeldRoom { place: places.holding(&self.key), memory: memory.holding(&self.key) };
        self.payloads.push(Heard { request_id, at, request, response, is_cut, held });
    }
}

#[cfg(test)]
mod tests;
