//! The queue of finished requests between the threads that serve the network and the exporter.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gw_engine::metrics::registered;
use gw_engine::request::trace::{TraceSink, TracedRequest};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::Notify;

/// The most requests that wait.
const MAX_WAITING: usize = 4096;
/// The most bytes of the requests that wait.
const MAX_WAITING_BYTES: usize = 32 << 20;
/// The bytes of a request, and of each of its attempts, beside its content.
const RECORD_BYTES: usize = 1 << 10;
/// The most requests of one call to the collector.
const BATCH: usize = 256;
/// The bytes with which a batch is complete.
const BATCH_BYTES: usize = 1 << 20;

/// The requests that wait for the exporter.
#[derive(Debug, Default)]
pub struct TraceQueue {
    waiting: Mutex<Waiting>,
    pub(crate) wake: Notify,
    /// Ends a pause early.
    pub(crate) stop: Notify,
    closing: AtomicBool,
    sent: Counter,
    dropped: Counter,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<TracedRequest>,
    bytes: usize,
}

impl TraceQueue {
    /// An empty queue whose figures are in `/metrics`.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Arc<Self> {
        Arc::new(Self {
            sent: registered(registry, "gateway_spans_sent", "Spans that the collector took"),
            dropped: registered(
                registry,
                "gateway_spans_dropped",
                "Spans that the collector did not get, because too many waited or it did not take them",
            ),
            gauge: registered(
                registry,
                "gateway_spans_waiting",
                "Requests whose spans wait for the collector",
            ),
            ..Self::default()
        })
    }

    /// No more requests will come: the exporter ends when all are sent.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
        self.stop.notify_one();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Takes out the next batch; empty = nothing waits.
    pub(crate) fn next_batch(&self) -> Vec<TracedRequest> {
        let mut waiting = self.waiting.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH
            && bytes < BATCH_BYTES
            && let Some(request) = waiting.requests.pop_front()
        {
            bytes += size(&request);
            batch.push(request);
        }
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        self.gauge.set(i64::try_from(waiting.requests.len()).unwrap_or(i64::MAX));
        batch
    }

    /// Counts spans that the collector took.
    pub(crate) fn count_sent(&self, spans: usize) {
        self.sent.inc_by(spans as u64);
    }

    /// Counts spans that the collector did not take. Logs the first drop and every ten-thousandth, not a line per request.
    pub(crate) fn count_dropped(&self, spans: usize, reason: &str) {
        let before = self.dropped.inc_by(spans as u64);
        let now = before + spans as u64;
        if before == 0 || before / 10_000 != now / 10_000 {
            tracing::warn!(dropped = now, "spans are dropped: {reason}");
        }
    }
}

impl TraceSink for TraceQueue {
    fn take(&self, request: TracedRequest) {
        let bytes = size(&request);
        let mut waiting = self.waiting.lock();
        let is_full =
            waiting.requests.len() >= MAX_WAITING || waiting.bytes.saturating_add(bytes) > MAX_WAITING_BYTES;
        if is_full || self.is_closing() {
            drop(waiting);
            return self.count_dropped(spans_of(&request), "too many wait for the collector");
        }
        waiting.bytes += bytes;
        waiting.requests.push_back(request);
        self.gauge.set(i64::try_from(waiting.requests.len()).unwrap_or(i64::MAX));
        let was_empty = waiting.requests.len() == 1;
        drop(waiting);
        if was_empty {
            self.wake.notify_one();
        }
    }
}

/// The spans of a request: its own, and one for each attempt.
pub(crate) fn spans_of(request: &TracedRequest) -> usize {
    1 + request.call.as_ref().map_or(0, |call| call.attempts.len())
}

/// The bytes that a request takes in the queue, roughly.
fn size(request: &TracedRequest) -> usize {
    let content = request.server.content.as_ref();
    RECORD_BYTES * spans_of(request)
        + content.map_or(0, |content| content.request.len() + content.response.len())
}
