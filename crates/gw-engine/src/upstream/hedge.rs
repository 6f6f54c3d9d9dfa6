//! Hedged attempts: if the first upstream is slower than usual to send anything, a second candidate is called as well.
//! The first content wins, the other call is cancelled, and both are accounted.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::time::Duration;

use gw_routing::health::{HealthStatus, Probe};
use gw_routing::hedge::{Hedge, hedge_after};
use gw_routing::metrics::InFlight;
use gw_wire::failure::Failure;
use gw_wire::money::Money;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::progress::CallProgress;
use crate::call::reserve::can_pay_both;
use crate::call::upstream_call::Attempt;
use crate::clock;
use crate::plan::candidate::{Candidate, Plan};
use crate::plan::hedge_pair::may_hedge;
use crate::retry_policy;
use crate::rules::RequestRules;
use crate::upstream::dispatch::dispatch;
use crate::upstream::images;
use crate::upstream::outcome::{AttemptOutput, ServedAttempt};

/// An attempt under way.
struct RunningAttempt<'c> {
    index: usize,
    candidate: &'c Candidate,
    attempt: Attempt,
}

type RunningFuture<'f> = Pin<&'f mut (dyn Future<Output = Result<AttemptOutput, Failure>> + Send)>;

/// Runs an attempt on the candidate, with a hedge if it is due and allowed. `Err(())` = all attempts failed and are
/// recorded.
pub(crate) async fn run(
    call: &mut Call,
    index: usize,
    candidate: &Candidate,
    attempt: Attempt,
    probe: Option<Probe>,
) -> Result<ServedAttempt, ()> {
    let first = RunningAttempt { index, candidate, attempt };
    let in_flight = candidate.model.measured.start_call();
    // A probe must find out about its own target, so it has no hedge.
    let hedge = hedge(call, index, candidate).filter(|_| probe.is_none());
    let Call { context, plan, progress, .. } = call;
    let mut running = pin!(dispatch(context, candidate, first.attempt));
    let early = match hedge {
        None => Some(noting(progress, &first, running.as_mut()).await),
        Some((_, after)) => {
            tokio::time::timeout(after, noting(progress, &first, running.as_mut())).await.ok()
        }
    };
    let second = hedge.filter(|_| early.is_none()).and_then(|(index, _)| {
        let candidate = plan.candidates.get(index)?;
        progress.hedge = Some(reserve_hedge(context, first.candidate, candidate)?);
        let count = progress.records.len() + 2;
        let attempt = progress.settlement.begin_hedge(candidate, count, &context.request);
        Some(RunningAttempt { index, candidate, attempt })
    });
    let Some(second) = second else {
        let result = match early {
            Some(result) => result,
            None => noting(progress, &first, running).await,
        };
        return match result {
            Ok(output) => Ok(first.served(output, in_flight, probe)),
            Err(failure) => {
                progress.fail_attempt(context, candidate, failure, first.attempt);
                Err(())
            }
        };
    };
    progress.hedged = Some(second.index);
    let hedge_in_flight = second.candidate.model.measured.start_call();
    let mut running_hedge = pin!(dispatch(context, second.candidate, second.attempt));
    match decide(context, progress, &first, running.as_mut(), &second, running_hedge.as_mut()).await {
        Some((output, true)) => Ok(second.served(output, hedge_in_flight, None)),
        Some((output, false)) => Ok(first.served(output, in_flight, probe)),
        None => Err(()),
    }
}

impl RunningAttempt<'_> {
    fn served(&self, output: AttemptOutput, in_flight: InFlight, probe: Option<Probe>) -> ServedAttempt {
        let Self { index, candidate, attempt } = *self;
        ServedAttempt { index, candidate: candidate.clone(), attempt, output, in_flight, probe }
    }
}

/// Runs attempts. The journal records the usage that upstreams report before their first content, because it is charged even if the process is killed.
async fn noting<T>(
    progress: &mut CallProgress,
    attempt: &RunningAttempt<'_>,
    mut running: Pin<&mut (dyn Future<Output = T> + Send + '_)>,
) -> T {
    poll_fn(|cx| {
        let polled = running.as_mut().poll(cx);
        if polled.is_pending() {
            progress.settlement.note_early_usage(attempt.candidate, attempt.attempt);
        }
        polled
    })
    .await
}

/// Waits for the first of two attempts to succeed. Returns whether that was the second attempt; None if both fail.
async fn decide<'f>(
    context: &AttemptContext,
    progress: &mut CallProgress,
    first: &RunningAttempt<'_>,
    mut running: RunningFuture<'f>,
    second: &RunningAttempt<'_>,
    mut running_hedge: RunningFuture<'f>,
) -> Option<(AttemptOutput, bool)> {
    let both = async {
        tokio::select! {
            biased;
            result = &mut running => (result, false),
            result = &mut running_hedge => (result, true),
        }
    };
    let (result, is_second) = noting(progress, first, pin!(both)).await;
    let fallback_on_4xx = context.snapshot.routing.fallback_on_4xx;
    let (winner, other) = if is_second { (second, first) } else { (first, second) };
    match result {
        Ok(output) => {
            progress.cancel_attempt(other.candidate, other.attempt);
            let model = &other.candidate.model;
            // The loser is at least this slow, which is all that is known of it.
            model.measured.record_first_token(other.attempt.elapsed(), clock::now());
            if !is_second {
                // The second candidate only was slower: it may continue the stream if the first one breaks off.
                progress.hedged = None;
            }
            Some((output, is_second))
        }
        // A request that the first upstream refuses is refused everywhere, and the client gets the first upstream's
        // error, as without a hedge.
        Err(failure) if !is_second && retry_policy::ends_hedge(&failure, fallback_on_4xx) => {
            progress.cancel_attempt(other.candidate, other.attempt);
            progress.fail_attempt(context, winner.candidate, failure, winner.attempt);
            progress.finish_hedge();
            None
        }
        Err(failure) => {
            progress.fail_attempt(context, winner.candidate, failure, winner.attempt);
            let rest = if is_second { running } else { running_hedge };
            let result = noting(progress, other, rest).await;
            match result {
                Ok(output) => Some((output, !is_second)),
                Err(failure) => {
                    progress.fail_attempt(context, other.candidate, failure, other.attempt);
                    progress.finish_hedge();
                    None
                }
            }
        }
    }
}

/// The second candidate, and the silence after which it is called; None = no hedge for this attempt.
fn hedge(call: &Call, index: usize, candidate: &Candidate) -> Option<(usize, Duration)> {
    let settings = call.context.snapshot.routing.hedge?;
    let second_index = call.plan.next_index(index, call.progress.hedged);
    let second = call.plan.candidates.get(second_index)?;
    let now = clock::now();
    let standing = second.model.health.status(&call.context.snapshot.routing.breaker, now);
    let routing = &call.context.snapshot.routing;
    let is_possible = may_hedge(&call.context.request, routing, candidate, second)
        && call.progress.hedged.is_none()
        && call.progress.hedge.is_none()
        && matches!(standing, HealthStatus::Able)
        && call.progress.counted() + 2 <= routing.max_attempts as usize
        && ![candidate, second].into_iter().any(|candidate| images::may_be_fetched(call, candidate));
    // Rules of targets count for one target at a time.
    let has_rules = |rules: &RequestRules| {
        rules.may_be_of_targets()
            && rules.at(&call.context.limiter, call.context.client.asker(), second.serving()).is_some()
    };
    if !is_possible
        || call.context.client.rules.as_deref().is_some_and(has_rules)
        || !can_pay_both(call, candidate, second)
    {
        return None;
    }
    Some((second_index, hedge_after(&settings, &candidate.model.measured)?))
}

/// Reserves the cost of a hedge: the slower call's prompt. None if the hedge budget has too little.
fn reserve_hedge(context: &AttemptContext, first: &Candidate, second: &Candidate) -> Option<Hedge> {
    let state = &context.snapshot.state;
    let prompt_cost = context.request.prompt_cost(first).max(context.request.prompt_cost(second));
    let hedge = context.snapshot.hedges.as_ref()?.allow(prompt_cost)?;
    if state.retry_budget.allow(clock::now()) {
        return Some(hedge);
    }
    hedge.settle(Money::ZERO);
    None
}

impl Plan {
    /// The next candidate, without the one that a hedge already asked.
    pub(crate) fn next_index(&self, index: usize, hedged: Option<usize>) -> usize {
        let next = index + 1;
        if hedged == Some(next) { next + 1 } else { next }
    }
}
