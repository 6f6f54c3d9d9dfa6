//! Responses that are made in the background: the call runs on without its client, which polls it, follows it or stops it.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::unfold;
use http_body::Body;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::error::{Error, Kind, Result};
use crate::response::event_stream::EventStream;
use crate::response::event_stream::state::BackgroundEvents;

/// Background responses that run at the same time in this process.
const MAX_RUNNING: usize = 128;
/// The bytes of a running response's events that are kept for clients that follow it.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// The last event for a client that follows a response of too many events. The client polls from then on.
const TOO_MANY_EVENTS: &[u8] = b"event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":\"server_error\",\
\"message\":\"The response has too many events to follow. Retrieve it instead.\",\"param\":null}\n\ndata: [DONE]\n\n";

/// The running background responses of this process.
#[derive(Debug, Default)]
pub(crate) struct BackgroundResponses {
    running: Arc<Mutex<HashMap<String, Running>>>,
}

#[derive(Debug)]
struct Running {
    events: Arc<Mutex<Events>>,
    changed: watch::Receiver<()>,
    task: AbortHandle,
}

/// The events of a response so far.
#[derive(Default)]
struct Events {
    frames: Vec<Bytes>,
    bytes: usize,
    /// Events were dropped, because they were too many.
    is_cut: bool,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("frames", &self.frames.len()).finish_non_exhaustive()
    }
}

impl BackgroundResponses {
    /// Runs a response in a task of its own. `body` gives its stream.
    ///
    /// # Errors
    /// `rate_limit_exceeded`: too many responses run in the background.
    pub(crate) fn start(
        &self,
        owner: &str,
        id: &str,
        body: impl Future<Output = Box<EventStream>> + Send + 'static,
    ) -> Result<()> {
        let name = name(owner, id);
        let mut running = self.running.lock();
        if running.len() >= MAX_RUNNING {
            let message = "Too many responses are made in the background at the moment.";
            return Err(Error::new(Kind::RateLimitExceeded, message));
        }
        let events = Arc::new(Mutex::new(Events::default()));
        let (changes, changed) = watch::channel(());
        let guard = RunningGuard { running: Arc::clone(&self.running), name: name.clone() };
        let task = tokio::spawn(pump(body, Arc::clone(&events), changes, guard));
        running.insert(name, Running { events, changed, task: task.abort_handle() });
        Ok(())
    }

    /// Whether the response runs in this process.
    pub(crate) fn is_running(&self, owner: &str, id: &str) -> bool {
        self.running.lock().contains_key(&name(owner, id))
    }

    /// Stops a response; gives whether it ran. Its call is settled with the usage so far.
    pub(crate) fn stop(&self, owner: &str, id: &str) -> bool {
        let stopped = self.running.lock().remove(&name(owner, id));
        stopped.inspect(|running| running.task.abort()).is_some()
    }

    /// The events of a running response from its beginning. None = it does not run here, or its events are too many.
    pub(crate) fn follow(&self, owner: &str, id: &str) -> Option<BackgroundEvents> {
        let running = self.running.lock();
        let Running { events, changed, .. } = running.get(&name(owner, id))?;
        if events.lock().is_cut {
            return None;
        }
        let start = (Arc::clone(events), changed.clone(), 0_usize);
        Some(Box::pin(unfold(start, |(events, mut changed, at)| async move {
            loop {
                changed.borrow_and_update();
                let (next, is_cut) = {
                    let events = events.lock();
                    (events.frames.get(at).cloned(), events.is_cut)
                };
                match next {
                    Some(frame) => return Some((frame, (events, changed, at + 1))),
                    None if is_cut && at == usize::MAX => return None,
                    None if is_cut => {
                        return Some((Bytes::from_static(TOO_MANY_EVENTS), (events, changed, usize::MAX)));
                    }
                    None => {}
                }
                // The sender is gone: the response has ended.
                changed.changed().await.ok()?;
            }
        })))
    }
}

/// Removes a response from the running ones when its task ends.
struct RunningGuard {
    running: Arc<Mutex<HashMap<String, Running>>>,
    name: String,
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.running.lock().remove(&self.name);
    }
}

async fn pump(
    body: impl Future<Output = Box<EventStream>> + Send,
    events: Arc<Mutex<Events>>,
    changes: watch::Sender<()>,
    guard: RunningGuard,
) {
    let mut stream = body.await;
    while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut *stream).poll_frame(cx)).await {
        if let Ok(bytes) = frame.into_data() {
            events.lock().push(bytes);
            changes.send_replace(());
        }
    }
    drop(guard);
}

impl Events {
    fn push(&mut self, frame: Bytes) {
        self.bytes += frame.len();
        if self.bytes > MAX_EVENT_BYTES {
            self.is_cut = true;
            self.frames = Vec::new();
        } else {
            self.frames.push(frame);
        }
    }
}

/// Ids of keys and of responses have no line breaks.
fn name(owner: &str, id: &str) -> String {
    format!("{owner}\n{id}")
}
