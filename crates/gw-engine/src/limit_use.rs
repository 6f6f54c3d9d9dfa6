//! How far the limits of keys and teams are used up, for the holder of a key and for the metrics.

use std::sync::Arc;
use std::time::Duration;

use gw_limits::Refusal;
pub use gw_limits::{BudgetUse, RateState, SubjectKind, SubjectUse, TokenState};

use crate::clock::unix_seconds;

/// The use of the limits of a key or a team, with its name.
#[derive(Clone, Debug)]
pub struct NamedUse {
    /// The name of the key, or the id of the team.
    pub name: Arc<str>,
    /// The use.
    pub used: SubjectUse,
}

/// Whether a rule refuses.
pub(crate) fn is_of_rule(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Requests { subject, .. }
        | Refusal::Tokens { subject, .. }
        | Refusal::InFlight { subject, .. }
        | Refusal::Budget { subject, .. } => *subject == SubjectKind::Rule,
        Refusal::StoreUnavailable => false,
    }
}

/// The refusal of a request before its body is known.
pub(crate) fn admission_refusal(used: &SubjectUse) -> Option<Refusal> {
    rate_refusal(used).or_else(|| budget_refusal(used, 1))
}

/// The refusal of a limit of requests.
pub(crate) fn rate_refusal(used: &SubjectUse) -> Option<Refusal> {
    let subject = used.kind;
    if let Some(state) = used.requests.filter(|state| state.remaining == 0) {
        return Some(Refusal::Requests { subject, limit: state.limit, retry_after: state.reset });
    }
    let limit = used.limits.max_in_flight;
    if let Some((limit, _)) = limit.zip(used.in_flight).filter(|(limit, count)| count >= limit) {
        return Some(Refusal::InFlight { subject, limit });
    }
    None
}

/// The refusal of a request that may need so many tokens and so much money.
pub(crate) fn reservation_refusal(used: &SubjectUse, wanted: u64, femtos: i128) -> Option<Refusal> {
    let subject = used.kind;
    if let Some(state) = used.tokens.filter(|state| wanted > state.remaining) {
        let retry_after = (wanted <= state.limit).then_some(state.reset);
        return Some(Refusal::Tokens { subject, limit: state.limit, wanted, retry_after });
    }
    budget_refusal(used, femtos)
}

/// The refusal of a budget that has less left than this.
fn budget_refusal(used: &SubjectUse, needed_femtos: i128) -> Option<Refusal> {
    const NANO_USD: i128 = 1_000_000;
    let budget = used.limits.budget?;
    let Some(spending) = used.budget else { return Some(Refusal::StoreUnavailable) };
    let left = budget.femtos() - spending.spent_femtos - spending.reserved_femtos;
    if left >= needed_femtos {
        return None;
    }
    let now = unix_seconds();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let end = budget.period.around(now).1;
    let resets_in =
        (end < i64::MAX).then(|| Duration::from_secs(u64::try_from(end.saturating_sub(now)).unwrap_or(0)));
    let left_nano = u64::try_from(left.max(0) / NANO_USD).unwrap_or(u64::MAX);
    Some(Refusal::Budget { subject: used.kind, period: budget.period, resets_in, left_nano })
}
