//! `GET /v1/me`: a key as its holder may see it: its spending, its limits, its models and its recent errors.

use gw_engine::limit_use::{SubjectKind, SubjectUse};
use gw_engine::rules::RuleState;
use gw_engine::{Caller, Engine};
use gw_store::ledger::{Entry, Filter, Sums};
use gw_store::{Period, Store};
use gw_wire::attribution::Attribution;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::AdminError;
use crate::json::Usd;
use crate::response::{AdminResponse, AdminResult};
use crate::time::{format_millis, format_seconds};
use gw_wire::calendar::unix_seconds;

/// The most errors that are shown.
const RECENT_ERRORS: u32 = 20;

#[derive(Serialize)]
struct MeObject<'a> {
    object: &'static str,
    key: OwnKey<'a>,
    spend: SpendObject,
    /// Null while the limits cannot be read.
    limits: Option<Vec<SubjectObject>>,
    binding_limit: Option<BindingLimit>,
    /// The rules that apply to the caller's requests.
    rules: Vec<RuleState>,
    models: Vec<String>,
    recent_errors: Vec<ErrorObject<'a>>,
}

#[derive(Serialize)]
struct OwnKey<'a> {
    id: &'a str,
    name: &'a str,
    team: Option<&'a str>,
    role: &'static str,
}

/// The key's own spending in calendar periods (UTC).
#[derive(Serialize)]
struct SpendObject {
    day: SumsObject,
    month: SumsObject,
}

#[derive(Serialize)]
struct SumsObject {
    cost_usd: Usd,
    /// The requests whose cost is not, or not whole, in the sum.
    unpriced_requests: u64,
    requests: u64,
    failed: u64,
    tokens: u64,
}

impl From<Sums> for SumsObject {
    fn from(sums: Sums) -> Self {
        let tokens = sums.tokens.prompt.saturating_add(sums.tokens.completion);
        Self {
            cost_usd: Usd(sums.cost),
            unpriced_requests: sums.unpriced,
            requests: sums.requests,
            failed: sums.failed,
            tokens,
        }
    }
}

/// The limits of the key or of its team.
#[derive(Serialize)]
struct SubjectObject {
    scope: &'static str,
    id: String,
    requests_per_minute: Option<WindowObject>,
    tokens_per_minute: Option<WindowObject>,
    in_flight: Option<WindowObject>,
    budget: Option<OwnBudget>,
}

/// A limit, and how far it is used up now.
#[derive(Serialize)]
struct WindowObject {
    limit: u64,
    used: u64,
    left: u64,
    /// The time until the whole limit is free; null for requests in flight.
    resets_in_seconds: Option<u64>,
}

#[derive(Serialize)]
struct OwnBudget {
    limit_usd: Usd,
    /// Null while the spending is unknown.
    spent_usd: Option<Usd>,
    reserved_usd: Option<Usd>,
    left_usd: Option<Usd>,
    period: &'static str,
    resets_at: Option<String>,
}

/// The limit of the key or its team with the smallest part left.
#[derive(Serialize)]
pub(crate) struct BindingLimit {
    scope: &'static str,
    limit: &'static str,
    left: Value,
    left_percent: f64,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    at: String,
    request_id: &'a str,
    model: &'a str,
    code: &'a str,
}

impl<'a> From<&'a Entry> for ErrorObject<'a> {
    fn from(entry: &'a Entry) -> Self {
        Self {
            at: format_millis(entry.at),
            request_id: &entry.request_id,
            model: &entry.requested_model,
            code: &entry.status,
        }
    }
}

/// Answers for this caller.
pub(crate) async fn show_me(
    store: &Store,
    engine: &Engine,
    caller: &Caller,
    attribution: Option<&Attribution>,
) -> AdminResult {
    let now = unix_seconds();
    let (day, month) =
        (spent(store, caller, Period::Day, now).await?, spent(store, caller, Period::Month, now).await?);
    let errors = store.failures(caller.key_id(), RECENT_ERRORS).await?;
    let uses = engine.limit_use(caller).await;
    AdminResponse::json(&MeObject {
        object: "me",
        key: OwnKey {
            id: caller.key_id(),
            name: caller.key_name(),
            team: caller.team().map(AsRef::as_ref),
            role: caller.role().as_str(),
        },
        spend: SpendObject { day: day.into(), month: month.into() },
        binding_limit: uses.as_deref().and_then(binding_limit),
        limits: uses.map(|uses| uses.iter().map(|subject| subject_object(subject, now)).collect()),
        rules: engine.rules_of(caller, attribution, (0, 0), None).await,
        models: engine.model_names(caller),
        recent_errors: errors.iter().map(ErrorObject::from).collect(),
    })
}

async fn spent(store: &Store, caller: &Caller, period: Period, now: i64) -> Result<Sums, AdminError> {
    let filter = Filter {
        since: Some(period.around(now).0.saturating_mul(1000)),
        key_id: Some(caller.key_id().to_string()),
        ..Filter::default()
    };
    Ok(store.total(&filter).await?)
}

fn scope(kind: SubjectKind) -> &'static str {
    match kind {
        SubjectKind::Key => "key",
        SubjectKind::Team => "team",
        SubjectKind::Rule => "rule",
    }
}

fn subject_object(subject: &SubjectUse, now: i64) -> SubjectObject {
    let window = |limit: u64, left: u64, resets_in_seconds: Option<u64>| WindowObject {
        limit,
        used: limit.saturating_sub(left),
        left,
        resets_in_seconds,
    };
    let in_flight = subject.limits.max_in_flight.zip(subject.in_flight);
    SubjectObject {
        scope: scope(subject.kind),
        id: subject.id.clone(),
        requests_per_minute: subject.requests.map(|state| {
            window(state.limit.into(), state.remaining.into(), Some(state.reset.as_secs_f64().ceil() as u64))
        }),
        tokens_per_minute: subject
            .tokens
            .map(|state| window(state.limit, state.remaining, Some(state.reset.as_secs_f64().ceil() as u64))),
        in_flight: in_flight
            .map(|(limit, used)| window(limit.into(), limit.saturating_sub(used).into(), None)),
        budget: budget_object(subject, now),
    }
}

fn budget_object(subject: &SubjectUse, now: i64) -> Option<OwnBudget> {
    let budget = subject.limits.budget?;
    let end = budget.period.around(now).1;
    Some(OwnBudget {
        limit_usd: Usd(budget.femtos()),
        spent_usd: subject.budget.map(|used| Usd(used.spent_femtos)),
        reserved_usd: subject.budget.map(|used| Usd(used.reserved_femtos)),
        left_usd: budget_left(subject).map(Usd),
        period: budget.period.as_str(),
        resets_at: (end < i64::MAX).then(|| format_seconds(end)),
    })
}

/// The money that is neither spent nor reserved, in femto-USD.
fn budget_left(subject: &SubjectUse) -> Option<i128> {
    let (budget, used) = subject.limits.budget.zip(subject.budget)?;
    Some(budget.femtos().saturating_sub(used.spent_femtos.saturating_add(used.reserved_femtos)).max(0))
}

/// The limit with the smallest part left. Of equal ones the key's comes before its team's.
pub(crate) fn binding_limit(uses: &[SubjectUse]) -> Option<BindingLimit> {
    let mut all: Vec<BindingLimit> = uses.iter().flat_map(limits_of).collect();
    all.sort_by(|one, other| one.left_percent.total_cmp(&other.left_percent));
    all.into_iter().next()
}

fn limits_of(subject: &SubjectUse) -> Vec<BindingLimit> {
    let mut found = Vec::new();
    let mut add = |limit: &'static str, left: Value, part: f64| {
        let left_percent = (part * 10_000.0).round().clamp(0.0, 10_000.0) / 100.0;
        found.push(BindingLimit { scope: scope(subject.kind), limit, left, left_percent });
    };
    let part = |left: u64, limit: u64| left as f64 / limit.max(1) as f64;
    if let Some(state) = subject.requests {
        let left = part(state.remaining.into(), state.limit.into());
        add("requests_per_minute", json!(state.remaining), left);
    }
    if let Some(state) = subject.tokens {
        add("tokens_per_minute", json!(state.remaining), part(state.remaining, state.limit));
    }
    if let Some((limit, used)) = subject.limits.max_in_flight.zip(subject.in_flight) {
        let left = limit.saturating_sub(used);
        add("in_flight", json!(left), part(left.into(), limit.into()));
    }
    if let Some((budget, left)) = subject.limits.budget.zip(budget_left(subject)) {
        let amount = serde_json::to_value(Usd(left)).unwrap_or_default();
        add("budget", amount, left as f64 / (budget.femtos().max(1)) as f64);
    }
    found
}

#[cfg(test)]
mod tests {
    use gw_engine::limit_use::{BudgetUse, RateState, TokenState};
    use gw_store::{Budget, Limits};

    use super::*;

    fn subject(kind: SubjectKind) -> SubjectUse {
        SubjectUse {
            kind,
            id: "x".to_owned(),
            limits: Limits::default(),
            requests: None,
            tokens: None,
            in_flight: None,
            budget: None,
        }
    }

    #[test]
    fn the_limit_with_the_smallest_part_left_binds() {
        let reset = std::time::Duration::from_millis(1_500);
        let key = SubjectUse {
            requests: Some(RateState { limit: 10, remaining: 4, reset }),
            tokens: Some(TokenState { limit: 1_000, remaining: 400, reset }),
            ..subject(SubjectKind::Key)
        };
        let budget = Budget { nano: 2_000_000_000, period: Period::Total };
        let team = SubjectUse {
            limits: Limits { budget: Some(budget), max_in_flight: Some(8), ..Limits::default() },
            in_flight: Some(2),
            budget: Some(BudgetUse {
                spent_femtos: 1_400_000_000_000_000,
                reserved_femtos: 100_000_000_000_000,
            }),
            ..subject(SubjectKind::Team)
        };
        let binding = binding_limit(&[key.clone(), team.clone()]).unwrap();
        assert_eq!((binding.scope, binding.limit, binding.left_percent), ("team", "budget", 25.0));
        assert_eq!(binding.left.to_string(), "0.5");
        let binding = binding_limit(std::slice::from_ref(&key)).unwrap();
        assert_eq!((binding.scope, binding.limit, binding.left), ("key", "requests_per_minute", json!(4)));
        assert!(binding_limit(&[subject(SubjectKind::Key)]).is_none());
        let shown = serde_json::to_value(subject_object(&key, 0)).unwrap();
        let expected = json!({ "limit": 10, "used": 6, "left": 4, "resets_in_seconds": 2 });
        assert_eq!(shown["requests_per_minute"], expected);
        let shown = serde_json::to_value(subject_object(&team, 0)).unwrap();
        assert_eq!((&shown["in_flight"]["left"], &shown["budget"]["resets_at"]), (&json!(6), &Value::Null));
    }
}
