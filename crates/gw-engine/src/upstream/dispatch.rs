//! Sends one attempt to its candidate, and turns what it brings into the client's answer.

use std::time::Instant;

use gw_wire::failure::Failure;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::stream_reservation::StreamReservation;
use crate::call::upstream_call::Attempt;
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
    started: Attempt,
) -> Result<AttemptOutput, Failure> {
    let got = match &context.request {
        request if request.wants_stream() => Box::pin(stream::open(context, candidate, started))
            .await
            .map(|live| AttemptOutput::Stream(Box::new(live))),
        ValidatedRequest::Embeddings(request) => {
            Box::pin(embeddings::fetch(context, candidate, started, request))
                .await
                .map(AttemptOutput::Vectors)
        }
        _ => Box::pin(unary::fetch(context, candidate, started))
            .await
            .map(|(given, told)| AttemptOutput::Whole(given, told)),
    };
    got.map_err(|failure| candidate.provider.censor(failure))
}

/// Writes what an attempt brought for the client. An answer that cannot be read is a failure like any other, and noted.
pub(crate) async fn finish(call: &mut Call, served: ServedAttempt) -> Result<(usize, Answer), ()> {
    let ServedAttempt { index, candidate, started, got, flying, probe } = served;
    let answer = match got {
        AttemptOutput::Stream(mut live) => {
            call.progress.warnings.append(&mut live.warnings);
            if !live.normaliser.resumes() {
                call.progress.settlement.first_token(&candidate, call.context.latency_ms());
            }
            live.index = index;
            if let Some(tokens) = call.progress.settlement.progress_tokens() {
                live.note_every(tokens.min(longest_answer(&call.context.request, &candidate) / NOTES));
            }
            let begin = |granted| StreamReservation::new(&call.context.limiter, granted);
            live.funds = match call.funds.take() {
                Some(funds) => Some(funds.taken_over()),
                None => call.context.granted.map(begin),
            };
            candidate.model.measured.first_token(live.first_content, Instant::now());
            if probe.is_some() {
                candidate.model.health.succeeded(&call.context.snapshot.routing.breaker, Instant::now());
            }
            // A stream is judged at its end, see `stream.rs`.
            live.flying = Some(flying);
            return Ok((index, Answer::Stream(live)));
        }
        AttemptOutput::Whole(given, mut told) => {
            call.progress.warnings.append(&mut told);
            let is_heavy = given.iter().any(unary::UnaryResponse::is_heavy);
            offload_if(is_heavy, || unary::complete(call, &candidate, started, &given))
                .await
                .map(Answer::Full)
        }
        AttemptOutput::Vectors(batches) => {
            let is_heavy = batches.iter().any(embeddings::Batch::is_heavy);
            offload_if(is_heavy, || embeddings::complete(call, &candidate, started, batches)).await
        }
    };
    match answer {
        Ok(answer) => {
            candidate.served(&call.context.snapshot.routing.breaker, started.elapsed(), Instant::now());
            Ok((index, answer))
        }
        Err(failure) => {
            let failure = candidate.provider.censor(failure);
            call.progress.failed(&call.context, &candidate, failure, started);
            Err(())
        }
    }
}
