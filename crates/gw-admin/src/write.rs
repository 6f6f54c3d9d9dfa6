//! What the answers of the management API are made of: times, exact amounts, the state of a budget, sums.

use gw_engine::error::{Error, Kind};
use gw_routing::health::Standing;
use gw_store::ledger::Sums;
use gw_store::limits::Limits;
use gw_wire::money::Money;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Answer, Document};

/// An amount in femto-USD, written to its last digit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usd(pub(super) i128);

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = Money::from_femtos(self.0).to_string();
        RawValue::from_string(digits).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

/// The limits of a key or a team, and how its budget stands.
#[derive(Debug, Serialize)]
pub(super) struct LimitsObject {
    rpm: Option<u32>,
    burst: Option<u32>,
    tpm: Option<u64>,
    max_in_flight: Option<u32>,
    budget_usd: Option<Usd>,
    budget_period: Option<&'static str>,
    on_budget: Option<&'static str>,
    budget: Option<BudgetObject>,
}

#[derive(Debug, Serialize)]
struct BudgetObject {
    spent_usd: Usd,
    resets_at: Option<String>,
}

impl LimitsObject {
    /// `spent` in femto-USD, in the period that it is `now`.
    pub(super) fn new(limits: &Limits, spent: i128, now: i64) -> Self {
        let resets = |end: i64| (end < i64::MAX).then(|| time(end));
        Self {
            rpm: limits.rpm,
            burst: limits.burst,
            tpm: limits.tpm,
            max_in_flight: limits.max_in_flight,
            budget_usd: limits.budget.map(|budget| Usd(budget.femtos())),
            budget_period: limits.budget.map(|budget| budget.period.as_str()),
            on_budget: limits.budget.map(|_| limits.on_budget.as_str()),
            budget: limits.budget.map(|budget| BudgetObject {
                spent_usd: Usd(spent),
                resets_at: resets(budget.period.around(now).1),
            }),
        }
    }
}

/// A page of a list.
#[derive(Debug, Serialize)]
pub(super) struct List<T> {
    object: &'static str,
    data: Vec<T>,
    has_more: bool,
    next: Option<String>,
}

impl<T> List<T> {
    /// `next` is what `after` is set to for the page behind this one.
    pub(super) fn new(data: Vec<T>, next: Option<String>) -> Self {
        Self { object: "list", data, has_more: next.is_some(), next }
    }
}

/// What is gone.
#[derive(Debug, Serialize)]
pub(super) struct Deleted<'a> {
    pub(super) object: &'static str,
    pub(super) id: &'a str,
    pub(super) deleted: bool,
}

/// Unix seconds as RFC 3339.
pub(super) fn time(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

/// Unix milliseconds as RFC 3339.
#[must_use]
pub fn time_of_millis(millis: i64) -> String {
    Timestamp::from_millisecond(millis).map(|at| format!("{at:.3}")).unwrap_or_default()
}

/// JSON that we have stored; what cannot be read is left out.
pub(super) fn stored(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
}

/// As JSON.
pub(super) fn document(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => Ok(Document::json(body)),
        Err(_) => Err(Error::new(Kind::InternalError, "The answer cannot be written as JSON.").into()),
    }
}

/// Names and values of sums, in the order of the answer.
pub(super) fn columns(sums: &Sums) -> [(&'static str, String); 11] {
    let usd = |femtos| Money::from_femtos(femtos).to_string();
    let tokens = sums.tokens;
    [
        ("requests", sums.requests.to_string()),
        ("failed", sums.failed.to_string()),
        ("cache_hits", sums.cache_hits.to_string()),
        ("prompt_tokens", tokens.prompt.to_string()),
        ("completion_tokens", tokens.completion.to_string()),
        ("total_tokens", tokens.prompt.saturating_add(tokens.completion).to_string()),
        ("cached_tokens", tokens.cached.to_string()),
        ("cache_write_tokens", tokens.cache_write.to_string()),
        ("reasoning_tokens", tokens.reasoning.to_string()),
        ("cost_usd", usd(sums.cost)),
        ("saved_usd", usd(sums.saved)),
    ]
}

/// A number, or null for an infinite one, which JSON cannot hold: the score of a model whose figures are unknown is infinite.
pub(super) fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// An amount as a JSON number that may be rounded in its last digits.
pub(super) fn approximate_usd(cost: Money) -> Value {
    number(cost.approx_usd())
}

/// The word for a model's standing.
pub(super) fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Able => "able",
        Standing::Ramping { .. } => "ramping",
        Standing::Resting { .. } => "resting",
        Standing::Open { .. } => "open",
        Standing::Probing => "probing",
        Standing::Ready => "ready_for_probe",
    }
}
