//! The pause before a target is asked again.

use std::time::Duration;

use gw_wire::failure::Failure;
use rand::Rng;

use crate::call::attempt_context::AttemptContext;
use crate::clock;
use crate::plan::candidate::Candidate;

/// The longest `Retry-After` that the gateway waits before it tries a target again.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// The pause before a target is retried: its `Retry-After` and a little jitter, so that clients which failed together
/// do not return together. None = a retry is not worth it.
pub(crate) fn pause(context: &AttemptContext, candidate: &Candidate, failure: &Failure) -> Option<Duration> {
    let now = clock::now();
    let breaker = &context.snapshot.routing.breaker;
    if !candidate.model.health.status(breaker, now).is_served() {
        return None;
    }
    let asked = failure.retry_after.unwrap_or_default();
    let jitter = Duration::from_millis(rand::rng().random_range(20..80));
    let left = candidate.clocks().total.saturating_sub(clock::since(context.client.accepted));
    let fits = asked <= MAX_PAUSE && asked + jitter < left;
    (fits && context.snapshot.state.retry_budget.allow(now)).then_some(asked + jitter)
}
