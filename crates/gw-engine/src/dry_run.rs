//! A dry run: everything up to the upstream call, reported instead of done. It counts in no limit and leaves no row.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use gw_limits::{Refusal, SubjectUse};
use gw_wire::money::Money;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::clock::unix_seconds;
use crate::error::Error;
use crate::limit_error;
use crate::plan::candidate::{Candidate, Plan};
use crate::plan::cost_estimate::{is_priced, least_case, longest_answer, worst_case};
use crate::plan::snapshot::Snapshot;
use crate::request::ValidatedRequest;
use crate::request::context::RequestContext;
use crate::request::fan_out;
use crate::services::Services;

/// The warning about a model whose price is unknown.
const PRICE_UNKNOWN: &str = "price_unknown";

#[derive(Serialize)]
struct Report<'a> {
    object: &'static str,
    model: &'a str,
    candidates: Vec<CandidateObject<'a>>,
    estimate: Estimate,
    /// Rules of budgets. There are none yet: the limits of keys and teams are no rules.
    rules: [(); 0],
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

/// The report about a planned request.
pub(crate) async fn report(
    services: &Services,
    client: &RequestContext,
    request: &ValidatedRequest,
    snapshot: &Snapshot,
    mut plan: Plan,
) -> Bytes {
    let mut refusal = refusal(services, client, request, snapshot, &mut plan).await;
    // Permitted upgrades must not refuse a request that would be served without them.
    if refusal.is_some() && plan.without_upgrades() {
        refusal = self::refusal(services, client, request, snapshot, &mut plan).await;
    }
    let first = plan.candidates.first();
    let is_known = plan.candidates.iter().all(|candidate| is_priced(request, candidate));
    let (_, cost) = worst_case(request, &plan, &snapshot.routing);
    let of_edge = client.warnings.iter().map(|warning| Cow::Borrowed(*warning));
    let of_encoding = first.map(|first| encoding_warnings(request, first)).unwrap_or_default();
    let mut warnings: Vec<Cow<'static, str>> = of_edge.chain(of_encoding).collect();
    if first.is_some_and(|first| !is_priced(request, first)) {
        warnings.push(PRICE_UNKNOWN.into());
    }
    let longest =
        |candidate: &Candidate| longest_answer(request, candidate).saturating_mul(request.answers());
    let report = Report {
        object: "gateway.dry_run",
        model: request.model(),
        candidates: plan.candidates.iter().map(shown).collect(),
        estimate: Estimate {
            prompt_tokens: first.map_or(0, |first| request.prompt_tokens(first)),
            max_completion_tokens: plan.candidates.iter().map(longest).max().unwrap_or(0),
            cost_usd: is_known.then(|| RawValue::from_string(cost.to_string()).ok()).flatten(),
        },
        rules: [],
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
    let encoded = parts.first().and_then(|part| request.encode(candidate, part, None).ok());
    encoded.map(|encoded| encoded.warnings).unwrap_or_default()
}

/// The refusal that the request would get from a limit of its key or its team.
async fn refusal(
    services: &Services,
    client: &RequestContext,
    request: &ValidatedRequest,
    snapshot: &Snapshot,
    plan: &mut Plan,
) -> Option<Error> {
    if let Some(subject) = client.caller.refuses_unpriced() {
        let first = plan.candidates.first()?;
        if !plan.candidates.iter().any(|candidate| is_priced(request, candidate)) {
            return Some(limit_error::unpriced(subject, &first.model.id));
        }
        plan.candidates.retain(|candidate| is_priced(request, candidate));
    }
    let subjects = client.caller.subjects();
    if subjects.is_empty() {
        return None;
    }
    let Some(uses) = services.limiter.inspect(subjects).await else {
        return Some(limit_error::error(&Refusal::StoreUnavailable));
    };
    if let Some(refusal) = uses.iter().find_map(admission_refusal) {
        return Some(limit_error::error(&refusal));
    }
    let (tokens, cost) = worst_case(request, plan, &snapshot.routing);
    let is_cut = request.writes_text() && client.caller.is_cut_by_budget();
    let least = least_case(request, plan);
    let needed = if is_cut { least.min(cost) } else { cost };
    let refusal = uses.iter().find_map(|used| reservation_refusal(used, tokens, needed))?;
    let shortest = (request.writes_text() && !is_cut).then_some(least).filter(|least| *least < cost);
    Some(limit_error::reservation_error(&refusal, shortest))
}

/// The refusal of a request before its body is known.
fn admission_refusal(used: &SubjectUse) -> Option<Refusal> {
    let subject = used.kind;
    if let Some(state) = used.requests.filter(|state| state.remaining == 0) {
        return Some(Refusal::Requests { subject, limit: state.limit, retry_after: state.reset });
    }
    let limit = used.limits.max_in_flight;
    if let Some((limit, _)) = limit.zip(used.in_flight).filter(|(limit, count)| count >= limit) {
        return Some(Refusal::InFlight { subject, limit });
    }
    budget_refusal(used, 1)
}

/// The refusal of a request that may need so many tokens and so much money.
fn reservation_refusal(used: &SubjectUse, wanted: u64, cost: Money) -> Option<Refusal> {
    let subject = used.kind;
    if let Some(state) = used.tokens.filter(|state| wanted > state.remaining) {
        let retry_after = (wanted <= state.limit).then_some(state.reset);
        return Some(Refusal::Tokens { subject, limit: state.limit, wanted, retry_after });
    }
    budget_refusal(used, cost.femtos())
}

/// The refusal of a budget that has less left than this.
fn budget_refusal(used: &SubjectUse, needed_femtos: i128) -> Option<Refusal> {
    const NANO_USD: i128 = 1_000_000;
    let budget = used.limits.budget?;
    let Some(spending) = used.budget else { return Some(Refusal::StoreUnavailable) };
    let left = budget.femtos() - spending.spent_femtos - spending.reserved_femtos;
    if left >= needed_femtos {
        return None;
    }
    let now = unix_seconds();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let end = budget.period.around(now).1;
    let resets_in =
        (end < i64::MAX).then(|| Duration::from_secs(u64::try_from(end.saturating_sub(now)).unwrap_or(0)));
    let left_nano = u64::try_from(left.max(0) / NANO_USD).unwrap_or(u64::MAX);
    Some(Refusal::Budget { subject: used.kind, resets_in, left_nano })
}
