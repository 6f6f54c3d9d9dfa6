//! Plans a request: resolves its model names, checks permission and capability, and orders the candidates by the
//! strategy.

pub(crate) mod affinity;
pub(crate) mod alias_plan;
pub(crate) mod call_size;
pub(crate) mod candidate;
pub(crate) mod capability;
mod conditions;
pub(crate) mod cost_estimate;
pub(crate) mod hedge_pair;
pub(crate) mod room;
pub(crate) mod routing_state;
pub(crate) mod snapshot;
pub(crate) mod taper;
pub(crate) mod tenant_policy;
pub(crate) mod threads;
mod upgrade;
pub(crate) mod usual_model;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use gw_providers::presets;
use gw_providers::settings::PromptCacheSettings;
use gw_routing::facts::{Facts, Prior, PromptCache};
use gw_routing::score::{Scored, order};
use gw_routing::strategy::Strategy;
use gw_wire::attribution::Attribution;
use gw_wire::money::Money;
use gw_wire::request::{Fallback, Routing};
use gw_wire::usage::Usage;
use http::{HeaderName, HeaderValue};
use smallvec::{SmallVec, smallvec};

use crate::auth::Caller;
use crate::catalog::query::shown;
use crate::catalog::{Model, not_found};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::metrics::Metrics;
use crate::plan::candidate::{Candidate, Choice, Plan};
use crate::plan::capability::{capable, keep_preferred, lacks_feature, own_tools_fit, speaks_as_needed};
use crate::plan::cost_estimate::likely_cost;
use crate::plan::snapshot::Snapshot;
use crate::plan::tenant_policy::permitted;
use crate::request::ValidatedRequest;
use crate::request::context::RequestContext;

/// The scores of the candidates, for an explanation of the plan.
#[derive(Debug, Default)]
pub(crate) struct PlanTrace {
    /// The scores in the order of the plan.
    pub(crate) scored: Vec<Scored>,
    /// The facts behind the scores, by the index of a score.
    pub(crate) facts: Vec<Facts>,
}

/// A request that needs a plan, and its caller.
#[derive(Clone, Copy)]
pub(crate) struct PlanRequest<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) metrics: &'a Metrics,
    pub(crate) caller: &'a Caller,
    pub(crate) request: &'a ValidatedRequest,
    /// The headers that conditions of targets read.
    pub(crate) headers: &'a [(HeaderName, HeaderValue)],
    /// The tags that conditions of targets read.
    pub(crate) attribution: Option<&'a Attribution>,
    /// The preset that the request names.
    pub(crate) preset: Option<&'a str>,
}

/// Resolves the requested model and its fallbacks into a plan.
///
/// # Errors
/// `model_not_found`, `model_not_allowed`, or the capability that no model has.
pub(crate) fn plan(planner: PlanRequest<'_>, trace: Option<&mut PlanTrace>) -> Result<Plan> {
    let PlanRequest { snapshot, caller, request, .. } = planner;
    let none = Routing::default();
    let routing = request.routing().unwrap_or(&none);
    let mut strategy = routing.strategy;
    let mut named = NamedGroups::new();
    let unknown = || unknown_model(snapshot, caller, request.model());
    let requested = snapshot.catalog.resolve(request.model()).ok_or_else(unknown)?;
    strategy = strategy.or(requested.strategy.and_then(Strategy::named));
    named.extend(planner.groups(request.model(), requested.models)?);
    for fallback in &routing.fallback {
        let resolved = snapshot.catalog.resolve(&fallback.model);
        let models = resolved.ok_or_else(|| no_such_fallback(fallback))?.models;
        // A fallback whose conditions do not hold is none.
        named.extend(planner.groups(&fallback.model, models).unwrap_or_default());
    }
    let strategy = strategy.unwrap_or(snapshot.routing.strategy);
    let mut candidates: Vec<Candidate> = Vec::with_capacity(named.len());
    let (mut refused, mut excluded) = (None, Vec::new());
    let mut lacks_features = false;
    for (group, (name, models)) in (0..).zip(&named) {
        let prompt_cache = planner.prompt_cache_of(name);
        if !models.iter().any(|model| caller.may_use(model)) {
            return Err(not_allowed(name));
        }
        // The only model of a group has passed this check.
        let may_use = |model: &Model| models.len() == 1 || caller.may_use(model);
        for model in models.iter() {
            match planner.consider(model, group, &candidates, may_use) {
                Ok(candidate) => candidates.extend(candidate.map(|candidate| candidate.with(prompt_cache))),
                Err(error) => {
                    // A fallback may name a model again.
                    if !excluded.iter().any(|(id, _)| *id == model.id) {
                        excluded.push((Arc::clone(&model.id), error.message.clone()));
                    }
                    // The reason of a model that the key may not use would tell the client that the model exists.
                    if may_use(model) {
                        lacks_features |= lacks_feature(model, request.wanted());
                        refused.get_or_insert(error);
                    }
                }
            }
        }
    }
    let is_feature_missing = candidates.is_empty() && lacks_features;
    // A refusal for another reason than a missing feature stays, because the client asked for something that no better model makes right.
    if routing.allow_upgrade
        && (is_feature_missing || !candidates.is_empty())
        && let Some((_, requested)) = named.first()
    {
        let more = upgrade::candidates(planner, requested, &candidates);
        candidates.extend(more);
    }
    keep_preferred(&mut candidates, request);
    if candidates.is_empty() {
        return Err(refused.unwrap_or_else(|| not_found(request.model())));
    }
    let choice = (!excluded.is_empty()).then(|| Box::new(Choice { order: Vec::new(), excluded }));
    let mut plan = Plan { candidates, strategy, conversation: None, is_feature_missing, choice };
    if plan.candidates.len() > 1 || trace.is_some() {
        planner.sort(&mut plan, trace);
    }
    Ok(plan)
}

/// A name that a request asks for, and models that serve it.
type NamedGroup<'n> = (&'n str, Cow<'n, [Arc<Model>]>);
/// Nearly all names have one group, and nearly all requests one name.
type NamedGroups<'n> = SmallVec<[NamedGroup<'n>; 1]>;

impl<'a> PlanRequest<'a> {
    /// A request of a client.
    pub(crate) fn of_client(
        snapshot: &'a Snapshot,
        metrics: &'a Metrics,
        client: &'a RequestContext,
        request: &'a ValidatedRequest,
    ) -> Self {
        Self {
            snapshot,
            metrics,
            caller: &client.caller,
            request,
            headers: &client.matched_headers,
            attribution: client.attribution.as_deref(),
            preset: client.preset.as_ref().map(|preset| &*preset.name),
        }
    }
}

impl PlanRequest<'_> {
    /// The models of a name, in groups that are tried one after the other. An alias whose targets have conditions has those that are
    /// for this request, then those for all requests.
    ///
    /// # Errors
    /// `no_matching_target`, `model_not_allowed`.
    fn groups<'n>(&self, name: &'n str, models: &'n [Arc<Model>]) -> Result<NamedGroups<'n>> {
        let Self { snapshot, caller, .. } = self;
        let alias = if snapshot.presets.is_empty() { None } else { snapshot.presets.alias(name) };
        let Some(alias) = alias.filter(|alias| !alias.settings.conditional.is_empty()) else {
            return Ok(smallvec![(name, Cow::Borrowed(models))]);
        };
        let groups = conditions::targets(alias, self)?;
        let usable = groups.into_iter().map(|mut models| {
            models.retain(|model| caller.may_use(model));
            models
        });
        let usable: NamedGroups<'_> =
            usable.filter(|models| !models.is_empty()).map(|models| (name, Cow::Owned(models))).collect();
        if usable.is_empty() { Err(not_allowed(name)) } else { Ok(usable) }
    }

    /// The breakpoints of prompt caches that an alias sets: the one of this name, else the preset of the request.
    fn prompt_cache_of(&self, name: &str) -> Option<&PromptCacheSettings> {
        let presets = &self.snapshot.presets;
        presets.prompt_cache(name).or_else(|| presets.prompt_cache(self.preset?))
    }

    /// The model as a candidate; None if the plan has it already.
    fn consider(
        &self,
        model: &Arc<Model>,
        group: u32,
        known: &[Candidate],
        may_use: impl Fn(&Model) -> bool,
    ) -> Result<Option<Candidate>> {
        if known.iter().any(|known| known.model.id == model.id) {
            return Ok(None);
        }
        if !may_use(model) {
            return Err(not_allowed(&model.id));
        }
        self.candidate(model, group).map(Some)
    }

    /// # Errors
    /// The capability that the model lacks.
    pub(crate) fn candidate(&self, model: &Arc<Model>, group: u32) -> Result<Candidate> {
        let provider = self.snapshot.providers.get(&model.provider);
        let provider = provider.ok_or_else(|| not_found(&model.id))?;
        capable(model, provider, self.request.wanted())?;
        let candidate = Candidate {
            model: Arc::clone(model),
            provider: Arc::clone(provider),
            metrics: self.metrics.model(provider, &model.id),
            group,
            is_fallback: group > 0,
            is_upgrade: false,
            prompt_cache: model.prompt_cache.or_else(|| provider.prompt_cache().copied()),
        };
        permitted(&candidate, self.request, self.snapshot.state.images.is_on())?;
        speaks_as_needed(&candidate, self.request)?;
        own_tools_fit(&candidate, self.request)?;
        Ok(candidate)
    }

    /// The warnings about the fallbacks that cannot serve the request, so that the client does not count on them.
    pub(crate) fn fallback_warnings(&self, plan: &Plan) -> Vec<Cow<'static, str>> {
        let Some((choice, routing)) = plan.choice.as_ref().zip(self.request.routing()) else {
            return Vec::new();
        };
        let is_excluded = |model: &Arc<Model>| choice.excluded.iter().any(|(id, _)| *id == model.id);
        let is_candidate =
            |model: &Arc<Model>| plan.candidates.iter().any(|candidate| candidate.model.id == model.id);
        let is_left_out = |fallback: &&Fallback| {
            let resolved = self.snapshot.catalog.resolve(&fallback.model);
            let models = resolved.map(|resolved| resolved.models).unwrap_or_default();
            models.iter().any(is_excluded) && !models.iter().any(is_candidate)
        };
        let left_out = routing.fallback.iter().filter(is_left_out);
        left_out.map(|fallback| format!("fallback_left_out:{}", shown(&fallback.model)).into()).collect()
    }

    /// Orders the candidates by the strategy.
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
        // An explanation must not advance a turn.
        let takes_turn = trace.is_none();
        let turn = match plan.candidates.first().filter(|_| plan.strategy == Strategy::RoundRobin) {
            Some(first) if takes_turn => first.model.measured.next_turn(),
            Some(first) => first.model.measured.turn(),
            None if takes_turn => state.next_turn(),
            None => state.turn(),
        };
        let scored = order(plan.strategy, &self.snapshot.routing.weights, &facts, turn);
        let sorted = scored.iter().filter_map(|scored| plan.candidates.get(scored.index).cloned());
        plan.candidates = sorted.collect();
        if plan.candidates.len() > 1 {
            let tiers = plan.candidates.iter().zip(&scored);
            let order =
                tiers.map(|(candidate, scored)| (Arc::clone(&candidate.model.id), scored.tier)).collect();
            plan.choice.get_or_insert_default().order = order;
        }
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
            cost_usd: likely_cost(self.request, candidate).map(dollars),
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

/// The 404 for a name that stands for no model. A caller who may use every model learns when its provider is switched off.
fn unknown_model(snapshot: &Snapshot, caller: &Caller, name: &str) -> Error {
    let mut error = not_found(name);
    if let Some(hint) = switched_off(snapshot, name).filter(|_| !caller.is_limited()) {
        error.message = format!("{} {hint}", error.message).into();
    }
    error
}

/// The advice to switch on the known provider of a model, if the configuration does not have it.
fn switched_off(snapshot: &Snapshot, name: &str) -> Option<String> {
    const DEMO: &str = "demo";
    let (provider, _) = name.split_once('/')?;
    if snapshot.providers.contains_key(provider) {
        return None;
    }
    let preset = presets::find(provider);
    if preset.is_none() && provider != DEMO {
        return None;
    }
    let entry = format!("[[providers]] with name = \"{provider}\" in gateway.toml");
    let switch = match preset.and_then(|preset| preset.key_variable).filter(|variable| !variable.is_empty()) {
        Some(variable) => {
            format!("set {variable} and start the gateway without a configuration file, or add {entry}")
        }
        None => format!("add {entry}"),
    };
    Some(format!("The provider '{provider}' is switched off: {switch}."))
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
