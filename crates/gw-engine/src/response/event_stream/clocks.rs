//! The timeouts of a stream: keep-alive, idle upstream, total, and the end of a shutdown.
//!
//! They are checked when nothing arrived, and after each piece without content, so that comments without a pause cannot
//! hold them up. A stream whose client does not read is not polled; see [`EventStream::due`].

use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use gw_wire::stream::KEEPALIVE;

use crate::call::Call;
use crate::clock;
use crate::error::{Error, GATEWAY_SHUTDOWN, Kind};
use crate::response::event_stream::EventStream;
use crate::response::event_stream::state::{Polled, StreamState, deadline_of};
use crate::upstream::stream::UpstreamStream;

/// When a stream is ended, and whether its total timeout is the reason, not a silent upstream.
#[derive(Clone, Copy)]
struct StreamLimit {
    at: Instant,
    is_late: bool,
}

/// The time that an attempt has to report its own timeout.
const ATTEMPT_GRACE: Duration = Duration::from_millis(100);

impl EventStream {
    /// Begins to stream content.
    pub(super) fn go_live(&mut self, call: Box<Call>, stream: Box<UpstreamStream>) {
        self.due = Some(deadline_of(&call, &stream));
        self.state = StreamState::Streaming(call, stream);
        self.last_heard = clock::now();
        self.is_waiting = true;
    }

    /// Checks the timeouts, and has the task woken for the next one. None = continue polling.
    pub(super) fn poll_clocks(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        loop {
            let now = clock::now();
            if let Some(polled) = self.overdue(now) {
                return Some(polled);
            }
            let keepalive = self.keepalive.map(|after| self.last_sent + after);
            let due = [self.limit().map(|limit| limit.at), keepalive].into_iter().flatten().min();
            let due = due.unwrap_or(now + Duration::from_secs(60));
            let first = self.timer.is_none();
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due.into())));
            // The timer is not reset while it fires no later than needed, which saves a reset per chunk.
            if timer.deadline().into_std() > due {
                timer.as_mut().reset(due.into());
            }
            if timer.as_mut().poll(cx).is_pending() {
                if first {
                    self.cut.watch(cx);
                    // The cutoff may have been triggered between the check above and the watch.
                    if self.cut.is_cut() {
                        continue;
                    }
                }
                return Some(Poll::Pending);
            }
            timer.as_mut().reset(due.into());
            if timer.as_mut().poll(cx).is_pending() && !self.cut.is_cut() && clock::now() < due {
                return Some(Poll::Pending);
            }
        }
    }

    /// The frame to send if a timeout has expired.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<Polled> {
        if self.cut.is_cut() {
            let kind = Kind::UpstreamStreamError;
            let error = Error {
                // The code is for requests that share the stream.
                code: Some(GATEWAY_SHUTDOWN.into()),
                ..Error::new(kind, "The gateway is shutting down; the stream was cut.")
            };
            let gateway = self.finish_from_outside(kind, GATEWAY_SHUTDOWN);
            return Some(self.fail(Vec::new(), &error, kind, gateway.as_ref()));
        }
        if let Some(limit) = self.limit()
            && now >= limit.at
        {
            let is_late = limit.is_late;
            let message = if is_late {
                "The request exceeded its time limit; the stream was cut."
            } else {
                "The upstream sent nothing for too long; the stream was cut."
            };
            return Some(self.time_out(Error::new(Kind::UpstreamTimeout, message), is_late));
        }
        let keepalive = self.keepalive.is_some_and(|after| now >= self.last_sent + after);
        keepalive.then(|| self.send_keepalive())
    }

    /// Sends a sign of life in the client's dialect.
    pub(super) fn send_keepalive(&mut self) -> Polled {
        let mut out = Vec::new();
        match &mut self.state {
            // The readers of a shared stream get their own.
            _ if self.is_recorded => {}
            StreamState::Streaming(_, stream) => stream.normaliser.keepalive(&mut out),
            StreamState::Follower(follower) => follower.keepalive(&mut out),
            _ => match self.closer.as_mut() {
                Some(closer) => closer.keepalive(&mut out),
                None => match self.opening.as_ref().and_then(|opening| opening.encoder()) {
                    Some(mut encoder) => encoder.keepalive(&mut out),
                    None => out.extend_from_slice(KEEPALIVE),
                },
            },
        }
        self.send(out)
    }

    /// The next moment at which the idle or the total timeout ends the stream.
    fn limit(&self) -> Option<StreamLimit> {
        let (silent, late) = match &self.state {
            StreamState::Streaming(call, stream) => {
                (Some(self.last_heard + stream.candidate.clocks().idle), deadline_of(call, stream))
            }
            StreamState::Follower(shared) if !shared.is_leader() => (None, shared.deadline()),
            // The attempt ends itself and reports more, unless its steps wait for the CPU pool.
            StreamState::Waiting(..) | StreamState::Continuing(..) | StreamState::Digesting(..) => {
                (None, self.due? + ATTEMPT_GRACE)
            }
            _ => return None,
        };
        let is_late = silent.is_none_or(|silent| late < silent);
        Some(StreamLimit { at: silent.filter(|_| !is_late).unwrap_or(late), is_late })
    }
}
