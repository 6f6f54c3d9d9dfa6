//! `[routing]`.

use std::time::Duration;

use gw_engine::settings::RoutingSettings;
use gw_routing::hedge::{HedgeDelay, HedgeSettings};
use gw_wire::strategy::Strategy;

use super::super::binding::{Form, field, quoted, words};
use super::super::schema::{Kind, Section, Word, key, setting, words_of};
use super::kinds::{MILLISECONDS, PERCENT};

/// The strategies, each with its aliases.
#[expect(
    clippy::indexing_slicing,
    reason = "a constant is evaluated by the compiler, which checks the index"
)]
pub(in super::super) static STRATEGIES: [Word; Strategy::ALL.len()] = {
    let mut words: [Word; Strategy::ALL.len()] = [("", &[]); Strategy::ALL.len()];
    let mut at = 0;
    while at < words.len() {
        if let [canonical, aliases @ ..] = Strategy::ALL[at].names() {
            words[at] = (canonical, aliases);
        }
        at += 1;
    }
    words
};

const STRATEGY: Form<Strategy> =
    Form { read: |value| Strategy::named(value.text()?), write: |strategy| quoted(strategy.as_str()) };

/// Milliseconds, or `p95`.
const HEDGE_DELAY: Form<HedgeDelay> = Form {
    read: |value| {
        let millis: Option<u64> = value.int();
        Some(millis.map_or(HedgeDelay::P95, |millis| HedgeDelay::Fixed(Duration::from_millis(millis))))
    },
    write: |delay| match delay {
        HedgeDelay::P95 => quoted("p95"),
        HedgeDelay::Fixed(delay) => delay.as_millis().to_string(),
    },
};

pub(super) static ROUTING: Section = Section {
    doc: "The choice of a model for a request, and the reaction to failures.",
    keys: &[
        setting(
            "strategy",
            Kind::Choice(&STRATEGIES),
            field!(RoutingSettings, strategy, STRATEGY),
            "The strategy of requests that name none.",
        ),
        setting(
            "max_attempts",
            Kind::Int { min: 1, max: 100 },
            field!(RoutingSettings, max_attempts, Form::INT),
            "The most upstream calls of one request, including retries.",
        ),
        setting(
            "retries",
            Kind::Int { min: 0, max: 10 },
            field!(RoutingSettings, retries, Form::INT),
            "Retries with the same model, before its first byte.",
        ),
        setting(
            "fallback_on_4xx",
            Kind::Bool,
            field!(RoutingSettings, fallback_on_4xx, Form::BOOL),
            "Whether every upstream error, including 4xx, moves on to the next candidate.",
        ),
        words_of(
            "on_disconnect",
            words!(RoutingSettings, drain_on_disconnect, "cancel" => false, "drain" => true),
            "The upstream call of a client that disconnects: `cancel` ends it at once, `drain` reads it to its end to learn its \
             usage (for at most 30 s, and at most 256 calls). A cancelled response in the background \
             and a client that leaves a pass-through route always end their call.",
        ),
        words_of(
            "mid_stream",
            words!(RoutingSettings, continue_mid_stream, "fail" => false, "continue" => true),
            "A stream whose upstream breaks off: `fail` ends it with an error event, `continue` lets the next candidate continue \
             a plain text answer (never tool calls or JSON).",
        ),
        setting(
            "upgrade_max_price_ratio",
            Kind::Number { min: 1.0, max: 1_000_000.0 },
            field!(RoutingSettings, upgrade_max_price_ratio, Form::OPTIONAL_NUMBER),
            "The most that an upgrade (`allow_upgrade`) may cost, as a multiple of the requested model's input and output price \
             per million. Without this key an upgrade may have any price. With it, a model without a price is never an upgrade.",
        ),
        key("breaker", Kind::Table(&BREAKER), "", ""),
        setting("hedge", Kind::Table(&HEDGE), field!(RoutingSettings, hedge, Form::OPTIONAL_TABLE), ""),
        key("balanced", Kind::Table(&BALANCED), "", ""),
    ],
};

static BREAKER: Section = Section {
    doc: "The circuit breaker of each model: after several failures the model is tried last for a while.",
    keys: &[
        setting(
            "failures",
            Kind::Int { min: 1, max: 10_000 },
            field!(RoutingSettings, breaker.failures, Form::INT),
            "Failures in a row that open the circuit.",
        ),
        setting(
            "cooldown_ms",
            MILLISECONDS,
            field!(RoutingSettings, breaker.cooldown, Form::MILLIS),
            "How long the circuit stays open at first. Each failed probe doubles this time, to at most eight times the value.",
        ),
        setting(
            "ramp_ms",
            Kind::Int { min: 0, max: 86_400_000 },
            field!(RoutingSettings, breaker.ramp, Form::MILLIS),
            "The time over which a recovered model gets its share of the requests back.",
        ),
    ],
};

/// A weight of `balanced`.
const WEIGHT: Kind = Kind::Number { min: 0.0, max: 1000.0 };

static BALANCED: Section = Section {
    doc: "The weights of the strategy `balanced`; docs/routing.md has the formula.",
    keys: &[
        setting(
            "price",
            WEIGHT,
            field!(RoutingSettings, weights.price, Form::NUMBER),
            "The expected cost of the request.",
        ),
        setting(
            "latency",
            WEIGHT,
            field!(RoutingSettings, weights.latency, Form::NUMBER),
            "The time to the first token.",
        ),
        setting(
            "quality",
            WEIGHT,
            field!(RoutingSettings, weights.quality, Form::NUMBER),
            "The overall quality score.",
        ),
        setting(
            "availability",
            WEIGHT,
            field!(RoutingSettings, weights.availability, Form::NUMBER),
            "The share of failed calls.",
        ),
        setting("load", WEIGHT, field!(RoutingSettings, weights.load, Form::NUMBER), "The calls in flight."),
    ],
};

static HEDGE: Section = Section {
    doc: "A hedge is a second call to another candidate when the first is slow. Streams are hedged before their first token, and \
          embeddings; plain answers are not. Hedging is off without this section.",
    keys: &[
        setting(
            "after",
            Kind::Either(&MILLISECONDS, &Kind::Choice(&[("p95", &[])])),
            field!(HedgeSettings, after, HEDGE_DELAY),
            "The delay of a hedge: milliseconds, or the time to the first token of 95 of 100 calls to the model (after 20 calls).",
        ),
        setting(
            "max_extra_cost_percent",
            PERCENT,
            field!(HedgeSettings, max_extra_cost_percent, Form::NUMBER),
            "The most that hedges may add to the cost of the traffic, besides one US cent at the start. 0 = no hedges.",
        ),
    ],
};
