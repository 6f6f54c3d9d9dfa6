//! The end of a stream: with the closing events, with an error event, or from outside.

use std::task::Poll;

use gw_wire::dialects::{AnswerEncoder, StreamError};
use gw_wire::gateway::GatewayMeta;
use gw_wire::stream::close_with_error;
use http_body::Frame;

use super::EventStream;
use super::state::{Polled, StreamState};
use crate::call::answer_closing::AnswerClosing;
use crate::call::progress::OK;
use crate::call::upstream_call::AttemptOutcome;
use crate::clock;
use crate::error::{Error, Kind};
use crate::event_memory::HalfEvent;
use crate::retry_policy::{self, RetryDecision};
use crate::upstream::choices;

impl EventStream {
    /// Ends the stream with an error event.
    pub(super) fn fail(
        &mut self,
        mut out: Vec<u8>,
        error: &Error,
        kind: Kind,
        gateway: Option<&GatewayMeta>,
    ) -> Polled {
        let (message, code, cause) = (&*error.message, kind.code(), error.cause_code());
        let error_event = StreamError { message, kind: "upstream_error", code, cause, gateway };
        if !self.is_recorded {
            close_with_error(self.take_encoder(), &mut out, &error_event);
        }
        self.failure = Some(error.clone());
        self.state = StreamState::Over;
        match self.ending.take() {
            Some(held) => self.send_end(held, out),
            None => self.send(out),
        }
    }

    /// Sends the last frame. A large one is counted until its client has it.
    pub(super) fn send_end(&mut self, held: HalfEvent, out: Vec<u8>) -> Polled {
        self.last_sent = clock::now();
        Poll::Ready(Some(Ok(Frame::data(held.hand_out(out)))))
    }

    /// Takes the encoder that ends the stream with an error. None = the client speaks OpenAI's dialect.
    pub(super) fn take_encoder(&mut self) -> Option<Box<dyn AnswerEncoder>> {
        match &mut self.state {
            StreamState::Streaming(_, stream) => {
                let closer = stream.take_closer();
                self.ending = Some(stream.take_held());
                closer
            }
            StreamState::Follower(follower) => follower.take_encoder(),
            _ => self.closer.take().or_else(|| self.opening.take()?.encoder()),
        }
    }

    /// Ends a stream whose upstream is finished: with the closing events, or with an error event.
    pub(super) fn finish(&mut self) -> Polled {
        let StreamState::Streaming(mut call, mut stream) =
            std::mem::replace(&mut self.state, StreamState::Over)
        else {
            return Poll::Ready(None);
        };
        let mut out = std::mem::take(&mut stream.output);
        if let Some(failure) = stream.normaliser.take_failure() {
            let mut failure = stream.candidate.provider.censor(failure);
            // A model that writes a broken call is up. Its circuit stays closed for others.
            if retry_policy::is_upstreams_fault(&failure) && !stream.normaliser.is_answer_unreadable() {
                stream.candidate.note_failure(&call.context.snapshot.routing.breaker, clock::now());
            }
            // No other model continues a request that would fail everywhere.
            let goes_on = retry_policy::verdict(&failure, false) != RetryDecision::Stop;
            call.progress.keep_reason(&call.context, &mut failure);
            let (kind, cause) = (retry_policy::stream_kind(&failure), retry_policy::kind(&failure));
            let error = Error { cause: Some(cause), ..Error::new(kind, failure.message) };
            return self.break_off(call, stream, out, error, goes_on);
        }
        if stream.hold_ending().is_err() {
            return self.cut_for_memory(call, stream);
        }
        stream.observe(&call.context.upstream_calls);
        stream.trace_answer(&mut call);
        let billed = call.progress.end_attempt(&stream.candidate, stream.attempt, AttemptOutcome::Served, OK);
        let breaker = &call.context.snapshot.routing.breaker;
        stream.candidate.note_success(breaker, stream.first_content, clock::now());
        stream.record_throughput(billed.usage.completion);
        let answer = call.context.upstream_calls.answer();
        let cost = answer.known_cost();
        let asked = choices::asked_for(&call.context.request).as_ref().map_or(0, choices::count);
        // A continuation counts only the choice that it goes on with.
        if stream.normaliser.finishes().flatten().count() < asked && !stream.normaliser.is_continuation() {
            call.note_missing_choices();
        }
        let gateway = call.meta(&stream.candidate, cost.is_some());
        let closing = AnswerClosing { usage: answer.usage, cost, gateway };
        self.close(&call, &mut stream.normaliser, closing, &mut out);
        call.finish_served(&stream.candidate, &billed);
        self.summary = call.summary.take();
        self.send_end(stream.take_held(), out)
    }

    /// Settles a stream that is ended from outside. The client gets `kind`; the ledger and the log get `code`.
    pub(super) fn finish_from_outside(&mut self, kind: Kind, code: &'static str) -> Option<GatewayMeta> {
        match &mut self.state {
            StreamState::Streaming(call, stream) => {
                stream.cancel();
                stream.observe(&call.context.upstream_calls);
                return Some(call.interrupt_told(&stream.candidate, stream.attempt, code));
            }
            // A call that is dropped is settled as disconnected.
            StreamState::Waiting(_, log)
            | StreamState::Digesting(_, log)
            | StreamState::Continuing(_, log, _)
                if kind != Kind::ClientClosedRequest =>
            {
                log.note(|record| record.status = Some(code));
            }
            StreamState::Follower(shared) if kind != Kind::ClientClosedRequest => shared.cut(kind, code),
            StreamState::Waiting(..)
            | StreamState::Digesting(..)
            | StreamState::Continuing(..)
            | StreamState::Follower(_)
            | StreamState::Ready(_)
            | StreamState::Background(_)
            | StreamState::Over => {}
        }
        None
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn the_fault_behind_a_streams_error_has_its_type_of_the_table() {
        for kind in Kind::ALL {
            let (_, wanted, cause) = kind.row();
            let error =
                StreamError { cause, ..StreamError::new("", "upstream_error", "upstream_stream_error") };
            assert_eq!(error.cause_kind(), wanted, "{cause}");
        }
    }
}
