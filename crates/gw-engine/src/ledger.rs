//! A call's line in the ledger: begun before an upstream is asked, ended exactly once.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gw_cache::Stored;
use gw_store::journal::{Journal, OpenRequest};
use gw_store::ledger::{Attempt, Entry, Tokens};
use gw_wire::gateway::AttemptRecord;
use gw_wire::money::Money;
use gw_wire::request_id;
use gw_wire::usage::Usage;

use crate::ask::Ask;
use crate::call::Context;
use crate::error::{Error, Kind, Result};
use crate::meter::Bill;
use crate::plan::{Candidate, Plan};

/// The longest text of a client that is kept.
const LONGEST_TEXT: usize = 256;
/// Reasons of upstreams are kept of so many attempts: each may be 2 KiB.
const MOST_REASONS: usize = 8;

/// The time of day.
pub(crate) fn unix_millis() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// The line of one call.
#[derive(Debug)]
pub(crate) struct Line {
    journal: Arc<Journal>,
    begun: Option<OpenRequest>,
    entry: Box<Entry>,
}

impl Line {
    /// What is known when a request comes in.
    pub(crate) fn new(journal: &Arc<Journal>, context: &Context, operation: &str) -> Self {
        // The ledger finds a row by the time that its id tells.
        let at = request_id::timestamp_millis(&context.request_id).unwrap_or_else(unix_millis);
        let entry = Entry {
            request_id: context.request_id.to_string(),
            at,
            key_id: context.caller.key_id().to_string(),
            key_name: context.caller.key_name().to_string(),
            team: context.caller.team().map(|team| team.to_string()),
            operation: operation.to_owned(),
            strategy: "default".to_owned(),
            client: context.client.map(|client| client.to_string()),
            ..Entry::default()
        };
        Self { journal: Arc::clone(journal), begun: None, entry: Box::new(entry) }
    }

    /// When the request came in, unix seconds.
    pub(crate) fn at(&self) -> i64 {
        self.entry.at.div_euclid(1000)
    }

    /// What was asked for.
    pub(crate) fn asked(&mut self, ask: &Ask) {
        self.entry.requested_model = clipped(ask.model());
        self.entry.stream = ask.wants_stream();
        self.entry.end_user = ask.user().as_deref().map(clipped);
    }

    /// How it is routed.
    pub(crate) fn routed(&mut self, plan: &Plan) {
        plan.strategy.as_str().clone_into(&mut self.entry.strategy);
        if let Some(Candidate { model, .. }) = plan.candidates.first() {
            self.entry.model = model.id.to_string();
            self.entry.provider = model.provider.to_string();
        }
    }

    /// An upstream is about to be asked. The first time the line goes to the journal, with what its prompts will cost: a process that dies
    /// then has caused it.
    ///
    /// # Errors
    /// The line cannot be kept, so the request must not go on.
    pub(crate) fn begin(&mut self, candidate: &Candidate, ask: &Ask, spent: Bill) -> Result<()> {
        if self.begun.is_some() && spent.cost == Money::ZERO && *self.entry.model == *candidate.model.id {
            return Ok(());
        }
        let (mut usage, mut cost) = (spent.usage, spent.cost);
        for size in ask.sizes(candidate) {
            let prompt = Usage::estimate(size.prompt_tokens, 0);
            usage = usage.plus(&prompt);
            cost += candidate.model.cost(&prompt).unwrap_or_default();
        }
        if self.begun.is_some() {
            self.progress(candidate, &usage, cost);
            return Ok(());
        }
        self.used(candidate, &usage, cost);
        self.begun = Some(self.journal.begin(&self.entry).map_err(|_| {
            let message = "The gateway's store is away, and no more requests can be kept for it.";
            Error::new(Kind::StoreUnavailable, message).retry_after(Duration::from_secs(5))
        })?);
        Ok(())
    }

    /// A hedge asks another upstream: its prompts cost as much besides.
    pub(crate) fn begin_too(&mut self, candidate: &Candidate, ask: &Ask) {
        let costs = ask.sizes(candidate).into_iter().map(|size| {
            let prompt = Usage::estimate(size.prompt_tokens, 0);
            candidate.model.cost(&prompt).unwrap_or_default()
        });
        self.entry.cost = self.entry.cost.saturating_add(costs.sum::<Money>().femtos());
        if let Some(begun) = &mut self.begun {
            self.journal.progress(begun, &self.entry);
        }
    }

    /// How many tokens a stream gives between two notes of its progress.
    pub(crate) fn progress_tokens(&self) -> u64 {
        self.journal.progress_tokens()
    }

    /// So much is used by now: the row of a process that dies from here on.
    pub(crate) fn progress(&mut self, candidate: &Candidate, usage: &Usage, cost: Money) {
        self.used(candidate, usage, cost);
        if let Some(begun) = &mut self.begun {
            self.journal.progress(begun, &self.entry);
        }
    }

    /// An upstream call is over.
    pub(crate) fn attempted(&mut self, record: &AttemptRecord, reason: Option<String>) {
        let AttemptRecord { provider, model, status, latency_ms, cost } = record;
        self.entry.attempts.push(Attempt {
            provider: Arc::clone(provider),
            model: Arc::clone(model),
            status: Cow::Borrowed(status),
            latency_ms: *latency_ms,
            cost: cost.unwrap_or_default().femtos(),
            reason: reason.filter(|_| self.entry.attempts.len() < MOST_REASONS),
        });
    }

    /// Who served, and what it took.
    pub(crate) fn used(&mut self, candidate: &Candidate, usage: &Usage, cost: Money) {
        let entry = &mut self.entry;
        if *entry.model != *candidate.model.id {
            entry.model = candidate.model.id.to_string();
            entry.provider = candidate.model.provider.to_string();
        }
        entry.fallback = candidate.is_fallback;
        self.counted(usage, cost);
    }

    fn counted(&mut self, usage: &Usage, cost: Money) {
        self.entry.tokens = Tokens {
            prompt: usage.prompt,
            completion: usage.completion,
            cached: usage.cached.unwrap_or(0),
            cache_write: usage.cache_write.unwrap_or(0),
            reasoning: usage.reasoning.unwrap_or(0),
        };
        self.entry.estimated = usage.estimated;
        self.entry.cost = cost.femtos();
    }

    /// What it would have cost besides, but for the cache.
    pub(crate) fn saved(&mut self, saved: Money) {
        self.entry.saved = saved.femtos();
    }

    /// It was answered out of the cache.
    pub(crate) fn cached(&mut self, stored: &Stored, fallback: bool, paid: Money) {
        self.entry.model = stored.model_used.to_string();
        self.entry.provider = stored.provider.to_string();
        self.entry.fallback = fallback;
        self.entry.cache_hit = true;
        self.entry.saved = stored.cost.femtos();
        self.counted(&stored.usage, paid);
    }

    /// Nothing was used after all, but for what calls used that were given up or broke off.
    pub(crate) fn unused(&mut self, begun: &Usage, extra: Money) {
        self.counted(begun, extra);
    }

    /// It failed with this code, which is the upstream's own where that says more than ours.
    pub(crate) fn failed(&mut self, code: &str) {
        self.entry.status = clipped(code);
    }

    /// The request is over, with this status unless it has failed with another.
    pub(crate) fn end(mut self, status: &str, ttft_ms: Option<u64>, latency_ms: u64) {
        // A client that went away has ended it, whatever the upstream said later.
        if self.entry.status.is_empty() || status == Kind::ClientClosedRequest.code() {
            status.clone_into(&mut self.entry.status);
        }
        self.entry.ttft_ms = ttft_ms;
        self.entry.latency_ms = latency_ms;
        self.journal.finish(self.begun.take(), *self.entry);
    }
}

fn clipped(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}
