//! The spending of a counter in a window that is shorter than the sums of the ledger, which are hourly.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use gw_limits::LedgerUnavailable;
use gw_store::Store;
use gw_store::ledger::{Cursor, Entry, Filter};

use super::names::fit;
use super::{HOUR, filters, is_of_keys, is_of_team, key_ids, rule_sum, tags, unavailable};
use crate::clock::unix_seconds;
use crate::rules::counter::CounterId;

/// Rows of a page of the request log.
const PAGE_ROWS: u32 = 1_000;
/// The most pages that are read for a filter of a short window.
const MAX_PAGES: usize = if cfg!(test) { 2 } else { 200 };
/// The most keys whose rows are read one after the other.
const MAX_KEYS: usize = 64;

/// The cost of the requests of a counter in a time, by the steps in which they began.
pub(super) async fn exact_steps(
    store: &Store,
    counter: &CounterId,
    (from, until): (i64, Option<i64>),
    step: i64,
) -> Result<Vec<(i64, i128)>, LedgerUnavailable> {
    let keys = key_ids(store, counter).await?;
    let time = Filter {
        since: Some(from.saturating_mul(1000)),
        until: until.map(|until| until.saturating_mul(1000)),
        ..Filter::default()
    };
    let tags = tags(store, counter, &time).await?;
    let (mut steps, mut seen): (BTreeMap<i64, i128>, HashSet<Arc<str>>) = Default::default();
    let is_counted = |row: &Entry| {
        let names = row.attribution.as_deref();
        let tags = names.map_or(&[][..], |names| &names.tags);
        is_of_keys(keys.as_deref(), &row.key_id)
            && is_of_team(counter, row.team.as_deref())
            && fit(counter, tags, names.is_some_and(|names| names.end_user.is_some()))
    };
    let filters = filters(store, counter, &time, &tags).await?;
    for filter in filters.iter().flat_map(|filter| of_each_key(filter, keys.as_deref())) {
        let mut after = None;
        for page in 0.. {
            if page == MAX_PAGES {
                return hourly_steps(store, counter, (from, until), step).await;
            }
            let rows = store.requests(&filter, after.as_ref(), PAGE_ROWS).await;
            let rows = rows.map_err(|error| unavailable(&error))?;
            for row in rows.iter().filter(|row| is_counted(row)) {
                // A request with two of the tags is found for each of them.
                if tags.len() > 1 && !seen.insert(Arc::clone(&row.request_id)) {
                    continue;
                }
                let at = row.at.div_euclid(1000);
                let sum = steps.entry(at - at.rem_euclid(step)).or_default();
                *sum = sum.saturating_add(row.cost);
            }
            let is_full = rows.len() == PAGE_ROWS as usize;
            let Some(last) = rows.last().filter(|_| is_full) else { break };
            after = Some(Cursor { at: last.at, request_id: Arc::clone(&last.request_id) });
        }
    }
    Ok(steps.into_iter().collect())
}

/// The filter for each of these keys. With many keys it is one filter, whose rows are those of all keys.
fn of_each_key(filter: &Filter, keys: Option<&[String]>) -> Vec<Filter> {
    match keys.filter(|keys| keys.len() <= MAX_KEYS) {
        Some(keys) => keys.iter().map(|key| Filter { key_id: Some(key.clone()), ..filter.clone() }).collect(),
        None => vec![filter.clone()],
    }
}

/// As [`exact_steps`], from the sums of whole hours, if the time has too many rows to read. The cost of an hour counts in its last step: a
/// budget may end too early, and never too late.
async fn hourly_steps(
    store: &Store,
    counter: &CounterId,
    (from, until): (i64, Option<i64>),
    step: i64,
) -> Result<Vec<(i64, i128)>, LedgerUnavailable> {
    let now = i64::try_from(unix_seconds()).unwrap_or(i64::MAX);
    let end = until.unwrap_or_else(|| now.saturating_add(1));
    let mut hour = from.div_euclid(HOUR).saturating_mul(HOUR);
    let mut steps = Vec::new();
    while hour < end {
        let next = hour.saturating_add(HOUR);
        let sum = rule_sum(store, counter, hour, (until.is_some() || next < end).then_some(next)).await?;
        let last = next.min(end).saturating_sub(1);
        steps.push((last - last.rem_euclid(step), sum));
        hour = next;
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::counter::MatchedNames;

    /// The begin of an hour.
    const BEGIN: i64 = 497_000 * HOUR;
    const STEP: i64 = 900;
    const COST: i128 = 1_000_000;

    fn row(number: i64, key: &str) -> Entry {
        Entry {
            request_id: format!("req_{key}{number:05}").into(),
            at: (BEGIN + 1_800 + number) * 1_000,
            key_id: key.into(),
            status: "ok".into(),
            cost: COST,
            ..Entry::default()
        }
    }

    async fn steps(rows: &[Entry]) -> Vec<(i64, i128)> {
        let store = Store::in_memory().await.unwrap();
        for part in rows.chunks(1_000) {
            store.record(part).await.unwrap();
        }
        let matched = MatchedNames { keys: vec!["mine".to_owned()], ..MatchedNames::default() };
        let counter = CounterId { rule: "r".to_owned(), matched, split: Vec::new() };
        exact_steps(&store, &counter, (BEGIN + STEP, Some(BEGIN + 2 * HOUR)), STEP).await.unwrap()
    }

    #[tokio::test]
    async fn rows_of_other_keys_are_not_read() {
        let mut rows: Vec<_> = (0..5_000).map(|number| row(number, "other")).collect();
        rows.extend([0, 1, 899, 900, 2_000].map(|number| row(number, "mine")));
        let expected = [(1_800, 3), (2_700, 1), (3_600, 1)];
        let expected = expected.map(|(begin, count)| (BEGIN + begin, count * COST));
        assert_eq!(steps(&rows).await, expected);
    }

    #[tokio::test]
    async fn too_many_rows_count_by_the_hour_and_in_its_last_step() {
        let rows: Vec<_> = (0..2_500).map(|number| row(number, "mine")).collect();
        let expected = [(2_700, 1_800), (6_300, 700)];
        assert_eq!(steps(&rows).await, expected.map(|(begin, count)| (BEGIN + begin, count * COST)));
    }
}
