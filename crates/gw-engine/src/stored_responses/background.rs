//! Responses that are made in the background: the call runs on without its client, which polls it, follows it or stops it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::future::ready;
use futures_util::stream::{StreamExt, unfold};
use gw_wire::json::View;
use http_body::Body;
use memchr::memmem;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::error::{Error, Kind, Result};
use crate::response::event_stream::EventStream;
use crate::response::event_stream::state::BackgroundEvents;
use crate::stored_responses::{Lease, entry_name};

/// Background responses that run at the same time in this process.
const MAX_RUNNING: usize = 128;
/// Ended responses whose events are kept, so that a client that lost its connection follows to the end.
const MAX_ENDED: usize = 32;
/// The bytes of a running response's events that are kept for clients that follow it.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// The last event for a client that follows a response of too many events. The client polls from then on.
const TOO_MANY_EVENTS: &[u8] = b"event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":\"server_error\",\
\"message\":\"The response has too many events to follow. Retrieve it instead.\",\"param\":null}\n\ndata: [DONE]\n\n";

/// The background responses of this process: the running ones, and the ones that ended last.
#[derive(Debug, Default)]
pub(crate) struct BackgroundResponses {
    running: Mutex<HashMap<String, Running>>,
    /// The number of responses that began.
    begun: AtomicU64,
}

#[derive(Debug)]
struct Running {
    /// The number of the response in the order of their beginnings.
    number: u64,
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
    /// Runs a response in a task of its own, to the end of its stream. `lease` tells other processes that it runs.
    ///
    /// # Errors
    /// `rate_limit_exceeded`: too many responses run in the background.
    pub(crate) fn start(
        &self,
        owner: &str,
        id: &str,
        stream: Box<EventStream>,
        lease: Option<Lease>,
    ) -> Result<()> {
        let name = entry_name(owner, id);
        let mut running = self.running.lock();
        forget_ended(&mut running);
        if running.values().filter(|running| !running.is_over()).count() >= MAX_RUNNING {
            let message = "Too many responses are made in the background at the moment.";
            return Err(Error::new(Kind::RateLimitExceeded, message));
        }
        let events = Arc::new(Mutex::new(Events::default()));
        let (changes, changed) = watch::channel(());
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let task = tokio::spawn(run(stream, Arc::clone(&events), changes, lease)).abort_handle();
        running.insert(name, Running { number, events, changed, task });
        Ok(())
    }

    /// Stops a response; gives whether it ran. Its call is settled with the usage so far.
    pub(crate) fn stop(&self, owner: &str, id: &str) -> bool {
        let stopped = self.running.lock().remove(&entry_name(owner, id));
        stopped.is_some_and(|running| {
            running.task.abort();
            !running.is_over()
        })
    }

    /// The events of a response after this sequence number, or all. None = they are not kept here, or they are too many.
    pub(crate) fn follow(
        &self,
        owner: &str,
        id: &str,
        starting_after: Option<u64>,
    ) -> Option<BackgroundEvents> {
        let running = self.running.lock();
        let Running { events, changed, .. } = running.get(&entry_name(owner, id))?;
        if events.lock().is_cut {
            return None;
        }
        let start = (Arc::clone(events), changed.clone(), 0_usize);
        let all = unfold(start, |(events, mut changed, at)| async move {
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
                // The sender is gone: the response has ended, and all its events were seen.
                changed.changed().await.ok()?;
            }
        });
        Some(match starting_after {
            None => Box::pin(all),
            Some(number) => Box::pin(all.filter_map(move |frame| ready(events_after(&frame, number)))),
        })
    }
}

impl Running {
    /// Whether the response has ended.
    fn is_over(&self) -> bool {
        // The task owns the sender.
        self.changed.has_changed().is_err()
    }
}

/// Drops the events of the oldest ended responses.
fn forget_ended(running: &mut HashMap<String, Running>) {
    let mut ended: Vec<u64> =
        running.values().filter(|running| running.is_over()).map(|running| running.number).collect();
    ended.sort_unstable();
    if let Some(last) = ended.len().checked_sub(MAX_ENDED).and_then(|surplus| ended.get(surplus)).copied() {
        running.retain(|_, running| !running.is_over() || running.number >= last);
    }
}

/// Runs a response to its end, or until another process has ended it. A stream that is dropped settles its call.
async fn run(
    stream: Box<EventStream>,
    events: Arc<Mutex<Events>>,
    changes: watch::Sender<()>,
    lease: Option<Lease>,
) {
    let running = pump(stream, events, changes);
    match lease {
        Some(lease) => tokio::select! {
            () = running => {}
            () = lease.hold() => {}
        },
        None => running.await,
    }
}

async fn pump(mut stream: Box<EventStream>, events: Arc<Mutex<Events>>, changes: watch::Sender<()>) {
    while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut *stream).poll_frame(cx)).await {
        if let Ok(bytes) = frame.into_data() {
            events.lock().push(bytes);
            changes.send_replace(());
        }
    }
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

/// The events of a frame with a sequence number above this one. None = the frame has none.
fn events_after(frame: &Bytes, number: u64) -> Option<Bytes> {
    const END: &[u8] = b"\n\n";
    let (mut kept, mut rest) = (Vec::new(), &frame[..]);
    while let Some(end) = memmem::find(rest, END) {
        let (event, after) = rest.split_at_checked(end + END.len())?;
        if sequence_number(event).is_none_or(|found| found > number) {
            kept.extend_from_slice(event);
        }
        rest = after;
    }
    (!kept.is_empty()).then(|| kept.into())
}

fn sequence_number(event: &[u8]) -> Option<u64> {
    let at = memmem::find(event, b"data: {")? + b"data: ".len();
    let data = std::str::from_utf8(event.get(at..)?).ok()?;
    let [number] = View::new(data.trim_end()).pick(["sequence_number"]);
    number?.text().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_gets_the_events_after_its_own() {
        let event =
            |number: u64| format!("event: x\ndata: {{\"sequence_number\":{number},\"a\":\"\\n\"}}\n\n");
        let frame = Bytes::from([event(1), event(2), event(3), "data: [DONE]\n\n".to_owned()].concat());
        let after = events_after(&frame, 2).unwrap();
        assert_eq!(after, [event(3), "data: [DONE]\n\n".to_owned()].concat());
        assert_eq!(events_after(&Bytes::from(event(2)), 2), None);
    }
}
