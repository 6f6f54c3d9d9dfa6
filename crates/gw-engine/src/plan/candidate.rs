//! The upstreams that may serve a call, and their order.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_providers::adapter::Target;
use gw_providers::model_rules::ModelRules;
use gw_providers::provider::Provider;
use gw_providers::settings::{BreakpointTtl, PromptCacheMode, PromptCacheSettings, Timeouts};
use gw_routing::health::BreakerSettings;
use gw_routing::score::Tier;
use gw_routing::strategy::Strategy;
use gw_wire::dialects::ClientDialect;
use gw_wire::failure::{Failure, FailureKind};

use crate::catalog::Model;
use crate::metrics::ModelMetrics;
use crate::plan::affinity::Conversation;
use crate::rules::ServingTarget;

/// A model at a provider that may serve the call.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) model: Arc<Model>,
    pub(crate) provider: Arc<Provider>,
    pub(crate) metrics: Arc<ModelMetrics>,
    /// 0 for the requested name, k for the k-th fallback.
    pub(crate) group: u32,
    /// The requested name does not stand for this model.
    pub(crate) is_fallback: bool,
    /// The client did not name this model; the request permits an upgrade.
    pub(crate) is_upgrade: bool,
    /// Breakpoints of prompt caches: the setting of the alias that was named, else the model's, else the provider's.
    pub(crate) prompt_cache: Option<PromptCacheSettings>,
}

impl Candidate {
    /// The candidate with the breakpoints of prompt caches that an alias sets, if it sets some.
    pub(crate) fn with(self, of_alias: Option<&PromptCacheSettings>) -> Self {
        Self { prompt_cache: of_alias.copied().or(self.prompt_cache), ..self }
    }

    /// The candidate as its adapter needs it. A fallback is clamped to its model's limits, because the client did not
    /// choose that model.
    pub(crate) fn target(&self) -> Target<'_> {
        let model = &self.model;
        Target {
            upstream_model: &model.upstream_model,
            id: &model.id,
            most_tokens: None,
            clamp_max_tokens: self.is_fallback.then_some(model.max_output_tokens).flatten(),
            max_output_tokens: model.max_output_tokens,
            context_length: model.context_length,
            rules: self.rules(),
            issuer: Some(self.provider.issuer()),
            breakpoints: None,
        }
    }

    /// The target as rules see it.
    pub(crate) fn serving(&self) -> ServingTarget<'_> {
        ServingTarget { model: &self.model.id, provider: &self.model.provider }
    }

    /// The rules of the model. The catalogue looked them up, unless it did not know the provider.
    fn rules(&self) -> ModelRules {
        let Model { rules, upstream_model, id, .. } = &*self.model;
        rules.unwrap_or_else(|| ModelRules::of(self.provider.api().rules, upstream_model, id))
    }

    /// Whether requests of this dialect are sent as the client wrote them.
    pub(crate) fn speaks(&self, dialect: ClientDialect) -> bool {
        self.provider.adapter().speaks(dialect, &self.target())
    }

    /// Whether the gateway may ask the provider to keep a prompt for an hour.
    pub(crate) fn may_ask_for_an_hour(&self) -> bool {
        let asks = |settings: &PromptCacheSettings| {
            settings.mode == PromptCacheMode::Auto && settings.ttl == BreakpointTtl::Hour
        };
        self.prompt_cache.as_ref().is_some_and(asks)
    }

    /// The timeouts: the model's own, else the provider's.
    pub(crate) fn clocks(&self) -> Timeouts {
        self.model.timeouts.over(self.provider.timeouts())
    }

    /// Notes a good answer and the time that it took.
    pub(crate) fn note_success(&self, breaker: &BreakerSettings, after: Duration, now: Instant) {
        self.model.measured.record_success(after, now);
        self.model.health.record_success(breaker, now);
    }

    /// Notes a failure that is the upstream's own fault.
    pub(crate) fn note_failure(&self, breaker: &BreakerSettings, now: Instant) {
        self.model.measured.record_failure(now);
        if self.model.health.record_failure(breaker, now) {
            let id = &self.model.id;
            tracing::warn!(model = %id, "a model fails again and again: its circuit is open, others are asked first");
            self.metrics.opened();
        }
    }
}

/// The candidates in order. There is at least one.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) strategy: Strategy,
    /// The conversation of the request, if several candidates could continue it.
    pub(crate) conversation: Option<Conversation>,
    /// No requested model has a feature that the request needs.
    pub(crate) is_feature_missing: bool,
    /// How the plan was made, if there was a choice.
    pub(crate) choice: Option<Box<Choice>>,
}

/// The reasons for a plan, for the request log: the tier of each candidate, and the models that cannot serve the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// The tiers of the candidates as they were ordered. Empty: there was one candidate.
    pub(crate) order: Vec<(Arc<str>, Tier)>,
    /// Catalogue ids with the reason for their exclusion.
    pub(crate) excluded: Vec<(Arc<str>, Cow<'static, str>)>,
}

impl Plan {
    /// The longest total timeout of all candidates.
    pub(crate) fn longest_total(&self) -> Duration {
        self.candidates.iter().map(|candidate| candidate.clocks().total).max().unwrap_or_default()
    }

    /// Whether no candidate after this one was named by the client.
    pub(crate) fn is_last_named(&self, index: usize) -> bool {
        !self.candidates.iter().skip(index + 1).any(|candidate| !candidate.is_upgrade)
    }

    /// Removes the upgrades. False if there are none, or if nothing would be left.
    pub(crate) fn without_upgrades(&mut self) -> bool {
        let named = self.candidates.iter().filter(|candidate| !candidate.is_upgrade).count();
        let changes = named > 0 && named < self.candidates.len();
        if changes {
            self.candidates.retain(|candidate| !candidate.is_upgrade);
        }
        changes
    }

    /// The warning for an answer of a model that the client did not name.
    pub(crate) fn upgrade_warning(
        &self,
        candidate: &Candidate,
        failures: &[Failure],
    ) -> Option<&'static str> {
        let too_long = || failures.iter().any(|failure| failure.kind == FailureKind::ContextLength);
        candidate.is_upgrade.then(|| match () {
            () if self.is_feature_missing => "upgraded_for_feature",
            () if too_long() => "upgraded_for_context_length",
            () => "upgraded_for_availability",
        })
    }
}
