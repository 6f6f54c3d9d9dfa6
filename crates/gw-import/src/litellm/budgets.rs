//! Budgets: that of the whole proxy, which `litellm_settings` has in `max_budget` and `budget_duration`.

use gw_engine::settings::Period;
use serde_json::Value;

use super::super::draft::{Members, price_per_million};
use super::super::yaml::SourceNode;
use super::Import;

/// The keys of the budget of the whole proxy: its amount and its period.
pub(super) const PROXY_BUDGET: [&str; 2] = ["max_budget", "budget_duration"];

/// The keys of other budgets.
pub(super) const OTHER_BUDGETS: [&str; 3] =
    ["provider_budget_config", "tag_budget_config", "max_end_user_budget"];

/// The name of the rule that is the budget of the whole proxy.
const RULE: &str = "all-requests";

impl Import {
    /// Imports the budget of the whole proxy as a rule of all requests.
    pub(super) fn proxy_budget(&mut self, section: &str, node: &SourceNode) {
        let [amount_node, duration_node] = PROXY_BUDGET.map(|name| node.get(name));
        let rule = amount(amount_node).and_then(|usd| Ok((usd, period(duration_node)?)));
        let notes = rule.map(|(usd, period)| {
            let counted = match period.as_str() {
                "total" => "all time".to_owned(),
                "day" | "week" | "month" => format!("a calendar {period} in UTC"),
                _ => format!("the last {period}"),
            };
            self.draft.budget(Members::from_iter([
                ("name".to_owned(), RULE.into()),
                ("budget_usd".to_owned(), usd),
                ("period".to_owned(), period.into()),
            ]));
            [
                format!(
                    "budgets.budget_usd of the rule '{RULE}', for {counted}; what was spent at LiteLLM does not count"
                ),
                format!("budgets.period of the rule '{RULE}': {counted}"),
            ]
        });
        for (at, value) in [amount_node, duration_node].into_iter().enumerate() {
            let Some((value, name)) = value.zip(PROXY_BUDGET.get(at)) else { continue };
            let key = format!("{section}.{name}");
            match &notes {
                Ok(notes) => {
                    let note = notes.get(at).map(String::as_str).unwrap_or_default();
                    self.report.approximate(key, value, note);
                }
                Err(note) => self.report.ignored(key, value, *note),
            }
        }
    }
}

/// The amount of a budget in USD, or the reason why there is none.
fn amount(node: Option<&SourceNode>) -> Result<Value, &'static str> {
    let node = node.ok_or("there is no max_budget")?;
    let usd = node.number().ok_or("max_budget is no amount in USD")?;
    if usd <= 0.0 {
        return Err("LiteLLM enforces no max_budget of 0");
    }
    price_per_million(usd * 1e-6).ok_or("max_budget is no amount in USD")
}

/// The period of a rule for a `budget_duration`. LiteLLM ends a day, a week and a month with those of the calendar.
fn period(node: Option<&SourceNode>) -> Result<String, &'static str> {
    let Some(text) = node.and_then(SourceNode::text) else { return Ok("total".to_owned()) };
    match text.as_str() {
        "1d" | "24h" => Ok("day".to_owned()),
        "1w" | "7d" => Ok("week".to_owned()),
        "1mo" | "30d" => Ok("month".to_owned()),
        other => match Period::parse_any(other) {
            Some(Period::Rolling(_)) => Ok(text),
            _ => Err("budget_duration is no period of a rule: 10 seconds to 366 days, such as 12h"),
        },
    }
}
