//! `[[alerts]]`.

use gw_alerts::{AlertFormat, AlertSettings};

use super::super::binding::{Form, field, words};
use super::super::formats::{ALERT_EVENT, ALERT_SECRET, ALERT_URL, CREDENTIAL, LABEL};
use super::super::schema::{Kind, Section, required_setting, setting, setting_or, words_of};

pub(super) static ALERT: Section = Section {
    doc: "An alert: events that operators are told of, and where the messages go. `docs/alerts.md` describes the events and the \
          messages.",
    keys: &[
        required_setting(
            "name",
            Kind::Text(&LABEL),
            field!(AlertSettings, name, Form::TEXT),
            "The name of the alert.",
        ),
        required_setting(
            "on",
            Kind::List { of: &Kind::Text(&ALERT_EVENT), min: 1 },
            field!(AlertSettings, on, Form::TEXTS),
            "The events: `budget:0.8` and other parts of a budget, `provider_down`, `key_dead`, `price_unknown`, `ledger_lag`, \
             `session_stopped`, `certificate_expiring`, `catalogue_old`, `cost_rise`, `error_rise`, `reconcile`.",
        ),
        setting_or(
            "url",
            Kind::Secret(&ALERT_URL),
            field!(AlertSettings, url, Form::OPTIONAL_SECRET),
            "PagerDuty's own address for `pagerduty`",
            "Where the messages are sent. Reports and logs show its scheme and host alone.",
        ),
        words_of(
            "format",
            words!(
                AlertSettings,
                format,
                "json" => AlertFormat::Json,
                "slack" => AlertFormat::Slack,
                "teams" => AlertFormat::Teams,
                "pagerduty" => AlertFormat::PagerDuty
            ),
            "The format of the messages. `json` is signed as Standard Webhooks say.",
        ),
        setting(
            "secret",
            Kind::Secret(&ALERT_SECRET),
            field!(AlertSettings, secret, Form::OPTIONAL_SECRET),
            "The secret of the signature: `whsec_` and base64. `json` needs it.",
        ),
        setting(
            "routing_key",
            Kind::Secret(&CREDENTIAL),
            field!(AlertSettings, routing_key, Form::OPTIONAL_SECRET),
            "The integration key of PagerDuty. `pagerduty` needs it.",
        ),
        setting(
            "timeout_ms",
            Kind::Int { min: 100, max: 60_000 },
            field!(AlertSettings, timeout, Form::MILLIS),
            "How long the receiver may take for its answer.",
        ),
        setting(
            "allow_private_network",
            Kind::Bool,
            field!(AlertSettings, allow_private_network, Form::BOOL),
            "Whether `url` may lead to private and loopback addresses. Link-local addresses are always refused. An alert that is \
             made over the API has `false`.",
        ),
    ],
};
