//! The meter of a request: what each of its upstream calls has used, known at any moment.
//!
//! A call is metered from the moment at which its request may have reached the provider, and for what has been seen of its answer by then.
//! However a request ends, its meter says what the providers charge: nothing depends on which of its futures are dropped first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::money::Money;
use gw_wire::usage::Usage;
use parking_lot::Mutex;

use crate::catalog::Model;
use crate::plan::call_size::CallSize;
use crate::plan::candidate::Candidate;

/// An attempt: the first has number 0. One attempt makes several upstream calls where a request is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) attempt: u32,
    pub(crate) at: Instant,
}

impl Attempt {
    /// Since it began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }
}

/// One upstream call, to its meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpstreamCallId(usize);

/// What upstream calls have used, and what that costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BilledUsage {
    pub(crate) usage: Usage,
    /// Each call by itself, with its own price tier. Calls without a price cost nothing.
    pub(crate) cost: Money,
    /// Calls for which no price is known.
    unpriced: u32,
}

impl BilledUsage {
    /// None as soon as one call has no price.
    pub(crate) fn known_cost(&self) -> Option<Money> {
        (self.unpriced == 0).then_some(self.cost)
    }

    fn add(&mut self, call: &UpstreamCall) {
        let Some(usage) = call.usage() else { return };
        self.usage = self.usage.plus(&usage);
        match call.model.cost(&usage) {
            Some(cost) => self.cost += cost,
            None => self.unpriced += 1,
        }
    }
}

/// One upstream call.
#[derive(Debug)]
struct UpstreamCall {
    attempt: u32,
    model: Arc<Model>,
    size: CallSize,
    /// Nothing reached the provider, or it has refused the request.
    is_free: bool,
    told: Option<Usage>,
    answer_bytes: u64,
}

impl UpstreamCall {
    /// What it has used, if it ends now; None = it is free.
    fn usage(&self) -> Option<Usage> {
        (!self.is_free).then(|| self.size.sound(self.told, self.answer_bytes, &self.model))
    }
}

/// The meter of a request.
#[derive(Debug, Default)]
pub(crate) struct UpstreamCalls(Mutex<Vec<UpstreamCall>>);

impl UpstreamCalls {
    /// An upstream call begins.
    pub(crate) fn begin(&self, attempt: Attempt, candidate: &Candidate, size: CallSize) -> UpstreamCallId {
        let mut calls = self.0.lock();
        calls.push(UpstreamCall {
            attempt: attempt.attempt,
            model: Arc::clone(&candidate.model),
            size,
            is_free: false,
            told: None,
            answer_bytes: 0,
        });
        UpstreamCallId(calls.len() - 1)
    }

    /// The provider charges nothing for a call.
    pub(crate) fn free(&self, UpstreamCallId(call): UpstreamCallId) {
        if let Some(call) = self.0.lock().get_mut(call) {
            call.is_free = true;
        }
    }

    /// A call failed with this when its answer was read: it is free if the provider has refused it and told of nothing that it used.
    pub(crate) fn failed(&self, UpstreamCallId(call): UpstreamCallId, failure: &Failure) {
        if let Some(call) = self.0.lock().get_mut(call)
            && is_refusal(failure.kind)
        {
            call.is_free = call.told.is_none_or(|told| told.total() == 0);
        }
    }

    /// What has been seen of a call's answer by now; gives what it has used.
    pub(crate) fn saw(
        &self,
        UpstreamCallId(call): UpstreamCallId,
        told: Option<Usage>,
        answer_bytes: u64,
    ) -> Usage {
        let mut calls = self.0.lock();
        let Some(call) = calls.get_mut(call) else { return Usage::default() };
        call.told = told;
        call.answer_bytes = answer_bytes;
        call.usage().unwrap_or_default()
    }

    /// All calls of an attempt.
    pub(crate) fn of(&self, attempt: Attempt) -> BilledUsage {
        self.sum(|call| call.attempt == attempt.attempt)
    }

    /// The cost of an attempt's calls if each answer had `more` tokens more.
    pub(crate) fn grown(&self, attempt: Attempt, more: u64) -> Money {
        let calls = self.0.lock();
        let grown = |call: &UpstreamCall| {
            let usage = call.usage()?;
            let completion = usage.completion.saturating_add(more.saturating_mul(call.size.answers));
            call.model.cost(&Usage { completion, ..usage })
        };
        calls.iter().filter(|call| call.attempt == attempt.attempt).filter_map(grown).sum()
    }

    /// All calls of the request.
    pub(crate) fn all(&self) -> BilledUsage {
        self.sum(|_| true)
    }

    fn sum(&self, counts: impl Fn(&UpstreamCall) -> bool) -> BilledUsage {
        let mut bill = BilledUsage::default();
        self.0.lock().iter().filter(|call| counts(call)).for_each(|call| bill.add(call));
        bill
    }
}

/// Whether a failure is the provider's word that it did not serve the request. A clock that ran out and an answer that broke off or cannot be
/// read are none: the provider may well have served it.
fn is_refusal(kind: FailureKind) -> bool {
    !matches!(kind, FailureKind::Timeout | FailureKind::InvalidResponse | FailureKind::StreamBroken)
}
