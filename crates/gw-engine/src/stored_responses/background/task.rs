//! The task that makes one response in the background, from its first mark in the store to its end there.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use gw_wire::dialects::responses::states;
use http_body::Body;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::events::BackgroundFrames;
use crate::cpu_pool::CpuPool;
use crate::error::Result;
use crate::response::event_stream::EventStream;
use crate::response::hand_over::{AnswerRecord, ComingRecord};
use crate::shared_pool::PoolHolding;
use crate::stored_responses::stored_response::text_of;
use crate::stored_responses::{StoredConversation, StoredResponse, StoredResponses};

/// The error of a response whose stream ended without a final object.
const BROKEN_OFF: &str = "The gateway could not finish this response. Send the request again.";

/// A response that is to be made in the background.
pub(crate) struct BackgroundTask {
    /// The id of the key that asked.
    pub(crate) owner: Arc<str>,
    pub(crate) id: String,
    /// The response as it is stored while it is made.
    pub(crate) pending: StoredResponse,
    /// The conversation that it continues.
    pub(crate) before: Arc<StoredConversation>,
    /// The call, which stores the final object itself.
    pub(crate) stream: Box<EventStream>,
    /// The record of the request comes here.
    pub(crate) record: ComingRecord,
    /// The place among the responses in the background.
    pub(crate) place: PoolHolding,
    /// The CPU pool as the key uses it. Large responses are scanned and sealed there.
    pub(crate) cpu: CpuPool,
}

/// The ends of a task that its registry keeps, as the task sees them.
pub(super) struct TaskLinks {
    pub(super) frames: Arc<Mutex<BackgroundFrames>>,
    /// Dropped when the response has ended.
    pub(super) changes: watch::Sender<()>,
    /// Gets whether the response is stored as running.
    pub(super) begun: oneshot::Sender<Result<()>>,
    /// The number of tasks, which this one is counted in.
    pub(super) count: TaskCount,
}

/// One of the tasks that a shutdown waits for.
pub(super) struct TaskCount(Arc<watch::Sender<usize>>);

impl TaskCount {
    pub(super) fn one_more(count: &Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(Arc::clone(count))
    }
}

impl Drop for TaskCount {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// The parts of a running response, in the order of their ends: the call is settled, then the request ends, and then its
/// place is free.
struct RunningParts {
    stream: Box<EventStream>,
    record: Option<Box<dyn AnswerRecord>>,
    _place: PoolHolding,
    _count: TaskCount,
}

/// Makes a response: to the end of its stream, or until another process has ended it. A stream that is dropped settles its
/// call.
pub(super) async fn run(stored: Arc<StoredResponses>, task: BackgroundTask, links: TaskLinks) {
    let BackgroundTask { owner, id, pending, before, stream, record: coming, place, cpu } = task;
    let TaskLinks { frames, changes, begun, count } = links;
    let mut parts = RunningParts { stream, record: None, _place: place, _count: count };
    let document = pending.document.clone();
    let stored_as_running =
        cpu.host(begin(Arc::clone(&stored), (Arc::clone(&owner), id.clone()), pending, before)).await;
    let is_stored = stored_as_running.is_ok();
    let is_awaited = begun.send(stored_as_running).is_ok();
    parts.record = if is_stored && is_awaited { coming.await.ok() } else { None };
    if parts.record.is_none() {
        // The client left before it knew of the response.
        if is_stored {
            let _ = stored.delete(&owner, &id).await;
        }
        return;
    }
    let making = AssertUnwindSafe(pump(&mut parts, &frames, &changes)).catch_unwind();
    let is_ended_elsewhere = match stored.lease(&owner, &id) {
        Some(lease) => tokio::select! {
            made = making => report_panic(&made),
            () = lease.hold() => true,
        },
        None => report_panic(&making.await),
    };
    if !parts.stream.has_recorded() {
        let ended = cpu.host(end(stored, (owner, id), is_ended_elsewhere)).await;
        // Clients that follow learn the end that is stored, or that another replica deleted the response.
        match ended {
            Some(ended) => frames.lock().end_with(ended.text()),
            None if is_ended_elsewhere => {
                let cancelled = states::cancelled(text_of(&document));
                frames.lock().end_with(text_of(&cancelled));
            }
            None => return,
        }
        changes.send_replace(());
    }
}

/// Returns a response as it ended in the store. One that ended nowhere else is stored as failed.
async fn end(
    stored: Arc<StoredResponses>,
    (owner, id): (Arc<str>, String),
    is_ended_elsewhere: bool,
) -> Option<Arc<StoredResponse>> {
    if !is_ended_elsewhere && let Err(error) = stored.fail(&owner, &id, BROKEN_OFF).await {
        tracing::warn!(?error, "the failure of a response in the background was not stored");
    }
    stored.load(&owner, &id).await.ok().flatten()
}

/// Stores a response of this owner and id as one that runs.
async fn begin(
    stored: Arc<StoredResponses>,
    (owner, id): (Arc<str>, String),
    pending: StoredResponse,
    before: Arc<StoredConversation>,
) -> Result<()> {
    stored.begin(&owner, &id, pending, &before).await
}

/// Logs the panic of a stream. It ended nowhere else.
fn report_panic(made: &std::thread::Result<()>) -> bool {
    if made.is_err() {
        tracing::error!("a bug: a response in the background panicked");
    }
    false
}

async fn pump(parts: &mut RunningParts, frames: &Mutex<BackgroundFrames>, changes: &watch::Sender<()>) {
    let RunningParts { stream, record, .. } = parts;
    while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut **stream).poll_frame(cx)).await {
        let Ok(bytes) = frame.into_data() else { continue };
        if let Some(record) = record {
            record.made(&bytes);
        }
        frames.lock().push(bytes);
        changes.send_replace(());
    }
}
