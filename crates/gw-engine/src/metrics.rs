//! The engine's metrics: attempts, tokens, cost. A call looks up its model's handles once.

mod attributed;
mod exact_cost;
mod gen_ai;
mod prompt_caches;
mod registration;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gw_providers::provider::Provider;
use gw_wire::attribution::Attribution;
use gw_wire::money::Money;
use gw_wire::prompt_cache::PromptCacheUse;
use gw_wire::trace_context::TraceId;
use gw_wire::usage::Usage;
use parking_lot::RwLock;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use self::attributed::AttributedCost;
use self::exact_cost::{CostUsd, ExactCost};
use self::gen_ai::{GenAiMetrics, MeasuredModel, ModelHandles};
use self::prompt_caches::PromptCacheMetrics;
use crate::catalog::Model;
use crate::names_map::NamesMap;
use crate::occurrences::{Occurrence, Occurrences};
use crate::semantic_names;

pub use self::registration::{registered, registered_seconds};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    provider: String,
    model: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    provider: String,
    model: String,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    provider: String,
    model: String,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    operation: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SessionLimitLabels {
    limit: &'static str,
    action: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BilledLabels {
    usage: &'static str,
    priced: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ComponentLabels {
    component: &'static str,
}

/// Operations that are counted.
const OPERATIONS: usize = 5;

type Cost = Counter<CostUsd, ExactCost>;

/// All of the engine's metrics.
#[derive(Debug)]
pub struct Metrics {
    attempts: Family<AttemptLabels, Counter>,
    tokens: Family<TokenLabels, Counter>,
    cost: Family<ModelLabels, Cost>,
    prompt_caches: PromptCacheMetrics,
    price_unknown: Family<ModelLabels, Counter>,
    unpriced_requests: Family<ModelLabels, Counter>,
    first_token: Family<ModelLabels, Histogram, fn() -> Histogram>,
    outcomes: Family<OutcomeLabels, Counter>,
    /// The handles of successful calls, by operation.
    ok: [OnceLock<(&'static str, Counter)>; OPERATIONS],
    breaker_opened: Family<ModelLabels, Counter>,
    session_limits: Family<SessionLimitLabels, Counter>,
    fallbacks: Family<ModelLabels, Counter>,
    billed: Family<BilledLabels, Counter>,
    /// The handles of `billed`: reported or estimated usage, with or without a price.
    billed_handles: [[OnceLock<Counter>; 2]; 2],
    /// The overhead before the first upstream call, and after the last one.
    overhead: [Histogram; 2],
    attributed: AttributedCost,
    /// Events that operators may want to be told of.
    pub(crate) occurrences: Occurrences,
    gen_ai: GenAiMetrics,
    models: RwLock<NamesMap<Arc<str>, Arc<ModelMetrics>>>,
}

/// The end of a request, as the metrics see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestEnd {
    /// The operation's name in the ledger.
    pub(crate) operation: &'static str,
    /// An error code; None = the request was answered.
    pub(crate) error: Option<&'static str>,
    /// From the acceptance of the request.
    pub(crate) duration: Duration,
    /// From the acceptance of the request to the first content of its stream.
    pub(crate) first_token: Option<Duration>,
    /// The tokens of its answer.
    pub(crate) tokens: u64,
    /// The trace, if it is recorded.
    pub(crate) trace: Option<TraceId>,
}

/// The handles of one model.
#[derive(Debug)]
pub(crate) struct ModelMetrics {
    provider: String,
    model: String,
    /// The provider's name in the semantic conventions.
    semantic_provider: String,
    gen_ai: ModelHandles,
    ok: Counter,
    prompt: Counter,
    completion: Counter,
    cost: Cost,
    first_token: Histogram,
    opened: Counter,
}

fn first_token_buckets() -> Histogram {
    Histogram::new([0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0])
}

/// Registers the histograms of the overhead.
fn overhead(registry: &mut Registry) -> [Histogram; 2] {
    let buckets: fn() -> Histogram = || {
        Histogram::new([0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0])
    };
    let family: Family<ComponentLabels, Histogram, fn() -> Histogram> = Family::new_with_constructor(buckets);
    registry.register_with_unit(
        "gateway_overhead",
        "Time of the gateway itself before the first upstream call of a request, and after the last one",
        Unit::Seconds,
        family.clone(),
    );
    let of = |component| family.get_or_create(&ComponentLabels { component }).clone();
    [of("before_upstream"), of("after_upstream")]
}

impl Metrics {
    /// Registers everything under the `gateway_` prefix.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        Self {
            overhead: overhead(registry),
            attributed: AttributedCost::new(registry),
            occurrences: Occurrences::default(),
            gen_ai: GenAiMetrics::new(registry),
            fallbacks: registered(registry, "gateway_fallbacks", "Requests that a fallback model answered"),
            billed: registered(
                registry,
                "gateway_billed_attempts",
                "Attempts that a provider bills, by the origin of their usage and by whether their model has a price",
            ),
            attempts: registered(
                registry,
                "gateway_upstream_attempts",
                "Upstream calls by provider, model and outcome",
            ),
            tokens: registered(registry, "gateway_tokens", "Tokens by provider, model and kind"),
            cost: registered(
                registry,
                "gateway_cost_usd",
                "Cost in USD of all upstream calls that a provider bills. Of a cost with an unknown part it has the known part",
            ),
            prompt_caches: PromptCacheMetrics::new(registry),
            price_unknown: registered(
                registry,
                "gateway_price_unknown",
                "Served calls of models without a price",
            ),
            unpriced_requests: registered(
                registry,
                "gateway_unpriced_requests",
                "Requests whose cost is not known, by the first model without a needed price",
            ),
            first_token: registered_seconds(
                registry,
                "gateway_first_token",
                "From the request's acceptance to the first content of a stream",
                Family::new_with_constructor(first_token_buckets as fn() -> Histogram),
            ),
            breaker_opened: registered(
                registry,
                "gateway_breaker_opened",
                "How often a model's circuit was opened",
            ),
            session_limits: registered(
                registry,
                "gateway_session_limits",
                "Requests beyond a limit of their session, by limit and action",
            ),
            outcomes: registered(registry, "gateway_calls", "Generation calls by operation and outcome"),
            ok: std::array::from_fn(|_| OnceLock::new()),
            billed_handles: Default::default(),
            models: RwLock::default(),
        }
    }

    /// The handles of a model. The first call creates them.
    pub(crate) fn model(&self, provider: &Provider, id: &Arc<str>) -> Arc<ModelMetrics> {
        if let Some(known) = self.models.read().get(id) {
            return Arc::clone(known);
        }
        let labels = ModelLabels { provider: provider.name().to_string(), model: id.to_string() };
        let tokens = |kind| {
            let labels = TokenLabels { provider: labels.provider.clone(), model: labels.model.clone(), kind };
            self.tokens.get_or_create(&labels).clone()
        };
        let made = Arc::new(ModelMetrics {
            ok: self.attempts.get_or_create(&attempt_labels(&labels.provider, &labels.model, "ok")).clone(),
            prompt: tokens("prompt"),
            completion: tokens("completion"),
            cost: self.cost.get_or_create(&labels).clone(),
            first_token: self.first_token.get_or_create(&labels).clone(),
            opened: self.breaker_opened.get_or_create(&labels).clone(),
            semantic_provider: semantic_names::provider(provider.api(), provider.name()).to_owned(),
            gen_ai: ModelHandles::default(),
            provider: labels.provider,
            model: labels.model,
        });
        Arc::clone(self.models.write().entry(Arc::clone(id)).or_insert(made))
    }

    /// Counts an attempt that did not serve its request.
    pub(crate) fn failed(&self, model: &ModelMetrics, status: &'static str) {
        self.attempts.get_or_create(&attempt_labels(&model.provider, &model.model, status)).inc();
    }

    /// Counts a successful attempt.
    pub(crate) fn served(&self, model: &ModelMetrics, usage: &Usage, cost: (Money, bool)) {
        model.ok.inc();
        self.used(model, usage, cost);
    }

    /// Counts tokens and cost: the known part, as in the reports, and whether it is the whole cost.
    pub(crate) fn used(&self, model: &ModelMetrics, usage: &Usage, (cost, is_priced): (Money, bool)) {
        model.prompt.inc_by(usage.prompt);
        model.completion.inc_by(usage.completion);
        let billed = BilledLabels {
            usage: if usage.estimated { "estimated" } else { "reported" },
            priced: if is_priced { "yes" } else { "no" },
        };
        let [reported, estimated] = &self.billed_handles;
        let [unpriced, priced] = if usage.estimated { estimated } else { reported };
        let handle = if is_priced { priced } else { unpriced };
        handle.get_or_init(|| self.billed.get_or_create(&billed).clone()).inc();
        if cost != Money::ZERO {
            model.cost.inc_by(CostUsd(cost));
        }
        if !is_priced {
            let labels = ModelLabels { provider: model.provider.clone(), model: model.model.clone() };
            self.price_unknown.get_or_create(&labels).inc();
        }
    }

    /// Counts the use of a provider's prompt cache by one request.
    pub(crate) fn prompt_cache(&self, provider: &str, model: &str, used: &PromptCacheUse) {
        self.prompt_caches.count(provider, model, used);
    }

    /// Counts a request whose cost is not known, because a price of this model is unknown.
    pub(crate) fn unpriced_request(&self, model: &Model) {
        let labels = ModelLabels { provider: model.provider.to_string(), model: model.id.to_string() };
        self.unpriced_requests.get_or_create(&labels).inc();
        self.occurrences.tell(|| Occurrence::Unpriced(Arc::clone(&model.id)));
    }

    /// Measures an attempt that has ended.
    pub(crate) fn attempt_ended(
        &self,
        model: &ModelMetrics,
        operation: &'static str,
        usage: &Usage,
        duration: Duration,
        ending: (Option<&'static str>, Option<TraceId>),
    ) {
        self.gen_ai.attempt(operation, model.measured(), usage, duration, ending);
    }

    /// Measures a request that is settled. Its model is None if it has none that the catalogue knows.
    pub(crate) fn request_ended(&self, model: Option<&Arc<str>>, end: &RequestEnd) {
        let Some(model) = model.and_then(|id| self.models.read().get(id).cloned()) else { return };
        self.gen_ai.request(
            end.operation,
            model.measured(),
            end.duration,
            (end.first_token, end.tokens),
            (end.error, end.trace),
        );
    }

    /// Counts the cost of a request for whom it is and what it belongs to.
    pub(crate) fn attributed(&self, attribution: &Attribution, cost: Money) {
        if cost != Money::ZERO {
            self.attributed.add(attribution, cost);
        }
    }

    /// Counts a request that a fallback model answered.
    pub(crate) fn fell_back(&self, model: &ModelMetrics) {
        let labels = ModelLabels { provider: model.provider.clone(), model: model.model.clone() };
        self.fallbacks.get_or_create(&labels).inc();
    }

    /// Measures the time that the gateway itself took before and after the upstream calls of a request.
    pub(crate) fn overhead(&self, before: Duration, after: Duration) {
        for (histogram, time) in self.overhead.iter().zip([before, after]) {
            histogram.observe(time.as_secs_f64());
        }
    }

    /// Counts a request beyond a limit of its session.
    pub(crate) fn session_limit(&self, limit: &'static str, action: &'static str) {
        self.session_limits.get_or_create(&SessionLimitLabels { limit, action }).inc();
    }

    /// Measures the time to the first content of a stream: since the request was accepted, and since its attempt began.
    pub(crate) fn first_token(
        &self,
        model: &ModelMetrics,
        operation: &'static str,
        millis: u64,
        of_attempt: Duration,
    ) {
        model.first_token.observe(Duration::from_millis(millis).as_secs_f64());
        self.gen_ai.first_chunk(operation, model.measured(), of_attempt);
    }

    /// Counts a call that ended.
    pub(crate) fn outcome(&self, operation: &'static str, code: &'static str) {
        let find = || self.outcomes.get_or_create(&OutcomeLabels { operation, code }).clone();
        let mut kept =
            self.ok.iter().filter(|_| code == "ok").map(|place| place.get_or_init(|| (operation, find())));
        match kept.find(|(known, _)| *known == operation) {
            Some((_, counter)) => counter.inc(),
            None => find().inc(),
        };
    }
}

impl ModelMetrics {
    /// Counts an opened circuit.
    pub(crate) fn opened(&self) {
        self.opened.inc();
    }

    fn measured(&self) -> MeasuredModel<'_> {
        MeasuredModel { provider: &self.semantic_provider, model: &self.model, handles: &self.gen_ai }
    }
}

fn attempt_labels(provider: &str, model: &str, status: &'static str) -> AttemptLabels {
    AttemptLabels { provider: provider.to_owned(), model: model.to_owned(), status }
}
