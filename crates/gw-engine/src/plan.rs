//! Which upstreams may serve a request, in which order: resolution, permission, capability (steps 8 to 10), strategy.

pub(crate) mod affinity;
pub(crate) mod call_size;
pub(crate) mod candidate;
pub(crate) mod capability;
pub(crate) mod cost_estimate;
pub(crate) mod routing_state;
pub(crate) mod snapshot;
mod tenant_policy;
mod upgrade;

use std::sync::Arc;
use std::time::Instant;

use gw_routing::facts::{Facts, Prior, Warm};
use gw_routing::score::{Scored, order};
use gw_routing::strategy::Strategy;
use gw_wire::money::Money;
use gw_wire::request::{Fallback, Routing};
use gw_wire::usage::Usage;

use crate::auth::Caller;
use crate::catalog::query::shown;
use crate::catalog::{Model, not_found};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::metrics::Metrics;
use crate::plan::candidate::{Candidate, Plan};
use crate::plan::capability::capable;
use crate::plan::cost_estimate::likely_cost;
use crate::plan::snapshot::Snapshot;
use crate::plan::tenant_policy::permitted;
use crate::request::ValidatedRequest;

/// Who was left out, and how those that are left were ordered: for those who request why.
#[derive(Debug, Default)]
pub(crate) struct PlanTrace {
    /// Catalogue ids with the reason.
    pub(crate) excluded: Vec<(Arc<str>, String)>,
    /// In the order of the plan.
    pub(crate) scored: Vec<Scored>,
    /// What the scores were made of, by the index of a score.
    pub(crate) facts: Vec<Facts>,
}

/// Who asks for a plan, and of what.
#[derive(Clone, Copy)]
pub(crate) struct PlanRequest<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) metrics: &'a Metrics,
    pub(crate) caller: &'a Caller,
    pub(crate) request: &'a ValidatedRequest,
}

/// Resolves the requested model and its fallbacks into a plan.
///
/// # Errors
/// `model_not_found`, `model_not_allowed`, and what no model could do.
pub(crate) fn plan(planner: PlanRequest<'_>, mut trace: Option<&mut PlanTrace>) -> Result<Plan> {
    let PlanRequest { snapshot, caller, request, .. } = planner;
    let none = Routing::default();
    let routing = request.routing().unwrap_or(&none);
    let mut strategy = routing.strategy;
    let mut named = Vec::with_capacity(1 + routing.fallback.len());
    let requested = snapshot.catalog.resolve(request.model()).ok_or_else(|| not_found(request.model()))?;
    strategy = strategy.or(requested.strategy);
    named.push((request.model(), requested.models));
    for fallback in &routing.fallback {
        let resolved = snapshot.catalog.resolve(&fallback.model);
        named.push((&*fallback.model, resolved.ok_or_else(|| no_such_fallback(fallback))?.models));
    }
    let strategy = strategy.and_then(Strategy::named).unwrap_or(snapshot.routing.strategy);
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
    let is_feature_missing = candidates.is_empty();
    if routing.allow_upgrade
        && let Some((_, requested)) = named.first()
    {
        candidates.extend(upgrade::candidates(planner, requested, &candidates));
    }
    if candidates.is_empty() {
        return Err(refused.unwrap_or_else(|| not_found(request.model())));
    }
    let mut plan = Plan { candidates, strategy, conversation: None, is_feature_missing };
    if plan.candidates.len() > 1 || trace.is_some() {
        planner.sort(&mut plan, trace);
    }
    Ok(plan)
}

impl PlanRequest<'_> {
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
        capable(model, provider, self.request.wanted())?;
        permitted(provider, self.request)?;
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
    fn sort(&self, plan: &mut Plan, trace: Option<&mut PlanTrace>) {
        let now = clock::now();
        let state = &self.snapshot.state;
        plan.conversation = affinity::conversation(self.caller, self.request);
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
            upgrade: candidate.is_upgrade,
            cost: likely_cost(self.request, candidate).map(dollars),
            per_million: model.price_per_million(),
            quality: model.scores.overall,
            weight: model.weight,
            prior: Prior {
                ttft_ms: model.performance.latency_p50_ms,
                availability: model.performance.availability,
            },
            seen: model.measured.seen(now),
            standing: model.health.standing(&self.snapshot.routing.breaker, now),
            warm: warm.map(|tokens| Warm { saved_usd: saved(tokens), prompt_tokens: tokens }),
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
