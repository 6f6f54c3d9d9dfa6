//! A live stream that broke off: somebody goes on with it, or it is settled and its error sent.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use gw_wire::stream::KEEPALIVE;

use super::{EventStream, Polled, State};
use crate::attempts::Call;
use crate::error::{Error, Kind};
use crate::event_memory::SMALL_EVENT;
use crate::live::Live;
use crate::resume;

impl EventStream {
    pub(super) fn poll_resuming(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        let State::Resuming(resuming, ..) = &mut self.state else { return None };
        let (mut call, found) = match resuming.as_mut().poll(cx) {
            Poll::Ready(found) => found,
            Poll::Pending => return self.poll_clocks(cx),
        };
        match found {
            Ok(live) => {
                self.go_live(call, live);
                None
            }
            Err(live) => {
                let State::Resuming(_, _, error) = std::mem::replace(&mut self.state, State::Over) else {
                    return None;
                };
                resume::give_up(&mut call, &live, error.kind);
                Some(self.fail(Vec::new(), &error, error.kind))
            }
        }
    }

    /// Looks for somebody to go on with a stream that broke off. When that cannot be, it is settled and its error sent.
    pub(super) fn break_off(
        &mut self,
        call: Box<Call>,
        live: Box<Live>,
        out: Vec<u8>,
        error: Error,
        goes_on: bool,
    ) -> Polled {
        let (kind, log) = (error.kind, Arc::clone(&call.job.context.log));
        let resumed = if goes_on { resume::resume(call, live, kind) } else { Err((call, live)) };
        match resumed {
            Ok(resuming) => {
                self.state = State::Resuming(resuming, log, error);
                // What came before the break belongs to the answer. A keep-alive has the body polled again at once.
                self.send(if out.is_empty() { KEEPALIVE } else { &out })
            }
            Err((mut call, live)) => {
                live.meter(&call.job.meter);
                call.record(&live.candidate, kind.code(), live.started);
                call.tally.account.cut(&live.candidate, live.started, kind.code());
                self.fail(out, &error, kind)
            }
        }
    }

    /// A stream's clock has run out: that of the upstream's silence, or of the whole request, which may just be long.
    pub(super) fn time_out(&mut self, error: Error, is_late: bool) -> Polled {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Live(call, mut live) => {
                live.abandon();
                // A large event that came too late is dropped: it would have to be copied and counted.
                let out = Some(live.take_out()).filter(|out| out.len() <= SMALL_EVENT).unwrap_or_default();
                if !is_late {
                    live.candidate.broke(&call.job.snapshot.routing.breaker, Instant::now());
                }
                self.break_off(call, live, out, error, !is_late)
            }
            State::Shared(mut shared) => {
                shared.cut(error.kind, error.kind.code());
                self.fail(Vec::new(), &error, error.kind)
            }
            ended => {
                if let State::Waiting(_, log) | State::Digesting(_, log) | State::Resuming(_, log, _) = &ended
                {
                    // The account in the future that is dropped here would say that the client went away.
                    log.ended(Kind::UpstreamTimeout.code());
                }
                drop(ended);
                self.fail(Vec::new(), &error, Kind::UpstreamTimeout)
            }
        }
    }
}
