//! `[[keys]]`.

use gw_engine::settings::{Budget, KeySettings, Limits, OnBudget, Period, UnpricedPolicy};

use super::super::binding::{Change, Form, field, quoted, words};
use super::super::formats::{CREDENTIAL, LABEL, PATTERN, ROLLING_PERIOD};
use super::super::schema::{Key, Kind, Section, Word, required_setting, setting, setting_or, words_of};

const PATTERNS: Kind = Kind::List { of: &Kind::Text(&PATTERN), min: 1 };

/// The periods of budgets.
pub(super) static PERIODS: [Word; Period::NAMES.len()] = {
    let mut words: [Word; Period::NAMES.len()] = [("", &[]); Period::NAMES.len()];
    let (mut left, mut names): (&mut [Word], &[&str]) = (&mut words, &Period::NAMES);
    while let ([word, words_after @ ..], [name, names_after @ ..]) = (left, names) {
        word.0 = name;
        (left, names) = (words_after, names_after);
    }
    words
};

pub(super) const PERIOD: Form<Period> =
    Form { read: |value| Period::parse(value.text()?), write: |period| quoted(period.as_str()) };

/// The limits of a key or a team.
pub(super) const RPM: Key = setting_or(
    "rpm",
    Kind::Int { min: 1, max: 10_000_000 },
    field!(Limits, rpm, Form::OPTIONAL_INT),
    "no limit",
    "The most generation requests in any 60 seconds.",
);
pub(super) const BURST: Key = setting_or(
    "burst",
    Kind::Int { min: 1, max: 10_000_000 },
    field!(Limits, burst, Form::OPTIONAL_INT),
    "all of `rpm`, in any 60 seconds",
    "The requests of `rpm` that may come at once. They refill evenly, so a minute has at most `burst` plus `rpm` requests. A value above `rpm` counts as `rpm`.",
);
pub(super) const TPM: Key = setting_or(
    "tpm",
    Kind::Int { min: 1, max: 1_000_000_000_000 },
    field!(Limits, tpm, Form::OPTIONAL_INT),
    "no limit",
    "The most tokens per minute, prompt and answer together.",
);
pub(super) const MAX_IN_FLIGHT: Key = setting_or(
    "max_in_flight",
    Kind::Int { min: 1, max: 1_000_000 },
    field!(Limits, max_in_flight, Form::OPTIONAL_INT),
    "no limit",
    "The most requests in flight.",
);
pub(super) const BUDGET_USD: Key = setting_or(
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
    "The amount that the key may spend in a period.",
);
/// Stands behind [`BUDGET_USD`] in every table.
pub(super) const BUDGET_PERIOD: Key = setting(
    "budget_period",
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
    "The period of the budget in the calendar of UTC. Weeks begin on Monday. `total` has no end. `30d` are the last 30 days before now: an amount counts for at least this time, and at most for 30 hours more (an hour for each day).",
);
pub(super) const ON_BUDGET: Key = words_of(
    "on_budget",
    words!(Limits, on_budget, "finish" | "refuse" => OnBudget::Finish, "cut" => OnBudget::Cut),
    "`finish`, also written `refuse`: a request starts only if the budget covers its worst case. `cut`: a request starts with the rest of the budget, and its answer is cut where the budget ends.",
);
pub(super) const UNPRICED: Key = words_of(
    "unpriced",
    words!(Limits, unpriced, "allow" => UnpricedPolicy::Allow, "refuse" => UnpricedPolicy::Refuse),
    "Whether a request to a model whose price is unknown may pass. `allow`: the budget counts the known part of its cost. `refuse`: it gets 429 `insufficient_quota` before anything is sent.",
);

pub(super) static KEY: Section = Section {
    doc: "A key that clients use to call the gateway. The gateway keeps only its hash.",
    keys: &[
        setting_or(
            "name",
            Kind::Text(&LABEL),
            field!(KeySettings, name, Form::TEXT),
            "`key-1`, `key-2`, … by position",
            "The name shown in lists and reports.",
        ),
        required_setting(
            "key",
            Kind::Secret(&CREDENTIAL),
            field!(KeySettings, key, Form::SECRET),
            "The key: any text that is not blank.",
        ),
        setting(
            "role",
            Kind::Choice(&[("inference", &[]), ("viewer", &[]), ("operator", &[]), ("admin", &[])]),
            field!(KeySettings, role, Form::ROLE),
            "`inference` may use `/v1`. `viewer` may read the metrics and the management API, but not stored prompts. `operator` may also use `/v1`, see stored prompts, change keys, teams and the cache, and reload the configuration. `admin` may change everything.",
        ),
        setting_or(
            "models",
            PATTERNS,
            field!(KeySettings, models, Form::OPTIONAL_TEXTS),
            "all",
            "The models that the key may use, such as `[\"acme/*\"]`.",
        ),
        RPM,
        BURST,
        TPM,
        MAX_IN_FLIGHT,
        BUDGET_USD,
        BUDGET_PERIOD,
        ON_BUDGET,
        UNPRICED,
        setting(
            "log_payloads",
            Kind::Bool,
            field!(KeySettings, log_payloads, Form::BOOL),
            "Whether the texts of its requests and answers are stored, as `[store.payloads]` describes.",
        ),
        setting(
            "trust_attribution",
            Kind::Bool,
            field!(KeySettings, trust_attribution, Form::BOOL),
            "Whether the gateway believes the end user and the tags that its requests name. Leave it off for keys that the end users hold themselves.",
        ),
        setting_or(
            "expires_at",
            Kind::Time,
            field!(KeySettings, expires_at, Form::OPTIONAL_TIME),
            "never",
            "The time at which the key expires.",
        ),
    ],
};
