//! The client's body of a streamed answer: pulls the upstream as the client reads, so back-pressure needs no buffer.
//!
//! One state machine, no task: waiting for a first token, live, and over. One timer serves all clocks.

mod broken;
mod clocks;
mod digesting;
mod funds;
mod waiting;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_wire::stream::{Closing, write_error};
use http_body::{Body, Frame};
use tokio::time::Sleep;

pub(crate) use self::digesting::Digesting;
pub(crate) use self::funds::Funds;
use crate::attempts::{Answer, Call, Told};
use crate::cached::Shared;
use crate::call::CallLog;
use crate::cut::Cut;
use crate::error::{Error, Kind};
use crate::event_memory::{Full, SMALL_EVENT};
use crate::leavers::Leavers;
use crate::live::Live;
use crate::resume::Resuming;
use crate::sources::Step;
use crate::verdict::{self, Verdict};

/// Content up to this size is copied out of a buffer that the stream keeps.
const KEPT_BYTES: usize = 8 << 10;

/// What a body's poll gives.
type Polled = Poll<Option<Result<Frame<Bytes>, Infallible>>>;

/// Looks for a first token; gives the call back with what it found.
pub(crate) type Opening = Pin<Box<dyn Future<Output = (Box<Call>, Result<(usize, Answer), Error>)> + Send>>;

enum State {
    /// The head is out, no candidate has answered yet.
    Waiting(Opening, Arc<CallLog>),
    /// Content flows.
    Live(Box<Call>, Box<Live>),
    /// Content flows, and a piece of it takes long to read.
    Digesting(Digesting, Arc<CallLog>),
    /// It broke off with this, and somebody is looked for who goes on.
    Resuming(Resuming, Arc<CallLog>, Error),
    /// Follows a call that is shared.
    Shared(Box<Shared>),
    /// All there will be.
    Ready(Bytes),
    /// Nothing more will come.
    Over,
}

/// The body of a streamed answer.
pub struct EventStream {
    state: State,
    cut: Cut,
    /// Takes over when the client goes away.
    leavers: Option<Leavers>,
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
    told: Option<Told>,
    /// Why it broke off.
    failure: Option<Error>,
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.state {
            State::Waiting(..) => "waiting",
            State::Live(..) => "live",
            State::Digesting(..) => "digesting",
            State::Resuming(..) => "resuming",
            State::Shared(_) => "shared",
            State::Ready(_) => "ready",
            State::Over => "over",
        };
        f.debug_struct("EventStream").field("state", &state).finish_non_exhaustive()
    }
}

impl EventStream {
    pub(crate) fn waiting(
        opening: Opening,
        log: Arc<CallLog>,
        keepalive: Option<Duration>,
        cut: Cut,
        leavers: Option<Leavers>,
    ) -> Self {
        let mut stream = Self::new(State::Waiting(opening, log), keepalive, cut, leavers);
        // The head goes out with a first keep-alive, so that proxies on the way see bytes.
        stream.last_sent = long_ago();
        stream
    }

    /// A call whose answer others read: no comments, they have their own. Its task knows how long it goes on without them.
    pub(crate) fn unheard(call: Box<Call>, live: Box<Live>, cut: Cut) -> Self {
        let due = due_of(&call, &live);
        Self::new(State::Live(call, live), None, cut, None).due_by(due)
    }

    /// The same, with the moment at which its whole time is used up.
    pub(crate) fn due_by(mut self, due: Instant) -> Self {
        self.due = Some(due);
        self
    }

    /// When its whole time is used up. It ends itself then, if it is polled; if it is not, because its client does not read,
    /// then its owner drops it, which ends the upstream call and settles the account.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn shared(shared: Shared, keepalive: Option<Duration>, cut: Cut) -> Self {
        let (has_content, due) = (shared.has_content(), shared.deadline());
        let mut stream = Self::new(State::Shared(Box::new(shared)), keepalive, cut, None).due_by(due);
        if !has_content {
            stream.last_sent = long_ago();
        }
        stream
    }

    /// A stream that is known whole, and should be read by then.
    pub(crate) fn ready(bytes: Vec<u8>, due: Instant) -> Self {
        Self::new(State::Ready(bytes.into()), None, Cut::default(), None).due_by(due)
    }

    /// What a complete answer used, once.
    pub(crate) fn told(&mut self) -> Option<Told> {
        self.told.take()
    }

    /// Why it broke off.
    pub(crate) fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    fn poll_shared(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        match &mut self.state {
            State::Shared(shared) => match shared.poll(cx) {
                Poll::Ready(Some(bytes)) => {
                    self.last_sent = Instant::now();
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

    fn new(state: State, keepalive: Option<Duration>, cut: Cut, leavers: Option<Leavers>) -> Self {
        let now = Instant::now();
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
            told: None,
            failure: None,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Polled {
        self.last_sent = Instant::now();
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
        let State::Live(call, live) = &mut self.state else { return Poll::Ready(None) };
        // Before the client has it: whoever dies from here on has noted it.
        live.note(call);
        let frame = if live.out.len() <= KEPT_BYTES {
            let frame = Bytes::copy_from_slice(&live.out);
            live.out.clear();
            frame
        } else if live.out.len() <= SMALL_EVENT {
            // Not copied, and no room for it is kept while it waits for the client.
            Bytes::from(std::mem::take(&mut live.out).into_boxed_slice())
        } else {
            let memory = &call.job.snapshot.state.event_memory;
            match memory.hand_out(live.take_out()) {
                Ok(frame) => frame,
                Err(Full) => return self.full(),
            }
        };
        self.last_sent = self.last_heard;
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    /// There is no room for a large event.
    fn full(&mut self) -> Polled {
        let State::Live(call, mut live) = std::mem::replace(&mut self.state, State::Over) else {
            return Poll::Ready(None);
        };
        live.abandon();
        let message = "The gateway is holding as many large events as it can; the stream was cut.";
        let error = Error::new(Kind::UpstreamStreamError, message);
        self.break_off(call, live, Vec::new(), error, false)
    }

    fn poll_live(&mut self, cx: &mut TaskContext<'_>) -> Polled {
        loop {
            if let Some(polled) = self.poll_digesting(cx) {
                return polled;
            }
            let State::Live(_, live) = &mut self.state else { return Poll::Ready(None) };
            let is_over = live.normaliser.is_complete() || live.normaliser.has_failed();
            // A large last event goes out by itself: it is counted like the others.
            if is_over && live.out.len() <= SMALL_EVENT {
                return self.conclude();
            }
            if !live.out.is_empty() {
                return self.give();
            }
            if live.funds.is_some()
                && let Some(ended) = self.poll_funds(cx)
            {
                return ended;
            }
            let State::Live(_, live) = &mut self.state else { return Poll::Ready(None) };
            match live.poll_step(cx) {
                Poll::Ready(Step::Over) => {}
                Poll::Ready(Step::Heavy) => self.digest(),
                Poll::Ready(Step::Progress) => {
                    let (now, is_content) = (Instant::now(), !live.out.is_empty());
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
                        self.last_heard = Instant::now();
                    }
                    return self.poll_clocks(cx).unwrap_or(Poll::Pending);
                }
            }
        }
    }

    /// The upstream is done: closes the stream well, or with the error event.
    fn conclude(&mut self) -> Polled {
        let State::Live(mut call, mut live) = std::mem::replace(&mut self.state, State::Over) else {
            return Poll::Ready(None);
        };
        let mut out = std::mem::take(&mut live.out);
        if let Some(failure) = live.normaliser.take_failure() {
            let mut failure = live.candidate.provider.censor(failure);
            if verdict::is_upstreams_fault(&failure) {
                live.candidate.broke(&call.job.snapshot.routing.breaker, Instant::now());
            }
            // What would fail anywhere is not shopped around: no other model goes on with it.
            let goes_on = verdict::verdict(&failure, false) != Verdict::Stop;
            call.tally.keep_reason(&call.job, &mut failure);
            let error = Error::new(verdict::stream_kind(&failure), failure.message);
            return self.break_off(call, live, out, error, goes_on);
        }
        let bill = live.meter(&call.job.meter);
        let (usage, cost) = (bill.usage, bill.known_cost());
        call.record_ok(&live.candidate, live.started);
        let breaker = &call.job.snapshot.routing.breaker;
        live.candidate.served(breaker, live.first_content, Instant::now());
        live.spoke(usage.completion);
        let gateway = call.meta(&live.candidate, cost.is_some());
        let (used, charged) = call.tally.account.begun();
        let told = (used.plus(&usage), bill.cost + charged);
        let closing = Closing { usage: told.0, cost: told.1, gateway: &gateway };
        live.normaliser.finish(&closing, &mut out);
        call.served(&live.candidate, &usage, cost);
        self.told = call.told.take();
        self.send(&out)
    }

    /// Ends the account of a stream that did not end by itself. The client hears of `kind`, if it hears; ledger and log have `code`.
    fn settle_cut(&mut self, kind: Kind, code: &'static str) {
        match &mut self.state {
            State::Live(call, live) => {
                live.abandon();
                live.meter(&call.job.meter);
                call.record(&live.candidate, code, live.started);
                call.tally.account.cut(&live.candidate, live.started, code);
            }
            // A client that goes away is what the account assumes of a call that is dropped.
            State::Waiting(_, log) | State::Digesting(_, log) | State::Resuming(_, log, _)
                if kind != Kind::ClientClosedRequest =>
            {
                log.note(|record| record.status = Some(code));
            }
            State::Shared(shared) if kind != Kind::ClientClosedRequest => shared.cut(kind, code),
            State::Waiting(..)
            | State::Digesting(..)
            | State::Resuming(..)
            | State::Shared(_)
            | State::Ready(_)
            | State::Over => {}
        }
    }
}

/// So that the head goes out with a first keep-alive.
fn long_ago() -> Instant {
    let now = Instant::now();
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
        if self.due.is_some_and(|due| Instant::now() >= due) {
            // The client did not take the pending event in time, so the upstream call ends.
            self.settle_cut(Kind::UpstreamTimeout, Kind::UpstreamTimeout.code());
            return;
        }
        if let Some(leavers) = self.leavers.take() {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Live(call, live) => leavers.take_live(call, live),
                State::Waiting(opening, log) => leavers.take_opening(opening, &log),
                State::Digesting(digesting, log) => leavers.take_digesting(digesting, &log),
                State::Resuming(..) | State::Shared(_) | State::Ready(_) | State::Over => {}
            }
            return;
        }
        // The client went away: what was used so far is noted, the upstream call is dropped with the state.
        self.settle_cut(Kind::ClientClosedRequest, Kind::ClientClosedRequest.code());
    }
}

/// When the time of a live stream is used up.
fn due_of(call: &Call, live: &Live) -> Instant {
    call.job.context.accepted + live.candidate.clocks().total
}
