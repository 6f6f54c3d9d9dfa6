//! The use of a prompt cache, added up over upstream calls.

use gw_providers::adapter::Breakpoints;
use gw_wire::money::Money;
use gw_wire::prompt_cache::PromptCacheUse;
use gw_wire::usage::Usage;

use crate::catalog::Model;

/// The use of the prompt cache by some upstream calls, each at its own prices.
#[derive(Clone, Debug)]
pub(crate) struct CacheAccount {
    pub(crate) read_tokens: u64,
    pub(crate) write_tokens: u64,
    /// The part of `write_tokens` that is kept for an hour.
    pub(crate) hour_tokens: u64,
    /// The longest prompt, which decides the price tier.
    pub(crate) prompt_tokens: u64,
    /// Whether an upstream reported what it used.
    pub(crate) is_reported: bool,
    saved: Option<Money>,
    surcharge: Option<Money>,
    breakpoints: Breakpoints,
}

impl Default for CacheAccount {
    fn default() -> Self {
        Self {
            read_tokens: 0,
            write_tokens: 0,
            hour_tokens: 0,
            prompt_tokens: 0,
            is_reported: false,
            saved: Some(Money::ZERO),
            surcharge: Some(Money::ZERO),
            breakpoints: Breakpoints::None,
        }
    }
}

impl CacheAccount {
    /// Adds a call of a model.
    pub(super) fn add(
        &mut self,
        model: &Model,
        usage: Option<&Usage>,
        is_reported: bool,
        breakpoints: Breakpoints,
    ) {
        if breakpoints != Breakpoints::None {
            self.breakpoints = breakpoints;
        }
        self.is_reported |= is_reported;
        let Some(usage) = usage else { return };
        let (read, written) = (usage.cached.unwrap_or(0), usage.cache_write.unwrap_or(0));
        self.read_tokens = self.read_tokens.saturating_add(read);
        self.write_tokens = self.write_tokens.saturating_add(written);
        self.hour_tokens = self.hour_tokens.saturating_add(usage.cache_write_1h.unwrap_or(0).into());
        self.prompt_tokens = self.prompt_tokens.max(usage.prompt);
        let prices = model.prices.as_ref();
        if read > 0 {
            let saved = prices.and_then(|prices| prices.saved_by_reads(usage.prompt, read));
            self.saved = sum(self.saved, saved);
        }
        if written > 0 {
            let surcharge = prices.and_then(|prices| prices.surcharge_of_writes(usage));
            self.surcharge = sum(self.surcharge, surcharge);
        }
    }

    /// Whether the gateway put breakpoints into a request.
    pub(crate) fn is_inserted(&self) -> bool {
        self.breakpoints == Breakpoints::Inserted
    }

    /// Whether breakpoints were put in or held back, or tokens were read or written.
    pub(crate) fn is_any(&self) -> bool {
        self.breakpoints != Breakpoints::None || self.read_tokens > 0 || self.write_tokens > 0
    }

    /// The use as clients see it, without a miss.
    pub(crate) fn to_use(&self) -> PromptCacheUse {
        PromptCacheUse {
            is_inserted: self.is_inserted(),
            read_tokens: self.read_tokens,
            write_tokens: self.write_tokens,
            saved: self.saved,
            surcharge: self.surcharge,
            is_held: self.breakpoints == Breakpoints::Held,
            miss: None,
        }
    }
}

fn sum(one: Option<Money>, other: Option<Money>) -> Option<Money> {
    Some(one? + other?)
}
