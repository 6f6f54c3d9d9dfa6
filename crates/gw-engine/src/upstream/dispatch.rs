//! Sends one attempt to its candidate, and turns its output into the client's answer.

use gw_wire::failure::Failure;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::stream_reservation::StreamReservation;
use crate::call::upstream_call::Attempt;
use crate::clock;
use crate::cpu_pool::offload_if;
use crate::document_memory::DocumentPermit;
use crate::plan::candidate::Candidate;
use crate::plan::cost_estimate::longest_answer;
use crate::request::ValidatedRequest;
use crate::upstream::outcome::{Answer, AttemptOutput, ServedAttempt};
use crate::upstream::{one_shot, socket, stream, unary};

/// How often the progress of the longest possible answer is noted at least.
pub(crate) const PROGRESS_NOTES: u64 = 20;

/// Sends an attempt to its candidate. The output is not decoded yet, unless it is a stream.
pub(crate) async fn dispatch(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
) -> Result<AttemptOutput, Failure> {
    let output = match &context.request {
        request if request.wants_stream() => Box::pin(stream::open(context, candidate, attempt))
            .await
            .map(|stream| AttemptOutput::Stream(Box::new(stream))),
        ValidatedRequest::OneShot(request) if context.request.is_handshake() => {
            Box::pin(socket::open(context, candidate, attempt, &**request)).await.map(AttemptOutput::Socket)
        }
        ValidatedRequest::OneShot(request) => {
            Box::pin(one_shot::fetch(context, candidate, attempt, &**request))
                .await
                .map(AttemptOutput::OneShot)
        }
        ValidatedRequest::Chat(_) | ValidatedRequest::Completion(_) => {
            Box::pin(unary::fetch(context, candidate, attempt))
                .await
                .map(|(responses, warnings)| AttemptOutput::Unary(responses, warnings))
        }
    };
    output.map_err(|failure| candidate.provider.censor(failure))
}

/// Writes an attempt's output for the client. An unreadable answer is a failure like any other.
pub(crate) async fn finish(call: &mut Call, served: ServedAttempt) -> Result<(usize, Answer), ()> {
    let ServedAttempt { index, candidate, attempt, output, in_flight, probe } = served;
    let answer = match output {
        AttemptOutput::Stream(mut stream) => {
            call.progress.warnings.append(&mut stream.warnings);
            if !stream.normaliser.is_continuation() {
                let first = (attempt, stream.first_content);
                call.progress.settlement.note_first_token(&candidate, first, call.context.latency_ms());
            }
            stream.index = index;
            let most = longest_answer(&call.context.request, &candidate) / PROGRESS_NOTES;
            let tokens = call.progress.settlement.progress_tokens();
            stream.note_progress_every(tokens.map(|tokens| tokens.min(most)));
            let begin = |granted| StreamReservation::new(&call.context.limiter, granted);
            stream.reservation = match call.reservation.take() {
                Some(reservation) => Some(reservation.taken_over()),
                None => call.context.granted.map(begin),
            };
            candidate.model.measured.record_first_token(stream.first_content, clock::now());
            if probe.is_some() {
                candidate.model.health.record_success(&call.context.snapshot.routing.breaker, clock::now());
            }
            // A stream is judged at its end (`response/event_stream.rs`).
            stream.in_flight = Some(in_flight);
            return Ok((index, Answer::Stream(stream)));
        }
        AttemptOutput::Unary(responses, mut warnings) => {
            call.progress.warnings.append(&mut warnings);
            let is_heavy = responses.iter().any(unary::UnaryResponse::is_heavy);
            offload_if(is_heavy, || unary::complete(call, &candidate, attempt, &responses)).await.map(
                |document| {
                    let permits = responses.into_iter().map(unary::UnaryResponse::into_permit);
                    Answer::Full(DocumentPermit::count(permits, document.into()))
                },
            )
        }
        AttemptOutput::OneShot(batches) => {
            let is_heavy = batches.iter().any(one_shot::Batch::is_heavy);
            offload_if(is_heavy, || one_shot::complete(call, &candidate, attempt, batches)).await
        }
        AttemptOutput::Socket(socket) => Ok(Answer::Socket(socket)),
    };
    match answer {
        Ok(answer) => {
            let now = clock::now();
            candidate.note_success(&call.context.snapshot.routing.breaker, attempt.until(now), now);
            Ok((index, answer))
        }
        Err(failure) => {
            let failure = candidate.provider.censor(failure);
            call.progress.fail_attempt(&call.context, &candidate, failure, attempt);
            Err(())
        }
    }
}
