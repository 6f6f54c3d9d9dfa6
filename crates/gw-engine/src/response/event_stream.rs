//! The client's body of a streamed answer. It reads the upstream as the client reads, so back-pressure needs no buffer.
//!
//! It is one state machine without a task: waiting for a first token, streaming, over. One timer serves all its
//! timeouts.

mod budget;
mod clocks;
mod continuing;
mod digesting;
mod ending;
pub(crate) mod following;
pub(crate) mod recording;
pub(crate) mod sharing;
pub(crate) mod state;
mod waiting;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_wire::dialects::AnswerEncoder;
use gw_wire::money::Money;
use gw_wire::stream::Opening;
use http::HeaderValue;
use http_body::{Body, Frame};
use tokio::time::Sleep;

use crate::call::CallSummary;
use crate::call::answer_closing::AnswerClosing;
use crate::clock;
use crate::error::{Error, Kind};
use crate::event_memory::{Full, HalfEvent, SMALL_EVENT, hand_over, take_small};
use crate::request::context::CallLog;
use crate::response::disconnect::DisconnectDrain;
use crate::response::event_stream::recording::{Keep, Recording};
use crate::response::event_stream::state::{BackgroundEvents, PendingFirstToken, Polled, StreamState};
use crate::response::followed_stream::FollowedStream;
use crate::shutdown::CutoffWatch;
use crate::upstream::merge::ReadStep;

/// The body of a streamed answer.
pub struct EventStream {
    state: StreamState,
    cut: CutoffWatch,
    /// Drains the call if the client disconnects.
    disconnect_drain: Option<DisconnectDrain>,
    keepalive: Option<Duration>,
    last_sent: Instant,
    /// When content or a sign of work last arrived, or when the wait for it began.
    last_heard: Instant,
    /// It waits for content. Otherwise its client is slow, and the upstream is not silent.
    is_waiting: bool,
    /// The deadline of the whole request; None = it has none of its own.
    due: Option<Instant>,
    /// The time in which a client that follows a response must have taken all events so far.
    reading_time: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
    /// It writes a log of its events for the requests that share the call.
    is_recorded: bool,
    /// The summary of a complete answer, for requests that share the call.
    summary: Option<Box<CallSummary>>,
    /// The end of the answer for the client that pays for it, if requests share the call.
    closing: Option<Box<AnswerClosing>>,
    /// The error that the stream ended with.
    failure: Option<Error>,
    /// The opening of a stream in another dialect than OpenAI's, while no upstream has answered.
    opening: Option<Box<Opening>>,
    /// Ends a stream in another dialect with an error while its own encoder is elsewhere.
    closer: Option<Box<dyn AnswerEncoder>>,
    /// Stores the final object of a response.
    recording: Option<Box<Recording>>,
    /// The memory for the end of a stream that fails.
    ending: Option<HalfEvent>,
    /// The answer is a file, which is torn if it fails.
    is_file: bool,
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.state {
            StreamState::Waiting(..) => "waiting",
            StreamState::Streaming(..) => "stream",
            StreamState::Digesting(..) => "digesting",
            StreamState::Continuing(..) => "resuming",
            StreamState::Follower(_) => "shared",
            StreamState::Ready(_) => "ready",
            StreamState::Background(_) => "background",
            StreamState::Over => "over",
        };
        f.debug_struct("EventStream").field("state", &state).finish_non_exhaustive()
    }
}

impl EventStream {
    pub(crate) fn waiting(
        opening: PendingFirstToken,
        log: Arc<CallLog>,
        keepalive: Option<Duration>,
        cut: CutoffWatch,
        disconnect_drain: Option<DisconnectDrain>,
    ) -> Self {
        let mut stream = Self::new(StreamState::Waiting(opening, log), keepalive, cut, disconnect_drain);
        // A first keep-alive follows the head at once, so that proxies on the way see bytes.
        stream.last_sent = long_ago();
        stream
    }

    /// Sets the opening of a client that speaks another dialect than OpenAI's.
    pub(crate) fn opened_by(mut self, opening: Opening) -> Self {
        self.is_file = opening.form.as_ref().is_some_and(|form| form.is_file());
        if self.is_file {
            self.keepalive = None;
        }
        self.opening = opening.form.is_some().then(|| Box::new(opening));
        self
    }

    /// The code of the failure that tears the answer, which is a file, when all of it that came is given.
    #[must_use]
    pub fn torn(&self) -> Option<&'static str> {
        self.failure.as_ref().filter(|_| self.is_file).map(|failure| failure.kind.code())
    }

    /// The media type of a sound file, and the cost so far; None: its price is unknown.
    pub(crate) fn sound(&self) -> (Option<HeaderValue>, Option<Money>) {
        match &self.state {
            StreamState::Streaming(call, stream) => {
                (stream.sound_type(), stream.observe(&call.context.upstream_calls).known_cost())
            }
            _ => (None, None),
        }
    }

    /// Sets the deadline of the whole request.
    pub(crate) fn due_by(mut self, due: Instant) -> Self {
        self.due = Some(due);
        self
    }

    /// The deadline of the whole request. A stream that is polled ends itself then. A stream that is not polled,
    /// because its client does not read, must be dropped by its owner, which ends and settles the call.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn shared(
        shared: Box<dyn FollowedStream>,
        keepalive: Option<Duration>,
        cut: CutoffWatch,
    ) -> Self {
        let (has_content, due) = (shared.has_content(), shared.deadline());
        let mut stream = Self::new(StreamState::Follower(shared), keepalive, cut, None).due_by(due);
        if !has_content {
            stream.last_sent = long_ago();
        }
        stream
    }

    /// A stream whose bytes are all known, with the deadline for reading them.
    pub(crate) fn ready(bytes: Vec<u8>, due: Instant) -> Self {
        Self::new(StreamState::Ready(bytes.into()), None, CutoffWatch::default(), None).due_by(due)
    }

    /// A stream of bytes that are made as the client reads them, with the deadline for reading them.
    pub(crate) fn pieces(pieces: BackgroundEvents, due: Instant) -> Self {
        Self::new(StreamState::Background(pieces), None, CutoffWatch::default(), None).due_by(due)
    }

    /// Has the final object stored before the client gets the last event.
    pub(crate) fn record(&mut self, keep: Keep) {
        self.recording = Some(Box::new(Recording::new(keep)));
    }

    /// Whether the final object was stored.
    pub(crate) fn has_recorded(&self) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.is_done())
    }

    fn poll_follower(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        let StreamState::Follower(follower) = &mut self.state else { return None };
        match follower.poll(cx) {
            Poll::Ready(Some(bytes)) => {
                self.last_sent = clock::now();
                let is_late = !follower.is_leader() && self.last_sent >= follower.deadline();
                if is_late && let Some(cut) = self.overdue(self.last_sent) {
                    return Some(cut);
                }
                Some(Poll::Ready(Some(Ok(Frame::data(bytes)))))
            }
            Poll::Ready(None) => {
                self.state = StreamState::Over;
                None
            }
            Poll::Pending => self.poll_clocks(cx),
        }
    }

    fn send_ready(&mut self) -> Option<Polled> {
        match std::mem::replace(&mut self.state, StreamState::Over) {
            StreamState::Ready(bytes) => Some(Poll::Ready(Some(Ok(Frame::data(bytes))))),
            _ => None,
        }
    }

    fn new(
        state: StreamState,
        keepalive: Option<Duration>,
        cut: CutoffWatch,
        disconnect_drain: Option<DisconnectDrain>,
    ) -> Self {
        let now = clock::now();
        Self {
            state,
            cut,
            disconnect_drain,
            keepalive,
            last_sent: now,
            last_heard: now,
            is_waiting: true,
            due: None,
            reading_time: None,
            timer: None,
            is_recorded: false,
            summary: None,
            closing: None,
            failure: None,
            opening: None,
            closer: None,
            recording: None,
            ending: None,
            is_file: false,
        }
    }

    fn send(&mut self, bytes: Vec<u8>) -> Polled {
        self.last_sent = clock::now();
        Poll::Ready(Some(Ok(Frame::data(hand_over(bytes)))))
    }

    /// Sends the output.
    fn send_output(&mut self) -> Polled {
        // Content without a pause must not hold up the deadline.
        if self.due.is_some_and(|due| self.last_heard >= due)
            && let Some(late) = self.overdue(self.last_heard)
        {
            return late;
        }
        let StreamState::Streaming(call, stream) = &mut self.state else { return Poll::Ready(None) };
        // The progress is noted before the client gets it: a process that dies later has noted it.
        stream.note_progress(call);
        let frame = if stream.output.len() <= SMALL_EVENT {
            take_small(&mut stream.output)
        } else {
            let memory = &call.context.snapshot.state.event_memory;
            match memory.hand_out(call.context.client.caller.key_id(), stream.take_output()) {
                Ok(frame) => frame,
                Err(Full) => return self.fail_for_memory(),
            }
        };
        self.last_sent = self.last_heard;
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    /// Reads the upstream; None = the state has changed.
    fn poll_streaming(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        loop {
            let StreamState::Streaming(_, stream) = &mut self.state else { return None };
            let is_over = stream.normaliser.is_complete() || stream.normaliser.has_failed();
            // A large last event is sent by itself, so that it is counted like the others.
            if is_over && stream.output.len() <= SMALL_EVENT {
                return Some(self.finish());
            }
            if !stream.output.is_empty() {
                return Some(self.send_output());
            }
            if stream.reservation.is_some()
                && let Some(ended) = self.poll_reservation(cx)
            {
                return Some(ended);
            }
            let StreamState::Streaming(call, stream) = &mut self.state else { return None };
            match stream.poll_step(cx) {
                Poll::Ready(ReadStep::Over) => {}
                Poll::Ready(ReadStep::Heavy) => self.digest(),
                Poll::Ready(ReadStep::Progress) => {
                    let is_content = !stream.output.is_empty();
                    let is_alive = stream.is_alive();
                    if is_alive && !is_content {
                        // A tool of the provider may run without a sign for the client.
                        stream.note_progress(call);
                    }
                    if let Some(polled) = self.heard(is_content, is_alive) {
                        return Some(polled);
                    }
                }
                Poll::Pending => {
                    if !std::mem::replace(&mut self.is_waiting, true) {
                        self.last_heard = clock::now();
                    }
                    return Some(self.poll_clocks(cx).unwrap_or(Poll::Pending));
                }
            }
        }
    }

    /// Notes that a piece was read. Only content and work out of sight count as signs of life: comments must not buy the
    /// upstream time.
    fn heard(&mut self, is_content: bool, is_alive: bool) -> Option<Polled> {
        let now = clock::now();
        if is_alive || !self.is_waiting {
            self.last_heard = now;
        }
        self.is_waiting = !is_content;
        if is_content { None } else { self.overdue(now) }
    }

    fn poll_state(&mut self, cx: &mut TaskContext<'_>) -> Polled {
        loop {
            let polled = match &self.state {
                StreamState::Waiting(..) => self.poll_waiting(cx),
                StreamState::Streaming(..) => self.poll_streaming(cx),
                StreamState::Digesting(..) => self.poll_digesting(cx),
                StreamState::Continuing(..) => self.poll_continuing(cx),
                StreamState::Follower(_) => self.poll_follower(cx),
                StreamState::Background(_) => self.poll_background(cx),
                StreamState::Ready(_) => self.send_ready(),
                StreamState::Over => Some(Poll::Ready(None)),
            };
            if let Some(polled) = polled {
                return polled;
            }
        }
    }
}

/// A moment so long ago that a keep-alive is due at once.
fn long_ago() -> Instant {
    let now = clock::now();
    now.checked_sub(Duration::from_secs(3600)).unwrap_or(now)
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Polled {
        if let Some(held) = self.recording.as_mut().and_then(|recording| recording.poll_held(cx)) {
            return held;
        }
        let polled = self.poll_state(cx);
        match &mut self.recording {
            Some(recording) => recording.pass(polled, cx),
            None => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, StreamState::Over)
            && self.recording.as_ref().is_none_or(|recording| !recording.holds())
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        if self.due.is_some_and(|due| clock::now() >= due) {
            // The client did not take the pending event in time, so the upstream call ends.
            self.finish_from_outside(Kind::UpstreamTimeout, Kind::UpstreamTimeout.code());
            return;
        }
        if let Some(disconnect_drain) = self.disconnect_drain.take() {
            match std::mem::replace(&mut self.state, StreamState::Over) {
                StreamState::Streaming(call, stream) => disconnect_drain.drain_stream(call, stream),
                StreamState::Waiting(opening, log) => disconnect_drain.drain_waiting(opening, &log),
                StreamState::Digesting(digesting, log) => disconnect_drain.drain_digesting(digesting, &log),
                StreamState::Continuing(resuming, log, broken) => {
                    disconnect_drain.drain_continuing(resuming, &log, &broken);
                }
                StreamState::Follower(_)
                | StreamState::Ready(_)
                | StreamState::Background(_)
                | StreamState::Over => {}
            }
            return;
        }
        // The client disconnected: the usage so far is settled, and the upstream call is dropped with the state.
        self.finish_from_outside(Kind::ClientClosedRequest, Kind::ClientClosedRequest.code());
    }
}
