//! Sends one attempt to its candidate, and turns what it brings into the client's answer.

use gw_wire::failure::Failure;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::stream_reservation::StreamReservation;
use crate::call::upstream_call::Attempt;
use crate::clock;
use crate::cpu_pool::offload_if;
use crate::plan::candidate::Candidate;
use crate::plan::cost_estimate::longest_answer;
use crate::request::ValidatedRequest;
use crate::upstream::outcome::{Answer, AttemptOutput, ServedAttempt};
use crate::upstream::{embeddings, stream, unary};

/// The progress of a stream is noted at least so many times in the longest answer that it may become.
const NOTES: u64 = 20;

/// Asks a candidate. What it brings is not decoded yet, unless it is a stream.
pub(crate) async fn dispatch(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
) -> Result<AttemptOutput, Failure> {
    let got = match &context.request {
        request if request.wants_stream() => Box::pin(stream::open(context, candidate, attempt))
            .await
            .map(|stream| AttemptOutput::Stream(Box::new(stream))),
        ValidatedRequest::Embeddings(request) => {
            Box::pin(embeddings::fetch(context, candidate, attempt, request))
                .await
                .map(AttemptOutput::Vectors)
        }
        _ => Box::pin(unary::fetch(context, candidate, attempt))
            .await
            .map(|(given, told)| AttemptOutput::Whole(given, told)),
    };
    got.map_err(|failure| candidate.provider.censor(failure))
}

/// Writes what an attempt brought for the client. An answer that cannot be read is a failure like any other, and noted.
pub(crate) async fn finish(call: &mut Call, served: ServedAttempt) -> Result<(usize, Answer), ()> {
    let ServedAttempt { index, candidate, attempt, got, in_flight, probe } = served;
    let answer = match got {
        AttemptOutput::Stream(mut stream) => {
            call.progress.warnings.append(&mut stream.warnings);
            if !stream.normaliser.resumes() {
                call.progress.settlement.note_first_token(&candidate, call.context.latency_ms());
            }
            stream.index = index;
            if let Some(tokens) = call.progress.settlement.progress_tokens() {
                stream.note_progress_every(
                    tokens.min(longest_answer(&call.context.request, &candidate) / NOTES),
                );
            }
            let begin = |granted| StreamReservation::new(&call.context.limiter, granted);
            stream.reservation = match call.reservation.take() {
                Some(reservation) => Some(reservation.taken_over()),
                None => call.context.granted.map(begin),
            };
            candidate.model.measured.first_token(stream.first_content, clock::now());
            if probe.is_some() {
                candidate.model.health.succeeded(&call.context.snapshot.routing.breaker, clock::now());
            }
            // A stream is judged at its end, see `stream.rs`.
            stream.in_flight = Some(in_flight);
            return Ok((index, Answer::Stream(stream)));
        }
        AttemptOutput::Whole(given, mut told) => {
            call.progress.warnings.append(&mut told);
            let is_heavy = given.iter().any(unary::UnaryResponse::is_heavy);
            offload_if(is_heavy, || unary::complete(call, &candidate, attempt, &given))
                .await
                .map(Answer::Full)
        }
        AttemptOutput::Vectors(batches) => {
            let is_heavy = batches.iter().any(embeddings::Batch::is_heavy);
            offload_if(is_heavy, || embeddings::complete(call, &candidate, attempt, batches)).await
        }
    };
    match answer {
        Ok(answer) => {
            candidate.served(&call.context.snapshot.routing.breaker, attempt.elapsed(), clock::now());
            Ok((index, answer))
        }
        Err(failure) => {
            let failure = candidate.provider.censor(failure);
            call.progress.fail_attempt(&call.context, &candidate, failure, attempt);
            Err(())
        }
    }
}
