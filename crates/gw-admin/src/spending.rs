//! The money that keys and teams have spent in the current periods of their budgets, in femto-USD.

use std::collections::HashMap;

use gw_store::ledger::{Filter, GroupBy};
use gw_store::limits::Limits;
use gw_store::{Period, Store};

use crate::error::AdminError;

/// The spending of one key (`GroupBy::Key`) or one team (`GroupBy::Team`). Returns 0 if it has no budget.
pub(crate) async fn spent_by_one(
    store: &Store,
    by: GroupBy,
    id: &str,
    limits: &Limits,
    now: i64,
) -> Result<i128, AdminError> {
    let Some(budget) = limits.budget else { return Ok(0) };
    let mut filter = current_period(budget.period, now);
    let name = if by == GroupBy::Team { &mut filter.team } else { &mut filter.key_id };
    *name = Some(id.to_owned());
    Ok(store.total(&filter).await?.cost)
}

/// The spending of several keys or teams by id, with one query for each kind of period.
pub(crate) async fn spent_by_each(
    store: &Store,
    by: GroupBy,
    limits: &[(&str, Limits)],
    now: i64,
) -> Result<HashMap<String, i128>, AdminError> {
    let mut spent = HashMap::new();
    let mut periods: Vec<Period> = Vec::new();
    for period in limits.iter().filter_map(|(_, limits)| Some(limits.budget?.period)) {
        if !periods.contains(&period) {
            periods.push(period);
        }
    }
    for period in periods {
        let has_period = |limits: &Limits| limits.budget.is_some_and(|budget| budget.period == period);
        let wanted: Vec<&str> =
            limits.iter().filter(|(_, limits)| has_period(limits)).map(|(id, _)| *id).collect();
        let sums = store.usage(by, &current_period(period, now)).await?;
        let sums = sums.into_iter().filter(|(id, _)| wanted.contains(&&**id));
        spent.extend(sums.map(|(id, sums)| (id, sums.cost)));
    }
    Ok(spent)
}

/// A filter for the period that contains `now` (unix seconds).
fn current_period(period: Period, now: i64) -> Filter {
    let (begin, end) = period.around(now);
    let millis = |moment: i64| moment.saturating_mul(1000);
    Filter {
        since: (begin > i64::MIN).then(|| millis(begin)),
        until: (end < i64::MAX).then(|| millis(end)),
        ..Filter::default()
    }
}
