//! A stream whose budget must not be exceeded (`on_budget = "cut"`). It reserves more money in steps as it grows, and
//! ends when the budget has nothing left.
//!
//! The usage of a running stream is a lower estimate: a token for every three bytes or for every piece, whichever is
//! more. So a stream can exceed its budget by one event, by the tokens that its upstream makes between the last check and the end,
//! and by the tokens that the upstream counts beyond the estimate.

use std::task::{Context as TaskContext, Poll};

use gw_limits::{Refusal, Reservation};
use gw_wire::dialects::StreamError;
use gw_wire::money::Money;
use gw_wire::stream::close_with_error;
use gw_wire::usage::BYTES_PER_TOKEN;

use crate::call::Call;
use crate::call::answer_closing::AnswerClosing;
use crate::call::settlement::Outcome;
use crate::call::stream_reservation::{
    MARGIN_BYTES, MARGIN_TOKENS, STEP_BYTES, STEP_TOKENS, StreamReservation,
};
use crate::call::upstream_call::AttemptOutcome;
use crate::error::{Error, Kind};
use crate::limit_error;
use crate::request::ValidatedRequest;
use crate::response::event_stream::EventStream;
use crate::response::event_stream::state::{Polled, StreamState};
use crate::upstream::stream::UpstreamStream;

/// Tokens between two checks of the reservation.
const CHECK_INTERVAL_TOKENS: u64 = 64;

/// The cost of all calls of the request so far, and the cost of further tokens of each answer.
fn needs(call: &Call, stream: &UpstreamStream, tokens: u64) -> (Money, Money) {
    let meter = &call.context.upstream_calls;
    let bill = stream.observe(meter);
    // The records of upstream calls count bytes, not pieces.
    let unseen = written_tokens(call, stream).saturating_sub(bill.usage.completion);
    let unseen = unseen.div_ceil(call.context.request.answers().max(1));
    let now = meter.cost_with(stream.attempt, unseen);
    let then = meter.cost_with(stream.attempt, unseen.saturating_add(tokens));
    (meter.all().cost - bill.cost + now, then - now)
}

/// The tokens that the model has written. The prompt that `echo` repeats is none of them. Of several answers some have not begun, and
/// all of their text counts: the budget must hold.
fn written_tokens(call: &Call, stream: &UpstreamStream) -> u64 {
    let (request, tokens) = (&call.context.request, stream.normaliser.answer_tokens());
    match request {
        ValidatedRequest::Completion(asked) if asked.echo && request.answers() == 1 => {
            let mut echoed_bytes = 0;
            request.each_size(&stream.candidate, |size| echoed_bytes += size.echoed_bytes());
            tokens.saturating_sub(echoed_bytes.div_ceil(BYTES_PER_TOKEN))
        }
        _ => tokens,
    }
}

/// The tokens that each answer may still have, by the `max_tokens` of the request, after this many tokens of all answers.
fn still_allowed(call: &Call, tokens: u64) -> u64 {
    let request = &call.context.request;
    let most = request.max_tokens().unwrap_or(u64::MAX);
    most.saturating_sub(tokens / request.answers().max(1))
}

impl StreamReservation {
    /// Adds a grant to the reservation. Returns the refusal if the budget refuses.
    fn take(&mut self, grown: Result<(Reservation, i128), Refusal>, call: &mut Call) -> Option<Refusal> {
        match grown {
            Ok((reservation, granted)) => {
                self.held += Money::from_femtos(granted);
                self.is_exhausted = granted == 0;
                call.progress.settlement.hold_more(reservation);
                None
            }
            Err(refusal) => {
                self.is_exhausted = matches!(refusal, Refusal::Budget { .. });
                Some(refusal)
            }
        }
    }

    /// Asks the limiter for more: the amount `most`, or what the budget has left, down to `least`.
    fn grow(&mut self, call: &Call, most: Money, least: Money) {
        self.steps += 1;
        let (limiter, client) = (self.limiter.clone(), &call.context.client);
        // The rules hold the whole worst case already.
        let caller = client.caller.clone();
        let id = format!("{}+{}", call.context.client.request_id, self.steps);
        let (most, least) = (most.femtos(), least.femtos());
        *self.growing.get_mut() =
            Some(Box::pin(
                async move { limiter.reserve_up_to(&id, caller.subjects(), 0, most, least).await },
            ));
    }
}

impl EventStream {
    /// Checks whether the reservation allows the stream to continue; None = it does.
    pub(super) fn poll_reservation(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        loop {
            let StreamState::Streaming(call, stream) = &mut self.state else { return None };
            let (tokens, reservation) = (stream.normaliser.answer_tokens(), stream.reservation.as_mut()?);
            let mut refusal = None;
            if let Some(growing) = reservation.growing.get_mut() {
                let Poll::Ready(grown) = growing.as_mut().poll(cx) else {
                    // The stream does not read meanwhile, which slows the upstream down.
                    return Some(self.poll_clocks(cx).unwrap_or(Poll::Pending));
                };
                *reservation.growing.get_mut() = None;
                refusal = reservation.take(grown, call);
            } else if tokens < reservation.next_look {
                return None;
            }
            let (held, is_exhausted) = (reservation.held, reservation.is_exhausted || refusal.is_some());
            // Near the end of the budget each piece is checked.
            reservation.next_look = tokens + if is_exhausted { 1 } else { CHECK_INTERVAL_TOKENS };
            // An upstream may send many events at once.
            stream.most_bytes = if is_exhausted { MARGIN_BYTES } else { STEP_BYTES };
            let ahead = if is_exhausted { MARGIN_TOKENS } else { STEP_TOKENS };
            let (spent, step) =
                needs(call, stream, ahead.min(still_allowed(call, written_tokens(call, stream))));
            if spent + step <= held {
                return None;
            }
            if is_exhausted {
                return Some(self.cut_off(refusal));
            }
            let (_, least) = needs(call, stream, 1);
            let most = spent + step - held;
            if let Some(reservation) = &mut stream.reservation {
                reservation.grow(call, most, least.min(most));
            }
        }
    }

    /// Ends the stream, because the budget has nothing left. The client gets the usage and the reason.
    fn cut_off(&mut self, refusal: Option<Refusal>) -> Polled {
        let StreamState::Streaming(mut call, mut stream) =
            std::mem::replace(&mut self.state, StreamState::Over)
        else {
            return Poll::Ready(None);
        };
        stream.cancel();
        let error = match refusal {
            None | Some(Refusal::Budget { .. }) => Error::new(
                Kind::InsufficientQuota,
                "The budget of the API key or its team is used up; the answer ends here.",
            ),
            Some(refusal) => limit_error::error(&refusal),
        };
        let ((_, class, code), mut out) = (error.kind.row(), std::mem::take(&mut stream.output));
        stream.observe(&call.context.upstream_calls);
        let (candidate, attempt) = (stream.candidate.clone(), stream.attempt);
        call.progress.end_attempt(&candidate, attempt, AttemptOutcome::Interrupted, code);
        let answer = call.context.upstream_calls.answer();
        let cost = answer.known_cost();
        let gateway = call.meta(&candidate, cost.is_some());
        let closing = AnswerClosing { usage: answer.usage, cost, gateway };
        call.progress.settlement.finish(&Outcome::Interrupted(code));
        if self.is_recorded {
            self.closing = Some(Box::new(closing));
        } else {
            stream.normaliser.write_usage(&closing.borrowed(), &mut out);
            let error_event = StreamError {
                gateway: Some(&closing.gateway),
                ..StreamError::new(&error.message, class, code)
            };
            close_with_error(stream.take_closer(), &mut out, &error_event);
        }
        self.failure = Some(error);
        self.send_end(stream.take_held(), out)
    }
}
