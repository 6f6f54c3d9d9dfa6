//! What has become of a call so far: its attempts, what they were not told, and its account.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_routing::hedge::Hedge;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::gateway::AttemptRecord;
use gw_wire::money::Money;

use crate::account::Account;
use crate::error::Error;
use crate::job::{Job, millis};
use crate::meter::Started;
use crate::plan::Candidate;
use crate::quotes;
use crate::verdict;

/// Words for `gateway.warnings`.
pub(crate) type Warnings = Vec<Cow<'static, str>>;

/// The status of an attempt that lost against another one of the same request.
const CANCELLED: &str = "cancelled";
/// How long a rate limit rests a target at least and at most, when the upstream says how long.
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// What is noted while a call goes on.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) account: Account,
    pub(crate) records: Vec<AttemptRecord>,
    pub(crate) warnings: Warnings,
    /// How many of them brought something of no use: they do not count among those that the request may have.
    in_vain: usize,
    /// Why attempts failed, in their order.
    pub(crate) failures: Vec<Failure>,
    /// The candidate that a hedge has asked already.
    pub(crate) hedged: Option<usize>,
    /// What was set aside for it.
    pub(crate) hedge: Option<Hedge>,
    /// The upstream's reason for the failed attempt that is noted next.
    reason: Option<String>,
    /// Attempts that were begun.
    begun: u32,
    /// What attempts cost that were given up for a faster one.
    given_up: Money,
}

impl Tally {
    pub(crate) fn new(account: Account) -> Self {
        Self {
            account,
            records: Vec::new(),
            in_vain: 0,
            warnings: Vec::new(),
            failures: Vec::new(),
            hedged: None,
            hedge: None,
            reason: None,
            begun: 0,
            given_up: Money::ZERO,
        }
    }

    /// Begins an attempt.
    pub(crate) fn begin(&mut self) -> Started {
        let attempt = self.begun;
        self.begun += 1;
        Started { attempt, at: Instant::now() }
    }

    /// Notes an attempt that is over.
    pub(crate) fn record(&mut self, candidate: &Candidate, status: &'static str, started: Started) {
        let record = AttemptRecord {
            provider: Arc::clone(&candidate.model.provider),
            model: Arc::clone(&candidate.model.id),
            status,
            latency_ms: millis(started.elapsed()),
            cost: self.account.meter().of(started).known_cost(),
        };
        let reason = self.reason.take();
        self.account.attempted(&record, reason);
        self.records.push(record);
        self.account.attempts(self.records.len());
    }

    /// Keeps the upstream's reason for the attempt that is noted next: for the ledger and, mostly, the log line.
    pub(crate) fn keep_reason(&mut self, job: &Job, failure: &mut Failure) {
        // It is kept for longer than an answer, so no provider's secrets and no prompt may be in it.
        if let Some(reason) = &mut failure.reason {
            job.snapshot.providers.values().for_each(|provider| provider.censor_text(reason));
            quotes::hide(reason, job.ask.prompts());
        }
        self.reason.clone_from(&failure.reason);
        if let Some(reason) = for_the_log(failure) {
            self.account.upstream_said(reason);
        }
    }

    /// What the last attempt brought is of no use, and paid for.
    pub(crate) fn in_vain(&mut self, candidate: &Candidate, started: Started) {
        self.account.in_vain(candidate, started);
        self.in_vain += 1;
    }

    /// The attempts that count among those that the request may have.
    pub(crate) fn counted(&self) -> usize {
        self.records.len().saturating_sub(self.in_vain)
    }

    /// An attempt was given up because another one was faster. Its provider has had the prompt.
    pub(crate) fn lost(&mut self, candidate: &Candidate, started: Started) {
        self.given_up += self.account.call_failed(candidate, started);
        self.record(candidate, CANCELLED, started);
        self.account.metrics().failed(&candidate.metrics, CANCELLED);
    }

    /// A hedge has come to its end: what it did not need goes back.
    pub(crate) fn hedge_is_over(&mut self) {
        if let Some(hedge) = self.hedge.take() {
            hedge.settle(self.given_up);
        }
    }

    /// Notes a failed attempt wherever it counts. What was refused before anything was sent was no attempt.
    pub(crate) fn failed(
        &mut self,
        job: &Job,
        candidate: &Candidate,
        mut failure: Failure,
        started: Started,
    ) {
        self.account.call_failed(candidate, started);
        let code = verdict::kind(&failure).code();
        if verdict::was_sent(&failure) {
            judge(job, candidate, &failure, started);
            self.keep_reason(job, &mut failure);
            self.record(candidate, code, started);
            self.account.metrics().failed(&candidate.metrics, code);
            tell(job, candidate, &failure, code);
        } else {
            self.account.attempts(self.records.len());
        }
        self.failures.push(failure);
    }

    /// The last attempt's error, except that 429 wins if every attempt was 429, with the smallest hint.
    pub(crate) fn error(&self) -> Error {
        let failures = &self.failures;
        // What an upstream said tells more than why others were not asked.
        let said = failures.iter().rev().find(|failure| verdict::was_sent(failure));
        let Some(last) = said.or(failures.last()) else {
            let late = Failure::new(FailureKind::Timeout, "The request's time was used up.");
            return verdict::error(&late, &[], None);
        };
        let mut tried: Vec<&str> = Vec::new();
        for record in &self.records {
            if !tried.contains(&&*record.model) {
                tried.push(&record.model);
            }
        }
        let mut sent = failures.iter().filter(|failure| verdict::was_sent(failure));
        let all_limited = sent.all(|failure| failure.kind == FailureKind::RateLimited);
        let smallest = failures.iter().filter_map(|failure| failure.retry_after).min();
        verdict::error(last, &tried, smallest.filter(|_| all_limited))
    }
}

/// What a failure says about its target: to its figures, its breaker, its rest.
fn judge(job: &Job, candidate: &Candidate, failure: &Failure, started: Started) {
    let now = Instant::now();
    let model = &candidate.model;
    let asks_for_rest = matches!(failure.kind, FailureKind::RateLimited | FailureKind::Overloaded);
    if let Some(after) = failure.retry_after
        && asks_for_rest
        && !candidate.provider.has_other_key()
    {
        let (least, most) = REST;
        model.health.pause_until(now + after.clamp(least, most));
    }
    // Who was asked when the request's time was nearly over was given too little of it.
    let clocks = candidate.clocks();
    let left = clocks.total.saturating_sub(started.at.saturating_duration_since(job.context.accepted));
    let is_hurried =
        failure.kind == FailureKind::Timeout && left < clocks.first_token && left < clocks.total / 2;
    if verdict::is_upstreams_fault(failure) && !is_hurried {
        candidate.broke(&job.snapshot.routing.breaker, now);
    }
}

/// The upstream's reason, as far as it belongs into logs. Logs travel further than the ledger, and what an upstream says about
/// our account tells them no more than its code, but may quote the prompt.
fn for_the_log(failure: &Failure) -> Option<&str> {
    let is_about_us = matches!(failure.kind, FailureKind::Auth | FailureKind::Billing);
    failure.reason.as_deref().filter(|_| !is_about_us)
}

/// One line for the operator: what the upstream said, and what we found ourselves (refused, timed out, not JSON). The short
/// names of the upstream's error are for debugging.
fn tell(job: &Job, candidate: &Candidate, failure: &Failure, code: &'static str) {
    let ours = matches!(
        failure.kind,
        FailureKind::Unreachable
            | FailureKind::Timeout
            | FailureKind::InvalidResponse
            | FailureKind::StreamBroken
    );
    let detail = failure.detail.as_deref();
    tracing::info!(
        request_id = %job.context.request_id,
        model = %candidate.model.id,
        code,
        upstream_status = failure.status,
        detail = detail.filter(|_| ours),
        reason = for_the_log(failure),
        "an upstream call failed"
    );
    if let Some(detail) = detail.filter(|_| !ours) {
        tracing::debug!(request_id = %job.context.request_id, detail, "what the upstream called its error");
    }
}
