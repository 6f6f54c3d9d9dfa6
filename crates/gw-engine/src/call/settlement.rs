//! The settlement of a request: it ends exactly once, and its end is written to the ledger, the budgets, the access log and the metrics.
//!
//! The usage and the cost of a request are sums over its upstream calls ([`UpstreamCalls`]). No other module adds usage or money.

mod finish;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_limits::{AdmissionPermit, Refusal, Reservation};
use gw_store::journal::Journal;
use gw_wire::attribution::Attribution;
use gw_wire::gateway::AttemptRecord;
use gw_wire::money::Money;
use gw_wire::prompt_cache::PromptCacheUse;
use gw_wire::reply::Finish;
use gw_wire::trace_context::TraceId;
use gw_wire::usage::Usage;

use crate::auth::Caller;
use crate::call::begin_order::BeginOrder;
use crate::call::ledger_line::LedgerLine;
use crate::call::rule_holds::RuleHolds;
use crate::call::tracing::{CallTracing, MAX_MODEL_CHARS};
use crate::call::upstream_call::{Attempt, AttemptOutcome, BilledUsage, FailedPart, UpstreamCalls};
use crate::clock::{self, millis};
use crate::error::Result;
use crate::metrics::Metrics;
use crate::plan::candidate::{Candidate, Plan};
use crate::request::ValidatedRequest;
use crate::request::context::{CallLog, RequestContext};
use crate::request::trace::AnswerTrace;
use crate::session_guard::SessionCharge;

pub(crate) use self::finish::Outcome;

/// Choices of an answer whose reasons a span keeps.
const MAX_REASONS: usize = 128;
/// The status in the metrics of an attempt whose answer was of no use. Its record has the status of an answer.
const WASTED: &str = "wasted";

/// The open settlement of one request. Dropped before its end, it notes that the client disconnected.
#[derive(Debug)]
pub(crate) struct Settlement {
    log: Arc<CallLog>,
    metrics: Arc<Metrics>,
    operation: &'static str,
    is_finished: bool,
    upstream_calls: Arc<UpstreamCalls>,
    /// The begins of the attempts that are noted.
    order: BeginOrder,
    /// The part of the answer that came out of the cache, and what it would have cost. None: nothing did.
    found: Option<Box<(Usage, Option<Money>)>>,
    /// The tokens and the money reserved for the request.
    reservation: Reservation,
    /// Later reservations: for a request that asks for everything anew, and for a stream that grows.
    additional_reservations: Vec<Reservation>,
    /// The place of the request among those that rules have in flight.
    permit: AdmissionPermit,
    /// The reservations of rules of targets and of rules in shadow mode. None: there are none.
    rule_holds: Option<Box<RuleHolds>>,
    /// The session that pays for the request, until the request is over.
    session: Option<SessionCharge>,
    /// The request's part of its trace; None = it is not recorded.
    tracing: Option<CallTracing>,
    /// The request's line in the ledger, until it is written.
    line: Option<LedgerLine>,
    accepted: Instant,
    /// The caller, if operators may want to be told of its budgets.
    watched: Option<Box<Caller>>,
    /// The request's end user, tags, repository, branch and pull request.
    attribution: Option<Arc<Attribution>>,
}

impl Settlement {
    /// Opens the settlement of a request. It is large, and several layers hand it on.
    pub(crate) fn open(
        client: &RequestContext,
        metrics: Arc<Metrics>,
        journal: Option<&Arc<Journal>>,
        operation: &'static str,
    ) -> Box<Self> {
        let watched = metrics.occurrences.is_watched().then(|| Box::new(client.caller.clone()));
        Box::new(Self {
            watched,
            log: Arc::clone(&client.log),
            metrics,
            operation,
            is_finished: false,
            order: BeginOrder::default(),
            upstream_calls: Arc::default(),
            found: None,
            reservation: Reservation::default(),
            additional_reservations: Vec::new(),
            permit: AdmissionPermit::default(),
            rule_holds: None,
            session: None,
            tracing: CallTracing::of(client, operation),
            line: journal.map(|journal| LedgerLine::new(journal, client, operation)),
            accepted: client.accepted,
            attribution: client.attribution.clone(),
        })
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The request's upstream calls.
    pub(crate) fn upstream_calls(&self) -> &Arc<UpstreamCalls> {
        &self.upstream_calls
    }

    /// Notes the request itself.
    pub(crate) fn note_request(&mut self, request: &ValidatedRequest) {
        if let Some(line) = &mut self.line {
            line.note_request(request);
        }
        if let Some(tracing) = &mut self.tracing {
            tracing.note_request(request);
        }
    }

    /// Notes a request that passes through, with the model that it names.
    pub(crate) fn note_forwarded(&mut self, model: &str, is_stream: bool) {
        if let Some(line) = &mut self.line {
            line.note_forwarded(model, is_stream);
        }
        if let Some(tracing) = &mut self.tracing {
            tracing.note_forwarded(model, is_stream);
        }
    }

    /// Notes how the request is routed.
    pub(crate) fn note_plan(&mut self, plan: &Plan) {
        if let Some(line) = &mut self.line {
            line.note_plan(plan);
        }
        if let Some(tracing) = &mut self.tracing {
            tracing.note_plan(plan);
        }
    }

    /// Charges a session when the request ends.
    pub(crate) fn charge_session(&mut self, session: SessionCharge) {
        self.session = Some(session);
    }

    /// Tells operators of a refusal, if a budget refused the request.
    pub(crate) fn tell_refusal(&self, caller: &Caller, refusal: &Refusal) {
        self.metrics.occurrences.tell_refusal(caller, refusal);
    }

    /// Holds the request's reservation until the request ends.
    pub(crate) fn hold(&mut self, reservation: Reservation) {
        self.reservation = self.dated(reservation);
    }

    /// Holds the place of the request among those that rules have in flight, until the request ends.
    pub(crate) fn hold_permit(&mut self, permit: AdmissionPermit) {
        self.permit = permit;
    }

    /// The reservations of rules of targets and of rules in shadow mode, which end with the request.
    pub(crate) fn rule_holds(&mut self) -> &mut RuleHolds {
        self.rule_holds.get_or_insert_default()
    }

    /// Tells the rules when the request began.
    pub(crate) fn date_rule_holds(&mut self) {
        if let (Some(holds), Some(line)) = (&mut self.rule_holds, &self.line) {
            holds.set_begin(line.at());
        }
    }

    /// Ends a handshake that succeeded without a record: those of its session follow. Returns its places among the requests in flight.
    /// `served`: the catalogue id of the model that answered.
    pub(crate) fn finish_handshake(&mut self, served: &str) -> Vec<AdmissionPermit> {
        self.is_finished = true;
        let of_rules = self.rule_holds.take().map(|holds| holds.into_permits(served));
        self.release();
        std::iter::once(std::mem::take(&mut self.permit)).chain(of_rules.into_iter().flatten()).collect()
    }

    /// Releases everything that a request holds which does not begin.
    pub(crate) fn release(&mut self) {
        self.reservation = Reservation::default();
        if let Some(holds) = self.rule_holds.take() {
            holds.undo();
        }
    }

    /// Holds a further reservation until the request ends.
    pub(crate) fn hold_more(&mut self, reservation: Reservation) {
        let more = self.dated(reservation);
        self.additional_reservations.push(more);
    }

    /// A budget counts the request in the period in which the ledger has it.
    fn dated(&self, mut reservation: Reservation) -> Reservation {
        if let Some(line) = &self.line {
            reservation.set_begin(line.at());
        }
        reservation
    }

    /// Begins an attempt, the `count`th of the request. The ledger's journal notes it first: a process that dies during the attempt has caused
    /// the cost of its prompt.
    ///
    /// # Errors
    /// The journal cannot record the attempt, so the request must end.
    pub(crate) fn begin_attempt(
        &mut self,
        candidate: &Candidate,
        count: usize,
        request: &ValidatedRequest,
    ) -> Result<Attempt> {
        self.note_attempts(count);
        // A handshake costs nothing.
        if let Some(line) = self.line.as_mut().filter(|_| !request.is_handshake()) {
            line.begin(candidate, request, self.upstream_calls.spent())?;
        }
        Ok(self.upstream_calls.begin_attempt(candidate))
    }

    /// Begins the only attempt of a request that passes through. `billed` is charged if the process dies during it.
    ///
    /// # Errors
    /// As [`Settlement::begin_attempt`].
    pub(crate) fn begin_forwarded(&mut self, candidate: &Candidate, billed: &BilledUsage) -> Result<Attempt> {
        self.note_attempts(1);
        if let Some(line) = &mut self.line {
            line.begin_forwarded(candidate, billed)?;
        }
        Ok(self.upstream_calls.begin_attempt(candidate))
    }

    /// Begins an attempt beside one that is under way.
    pub(crate) fn begin_hedge(
        &mut self,
        candidate: &Candidate,
        count: usize,
        request: &ValidatedRequest,
    ) -> Attempt {
        self.note_attempts(count);
        if let Some(line) = &mut self.line {
            line.begin_hedge(candidate, request);
        }
        self.upstream_calls.begin_attempt(candidate)
    }

    /// Ends an attempt now with this status, and returns the usage of its calls. The metrics count a provider's bill when its attempt ends.
    pub(crate) fn end_attempt(
        &mut self,
        candidate: &Candidate,
        attempt: Attempt,
        outcome: AttemptOutcome,
        (now, status): (Instant, &'static str),
    ) -> BilledUsage {
        let billed = self.upstream_calls.end_attempt(attempt, outcome, Some((now, status)));
        let answered = matches!(outcome, AttemptOutcome::Served | AttemptOutcome::Wasted);
        let took = attempt.until(now);
        self.measure_attempt(candidate, took, &billed.usage, (!answered).then_some(status));
        match outcome {
            AttemptOutcome::Served => {
                self.metrics.served(&candidate.metrics, &billed.usage, billed.known_part());
            }
            AttemptOutcome::Wasted => {
                self.metrics.failed(&candidate.metrics, WASTED);
                self.meter(candidate, &billed);
            }
            AttemptOutcome::Interrupted => {
                self.metrics.failed(&candidate.metrics, status);
                self.meter(candidate, &billed);
            }
            AttemptOutcome::Failed | AttemptOutcome::Cancelled => {
                self.metrics.failed(&candidate.metrics, status);
                if billed.usage.total() > 0 {
                    self.meter(candidate, &billed);
                }
            }
        }
        billed
    }

    /// Measures and notes the failed calls of parts that were asked for again. Returns their places and records, and what each is charged.
    pub(crate) fn note_failed_parts(&mut self) -> Vec<(usize, AttemptRecord, Money)> {
        let failed = self.upstream_calls.take_failed_parts();
        let mut records = Vec::with_capacity(failed.len());
        for FailedPart { candidate, attempt, of_attempt_at, ended, status, reason, held } in failed {
            self.hold_more(held);
            let ended = (ended, status);
            let billed = self.end_attempt(&candidate, attempt, AttemptOutcome::Failed, ended);
            let record = attempt_record(&candidate, attempt, ended, &billed);
            // The failed calls of an attempt stand before it.
            let place = self.order.add(of_attempt_at);
            self.note_at(place, &record, billed.cost, reason, attempt);
            records.push((place, record, billed.cost));
        }
        records
    }

    /// Ends an attempt whose last request was refused before anything was sent. Returns the use of its earlier parts.
    pub(crate) fn discard_attempt(&mut self, candidate: &Candidate, attempt: Attempt) -> BilledUsage {
        let billed = self.upstream_calls.end_attempt(attempt, AttemptOutcome::Failed, None);
        // Another part of a divided request may have been answered before.
        if billed.usage.total() > 0 {
            self.meter(candidate, &billed);
        }
        billed
    }

    fn measure_attempt(
        &self,
        candidate: &Candidate,
        took: Duration,
        usage: &Usage,
        error: Option<&'static str>,
    ) {
        let ending = (error, self.trace_id());
        self.metrics.attempt_ended(&candidate.metrics, self.operation, usage, took, ending);
    }

    /// The trace of the request, if it is recorded.
    fn trace_id(&self) -> Option<TraceId> {
        self.tracing.as_ref().map(CallTracing::id)
    }

    fn meter(&self, candidate: &Candidate, billed: &BilledUsage) {
        self.metrics.used(&candidate.metrics, &billed.usage, billed.known_part());
    }

    /// Tokens between two notes of a stream's progress; None = no journal keeps them.
    pub(crate) fn progress_tokens(&self) -> Option<u64> {
        self.line.as_ref().map(LedgerLine::progress_tokens)
    }

    /// Notes the warnings of the answer for the request log.
    pub(crate) fn note_warnings(&mut self, warnings: &[Cow<'static, str>]) {
        if let Some(line) = &mut self.line {
            line.note_warnings(warnings);
        }
    }

    /// Notes in the journal what the request has used by now. `usage` is that of the attempt under way.
    pub(crate) fn note_progress(&mut self, candidate: &Candidate, usage: &Usage) {
        let usage = self.upstream_calls.answer().usage.plus(usage);
        let billed = self.upstream_calls.all().with_usage(usage);
        if let Some(line) = &mut self.line {
            line.note_progress(candidate, &billed);
        }
    }

    /// Records in the journal the usage that upstreams reported before the first content of this attempt, if it is new.
    pub(crate) fn note_early_usage(&mut self, candidate: &Candidate, attempt: Attempt) {
        if self.upstream_calls.take_told() {
            let usage = self.upstream_calls.of(attempt).usage;
            self.note_progress(candidate, &usage);
        }
    }

    /// Ends the one attempt of a forwarded request, and notes it with the upstream's reason if it failed.
    pub(crate) fn end_only_attempt(
        &mut self,
        candidate: &Candidate,
        attempt: Attempt,
        outcome: AttemptOutcome,
        (status, reason): (&'static str, Option<String>),
    ) {
        let now = clock::now();
        let billed = self.end_attempt(candidate, attempt, outcome, (now, status));
        let record = attempt_record(candidate, attempt, (now, status), &billed);
        self.note_attempt(&record, billed.cost, reason, attempt);
    }

    /// Notes an attempt that is over, its cost as far as its prices are known, and the upstream's reason if it failed. Returns its place
    /// among the attempts, in the order in which they began.
    pub(crate) fn note_attempt(
        &mut self,
        record: &AttemptRecord,
        spent: Money,
        reason: Option<String>,
        attempt: Attempt,
    ) -> usize {
        let place = self.order.add(attempt.at);
        self.note_at(place, record, spent, reason, attempt);
        place
    }

    fn note_at(
        &mut self,
        place: usize,
        record: &AttemptRecord,
        spent: Money,
        reason: Option<String>,
        attempt: Attempt,
    ) {
        if let Some(line) = &mut self.line {
            let started = millis(attempt.at.saturating_duration_since(self.accepted));
            line.note_attempt(record, spent, reason, (place, started));
        }
    }

    /// Notes the milliseconds in which images were fetched for the attempt that comes next.
    pub(crate) fn note_image_fetch(&mut self, image_fetch_ms: u64) {
        if let Some(line) = &mut self.line {
            line.image_fetch_ms = image_fetch_ms;
        }
    }

    /// Notes an upstream's reason for a failure in the access log.
    pub(crate) fn note_upstream_error(&self, reason: &str) {
        self.log.note(|record| record.upstream_error = Some(reason.into()));
    }

    /// Notes the number of attempts so far in the access log.
    pub(crate) fn note_attempts(&self, count: usize) {
        self.log.note(|record| record.attempts = u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Notes when the first content of a stream came.
    pub(crate) fn note_first_token(
        &self,
        candidate: &Candidate,
        (attempt, after): (Attempt, Duration),
        millis: u64,
    ) {
        self.metrics.first_token(&candidate.metrics, self.operation, millis, after);
        self.upstream_calls.note_first_content(attempt, after);
        self.log.note(|record| record.ttft_ms = Some(millis));
    }

    /// Notes a complete answer for the spans of the request: the id that the client gets, the model that the upstream reports, and why
    /// each choice ended.
    pub(crate) fn note_answer(
        &mut self,
        attempt: Attempt,
        id: &str,
        model: Option<&str>,
        finishes: impl Iterator<Item = Option<Finish>>,
    ) {
        let Some(tracing) = &mut self.tracing else { return };
        tracing.note_response(id);
        let model = model.filter(|model| !model.is_empty());
        let model = model.map(|model| model.chars().take(MAX_MODEL_CHARS).collect());
        let finish_reasons = finishes.take(MAX_REASONS).flatten().map(Finish::as_str).collect();
        self.upstream_calls.note_answer(attempt, AnswerTrace { model, finish_reasons });
    }

    /// Notes the use of the provider's prompt cache.
    pub(crate) fn note_prompt_cache(&mut self, used: Arc<PromptCacheUse>) {
        if let Some(line) = &mut self.line {
            line.note_prompt_cache(used);
        }
    }

    /// Notes the part of the answer that comes out of the cache, and what it would have cost.
    pub(crate) fn note_found(&mut self, usage: Usage, saved: Option<Money>) {
        self.found = Some(Box::new((usage, saved)));
    }
}

/// The record of an attempt that ended at this moment.
pub(crate) fn attempt_record(
    candidate: &Candidate,
    attempt: Attempt,
    (ended, status): (Instant, &'static str),
    billed: &BilledUsage,
) -> AttemptRecord {
    AttemptRecord {
        provider: Arc::clone(&candidate.model.provider),
        model: Arc::clone(&candidate.model.id),
        status,
        latency_ms: millis(attempt.until(ended)),
        cost: billed.known_cost(),
    }
}
