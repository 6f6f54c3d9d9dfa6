//! The state of a counter, as clients and operators see it, and the error of its refusal.

use std::collections::BTreeMap;
use std::time::Duration;

use gw_limits::{Refusal, SubjectUse};
use gw_store::limits::{Period, format_unix_seconds};
use gw_wire::money::Money;
use serde::Serialize;
use serde_json::value::RawValue;

use super::counter::Counter;
use super::request_rules::Need;
use crate::clock::unix_seconds;
use crate::error::{Error, Kind, RefusingRule};
use crate::limit_error;
use crate::limit_use::{admission_refusal, reservation_refusal};
use crate::settings::{RuleMode, RuleSettings};

/// The share of a limit that is left is counted in parts of this.
const WHOLE: i128 = 1_000_000_000;

/// The state of a counter. A member is None if the rule has no such limit.
#[derive(Clone, Debug, Serialize)]
pub struct RuleState {
    name: String,
    mode: &'static str,
    period: &'static str,
    split: BTreeMap<String, Option<String>>,
    budget_usd: Option<Box<RawValue>>,
    spent_usd: Option<Box<RawValue>>,
    reserved_usd: Option<Box<RawValue>>,
    left_usd: Option<Box<RawValue>>,
    rpm: Option<u32>,
    requests_left: Option<u32>,
    tpm: Option<u64>,
    tokens_left: Option<u64>,
    in_flight: Option<u32>,
    in_flight_left: Option<u32>,
    resets_at: Option<String>,
    fits: bool,
    binds: bool,
    /// Requests that the rule would have refused. Only operators see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_refuse: Option<u64>,
}

/// A rule with its counters, as operators see it.
#[derive(Clone, Debug, Serialize)]
pub struct RuleObject {
    name: String,
    mode: &'static str,
    period: &'static str,
    counters: Vec<RuleState>,
}

impl RuleObject {
    /// A rule with its counters.
    pub(crate) fn new(
        settings: &RuleSettings,
        period: &'static str,
        counters: &[Counter],
        mut states: Vec<RuleState>,
    ) -> Self {
        for (state, counter) in states.iter_mut().zip(counters) {
            state.would_refuse = Some(counter.subject.would_refuse());
        }
        Self { name: settings.name.clone(), mode: settings.mode.as_str(), period, counters: states }
    }
}

/// The states of counters for a request with this need.
pub(crate) fn states(counters: &[Counter], uses: &[SubjectUse], (tokens, femtos): Need) -> Vec<RuleState> {
    let fits = |used: &SubjectUse| {
        admission_refusal(used).or_else(|| reservation_refusal(used, tokens, femtos)).is_none()
    };
    let mut states: Vec<RuleState> =
        counters.iter().zip(uses).map(|(counter, used)| state(counter, used, fits(used))).collect();
    // A rule in shadow mode binds only if there is no other.
    let is_shadow =
        |index: usize| counters.get(index).is_some_and(|counter| counter.settings.mode == RuleMode::Shadow);
    let refusing = states.iter().enumerate().position(|(index, state)| !state.fits && !is_shadow(index));
    let tightest = || {
        let shares = uses.iter().enumerate();
        shares.min_by_key(|(index, used)| (is_shadow(*index), share_left(used))).map(|(index, _)| index)
    };
    if let Some(binding) = refusing.or_else(tightest).and_then(|index| states.get_mut(index)) {
        binding.binds = true;
    }
    states
}

fn state(counter: &Counter, used: &SubjectUse, fits: bool) -> RuleState {
    let limits = used.limits;
    let period = limits.budget.map(|budget| budget.period).unwrap_or_default();
    RuleState {
        name: counter.settings.name.clone(),
        mode: counter.settings.mode.as_str(),
        period: period.as_str(),
        split: counter.split.iter().cloned().collect(),
        budget_usd: limits.budget.and_then(|budget| usd(budget.femtos())),
        spent_usd: used.budget.and_then(|spending| usd(spending.spent_femtos)),
        reserved_usd: used.budget.and_then(|spending| usd(spending.reserved_femtos)),
        left_usd: used.left_femtos().and_then(usd),
        rpm: limits.rpm,
        requests_left: used.requests.map(|state| state.remaining),
        tpm: limits.tpm,
        tokens_left: used.tokens.map(|state| state.remaining),
        in_flight: limits.max_in_flight,
        in_flight_left: limits
            .max_in_flight
            .zip(used.in_flight)
            .map(|(limit, count)| limit.saturating_sub(count)),
        resets_at: limits.budget.and_then(|budget| end_of(budget.period)),
        fits,
        binds: false,
        would_refuse: None,
    }
}

fn usd(femtos: i128) -> Option<Box<RawValue>> {
    RawValue::from_string(Money::from_femtos(femtos).to_string()).ok()
}

/// The smallest share of a limit that is left.
fn share_left(used: &SubjectUse) -> i128 {
    let share = |left: i128, limit: i128| left.saturating_mul(WHOLE) / limit.max(1);
    let requests = used.requests.map(|state| share(state.remaining.into(), state.limit.into()));
    let tokens = used.tokens.map(|state| share(state.remaining.into(), state.limit.into()));
    let in_flight = used
        .limits
        .max_in_flight
        .zip(used.in_flight)
        .map(|(limit, count)| share(limit.saturating_sub(count).into(), limit.into()));
    let money = used.limits.budget.map(|budget| share(used.left_femtos().unwrap_or(0), budget.femtos()));
    [requests, tokens, in_flight, money].into_iter().flatten().min().unwrap_or(WHOLE)
}

/// The end of a budget's period. None for a period without an end.
fn end_of(period: Period) -> Option<String> {
    let end = period.around(i64::try_from(unix_seconds()).unwrap_or(i64::MAX)).1;
    (end < i64::MAX).then(|| format_unix_seconds(end))
}

/// The error of a rule that refuses requests whose cost nobody can know.
pub(super) fn unpriced_error(counter: &Counter, model: &str) -> Error {
    let RuleSettings { name, limits, .. } = &*counter.settings;
    let resets_at = limits.budget.and_then(|budget| end_of(budget.period));
    let mut error = limit_error::unpriced(&format!("rule '{name}'"), model);
    // No alias serves in the place of a model without a price: its client has to learn which model it is.
    let (place, name) = (counter.place, name.clone());
    let rule = RefusingRule { place, name, is_full: false, resets_at, spent_counter: None };
    error.rule = Some(Box::new(rule));
    error
}

/// The error of a rule's refusal.
pub(super) fn refusal_error(counter: &Counter, used: &SubjectUse, refusal: &Refusal) -> Error {
    let name = &counter.settings.name;
    let (kind, message, wait) = match *refusal {
        Refusal::Requests { limit, retry_after, .. } => {
            (Kind::RateLimitExceeded, format!("it allows {limit} requests per minute."), Some(retry_after))
        }
        Refusal::Tokens { limit, wanted, retry_after, .. } => {
            let message = format!("it allows {limit} tokens per minute, and this request may need {wanted}.");
            (Kind::RateLimitExceeded, message, Some(retry_after.unwrap_or(Duration::from_secs(60))))
        }
        Refusal::InFlight { limit, .. } => {
            (Kind::RateLimitExceeded, format!("it allows {limit} requests in flight."), None)
        }
        Refusal::Budget { .. } => (Kind::InsufficientQuota, over_budget(used), None),
        Refusal::StoreUnavailable => {
            let message = "its spending cannot be looked up now.".to_owned();
            (Kind::BudgetStoreUnavailable, message, Some(Duration::from_secs(5)))
        }
    };
    let resets_at = match *refusal {
        Refusal::Budget { .. } => used.limits.budget.and_then(|budget| end_of(budget.period)),
        Refusal::Requests { .. } | Refusal::Tokens { .. } => wait.map(after),
        Refusal::InFlight { .. } | Refusal::StoreUnavailable => None,
    };
    let mut error = Error::new(kind, format!("The request is refused by rule '{name}': {message}"));
    error.is_final = matches!(refusal, Refusal::Tokens { retry_after: None, .. });
    error.retry_after = match kind {
        Kind::InsufficientQuota => None,
        _ => Some(wait.unwrap_or(Duration::from_secs(1)).max(Duration::from_secs(1))),
    };
    let spent_counter = matches!(refusal, Refusal::Budget { .. }).then(|| counter.subject.id().to_owned());
    let is_full = !matches!(refusal, Refusal::StoreUnavailable);
    let rule = RefusingRule { place: counter.place, name: name.clone(), is_full, resets_at, spent_counter };
    error.rule = Some(Box::new(rule));
    error
}

fn over_budget(used: &SubjectUse) -> String {
    let amount = |femtos: i128| Money::from_femtos(femtos).to_string();
    let budget = used.limits.budget;
    let limit = amount(budget.map(|budget| budget.femtos()).unwrap_or_default());
    let (spent, reserved) =
        used.budget.map(|spending| (spending.spent_femtos, spending.reserved_femtos)).unwrap_or_default();
    let anew = match budget.and_then(|budget| Some((budget.period, end_of(budget.period)?))) {
        // This place does not know when the next amount was spent, so the end of the step is no promise.
        Some((period, end)) if period.step().is_some() => {
            let name = period.as_str();
            format!(" Its period is the last {name}: what was spent longest ago may leave it from {end} on.")
        }
        Some((_, end)) => format!(" It begins anew at {end}."),
        None => String::new(),
    };
    let (spent, reserved) = (amount(spent), amount(reserved));
    format!(
        "{spent} USD of its budget of {limit} USD are spent and {reserved} USD are reserved, which leaves too little for the highest possible cost of this request.{anew}"
    )
}

/// The time after this wait, rounded up to a second.
fn after(wait: Duration) -> String {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    format_unix_seconds(i64::try_from(unix_seconds().saturating_add(seconds)).unwrap_or(i64::MAX))
}
