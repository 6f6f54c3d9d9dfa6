//! The one loop that calls upstreams: each candidate in order, at most one retry, one deadline over all attempts.

use std::time::Instant;

use gw_routing::health::{Permit, Probe};

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::enter_target::enter_target;
use crate::call::reserve::can_pay_another;
use crate::clock;
use crate::error::Error;
use crate::plan::candidate::Candidate;
use crate::retry_policy;
use crate::retry_policy::RetryDecision;
use crate::upstream::dispatch::finish;
use crate::upstream::hedge;
use crate::upstream::images;
use crate::upstream::outcome::Answer;
use crate::upstream::retry_pause::pause;

/// Runs the plan until a candidate answers. A failure finishes the call.
///
/// # Errors
/// The error of the last attempt.
pub(crate) async fn run(call: &mut Call) -> Result<(usize, Answer), Error> {
    let error = match search(call, 0).await {
        Ok(Some(answered)) => return Ok(answered),
        Ok(None) => call.progress.error(),
        Err(error) => error,
    };
    call.fail(&error);
    Err(error)
}

/// Runs the plan from this candidate on; None if no candidate answers.
///
/// # Errors
/// The journal cannot note the request.
pub(crate) async fn search(call: &mut Call, from: usize) -> Result<Option<(usize, Answer)>, Error> {
    if from == 0 {
        // Only requests that call an upstream earn retries, not those that the cache answers.
        call.context.snapshot.state.retry_budget.record_request(clock::now());
    }
    let mut next = from;
    while let Some(candidate) = call.plan.candidates.get(next).cloned() {
        match attempt(call, next, &candidate).await? {
            CandidateOutcome::Answered(index, answer) => return Ok(Some((index, answer))),
            CandidateOutcome::Next => next = call.plan.next_index(next, call.progress.hedged),
            CandidateOutcome::Stop => break,
        }
    }
    Ok(None)
}

/// The result of a candidate's attempts.
enum CandidateOutcome {
    Answered(usize, Answer),
    /// Another candidate may answer.
    Next,
    /// No other candidate would answer.
    Stop,
}

/// Tries a candidate: once, then with another key, or after a pause if it is the only candidate.
///
/// # Errors
/// The journal cannot note the request.
async fn attempt(call: &mut Call, index: usize, candidate: &Candidate) -> Result<CandidateOutcome, Error> {
    let routing = call.context.snapshot.routing;
    call.context.kept_attempts = usize::from(call.plan.candidates.len() > index + 1);
    let mut retries_left = retries(call, candidate);
    let mut keys_left = candidate.provider.key_count().saturating_sub(1);
    loop {
        let now = clock::now();
        if is_over(call, candidate, now) {
            return Ok(CandidateOutcome::Stop);
        }
        let Some(probe) = may_pass(call, index, candidate, now) else { return Ok(CandidateOutcome::Next) };
        // A stream that broke off is a record, and no failure.
        if !call.progress.records.is_empty() && !Box::pin(can_pay_another(call, candidate)).await {
            return Ok(CandidateOutcome::Next);
        }
        if call.context.client.rules.is_some()
            && let Err(error) = Box::pin(enter_target(call, candidate)).await
        {
            // A target without room is no attempt.
            let is_last = call.plan.candidates.len() <= index + 1 && call.progress.failures.is_empty();
            return if is_last { Err(error) } else { Ok(CandidateOutcome::Next) };
        }
        let count = call.progress.records.len() + 1;
        let attempt = call.progress.settlement.begin_attempt(candidate, count, &call.context.request)?;
        let known = call.progress.failures.len();
        if let Ok(served) = hedge::run(call, index, candidate, attempt, probe).await
            && let Ok((index, answer)) = finish(call, served).await
        {
            return Ok(CandidateOutcome::Answered(index, answer));
        }
        if images::are_missing(call, known) && Box::pin(images::fetch(call, candidate)).await {
            continue;
        }
        let failures = call.progress.failures.get(known..).unwrap_or_default();
        let Some(failure) = failures.last() else { return Ok(CandidateOutcome::Stop) };
        let verdict = |failure| retry_policy::verdict(failure, routing.fallback_on_4xx);
        // One of two simultaneous attempts may have found that the request fails everywhere, and the last failure need
        // not be this candidate's.
        if failures.iter().any(|failure| verdict(failure) == RetryDecision::Stop) {
            return Ok(CandidateOutcome::Stop);
        }
        let key_failed = failures.len() == 1 && retry_policy::is_about_the_key(failure);
        match verdict(failure) {
            RetryDecision::Stop => return Ok(CandidateOutcome::Stop),
            // The provider may accept the request with another key.
            _ if key_failed && keys_left > 0 && candidate.provider.has_other_key() => keys_left -= 1,
            RetryDecision::Retry if retries_left > 0 => {
                retries_left -= 1;
                let Some(pause) = pause(&call.context, candidate, failure) else {
                    return Ok(CandidateOutcome::Next);
                };
                tokio::time::sleep(pause).await;
            }
            RetryDecision::Retry | RetryDecision::Next => return Ok(CandidateOutcome::Next),
        }
    }
}

/// How many times the target is retried. Another candidate is a better second try than the target that failed, and a
/// retry of a divided request would pay twice for the parts that succeeded: each part has retries of its own.
fn retries(call: &Call, candidate: &Candidate) -> u32 {
    let alone = call.plan.candidates.len() == 1 && call.context.request.calls(candidate) == 1;
    if alone { call.context.snapshot.routing.retries } else { 0 }
}

/// Whether the attempts or the time of the request are used up. Its first attempt is always made.
fn is_over(call: &Call, candidate: &Candidate, now: Instant) -> bool {
    let most = call.context.snapshot.routing.max_attempts as usize;
    let is_late = || now.saturating_duration_since(call.context.client.accepted) >= candidate.clocks().total;
    let has_begun = !call.progress.failures.is_empty() || call.context.continuation.is_some();
    call.progress.counted() >= most || (has_begun && is_late())
}

/// Asks the candidate's circuit breaker; None = continue with the next candidate. The last candidate always passes. The
/// others pass while the retry budget allows it, because a common cause that is over may have opened all circuits.
fn may_pass(call: &Call, index: usize, candidate: &Candidate, now: Instant) -> Option<Option<Probe>> {
    let AttemptContext { snapshot, .. } = &call.context;
    match candidate.model.health.request_permit(&snapshot.routing.breaker, now) {
        Permit::Granted => Some(None),
        Permit::Probe(probe) => Some(Some(probe)),
        Permit::Denied => {
            // Another request became the probe after the plan was made, so a healthy candidate behind this one serves.
            let is_well = |other: &Candidate| {
                !other.is_upgrade && other.model.health.status(&snapshot.routing.breaker, now).is_served()
            };
            if call.plan.candidates.iter().skip(index + 1).any(is_well) {
                return None;
            }
            let is_last = call.progress.records.is_empty() && call.plan.is_last_named(index);
            (is_last || snapshot.state.retry_budget.allow(now)).then_some(None)
        }
    }
}
