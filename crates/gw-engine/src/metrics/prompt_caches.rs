//! The metrics of providers' prompt caches: the tokens that they read and wrote, and what that saved and cost.

use gw_wire::money::Money;
use gw_wire::prompt_cache::PromptCacheUse;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::exact_cost::CostUsd;
use super::registration::registered;
use super::{Cost, ModelLabels, TokenLabels};

/// The counters by provider and model.
#[derive(Debug)]
pub(super) struct PromptCacheMetrics {
    tokens: Family<TokenLabels, Counter>,
    saved: Family<ModelLabels, Cost>,
    surcharge: Family<ModelLabels, Cost>,
    lost: Family<ModelLabels, Cost>,
}

impl PromptCacheMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            tokens: registered(
                registry,
                "gateway_prompt_cache_tokens",
                "Tokens that prompt caches of providers read and wrote, and those that a session did not find any more, by kind",
            ),
            saved: registered(
                registry,
                "gateway_prompt_cache_saved_usd",
                "USD that reads of prompt caches saved, as far as prices are known",
            ),
            surcharge: registered(
                registry,
                "gateway_prompt_cache_surcharge_usd",
                "USD that writes of prompt caches cost above the price of plain input, as far as prices are known",
            ),
            lost: registered(
                registry,
                "gateway_prompt_cache_lost_usd",
                "USD that prompts cost because a session did not find them in the prompt cache any more, as far as prices are known",
            ),
        }
    }

    /// Counts the use of one request.
    pub(super) fn count(&self, provider: &str, model: &str, used: &PromptCacheUse) {
        let lost_tokens = used.miss.map_or(0, |miss| miss.lost_tokens);
        for (kind, tokens) in
            [("read", used.read_tokens), ("write", used.write_tokens), ("lost", lost_tokens)]
        {
            if tokens > 0 {
                let labels = TokenLabels { provider: provider.to_owned(), model: model.to_owned(), kind };
                self.tokens.get_or_create(&labels).inc_by(tokens);
            }
        }
        let lost = used.miss.and_then(|miss| miss.lost);
        for (family, amount) in
            [(&self.saved, used.saved), (&self.surcharge, used.surcharge), (&self.lost, lost)]
        {
            if let Some(amount) = amount.filter(|amount| *amount > Money::ZERO) {
                let labels = ModelLabels { provider: provider.to_owned(), model: model.to_owned() };
                family.get_or_create(&labels).inc_by(CostUsd(amount));
            }
        }
    }
}
