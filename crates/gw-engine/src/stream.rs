//! The client's body of a streamed answer: pulls the upstream as the client reads, so back-pressure needs no buffer.
//!
//! One state machine, no task: waiting for a first token, live, and over. One timer serves all clocks.

mod broken;
mod waiting;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_wire::money::Money;
use gw_wire::stream::{Closing, KEEPALIVE, write_error};
use http_body::{Body, Frame};
use tokio::time::Sleep;

use crate::attempts::{Answer, Call, Told};
use crate::cached::Shared;
use crate::call::CallLog;
use crate::engine::Cut;
use crate::error::{Error, Kind};
use crate::leavers::Leavers;
use crate::live::Live;
use crate::resume::Resuming;
use crate::sources::Step;
use crate::verdict::{self, Verdict};

/// What a body's poll gives.
type Polled = Poll<Option<Result<Frame<Bytes>, Infallible>>>;

/// Looks for a first token; gives the call back with what it found.
pub(crate) type Opening = Pin<Box<dyn Future<Output = (Box<Call>, Result<(usize, Answer), Error>)> + Send>>;

enum State {
    /// The head is out, no candidate has answered yet.
    Waiting(Opening, Arc<CallLog>),
    /// Content flows.
    Live(Box<Call>, Box<Live>),
    /// It broke off with this, and somebody is looked for who goes on.
    Resuming(Resuming, Arc<CallLog>, Error),
    /// Follows a call that is shared.
    Shared(Box<Shared>),
    /// All there will be.
    Ready(Bytes),
    /// Nothing more will come.
    Over,
}

/// When a stream is cut, and whether that is because its whole time is used up; else its upstream is silent.
#[derive(Clone, Copy)]
struct Limit {
    at: Instant,
    is_late: bool,
}

/// The body of a streamed answer.
pub struct EventStream {
    state: State,
    cut: Cut,
    /// Takes over when the client goes away.
    leavers: Option<Leavers>,
    keepalive: Option<Duration>,
    last_sent: Instant,
    last_heard: Instant,
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
        Self::new(State::Live(call, live), None, cut, None)
    }

    pub(crate) fn shared(shared: Shared, keepalive: Option<Duration>, cut: Cut) -> Self {
        let has_content = shared.has_content();
        let mut stream = Self::new(State::Shared(Box::new(shared)), keepalive, cut, None);
        if !has_content {
            stream.last_sent = long_ago();
        }
        stream
    }

    /// A stream that is known whole.
    pub(crate) fn ready(bytes: Vec<u8>) -> Self {
        Self::new(State::Ready(bytes.into()), None, Cut::default(), None)
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

    fn poll_live(&mut self, cx: &mut TaskContext<'_>) -> Polled {
        loop {
            let State::Live(_, live) = &mut self.state else { return Poll::Ready(None) };
            if !live.out.is_empty() && !live.normaliser.is_complete() && !live.normaliser.has_failed() {
                let frame = Bytes::copy_from_slice(&live.out);
                live.out.clear();
                self.last_sent = self.last_heard;
                return Poll::Ready(Some(Ok(Frame::data(frame))));
            }
            if live.normaliser.is_complete() || live.normaliser.has_failed() {
                return self.conclude();
            }
            match live.poll_step(cx) {
                Poll::Ready(Step::Over) => {}
                Poll::Ready(Step::Progress) => {
                    // Only content counts as a sign of life: an upstream may not buy time with comments.
                    if !live.out.is_empty() {
                        self.last_heard = Instant::now();
                    }
                }
                Poll::Pending => return self.poll_clocks(cx).unwrap_or(Poll::Pending),
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
            let failure = live.candidate.provider.censor(failure);
            if verdict::is_upstreams_fault(&failure) {
                live.candidate.broke(&call.job.snapshot.routing.breaker, Instant::now());
            }
            // What would fail anywhere is not shopped around: no other model goes on with it.
            let goes_on = verdict::verdict(&failure, false) != Verdict::Stop;
            let error = Error::new(verdict::stream_kind(&failure), failure.message);
            return self.break_off(call, live, out, error, goes_on);
        }
        let usage = live.normaliser.usage(call.job.ask.prompt_bytes());
        let cost = live.candidate.model.cost(&usage);
        call.record_ok(&live.candidate, live.started);
        let breaker = &call.job.snapshot.routing.breaker;
        live.candidate.served(breaker, live.first_content, Instant::now());
        live.spoke(usage.completion);
        let gateway = call.meta(&live.candidate, cost.is_some());
        let (used, charged) = call.tally.account.begun();
        let told = (used.plus(&usage), cost.unwrap_or(Money::ZERO) + charged);
        let closing = Closing { usage: told.0, cost: told.1, gateway: &gateway };
        live.normaliser.close(&closing, &mut out);
        call.served(&live.candidate, &usage, cost);
        self.told = call.told.take();
        self.send(&out)
    }

    /// Nothing came: keep-alive, idle limit, total limit, or the end of a drain. None = go on polling.
    fn poll_clocks(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        loop {
            if self.cut.is_cut() {
                let kind = Kind::UpstreamStreamError;
                let error = Error::new(kind, "The gateway is shutting down; the stream was cut.");
                self.settle_cut(kind);
                return Some(self.fail(Vec::new(), &error, kind));
            }
            let now = Instant::now();
            if let Some(limit) = self.limit()
                && now >= limit.at
            {
                let is_late = limit.is_late;
                let message = if is_late {
                    "The request's time was used up; the stream was cut."
                } else {
                    "The upstream sent nothing for too long; the stream was cut."
                };
                return Some(self.time_out(Error::new(Kind::UpstreamTimeout, message), is_late));
            }
            let keepalive = self.keepalive.map(|after| self.last_sent + after);
            if keepalive.is_some_and(|due| now >= due) {
                return Some(self.send(KEEPALIVE));
            }
            let due = [self.limit().map(|limit| limit.at), keepalive].into_iter().flatten().min();
            let due = due.unwrap_or(now + Duration::from_secs(60));
            let first = self.timer.is_none();
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due.into())));
            // The timer is left alone while it fires no later than needed: no re-arming per chunk.
            if timer.deadline().into_std() > due {
                timer.as_mut().reset(due.into());
            }
            if timer.as_mut().poll(cx).is_pending() {
                if first {
                    self.cut.watch(cx);
                    // Thrown between the look above and the watch: nobody would wake us.
                    if self.cut.is_cut() {
                        continue;
                    }
                }
                return Some(Poll::Pending);
            }
            timer.as_mut().reset(due.into());
            if timer.as_mut().poll(cx).is_pending() && !self.cut.is_cut() && Instant::now() < due {
                return Some(Poll::Pending);
            }
        }
    }

    /// When the silence or the whole request has lasted too long. A waiting stream has its own clocks.
    fn limit(&self) -> Option<Limit> {
        let (silent, late) = match &self.state {
            State::Live(call, live) => {
                let clocks = live.candidate.clocks();
                (Some(self.last_heard + clocks.idle), call.job.context.accepted + clocks.total)
            }
            State::Shared(shared) => (None, shared.deadline()?),
            _ => return None,
        };
        let is_late = silent.is_none_or(|silent| late < silent);
        Some(Limit { at: silent.filter(|_| !is_late).unwrap_or(late), is_late })
    }

    fn settle_cut(&mut self, kind: Kind) {
        match &mut self.state {
            State::Live(call, live) => {
                live.abandon();
                let usage = live.normaliser.usage(call.job.ask.prompt_bytes());
                let cost = live.candidate.model.cost(&usage);
                call.record(&live.candidate, kind.code(), live.started);
                call.tally.account.cut(&live.candidate, &usage, cost, kind.code());
            }
            // A client that goes away is what the account assumes of a call that is dropped.
            State::Waiting(_, log) | State::Resuming(_, log, _) if kind != Kind::ClientClosedRequest => {
                log.note(|record| record.status = Some(kind.code()));
            }
            State::Shared(shared) if kind != Kind::ClientClosedRequest => shared.cut(kind),
            State::Waiting(..) | State::Resuming(..) | State::Shared(_) | State::Ready(_) | State::Over => {}
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
        if let Some(leavers) = self.leavers.take() {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Live(call, live) => leavers.take_live(call, live),
                State::Waiting(opening, log) => leavers.take_opening(opening, &log),
                State::Resuming(..) | State::Shared(_) | State::Ready(_) | State::Over => {}
            }
            return;
        }
        // The client went away: what was used so far is noted, the upstream call is dropped with the state.
        self.settle_cut(Kind::ClientClosedRequest);
    }
}
