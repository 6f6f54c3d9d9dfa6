//! `[routing]`.

use gw_wire::strategy::Strategy;

use super::super::schema::{Kind, Section, Word, key};
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

pub(super) static ROUTING: Section = Section {
    doc: "The choice of a model for a request, and the reaction to failures.",
    keys: &[
        key("strategy", Kind::Choice(&STRATEGIES), "\"default\"", "The strategy of requests that name none."),
        key(
            "max_attempts",
            Kind::Int { min: 1, max: 100 },
            "4",
            "The most upstream calls of one request, including retries.",
        ),
        key(
            "retries",
            Kind::Int { min: 0, max: 10 },
            "1",
            "Retries with the same model, before its first byte.",
        ),
        key(
            "fallback_on_4xx",
            Kind::Bool,
            "false",
            "Whether every upstream error, including 4xx, moves on to the next candidate.",
        ),
        key(
            "on_disconnect",
            Kind::Choice(&[("cancel", &[]), ("drain", &[])]),
            "\"cancel\"",
            "The upstream call of a client that disconnects: `cancel` ends it at once, `drain` reads it to its end to learn its \
             usage (for at most 30 s, and at most 256 calls). A cancelled response in the background always ends its call.",
        ),
        key(
            "mid_stream",
            Kind::Choice(&[("fail", &[]), ("continue", &[])]),
            "\"fail\"",
            "A stream whose upstream breaks off: `fail` ends it with an error event, `continue` lets the next candidate continue \
             a plain text answer (never tool calls or JSON).",
        ),
        key(
            "upgrade_max_price_ratio",
            Kind::Number { min: 1.0, max: 1_000_000.0 },
            "",
            "The most that an upgrade (`allow_upgrade`) may cost, as a multiple of the requested model's input and output price \
             per million. Without this key an upgrade may have any price. With it, a model without a price is never an upgrade.",
        ),
        key("breaker", Kind::Table(&BREAKER), "", ""),
        key("hedge", Kind::Table(&HEDGE), "", ""),
        key("balanced", Kind::Table(&BALANCED), "", ""),
    ],
};

static BREAKER: Section = Section {
    doc: "The circuit breaker of each model: after several failures the model is tried last for a while.",
    keys: &[
        key("failures", Kind::Int { min: 1, max: 10_000 }, "5", "Failures in a row that open the circuit."),
        key(
            "cooldown_ms",
            MILLISECONDS,
            "10000",
            "How long the circuit stays open at first. Each failed probe doubles this time, to at most eight times the value.",
        ),
        key(
            "ramp_ms",
            Kind::Int { min: 0, max: 86_400_000 },
            "10000",
            "The time over which a recovered model gets its share of the requests back.",
        ),
    ],
};

/// A weight of `balanced`.
const WEIGHT: Kind = Kind::Number { min: 0.0, max: 1000.0 };

static BALANCED: Section = Section {
    doc: "The weights of the strategy `balanced`; docs/routing.md has the formula.",
    keys: &[
        key("price", WEIGHT, "1", "The expected cost of the request."),
        key("latency", WEIGHT, "1", "The time to the first token."),
        key("quality", WEIGHT, "1", "The overall quality score."),
        key("availability", WEIGHT, "1", "The share of failed calls."),
        key("load", WEIGHT, "0.5", "The calls in flight."),
    ],
};

static HEDGE: Section = Section {
    doc: "A hedge is a second call to another candidate when the first is slow. Streams are hedged before their first token, and \
          embeddings; plain answers are not. Hedging is off without this section.",
    keys: &[
        key(
            "after",
            Kind::Either(&MILLISECONDS, &Kind::Choice(&[("p95", &[])])),
            "\"p95\"",
            "The delay of a hedge: milliseconds, or the time to the first token of 95 of 100 calls to the model (after 20 calls).",
        ),
        key(
            "max_extra_cost_percent",
            PERCENT,
            "5",
            "The most that hedges may add to the cost of the traffic, besides one US cent at the start. 0 = no hedges.",
        ),
    ],
};
