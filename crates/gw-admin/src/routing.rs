//! The routing explanation: which models would serve a request, in which order, and why.

use bytes::Bytes;
use gw_engine::catalog::query::Query;
use gw_engine::error::Result;
use gw_engine::explain::{CandidateOrigin, Explanation, RankedCandidate};
use gw_engine::{Caller, Engine, RequestMarks};
use serde_json::{Map, Value, json};

use crate::error::not_found;
use crate::json::{approximate_usd, number_or_null};
use crate::providers::standing_name;

/// `POST /admin/v1/routing/explain`: explains the route of the request `body`, for `caller` or, with `?key=ID`, for that key. `marks`
/// are the facts beside the body of the caller's request.
///
/// # Errors
/// The error that the request itself would get; `not_found` for an unknown key.
pub fn explain_route(
    engine: &Engine,
    caller: &Caller,
    query: &str,
    body: Bytes,
    marks: impl FnOnce(&Caller) -> RequestMarks,
) -> Result<ExplainedRoute> {
    let caller = match Query::parse(query).last("key") {
        None => caller.clone(),
        Some(id) => engine.find_key(id).ok_or_else(|| not_found("key", id))?,
    };
    let marks = marks(&caller);
    let explanation = engine.explain(&caller, &marks, body)?;
    Ok(ExplainedRoute { caller, marks, explanation })
}

/// A route, and the caller for whom it is explained.
#[derive(Debug)]
pub struct ExplainedRoute {
    caller: Caller,
    marks: RequestMarks,
    explanation: Explanation,
}

impl ExplainedRoute {
    /// The whole explanation, with the rules that apply to the request.
    pub async fn with_rules(&self, engine: &Engine) -> Bytes {
        let most = &self.explanation.worst_case;
        let need = (most.tokens, most.cost.unwrap_or_default().femtos());
        let candidates = self.explanation.candidates.iter();
        let targets: Vec<_> =
            candidates.map(|candidate| (&*candidate.model.id, &*candidate.model.provider)).collect();
        let attribution = self.marks.attribution.as_deref();
        let rules = engine.rules_of(&self.caller, attribution, need, Some(&targets)).await;
        let mut object = explanation_object(&self.explanation).to_string();
        // Written behind the other members, because the amounts of rules are exact.
        object.pop();
        object.push_str(",\"rules\":");
        object.push_str(&serde_json::to_string(&rules).unwrap_or_default());
        object.push('}');
        Bytes::from(object)
    }

    /// The explanation without rules, for a program that knows no spending.
    #[must_use]
    pub fn without_rules(&self) -> Bytes {
        Bytes::from(explanation_object(&self.explanation).to_string())
    }
}

fn explanation_object(explanation: &Explanation) -> Value {
    let excluded = explanation.excluded.iter();
    let excluded = excluded.map(|model| json!({"model": &*model.id, "reason": model.reason}));
    json!({
        "object": "routing.explanation",
        "requested_model": explanation.requested_model,
        "strategy": explanation.strategy.as_str(),
        "candidates": explanation.candidates.iter().map(candidate_object).collect::<Vec<_>>(),
        "excluded": excluded.collect::<Vec<_>>(),
        "worst_case": {
            "answer_tokens": explanation.worst_case.answer_tokens,
            "tokens": explanation.worst_case.tokens,
            "cost_usd": explanation.worst_case.cost.map(approximate_usd),
        },
        "max_attempts": explanation.max_attempts,
        "conversation_known": explanation.is_conversation_known,
    })
}

fn candidate_object(candidate: &RankedCandidate) -> Value {
    let RankedCandidate { model, origin, scored, facts, expected_cost } = candidate;
    let parts: Map<String, Value> =
        scored.parts.iter().map(|(name, value)| (name.to_owned(), number_or_null(value))).collect();
    let named_as = match origin {
        CandidateOrigin::Requested => "requested",
        CandidateOrigin::Fallback => "fallback",
        CandidateOrigin::Upgrade => "upgrade",
    };
    json!({
        "model": &*model.id,
        "provider": &*model.provider,
        "named_as": named_as,
        "score": number_or_null(scored.score),
        "parts": parts,
        "standing": standing_name(facts.status),
        "in_flight": facts.averages.in_flight,
        "samples": facts.averages.samples,
        "holds_prompt_cache": facts.prompt_cache.is_some(),
        "expected_cost_usd": expected_cost.map(approximate_usd),
    })
}
