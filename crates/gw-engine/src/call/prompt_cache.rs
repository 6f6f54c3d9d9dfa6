//! The prompt cache of a call's provider: the breakpoints that its requests get, and the use that it made of the cache.

use std::sync::Arc;
use std::time::Duration;

use gw_providers::adapter::{BreakpointPlan, Target};
use gw_providers::settings::{BreakpointTtl, PromptCacheMode};
use gw_wire::money::Money;
use gw_wire::prompt_cache::{CacheMiss, PromptCacheUse};

use crate::call::Call;
use crate::call::attempt_context::AttemptContext;
use crate::call::upstream_call::CacheAccount;
use crate::clock;
use crate::plan::candidate::Candidate;
use crate::prompt_caches::{CachedPrompt, Segments, min_tokens};
use crate::request::ValidatedRequest;

impl AttemptContext {
    /// The candidate as its adapter needs it for this request.
    pub(crate) fn target<'c>(&self, candidate: &'c Candidate) -> Target<'c> {
        let breakpoints = self.breakpoints(candidate);
        Target { most_tokens: self.most_tokens(candidate), breakpoints, ..candidate.target() }
    }

    fn breakpoints(&self, candidate: &Candidate) -> Option<BreakpointPlan> {
        let settings = candidate.prompt_cache?;
        let is_chat = matches!(self.request, ValidatedRequest::Chat(_));
        if !is_chat || settings.mode == PromptCacheMode::Off {
            return None;
        }
        let least = settings.min_tokens.unwrap_or_else(|| min_tokens(&candidate.model));
        if self.request.prompt_tokens(candidate) < least {
            return None;
        }
        let (key_id, caches) = (self.client.caller.key_id(), &self.snapshot.state.prompt_caches);
        let is_held = caches.is_held(key_id, &candidate.model.id, clock::now());
        Some(BreakpointPlan { ttl: settings.ttl, is_held })
    }
}

impl Call {
    /// The use that the call made of the prompt cache of its provider, once it has an answer. The record of the request gets it, too.
    pub(crate) fn note_prompt_cache(&mut self, candidate: &Candidate) -> Option<Arc<PromptCacheUse>> {
        let caches = &self.context.snapshot.state.prompt_caches;
        if !self.context.upstream_calls.uses_prompt_cache() && !caches.has_sessions() {
            return None;
        }
        let account = self.context.upstream_calls.cache_account()?;
        let mut used = account.to_use();
        used.miss = self.miss(candidate, &account);
        let key_id = self.context.client.caller.key_id();
        if let (true, Some(saved), Some(surcharge)) = (used.is_inserted, used.saved, used.surcharge) {
            let amounts = (saved.femtos(), surcharge.femtos());
            caches.note(key_id, &candidate.model.id, amounts, clock::now());
        }
        let is_shown = account.is_any() || used.miss.is_some();
        let used = is_shown.then(|| Arc::new(used))?;
        self.progress.settlement.note_prompt_cache(Arc::clone(&used));
        Some(used)
    }

    /// Notes what the request left in the cache, and says why it found less there than the session's last request left.
    fn miss(&self, candidate: &Candidate, account: &CacheAccount) -> Option<CacheMiss> {
        let context = &self.context;
        let caches = &context.snapshot.state.prompt_caches;
        let (ValidatedRequest::Chat(request), Some(session)) = (&context.request, &context.client.session)
        else {
            return None;
        };
        let (key_id, now) = (context.client.caller.key_id(), clock::now());
        let tokens = account.read_tokens.saturating_add(account.write_tokens);
        if !account.is_reported || (tokens == 0 && !caches.knows(key_id, session, now)) {
            return None;
        }
        let settings = candidate.prompt_cache;
        let lifetime = settings.and_then(|settings| settings.lifetime);
        let asked = settings.filter(|_| account.is_inserted()).map(|settings| settings.ttl);
        let prompt = CachedPrompt {
            target: Arc::clone(&candidate.model.id),
            segments: Segments::of(request),
            at: context.client.accepted,
            tokens,
            ttl: lifetime.unwrap_or_else(|| written_for(account, asked)),
        };
        let last = caches.replace(key_id, session, prompt.clone(), now)?;
        let lost_tokens = last.tokens.saturating_sub(account.read_tokens);
        if lost_tokens == 0 {
            return None;
        }
        let age = prompt.at.saturating_duration_since(last.at);
        let ttl = lifetime.unwrap_or(last.ttl);
        let (cause, index) = last.cause(&prompt, age, ttl);
        Some(CacheMiss {
            cause,
            index,
            age_seconds: age.as_secs(),
            ttl_seconds: ttl.as_secs(),
            lost_tokens,
            lost: lost(candidate, account.prompt_tokens, lost_tokens),
        })
    }
}

/// The time for which the provider keeps the prompt of a call.
fn written_for(account: &CacheAccount, asked: Option<BreakpointTtl>) -> Duration {
    let ttl = if account.hour_tokens > 0 { BreakpointTtl::Hour } else { asked.unwrap_or_default() };
    ttl.lifetime()
}

fn lost(candidate: &Candidate, prompt_tokens: u64, lost_tokens: u64) -> Option<Money> {
    candidate.model.prices.as_ref()?.saved_by_reads(prompt_tokens, lost_tokens)
}
