//! `[[budgets]]`.

use gw_engine::settings::{Budget, Limits, OnLimit, Period, RuleMode, RuleSettings, Threshold};

use super::super::binding::{Change, Form, field, filled, quoted, words};
use super::super::formats::{ALIAS, LABEL, ON_LIMIT, ROLLING_WINDOW, SPLIT, WORD};
use super::super::schema::{Kind, Section, key, required_setting, setting, setting_or, words_of};
use super::super::tree::{Checked, Node};
use super::aliases::TARGET_NAMES;
use super::keys::{PERIODS, RPM, TPM, UNPRICED};

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
            "There is a counter for each value: of `team`, `key`, `model`, `provider`, `end_user`, or `tag:NAME` (the tag `NAME:value`). \
             Requests without a value share one. `model` and `provider` are those of the target that serves.",
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
            Kind::ChoiceOr(&PERIODS, &ROLLING_WINDOW),
            &Change {
                form: Form {
                    read: |value| Period::parse_any(value.text()?),
                    write: |period| quoted(period.as_str()),
                },
                apply: |limits: &mut Limits, period| {
                    if let Some(budget) = &mut limits.budget {
                        budget.period = period;
                    }
                },
                default: |_| Some(Period::default()),
            },
            "The period of the budget, as `budget_period` of a key, or the last seconds, minutes, hours or days before now: an amount \
             counts for at least this time, and at most for a tenth of it more.",
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
        words_of(
            "mode",
            words!(RuleSettings, mode, "enforce" => RuleMode::Enforce, "shadow" => RuleMode::Shadow),
            "`enforce`: the rule refuses requests that it has no room for. `shadow`: it counts them, and they are served with the warning \
             `budget_shadow:NAME`.",
        ),
        setting(
            "on_limit",
            Kind::ChoiceOr(&[("refuse", &[])], &ON_LIMIT),
            field!(RuleSettings, on_limit, ON_LIMITS),
            "What becomes of a request that the rule has no room for. `refuse`: it gets 429. `fallback:ALIAS`: the alias serves it, \
             with the warning `budget_fallback:NAME`, if it fits all other rules. The request does not count in this rule.",
        ),
        setting_or(
            "thresholds",
            Kind::List { of: &Kind::Table(&THRESHOLD), min: 1 },
            field!(RuleSettings, thresholds, THRESHOLDS),
            "none",
            "Aliases that serve from a part of the budget on, such as `[{ at = 0.8, use = \"cheap\" }]`, with the warning \
             `budget_taper:NAME:0.8`. If no target of the alias can serve a request, it stays with the model that it asks for.",
        ),
    ],
};

/// The answer to a request for which a rule has no room.
const ON_LIMITS: Form<OnLimit> = Form {
    read: |value| match value.text()? {
        "refuse" => Some(OnLimit::Refuse),
        text => text.strip_prefix("fallback:").map(|alias| OnLimit::Fallback(alias.to_owned())),
    },
    write: |on_limit| match on_limit {
        OnLimit::Refuse => quoted("refuse"),
        OnLimit::Fallback(alias) => quoted(&format!("fallback:{alias}")),
    },
};

/// Thresholds of a budget.
const THRESHOLDS: Form<Vec<Threshold>> = Form {
    read: |value| {
        let Checked::List(nodes) = value else { return None };
        let threshold = |node: &Node| match &node.value {
            Checked::Table(table) => Some(filled::<Threshold>(Some(table))),
            _ => None,
        };
        Some(nodes.iter().filter_map(threshold).collect())
    },
    write: |_| String::new(),
};

pub(super) static THRESHOLD: Section = Section {
    doc: "A part of a budget from which on an alias serves. The part counts what is spent before the request.",
    keys: &[
        required_setting(
            "at",
            Kind::Price,
            &Change {
                form: Form::PRICE,
                apply: |threshold: &mut Threshold, part| threshold.nanos = part.nanos(),
                default: |_| None,
            },
            "The part of the budget: above 0, at most 1.",
        ),
        required_setting("use", Kind::Text(&ALIAS), field!(Threshold, alias, Form::TEXT), "The alias."),
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
        setting_or(
            "model",
            WORDS,
            field!(RuleSettings, models, TARGET_NAMES),
            "all",
            "Catalogue ids of the model that serves, such as `acme/*`. The rule belongs to targets: one without room is left out.",
        ),
        setting_or(
            "provider",
            WORDS,
            field!(RuleSettings, providers, TARGET_NAMES),
            "all",
            "Names of the provider that serves. The rule belongs to targets.",
        ),
    ],
};
