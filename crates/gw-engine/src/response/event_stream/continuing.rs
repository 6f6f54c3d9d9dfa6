//! A stream that broke off: another candidate continues it, or it is settled and ends with an error event.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use crate::call::Call;
use crate::call::settlement::Outcome;
use crate::clock;
use crate::error::{Error, Kind};
use crate::event_memory::SMALL_EVENT;
use crate::response::event_stream::EventStream;
use crate::response::event_stream::state::{BreakOff, Polled, StreamState};
use crate::upstream::resume;
use crate::upstream::stream::UpstreamStream;

impl EventStream {
    pub(super) fn poll_continuing(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        let StreamState::Continuing(resuming, ..) = &mut self.state else { return None };
        let (mut call, found) = match resuming.as_mut().poll(cx) {
            Poll::Ready(found) => found,
            Poll::Pending => return self.poll_clocks(cx),
        };
        match found {
            Ok(stream) => {
                self.go_live(call, stream);
                None
            }
            Err(_) => {
                let StreamState::Continuing(_, _, BreakOff { error, .. }) =
                    std::mem::replace(&mut self.state, StreamState::Over)
                else {
                    return None;
                };
                call.progress.settlement.finish(&Outcome::Interrupted(error.kind.code()));
                let gateway = call.meta_of_failure();
                Some(self.fail(Vec::new(), &error, error.kind, gateway.as_ref()))
            }
        }
    }

    /// Searches a candidate that continues the stream. If that is impossible, the stream is settled and ends with its
    /// error.
    pub(super) fn break_off(
        &mut self,
        call: Box<Call>,
        stream: Box<UpstreamStream>,
        out: Vec<u8>,
        error: Error,
        goes_on: bool,
    ) -> Polled {
        let (kind, log) = (error.kind, Arc::clone(&call.context.client.log));
        self.closer = stream.normaliser.closer();
        let resumed = if goes_on { resume::resume(call, stream, kind) } else { Err((call, stream)) };
        match resumed {
            Ok(resuming) => {
                let attempts = log.record().attempts;
                self.state = StreamState::Continuing(resuming, log, BreakOff { error, attempts });
                // The output before the break belongs to the answer. A frame makes the server poll the body again at once. Without
                // keep-alives it may be empty: then the client gets nothing.
                if out.is_empty() && self.keepalive.is_some() {
                    return self.send_keepalive();
                }
                self.send(out)
            }
            Err((mut call, mut stream)) => {
                self.closer = stream.take_closer();
                self.ending = Some(stream.take_held());
                stream.observe(&call.context.upstream_calls);
                let gateway = call.interrupt_told(&stream.candidate, stream.attempt, kind.code());
                self.fail(out, &error, kind, Some(&gateway))
            }
        }
    }

    /// Ends the stream, because there is no room for a large event.
    pub(super) fn fail_for_memory(&mut self) -> Polled {
        match std::mem::replace(&mut self.state, StreamState::Over) {
            StreamState::Streaming(call, stream) => self.cut_for_memory(call, stream),
            _ => Poll::Ready(None),
        }
    }

    /// As [`Self::fail_for_memory`], for a call and a stream that the state has given away.
    pub(super) fn cut_for_memory(&mut self, call: Box<Call>, mut stream: Box<UpstreamStream>) -> Polled {
        stream.cancel();
        let message = "The gateway is holding as many large events as it can; the stream was cut.";
        let error = Error::new(Kind::UpstreamStreamError, message);
        self.break_off(call, stream, Vec::new(), error, false)
    }

    /// Ends a stream at a timeout: of a silent upstream, or of the whole request.
    pub(super) fn time_out(&mut self, error: Error, is_late: bool) -> Polled {
        match std::mem::replace(&mut self.state, StreamState::Over) {
            StreamState::Streaming(call, mut stream) => {
                stream.cancel();
                // A large event that came too late is discarded, because it would have to be copied and counted.
                let out =
                    Some(stream.take_output()).filter(|out| out.len() <= SMALL_EVENT).unwrap_or_default();
                if !is_late {
                    stream.candidate.note_failure(&call.context.snapshot.routing.breaker, clock::now());
                }
                self.break_off(call, stream, out, error, !is_late)
            }
            StreamState::Follower(mut shared) => {
                shared.cut(error.kind, error.kind.code());
                self.closer = shared.take_encoder();
                self.fail(Vec::new(), &error, error.kind, None)
            }
            ended => {
                if let StreamState::Waiting(_, log)
                | StreamState::Digesting(_, log)
                | StreamState::Continuing(_, log, _) = &ended
                {
                    // Otherwise the settlement in the dropped future would note a disconnect.
                    log.ended(Kind::UpstreamTimeout.code());
                }
                drop(ended);
                self.fail(Vec::new(), &error, Kind::UpstreamTimeout, None)
            }
        }
    }
}
