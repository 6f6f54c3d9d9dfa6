//! The events of a response in the background, for clients that follow it.

use bytes::Bytes;
use gw_wire::dialects::responses::replay::last_event;
use gw_wire::json::View;
use memchr::memmem;

use crate::event_memory::SMALL_EVENT;
use crate::shared_pool::PoolHolding;

/// The end of a stream.
const DONE: &[u8] = b"data: [DONE]\n\n";
/// The bytes of one response's events that are kept.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// The last event for a client that follows a response of too many events. The client polls from then on.
pub(super) const TOO_MANY_EVENTS: &[u8] = b"event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":\"server_error\",\
\"message\":\"The response has too many events to follow. Retrieve it instead.\",\"param\":null}\n\ndata: [DONE]\n\n";

/// The events of a response so far.
pub(super) struct BackgroundFrames {
    frames: Vec<Bytes>,
    bytes: usize,
    /// The memory of the small frames, in the pool that keys share. A large frame counts itself.
    held: PoolHolding,
    /// Events were dropped, because they were too many.
    is_cut: bool,
    /// The last event was added by [`BackgroundFrames::end_with`].
    has_ended: bool,
}

/// A large frame, counted until the log and all clients that follow have dropped it.
struct KeptFrame {
    frame: Vec<u8>,
    _held: PoolHolding,
}

impl AsRef<[u8]> for KeptFrame {
    fn as_ref(&self) -> &[u8] {
        &self.frame
    }
}

impl std::fmt::Debug for BackgroundFrames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackgroundFrames").field("frames", &self.frames.len()).finish_non_exhaustive()
    }
}

impl BackgroundFrames {
    /// No events. Their memory is counted in `held`.
    pub(super) fn new(held: PoolHolding) -> Self {
        Self { frames: Vec::new(), bytes: 0, held, is_cut: false, has_ended: false }
    }

    /// Counts a frame. A large one is copied: its own bytes count as an event that waits for a client, and nothing waits here.
    fn counted(&mut self, frame: Bytes) -> Option<Bytes> {
        let bytes = frame.len() as u64;
        if frame.len() <= SMALL_EVENT {
            self.held.set(self.held.amount() + bytes).ok()?;
            return Some(frame);
        }
        let mut held = self.held.another();
        held.set(bytes).ok()?;
        Some(Bytes::from_owner(KeptFrame { frame: frame.to_vec(), _held: held }))
    }

    /// Adds a frame. Beyond the bounds, no events are kept any more.
    pub(super) fn push(&mut self, frame: Bytes) {
        if self.is_cut || self.has_ended {
            return;
        }
        self.bytes += frame.len();
        let kept = if self.bytes > MAX_EVENT_BYTES { None } else { self.counted(frame) };
        match kept {
            Some(frame) => self.frames.push(frame),
            None => {
                self.is_cut = true;
                self.frames = Vec::new();
                // Less is always granted.
                let _ = self.held.set(0);
            }
        }
    }

    /// Adds the last event of a response with this object, if the call has not sent one. Later frames are left out.
    pub(super) fn end_with(&mut self, object: &str) {
        let [status] = View::new(object).pick(["status"]);
        let Some(kind) = status.and_then(View::string).and_then(|status| last_event(&status)) else { return };
        if self.frames.last().is_some_and(|last| last.ends_with(DONE)) {
            return;
        }
        let number = self.frames.iter().rev().find_map(last_number).map_or(0, |number| number + 1);
        // A line feed would end the event. In JSON it only stands between tokens.
        let object = object.replace(['\n', '\r'], " ");
        let event = format!(
            "event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{number},\"response\":{object}}}\n\n\
             data: [DONE]\n\n"
        );
        self.push(Bytes::from(event));
        self.has_ended = true;
    }

    /// The frame at this place.
    pub(super) fn at(&self, place: usize) -> Option<Bytes> {
        self.frames.get(place).cloned()
    }

    /// Whether the events are not kept.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// The events of a frame for a client that has seen those up to this sequence number. None = the frame has none. The end of a
/// response of too many events is for all clients.
pub(super) fn events_for(frame: &Bytes, seen: u64) -> Option<Bytes> {
    if frame == TOO_MANY_EVENTS { Some(frame.clone()) } else { events_after(frame, seen) }
}

/// The events of a frame with a sequence number above this one. None = the frame has none.
fn events_after(frame: &Bytes, number: u64) -> Option<Bytes> {
    const END: &[u8] = b"\n\n";
    // The numbers grow, so the events behind the last one that the client has seen are a part of the frame without a copy.
    let (mut at, mut seen) = (0, 0);
    while let Some(end) = frame.get(at..).and_then(|rest| memmem::find(rest, END)) {
        let event = at..at + end + END.len();
        at = event.end;
        if sequence_number(frame.get(event)?).is_some_and(|found| found <= number) {
            seen = at;
        }
    }
    (seen < at).then(|| frame.slice(seen..at))
}

/// The largest sequence number of a frame.
fn last_number(frame: &Bytes) -> Option<u64> {
    let starts = memmem::rfind_iter(frame, b"data: {");
    starts
        .filter_map(|start| sequence_number(frame.get(start..)?.split(|byte| *byte == b'\n').next()?))
        .next()
}

fn sequence_number(event: &[u8]) -> Option<u64> {
    let at = memmem::find(event, b"data: {")? + b"data: ".len();
    let data = std::str::from_utf8(event.get(at..)?).ok()?;
    let [number] = View::new(data.trim_end()).pick(["sequence_number"]);
    number?.text().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event_memory::EventMemory;
    use crate::shared_pool::SharedPool;

    #[test]
    fn a_follower_gets_the_events_after_its_own() {
        let event =
            |number: u64| format!("event: x\ndata: {{\"sequence_number\":{number},\"a\":\"\\n\"}}\n\n");
        let frame = Bytes::from([event(1), event(2), event(3), "data: [DONE]\n\n".to_owned()].concat());
        let after = events_after(&frame, 2).unwrap();
        assert_eq!(after, [event(3), "data: [DONE]\n\n".to_owned()].concat());
        assert_eq!(events_after(&Bytes::from(event(2)), 2), None);
    }

    #[test]
    fn a_follower_that_has_seen_events_is_told_that_the_others_are_not_kept() {
        let told = events_for(&Bytes::from_static(TOO_MANY_EVENTS), 7).unwrap();
        assert_eq!(told, TOO_MANY_EVENTS);
    }

    #[test]
    fn the_last_event_of_a_cancelled_response_follows_the_others() {
        let pool = SharedPool::new(1 << 20);
        let mut frames = BackgroundFrames::new(pool.holding(&Arc::from("a")));
        frames.push(Bytes::from_static(b"event: x\ndata: {\"sequence_number\":7,\"a\":\"data: {\"}\n\n"));
        frames.end_with("{\n\"status\":\"cancelled\"}");
        frames.push(Bytes::from_static(b"late"));
        let expected = "event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":8,\
            \"response\":{ \"status\":\"cancelled\"}}\n\ndata: [DONE]\n\n";
        assert_eq!(frames.at(1).unwrap(), expected);
        assert!(frames.at(2).is_none());
        // A response that ended by itself has its last event.
        frames.end_with("{\"status\":\"completed\"}");
        assert!(frames.at(2).is_none());
    }

    #[test]
    fn events_beyond_the_share_of_their_key_are_not_kept() {
        let pool = SharedPool::new(1000);
        let (key, other) = (Arc::from("a"), Arc::from("b"));
        let mut first = BackgroundFrames::new(pool.holding(&key));
        first.push(Bytes::from(vec![b'x'; 400]));
        let mut second = BackgroundFrames::new(pool.holding(&key));
        second.push(Bytes::from(vec![b'x'; 101]));
        assert!(second.is_cut() && !first.is_cut());
        let mut others = BackgroundFrames::new(pool.holding(&other));
        others.push(Bytes::from(vec![b'x'; 300]));
        assert!(!others.is_cut());
        drop((first, others));
        assert_eq!(pool.gauge().get(), 0);
    }

    #[test]
    fn a_large_event_that_is_kept_counts_once_and_as_long_as_somebody_holds_it() {
        let (waiting, pool, key) = (EventMemory::default(), SharedPool::new(1 << 20), Arc::from("a"));
        let mut log = BackgroundFrames::new(pool.holding(&key));
        log.push(Bytes::from(vec![b'x'; 1000]));
        log.push(waiting.hand_out(&key, vec![b'x'; 200_000]).unwrap());
        let mut half = waiting.half_event(&key);
        half.set(300_000).unwrap();
        log.push(half.take().hand_out(vec![b'y'; 250_000]));
        assert_eq!(waiting.gauge().get(), 0, "no client waits for these events");
        assert_eq!(pool.gauge().get(), 451_000);
        let followed = log.at(2).unwrap();
        assert!(followed.iter().all(|byte| *byte == b'y') && followed.len() == 250_000);
        // More than there is room for: the log keeps nothing, and the client still has its event.
        log.push(waiting.hand_out(&key, vec![b'x'; 800_000]).unwrap());
        assert!(log.is_cut() && log.at(0).is_none());
        assert_eq!((waiting.gauge().get(), pool.gauge().get()), (0, 250_000));
        drop(followed);
        assert_eq!(pool.gauge().get(), 0);
    }
}
