//! Retries of one part of a divided request. The parts that were answered are kept, so a failure of one does not pay for them twice.

use std::time::{Duration, Instant};

use gw_wire::failure::Failure;

use crate::call::attempt_context::AttemptContext;
use crate::call::progress::{censor_reason, judge, log_failure};
use crate::call::reserve::hold_part;
use crate::call::upstream_call::{Attempt, UpstreamCallId};
use crate::clock;
use crate::plan::candidate::Candidate;
use crate::retry_policy::{self, RetryDecision};
use crate::upstream::retry_pause::pause;

/// The retries that are left to a part.
pub(crate) struct PartRetries {
    retries: u32,
    /// Other keys of the provider.
    keys: usize,
}

/// The last call of a part, if it was sent, and when it began.
pub(crate) type PartCall = (Option<UpstreamCallId>, Instant);

impl PartRetries {
    /// The retries of a part at this candidate.
    pub(crate) fn new(context: &AttemptContext, candidate: &Candidate) -> Self {
        let keys = candidate.provider.key_count().saturating_sub(1);
        Self { retries: context.snapshot.routing.retries, keys }
    }

    /// Returns when the part may be asked for again. Its failed call is then an attempt of its own.
    ///
    /// # Errors
    /// The failure, if the part is not asked for again.
    pub(crate) async fn wait(
        &mut self,
        context: &AttemptContext,
        candidate: &Candidate,
        attempt: Attempt,
        (call, began): PartCall,
        failure: Failure,
    ) -> Result<(), Failure> {
        let Some((call, pause)) = call.zip(self.take(context, candidate, &failure)) else {
            return Err(failure);
        };
        let Some(held) = hold_part(context, candidate, attempt, call).await else { return Err(failure) };
        let mut failure = candidate.provider.censor(failure);
        censor_reason(context, &mut failure);
        let status = retry_policy::kind(&failure).code();
        let times = (began, clock::now());
        // A fallback must not lose its one attempt to retries of the target before it.
        let most = (context.snapshot.routing.max_attempts as usize).saturating_sub(context.kept_attempts);
        if !context.upstream_calls.fail_part(call, times, (status, failure.reason.clone()), held, most) {
            return Err(failure);
        }
        judge(context, candidate, &failure, attempt);
        log_failure(context, candidate, &failure, status);
        tokio::time::sleep(pause).await;
        // The call that follows is noted, because a note of the other parts has left the failed one out.
        context.upstream_calls.tell_early();
        Ok(())
    }

    /// Takes a retry, and returns the pause before it. None: there is none for this failure.
    fn take(
        &mut self,
        context: &AttemptContext,
        candidate: &Candidate,
        failure: &Failure,
    ) -> Option<Duration> {
        // The budget has room for the answers of the parts, and not for a prompt that is paid twice.
        if failure.sent && context.granted.is_some() {
            return None;
        }
        let verdict = retry_policy::verdict(failure, context.snapshot.routing.fallback_on_4xx);
        if retry_policy::is_about_the_key(failure) && self.keys > 0 && candidate.provider.has_other_key() {
            self.keys -= 1;
            return Some(Duration::ZERO);
        }
        if verdict != RetryDecision::Retry || self.retries == 0 {
            return None;
        }
        self.retries -= 1;
        pause(context, candidate, failure)
    }
}
