//! One generation request on its way through the upstreams.

pub(crate) mod attempt_context;
pub(crate) mod continuation;
pub(crate) mod encode;
pub(crate) mod ledger_line;
pub(crate) mod progress;
mod quoted_prompt;
pub(crate) mod reserve;
pub(crate) mod settlement;
pub(crate) mod stream_reservation;
pub(crate) mod upstream_call;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use gw_wire::gateway::GatewayMeta;
use gw_wire::money::Money;
use gw_wire::usage::Usage;

use self::attempt_context::AttemptContext;
use self::progress::CallProgress;
use self::settlement::Settlement;
use self::stream_reservation::StreamReservation;
use self::upstream_call::Attempt;
use crate::plan::candidate::{Candidate, Plan};

/// One call on its way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) context: AttemptContext,
    pub(crate) plan: Plan,
    pub(crate) progress: CallProgress,
    /// What the client was told of a complete answer.
    pub(crate) told: Option<CallSummary>,
    /// What the client is told that it cost: the answer, and what others charged that began it.
    pub(crate) cost: Money,
    /// The money set aside for a stream that broke off, until another upstream continues it.
    pub(crate) funds: Option<StreamReservation>,
    /// Others may get its answer, too.
    pub(crate) is_shared: bool,
}

/// Who answered, what was used and what it cost.
#[derive(Clone, Debug)]
pub(crate) struct CallSummary {
    pub(crate) candidate: Candidate,
    pub(crate) usage: Usage,
    pub(crate) cost: Option<Money>,
    /// Its length was limited by what its budget could pay.
    pub(crate) is_shortened: bool,
    /// Another one had begun it.
    pub(crate) is_continued: bool,
}

impl Call {
    /// That nobody has been asked for yet.
    pub(crate) fn new(context: AttemptContext, plan: Plan, settlement: Settlement) -> Self {
        Self {
            context,
            plan,
            progress: CallProgress::new(settlement),
            told: None,
            cost: Money::ZERO,
            funds: None,
            is_shared: false,
        }
    }

    /// Notes a successful attempt.
    pub(crate) fn record_ok(&mut self, candidate: &Candidate, started: Attempt) {
        self.progress.record(candidate, "ok", started);
    }

    /// Notes an attempt that is over.
    pub(crate) fn record(&mut self, candidate: &Candidate, status: &'static str, started: Attempt) {
        self.progress.record(candidate, status, started);
    }

    /// The call was answered in full.
    pub(crate) fn served(&mut self, candidate: &Candidate, usage: &Usage, cost: Option<Money>) {
        let state = &self.context.snapshot.state;
        if let Some(conversation) = self.plan.conversation {
            state.affinity.note(conversation.id, &candidate.model.id, usage.prompt, Instant::now());
        }
        if let Some(purse) = &state.hedges {
            purse.served(cost.unwrap_or_default());
        }
        self.progress.hedge_is_over();
        let (begun, charged) = self.progress.settlement.begun();
        let cost_of_all = cost.map(|cost| cost + charged);
        self.cost = cost.unwrap_or_default() + charged;
        self.told = self.is_shared.then(|| CallSummary {
            candidate: candidate.clone(),
            usage: begun.plus(usage),
            cost: cost_of_all,
            is_shortened: self.context.is_shortened.load(Ordering::Relaxed),
            is_continued: begun != Usage::default(),
        });
        self.progress.settlement.served(candidate, usage, cost);
    }

    /// The `gateway` object of an answer that this candidate gave. Takes the records: it is written once.
    pub(crate) fn meta(&mut self, candidate: &Candidate, priced: bool) -> GatewayMeta {
        let mut warnings = std::mem::take(&mut self.progress.warnings);
        if !priced {
            warnings.push(Cow::Borrowed("price_unknown"));
        }
        if let Some(reason) = self.plan.upgraded(candidate, &self.progress.failures) {
            warnings.push(Cow::Borrowed(reason));
        }
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
            similar: None,
        }
    }
}
