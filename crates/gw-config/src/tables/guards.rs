//! `[[guards]]`.

use super::super::formats::{LABEL, WORD};
use super::super::schema::{Kind, Section, key};

const LABELS: Kind = Kind::List { of: &Kind::Text(&LABEL), min: 0 };
const WORDS: Kind = Kind::List { of: &Kind::Text(&WORD), min: 0 };

pub(super) static GUARD: Section = Section {
    doc: "A guard of sessions, the runs of agents: it warns about a run or stops it. It needs at least one limit. A request without a session has no guard.",
    keys: &[
        key("match", Kind::Table(&MATCH), "all requests", "The requests that the guard applies to."),
        key(
            "max_calls",
            Kind::Int { min: 1, max: 1_000_000_000 },
            "no limit",
            "The most requests of a session.",
        ),
        key(
            "max_cost_usd",
            Kind::Price,
            "no limit",
            "The cost at which a session may start no further request. A request counts when it is over.",
        ),
        key(
            "max_minutes",
            Kind::Int { min: 1, max: 1_000_000 },
            "no limit",
            "The time since the first request of a session, after which it may start no further request.",
        ),
        key(
            "max_repeats",
            Kind::Int { min: 1, max: 1_000 },
            "no limit",
            "How often a session may make the same tool call: the same tool with the same arguments.",
        ),
        key(
            "action",
            Kind::Choice(&[("warn", &[]), ("stop", &[])]),
            "\"stop\"",
            "`warn`: the answer carries the warning `session_limit:<limit>`. `stop`: the request gets 429 `session_limit_reached`.",
        ),
    ],
};

static MATCH: Section = Section {
    doc: "The requests that a guard applies to. A request must match every list that is not empty.",
    keys: &[
        key("keys", LABELS, "all", "Names or ids of keys."),
        key("aliases", WORDS, "all", "Names of `[aliases]` that requests ask for."),
        key("teams", LABELS, "all", "Teams of keys."),
    ],
};
