//! The progress of a call: its attempts so far, their failures and warnings.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use gw_routing::hedge::Hedge;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::gateway::AttemptRecord;
use gw_wire::money::Money;

use crate::call::attempt_context::AttemptContext;
use crate::call::begin_order::insert_at;
use crate::call::quoted_prompt;
use crate::call::settlement::{Settlement, attempt_record};
use crate::call::upstream_call::{Attempt, AttemptOutcome, BilledUsage, with_room_for_one};
use crate::clock;
use crate::error::Error;
use crate::plan::candidate::Candidate;
use crate::retry_policy;

/// The words of `gateway.warnings`.
pub(crate) type Warnings = Vec<Cow<'static, str>>;

/// The status of an attempt that lost against another attempt of its request.
const CANCELLED: &str = "cancelled";
/// The status of an attempt that answered.
pub(crate) const OK: &str = "ok";
/// The bounds of the rest that a rate-limited upstream may ask for its target.
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// The attempts of a call so far, their failures and warnings, and the call's settlement.
#[derive(Debug)]
pub(crate) struct CallProgress {
    pub(crate) settlement: Box<Settlement>,
    /// The attempts that are over, for `gateway.attempts`, in the order in which they began.
    pub(crate) records: Vec<AttemptRecord>,
    pub(crate) warnings: Warnings,
    /// Attempts whose answer was of no use. They do not count towards the attempts that the request may make.
    wasted: usize,
    /// The failures of the attempts, in order.
    pub(crate) failures: Vec<Failure>,
    /// The candidate that a hedge asked.
    pub(crate) hedged: Option<usize>,
    /// The money reserved for the hedge.
    pub(crate) hedge: Option<Hedge>,
    /// The upstream's reason for the failed attempt that is recorded next.
    reason: Option<String>,
    /// None: the request has one attempt so far.
    costs: Option<Box<AttemptCosts>>,
}

/// The money of several attempts. Few requests have them.
#[derive(Debug, Default)]
pub(crate) struct AttemptCosts {
    /// The cost of attempts that lost against a faster one.
    cancelled: Money,
    /// The money reserved for the attempts that were charged, beside the worst case of the next one.
    pub(crate) reserved: Money,
}

impl CallProgress {
    /// A call before its first attempt.
    pub(crate) fn new(settlement: Box<Settlement>) -> Self {
        Self {
            settlement,
            records: Vec::new(),
            wasted: 0,
            warnings: Vec::new(),
            failures: Vec::new(),
            hedged: None,
            hedge: None,
            reason: None,
            costs: None,
        }
    }

    pub(crate) fn costs(&mut self) -> &mut AttemptCosts {
        self.costs.get_or_insert_default()
    }

    /// Ends an attempt: its usage is summed, metered and recorded.
    pub(crate) fn end_attempt(
        &mut self,
        candidate: &Candidate,
        attempt: Attempt,
        outcome: AttemptOutcome,
        status: &'static str,
    ) -> BilledUsage {
        self.note_failed_parts();
        let now = clock::now();
        let billed = self.settlement.end_attempt(candidate, attempt, outcome, (now, status));
        self.record(candidate, attempt, (now, status), &billed);
        billed
    }

    /// Records the failed calls of parts that were asked for again.
    fn note_failed_parts(&mut self) {
        for (place, record, charge) in self.settlement.note_failed_parts() {
            insert_at(&mut self.records, place, record);
            self.costs().reserved += charge;
        }
    }

    fn record(
        &mut self,
        candidate: &Candidate,
        attempt: Attempt,
        (now, status): (Instant, &'static str),
        billed: &BilledUsage,
    ) {
        let record = attempt_record(candidate, attempt, (now, status), billed);
        let reason = self.reason.take();
        let place = self.settlement.note_attempt(&record, billed.cost, reason, attempt);
        with_room_for_one(&mut self.records);
        insert_at(&mut self.records, place, record);
        self.settlement.note_attempts(self.records.len());
    }

    /// Ends an attempt whose answer is complete, and of no use to the client.
    pub(crate) fn waste_attempt(&mut self, candidate: &Candidate, attempt: Attempt) {
        self.end_attempt(candidate, attempt, AttemptOutcome::Wasted, OK);
        self.wasted += 1;
    }

    /// Ends an attempt that lost against a faster one. Its provider bills the prompt.
    pub(crate) fn cancel_attempt(&mut self, candidate: &Candidate, attempt: Attempt) {
        let billed = self.end_attempt(candidate, attempt, AttemptOutcome::Cancelled, CANCELLED);
        self.costs().cancelled += billed.cost;
    }

    /// Ends a failed attempt, and judges its target by the failure. An attempt that was refused before anything was sent is not recorded.
    pub(crate) fn fail_attempt(
        &mut self,
        context: &AttemptContext,
        candidate: &Candidate,
        mut failure: Failure,
        attempt: Attempt,
    ) {
        if retry_policy::was_sent(&failure) {
            let code = retry_policy::kind(&failure).code();
            judge(context, candidate, &failure, attempt);
            self.keep_reason(context, &mut failure);
            self.end_attempt(candidate, attempt, AttemptOutcome::Failed, code);
            log_failure(context, candidate, &failure, code);
        } else {
            self.note_failed_parts();
            let billed = self.settlement.discard_attempt(candidate, attempt);
            if billed.usage.total() > 0 {
                // Another part of a divided request was answered before, and its cost belongs to this candidate.
                let code = retry_policy::kind(&failure).code();
                self.record(candidate, attempt, (clock::now(), code), &billed);
            }
            self.settlement.note_attempts(self.records.len());
        }
        self.failures.push(failure);
    }

    /// Keeps the upstream's reason for the attempt that is recorded next: for the ledger and, in most cases, the access log.
    pub(crate) fn keep_reason(&mut self, context: &AttemptContext, failure: &mut Failure) {
        censor_reason(context, failure);
        self.reason.clone_from(&failure.reason);
        if let Some(reason) = for_the_log(failure) {
            self.settlement.note_upstream_error(reason);
        }
    }

    /// The attempts that count towards those that the request may make.
    pub(crate) fn counted(&self) -> usize {
        self.records.len().saturating_sub(self.wasted)
    }

    /// The hedge is over: the part of its reservation that it did not need is released.
    pub(crate) fn finish_hedge(&mut self) {
        if let Some(hedge) = self.hedge.take() {
            hedge.settle(self.costs().cancelled);
        }
    }

    /// The error of a call whose every attempt failed: the last attempt's, except that a rate limit of all attempts keeps the smallest
    /// `Retry-After`.
    pub(crate) fn error(&self) -> Error {
        let failures = &self.failures;
        // An upstream's failure tells the client more than the reason why another upstream was not asked.
        let sent = failures.iter().rev().find(|failure| retry_policy::was_sent(failure));
        let Some(last) = sent.or(failures.last()) else {
            let late = Failure::new(FailureKind::Timeout, "The request exceeded its time limit.");
            return retry_policy::error(&late, &[], None);
        };
        let mut tried: Vec<&str> = Vec::new();
        for record in &self.records {
            if !tried.contains(&&*record.model) {
                tried.push(&record.model);
            }
        }
        let mut sent = failures.iter().filter(|failure| retry_policy::was_sent(failure));
        let all_limited = sent.all(|failure| failure.kind == FailureKind::RateLimited);
        let smallest = failures.iter().filter_map(|failure| failure.retry_after).min();
        retry_policy::error(last, &tried, smallest.filter(|_| all_limited))
    }
}

/// Hides secrets in the upstream's reason. It is kept longer than an answer, so it must not hold a provider's secrets or the prompt.
pub(crate) fn censor_reason(context: &AttemptContext, failure: &mut Failure) {
    if let Some(reason) = &mut failure.reason {
        context.snapshot.providers.values().for_each(|provider| provider.censor_text(reason));
        quoted_prompt::hide(reason, context.request.prompts());
    }
}

/// Updates the target's measurements, circuit breaker and rest after a failure.
pub(crate) fn judge(context: &AttemptContext, candidate: &Candidate, failure: &Failure, attempt: Attempt) {
    let now = clock::now();
    let model = &candidate.model;
    let asks_for_rest = matches!(failure.kind, FailureKind::RateLimited | FailureKind::Overloaded);
    if let Some(after) = failure.retry_after
        && asks_for_rest
        && !candidate.provider.has_other_key()
    {
        let (least, most) = REST;
        model.health.pause_until(now + after.clamp(least, most));
    }
    // A target that was asked when the request's time was nearly over had too little time.
    let clocks = candidate.clocks();
    let left = clocks.total.saturating_sub(attempt.at.saturating_duration_since(context.client.accepted));
    let is_hurried =
        failure.kind == FailureKind::Timeout && left < clocks.first_token && left < clocks.total / 2;
    if retry_policy::is_upstreams_fault(failure) && !is_hurried {
        candidate.note_failure(&context.snapshot.routing.breaker, now);
    }
}

/// The upstream's reason, as far as it may stand in logs. Logs travel further than the ledger, and a reason about our
/// own account may quote the prompt, so its code must do.
fn for_the_log(failure: &Failure) -> Option<&str> {
    let is_about_us = matches!(failure.kind, FailureKind::Auth | FailureKind::Billing);
    failure.reason.as_deref().filter(|_| !is_about_us)
}

/// Logs one line for the operator: the upstream's reason, and the gateway's own findings (refused, timed out, not
/// JSON). The short names that upstreams give their errors are for debugging.
pub(crate) fn log_failure(
    context: &AttemptContext,
    candidate: &Candidate,
    failure: &Failure,
    code: &'static str,
) {
    let ours = matches!(
        failure.kind,
        FailureKind::Unreachable
            | FailureKind::Timeout
            | FailureKind::InvalidResponse
            | FailureKind::StreamBroken
    );
    let detail = failure.detail.as_deref();
    tracing::info!(
        request_id = %context.client.request_id,
        model = %candidate.model.id,
        code,
        upstream_status = failure.status,
        detail = detail.filter(|_| ours),
        reason = for_the_log(failure),
        "an upstream call failed"
    );
    if let Some(detail) = detail.filter(|_| !ours) {
        tracing::debug!(request_id = %context.client.request_id, detail, "error detail of the upstream");
    }
}
