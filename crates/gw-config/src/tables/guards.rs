//! `[[guards]]`.

use gw_engine::settings::{GuardAction, GuardSettings};

use super::super::binding::{Form, field, words};
use super::super::formats::{LABEL, WORD};
use super::super::schema::{Kind, Section, key, setting_or, words_of};
use super::super::tree::Checked;

const LABELS: Kind = Kind::List { of: &Kind::Text(&LABEL), min: 0 };
const WORDS: Kind = Kind::List { of: &Kind::Text(&WORD), min: 0 };

/// Femto-USD of a nano-USD.
const FEMTOS_OF_NANO: i128 = 1_000_000;

/// An amount in USD.
const FEMTOS: Form<Option<i128>> = Form {
    read: |value| match value {
        Checked::Price(usd) => Some(Some(i128::from(usd.nanos()) * FEMTOS_OF_NANO)),
        _ => None,
    },
    write: |_| String::new(),
};

pub(super) static GUARD: Section = Section {
    doc: "A guard of sessions, the runs of agents: it warns about a run or stops it. It needs at least one limit. A request without a session has no guard.",
    keys: &[
        key("match", Kind::Table(&MATCH), "all requests", "The requests that the guard applies to."),
        setting_or(
            "max_calls",
            Kind::Int { min: 1, max: 1_000_000_000 },
            field!(GuardSettings, limits.max_calls, Form::OPTIONAL_INT),
            "no limit",
            "The most requests of a session.",
        ),
        setting_or(
            "max_cost_usd",
            Kind::Price,
            field!(GuardSettings, limits.max_cost_femtos, FEMTOS),
            "no limit",
            "The cost at which a session may start no further request. A request counts when it is over.",
        ),
        setting_or(
            "max_minutes",
            Kind::Int { min: 1, max: 1_000_000 },
            field!(GuardSettings, limits.max_age, Form::OPTIONAL_MINUTES),
            "no limit",
            "The time since the first request of a session, after which it may start no further request.",
        ),
        setting_or(
            "max_repeats",
            Kind::Int { min: 1, max: 1_000 },
            field!(GuardSettings, limits.max_repeats, Form::OPTIONAL_INT),
            "no limit",
            "How often a session may make the same tool call: the same tool with the same arguments.",
        ),
        words_of(
            "action",
            words!(GuardSettings, action, "warn" => GuardAction::Warn, "stop" => GuardAction::Stop),
            "`warn`: the answer carries the warning `session_limit:<limit>`. `stop`: the request gets 429 `session_limit_reached`.",
        ),
    ],
};

static MATCH: Section = Section {
    doc: "The requests that a guard applies to. A request must match every list that is not empty.",
    keys: &[
        setting_or("keys", LABELS, field!(GuardSettings, keys, Form::TEXTS), "all", "Names or ids of keys."),
        setting_or(
            "aliases",
            WORDS,
            field!(GuardSettings, aliases, Form::TEXTS),
            "all",
            "Names of `[aliases]` that requests ask for.",
        ),
        setting_or("teams", LABELS, field!(GuardSettings, teams, Form::TEXTS), "all", "Teams of keys."),
    ],
};
