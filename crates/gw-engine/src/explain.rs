//! Why a request would go where: the real decision on a request that is not sent.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use gw_routing::health::HealthStatus;
use gw_wire::money::Money;
use gw_wire::request::RequestLimits;
use serde_json::{Value, json};

use crate::ask::Ask;
use crate::auth::Caller;
use crate::catalog::Model;
use crate::catalog::query::shown;
use crate::engine::Engine;
use crate::error::{Error, Kind, Result};
use crate::pipeline::{Operation, parse};
use crate::plan::{Candidate, Plan, Planner, Snapshot, Trace, plan};
use crate::worst::{likely_cost, worst_case};

/// The answer of `POST /admin/v1/routing/explain`: candidates in order with the parts of their scores, who was left out
/// and why, and what the request can cost at the worst. Which kind of request it is, its members tell.
///
/// # Errors
/// What the request itself would be refused with.
pub(crate) fn explain(engine: &Engine, caller: &Caller, body: Bytes) -> Result<Bytes> {
    let snapshot = engine.snapshot();
    let limits = &snapshot.request_limits;
    let ask = parse(operation(&body, limits), body, limits)?;
    let metrics = engine.metrics();
    let mut trace = Trace::default();
    let planner = Planner { snapshot: &snapshot, metrics: &metrics, caller, ask: &ask };
    let plan = plan(planner, Some(&mut trace))?;
    let (tokens, cost) = worst_case(&ask, &plan, &snapshot.routing);
    let candidates: Vec<Value> =
        (0..).zip(&plan.candidates).map(|(at, candidate)| row(at, candidate, &ask, &trace)).collect();
    let excluded: Vec<Value> =
        trace.excluded.iter().map(|(id, why)| json!({"model": &**id, "reason": why})).collect();
    let document = json!({
        "object": "routing.explanation",
        "requested_model": ask.model(),
        "strategy": plan.strategy.as_str(),
        "candidates": candidates,
        "excluded": excluded,
        "worst_case": {"tokens": tokens, "cost_usd": usd(cost)},
        "max_attempts": snapshot.routing.max_attempts,
        "conversation_known": is_warm(&plan, &trace),
    });
    Ok(Bytes::from(document.to_string()))
}

fn is_warm(plan: &Plan, trace: &Trace) -> bool {
    plan.conversation.is_some() && trace.facts.iter().any(|facts| facts.prompt_cache.is_some())
}

fn row(at: usize, candidate: &Candidate, ask: &Ask, trace: &Trace) -> Value {
    let model = &candidate.model;
    let scored = trace.scored.get(at);
    let facts = scored.and_then(|scored| trace.facts.get(scored.index));
    let parts: serde_json::Map<String, Value> = scored
        .map(|scored| scored.parts.iter().map(|(name, value)| (name.to_string(), number(value))).collect())
        .unwrap_or_default();
    let named_as = match candidate {
        Candidate { is_upgrade: true, .. } => "upgrade",
        Candidate { group: 0, .. } => "requested",
        _ => "fallback",
    };
    json!({
        "model": &*model.id,
        "provider": &*model.provider,
        "named_as": named_as,
        "score": scored.map(|scored| number(scored.score)),
        "parts": parts,
        "standing": facts.map(|facts| standing(facts.status)),
        "in_flight": facts.map(|facts| facts.averages.in_flight),
        "samples": facts.map(|facts| facts.averages.samples),
        "holds_prompt_cache": facts.is_some_and(|facts| facts.prompt_cache.is_some()),
        "expected_cost_usd": likely_cost(ask, candidate).map(usd),
    })
}

/// The word for how a target stands.
pub(crate) fn standing(standing: HealthStatus) -> &'static str {
    match standing {
        HealthStatus::Able => "able",
        HealthStatus::Ramping { .. } => "ramping",
        HealthStatus::Resting { .. } => "resting",
        HealthStatus::Open { .. } => "open",
        HealthStatus::Probing => "probing",
        HealthStatus::Ready => "ready_for_probe",
    }
}

/// How the models of a provider stand that were asked lately, or are not asked at the moment.
pub(crate) fn targets(snapshot: &Snapshot, provider: &str) -> Vec<Value> {
    let now = Instant::now();
    let breaker = &snapshot.routing.breaker;
    let mine = snapshot.catalog.models().iter().filter(|model| *model.provider == *provider);
    let target = |model: &Arc<Model>| {
        let (window, seen) = (model.measured.window(), model.measured.averages(now));
        let stands = model.health.status(breaker, now);
        if window.samples == 0 && seen.in_flight == 0 && stands == HealthStatus::Able {
            return None;
        }
        let left = match stands {
            HealthStatus::Resting { left } | HealthStatus::Open { left } => Some(left.as_secs_f64().ceil()),
            _ => None,
        };
        Some(json!({
            "model": &*model.id,
            "standing": standing(stands),
            "asked_again_in_seconds": left,
            "in_flight": seen.in_flight,
            "samples": window.samples,
            "availability": window.availability,
            "latency_p50_ms": window.p50_ms,
            "latency_p99_ms": window.p99_ms,
            "first_token_ms": seen.ttft_ms,
            "tokens_per_second": seen.tokens_per_second,
            "error_rate": seen.error_rate,
        }))
    };
    mine.filter_map(target).collect()
}

/// Scores of what is unknown are infinite, which JSON cannot say.
fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn usd(cost: Money) -> Value {
    number(cost.approx_usd())
}

fn operation(body: &Bytes, limits: &RequestLimits) -> Operation {
    let members = gw_wire::request::Body::parse(body.clone(), limits);
    let has = |name| members.as_ref().is_ok_and(|body| body.view(name).is_some());
    match () {
        () if has("messages") => Operation::Chat,
        () if has("prompt") => Operation::Completion,
        () if has("input") => Operation::Embeddings,
        () => Operation::Chat,
    }
}

/// The request of somebody who asked for nothing.
pub(crate) fn no_such_key(id: &str) -> Error {
    Error::new(Kind::NotFound, format!("There is no key '{}'.", shown(id)))
}
