//! Explains a routing decision: plans a request as if it were to be served, and sends nothing.

use std::sync::Arc;

use bytes::Bytes;
use gw_routing::facts::Facts;
use gw_routing::score::Scored;
use gw_routing::strategy::Strategy;
use gw_wire::money::Money;
use gw_wire::operation::PlainOperation;
use gw_wire::request::RequestLimits;

use crate::auth::Caller;
use crate::catalog::{Catalog, Model};
use crate::error::Result;
use crate::plan::candidate::Candidate;
pub use crate::plan::cost_estimate::WorstCase;
use crate::plan::cost_estimate::{explained_worst_case, likely_cost};
use crate::plan::snapshot::Snapshot;
use crate::plan::usual_model::name_usual_model;
use crate::plan::{PlanRequest, PlanTrace, plan};
use crate::presets::{PresetRequest, PresetSurface};
use crate::request::ValidatedRequest;
use crate::request::context::RequestMarks;
use crate::request::operation::parse;
use crate::services::Services;

/// The plan of a request, with the reasons for its order.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The model name in the request.
    pub requested_model: String,
    /// The strategy that ordered the candidates.
    pub strategy: Strategy,
    /// The candidates in the order in which the gateway would call them.
    pub candidates: Vec<RankedCandidate>,
    /// The models that the request names and that cannot serve it.
    pub excluded: Vec<ExcludedModel>,
    /// The worst case of the request.
    pub worst_case: WorstCase,
    /// Upstream calls that the gateway would make at most.
    pub max_attempts: u32,
    /// Whether a candidate holds the prompt cache of the request's conversation.
    pub is_conversation_known: bool,
}

/// A candidate of an [`Explanation`].
#[derive(Clone, Debug)]
pub struct RankedCandidate {
    /// The model that would be called.
    pub model: Arc<Model>,
    /// How the model came into the plan.
    pub origin: CandidateOrigin,
    /// The score of the candidate, and the parts of the score.
    pub scored: Scored,
    /// The facts that the score was made of.
    pub facts: Facts,
    /// The expected cost of the request; `None` if the model has no price.
    pub expected_cost: Option<Money>,
}

/// How a model came into a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateOrigin {
    /// The requested name stands for it.
    Requested,
    /// A fallback of the request stands for it.
    Fallback,
    /// The gateway added it, because the request allows upgrades.
    Upgrade,
}

/// A model that the request names and that cannot serve it.
#[derive(Clone, Debug)]
pub struct ExcludedModel {
    /// Its catalogue id.
    pub id: Arc<str>,
    /// The reason, as the client would read it.
    pub reason: String,
}

/// Plans `body` for `caller`. The members of the body and the category of the model determine the operation: `prompt` means a
/// text completion, `input` means embeddings or a moderation, everything else is a chat.
///
/// # Errors
/// The error that the request itself would get.
pub(crate) fn explain(
    services: &Services,
    caller: &Caller,
    marks: &RequestMarks,
    body: Bytes,
) -> Result<Explanation> {
    let snapshot = services.snapshot();
    let limits = &snapshot.request_limits;
    let body = with_preset(&snapshot, caller, body)?;
    let mut request = parse(operation(&body, limits, &snapshot.catalog), body, limits)?;
    name_usual_model(&mut request, &snapshot, caller)?;
    let mut trace = PlanTrace::default();
    let plan_request = PlanRequest {
        snapshot: &snapshot,
        metrics: &services.metrics,
        caller,
        request: &request,
        headers: &marks.headers,
        attribution: marks.attribution.as_deref(),
        preset: None,
    };
    let plan = plan(plan_request, Some(&mut trace))?;
    let worst_case = explained_worst_case(&request, &plan, &snapshot.routing);
    let PlanTrace { scored, facts } = trace;
    let excluded = plan.choice.into_iter().flat_map(|choice| choice.excluded);
    let candidates = plan.candidates.iter().zip(scored);
    let ranked = candidates.filter_map(|(candidate, scored)| {
        facts.get(scored.index).map(|facts| rank(candidate, scored, *facts, &request))
    });
    Ok(Explanation {
        requested_model: request.model().to_owned(),
        strategy: plan.strategy,
        candidates: ranked.collect(),
        excluded: excluded.map(|(id, reason)| ExcludedModel { id, reason: reason.into_owned() }).collect(),
        worst_case,
        max_attempts: snapshot.routing.max_attempts,
        is_conversation_known: plan.conversation.is_some()
            && facts.iter().any(|facts| facts.prompt_cache.is_some()),
    })
}

/// The body as the preset that it names changes it.
fn with_preset(snapshot: &Snapshot, caller: &Caller, body: Bytes) -> Result<Bytes> {
    if !snapshot.presets.may_apply(&body, true) {
        return Ok(body);
    }
    let surface = match operation(&body, &snapshot.request_limits, &snapshot.catalog) {
        PlainOperation::Chat => PresetSurface::Chat,
        PlainOperation::Completion => PresetSurface::Completion,
        PlainOperation::Embeddings
        | PlainOperation::Rerank
        | PlainOperation::Score
        | PlainOperation::Moderation
        | PlainOperation::Images
        | PlainOperation::Speech
        | PlainOperation::Transcription
        | PlainOperation::Translation
        | PlainOperation::Realtime => PresetSurface::OneShot,
    };
    let request = PresetRequest { surface, is_generation: true, url_model: None, body: &body };
    let applied = snapshot.apply_preset(caller, request)?;
    Ok(applied.map_or(body, |applied| applied.body))
}

fn rank(candidate: &Candidate, scored: Scored, facts: Facts, request: &ValidatedRequest) -> RankedCandidate {
    let origin = match candidate {
        Candidate { is_upgrade: true, .. } => CandidateOrigin::Upgrade,
        Candidate { group: 0, .. } => CandidateOrigin::Requested,
        Candidate { .. } => CandidateOrigin::Fallback,
    };
    let expected_cost = likely_cost(request, candidate);
    RankedCandidate { model: Arc::clone(&candidate.model), origin, scored, facts, expected_cost }
}

/// The operation that has one of the body's members. Where several have one, the category of the model decides.
fn operation(body: &Bytes, limits: &RequestLimits, catalog: &Catalog) -> PlainOperation {
    let Ok(members) = gw_wire::request::Body::parse(body.clone(), limits) else {
        return PlainOperation::Chat;
    };
    let is_given = |operation: &PlainOperation| {
        operation.row().prompt_members.iter().any(|name| members.view(name).is_some())
    };
    let named = members.view("model").and_then(|model| model.string());
    let models = named.as_ref().and_then(|name| catalog.resolve(name)).map(|resolved| resolved.models);
    let category = models.and_then(|models| models.first()?.only_category());
    let serves = |operation: &PlainOperation| is_given(operation) && operation.row().category == category;
    let mut all = PlainOperation::ALL.into_iter();
    all.clone().find(serves).or_else(|| all.find(is_given)).unwrap_or(PlainOperation::Chat)
}
