//! A call's line in the ledger. The journal notes it before an upstream is called, and it is written once, when the
//! call ends.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use gw_cache::Stored;
use gw_routing::score::Tier;
use gw_store::journal::{Journal, OpenRequest};
use gw_store::ledger::{Attempt, Entry, ExcludedModel, RankedModel, Tokens};
use gw_wire::charges::Charges;
use gw_wire::gateway::AttemptRecord;
use gw_wire::money::Money;
use gw_wire::prompt_cache::PromptCacheUse;
use gw_wire::request_id;
use gw_wire::usage::Usage;

use crate::call::begin_order::insert_at;
use crate::call::upstream_call::{BilledUsage, with_room_for_one};
use crate::clock::unix_millis;
use crate::error::{Error, Kind, Result};
use crate::plan::candidate::{Candidate, Choice, Plan};
use crate::request::ValidatedRequest;
use crate::request::context::RequestContext;

/// Characters of a client's text that the ledger keeps.
const MAX_TEXT_CHARS: usize = 256;
/// Attempts of which the ledger keeps the upstream's reason. Each reason may have 2 KiB.
const MAX_REASONS: usize = 8;
/// Candidates and excluded models that the ledger keeps of a request, each.
const MAX_CHOICES: usize = 16;
/// Warnings that the ledger keeps of a request: those of a body, and a few of the answer.
const MAX_WARNINGS: usize = 40;

/// The line of one call.
#[derive(Debug)]
pub(crate) struct LedgerLine {
    journal: Arc<Journal>,
    begun: Option<OpenRequest>,
    entry: Box<Entry>,
    /// The milliseconds in which images were fetched for the attempt that is noted next.
    pub(super) image_fetch_ms: u64,
}

impl LedgerLine {
    /// A line with the facts that are known when a request arrives.
    pub(crate) fn new(journal: &Arc<Journal>, client: &RequestContext, operation: &'static str) -> Self {
        // The ledger finds a row by the time in its request id.
        let at = request_id::timestamp_millis(&client.request_id).unwrap_or_else(unix_millis);
        let entry = Entry {
            request_id: Arc::clone(&client.request_id),
            at,
            key_id: Arc::clone(client.caller.key_id()),
            key_name: Arc::clone(client.caller.key_name()),
            team: client.caller.team().cloned(),
            operation: Cow::Borrowed(operation),
            strategy: Cow::Borrowed("default"),
            client: client.client.map(address),
            session: client.session.as_deref().map(str::to_owned),
            attribution: client.attribution.clone(),
            ..Entry::default()
        };
        Self { journal: Arc::clone(journal), begun: None, entry: Box::new(entry), image_fetch_ms: 0 }
    }

    /// The unix second in which the request arrived.
    pub(crate) fn at(&self) -> i64 {
        self.entry.at.div_euclid(1000)
    }

    /// Notes the request itself.
    pub(crate) fn note_request(&mut self, request: &ValidatedRequest) {
        self.entry.requested_model = clipped(request.model());
        self.entry.stream = request.wants_stream();
        self.entry.user = request.user().as_deref().map(clipped);
    }

    /// Notes a request that passes through.
    pub(crate) fn note_forwarded(&mut self, model: &str, is_stream: bool) {
        self.entry.requested_model = clipped(model);
        self.entry.stream = is_stream;
    }

    /// Notes the strategy and the first candidate.
    pub(crate) fn note_plan(&mut self, plan: &Plan) {
        self.entry.strategy = Cow::Borrowed(plan.strategy.as_str());
        if let Some(Candidate { model, .. }) = plan.candidates.first() {
            self.entry.model = Arc::clone(&model.id);
            self.entry.provider = Arc::clone(&model.provider);
        }
        match &plan.choice {
            Some(choice) => self.note_choice(plan, choice),
            // The choice of a plan that was given up is none of this one's.
            None => self.entry.decision = None,
        }
    }

    /// Records the order of the candidates and the excluded models. Called before any candidate is removed from the plan.
    fn note_choice(&mut self, plan: &Plan, choice: &Choice) {
        let group = |id: &Arc<str>| plan.candidates.iter().find(|candidate| candidate.model.id == *id);
        let ranked = |(id, tier): &(Arc<str>, Tier)| RankedModel {
            model: id.to_string(),
            group: group(id).map_or(0, |candidate| candidate.group.into()),
            tier: tier.as_str().to_owned(),
        };
        let excluded = |(id, reason): &(Arc<str>, Cow<'static, str>)| ExcludedModel {
            model: id.to_string(),
            reason: reason.to_string(),
        };
        let decision = self.entry.decision.get_or_insert_default();
        let left_out = choice.order.len().saturating_sub(MAX_CHOICES)
            + choice.excluded.len().saturating_sub(MAX_CHOICES);
        decision.candidates = choice.order.iter().take(MAX_CHOICES).map(ranked).collect();
        decision.excluded = choice.excluded.iter().take(MAX_CHOICES).map(excluded).collect();
        decision.left_out = u64::try_from(left_out).unwrap_or(u64::MAX);
        decision.bound();
    }

    /// Notes more warnings of the answer. `left_out` counts those beyond the bound.
    pub(crate) fn note_warnings(&mut self, warnings: &[Cow<'static, str>]) {
        let decision = self.entry.decision.get_or_insert_default();
        let room = MAX_WARNINGS.saturating_sub(decision.warnings.len());
        decision.warnings.extend(warnings.iter().take(room).map(|warning| warning.to_string()));
        let left_out = warnings.len().saturating_sub(room);
        decision.left_out = decision.left_out.saturating_add(u64::try_from(left_out).unwrap_or(u64::MAX));
    }

    /// Notes the use of the provider's prompt cache.
    pub(crate) fn note_prompt_cache(&mut self, used: Arc<PromptCacheUse>) {
        self.entry.prompt_cache = Some(used);
    }

    /// Notes the lines of the charge.
    pub(crate) fn note_charges(&mut self, charges: Option<Box<Charges>>) {
        self.entry.charges = charges;
    }

    /// The use of the prompt cache, if it is noted, with the provider and the model.
    pub(crate) fn prompt_cache(&self) -> Option<(&str, &str, &PromptCacheUse)> {
        let Entry { provider, model, prompt_cache, .. } = &*self.entry;
        prompt_cache.as_deref().map(|used| (&**provider, &**model, used))
    }

    /// Notes that an attempt begins. The first attempt puts the line into the journal with the cost of its prompts,
    /// because a process that dies from here on has caused that cost.
    ///
    /// # Errors
    /// The journal cannot keep the line, so the request must end.
    pub(crate) fn begin(
        &mut self,
        candidate: &Candidate,
        request: &ValidatedRequest,
        spent: Option<BilledUsage>,
    ) -> Result<()> {
        let has_cost = spent.is_some_and(|spent| spent.cost != Money::ZERO);
        if self.begun.is_some() && !has_cost && *self.entry.model == *candidate.model.id {
            return Ok(());
        }
        let mut billed = spent;
        request.each_size(candidate, |size| {
            let usage = size.usage(None, 0, &candidate.model);
            // Most requests have one call.
            match &mut billed {
                None => billed = Some(BilledUsage::of_call(&candidate.model, usage)),
                Some(billed) => billed.add_usage(&candidate.model, &usage),
            }
        });
        let billed = billed.unwrap_or_default();
        if self.begun.is_some() {
            self.note_progress(candidate, &billed);
            return Ok(());
        }
        self.begin_forwarded(candidate, &billed)
    }

    /// Puts the line into the journal with what is charged if the process dies.
    ///
    /// # Errors
    /// As [`LedgerLine::begin`].
    pub(crate) fn begin_forwarded(&mut self, candidate: &Candidate, billed: &BilledUsage) -> Result<()> {
        self.note_usage(candidate, billed);
        self.begun = Some(self.journal.begin(&self.entry).map_err(|_| {
            let message = "The gateway's store is unavailable, and its journal cannot take more requests.";
            Error::new(Kind::StoreUnavailable, message).retry_after(Duration::from_secs(5))
        })?);
        Ok(())
    }

    /// Notes that a hedge begins: it adds the cost of its own prompts.
    pub(crate) fn begin_hedge(&mut self, candidate: &Candidate, request: &ValidatedRequest) {
        let mut billed = BilledUsage::default();
        request.each_size(candidate, |size| {
            billed.add_usage(&candidate.model, &size.usage(None, 0, &candidate.model));
        });
        self.entry.cost = self.entry.cost.saturating_add(billed.cost.femtos());
        self.entry.unpriced |= billed.known_cost().is_none();
        if let Some(begun) = &mut self.begun {
            self.journal.progress(begun, &self.entry);
        }
    }

    /// Tokens between two notes of a stream's progress.
    pub(crate) fn progress_tokens(&self) -> u64 {
        self.journal.progress_tokens()
    }

    /// Notes the usage and cost by now. A process that dies later is charged for it.
    pub(crate) fn note_progress(&mut self, candidate: &Candidate, billed: &BilledUsage) {
        self.note_usage(candidate, billed);
        if let Some(begun) = &mut self.begun {
            self.journal.progress(begun, &self.entry);
        }
    }

    /// Notes an attempt that is over, at its place. `spent` is its cost as far as its prices are known, `started_ms` the time from the
    /// acceptance of the request to its begin.
    pub(crate) fn note_attempt(
        &mut self,
        record: &AttemptRecord,
        spent: Money,
        reason: Option<String>,
        (place, started_ms): (usize, u64),
    ) {
        let AttemptRecord { provider, model, status, latency_ms, cost } = record;
        with_room_for_one(&mut self.entry.attempts);
        let reason = reason.filter(|_| self.entry.attempts.len() < MAX_REASONS);
        let attempt = Attempt {
            provider: Arc::clone(provider),
            model: Arc::clone(model),
            status: Cow::Borrowed(status),
            latency_ms: *latency_ms,
            // A row of an older version has 0 for a later attempt, so it means that the time is unknown.
            started_ms: if place == 0 { started_ms } else { started_ms.max(1) },
            image_fetch_ms: std::mem::take(&mut self.image_fetch_ms),
            cost: cost.map(Money::femtos),
            known_part: if cost.is_none() { spent.femtos() } else { 0 },
            reason,
        };
        insert_at(&mut self.entry.attempts, place, attempt);
    }

    /// Notes the upstream that answered, with usage and cost.
    pub(crate) fn note_usage(&mut self, candidate: &Candidate, billed: &BilledUsage) {
        let entry = &mut self.entry;
        if *entry.model != *candidate.model.id {
            entry.model = Arc::clone(&candidate.model.id);
            entry.provider = Arc::clone(&candidate.model.provider);
        }
        entry.fallback = candidate.is_fallback;
        self.note_counts(&billed.usage, billed);
    }

    /// Notes the tokens of the answer, and the cost of all calls.
    fn note_counts(&mut self, usage: &Usage, billed: &BilledUsage) {
        self.entry.tokens = Tokens {
            prompt: usage.prompt,
            completion: usage.completion,
            cached: usage.cached.unwrap_or(0),
            cache_write: usage.cache_write.unwrap_or(0),
            reasoning: usage.reasoning.unwrap_or(0),
        };
        self.entry.cache_write_1h = usage.cache_write_1h.unwrap_or(0).into();
        self.entry.estimated = usage.estimated;
        self.entry.units = usage.units;
        self.entry.cost = billed.cost.femtos();
        self.entry.unpriced = billed.known_cost().is_none();
        self.entry.provider_cost = billed.stated_cost.map(Money::femtos);
    }

    /// Notes the cost that the cache saved; None = the answer was made at an unknown price.
    pub(crate) fn note_saved(&mut self, saved: Option<Money>) {
        self.entry.saved = saved.unwrap_or_default().femtos();
        self.entry.unknown_saved = saved.is_none();
    }

    /// Notes an answer out of the cache.
    pub(crate) fn note_cached(&mut self, stored: &Stored, fallback: bool, paid: &BilledUsage) {
        for (name, used) in
            [(&mut self.entry.model, &stored.model_used), (&mut self.entry.provider, &stored.provider)]
        {
            if **name != **used {
                *name = (**used).into();
            }
        }
        self.entry.fallback = fallback;
        self.entry.cache_hit = true;
        self.note_saved(stored.cost);
        self.note_counts(&stored.usage, paid);
    }

    /// Notes the usage and cost of a request that got no answer.
    pub(crate) fn note_unanswered(&mut self, billed: &BilledUsage) {
        self.note_counts(&billed.usage, billed);
    }

    /// Notes the error's code: the upstream's own code if it is more specific than ours.
    pub(crate) fn note_failure(&mut self, code: &str) {
        self.entry.status = Cow::Owned(clipped(code));
    }

    /// Writes the line, with this status unless an error was noted. Returns the request's id.
    pub(crate) fn end(mut self, status: &'static str, ttft_ms: Option<u64>, latency_ms: u64) -> Arc<str> {
        // A disconnect ended the request, whatever its upstream reported later.
        if self.entry.status.is_empty() || status == Kind::ClientClosedRequest.code() {
            self.entry.status = Cow::Borrowed(status);
        }
        self.entry.ttft_ms = ttft_ms;
        self.entry.latency_ms = latency_ms;
        let request_id = Arc::clone(&self.entry.request_id);
        self.journal.finish(self.begun.take(), *self.entry);
        request_id
    }
}

/// An address as `Display` shows it, IPv4 without a formatter.
fn address(client: IpAddr) -> String {
    let IpAddr::V4(client) = client else { return client.to_string() };
    let mut text = String::with_capacity("255.255.255.255".len());
    for (place, octet) in client.octets().into_iter().enumerate() {
        if place > 0 {
            text.push('.');
        }
        for (unit, is_written) in [(100, octet >= 100), (10, octet >= 10), (1, true)] {
            if is_written {
                text.push(char::from(b'0' + octet / unit % 10));
            }
        }
    }
    text
}

fn clipped(text: &str) -> String {
    if text.len() <= MAX_TEXT_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_TEXT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_address_is_written_as_display_shows_it() {
        for octet in 0..=255 {
            let client = IpAddr::V4(Ipv4Addr::new(octet, 255 - octet, 7, octet));
            assert_eq!(address(client), client.to_string());
        }
        let other = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]);
        assert_eq!(address(other), "2001:db8::1");
    }

    #[test]
    fn a_long_text_is_clipped_at_a_character() {
        assert_eq!(clipped("ü"), "ü");
        assert_eq!(clipped(&"ü".repeat(200)).chars().count(), 200);
        assert_eq!(clipped(&"ü".repeat(300)), "ü".repeat(MAX_TEXT_CHARS));
    }
}
