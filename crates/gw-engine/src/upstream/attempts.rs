//! The one loop that calls upstreams: next candidate, at most one retry, one deadline over all of it.

use std::time::Duration;

use gw_routing::health::{Pass, Probe};
use gw_wire::failure::Failure;
use rand::Rng;

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::clock;
use crate::error::Error;
use crate::plan::candidate::Candidate;
use crate::retry_policy;
use crate::retry_policy::RetryDecision;
use crate::upstream::dispatch::finish;
use crate::upstream::hedge;
use crate::upstream::outcome::Answer;

/// The longest `Retry-After` that is waited out before the same target is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Runs the plan until a candidate answers. On failure the settlement is settled with the error's code.
pub(crate) async fn run(call: &mut Call) -> Result<(usize, Answer), Error> {
    let error = match search(call, 0).await {
        Ok(Some(answered)) => return Ok(answered),
        Ok(None) => call.progress.error(),
        Err(error) => error,
    };
    call.fail(&error);
    Err(error)
}

/// Runs the plan from this candidate on; None when no candidate has answered.
///
/// # Errors
/// The request cannot be accounted for.
pub(crate) async fn search(call: &mut Call, from: usize) -> Result<Option<(usize, Answer)>, Error> {
    if from == 0 {
        // Earned by requests that call somebody, not by those that the cache answers.
        call.context.snapshot.state.retry_budget.request(clock::now());
    }
    let mut next = from;
    while let Some(candidate) = call.plan.candidates.get(next).cloned() {
        match attempt(call, next, &candidate).await? {
            CandidateOutcome::Answered(index, answer) => return Ok(Some((index, answer))),
            CandidateOutcome::Next => next = call.plan.after(next, call.progress.hedged),
            CandidateOutcome::Stop => break,
        }
    }
    Ok(None)
}

/// What a candidate's attempts came to.
enum CandidateOutcome {
    Answered(usize, Answer),
    /// Another candidate may answer.
    Next,
    /// None will.
    Stop,
}

/// Tries a candidate: once, again with another key, again after a pause if it is the only one.
///
/// # Errors
/// The request cannot be accounted for.
async fn attempt(call: &mut Call, index: usize, candidate: &Candidate) -> Result<CandidateOutcome, Error> {
    let routing = call.context.snapshot.routing;
    let mut retries_left = retries(call, candidate);
    let mut keys_left = candidate.provider.keys().len().saturating_sub(1);
    loop {
        if is_over(call, candidate) {
            return Ok(CandidateOutcome::Stop);
        }
        let Some(probe) = may_pass(call, index, candidate) else { return Ok(CandidateOutcome::Next) };
        let count = call.progress.records.len() + 1;
        let attempt = call.progress.settlement.begin_attempt(candidate, count, &call.context.request)?;
        let known = call.progress.failures.len();
        if let Ok(served) = hedge::run(call, index, candidate, attempt, probe).await
            && let Ok((index, answer)) = finish(call, served).await
        {
            return Ok(CandidateOutcome::Answered(index, answer));
        }
        let failures = call.progress.failures.get(known..).unwrap_or_default();
        let Some(failure) = failures.last() else { return Ok(CandidateOutcome::Stop) };
        let verdict = |failure| retry_policy::verdict(failure, routing.fallback_on_4xx);
        // Of two that ran at the same time one may have said so; and the last failure need not be this candidate's.
        if failures.iter().any(|failure| verdict(failure) == RetryDecision::Stop) {
            return Ok(CandidateOutcome::Stop);
        }
        let key_failed = failures.len() == 1 && retry_policy::is_about_the_key(failure);
        match verdict(failure) {
            RetryDecision::Stop => return Ok(CandidateOutcome::Stop),
            // The provider may well serve us, only not with that key.
            _ if key_failed && keys_left > 0 && candidate.provider.has_other_key() => keys_left -= 1,
            RetryDecision::Retry if retries_left > 0 => {
                retries_left -= 1;
                let Some(pause) = pause(call, candidate, failure) else { return Ok(CandidateOutcome::Next) };
                tokio::time::sleep(pause).await;
            }
            RetryDecision::Retry | RetryDecision::Next => return Ok(CandidateOutcome::Next),
        }
    }
}

/// Retries of the same target. Another candidate is a better second try than the one that just failed; and of a divided
/// request the parts that had succeeded would be paid twice.
fn retries(call: &Call, candidate: &Candidate) -> u32 {
    let alone = call.plan.candidates.len() == 1 && call.context.request.calls(candidate) == 1;
    if alone { call.context.snapshot.routing.retries } else { 0 }
}

/// Whether the calls or the time of the request are used up. Its first attempt is always made.
fn is_over(call: &Call, candidate: &Candidate) -> bool {
    let most = call.context.snapshot.routing.max_attempts as usize;
    let late = clock::since(call.context.client.accepted) >= candidate.clocks().total;
    let has_begun = !call.progress.failures.is_empty() || call.context.continuation.is_some();
    call.progress.counted() >= most || (late && has_begun)
}

/// Whether the candidate's breaker lets the attempt pass; None = go on to the next. The last one is never held back, and
/// while there is room for extra attempts the others are not, either: all may be open by a common cause that is over.
fn may_pass(call: &Call, index: usize, candidate: &Candidate) -> Option<Option<Probe>> {
    let AttemptContext { snapshot, .. } = &call.context;
    let now = clock::now();
    match candidate.model.health.pass(&snapshot.routing.breaker, now) {
        Pass::Through => Some(None),
        Pass::Probe(probe) => Some(Some(probe)),
        Pass::Closed => {
            // Somebody else became the probe after the order was made: whoever is well behind it serves.
            let is_well = |other: &Candidate| {
                !other.is_upgrade && other.model.health.standing(&snapshot.routing.breaker, now).is_served()
            };
            if call.plan.candidates.iter().skip(index + 1).any(is_well) {
                return None;
            }
            let is_last = call.progress.records.is_empty() && call.plan.is_last_named(index);
            (is_last || snapshot.state.retry_budget.allow(now)).then_some(None)
        }
    }
}

/// How long to wait before the same target is tried again: what it asks for, with a little jitter, so that clients that
/// failed together do not come back together. None = it is not worth it.
fn pause(call: &Call, candidate: &Candidate, failure: &Failure) -> Option<Duration> {
    let now = clock::now();
    let breaker = &call.context.snapshot.routing.breaker;
    if !candidate.model.health.standing(breaker, now).is_served() {
        return None;
    }
    let asked = failure.retry_after.unwrap_or_default();
    let jitter = Duration::from_millis(rand::rng().random_range(20..80));
    let left = candidate.clocks().total.saturating_sub(clock::since(call.context.client.accepted));
    let fits = asked <= LONGEST_PAUSE && asked + jitter < left;
    (fits && call.context.snapshot.state.retry_budget.allow(now)).then_some(asked + jitter)
}
