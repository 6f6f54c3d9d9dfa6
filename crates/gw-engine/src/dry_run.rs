//! A dry run: everything up to the upstream call, reported instead of done. It counts in no limit and leaves no row.

use bytes::Bytes;
use gw_limits::Refusal;
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

use crate::error::Error;
use crate::limit_error::{self, first_of};
use crate::limit_use::{admission_refusal, reservation_refusal};
use crate::plan::PlanRequest;
use crate::plan::alias_plan::plan_of_alias;
use crate::plan::candidate::{Candidate, Plan};
use crate::plan::cost_estimate::{is_priced, least_case, longest_answer, worst_case};
use crate::plan::room::targets_with_room;
use crate::plan::snapshot::Snapshot;
use crate::plan::taper::tapered;
use crate::request::ValidatedRequest;
use crate::request::context::RequestContext;
use crate::request::fan_out;
use crate::rules::{Counter, RequestRules, RuleState};
use crate::services::Services;
use crate::session_guard::GuardedRequest;

/// The warning about a model whose price is unknown.
const PRICE_UNKNOWN: &str = "price_unknown";

#[derive(Serialize)]
struct Report<'a> {
    object: &'static str,
    model: &'a str,
    candidates: Vec<CandidateObject<'a>>,
    estimate: Estimate,
    rules: Vec<RuleState>,
    would: &'static str,
    error: Option<LimitError<'a>>,
    warnings: Vec<Cow<'static, str>>,
}

#[derive(Serialize)]
struct CandidateObject<'a> {
    model: &'a str,
    provider: &'a str,
}

#[derive(Serialize)]
struct Estimate {
    prompt_tokens: u64,
    max_completion_tokens: u64,
    /// Null if a price is unknown.
    cost_usd: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct LimitError<'a> {
    status: u16,
    code: &'a str,
    message: &'a str,
}

/// The decision about a request: it is served or refused.
#[derive(Default)]
struct Decision {
    refusal: Option<Error>,
    /// Warnings of rules and of the guards of the session.
    warnings: Vec<Cow<'static, str>>,
    /// The plan that a rule has no room for, if the alias of the rule would serve.
    without_room: Option<Plan>,
}

impl Decision {
    fn refused(error: Error) -> Self {
        Self { refusal: Some(error), ..Self::default() }
    }
}

/// The report about a planned request.
pub(crate) async fn report(
    services: &Services,
    client: &mut RequestContext,
    request: &ValidatedRequest,
    snapshot: &Snapshot,
    (mut plan, guarded): (Plan, Option<Box<GuardedRequest>>),
) -> Bytes {
    let Decision { refusal, warnings: of_limits, without_room } =
        Box::pin(decide_guarded(services, client, request, snapshot, (&mut plan, guarded))).await;
    let first = plan.candidates.first();
    let is_known = plan.candidates.iter().all(|candidate| is_priced(request, candidate));
    let (tokens, cost) = worst_case(request, &plan, &snapshot.routing);
    // No attempt is made that would take the cost beyond the client's maximum.
    let told_cost = client.max_cost.as_deref().map_or(cost, |most| cost.min(*most));
    let of_fallbacks =
        PlanRequest::of_client(snapshot, &services.metrics, client, request).fallback_warnings(&plan);
    let of_edge = client.warnings.iter().map(|warning| Cow::Borrowed(*warning));
    let of_encoding = first.map(|first| encoding_warnings(request, first)).unwrap_or_default();
    let mut warnings: Vec<Cow<'static, str>> =
        of_fallbacks.into_iter().chain(of_edge).chain(of_limits).chain(of_encoding).collect();
    if first.is_some_and(|first| !is_priced(request, first)) {
        warnings.push(PRICE_UNKNOWN.into());
    }
    let longest =
        |candidate: &Candidate| longest_answer(request, candidate).saturating_mul(request.answers());
    let rules = match &client.rules {
        Some(rules) => {
            let mut counters = of_targets(services, client, rules, &plan);
            let mut need = (tokens, cost.femtos());
            // The rule that has no room shows why the alias serves, so the request counts as it was planned.
            if let Some(asked) = &without_room {
                let (tokens, cost) = worst_case(request, asked, &snapshot.routing);
                need = (tokens, cost.femtos());
                counters.extend(of_targets(services, client, rules, asked));
            }
            rules.states(&services.limiter, need, counters).await
        }
        None => Vec::new(),
    };
    let report = Report {
        object: "gateway.dry_run",
        model: request.model(),
        candidates: plan.candidates.iter().map(shown).collect(),
        estimate: Estimate {
            prompt_tokens: first.map_or(0, |first| request.prompt_tokens(first)),
            max_completion_tokens: plan.candidates.iter().map(longest).max().unwrap_or(0),
            cost_usd: is_known.then(|| RawValue::from_string(told_cost.to_string()).ok()).flatten(),
        },
        rules,
        would: if refusal.is_some() { "refuse" } else { "serve" },
        error: refusal.as_ref().map(|error| LimitError {
            status: error.status(),
            code: error.code(),
            message: &error.message,
        }),
        warnings,
    };
    serde_json::to_vec(&report).unwrap_or_default().into()
}

fn shown(candidate: &Candidate) -> CandidateObject<'_> {
    CandidateObject { model: &candidate.model.id, provider: &candidate.model.provider }
}

/// The members that the first candidate would not be sent.
fn encoding_warnings(request: &ValidatedRequest, candidate: &Candidate) -> Vec<Cow<'static, str>> {
    let capabilities = candidate.provider.adapter().capabilities();
    let (_, choices, _) = request.stream_form();
    let prompts = if let ValidatedRequest::Completion(request) = request { request.prompts.len() } else { 1 };
    let parts = fan_out::parts(&capabilities, choices.max(1), prompts.max(1));
    let encoded = parts.first().and_then(|part| request.encode(candidate, part, &candidate.target()).ok());
    encoded.map(|encoded| encoded.warnings).unwrap_or_default()
}

/// The counters of the rules of a plan's targets.
fn of_targets(
    services: &Services,
    client: &RequestContext,
    rules: &RequestRules,
    plan: &Plan,
) -> Vec<Counter> {
    let at = |candidate: &Candidate| rules.at(&services.limiter, client.asker(), candidate.serving());
    plan.candidates.iter().filter_map(at).flat_map(RequestRules::into_counters).collect()
}

/// The refusal that comes before the request is planned: by a limit of its key or its team.
async fn not_admitted(services: &Services, client: &RequestContext) -> Option<Error> {
    let own = client.caller.subjects().len();
    if own == 0 {
        return None;
    }
    let uses = services.limiter.inspect(client.subjects()).await;
    let refusal = match &uses {
        Some(uses) => uses.iter().take(own).find_map(admission_refusal)?,
        None => Refusal::StoreUnavailable,
    };
    Some(limit_error::error(&refusal))
}

/// As [`decide`], after the guards of the request's session.
async fn decide_guarded(
    services: &Services,
    client: &mut RequestContext,
    request: &ValidatedRequest,
    snapshot: &Snapshot,
    (plan, guarded): (&mut Plan, Option<Box<GuardedRequest>>),
) -> Decision {
    let mut of_session = Vec::new();
    if let Some(guarded) = guarded {
        match guarded.look(&services.limiter).await {
            Ok(warnings) => of_session = warnings,
            // The limits of the key and its team come before the session, and the reservation comes after it.
            Err(error) => return Decision::refused(not_admitted(services, client).await.unwrap_or(error)),
        }
    }
    let mut decision = decide(services, client, request, snapshot, plan).await;
    of_session.append(&mut decision.warnings);
    Decision { warnings: of_session, ..decision }
}

/// Decides whether the request is served or refused. `plan` becomes the plan that would serve it.
async fn decide(
    services: &Services,
    client: &mut RequestContext,
    request: &ValidatedRequest,
    snapshot: &Snapshot,
    plan: &mut Plan,
) -> Decision {
    let most = client.max_cost.as_deref().copied();
    let asked = plan.clone();
    let planner = PlanRequest::of_client(snapshot, &services.metrics, client, request);
    if let Some((tapered, warning)) = tapered(&services.limiter, client, (planner, most), plan).await {
        *plan = tapered;
        if within_limits(services, client, request, snapshot, plan).await.is_none() {
            return Decision { warnings: vec![Cow::Owned(warning)], ..Decision::default() };
        }
        *plan = asked;
    }
    let Some(error) = within_limits(services, client, request, snapshot, plan).await else {
        return Decision::default();
    };
    let Some((rule, rules)) = error.full_rule().cloned().zip(client.rules.clone()) else {
        return Decision::refused(error);
    };
    let planner = PlanRequest::of_client(snapshot, &services.metrics, client, request);
    let fallback = rules.fallback_of(&rule.name).and_then(|alias| plan_of_alias((planner, most), &alias));
    let Some(mut fallback) = fallback else { return Decision::refused(error) };
    client.rules = Some(Arc::new(rules.without(&rule.name)));
    let refused = within_limits(services, client, request, snapshot, &mut fallback).await;
    client.rules = Some(rules);
    if refused.is_some() {
        return Decision::refused(error);
    }
    let without_room = Some(std::mem::replace(plan, fallback));
    let warnings = vec![Cow::Owned(format!("budget_fallback:{}", rule.name))];
    Decision { refusal: None, warnings, without_room }
}

/// The refusal of the request as it is planned, without the upgrades if they would refuse it. Leaves out targets without room.
async fn within_limits(
    services: &Services,
    client: &RequestContext,
    request: &ValidatedRequest,
    snapshot: &Snapshot,
    plan: &mut Plan,
) -> Option<Error> {
    let mut refusal = refusal(services, client, request, snapshot, plan).await;
    // Permitted upgrades must not refuse a request that would be served without them.
    if refusal.is_some() && plan.without_upgrades() {
        refusal = self::refusal(services, client, request, snapshot, plan).await;
    }
    if refusal.as_ref().is_some_and(|error| error.rule.is_none())
        || !client.rules.as_ref().is_some_and(|rules| rules.may_be_of_targets())
    {
        return refusal;
    }
    let kept = targets_with_room(&services.limiter, client, request, plan, &snapshot.routing).await;
    match (refusal, kept) {
        (Some(error), kept) => Some(first_of(error, kept.err())),
        (None, Err(error)) => Some(error),
        (None, Ok(kept)) => {
            plan.candidates = kept;
            None
        }
    }
}

/// The refusal that the request would get from a limit of its key or its team.
async fn refusal(
    services: &Services,
    client: &RequestContext,
    request: &ValidatedRequest,
    snapshot: &Snapshot,
    plan: &mut Plan,
) -> Option<Error> {
    if let Some(refusal) = client.unpriced_refusal(&plan.candidates.first()?.model.id) {
        if !plan.candidates.iter().any(|candidate| is_priced(request, candidate)) {
            return Some(refusal);
        }
        plan.candidates.retain(|candidate| is_priced(request, candidate));
    }
    let subjects = client.subjects();
    if subjects.is_empty() {
        return None;
    }
    let own = client.caller.subjects().len();
    let Some(uses) = services.limiter.inspect(subjects).await else {
        return Some(limit_error::error(&Refusal::StoreUnavailable));
    };
    let (uses, of_rules) = uses.split_at(own.min(uses.len()));
    if let Some(refusal) = uses.iter().find_map(admission_refusal) {
        return Some(limit_error::error(&refusal));
    }
    let (tokens, cost) = worst_case(request, plan, &snapshot.routing);
    let is_cut = request.writes_text() && client.caller.is_cut_by_budget();
    let least = least_case(request, plan);
    let needed = if is_cut { least.min(cost) } else { cost };
    let Some(refusal) = uses.iter().find_map(|used| reservation_refusal(used, tokens, needed.femtos()))
    else {
        // The answer is cut for the key and its team alone.
        return client.rules.as_ref()?.first_refusal(of_rules, (tokens, cost.femtos()));
    };
    let shortest = (request.writes_text() && !is_cut).then_some(least).filter(|least| *least < cost);
    Some(limit_error::reservation_error(&refusal, shortest))
}
