//! The upstreams that may serve a call, in order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_providers::provider::Provider;
use gw_providers::settings::Timeouts;
use gw_routing::health::BreakerSettings;
use gw_routing::strategy::Strategy;
use gw_wire::failure::{Failure, FailureKind};

use crate::catalog::Model;
use crate::metrics::ModelMetrics;
use crate::plan::affinity::Conversation;

/// One upstream that may serve the call.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) model: Arc<Model>,
    pub(crate) provider: Arc<Provider>,
    pub(crate) metrics: Arc<ModelMetrics>,
    /// 0 = named by the requested name, k = by the k-th fallback.
    pub(crate) group: u32,
    /// Not the model that the client asked for first.
    pub(crate) is_fallback: bool,
    /// Not named by the client at all.
    pub(crate) is_upgrade: bool,
}

impl Candidate {
    /// Its clocks: the model's over the provider's.
    pub(crate) fn clocks(&self) -> Timeouts {
        self.model.timeouts.over(self.provider.timeouts())
    }

    /// It answered well, after this long.
    pub(crate) fn served(&self, breaker: &BreakerSettings, after: Duration, now: Instant) {
        self.model.measured.served(after, now);
        self.model.health.succeeded(breaker, now);
    }

    /// It failed by its own fault.
    pub(crate) fn broke(&self, breaker: &BreakerSettings, now: Instant) {
        self.model.measured.failed(now);
        if self.model.health.failed(breaker, now) {
            let id = &self.model.id;
            tracing::warn!(model = %id, "a model fails again and again: its circuit is open, others are asked first");
            self.metrics.opened();
        }
    }
}

/// The candidates in order; never empty.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) strategy: Strategy,
    /// The conversation that the request goes on with, where several candidates could.
    pub(crate) conversation: Option<Conversation>,
    /// The requested models lack a feature that the request needs.
    pub(crate) is_feature_missing: bool,
}

impl Plan {
    /// The whole time of the candidate that may take longest.
    pub(crate) fn longest_total(&self) -> Duration {
        self.candidates.iter().map(|candidate| candidate.clocks().total).max().unwrap_or_default()
    }

    /// Whether no candidate that the client has named stands behind this place.
    pub(crate) fn is_last_named(&self, index: usize) -> bool {
        !self.candidates.iter().skip(index + 1).any(|candidate| !candidate.is_upgrade)
    }

    /// Leaves out what the client has not named; false when there is nothing of it, or nothing else.
    pub(crate) fn without_upgrades(&mut self) -> bool {
        let named = self.candidates.iter().filter(|candidate| !candidate.is_upgrade).count();
        let changes = named > 0 && named < self.candidates.len();
        if changes {
            self.candidates.retain(|candidate| !candidate.is_upgrade);
        }
        changes
    }

    /// Why a model served that the client had not named.
    pub(crate) fn upgraded(&self, candidate: &Candidate, failures: &[Failure]) -> Option<&'static str> {
        let too_long = || failures.iter().any(|failure| failure.kind == FailureKind::ContextLength);
        candidate.is_upgrade.then(|| match () {
            () if self.is_feature_missing => "upgraded_for_feature",
            () if too_long() => "upgraded_for_context_length",
            () => "upgraded_for_availability",
        })
    }
}
