//! An event as its message tells it.

use gw_wire::calendar::rfc3339;
use gw_wire::money::Money;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::trigger::MILLION;

/// The thing that has a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BudgetKind {
    /// A rule of `[[budgets]]`.
    Rule,
    /// A gateway key.
    Key,
    /// A team.
    Team,
}

impl BudgetKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Key => "key",
            Self::Team => "team",
        }
    }
}

/// How far a budget is spent, after a request was charged or refused.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetSpending {
    /// The thing that has the budget.
    pub kind: BudgetKind,
    /// Its name.
    pub name: String,
    /// The id of a key; for a team or a rule its name.
    pub id: String,
    /// The counter of a rule that is split, such as `{"end_user": "ann"}`.
    pub split: Option<Map<String, Value>>,
    /// The cost of the requests that are over.
    pub spend: Money,
    /// The budget.
    pub budget: Money,
    /// The name of the period.
    pub period: &'static str,
    /// The unix second at which the period began. None: it moves on with the time.
    pub began_at: Option<i64>,
    /// The unix second at which the budget begins anew. None: never.
    pub resets_at: Option<i64>,
    /// The seconds of a period that moves on with the time.
    pub rolling_seconds: Option<i64>,
    /// Whether a request was refused for want of money.
    pub is_refused: bool,
}

impl BudgetSpending {
    /// The spent part of the budget in millionths, rounded down.
    pub(crate) fn millionths(&self) -> i128 {
        let (spend, budget) = (self.spend.femtos(), self.budget.femtos());
        if budget <= 0 { MILLION } else { spend.saturating_mul(MILLION).div_euclid(budget) }
    }

    /// Whether the spending has reached this fraction.
    pub(crate) fn has_reached(&self, threshold: i128) -> bool {
        let (spend, budget) = (self.spend.femtos(), self.budget.femtos());
        let is_spent = budget > 0 && spend.saturating_mul(MILLION) >= budget.saturating_mul(threshold);
        is_spent || (self.is_refused && threshold == MILLION)
    }

    /// The members of `data`.
    pub(crate) fn data(&self, threshold: i128) -> EventData {
        EventData::Budget(BudgetData {
            kind: self.kind,
            name: self.name.clone(),
            split: self.split.clone(),
            spend_usd: number(self.spend.to_string()),
            budget_usd: number(self.budget.to_string()),
            fraction: number(of_millionths(self.millionths())),
            threshold: number(of_millionths(threshold)),
            period: self.period,
            resets_at: self.resets_at.map(rfc3339),
        })
    }
}

/// The body of an event.
#[derive(Debug, Serialize)]
pub(crate) struct EventBody<'a> {
    pub(crate) event: &'a str,
    pub(crate) created_at: String,
    pub(crate) data: &'a EventData,
}

/// The `data` of an event.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum EventData {
    /// A budget is spent up to a threshold.
    Budget(BudgetData),
    /// An event of another kind.
    Subject { kind: &'static str, name: String },
}

/// The members of an event of a budget. Amounts are exact numbers.
#[derive(Debug, Serialize)]
pub(crate) struct BudgetData {
    kind: BudgetKind,
    name: String,
    split: Option<Map<String, Value>>,
    spend_usd: Box<RawValue>,
    budget_usd: Box<RawValue>,
    fraction: Box<RawValue>,
    threshold: Box<RawValue>,
    period: &'static str,
    resets_at: Option<String>,
}

impl EventData {
    /// The event as JSON.
    pub(crate) fn body(&self, event: &str, at: i64) -> String {
        let body = EventBody { event, created_at: rfc3339(at), data: self };
        serde_json::to_string(&body).unwrap_or_default()
    }
}

/// A number as it is written.
fn number(digits: String) -> Box<RawValue> {
    RawValue::from_string(digits).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Millionths as a decimal without zeros at its end.
pub(crate) fn of_millionths(millionths: i128) -> String {
    let text = format!("{}.{:06}", millionths / MILLION, millionths.rem_euclid(MILLION));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use gw_wire::money::Money;

    use super::{BudgetKind, BudgetSpending, of_millionths};

    fn spending(spend: i128, budget: i128) -> BudgetSpending {
        BudgetSpending {
            kind: BudgetKind::Key,
            name: "ci".to_owned(),
            id: "cfg-ci".to_owned(),
            split: None,
            spend: Money::from_femtos(spend),
            budget: Money::from_femtos(budget),
            period: "month",
            began_at: Some(0),
            resets_at: Some(2_678_400),
            rolling_seconds: None,
            is_refused: false,
        }
    }

    #[test]
    fn amounts_are_exact() {
        let body =
            spending(8_500_000_000_000_001, 10_000_000_000_000_000).data(800_000).body("budget:0.8", 0);
        assert_eq!(
            body,
            "{\"event\":\"budget:0.8\",\"created_at\":\"1970-01-01T00:00:00Z\",\"data\":{\"kind\":\"key\",\"name\":\"ci\",\
             \"split\":null,\"spend_usd\":8.500000000000001,\"budget_usd\":10,\"fraction\":0.85,\"threshold\":0.8,\
             \"period\":\"month\",\"resets_at\":\"1970-02-01T00:00:00Z\"}}"
        );
        assert_eq!((of_millionths(1_000_000), of_millionths(0)), ("1".to_owned(), "0".to_owned()));
    }

    #[test]
    fn a_threshold_is_reached_exactly() {
        assert!(spending(8, 10).has_reached(800_000));
        assert!(!spending(799_999, 1_000_000).has_reached(800_000));
        let refused = BudgetSpending { is_refused: true, ..spending(1, 10) };
        assert!(refused.has_reached(1_000_000) && !refused.has_reached(800_000));
    }
}
