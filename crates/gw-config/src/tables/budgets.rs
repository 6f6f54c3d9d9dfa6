//! `[[budgets]]`.

use gw_engine::settings::{Budget, Limits, Period, RuleSettings};

use super::super::binding::{Change, Form, field};
use super::super::formats::{LABEL, ROLLING_PERIOD, SPLIT, WORD};
use super::super::schema::{Kind, Section, key, required_setting, setting, setting_or};
use super::aliases::TARGET_NAMES;
use super::keys::{PERIOD, PERIODS, RPM, TPM, UNPRICED};

const LABELS: Kind = Kind::Either(&Kind::Text(&LABEL), &Kind::List { of: &Kind::Text(&LABEL), min: 1 });
const WORDS: Kind = Kind::Either(&Kind::Text(&WORD), &Kind::List { of: &Kind::Text(&WORD), min: 1 });
const SPLITS: Kind = Kind::Either(&Kind::Text(&SPLIT), &Kind::List { of: &Kind::Text(&SPLIT), min: 1 });

pub(super) static BUDGET: Section = Section {
    doc: "A rule: limits and a budget of all requests that it matches. It needs at least one of `budget_usd`, `rpm`, `tpm` and \
          `in_flight`. `docs/keys.md` describes rules.",
    keys: &[
        required_setting(
            "name",
            Kind::Text(&LABEL),
            field!(RuleSettings, name, Form::TEXT),
            "The name in refusals and reports. No two rules share one.",
        ),
        key("match", Kind::Table(&MATCH), "all requests", "The requests that the rule counts."),
        setting_or(
            "split_by",
            SPLITS,
            field!(RuleSettings, split_by, TARGET_NAMES),
            "one counter",
            "There is a counter for each value: of `team`, `key`, `end_user`, or `tag:NAME` (the tag `NAME:value`). Requests without \
             a value share one.",
        ),
        setting_or(
            "budget_usd",
            Kind::Price,
            &Change {
                form: Form::PRICE,
                // The nanos of a price in USD are nano-USD.
                apply: |limits: &mut Limits, usd| {
                    limits.budget = Some(Budget { nano: usd.nanos(), period: Period::default() });
                },
                default: |_| None,
            },
            "no limit",
            "The amount that the requests of a counter may cost in a period.",
        ),
        setting(
            "period",
            Kind::ChoiceOr(&PERIODS, &ROLLING_PERIOD),
            &Change {
                form: PERIOD,
                apply: |limits: &mut Limits, period| {
                    if let Some(budget) = &mut limits.budget {
                        budget.period = period;
                    }
                },
                default: |_| Some(Period::default()),
            },
            "The period of the budget, as `budget_period` of a key.",
        ),
        RPM,
        TPM,
        setting_or(
            "in_flight",
            Kind::Int { min: 1, max: 1_000_000 },
            field!(Limits, max_in_flight, Form::OPTIONAL_INT),
            "no limit",
            "The most requests in flight.",
        ),
        UNPRICED,
    ],
};

static MATCH: Section = Section {
    doc: "The requests that a rule counts. A request must match every member that is there, and one value of each.",
    keys: &[
        setting_or("team", LABELS, field!(RuleSettings, teams, TARGET_NAMES), "all", "Teams of keys."),
        setting_or("key", LABELS, field!(RuleSettings, keys, TARGET_NAMES), "all", "Names or ids of keys."),
        setting_or(
            "tag",
            WORDS,
            field!(RuleSettings, tags, TARGET_NAMES),
            "all",
            "Tags of requests, such as `project:*`. They count for keys with `trust_attribution`.",
        ),
        setting_or(
            "end_user",
            WORDS,
            field!(RuleSettings, end_users, TARGET_NAMES),
            "all",
            "End users of requests. They count for keys with `trust_attribution`.",
        ),
    ],
};
