//! The JSON objects that several answers share: amounts, limits, lists, deletions.

use gw_store::limits::{Limits, UnpricedPolicy};
use gw_wire::money::Money;
use gw_wire::usage::UnitCount;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::time::format_seconds;

/// An amount in femto-USD, written exactly as a JSON number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usd(pub(crate) i128);

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = Money::from_femtos(self.0).to_string();
        RawValue::from_string(digits).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

/// A count of units, written exactly as a JSON number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count(pub(crate) UnitCount);

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.to_string()).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

/// The limits of a key or a team, and the state of its budget.
#[derive(Debug, Serialize)]
pub(crate) struct LimitsObject {
    rpm: Option<u32>,
    burst: Option<u32>,
    tpm: Option<u64>,
    max_in_flight: Option<u32>,
    budget_usd: Option<Usd>,
    budget_period: Option<&'static str>,
    on_budget: Option<&'static str>,
    unpriced: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<Option<BudgetObject>>,
}

#[derive(Debug, Serialize)]
struct BudgetObject {
    spent_usd: Usd,
    resets_at: Option<String>,
}

impl LimitsObject {
    /// `spent` is in femto-USD, in the budget period that contains `now` (unix seconds).
    pub(crate) fn new(limits: &Limits, spent: i128, now: i64) -> Self {
        let resets_at = |end: i64| (end < i64::MAX).then(|| format_seconds(end));
        Self {
            rpm: limits.rpm,
            burst: limits.burst,
            tpm: limits.tpm,
            max_in_flight: limits.max_in_flight,
            budget_usd: limits.budget.map(|budget| Usd(budget.femtos())),
            budget_period: limits.budget.map(|budget| budget.period.as_str()),
            on_budget: limits.budget.map(|_| limits.on_budget.as_str()),
            unpriced: (limits.budget.is_some() || limits.unpriced != UnpricedPolicy::default())
                .then(|| limits.unpriced.as_str()),
            budget: Some(limits.budget.map(|budget| BudgetObject {
                spent_usd: Usd(spent),
                resets_at: resets_at(budget.period.around(now).1),
            })),
        }
    }

    /// The limits without the state of the budget.
    pub(crate) fn without_spending(self) -> Self {
        Self { budget: None, ..self }
    }
}

/// A page of a list.
#[derive(Debug, Serialize)]
pub(crate) struct ListObject<T> {
    object: &'static str,
    data: Vec<T>,
    has_more: bool,
    next: Option<String>,
}

impl<T> ListObject<T> {
    /// `next` is the value of the parameter `after` that requests the next page; `None` on the last page.
    pub(crate) fn new(data: Vec<T>, next: Option<String>) -> Self {
        Self { object: "list", data, has_more: next.is_some(), next }
    }
}

/// The confirmation of a deletion.
#[derive(Debug, Serialize)]
pub(crate) struct DeletedObject<'a> {
    object: &'static str,
    id: &'a str,
    deleted: bool,
}

impl<'a> DeletedObject<'a> {
    /// `object` is the type of the deleted object, such as `team`.
    pub(crate) fn new(object: &'static str, id: &'a str) -> Self {
        Self { object, id, deleted: true }
    }
}

/// A number, or null if it is infinite: JSON has no infinity, and the score of a model without figures is infinite.
pub(crate) fn number_or_null(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// An amount as a JSON number that may be rounded in its last digits.
pub(crate) fn approximate_usd(cost: Money) -> Value {
    number_or_null(cost.approx_usd())
}
