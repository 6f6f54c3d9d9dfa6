//! One generation request on its way through the upstreams.

pub(crate) mod answer_closing;
pub(crate) mod attempt_context;
pub(crate) mod begin_order;
mod billed_usage;
mod cache_account;
pub(crate) mod continuation;
pub(crate) mod encode;
pub(crate) mod enter_target;
pub(crate) mod forwarded_reserve;
pub(crate) mod ledger_line;
pub(crate) mod progress;
mod prompt_cache;
pub(crate) mod quoted_prompt;
pub(crate) mod reserve;
pub(crate) mod rule_holds;
pub(crate) mod settlement;
pub(crate) mod shared_document;
pub(crate) mod stream_reservation;
pub(crate) mod tracing;
pub(crate) mod upstream_call;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gw_cache::Stored;
use gw_wire::gateway::GatewayMeta;
use gw_wire::money::Money;
use gw_wire::usage::Usage;

use self::attempt_context::AttemptContext;
use self::progress::CallProgress;
use self::settlement::{Outcome, Settlement};
use self::shared_document::SharedDocument;
use self::stream_reservation::StreamReservation;
use self::upstream_call::{Attempt, AttemptOutcome, BilledUsage};
use crate::clock;
use crate::error::Error;
use crate::plan::PlanRequest;
use crate::plan::candidate::{Candidate, Plan};

/// One call on its way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) context: AttemptContext,
    pub(crate) plan: Plan,
    pub(crate) progress: CallProgress,
    /// The summary of a complete answer, for a call that is shared.
    pub(crate) summary: Option<Box<CallSummary>>,
    /// The cost in the answer to the client: that of the answer, and of attempts that began it. None = a price is unknown.
    pub(crate) cost: Option<Money>,
    /// The money set aside for a stream that broke off, until another upstream continues it.
    pub(crate) reservation: Option<StreamReservation>,
    /// The answer of a shared call, unless its client's document is all that there is.
    pub(crate) shared_document: Option<SharedDocument>,
    /// The upstream's complete answer does not say why it ended, so it may be cut.
    pub(crate) is_end_unknown: bool,
    /// The plan of the model that was asked for, while an alias is to serve because of a threshold, and the warning about it.
    pub(crate) asked_plan: Option<Box<(Plan, String)>>,
    /// The answer has fewer choices than the client asked for.
    lacks_choices: bool,
}

/// The warning that an answer has fewer choices than the client asked for. Some servers ignore `n`.
pub(crate) const CHOICES_MISSING: &str = "choices_missing";

/// The upstream that answered, with usage and cost.
#[derive(Clone, Debug)]
pub(crate) struct CallSummary {
    pub(crate) candidate: Candidate,
    pub(crate) usage: Usage,
    pub(crate) cost: Option<Money>,
    /// The budget could not pay for a longer answer.
    pub(crate) is_shortened: bool,
    /// More than one upstream contributed to the answer.
    pub(crate) is_continued: bool,
    /// It has fewer choices than the client asked for.
    pub(crate) lacks_choices: bool,
}

impl Call {
    /// A call before its first attempt.
    pub(crate) fn new(context: AttemptContext, plan: Plan, settlement: Box<Settlement>) -> Self {
        Self {
            context,
            plan,
            progress: CallProgress::new(settlement),
            summary: None,
            cost: Some(Money::ZERO),
            reservation: None,
            shared_document: None,
            is_end_unknown: false,
            asked_plan: None,
            lacks_choices: false,
        }
    }

    /// The facts for another plan of the request, and the most that it may cost.
    pub(crate) fn planner(&self) -> (PlanRequest<'_>, Option<Money>) {
        let AttemptContext { snapshot, client, request, .. } = &self.context;
        let metrics = self.progress.settlement.metrics();
        let planner = PlanRequest::of_client(snapshot, metrics, client, request);
        (planner, client.max_cost.as_deref().copied())
    }

    /// Gives the request another plan.
    pub(crate) fn replan(&mut self, plan: Plan) {
        self.plan = plan;
        self.note_replanned();
    }

    /// Notes another plan of the request.
    pub(crate) fn note_replanned(&mut self) {
        self.progress.settlement.note_plan(&self.plan);
        if let Some(first) = self.plan.candidates.first() {
            self.context.client.log.note(|record| {
                record.model = Some(Arc::clone(&first.model.id));
                record.provider = Some(Arc::clone(&first.model.provider));
            });
        }
    }

    /// Takes the request back in the limits of requests of its rules: the response cache answers it after all.
    pub(crate) fn uncount_in_rules(&mut self) {
        let Some(rules) = &self.context.client.rules else { return };
        let rated = rules.rated();
        if !rated.is_empty() {
            self.context.limiter.take_back(&self.context.client.request_id, &rated);
        }
        self.progress.settlement.rule_holds().take_back_requests();
    }

    /// Ends the call: this attempt answered the rest of it, and the client has read all of it or will.
    pub(crate) fn finish_served(&mut self, candidate: &Candidate, billed: &BilledUsage) {
        let state = &self.context.snapshot.state;
        if let Some(conversation) = self.plan.conversation {
            state.affinity.note(conversation.id, &candidate.model.id, billed.usage.prompt, clock::now());
        }
        if let Some(budget) = &self.context.snapshot.hedges {
            budget.record_served_cost(billed.known_cost().unwrap_or_default());
        }
        self.progress.finish_hedge();
        let calls = &self.context.upstream_calls;
        let answer = calls.answer();
        self.cost = answer.known_cost();
        self.summary = self.context.is_shared.then(|| {
            Box::new(CallSummary {
                candidate: candidate.clone(),
                usage: answer.usage,
                cost: answer.known_cost(),
                is_shortened: self.context.is_shortened.load(Ordering::Relaxed),
                is_continued: calls.answering_attempts() > 1,
                lacks_choices: self.lacks_choices,
            })
        });
        self.note_warnings();
        self.progress.settlement.finish(&Outcome::Served);
    }

    /// Notes that the answer has fewer choices than the client asked for.
    pub(crate) fn note_missing_choices(&mut self) {
        self.lacks_choices = true;
        self.progress.warnings.push(Cow::Borrowed(CHOICES_MISSING));
    }

    /// Notes the warnings for the request log, which is written when the call ends.
    fn note_warnings(&mut self) {
        let CallProgress { settlement, warnings, .. } = &mut self.progress;
        if !warnings.is_empty() {
            settlement.note_warnings(warnings);
        }
    }

    /// Ends the call with an answer that needs no upstream.
    pub(crate) fn finish_without_upstream(&mut self) {
        self.progress.settlement.finish(&Outcome::Served);
    }

    /// Ends the call with an error instead of an answer.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.note_warnings();
        self.progress.settlement.finish(&Outcome::Failed(error));
    }

    /// Ends the call with an answer that another call brought. `warnings` are those of this answer alone.
    pub(crate) fn finish_cached(&mut self, stored: &Stored, is_fallback: bool, warnings: &[&'static str]) {
        self.progress.warnings.extend(warnings.iter().map(|warning| Cow::Borrowed(*warning)));
        self.note_warnings();
        self.progress.settlement.finish(&Outcome::Cached { stored, is_fallback });
    }

    /// Ends an attempt whose stream ended early, and the call with it.
    pub(crate) fn interrupt(&mut self, candidate: &Candidate, attempt: Attempt, status: &'static str) {
        self.progress.end_attempt(candidate, attempt, AttemptOutcome::Interrupted, status);
        self.note_warnings();
        self.progress.settlement.finish(&Outcome::Interrupted(status));
    }

    /// As [`Self::interrupt`], and returns the `gateway` object for the client's error event. The request log has its warnings.
    pub(crate) fn interrupt_told(
        &mut self,
        candidate: &Candidate,
        attempt: Attempt,
        status: &'static str,
    ) -> GatewayMeta {
        self.progress.end_attempt(candidate, attempt, AttemptOutcome::Interrupted, status);
        let gateway = self.meta(candidate, true);
        self.progress.settlement.finish(&Outcome::Interrupted(status));
        gateway
    }

    /// The `gateway` object of a call that failed: it names the candidate of the last attempt. None = nothing was tried.
    pub(crate) fn meta_of_failure(&mut self) -> Option<GatewayMeta> {
        let last = Arc::clone(&self.progress.records.last()?.model);
        let tried = self.plan.candidates.iter().find(|candidate| candidate.model.id == last).cloned()?;
        Some(self.meta(&tried, true))
    }

    /// The `gateway` object of an answer that this candidate gave. Takes the records: it is written once.
    pub(crate) fn meta(&mut self, candidate: &Candidate, priced: bool) -> GatewayMeta {
        let mut warnings = std::mem::take(&mut self.progress.warnings);
        if !priced {
            warnings.push(Cow::Borrowed("price_unknown"));
        }
        if self.context.upstream_calls.has_disbelieved() {
            warnings.push(Cow::Borrowed("usage_not_believed"));
        }
        if let Some(reason) = self.plan.upgrade_warning(candidate, &self.progress.failures) {
            warnings.push(Cow::Borrowed(reason));
        }
        if !warnings.is_empty() {
            self.progress.settlement.note_warnings(&warnings);
        }
        let prompt_cache = self.note_prompt_cache(candidate);
        GatewayMeta {
            request_id: Arc::clone(&self.context.client.request_id),
            model_used: Arc::clone(&candidate.model.id),
            provider: Arc::clone(&candidate.model.provider),
            cache_hit: false,
            routing_strategy: self.plan.strategy.as_str(),
            fallback_used: candidate.is_fallback,
            latency_ms: self.context.latency_ms(),
            attempts: std::mem::take(&mut self.progress.records),
            warnings,
            saved: None,
            preset: self.context.client.preset.clone(),
            prompt_cache,
            similar: None,
        }
    }
}
