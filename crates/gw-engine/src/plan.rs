//! Which upstreams may serve a request, in which order: resolution, permission, capability (steps 8 to 10), strategy.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_providers::provider::Provider;
use gw_providers::settings::Timeouts;
use gw_routing::facts::{Facts, Prior, PromptCache};
use gw_routing::health::BreakerSettings;
use gw_routing::score::{Scored, order};
use gw_routing::strategy::Strategy;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::money::Money;
use gw_wire::request::{Fallback, RequestLimits, Routing};
use gw_wire::usage::Usage;

use crate::affinity::{self, Conversation};
use crate::ask::Ask;
use crate::auth::Caller;
use crate::capability::capable;
use crate::catalog::query::shown;
use crate::catalog::{Catalog, Model, not_found};
use crate::error::{Error, Kind, Result};
use crate::metrics::{Metrics, ModelMetrics};
use crate::settings::RoutingSettings;
use crate::steering::Steering;
use crate::tenant_policy::permitted;
use crate::upgrade;
use crate::worst::likely_cost;

/// Everything a call needs to know of the configuration: taken once at its start, held to its end.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) catalog: Catalog,
    pub(crate) providers: HashMap<Arc<str>, Arc<Provider>>,
    pub(crate) routing: RoutingSettings,
    pub(crate) request_limits: RequestLimits,
    /// What calls tell each other about routes; outlives the configuration.
    pub(crate) state: Arc<Steering>,
}

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
        self.model.measured.record_success(after, now);
        self.model.health.record_success(breaker, now);
    }

    /// It failed by its own fault.
    pub(crate) fn broke(&self, breaker: &BreakerSettings, now: Instant) {
        self.model.measured.record_failure(now);
        if self.model.health.record_failure(breaker, now) {
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
    lacking: bool,
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
            () if self.lacking => "upgraded_for_feature",
            () if too_long() => "upgraded_for_context_length",
            () => "upgraded_for_availability",
        })
    }
}

/// Who was left out, and how those that are left were ordered: for those who ask why.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// Catalogue ids with the reason.
    pub(crate) excluded: Vec<(Arc<str>, String)>,
    /// In the order of the plan.
    pub(crate) scored: Vec<Scored>,
    /// What the scores were made of, by the index of a score.
    pub(crate) facts: Vec<Facts>,
}

/// Who asks for a plan, and of what.
#[derive(Clone, Copy)]
pub(crate) struct Planner<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) metrics: &'a Metrics,
    pub(crate) caller: &'a Caller,
    pub(crate) ask: &'a Ask,
}

/// Resolves the requested model and its fallbacks into a plan.
///
/// # Errors
/// `model_not_found`, `model_not_allowed`, and what no model could do.
pub(crate) fn plan(planner: Planner<'_>, mut trace: Option<&mut Trace>) -> Result<Plan> {
    let Planner { snapshot, caller, ask, .. } = planner;
    let none = Routing::default();
    let routing = ask.routing().unwrap_or(&none);
    let mut strategy = routing.strategy;
    let mut named = Vec::with_capacity(1 + routing.fallback.len());
    let requested = snapshot.catalog.resolve(ask.model()).ok_or_else(|| not_found(ask.model()))?;
    strategy = strategy.or(requested.strategy.and_then(Strategy::named));
    named.push((ask.model(), requested.models));
    for fallback in &routing.fallback {
        let resolved = snapshot.catalog.resolve(&fallback.model);
        named.push((&*fallback.model, resolved.ok_or_else(|| no_such_fallback(fallback))?.models));
    }
    let strategy = strategy.unwrap_or(snapshot.routing.strategy);
    let mut candidates: Vec<Candidate> = Vec::with_capacity(named.len());
    let mut refused = None;
    for (group, (name, models)) in (0..).zip(&named) {
        if !models.iter().any(|model| caller.may_use(model)) {
            return Err(not_allowed(name));
        }
        for model in *models {
            match planner.consider(model, group, &candidates) {
                Ok(candidate) => candidates.extend(candidate),
                Err(error) => {
                    if let Some(trace) = trace.as_deref_mut() {
                        trace.excluded.push((Arc::clone(&model.id), error.message.to_string()));
                    }
                    // A model out of reach is no reason to give: the client would learn of it.
                    if caller.may_use(model) {
                        refused.get_or_insert(error);
                    }
                }
            }
        }
    }
    let lacking = candidates.is_empty();
    if routing.allow_upgrade
        && let Some((_, requested)) = named.first()
    {
        candidates.extend(upgrade::candidates(planner, requested, &candidates));
    }
    if candidates.is_empty() {
        return Err(refused.unwrap_or_else(|| not_found(ask.model())));
    }
    let mut plan = Plan { candidates, strategy, conversation: None, lacking };
    if plan.candidates.len() > 1 || trace.is_some() {
        planner.sort(&mut plan, trace);
    }
    Ok(plan)
}

impl Planner<'_> {
    /// The model as a candidate; None when it is one already.
    fn consider(&self, model: &Arc<Model>, group: u32, known: &[Candidate]) -> Result<Option<Candidate>> {
        if known.iter().any(|known| known.model.id == model.id) {
            return Ok(None);
        }
        if !self.caller.may_use(model) {
            return Err(not_allowed(&model.id));
        }
        self.candidate(model, group).map(Some)
    }

    /// # Errors
    /// What the model cannot do.
    pub(crate) fn candidate(&self, model: &Arc<Model>, group: u32) -> Result<Candidate> {
        let provider = self.snapshot.providers.get(&model.provider);
        let provider = provider.ok_or_else(|| not_found(&model.id))?;
        capable(model, provider, self.ask.wanted())?;
        permitted(provider, self.ask)?;
        Ok(Candidate {
            model: Arc::clone(model),
            provider: Arc::clone(provider),
            metrics: self.metrics.model(&model.provider, &model.id),
            group,
            is_fallback: group > 0,
            is_upgrade: false,
        })
    }

    /// Puts the candidates in the strategy's order.
    fn sort(&self, plan: &mut Plan, trace: Option<&mut Trace>) {
        let now = Instant::now();
        let state = &self.snapshot.state;
        plan.conversation = affinity::conversation(self.caller, self.ask);
        let goes_on = plan.conversation.filter(|conversation| conversation.goes_on);
        let holder = goes_on.and_then(|conversation| state.affinity.holder(conversation.id, now));
        let facts: Vec<Facts> = plan
            .candidates
            .iter()
            .map(|candidate| {
                let holder = holder.as_ref().filter(|(id, _)| *id == candidate.model.id);
                self.facts(candidate, holder.map(|(_, tokens)| *tokens), now)
            })
            .collect();
        // Whoever only asks why does not take a turn.
        let turn = if trace.is_some() { state.turn() } else { state.next_turn() };
        let scored = order(plan.strategy, &self.snapshot.routing.weights, &facts, turn);
        let sorted = scored.iter().filter_map(|scored| plan.candidates.get(scored.index).cloned());
        plan.candidates = sorted.collect();
        if let Some(trace) = trace {
            trace.scored = scored;
            trace.facts = facts;
        }
    }

    fn facts(&self, candidate: &Candidate, warm: Option<u64>, now: Instant) -> Facts {
        let model = &candidate.model;
        let dollars = |money: Money| money.approx_usd();
        let saved = |tokens: u64| {
            let cold = Usage { prompt: tokens, ..Usage::default() };
            let read = Usage { cached: Some(tokens), ..cold };
            let (cold, read) = (model.cost(&cold).map(dollars), model.cost(&read).map(dollars));
            cold.zip(read).map_or(0.0, |(cold, read)| (cold - read).max(0.0))
        };
        Facts {
            group: candidate.group,
            is_upgrade: candidate.is_upgrade,
            cost_usd: likely_cost(self.ask, candidate).map(dollars),
            usd_per_million: model.price_per_million(),
            quality: model.scores.overall,
            weight: model.weight,
            prior: Prior {
                ttft_ms: model.performance.latency_p50_ms,
                availability: model.performance.availability,
            },
            averages: model.measured.averages(now),
            status: model.health.status(&self.snapshot.routing.breaker, now),
            prompt_cache: warm.map(|tokens| PromptCache { saved_usd: saved(tokens), prompt_tokens: tokens }),
        }
    }
}

fn no_such_fallback(fallback: &Fallback) -> Error {
    let Fallback { model, member, index } = fallback;
    let message = format!(
        "The fallback '{}' ('{member}[{index}]') does not exist or you do not have access to it. GET /v1/models lists the \
         models that you can use.",
        shown(model)
    );
    Error::new(Kind::ModelNotFound, message)
}

fn not_allowed(name: &str) -> Error {
    let shown: String = name.chars().take(200).collect();
    Error::new(Kind::ModelNotAllowed, format!("This API key may not use the model '{shown}'."))
}
