//! Responses that are made in the background: the call runs on without its client, which polls it, follows it or stops it.

mod events;
mod task;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{StreamExt, unfold};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use self::events::{BackgroundFrames, TOO_MANY_EVENTS, events_for};
pub(crate) use self::task::BackgroundTask;
use self::task::{TaskCount, TaskLinks};
use crate::error::{Error, Kind, Result};
use crate::response::event_stream::state::BackgroundEvents;
use crate::shared_pool::{PoolHolding, PoolRefusal, SharedPool};
use crate::stored_responses::StoredResponses;
use crate::stored_responses::stored_response::entry_name;

/// Background responses that run at the same time in this process.
const MAX_RUNNING: u64 = 128;
/// Ended responses whose events are kept, so that a client that lost its connection follows to the end.
const MAX_ENDED: usize = 32;
/// The bytes of all events that are kept for clients that follow.
const MAX_EVENT_BYTES: u64 = 64 << 20;
/// The time after which a client that found no place may try again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The background responses of this process: the running ones, and the ones that ended last.
#[derive(Debug)]
pub(crate) struct BackgroundResponses {
    running: Mutex<HashMap<String, Running>>,
    /// The number of responses that began.
    begun: AtomicU64,
    /// The tasks that have not ended.
    tasks: Arc<watch::Sender<usize>>,
    places: Arc<SharedPool>,
    event_memory: Arc<SharedPool>,
}

impl Default for BackgroundResponses {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
            begun: AtomicU64::new(0),
            tasks: Arc::new(watch::Sender::new(0)),
            places: SharedPool::new(MAX_RUNNING),
            event_memory: SharedPool::new(MAX_EVENT_BYTES),
        }
    }
}

#[derive(Debug)]
struct Running {
    owner: Arc<str>,
    /// The number of the response in the order of their beginnings.
    number: u64,
    frames: Arc<Mutex<BackgroundFrames>>,
    changed: watch::Receiver<()>,
    task: AbortHandle,
}

impl BackgroundResponses {
    /// The responses that are being made, for the metrics.
    pub(crate) fn gauge(&self) -> Gauge {
        self.places.gauge()
    }

    /// Whether this response is being made.
    pub(crate) fn makes(&self, owner: &str, id: &str) -> bool {
        self.running.lock().get(&entry_name(owner, id)).is_some_and(|running| !running.is_over())
    }

    /// Takes a place for a response of this key.
    ///
    /// # Errors
    /// `rate_limit_exceeded`: the key holds its share of the places, or all places are taken.
    pub(crate) fn take_place(&self, owner: &Arc<str>) -> Result<PoolHolding> {
        let mut place = self.places.holding(owner);
        let message = match place.set(1) {
            Ok(()) => return Ok(place),
            Err(PoolRefusal::OverShare) => {
                "This key has as many responses in the background as its share allows. Wait until one of them has ended, or \
                 cancel one."
            }
            Err(PoolRefusal::UsedUp) => "Too many responses are made in the background at the moment.",
        };
        Err(Error::new(Kind::RateLimitExceeded, message).retry_after(RETRY_AFTER))
    }

    /// Makes a response in a task of its own. Returns whether it is stored as running, as soon as that is known.
    pub(crate) fn start(
        &self,
        stored: &Arc<StoredResponses>,
        response: BackgroundTask,
    ) -> oneshot::Receiver<Result<()>> {
        let owner = Arc::clone(&response.owner);
        let name = entry_name(&owner, &response.id);
        let mut running = self.running.lock();
        self.forget_ended(&mut running, &owner);
        let frames = Arc::new(Mutex::new(BackgroundFrames::new(self.event_memory.holding(&owner))));
        let (changes, changed) = watch::channel(());
        let (begun, has_begun) = oneshot::channel();
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let count = TaskCount::one_more(&self.tasks);
        let links = TaskLinks { frames: Arc::clone(&frames), changes, begun, count };
        let task = tokio::spawn(task::run(Arc::clone(stored), response, links)).abort_handle();
        running.insert(name, Running { owner, number, frames, changed, task });
        has_begun
    }

    /// Waits until no response is made any more.
    pub(crate) async fn ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.tasks.subscribe().wait_for(|count| *count == 0).await;
    }

    /// The number of responses that are being made.
    pub(crate) fn count(&self) -> usize {
        *self.tasks.borrow()
    }

    /// Stops a response. Returns whether it ran. Its upstream call is cancelled, and its call is settled with the usage so far.
    /// `cancelled` is the response object of the last event for clients that follow.
    pub(crate) fn stop(&self, owner: &str, id: &str, cancelled: Option<&str>) -> bool {
        let stopped = self.running.lock().remove(&entry_name(owner, id));
        stopped.is_some_and(|running| {
            let has_run = !running.is_over();
            if let Some(cancelled) = cancelled.filter(|_| has_run) {
                running.frames.lock().end_with(cancelled);
            }
            running.task.abort();
            has_run
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
        let Running { frames, changed, .. } = running.get(&entry_name(owner, id))?;
        if frames.lock().is_cut() {
            return None;
        }
        let start = (Arc::clone(frames), changed.clone(), 0_usize);
        let all = unfold(start, |(frames, mut changed, at)| async move {
            loop {
                changed.borrow_and_update();
                let (next, is_cut) = {
                    let frames = frames.lock();
                    (frames.at(at), frames.is_cut())
                };
                match next {
                    Some(frame) => return Some((frame, (frames, changed, at + 1))),
                    None if is_cut && at == usize::MAX => return None,
                    None if is_cut => {
                        return Some((Bytes::from_static(TOO_MANY_EVENTS), (frames, changed, usize::MAX)));
                    }
                    None => {}
                }
                if changed.changed().await.is_err() {
                    // The sender is gone: the response has ended. Its last event came behind all that were seen.
                    let last = frames.lock().at(at)?;
                    return Some((last, (frames, changed, at + 1)));
                }
            }
        });
        Some(match starting_after {
            None => Box::pin(all),
            Some(number) => after(Box::pin(all), number),
        })
    }

    /// Drops the oldest ended response's events of the key that has the most of them, and all of this key's events if they
    /// take too much of its share.
    fn forget_ended(&self, running: &mut HashMap<String, Running>, owner: &str) {
        if self.event_memory.is_half_used_by(owner) {
            running.retain(|_, running| !running.is_over() || *running.owner != *owner);
        }
        let ended = running.values().filter(|running| running.is_over());
        let mut ended: Vec<(Arc<str>, u64)> =
            ended.map(|running| (Arc::clone(&running.owner), running.number)).collect();
        while ended.len() > MAX_ENDED {
            let Some(oldest) = oldest_of_largest(&ended) else { return };
            ended.retain(|(_, number)| *number != oldest);
            running.retain(|_, running| running.number != oldest);
        }
    }
}

/// The events after this sequence number. Comments between them have no number and stay.
fn after(all: BackgroundEvents, number: u64) -> BackgroundEvents {
    Box::pin(unfold(all, move |mut all| async move {
        let mut looked_at = 0;
        loop {
            let frame = all.next().await?;
            looked_at += frame.len();
            if let Some(events) = events_for(&frame, number) {
                return Some((events, all));
            }
            if looked_at >= LOOKED_AT_ONCE {
                looked_at = 0;
                tokio::task::yield_now().await;
            }
        }
    }))
}

/// The bytes of events that are searched before another task gets its turn.
const LOOKED_AT_ONCE: usize = 64 << 10;

/// The oldest response of the key that has the most of these, each with its key and its number.
fn oldest_of_largest(ended: &[(Arc<str>, u64)]) -> Option<u64> {
    let mut counts: HashMap<&str, (usize, Reverse<u64>)> = HashMap::new();
    for (owner, number) in ended {
        let (count, oldest) = counts.entry(owner).or_insert((0, Reverse(*number)));
        *count += 1;
        *oldest = (*oldest).max(Reverse(*number));
    }
    counts.into_values().max().map(|(_, Reverse(oldest))| oldest)
}

impl Running {
    /// Whether the response has ended.
    fn is_over(&self) -> bool {
        // The task owns the sender.
        self.changed.has_changed().is_err()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_search_for_the_next_event_lets_others_run() {
        let event = |number: usize| {
            let text = "x".repeat(1000);
            Bytes::from(format!("event: x\ndata: {{\"sequence_number\":{number},\"a\":\"{text}\"}}\n\n"))
        };
        let all = futures_util::stream::iter((1..=1000).map(event));
        let mut events = after(Box::pin(all), 998);
        let polls = (1..).find_map(|poll| Some((poll, events.next().now_or_never()?)));
        assert_eq!(polls, Some((16, Some(event(999)))));
        assert_eq!(events.next().now_or_never(), Some(Some(event(1000))));
        assert_eq!(events.next().now_or_never(), Some(None));
    }

    #[test]
    fn the_key_with_the_most_ended_responses_loses_its_oldest_one() {
        let (a, b) = (Arc::<str>::from("a"), Arc::<str>::from("b"));
        let of = |owner: &Arc<str>, number| (Arc::clone(owner), number);
        assert_eq!(oldest_of_largest(&[of(&b, 1), of(&a, 2), of(&a, 3), of(&a, 4)]), Some(2));
        assert_eq!(oldest_of_largest(&[of(&a, 4), of(&b, 3)]), Some(3));
        assert_eq!(oldest_of_largest(&[]), None);
    }
}
