//! One attempt, or two at the same time: when the first is slower than usual to say anything, a second candidate is asked
//! as well (a hedge). The first content wins, the other call is dropped, and both are accounted for.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use gw_routing::health::{Probe, Standing};
use gw_routing::hedge::{Hedge, hedge_after};
use gw_routing::measured::InFlight;
use gw_wire::failure::Failure;
use gw_wire::money::Money;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::progress::CallProgress;
use crate::call::upstream_call::Attempt;
use crate::clock;
use crate::plan::candidate::{Candidate, Plan};
use crate::request::ValidatedRequest;
use crate::retry_policy;
use crate::retry_policy::RetryDecision;
use crate::upstream::dispatch::dispatch;
use crate::upstream::outcome::{AttemptOutput, ServedAttempt};

/// An attempt under way.
struct RunningAttempt<'c> {
    index: usize,
    candidate: &'c Candidate,
    attempt: Attempt,
}

type RunningFuture<'f> = Pin<&'f mut (dyn Future<Output = Result<AttemptOutput, Failure>> + Send)>;

/// Asks the candidate, with a hedge where that is wanted and allowed. `Err(())` = what was asked has failed and is noted.
///
/// # Errors
/// The request cannot be accounted for.
pub(crate) async fn run(
    call: &mut Call,
    index: usize,
    candidate: &Candidate,
    attempt: Attempt,
    probe: Option<Probe>,
) -> Result<ServedAttempt, ()> {
    let first = RunningAttempt { index, candidate, attempt };
    let in_flight = candidate.model.measured.begun();
    // A probe finds out about its target: it is not to be outrun.
    let hedge = hedge(call, index, candidate).filter(|_| probe.is_none());
    let Call { context, plan, progress, .. } = call;
    let mut asking = pin!(dispatch(context, candidate, first.attempt));
    let early = match hedge {
        None => Some(asking.as_mut().await),
        Some((_, after)) => tokio::time::timeout(after, asking.as_mut()).await.ok(),
    };
    let second = hedge.filter(|_| early.is_none()).and_then(|(index, _)| {
        let candidate = plan.candidates.get(index)?;
        progress.hedge = Some(afford(context, first.candidate, candidate)?);
        let count = progress.records.len() + 2;
        let attempt = progress.settlement.begin_hedge(candidate, count, &context.request);
        Some(RunningAttempt { index, candidate, attempt })
    });
    let Some(second) = second else {
        let result = match early {
            Some(result) => result,
            None => asking.await,
        };
        return match result {
            Ok(got) => Ok(first.served(got, in_flight, probe)),
            Err(failure) => {
                progress.fail_attempt(context, candidate, failure, first.attempt);
                Err(())
            }
        };
    };
    progress.hedged = Some(second.index);
    let hedge_in_flight = second.candidate.model.measured.begun();
    let mut asking_too = pin!(dispatch(context, second.candidate, second.attempt));
    match decide(context, progress, &first, asking.as_mut(), &second, asking_too.as_mut()).await {
        Some((got, true)) => Ok(second.served(got, hedge_in_flight, None)),
        Some((got, false)) => Ok(first.served(got, in_flight, probe)),
        None => Err(()),
    }
}

impl RunningAttempt<'_> {
    fn served(&self, got: AttemptOutput, in_flight: InFlight, probe: Option<Probe>) -> ServedAttempt {
        let Self { index, candidate, attempt } = *self;
        ServedAttempt { index, candidate: candidate.clone(), attempt, got, in_flight, probe }
    }
}

/// Waits for the first of two attempts that brings something; tells whether it was the second. None = both have failed.
async fn decide(
    context: &AttemptContext,
    progress: &mut CallProgress,
    first: &RunningAttempt<'_>,
    mut asking: RunningFuture<'_>,
    second: &RunningAttempt<'_>,
    mut asking_too: RunningFuture<'_>,
) -> Option<(AttemptOutput, bool)> {
    let (result, is_second) = tokio::select! {
        biased;
        result = &mut asking => (result, false),
        result = &mut asking_too => (result, true),
    };
    let fallback_on_4xx = context.snapshot.routing.fallback_on_4xx;
    let (winner, other) = if is_second { (second, first) } else { (first, second) };
    match result {
        Ok(got) => {
            progress.cancel_attempt(other.candidate, other.attempt);
            let model = &other.candidate.model;
            // Slower than this is all that is known of it.
            model.measured.first_token(other.attempt.elapsed(), clock::now());
            if !is_second {
                // It was only slower: it may still go on if the first one breaks off.
                progress.hedged = None;
            }
            Some((got, is_second))
        }
        // What is wrong with the request is wrong with it anywhere; the first one's word is what would have been heard alone.
        Err(failure)
            if !is_second && retry_policy::verdict(&failure, fallback_on_4xx) == RetryDecision::Stop =>
        {
            progress.cancel_attempt(other.candidate, other.attempt);
            progress.fail_attempt(context, winner.candidate, failure, winner.attempt);
            progress.finish_hedge();
            None
        }
        Err(failure) => {
            progress.fail_attempt(context, winner.candidate, failure, winner.attempt);
            let result = if is_second { asking.await } else { asking_too.await };
            match result {
                Ok(got) => Some((got, !is_second)),
                Err(failure) => {
                    progress.fail_attempt(context, other.candidate, failure, other.attempt);
                    progress.finish_hedge();
                    None
                }
            }
        }
    }
}

/// The second candidate and the silence after which it is asked; None = no hedge for this attempt.
fn hedge(call: &Call, index: usize, candidate: &Candidate) -> Option<(usize, Duration)> {
    let settings = call.context.snapshot.routing.hedge?;
    let second_index = call.plan.after(index, call.progress.hedged);
    let second = call.plan.candidates.get(second_index)?;
    let now = clock::now();
    let standing = second.model.health.standing(&call.context.snapshot.routing.breaker, now);
    // Of a whole answer nobody sees the first token. The slower call may have written all of its answer by the time it is
    // given up, and what that costs cannot be known.
    let request = &call.context.request;
    let is_priced = request.wants_stream() || matches!(request, ValidatedRequest::Embeddings(_));
    let is_possible = call.progress.hedged.is_none()
        && call.progress.hedge.is_none()
        && is_priced
        && !second.is_upgrade
        && matches!(standing, Standing::Able)
        && call.progress.counted() + 2 <= call.context.snapshot.routing.max_attempts as usize
        && request.calls(candidate) == 1
        && request.calls(second) == 1;
    if !is_possible {
        return None;
    }
    Some((second_index, hedge_after(&settings, &candidate.model.measured)?))
}

/// Sets aside what a hedge that is due can cost: the slower call's prompt. None = it cannot be afforded.
fn afford(context: &AttemptContext, first: &Candidate, second: &Candidate) -> Option<Hedge> {
    let state = &context.snapshot.state;
    let worst = context.request.prompt_cost(first).max(context.request.prompt_cost(second));
    let hedge = state.hedges.as_ref()?.allow(worst)?;
    if state.retry_budget.allow(clock::now()) {
        return Some(hedge);
    }
    hedge.spent(Money::ZERO);
    None
}

impl Plan {
    /// The place behind this one, without the one that was hedged with.
    pub(crate) fn after(&self, index: usize, hedged: Option<usize>) -> usize {
        let next = index + 1;
        if hedged == Some(next) { next + 1 } else { next }
    }
}
