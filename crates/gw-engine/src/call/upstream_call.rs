//! One record per upstream call of a request, and the sums over them: what the request has used and what it costs.
//!
//! A call is recorded from the moment at which its request may have reached the provider, with what has been seen of its answer since then. So
//! the sums are known at any moment, whichever of the request's futures is dropped first. Only [`Settlement`](super::settlement::Settlement)
//! writes them into the ledger, the budgets and the metrics.

mod charges;
mod parts;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gw_providers::adapter::Breakpoints;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::money::Money;
use gw_wire::usage::Usage;
use parking_lot::Mutex;

pub(crate) use self::parts::FailedPart;
pub(crate) use crate::call::billed_usage::BilledUsage;
pub(crate) use crate::call::cache_account::CacheAccount;
use crate::catalog::Model;
use crate::clock;
use crate::plan::call_size::CallSize;
use crate::plan::candidate::Candidate;
use crate::request::trace::{AnswerTrace, AttemptTrace};

/// One attempt of a request: a candidate that is asked for the answer. A divided request makes several upstream calls in one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The first attempt of a request has number 0.
    number: usize,
    /// When it began.
    pub(crate) at: Instant,
}

impl Attempt {
    /// The time since it began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.until(clock::now())
    }

    /// The time from its begin to a later moment.
    pub(crate) fn until(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at)
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    /// Its answer is the client's answer, or the end of it.
    Served,
    /// Its stream ended early, after the client may have read a part of it.
    Interrupted,
    /// The attempt answered, and the client cannot use the answer.
    Wasted,
    /// The attempt failed before the client could read a part of its answer.
    Failed,
    /// Another attempt was faster.
    Cancelled,
}

impl AttemptOutcome {
    /// Whether the tokens of the attempt are tokens of the client's answer.
    fn contributes(self) -> bool {
        matches!(self, Self::Served | Self::Interrupted | Self::Wasted)
    }
}

/// Identifies one upstream call of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpstreamCallId(usize);

/// One upstream call.
#[derive(Debug)]
struct UpstreamCall {
    attempt: usize,
    model: Arc<Model>,
    size: CallSize,
    /// Nothing reached the provider, or the provider refused the request.
    is_free: bool,
    /// The usage that the upstream reported.
    reported: Option<Usage>,
    /// The bytes of its answer so far.
    answer_bytes: u64,
    /// The breakpoints of the prompt cache that its request got.
    breakpoints: Breakpoints,
    /// The usage and the price, kept because the end of a request reads them several times. None: they must be computed again.
    billed: Option<BilledUsage>,
}

impl UpstreamCall {
    /// The usage and the price if the call ends now; None if it is free.
    fn billed(&mut self) -> Option<&BilledUsage> {
        if self.billed.is_none() {
            self.billed = self.usage().map(|usage| BilledUsage::of_call(&self.model, usage));
        }
        self.billed.as_ref()
    }

    /// The usage if the call ends now; None if it is free.
    fn usage(&self) -> Option<Usage> {
        (!self.is_free).then(|| self.size.usage(self.reported, self.answer_bytes, &self.model))
    }
}

/// An attempt with its end.
#[derive(Debug)]
struct AttemptState {
    candidate: Candidate,
    at: Instant,
    /// None while it is under way.
    outcome: Option<AttemptOutcome>,
    /// When it ended, and its status. None: it is under way, or nothing was sent.
    end: Option<(Instant, &'static str)>,
    /// The time from its begin to the first content of its stream.
    first_content: Option<Duration>,
    /// Its complete answer, if the request is traced.
    answer: Option<Box<AnswerTrace>>,
}

#[derive(Debug, Default)]
struct Records {
    attempts: Vec<AttemptState>,
    calls: Vec<UpstreamCall>,
    failed_parts: Vec<FailedPart>,
}

impl Records {
    fn sum(&mut self, counts: impl Fn(&[AttemptState], usize) -> bool) -> BilledUsage {
        // Most requests have one call, whose sum is copied once.
        if let [only] = self.calls.as_mut_slice()
            && counts(&self.attempts, only.attempt)
            && let Some(billed) = only.billed()
        {
            return *billed;
        }
        self.sum_of_some(counts).unwrap_or_default()
    }

    /// None: none of the calls is charged.
    fn sum_of_some(&mut self, counts: impl Fn(&[AttemptState], usize) -> bool) -> Option<BilledUsage> {
        let Self { attempts, calls, .. } = self;
        let calls = calls.iter_mut().filter(|call| counts(attempts, call.attempt));
        let mut sum: Option<BilledUsage> = None;
        calls.filter_map(UpstreamCall::billed).for_each(|billed| match &mut sum {
            // Most requests have one call.
            None => sum = Some(*billed),
            Some(sum) => sum.add(billed),
        });
        sum
    }

    fn contributes(&self, attempt: usize) -> bool {
        contributes(&self.attempts, attempt)
    }
}

/// Gives an empty list room for one. Most requests have one attempt and one call, and a list that grows gets room for four.
pub(crate) fn with_room_for_one<T>(list: &mut Vec<T>) {
    if list.capacity() == 0 {
        *list = Vec::with_capacity(1);
    }
}

fn contributes(attempts: &[AttemptState], attempt: usize) -> bool {
    let outcome = attempts.get(attempt).and_then(|attempt| attempt.outcome);
    outcome.is_some_and(AttemptOutcome::contributes)
}

/// The attempts and upstream calls of one request.
#[derive(Debug, Default)]
pub(crate) struct UpstreamCalls {
    records: Mutex<Records>,
    /// An upstream has reported usage before its first content, or that of a part, and the journal has not recorded it.
    has_told: AtomicBool,
    /// A request got breakpoints of a prompt cache or would have got some, or an upstream read or wrote a prompt cache.
    uses_prompt_cache: AtomicBool,
    /// A part of a divided request was asked for again, and the records may lack its failed call.
    has_failed_parts: AtomicBool,
}

impl UpstreamCalls {
    /// Begins an attempt.
    pub(crate) fn begin_attempt(&self, candidate: &Candidate) -> Attempt {
        let mut records = self.records.lock();
        let attempt = Attempt { number: records.attempts.len(), at: clock::now() };
        with_room_for_one(&mut records.attempts);
        records.attempts.push(AttemptState {
            candidate: candidate.clone(),
            at: attempt.at,
            outcome: None,
            end: None,
            first_content: None,
            answer: None,
        });
        attempt
    }

    /// Ends an attempt, and returns the usage of its calls. The first outcome of an attempt stands. `status` is the moment of its end, and `ok`
    /// or an error code; None: nothing was sent.
    pub(crate) fn end_attempt(
        &self,
        attempt: Attempt,
        outcome: AttemptOutcome,
        status: Option<(Instant, &'static str)>,
    ) -> BilledUsage {
        let mut records = self.records.lock();
        if let Some(record) = records.attempts.get_mut(attempt.number)
            && record.outcome.is_none()
        {
            record.outcome = Some(outcome);
            record.end = status;
        }
        records.sum(|_, number| number == attempt.number)
    }

    /// Notes when the first content of an attempt's stream came.
    pub(crate) fn note_first_content(&self, attempt: Attempt, after: Duration) {
        if let Some(record) = self.records.lock().attempts.get_mut(attempt.number) {
            record.first_content = Some(after);
        }
    }

    /// Notes the complete answer of an attempt for its span.
    pub(crate) fn note_answer(&self, attempt: Attempt, answer: AnswerTrace) {
        if let Some(record) = self.records.lock().attempts.get_mut(attempt.number) {
            record.answer = Some(Box::new(answer));
        }
    }

    /// The number of the attempt that a call belongs to.
    pub(crate) fn attempt_of(&self, UpstreamCallId(call): UpstreamCallId) -> Option<usize> {
        self.records.lock().calls.get(call).map(|call| call.attempt)
    }

    /// When the first attempt began, and when the last one ended.
    pub(crate) fn span(&self) -> Option<(Instant, Instant)> {
        let records = self.records.lock();
        let ended = records.attempts.iter().filter_map(|attempt| Some((attempt.at, attempt.end?.0)));
        ended.reduce(|(begin, end), (at, over)| (begin.min(at), end.max(over)))
    }

    /// The attempts that are over, for the spans of a trace.
    pub(crate) fn traced(&self) -> Vec<AttemptTrace> {
        let mut records = self.records.lock();
        let mut answers: Vec<_> = records.attempts.iter_mut().map(|attempt| attempt.answer.take()).collect();
        let count = records.attempts.len();
        let sums: Vec<_> = (0..count).map(|number| records.sum(|_, of| of == number)).collect();
        let trace = |(number, attempt): (usize, &AttemptState)| {
            let (ended, status) = attempt.end?;
            let billed = sums.get(number).copied().unwrap_or_default();
            let Candidate { model, provider, is_fallback, .. } = &attempt.candidate;
            Some(AttemptTrace {
                number,
                began: attempt.at,
                ended,
                status,
                api: provider.api(),
                provider: Arc::clone(&model.provider),
                model: Arc::clone(&model.id),
                upstream_model: model.upstream_model.to_string(),
                host: provider.host().map(str::to_owned),
                is_fallback: *is_fallback,
                is_answer: attempt.outcome.is_some_and(AttemptOutcome::contributes),
                usage: billed.usage,
                cost: billed.known_cost(),
                first_content: attempt.first_content,
                answer: answers.get_mut(number).and_then(Option::take),
            })
        };
        records.attempts.iter().enumerate().filter_map(trace).collect()
    }

    /// The attempts under way, the newest first.
    pub(crate) fn pending(&self) -> Vec<(Attempt, Candidate)> {
        let records = self.records.lock();
        let pending = (0..).zip(&records.attempts).filter(|(_, record)| record.outcome.is_none());
        let mut pending: Vec<_> = pending
            .map(|(number, record)| (Attempt { number, at: record.at }, record.candidate.clone()))
            .collect();
        pending.reverse();
        pending
    }

    /// Begins an upstream call.
    pub(crate) fn begin(&self, attempt: Attempt, candidate: &Candidate, size: CallSize) -> UpstreamCallId {
        let mut records = self.records.lock();
        with_room_for_one(&mut records.calls);
        records.calls.push(UpstreamCall {
            attempt: attempt.number,
            model: Arc::clone(&candidate.model),
            size,
            is_free: false,
            reported: None,
            answer_bytes: 0,
            breakpoints: Breakpoints::None,
            billed: None,
        });
        UpstreamCallId(records.calls.len() - 1)
    }

    /// A call is charged by this size at the prices of this model, with the usage that was reported and the bytes of the answer.
    pub(crate) fn charge_as(
        &self,
        UpstreamCallId(call): UpstreamCallId,
        (model, size): (&Arc<Model>, CallSize),
        reported: Option<Usage>,
        answer_bytes: u64,
    ) {
        if let Some(call) = self.records.lock().calls.get_mut(call) {
            (call.model, call.size, call.is_free) = (Arc::clone(model), size, false);
            (call.reported, call.answer_bytes, call.billed) = (reported, answer_bytes, None);
        }
    }

    /// The provider charges nothing for a call.
    pub(crate) fn mark_free(&self, UpstreamCallId(call): UpstreamCallId) {
        if let Some(call) = self.records.lock().calls.get_mut(call) {
            (call.is_free, call.billed) = (true, None);
        }
    }

    /// The upstream has got all of a call that was free until then. The whole upload tells its size: a recording has told its duration.
    pub(crate) fn mark_sent(&self, UpstreamCallId(call): UpstreamCallId, size: Option<CallSize>) {
        if let Some(call) = self.records.lock().calls.get_mut(call) {
            (call.is_free, call.billed) = (false, None);
            call.size = size.unwrap_or(call.size);
        }
    }

    /// Reading a call's answer ended with this failure. The call is free if the provider refused it and reported no usage.
    pub(crate) fn fail(&self, UpstreamCallId(call): UpstreamCallId, failure: &Failure) {
        if let Some(call) = self.records.lock().calls.get_mut(call)
            && is_refusal(failure.kind)
        {
            call.is_free = call.reported.is_none_or(|reported| reported.total() == 0);
            call.billed = None;
        }
    }

    /// Records the usage that the upstream reported and the bytes of the answer so far.
    pub(crate) fn observe(
        &self,
        UpstreamCallId(call): UpstreamCallId,
        reported: Option<Usage>,
        answer_bytes: u64,
    ) {
        if let Some(usage) = reported
            && usage.cached.unwrap_or(0) | usage.cache_write.unwrap_or(0) > 0
        {
            self.uses_prompt_cache.store(true, Ordering::Relaxed);
        }
        if let Some(call) = self.records.lock().calls.get_mut(call) {
            call.reported = reported;
            call.answer_bytes = answer_bytes;
            call.billed = None;
        }
    }

    /// Notes the breakpoints of the prompt cache that a call's request got.
    pub(crate) fn note_breakpoints(&self, UpstreamCallId(call): UpstreamCallId, breakpoints: Breakpoints) {
        if breakpoints == Breakpoints::None {
            return;
        }
        self.uses_prompt_cache.store(true, Ordering::Relaxed);
        if let Some(call) = self.records.lock().calls.get_mut(call) {
            call.breakpoints = breakpoints;
        }
    }

    /// Whether a prompt cache plays a part.
    pub(crate) fn uses_prompt_cache(&self) -> bool {
        self.uses_prompt_cache.load(Ordering::Relaxed)
    }

    /// The use of the prompt cache by the calls that the client's answer consists of; None: there are none.
    pub(crate) fn cache_account(&self) -> Option<CacheAccount> {
        let records = self.records.lock();
        let mut calls = records.calls.iter().filter(|call| records.contributes(call.attempt)).peekable();
        calls.peek()?;
        Some(calls.fold(CacheAccount::default(), |mut account, call| {
            account.add(&call.model, call.usage().as_ref(), call.reported.is_some(), call.breakpoints);
            account
        }))
    }

    /// The usage of a call so far.
    pub(crate) fn usage_of(&self, UpstreamCallId(call): UpstreamCallId) -> Usage {
        self.records.lock().calls.get(call).and_then(UpstreamCall::usage).unwrap_or_default()
    }

    /// Marks that an upstream reported usage before its first content, or that of a part, so that the journal records it.
    pub(crate) fn tell_early(&self) {
        self.has_told.store(true, Ordering::Relaxed);
    }

    /// Whether the journal must record that usage. Clears the mark.
    pub(crate) fn take_told(&self) -> bool {
        self.has_told.load(Ordering::Relaxed) && self.has_told.swap(false, Ordering::Relaxed)
    }

    /// Whether an upstream reported more tokens than are believed.
    pub(crate) fn has_disbelieved(&self) -> bool {
        let disbelieved = |call: &mut UpstreamCall| {
            let Some(reported) = call.reported else { return false };
            call.billed().is_some_and(|billed| is_disbelieved(&reported, &billed.usage))
        };
        self.records.lock().calls.iter_mut().any(disbelieved)
    }

    /// The sum over the calls of an attempt.
    pub(crate) fn of(&self, attempt: Attempt) -> BilledUsage {
        self.records.lock().sum(|_, number| number == attempt.number)
    }

    /// The sum over the calls of all attempts.
    pub(crate) fn all(&self) -> BilledUsage {
        self.records.lock().sum(|_, _| true)
    }

    /// As [`UpstreamCalls::all`]. None: no call is charged.
    pub(crate) fn spent(&self) -> Option<BilledUsage> {
        self.records.lock().sum_of_some(|_, _| true)
    }

    /// The model of the first call that uses something without a price.
    pub(crate) fn first_unpriced(&self) -> Option<Arc<Model>> {
        let mut records = self.records.lock();
        let is_unpriced =
            |call: &mut UpstreamCall| call.billed().is_some_and(|billed| billed.known_cost().is_none());
        records.calls.iter_mut().find_map(|call| is_unpriced(call).then(|| Arc::clone(&call.model)))
    }

    /// The sum over the calls of the attempts whose tokens the client's answer consists of.
    pub(crate) fn answer(&self) -> BilledUsage {
        self.records.lock().sum(contributes)
    }

    /// How many attempts the client's answer consists of.
    pub(crate) fn answering_attempts(&self) -> usize {
        let records = self.records.lock();
        (0..records.attempts.len()).filter(|number| records.contributes(*number)).count()
    }

    /// The candidate of the last attempt whose tokens are in the client's answer.
    pub(crate) fn last_answering(&self) -> Option<Candidate> {
        let records = self.records.lock();
        let last = (0..records.attempts.len()).rev().find(|number| records.contributes(*number))?;
        records.attempts.get(last).map(|record| record.candidate.clone())
    }

    /// The cost of an attempt's calls if each of their answers had `more` tokens more.
    pub(crate) fn cost_with(&self, attempt: Attempt, more: u64) -> Money {
        let records = self.records.lock();
        let grown = |call: &UpstreamCall| {
            let usage = call.usage()?;
            let completion = usage.completion.saturating_add(more.saturating_mul(call.size.answers));
            Some(call.model.charge(&Usage { completion, ..usage }).known)
        };
        records.calls.iter().filter(|call| call.attempt == attempt.number).filter_map(grown).sum()
    }
}

/// Whether an upstream reported more tokens or calls of tools than are billed, because the report is implausibly high.
fn is_disbelieved(reported: &Usage, billed: &Usage) -> bool {
    let has_more_tokens = match reported.is_total {
        true => reported.total() > billed.total(),
        false => reported.prompt > billed.prompt || reported.completion > billed.completion,
    };
    has_more_tokens || !reported.hosted.is_none() && reported.hosted.count() > billed.hosted.count()
}

/// Whether a failure says that the provider did not serve the request. After a timeout, or a broken, unreadable or unread answer, the
/// provider may well have served it.
pub(crate) fn is_refusal(kind: FailureKind) -> bool {
    !matches!(
        kind,
        FailureKind::Timeout
            | FailureKind::InvalidResponse
            | FailureKind::StreamBroken
            | FailureKind::NoMemory
    )
}
