//! A provider's reports, reduced to one entry for each day and model.

use std::collections::BTreeMap;

use gw_wire::money::Money;

/// Tokens of a day, each kind for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BilledTokens {
    /// Tokens of prompts that no cache held.
    pub uncached: u64,
    /// Tokens that the provider's cache held.
    pub cached: u64,
    /// Tokens that were written to the cache for five minutes.
    pub write_5m: u64,
    /// Tokens that were written to the cache for an hour.
    pub write_1h: u64,
    /// Tokens of answers.
    pub completion: u64,
}

impl BilledTokens {
    /// The tokens of prompts.
    pub(crate) fn prompt(&self) -> u64 {
        self.uncached.saturating_add(self.cached).saturating_add(self.write_5m).saturating_add(self.write_1h)
    }

    /// All tokens.
    pub(crate) fn total(&self) -> u64 {
        self.prompt().saturating_add(self.completion)
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.uncached = self.uncached.saturating_add(more.uncached);
        self.cached = self.cached.saturating_add(more.cached);
        self.write_5m = self.write_5m.saturating_add(more.write_5m);
        self.write_1h = self.write_1h.saturating_add(more.write_1h);
        self.completion = self.completion.saturating_add(more.completion);
    }
}

/// The entries of a provider's reports for one day and one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BilledDay {
    /// The cost of tokens, of the usual tier where the report tells tiers apart.
    pub token_cost: Money,
    /// The cost of tokens of another service tier. None: the report's costs do not tell tiers apart.
    pub tier_cost: Option<Money>,
    /// The cost of tools that the provider ran, and of other things than tokens.
    pub tool_cost: Money,
    /// The names of these tools, as the report has them.
    pub tools: Vec<String>,
    /// Amounts in another currency than USD, as the report writes them.
    pub foreign: Vec<String>,
    /// Tokens of the usual tier. None: the reports have none.
    pub tokens: Option<BilledTokens>,
    /// Tokens of another tier.
    pub tier_tokens: BilledTokens,
    /// The names of these tiers.
    pub tiers: Vec<String>,
    /// Whether the report does not tell cached tokens from others, so that all tokens of prompts are in `uncached`.
    pub is_cache_unknown: bool,
    /// Requests, where the report counts them.
    pub requests: Option<u64>,
}

impl BilledDay {
    /// The whole cost in USD.
    pub(crate) fn cost(&self) -> Money {
        self.token_cost + self.tier_cost.unwrap_or_default() + self.tool_cost
    }

    /// The tokens of all tiers. None: the reports have none.
    pub(crate) fn all_tokens(&self) -> Option<BilledTokens> {
        let mut all = self.tokens.or((self.tier_tokens.total() > 0).then(BilledTokens::default))?;
        all.add(&self.tier_tokens);
        Some(all)
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.token_cost += more.token_cost;
        self.tool_cost += more.tool_cost;
        if let Some(cost) = more.tier_cost {
            *self.tier_cost.get_or_insert_default() += cost;
        }
        self.tools.extend(more.tools.iter().cloned());
        self.foreign.extend(more.foreign.iter().cloned());
        self.tiers.extend(more.tiers.iter().cloned());
        if let Some(tokens) = &more.tokens {
            self.tokens.get_or_insert_default().add(tokens);
        }
        self.tier_tokens.add(&more.tier_tokens);
        self.is_cache_unknown |= more.is_cache_unknown;
        if let Some(requests) = more.requests {
            let all = self.requests.get_or_insert_default();
            *all = all.saturating_add(requests);
        }
    }
}

/// All reports of a provider.
#[derive(Debug, Default)]
pub(crate) struct Bill {
    /// By day since 1970, and the provider's name of the model. None: the entry names no model.
    pub days: BTreeMap<(i64, Option<String>), BilledDay>,
}

impl Bill {
    /// The entry of a day and a model, which is made if it is missing.
    pub(crate) fn entry(&mut self, day: i64, model: Option<&str>) -> &mut BilledDay {
        self.days.entry((day, model.map(str::to_owned))).or_default()
    }
}
