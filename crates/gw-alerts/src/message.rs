//! The messages of an event, one for each format.

use gw_store::limits::Period;
use serde_json::{Value, json};

use crate::settings::AlertFormat;
use crate::trigger::{
    CATALOGUE_OLD, CERTIFICATE_EXPIRING, COST_RISE, ERROR_RISE, KEY_DEAD, LEDGER_LAG, PRICE_UNKNOWN,
    PROVIDER_DOWN, RECONCILE, SESSION_STOPPED, TEST,
};

/// The longest summary that PagerDuty takes.
const MAX_SUMMARY: usize = 1_024;

/// The body of a message. `event` is the event as JSON, which is the whole message in the format `json`.
pub(crate) fn render(format: AlertFormat, id: &str, routing_key: &str, event: &str) -> String {
    if format == AlertFormat::Json {
        return event.to_owned();
    }
    let event: Value = serde_json::from_str(event).unwrap_or_default();
    let text = text(&event);
    match format {
        AlertFormat::Json | AlertFormat::Slack => json!({ "text": escaped(&text) }),
        AlertFormat::Teams => json!({
            "type": "message",
            "attachments": [{
                "contentType": "application/vnd.microsoft.card.adaptive",
                "content": {
                    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                    "type": "AdaptiveCard",
                    "version": "1.4",
                    "body": [{ "type": "TextBlock", "text": text, "wrap": true }],
                },
            }],
        }),
        AlertFormat::PagerDuty => json!({
            "routing_key": routing_key,
            "event_action": "trigger",
            "dedup_key": id,
            "payload": {
                "summary": text.chars().take(MAX_SUMMARY).collect::<String>(),
                "source": "model-gateway",
                "severity": severity(&event),
                "timestamp": member(&event, "created_at"),
                "custom_details": event,
            },
        }),
    }
    .to_string()
}

/// A member of an object. Null: there is none.
fn member<'v>(value: &'v Value, name: &str) -> &'v Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// Slack reads these three characters as control characters.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn severity(event: &Value) -> &'static str {
    match member(event, "event").as_str() {
        Some(PROVIDER_DOWN | KEY_DEAD) => "critical",
        Some(LEDGER_LAG | CERTIFICATE_EXPIRING | ERROR_RISE) => "error",
        Some(TEST) => "info",
        _ if member(member(event, "data"), "threshold")
            .as_f64()
            .is_some_and(|threshold| threshold >= 1.0) =>
        {
            "error"
        }
        _ => "warning",
    }
}

/// The event in a sentence.
pub(crate) fn text(event: &Value) -> String {
    let data = member(event, "data");
    let name = member(data, "name").as_str().unwrap_or_default();
    match member(event, "event").as_str().unwrap_or_default() {
        PROVIDER_DOWN => format!("The provider {name} does not answer."),
        KEY_DEAD => format!("The provider {name} refuses a key."),
        PRICE_UNKNOWN => {
            format!("The price of the model {name} is unknown: requests for it are not charged in full.")
        }
        LEDGER_LAG => format!("Requests wait for the {name}: the store does not take them."),
        SESSION_STOPPED => format!("A guard stopped the session {name}."),
        CERTIFICATE_EXPIRING => format!("The certificate of {name} ends soon."),
        CATALOGUE_OLD => format!("The model catalogue is old: {name}."),
        COST_RISE => format!("Requests of {name} cost far more than a week before."),
        ERROR_RISE => format!("Requests of {name} failed far more often than a week before."),
        RECONCILE => format!("The bill of the provider {name} differs from the ledger."),
        TEST => format!("This is a test of the alert {name}."),
        _ => of_budget(data, name),
    }
}

fn of_budget(data: &Value, name: &str) -> String {
    let kind = member(data, "kind").as_str().unwrap_or_default();
    let split = match member(data, "split") {
        Value::Object(members) => {
            let named =
                members.iter().map(|(key, value)| format!("{key} {}", value.as_str().unwrap_or_default()));
            format!(" ({})", named.collect::<Vec<_>>().join(", "))
        }
        _ => String::new(),
    };
    let (spend, budget) = (member(data, "spend_usd"), member(data, "budget_usd"));
    let period = member(data, "period").as_str().unwrap_or_default();
    let is_rolling = Period::parse_any(period).is_some_and(|period| period.step().is_some());
    let ending = match member(data, "resets_at").as_str() {
        Some(at) if is_rolling => {
            format!(" Its period is the last {period}: what was spent longest ago may leave it from {at} on.")
        }
        Some(at) => format!(" It begins anew at {at}."),
        None => String::new(),
    };
    format!(
        "The {kind} {name}{split} has spent {}% of its budget: {spend} of {budget} USD.{ending}",
        percent(data)
    )
}

/// The per cent spent, with at most one digit after the point.
fn percent(data: &Value) -> String {
    let tenths = (member(data, "fraction").as_f64().unwrap_or_default() * 1_000.0 + 1e-6).floor() / 10.0;
    tenths.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{render, text};
    use crate::settings::AlertFormat;

    fn budget() -> String {
        json!({ "event": "budget:0.8", "created_at": "2026-11-28T08:00:00Z", "data": {
            "kind": "team", "name": "search & find", "split": null, "spend_usd": 8.5, "budget_usd": 10,
            "fraction": 0.85, "threshold": 0.8, "period": "month", "resets_at": "2026-12-01T00:00:00Z" } })
        .to_string()
    }

    fn rendered(format: AlertFormat) -> Value {
        serde_json::from_str(&render(format, "msg_1", "key", &budget())).unwrap()
    }

    #[test]
    fn each_format_names_the_budget_and_the_per_cent_spent() {
        let sentence = "The team search & find has spent 85% of its budget: 8.5 of 10 USD. It begins anew at 2026-12-01T00:00:00Z.";
        assert_eq!(render(AlertFormat::Json, "msg_1", "", &budget()), budget());
        assert_eq!(rendered(AlertFormat::Slack), json!({ "text": sentence.replace('&', "&amp;") }));
        let teams = rendered(AlertFormat::Teams);
        assert_eq!(teams["type"], "message");
        let card = &teams["attachments"][0];
        assert_eq!(card["contentType"], "application/vnd.microsoft.card.adaptive");
        assert_eq!(card["content"]["body"][0]["text"], sentence);
        let duty = rendered(AlertFormat::PagerDuty);
        assert_eq!(
            (&duty["routing_key"], &duty["event_action"], &duty["dedup_key"]),
            (&json!("key"), &json!("trigger"), &json!("msg_1"))
        );
        assert_eq!(
            (&duty["payload"]["summary"], &duty["payload"]["severity"]),
            (&json!(sentence), &json!("warning"))
        );
    }

    #[test]
    fn a_rolling_period_begins_nowhere_anew() {
        let event: Value = serde_json::from_str(&budget().replace("\"month\"", "\"30d\"")).unwrap();
        assert_eq!(
            text(&event),
            "The team search & find has spent 85% of its budget: 8.5 of 10 USD. Its period is the last 30d: what was spent longest ago may leave it from 2026-12-01T00:00:00Z on."
        );
    }

    #[test]
    fn every_event_without_a_budget_has_a_sentence_with_its_name() {
        for event in crate::trigger::EVENTS {
            let said = text(&json!({ "event": event, "data": { "kind": "x", "name": "acme" } }));
            assert!(said.contains("acme") && !said.contains("budget"), "{event}: {said}");
        }
    }

    #[test]
    fn a_percent_is_rounded_down() {
        let of = |fraction: f64| {
            text(
                &json!({ "event": "budget:1", "data": { "kind": "key", "name": "a", "fraction": fraction } }),
            )
        };
        assert!(of(0.99999).contains(" 99.9% "), "{}", of(0.99999));
        assert!(of(0.29).contains(" 29% ") && of(1.5).contains(" 150% "));
    }
}
