//! The client's body of a streamed answer: pulls the upstream as the client reads, so back-pressure needs no buffer.
//!
//! One state machine, no task: waiting for a first token, stream, and over. One timer serves all clocks.

mod budget;
mod clocks;
mod continuing;
mod digesting;
pub(crate) mod state;
mod waiting;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_wire::stream::{Closing, write_error};
use http_body::{Body, Frame};
use tokio::time::Sleep;

use crate::call::progress::OK;
use crate::call::upstream_call::AttemptOutcome;
use crate::call::{Call, CallSummary};
use crate::clock;
use crate::error::{Error, Kind};
use crate::event_memory::{Full, SMALL_EVENT};
use crate::request::context::CallLog;
use crate::response::disconnect::DisconnectDrain;
use crate::response::event_stream::state::{PendingFirstToken, Polled, State, deadline_of};
use crate::response_cache::follower_stream::FollowerStream;
use crate::retry_policy::{self, RetryDecision};
use crate::shutdown::CutoffWatch;
use crate::upstream::merge::ReadStep;
use crate::upstream::stream::UpstreamStream;

/// Content up to this size is copied out of a buffer that the stream keeps.
const KEPT_BYTES: usize = 8 << 10;

/// The body of a streamed answer.
pub struct EventStream {
    state: State,
    cut: CutoffWatch,
    /// Takes over when the client goes away.
    leavers: Option<DisconnectDrain>,
    keepalive: Option<Duration>,
    last_sent: Instant,
    /// When content last came, or when the wait for it began.
    last_heard: Instant,
    /// It waits for content. While it does not, its client holds it up, and the upstream is not silent.
    is_waiting: bool,
    /// When its whole time is used up; None = it has no clock of its own.
    due: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    /// What a complete answer used, for those who share it.
    summary: Option<CallSummary>,
    /// Why it broke off.
    failure: Option<Error>,
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.state {
            State::Waiting(..) => "waiting",
            State::Streaming(..) => "stream",
            State::Digesting(..) => "digesting",
            State::Continuing(..) => "resuming",
            State::Follower(_) => "shared",
            State::Ready(_) => "ready",
            State::Over => "over",
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
        leavers: Option<DisconnectDrain>,
    ) -> Self {
        let mut stream = Self::new(State::Waiting(opening, log), keepalive, cut, leavers);
        // The head goes out with a first keep-alive, so that proxies on the way see bytes.
        stream.last_sent = long_ago();
        stream
    }

    /// A call whose answer others read: no comments, they have their own. Its task knows how long it goes on without them.
    pub(crate) fn unheard(call: Box<Call>, stream: Box<UpstreamStream>, cut: CutoffWatch) -> Self {
        let due = deadline_of(&call, &stream);
        Self::new(State::Streaming(call, stream), None, cut, None).due_by(due)
    }

    /// The same, with the moment at which its whole time is used up.
    pub(crate) fn due_by(mut self, due: Instant) -> Self {
        self.due = Some(due);
        self
    }

    /// When its whole time is used up. It ends itself then, if it is polled; if it is not, because its client does not read,
    /// then its owner drops it, which ends the upstream call and settles the settlement.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn shared(shared: FollowerStream, keepalive: Option<Duration>, cut: CutoffWatch) -> Self {
        let (has_content, due) = (shared.has_content(), shared.deadline());
        let mut stream = Self::new(State::Follower(Box::new(shared)), keepalive, cut, None).due_by(due);
        if !has_content {
            stream.last_sent = long_ago();
        }
        stream
    }

    /// A stream that is known whole, and should be read by then.
    pub(crate) fn ready(bytes: Vec<u8>, due: Instant) -> Self {
        Self::new(State::Ready(bytes.into()), None, CutoffWatch::default(), None).due_by(due)
    }

    /// What a complete answer used, once.
    pub(crate) fn take_summary(&mut self) -> Option<CallSummary> {
        self.summary.take()
    }

    /// Why it broke off.
    pub(crate) fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    fn poll_shared(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        match &mut self.state {
            State::Follower(shared) => match shared.poll(cx) {
                Poll::Ready(Some(bytes)) => {
                    self.last_sent = clock::now();
                    let is_late = !shared.is_leader() && self.last_sent >= shared.deadline();
                    if is_late && let Some(cut) = self.overdue(self.last_sent) {
                        return Some(cut);
                    }
                    Some(Poll::Ready(Some(Ok(Frame::data(bytes)))))
                }
                Poll::Ready(None) => {
                    self.state = State::Over;
                    None
                }
                Poll::Pending => self.poll_clocks(cx),
            },
            State::Ready(bytes) => {
                let bytes = std::mem::take(bytes);
                self.state = State::Over;
                Some(Poll::Ready(Some(Ok(Frame::data(bytes)))))
            }
            _ => None,
        }
    }

    fn new(
        state: State,
        keepalive: Option<Duration>,
        cut: CutoffWatch,
        leavers: Option<DisconnectDrain>,
    ) -> Self {
        let now = clock::now();
        Self {
            state,
            cut,
            leavers,
            keepalive,
            last_sent: now,
            last_heard: now,
            is_waiting: true,
            due: None,
            timer: None,
            summary: None,
            failure: None,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Polled {
        self.last_sent = clock::now();
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(bytes)))))
    }

    /// Ends the stream with the error event.
    fn fail(&mut self, out: Vec<u8>, error: &Error, kind: Kind) -> Polled {
        let mut out = out;
        write_error(&mut out, &error.message, "upstream_error", kind.code());
        self.failure = Some(error.clone());
        self.state = State::Over;
        self.send(&out)
    }

    /// Hands out the content that has come.
    fn give(&mut self) -> Polled {
        // Content without a pause has an end, too.
        if self.due.is_some_and(|due| self.last_heard >= due)
            && let Some(late) = self.overdue(self.last_heard)
        {
            return late;
        }
        let State::Streaming(call, stream) = &mut self.state else { return Poll::Ready(None) };
        // Before the client has it: whoever dies from here on has noted it.
        stream.note_progress(call);
        let frame = if stream.output.len() <= KEPT_BYTES {
            let frame = Bytes::copy_from_slice(&stream.output);
            stream.output.clear();
            frame
        } else if stream.output.len() <= SMALL_EVENT {
            // Not copied, and no room for it is kept while it waits for the client.
            Bytes::from(std::mem::take(&mut stream.output).into_boxed_slice())
        } else {
            let memory = &call.context.snapshot.state.event_memory;
            match memory.hand_out(stream.take_output()) {
                Ok(frame) => frame,
                Err(Full) => return self.full(),
            }
        };
        self.last_sent = self.last_heard;
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    /// There is no room for a large event.
    fn full(&mut self) -> Polled {
        let State::Streaming(call, mut stream) = std::mem::replace(&mut self.state, State::Over) else {
            return Poll::Ready(None);
        };
        stream.cancel();
        let message = "The gateway is holding as many large events as it can; the stream was cut.";
        let error = Error::new(Kind::UpstreamStreamError, message);
        self.break_off(call, stream, Vec::new(), error, false)
    }

    fn poll_live(&mut self, cx: &mut TaskContext<'_>) -> Polled {
        loop {
            if let Some(polled) = self.poll_digesting(cx) {
                return polled;
            }
            let State::Streaming(_, stream) = &mut self.state else { return Poll::Ready(None) };
            let is_over = stream.normaliser.is_complete() || stream.normaliser.has_failed();
            // A large last event goes out by itself: it is counted like the others.
            if is_over && stream.output.len() <= SMALL_EVENT {
                return self.conclude();
            }
            if !stream.output.is_empty() {
                return self.give();
            }
            if stream.reservation.is_some()
                && let Some(ended) = self.poll_funds(cx)
            {
                return ended;
            }
            let State::Streaming(_, stream) = &mut self.state else { return Poll::Ready(None) };
            match stream.poll_step(cx) {
                Poll::Ready(ReadStep::Over) => {}
                Poll::Ready(ReadStep::Heavy) => self.digest(),
                Poll::Ready(ReadStep::Progress) => {
                    let (now, is_content) = (clock::now(), !stream.output.is_empty());
                    if is_content || !self.is_waiting {
                        self.last_heard = now;
                    }
                    self.is_waiting = !is_content;
                    // Only content counts as a sign of life: an upstream may not buy time with comments.
                    if !is_content && let Some(polled) = self.overdue(now) {
                        return polled;
                    }
                }
                Poll::Pending => {
                    if !std::mem::replace(&mut self.is_waiting, true) {
                        self.last_heard = clock::now();
                    }
                    return self.poll_clocks(cx).unwrap_or(Poll::Pending);
                }
            }
        }
    }

    /// The upstream is done: closes the stream well, or with the error event.
    fn conclude(&mut self) -> Polled {
        let State::Streaming(mut call, mut stream) = std::mem::replace(&mut self.state, State::Over) else {
            return Poll::Ready(None);
        };
        let mut out = std::mem::take(&mut stream.output);
        if let Some(failure) = stream.normaliser.take_failure() {
            let mut failure = stream.candidate.provider.censor(failure);
            if retry_policy::is_upstreams_fault(&failure) {
                stream.candidate.broke(&call.context.snapshot.routing.breaker, clock::now());
            }
            // What would fail anywhere is not shopped around: no other model goes on with it.
            let goes_on = retry_policy::verdict(&failure, false) != RetryDecision::Stop;
            call.progress.keep_reason(&call.context, &mut failure);
            let error = Error::new(retry_policy::stream_kind(&failure), failure.message);
            return self.break_off(call, stream, out, error, goes_on);
        }
        stream.observe(&call.context.upstream_calls);
        let billed = call.progress.end_attempt(&stream.candidate, stream.attempt, AttemptOutcome::Served, OK);
        let breaker = &call.context.snapshot.routing.breaker;
        stream.candidate.served(breaker, stream.first_content, clock::now());
        stream.record_throughput(billed.usage.completion);
        let gateway = call.meta(&stream.candidate, billed.known_cost().is_some());
        let answer = call.context.upstream_calls.answer();
        let closing = Closing { usage: answer.usage, cost: answer.cost, gateway: &gateway };
        stream.normaliser.close(&closing, &mut out);
        call.finish_served(&stream.candidate, &billed);
        self.summary = call.summary.take();
        self.send(&out)
    }

    /// Ends the settlement of a stream that did not end by itself. The client hears of `kind`, if it hears; ledger and log have `code`.
    fn settle_cut(&mut self, kind: Kind, code: &'static str) {
        match &mut self.state {
            State::Streaming(call, stream) => {
                stream.cancel();
                stream.observe(&call.context.upstream_calls);
                call.interrupt(&stream.candidate, stream.attempt, code);
            }
            // A client that goes away is what the settlement assumes of a call that is dropped.
            State::Waiting(_, log) | State::Digesting(_, log) | State::Continuing(_, log, _)
                if kind != Kind::ClientClosedRequest =>
            {
                log.note(|record| record.status = Some(code));
            }
            State::Follower(shared) if kind != Kind::ClientClosedRequest => shared.cut(kind, code),
            State::Waiting(..)
            | State::Digesting(..)
            | State::Continuing(..)
            | State::Follower(_)
            | State::Ready(_)
            | State::Over => {}
        }
    }
}

/// So that the head goes out with a first keep-alive.
fn long_ago() -> Instant {
    let now = clock::now();
    now.checked_sub(Duration::from_secs(3600)).unwrap_or(now)
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Polled {
        if let Some(answer) = self.poll_waiting(cx) {
            return answer;
        }
        if let Some(answer) = self.poll_shared(cx) {
            return answer;
        }
        if let Some(answer) = self.poll_resuming(cx) {
            return answer;
        }
        self.poll_live(cx)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Over)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        if self.due.is_some_and(|due| clock::now() >= due) {
            // The client did not take the pending event in time, so the upstream call ends.
            self.settle_cut(Kind::UpstreamTimeout, Kind::UpstreamTimeout.code());
            return;
        }
        if let Some(leavers) = self.leavers.take() {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Streaming(call, stream) => leavers.take_live(call, stream),
                State::Waiting(opening, log) => leavers.take_opening(opening, &log),
                State::Digesting(digesting, log) => leavers.take_digesting(digesting, &log),
                State::Continuing(..) | State::Follower(_) | State::Ready(_) | State::Over => {}
            }
            return;
        }
        // The client went away: what was used so far is noted, the upstream call is dropped with the state.
        self.settle_cut(Kind::ClientClosedRequest, Kind::ClientClosedRequest.code());
    }
}
