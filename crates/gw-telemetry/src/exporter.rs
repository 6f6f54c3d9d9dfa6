//! The exporter: one task that takes finished requests out of the queue, builds their spans and sends them.

use std::sync::Arc;
use std::time::Duration;

use gw_engine::payloads::{Masks, Redactor};
use gw_engine::request::trace::{TracedRequest, Tracer};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use tokio::task::JoinHandle;

use crate::collector::{Collector, CollectorError};
use crate::queue::{TraceQueue, spans_of};
use crate::settings::OtlpSettings;
use crate::spans::SpanBuilder;

/// How long finished requests are gathered before they are sent.
const GATHER: Duration = Duration::from_millis(500);
/// The pauses before a batch that the collector did not take is sent again.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// The longest wait for the last batches when the program ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The bytes of a body that a span keeps, and of a streamed answer in memory.
const MAX_CONTENT_BYTES: usize = 64 << 10;

/// The running exporter.
#[derive(Debug)]
pub struct Exporter {
    queue: Arc<TraceQueue>,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Starts the task on the current runtime. Returns the tracer whose requests the task sends.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn start(settings: &OtlpSettings, queue: Arc<TraceQueue>) -> Result<(Self, Tracer), CollectorError> {
        let collector = Collector::new(settings)?;
        let masks = Redactor::new(Masks::ALL, MAX_CONTENT_BYTES)?;
        let builder = Arc::new(SpanBuilder::new(settings, masks));
        let content = settings.content.then_some(MAX_CONTENT_BYTES);
        let tracer = Tracer::new(Arc::clone(&queue) as _, settings.sample_ratio, content);
        let task = tokio::spawn(run(Arc::clone(&queue), collector, builder, settings.content));
        Ok((Self { queue, task }, tracer))
    }

    /// Sends what waits, for a short time, and ends the task.
    pub async fn close(mut self) {
        self.queue.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("the collector did not take the last spans");
        }
    }
}

async fn run(queue: Arc<TraceQueue>, collector: Collector, builder: Arc<SpanBuilder>, has_content: bool) {
    loop {
        let batch = queue.next_batch();
        if batch.is_empty() {
            if queue.is_closing() {
                return;
            }
            queue.wake.notified().await;
            pause(&queue, GATHER).await;
            continue;
        }
        let spans = batch.iter().map(spans_of).sum();
        let Some(request) = build(&builder, batch, has_content).await else {
            queue.count_dropped(spans, "they cannot be built");
            continue;
        };
        send(&queue, &collector, &request, spans).await;
    }
}

/// Builds the spans of a batch; None = a bug ended the thread that masks.
async fn build(
    builder: &Arc<SpanBuilder>,
    batch: Vec<TracedRequest>,
    has_content: bool,
) -> Option<ExportTraceServiceRequest> {
    if !has_content {
        return Some(builder.request(batch));
    }
    let builder = Arc::clone(builder);
    // Masking takes milliseconds, so it runs on a thread of its own.
    tokio::task::spawn_blocking(move || builder.request(batch)).await.ok()
}

/// Sends a batch, and again if the collector may take it later. The queue is bounded, so waiting costs nothing but spans.
async fn send(queue: &TraceQueue, collector: &Collector, request: &ExportTraceServiceRequest, spans: usize) {
    let mut pauses = PAUSES.iter();
    loop {
        let refused = match collector.send(request).await {
            Ok(rejected) => {
                queue.count_sent(spans.saturating_sub(rejected));
                if rejected > 0 {
                    queue.count_dropped(rejected, "the collector refused them");
                }
                return;
            }
            Err(refused) => refused,
        };
        match pauses.next() {
            Some(after) if refused.is_passing && !queue.is_closing() => pause(queue, *after).await,
            _ => return queue.count_dropped(spans, &refused.to_string()),
        }
    }
}

async fn pause(queue: &TraceQueue, pause: Duration) {
    if !queue.is_closing() {
        let _ = tokio::time::timeout(pause, queue.stop.notified()).await;
    }
}
