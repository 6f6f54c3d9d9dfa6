//! Reports about spans from blocks on both databases, compared with the rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use gw_wire::attribution::{Attribution, Dimension};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::Store;
use crate::ledger::{Cursor, Entry, Filter, GroupBy, Sums, Tokens, UsageByName};
use crate::sql::Sql;
use crate::testing::on_both;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
/// The first of eight days is the second one.
const BEGIN: i64 = 19_999 * DAY;
const DAYS: i64 = 11;

/// A random request. Many names cost the same, and some cost nothing.
fn entry(random: &mut TestRng, number: usize) -> Entry {
    let mut pick = |count: u64| random.next_u64() % count;
    let user = pick(60);
    let tags = (0..pick(4)).map(|n| format!("t{}", n * 7 + user % 7).into()).collect();
    let attribution = Attribution {
        end_user: (pick(5) > 0).then(|| format!("user-{user}").into()),
        tags,
        repository: (pick(2) == 0).then(|| format!("acme/r{}", pick(3)).into()),
        branch: (pick(3) == 0).then(|| "b\\\"1:x".into()),
        pull_request: None,
    };
    let cost = [0, 1, 999_999, 1_000_000, 1_234_567_890_123][pick(5) as usize];
    Entry {
        request_id: format!("req_{number:06}").into(),
        at: BEGIN + i64::try_from(pick((DAYS * DAY) as u64)).unwrap(),
        key_id: format!("key-{}", pick(2)).into(),
        operation: "chat".into(),
        model: format!("acme/m{}", pick(3)).into(),
        provider: "acme".into(),
        status: if pick(9) == 0 { "timeout" } else { "ok" }.to_owned().into(),
        tokens: Tokens { prompt: pick(1_000), completion: pick(300), ..Tokens::default() },
        cost,
        saved: i128::from(pick(3)) * 77,
        unpriced: pick(11) == 0,
        attribution: (!attribution.is_empty()).then(|| Arc::new(attribution)),
        ..Entry::default()
    }
}

fn entries(random: &mut TestRng, numbers: std::ops::Range<usize>) -> Vec<Entry> {
    numbers.map(|number| entry(random, number)).collect()
}

fn sums_of<'e>(entries: impl Iterator<Item = &'e Entry>) -> Sums {
    entries.fold(Sums::default(), |mut sums, entry| {
        sums.add(entry);
        sums
    })
}

fn expected(rows: &[Entry], dimension: Dimension, filter: &Filter, limit: usize) -> UsageByName {
    let floor = |at: i64| at.div_euclid(HOUR) * HOUR;
    let fitting: Vec<&Entry> = rows
        .iter()
        .filter(|entry| filter.since.is_none_or(|since| entry.at >= floor(since)))
        .filter(|entry| filter.until.is_none_or(|until| entry.at < floor(until - 1) + HOUR))
        .collect();
    let names = |entry: &Entry| -> Vec<String> {
        let attribution = entry.attribution.clone().unwrap_or_default();
        let own = attribution.names().filter(|(kind, _)| *kind == dimension);
        own.map(|(_, name)| name.to_owned()).collect()
    };
    let mut by_name: BTreeMap<String, Sums> = BTreeMap::new();
    for entry in &fitting {
        for name in names(entry) {
            by_name.entry(name).or_default().add(entry);
        }
    }
    let mut listed: Vec<_> = by_name.into_iter().collect();
    listed.sort_by(|(one, costs), (other, more)| more.cost.cmp(&costs.cost).then_with(|| one.cmp(other)));
    let rest = listed.split_off(limit.min(listed.len()));
    UsageByName {
        listed,
        others: Sums::of(rest.iter().map(|(_, sums)| sums)),
        unnamed: sums_of(fitting.iter().copied().filter(|entry| names(entry).is_empty())),
        total: sums_of(fitting.iter().copied()),
    }
}

async fn compare(store: &Store, rows: &[Entry], random: &mut TestRng, reports: usize, are_packed: bool) {
    for number in 0..reports {
        let mut moment =
            || BEGIN - DAY + i64::try_from(random.next_u64() % ((DAYS + 2) * DAY) as u64).unwrap();
        let (one, other) = (moment(), moment());
        let filter = Filter {
            since: (number % 7 != 0).then_some(one.min(other)),
            until: (number % 5 != 0).then_some(one.max(other) + 1),
            ..Filter::default()
        };
        for dimension in Dimension::ALL {
            for limit in [2, 1_000] {
                let wanted = expected(rows, dimension, &filter, limit as usize);
                let found = store.usage_by_name(dimension, &filter, limit).await.unwrap();
                assert_eq!(found, wanted, "{dimension:?} {limit} {filter:?}");
                if are_packed && wanted.total.requests > 0 && filter.since.is_some() {
                    let packed = store.usage_by_blocks(dimension, &filter, limit).await.unwrap();
                    assert_eq!(packed, Some(wanted), "{dimension:?} {limit} {filter:?}");
                }
            }
        }
    }
    compare_hours(store, rows, random).await;
    compare_pages(store, rows, random, reports * 4).await;
}

/// The report of a random name by hour is that of the rows.
async fn compare_hours(store: &Store, rows: &[Entry], random: &mut TestRng) {
    let floor = |at: i64| at.div_euclid(HOUR) * HOUR;
    for name in ["user-3", "user-17", "none"] {
        let since = BEGIN + i64::try_from(random.next_u64() % (DAYS * DAY) as u64).unwrap();
        let until = since + 1 + i64::try_from(random.next_u64() % (DAYS * DAY) as u64).unwrap();
        for (since, until) in [(None, None), (Some(since), Some(until)), (None, Some(since))] {
            let names = vec![(Dimension::EndUser, name.to_owned())];
            let filter = Filter { since, until, names, ..Filter::default() };
            let mut wanted: BTreeMap<String, Sums> = BTreeMap::new();
            for row in rows {
                let is_named = row.attribution.as_ref().is_some_and(|own| own.has(Dimension::EndUser, name));
                let is_late_enough = since.is_none_or(|since| row.at >= floor(since));
                if is_named && is_late_enough && until.is_none_or(|until| row.at < floor(until - 1) + HOUR) {
                    wanted.entry((floor(row.at) / 1_000).to_string()).or_default().add(row);
                }
            }
            let found = store.usage(GroupBy::Hour, &filter).await.unwrap();
            assert!(found.is_sorted_by(|(_, one), (_, other)| one.cost >= other.cost), "{filter:?}");
            assert_eq!(BTreeMap::from_iter(found), wanted, "{filter:?}");
        }
    }
}

/// The pages of the log with random names, columns and states are those of the rows.
async fn compare_pages(store: &Store, rows: &[Entry], random: &mut TestRng, filters: usize) {
    for number in 0..filters {
        let mut pick = |count: u64| random.next_u64() % count;
        let names: &[(Dimension, String)] = &[
            (Dimension::EndUser, format!("user-{}", pick(61))),
            (Dimension::Tag, format!("t{}", pick(23))),
            (Dimension::Repository, format!("acme/r{}", pick(3))),
            (Dimension::Branch, "b\\\"1:x".to_owned()),
            (Dimension::Tag, String::new()),
        ];
        let first = pick(4) as usize;
        let moment = BEGIN - DAY + i64::try_from(pick(((DAYS + 2) * DAY) as u64)).unwrap();
        let filter = Filter {
            since: (pick(3) == 0).then_some(moment),
            until: (pick(3) == 0).then_some(moment + i64::try_from(pick(3 * DAY as u64)).unwrap()),
            key_id: (pick(4) == 0).then(|| "key-1".to_owned()),
            model: (pick(4) == 0).then(|| "acme/m2".to_owned()),
            surface: (pick(6) == 0).then(|| "chat".to_owned()),
            names: names[first..=first + usize::from(pick(3) == 0)].to_vec(),
            status: [None, Some("ok"), Some("failed"), Some("timeout"), Some("quota")][pick(5) as usize]
                .map(str::to_owned),
            ..Filter::default()
        };
        let has_status = |entry: &Entry| match filter.status.as_deref() {
            None => true,
            Some("failed") => entry.status != "ok",
            Some(status) => entry.status == status,
        };
        let mut wanted: Vec<&Entry> = rows
            .iter()
            .filter(|entry| filter.since.is_none_or(|since| entry.at >= since))
            .filter(|entry| filter.until.is_none_or(|until| entry.at < until))
            .filter(|entry| filter.key_id.as_ref().is_none_or(|id| **id == *entry.key_id))
            .filter(|entry| filter.model.as_ref().is_none_or(|model| **model == *entry.model))
            .filter(|entry| has_status(entry))
            .filter(|entry| {
                filter.names.iter().all(|(dimension, name)| {
                    entry.attribution.as_ref().is_some_and(|own| match name.is_empty() {
                        true => !own.tags.is_empty(),
                        false => own.has(*dimension, name),
                    })
                })
            })
            .collect();
        wanted.sort_by(|one, other| (other.at, &other.request_id).cmp(&(one.at, &one.request_id)));
        let limit = [1, 7, 1_000][number % 3];
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = store.requests(&filter, after.as_ref(), limit).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(Cursor { at: last.at, request_id: last.request_id.clone() });
            let is_last = page.len() < limit as usize;
            found.extend(page);
            if is_last {
                break;
            }
        }
        let ids = |entries: &mut dyn Iterator<Item = &Entry>| -> Vec<String> {
            entries.map(|entry| entry.request_id.to_string()).collect()
        };
        assert_eq!(ids(&mut found.iter()), ids(&mut wanted.into_iter()), "{limit} {filter:?}");
    }
}

async fn count(store: &Store, table: &'static str) -> i64 {
    let mut sql = Sql::new("SELECT count(*) AS rows FROM ");
    sql.push(table);
    store.only(sql, |row| row.get("rows")).await.unwrap()
}

/// The number of kinds that have a block of eight days.
async fn weeks(store: &Store) -> i64 {
    let sql = Sql::new("SELECT count(*) AS rows FROM usage_name_blocks WHERE level = 2");
    store.only(sql, |row| row.get("rows")).await.unwrap()
}

#[tokio::test]
async fn reports_of_random_spans_are_those_of_random_rows() {
    on_both(async |place| {
        let random = &mut TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let store = place.open().await;
        let mut rows = entries(random, 0..500);
        store.record(&rows).await.unwrap();
        compare(&store, &rows, random, 2, false).await;
        // Two days and a half are added up; then come late rows, and rows of open hours.
        let before = (BEGIN + 9 * DAY + 13 * HOUR) / 1_000;
        assert!(store.roll_up_names(before + 59).await.unwrap() > 40);
        compare(&store, &rows, random, 5, false).await;
        let more = entries(random, 500..650);
        store.record(&more).await.unwrap();
        store.record(&rows[..9]).await.unwrap();
        rows.extend(more);
        assert!(count(&store, "usage_name_late").await > 20);
        compare(&store, &rows, random, 5, false).await;
        // Late rows go to the blocks that are there, and a second look finds nothing.
        assert_eq!(store.roll_up_names(before).await.unwrap(), 0);
        assert_eq!(count(&store, "usage_name_late").await, 0);
        compare(&store, &rows, random, 5, false).await;
        let more = entries(random, 650..700);
        store.record(&more).await.unwrap();
        rows.extend(more);
        store.roll_up_names((BEGIN + (DAYS + 2) * DAY) / 1_000).await.unwrap();
        compare(&store, &rows, random, 5, true).await;
        store.close().await;
        let store = place.open().await;
        compare(&store, &rows, random, 2, true).await;
    })
    .await;
}

#[tokio::test]
async fn a_purge_takes_the_blocks_of_its_hours_and_days_and_the_numbers_of_their_names() {
    on_both(async |place| {
        let random = &mut TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let store = place.open().await;
        let mut rows = entries(random, 0..400);
        for row in rows.iter_mut().filter(|row| row.at < BEGIN + DAY) {
            let name = format!("old-{}", row.request_id);
            let attribution = Attribution { end_user: Some(name.into()), ..Attribution::default() };
            row.attribution = Some(Arc::new(attribution));
        }
        store.record(&rows).await.unwrap();
        store.roll_up_names((BEGIN + (DAYS + 1) * DAY) / 1_000).await.unwrap();
        let numbers = count(&store, "usage_name_ids").await;
        let cut = BEGIN + DAY + 5 * HOUR;
        // One for the end users of the first day alone.
        assert_eq!(weeks(&store).await, 5);
        store.purge(cut, 10_000).await.unwrap();
        store.purge_detailed_sums(cut).await.unwrap();
        assert!(count(&store, "usage_name_ids").await < numbers - 20);
        // The second day keeps its sums by day, and the others have all.
        rows.retain(|row| row.at >= BEGIN + DAY);
        for first in [BEGIN + DAY, BEGIN + 2 * DAY, BEGIN + 2 * DAY + 3 * HOUR] {
            let filter = Filter { since: Some(first), ..Filter::default() };
            for dimension in Dimension::ALL {
                let wanted = expected(&rows, dimension, &filter, 5);
                let found = store.usage_by_blocks(dimension, &filter, 5).await.unwrap().unwrap();
                assert_eq!(found, wanted, "{dimension:?} {filter:?}");
            }
        }
        // Late rows of the day whose hours are gone go to its sums.
        let mut late = entries(random, 400..430);
        for row in &mut late {
            row.at = cut + HOUR;
        }
        store.record(&late).await.unwrap();
        store.roll_up_names(0).await.unwrap();
        rows.extend(late);
        let filter = Filter { since: Some(BEGIN + DAY), until: Some(BEGIN + 3 * DAY), ..Filter::default() };
        for dimension in Dimension::ALL {
            let wanted = expected(&rows, dimension, &filter, 5);
            assert_eq!(store.usage_by_blocks(dimension, &filter, 5).await.unwrap(), Some(wanted));
        }
        // Eight days that lose one are read day by day.
        store.purge(BEGIN + 3 * DAY, 10_000).await.unwrap();
        store.purge_detailed_sums(BEGIN + 3 * DAY + HOUR).await.unwrap();
        assert_eq!(weeks(&store).await, 0);
        rows.retain(|row| row.at >= BEGIN + 3 * DAY);
        let filter = Filter { since: Some(BEGIN + 3 * DAY), ..Filter::default() };
        for dimension in Dimension::ALL {
            let wanted = expected(&rows, dimension, &filter, 5);
            assert_eq!(store.usage_by_blocks(dimension, &filter, 5).await.unwrap(), Some(wanted));
        }
    })
    .await;
}

/// Takes away what the newest version added, as an older version left the database.
async fn make_old(store: &Store, is_postgres: bool) {
    let tables = [
        "DROP TABLE usage_name_ids",
        "DROP TABLE usage_name_blocks",
        "DROP TABLE usage_name_block_sums",
        "DROP TABLE usage_name_late",
        "DROP TABLE usage_name_progress",
    ];
    // PostgreSQL's schema has a newest version, so the changes after the tables go, too.
    let versions: &[&str] = if is_postgres {
        &[
            "DROP INDEX ledger_failures_by_key",
            "DROP INDEX ledger_by_end_user",
            "DELETE FROM gateway_schema WHERE version >= 24",
        ]
    } else {
        &["DELETE FROM _sqlx_migrations WHERE version = 32"]
    };
    for drop in tables.iter().chain(versions) {
        store.run(Sql::new(drop)).await.unwrap();
    }
}

#[tokio::test]
async fn an_older_database_is_added_up_from_its_first_whole_day_on() {
    on_both(async |place| {
        let random = &mut TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let store = place.open().await;
        let mut rows = entries(random, 0..300);
        store.record(&rows).await.unwrap();
        let (cut, all) = (BEGIN + 5 * HOUR, (BEGIN + (DAYS + 1) * DAY) / 1_000);
        for is_purged in [false, true] {
            if is_purged {
                store.purge(cut, 10_000).await.unwrap();
                store.purge_detailed_sums(cut).await.unwrap();
            }
            make_old(&store, place.is_postgres()).await;
            let store = place.open().await;
            store.roll_up_names(all).await.unwrap();
            // The sums by day of the first day still have its purged rows, and its hours do not.
            let whole = Filter { since: Some(BEGIN), ..Filter::default() };
            let packed = store.usage_by_blocks(Dimension::EndUser, &whole, 9).await.unwrap();
            assert_eq!(packed.is_none(), is_purged);
            for dimension in Dimension::ALL {
                let wanted = expected(&rows, dimension, &whole, 9);
                assert_eq!(store.usage_by_name(dimension, &whole, 9).await.unwrap(), wanted);
            }
        }
        rows.retain(|row| row.at >= BEGIN + DAY);
        let later = Filter { since: Some(BEGIN + DAY), ..Filter::default() };
        let store = place.open().await;
        let packed = store.usage_by_blocks(Dimension::Tag, &later, 9).await.unwrap();
        assert_eq!(packed, Some(expected(&rows, Dimension::Tag, &later, 9)));
        // When the first day is deleted, the blocks have everything.
        store.purge(BEGIN + DAY, 10_000).await.unwrap();
        store.purge_detailed_sums(BEGIN + DAY + HOUR).await.unwrap();
        let whole = Filter { since: Some(0), ..Filter::default() };
        let packed = store.usage_by_blocks(Dimension::Tag, &whole, 9).await.unwrap().unwrap();
        assert_eq!(packed.listed, expected(&rows, Dimension::Tag, &later, 9).listed);
    })
    .await;
}

/// Two processes write and add up at once: each request is in a block, late or in an open hour, and once.
#[tokio::test]
async fn requests_that_are_written_while_hours_are_closed_count_once() {
    on_both(async |place| {
        let random = &mut TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let (one, other) = (place.open().await, place.open().await);
        let rows = entries(random, 0..600);
        let write = async |store: &Store, rows: &[Entry]| {
            for some in rows.chunks(10) {
                store.record(some).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let close = async |store: &Store| {
            for day in 0..=DAYS {
                store.roll_up_names((BEGIN + day * DAY + 7 * HOUR) / 1_000).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(write(&one, &rows[..300]), write(&other, &rows[300..]), close(&one), close(&other));
        compare(&one, &rows, random, 2, false).await;
        one.roll_up_names((BEGIN + (DAYS + 1) * DAY) / 1_000).await.unwrap();
        assert_eq!(count(&other, "usage_name_late").await, 0);
        compare(&other, &rows, random, 3, true).await;
    })
    .await;
}
