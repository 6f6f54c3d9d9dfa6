//! The ledger on a real file: no row twice, and sums that equal their rows exactly.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Cursor, Entry, Filter, GroupBy, Spender, Tokens};
use crate::limits::Period;
use crate::testing::on_both;

const DAY: i64 = 86_400_000;

fn entry(n: u64) -> Entry {
    let even = n.is_multiple_of(2);
    Entry {
        request_id: format!("req_{n:05}").into(),
        at: 20_000 * DAY + i64::try_from(n).unwrap() * 1_000_000,
        key_id: format!("key-{}", n % 3).into(),
        key_name: "ci".into(),
        team: even.then(|| "search".into()),
        operation: "chat".into(),
        requested_model: "fast".to_owned(),
        model: format!("acme/{}", if even { "fast" } else { "slow" }).into(),
        provider: "acme".into(),
        status: if n.is_multiple_of(5) { "upstream_error" } else { "ok" }.to_owned().into(),
        strategy: "default".into(),
        stream: even,
        cache_hit: n.is_multiple_of(7),
        tokens: Tokens { prompt: n, completion: 2 * n, cached: 1, cache_write: 2, reasoning: 3 },
        cost: i128::from(n) * 1_234_567_891_234,
        saved: 7,
        ttft_ms: even.then_some(12),
        latency_ms: n,
        user: Some("u\u{FFFD}nul".to_owned()),
        client: Some("127.0.0.1".to_owned()),
        ..Entry::default()
    }
}

#[tokio::test]
async fn a_row_written_twice_is_stored_and_counted_once() {
    on_both(async |place| {
        let store = place.open().await;
        let entries: Vec<Entry> = (0..500).map(entry).collect();
        store.record(&entries).await.unwrap();
        store.record(&entries[100..300]).await.unwrap();
        store.record(&[entry(7), entry(7), entry(900), entry(900)]).await.unwrap();
        let total = store.total(&Filter::default()).await.unwrap();
        let all = (0..500).chain([900]).map(entry);
        assert_eq!(total.requests, 501);
        assert_eq!(total.cost, all.clone().map(|entry| entry.cost).sum::<i128>());
        assert_eq!(total.tokens.prompt, all.clone().map(|entry| entry.tokens.prompt).sum::<u64>());
        assert_eq!(total.failed, all.filter(|entry| entry.status != "ok").count() as u64);
        assert_eq!(store.request("req_00007").await.unwrap(), Some(entry(7)));
        assert_eq!(store.request("req_99999").await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn the_sums_of_a_rolling_period_are_those_of_its_requests() {
    on_both(async |place| {
        let store = place.open().await;
        // One request each 1,000 seconds over five days.
        let entries: Vec<Entry> = (0..432).map(entry).collect();
        store.record(&entries).await.unwrap();
        let period = Period::parse("2d").unwrap();
        for at in (20_002 * 86_400..20_005 * 86_400).step_by(4_321) {
            let time = period.counted_from(period.around(at).0);
            let sum = |from: i64, until: i64| -> i128 {
                let moments = from.saturating_mul(1000)..until.saturating_mul(1000);
                let counts = |entry: &&Entry| entry.key_id == "key-1".into() && moments.contains(&entry.at);
                entries.iter().filter(counts).map(|entry| entry.cost).sum()
            };
            let (step, end) = (2 * 3_600, period.around(at).1);
            let begins = (time.from..=end).step_by(7_200);
            let sums =
                begins.map(|begin| (begin, sum(begin, if begin == end { i64::MAX } else { begin + step })));
            let expected: Vec<_> = sums.filter(|(_, spent)| *spent > 0).collect();
            let before = (at - at % 3_600 - 100_000 / 3_600 * 3_600, at - at % 3_600);
            let mut seen = store.spent_with(Spender::Key("key-1"), time, Some(before), &[]).await.unwrap();
            seen.steps.retain(|(_, spent)| *spent > 0);
            assert_eq!((seen.steps, seen.before), (expected, sum(before.0, before.1)), "at {at}");
        }
    })
    .await;
}

/// Days that are added up, days that are not, and a late row, in periods whose steps are longer than a day.
#[tokio::test]
async fn the_sums_of_a_team_are_those_of_its_requests_before_and_after_its_days_are_added_up() {
    on_both(async |place| {
        let store = place.open().await;
        let hour = |n: u64| Entry { at: 20_000 * 86_400_000 + n as i64 * 3_600_000, ..entry(n) };
        let mut entries: Vec<Entry> = (0..24 * 100).map(hour).collect();
        store.record(&entries).await.unwrap();
        for added_up in [0, 20_030 * 86_400, 20_071 * 86_400] {
            store.roll_up(added_up).await.unwrap();
            let late = Entry { request_id: format!("late-{added_up}").into(), ..hour(40) };
            store.record(std::slice::from_ref(&late)).await.unwrap();
            entries.push(late);
            let sum = |from: i64, until: i64| -> i128 {
                let moments = from.saturating_mul(1000)..until.saturating_mul(1000);
                let counts = |entry: &&Entry| entry.team.is_some() && moments.contains(&entry.at);
                entries.iter().filter(counts).map(|entry| entry.cost).sum()
            };
            for name in ["3d", "30d", "45d", "month", "total"] {
                let period = Period::parse(name).unwrap();
                for at in [20_031, 20_072, 20_090].map(|day| day * 86_400 + 40_000) {
                    let (from, end) = period.around(at);
                    let time = period.counted_from(from);
                    let before = (20_020 * 86_400 + 3_600, 20_050 * 86_400 + 7_200);
                    let mut seen =
                        store.spent_with(Spender::Team("search"), time, Some(before), &[]).await.unwrap();
                    seen.steps.retain(|(_, spent)| *spent > 0);
                    let expected: Vec<_> = match time.step {
                        None => vec![(time.from, sum(time.from, time.until))],
                        Some(step) => (time.from..=end)
                            .step_by(step as usize)
                            .map(|begin| {
                                (begin, sum(begin, if begin == end { i64::MAX } else { begin + step }))
                            })
                            .filter(|(_, spent)| *spent > 0)
                            .collect(),
                    };
                    assert_eq!(seen.steps, expected, "{name} at {at}, added up to {added_up}");
                    assert_eq!(
                        seen.before,
                        sum(before.0, before.1),
                        "{name} at {at}, added up to {added_up}"
                    );
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn reports_are_grouped_and_filtered() {
    on_both(async |place| {
        let store = place.open().await;
        store.record(&(0..300).map(entry).collect::<Vec<_>>()).await.unwrap();
        let by_model = store.usage(GroupBy::Model, &Filter::default()).await.unwrap();
        assert_eq!(
            by_model.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["acme/slow", "acme/fast"]
        );
        assert_eq!(by_model.iter().map(|(_, sums)| sums.requests).sum::<u64>(), 300);
        let filter =
            Filter { team: Some("search".to_owned()), key_id: Some("key-0".to_owned()), ..Filter::default() };
        let expected =
            (0..300).map(entry).filter(|entry| entry.team.is_some() && entry.key_id == "key-0".into());
        assert_eq!(store.total(&filter).await.unwrap().cost, expected.map(|entry| entry.cost).sum::<i128>());
        let days = store.usage(GroupBy::Day, &Filter::default()).await.unwrap();
        let named: Vec<i64> = days.iter().map(|(day, _)| day.parse().unwrap()).collect();
        assert!(named.iter().all(|day| day % 86_400 == 0) && named.len() == 4, "{named:?}");
        let filter = Filter { since: Some(20_001 * DAY), until: Some(20_002 * DAY), ..Filter::default() };
        let within = |entry: &Entry| (20_001 * DAY..20_002 * DAY).contains(&entry.at);
        let expected = (0..300).map(entry).filter(within).count() as u64;
        assert_eq!(store.total(&filter).await.unwrap().requests, expected);
    })
    .await;
}

#[tokio::test]
async fn the_log_is_paged_by_its_last_request() {
    on_both(async |place| {
        let store = place.open().await;
        store.record(&(0..25).map(entry).collect::<Vec<_>>()).await.unwrap();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.requests(&Filter::default(), after.as_ref(), 10).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(Cursor { at: last.at, request_id: last.request_id.clone() });
            seen.extend(page.into_iter().map(|entry| entry.request_id));
        }
        assert_eq!(seen, (0..25).rev().map(|n| format!("req_{n:05}").into()).collect::<Vec<Arc<str>>>());
        let failed = Filter { status: Some("upstream_error".to_owned()), ..Filter::default() };
        assert_eq!(store.requests(&failed, None, 100).await.unwrap().len(), 5);
    })
    .await;
}

#[tokio::test]
async fn old_rows_are_deleted_and_their_sums_stay() {
    on_both(async |place| {
        let store = place.open().await;
        store.record(&(0..100).map(entry).collect::<Vec<_>>()).await.unwrap();
        let before = store.total(&Filter::default()).await.unwrap();
        assert_eq!(store.purge(entry(50).at, 30).await.unwrap(), 30);
        assert_eq!(store.purge(entry(50).at, 30).await.unwrap(), 20);
        assert_eq!(store.requests(&Filter::default(), None, 1000).await.unwrap().len(), 50);
        assert_eq!(store.total(&Filter::default()).await.unwrap(), before);
    })
    .await;
}

/// An entry of a session, or of none, through one of two surfaces.
fn in_session(n: u64) -> Entry {
    let session = (!n.is_multiple_of(3)).then(|| format!("run-{}", n % 3));
    let operation = if n.is_multiple_of(2) { "completion" } else { "messages" };
    Entry { session, operation: operation.to_owned().into(), ..entry(n) }
}

#[tokio::test]
async fn requests_are_found_by_session_and_surface_and_summed_up_by_them() {
    on_both(async |place| {
        let store = place.open().await;
        let all: Vec<Entry> = (0..60).map(in_session).collect();
        store.record(&all).await.unwrap();
        store.record(&all[..10]).await.unwrap();
        let filters = [
            (Some("run-1"), None, 20),
            (Some("run-1"), Some("completions"), 10),
            (None, Some("messages"), 30),
            (Some("run-3"), None, 0),
            (None, Some("completion"), 0),
        ];
        for (session, surface, expected) in filters {
            let filter = Filter {
                session: session.map(str::to_owned),
                surface: surface.map(str::to_owned),
                ..Filter::default()
            };
            let found = store.requests(&filter, None, 100).await.unwrap();
            let fits = |entry: &&Entry| {
                session.is_none_or(|session| entry.session.as_deref() == Some(session))
                    && surface.is_none_or(|surface| entry.surface() == surface)
            };
            let expected_rows: Vec<&Entry> = all.iter().rev().filter(fits).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected_rows, "{filter:?}");
            assert_eq!(found.len(), expected, "{filter:?}");
            let total = store.total(&filter).await.unwrap();
            assert_eq!(total.requests as usize, expected);
            assert_eq!(total.cost, found.iter().map(|entry| entry.cost).sum::<i128>());
        }
        let total = store.total(&Filter::default()).await.unwrap();
        for by in [GroupBy::Session, GroupBy::Surface] {
            let groups = store.usage(by, &Filter::default()).await.unwrap();
            assert_eq!(groups.iter().map(|(_, sums)| sums.cost).sum::<i128>(), total.cost);
            let named: Vec<(&str, u64)> =
                groups.iter().map(|(name, sums)| (name.as_str(), sums.requests)).collect();
            let mut sorted = named.clone();
            sorted.sort_unstable();
            match by {
                GroupBy::Session => assert_eq!(sorted, [("", 20), ("run-1", 20), ("run-2", 20)]),
                _ => assert_eq!(sorted, [("completions", 30), ("messages", 30)]),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn sums_by_session_are_forgotten_with_the_rows_and_the_report_still_adds_up() {
    on_both(async |place| {
        let store = place.open().await;
        let day = |n: u64| 20_000 * DAY + i64::try_from(n).unwrap() * DAY;
        let entries: Vec<Entry> = (0..10).map(|n| Entry { at: day(n), ..in_session(n) }).collect();
        store.record(&entries).await.unwrap();
        assert_eq!(store.purge_detailed_sums(i64::MAX).await.unwrap(), 0, "every hour has its rows");
        assert_eq!(store.purge(day(5), 100).await.unwrap(), 5);
        assert_eq!(store.purge_detailed_sums(i64::MAX).await.unwrap(), 5);
        let groups = store.usage(GroupBy::Session, &Filter::default()).await.unwrap();
        assert_eq!(groups.iter().map(|(_, sums)| sums.requests).sum::<u64>(), 10);
        let unnamed = groups.iter().find(|(name, _)| name.is_empty()).map(|(_, sums)| sums.requests);
        assert_eq!(unnamed, Some(5 + 2), "the rows that are gone, and those without a session");
    })
    .await;
}

proptest! {
    #[test]
    fn amounts_are_restored_exactly(femtos in 0_i128..9_000_000_000_000_000_000_000) {
        let (nano, rest) = super::split(femtos);
        prop_assert_eq!(super::joined(nano, rest), femtos);
    }
}

/// A store's reports of every kind, for spans that begin and end within days, and for names.
async fn reports(store: &crate::Store) -> Vec<(String, super::Sums)> {
    let spans = [
        (None, None),
        (Some(20_001 * DAY), Some(20_004 * DAY)),
        (Some(20_001 * DAY + 5 * 3_600_000), Some(20_003 * DAY + 7)),
        (Some(20_002 * DAY + 1), None),
        (Some(20_002 * DAY + 1), Some(20_002 * DAY + 9_000_000)),
        (None, Some(20_000 * DAY + 1)),
    ];
    let name = |name: &str| Some(name.to_owned());
    let names = [
        Filter::default(),
        Filter { key_id: name("key-1"), ..Filter::default() },
        Filter { team: name("search"), model: name("acme/fast"), ..Filter::default() },
        Filter { surface: name("messages"), ..Filter::default() },
        Filter { session: name("run-1"), ..Filter::default() },
    ];
    let mut all = Vec::new();
    for (since, until) in spans {
        for filter in &names {
            let filter = Filter { since, until, ..filter.clone() };
            all.push(("total".to_owned(), store.total(&filter).await.unwrap()));
            for (_, by) in GroupBy::ALL {
                all.extend(store.usage(by, &filter).await.unwrap());
            }
        }
    }
    all
}

#[tokio::test]
async fn reports_are_the_same_with_and_without_the_sums_of_days() {
    on_both(async |place| {
        let store = place.open().await;
        // 400 requests over almost five days.
        let all: Vec<Entry> = (0..400).map(in_session).collect();
        store.record(&all[..390]).await.unwrap();
        let before = reports(&store).await;
        let is_postgres = store.is_server();
        let over = (20_004 * DAY) / 1000;
        assert_eq!(store.roll_up(20_000 * DAY / 1000 + 100).await.unwrap(), 0, "no day is over");
        assert_eq!(store.roll_up(over).await.unwrap(), if is_postgres { 0 } else { 4 });
        assert_eq!(store.roll_up(over).await.unwrap(), 0);
        assert_eq!(reports(&store).await, before);
        // Rows of days that are there already, from this process and from another one.
        let late = |n: u64| Entry { at: 20_001 * DAY + 77 + i64::try_from(n).unwrap(), ..in_session(n) };
        store.record(&[late(390), late(391), in_session(392)]).await.unwrap();
        let other = place.open().await;
        other.record(&(393..400).map(late).collect::<Vec<_>>()).await.unwrap();
        let expected = before[0].1.requests + 10;
        let after = reports(&store).await;
        assert_eq!(after[0].1.requests, expected);
        store.roll_up(over + 86_400).await.unwrap();
        assert_eq!(reports(&other).await, after);
        let span = Filter { since: Some(20_001 * DAY), until: Some(20_002 * DAY), ..Filter::default() };
        let rows = store.requests(&span, None, 1_000).await.unwrap();
        let mut sums = super::Sums::default();
        rows.iter().for_each(|row| sums.add(row));
        assert_eq!(store.total(&span).await.unwrap(), sums);
    })
    .await;
}

#[tokio::test]
async fn failures_are_found_by_code_and_name_page_by_page() {
    on_both(async |place| {
        let store = place.open().await;
        let code = |n: u64| ["ok", "upstream_error", "ok", "upstream_timeout"][n as usize % 4];
        let all: Vec<Entry> =
            (0..200).map(|n| Entry { status: code(n).to_owned().into(), ..in_session(n) }).collect();
        store.record(&all).await.unwrap();
        let name = |name: &str| Some(name.to_owned());
        let names = [
            Filter::default(),
            Filter { key_id: name("key-1"), ..Filter::default() },
            Filter { key_id: name("key-0"), surface: name("messages"), ..Filter::default() },
            Filter { session: name("run-1"), ..Filter::default() },
            Filter { model: name("acme/none"), ..Filter::default() },
            Filter { model: Some(all[1].model.to_string()), ..Filter::default() },
            Filter { surface: name("messages"), ..Filter::default() },
            Filter { model: Some(all[3].model.to_string()), since: Some(all[20].at), ..Filter::default() },
            Filter { model: Some(all[3].model.to_string()), until: Some(all[151].at), ..Filter::default() },
        ];
        for status in ["ok", "failed", "upstream_error", "rate_limit_exceeded"] {
            for filter in &names {
                let filter = Filter { status: name(status), ..filter.clone() };
                let is_name =
                    |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|it| it == found);
                let fits = |entry: &&Entry| {
                    (entry.status == status || status == "failed" && entry.status != "ok")
                        && is_name(&filter.key_id, &entry.key_id)
                        && is_name(&filter.model, &entry.model)
                        && is_name(&filter.surface, entry.surface())
                        && is_name(&filter.session, entry.session.as_deref().unwrap_or_default())
                        && filter.since.is_none_or(|since| entry.at >= since)
                        && filter.until.is_none_or(|until| entry.at < until)
                };
                let expected: Vec<&Entry> = all.iter().rev().filter(fits).collect();
                let (mut found, mut after): (Vec<Entry>, _) = (Vec::new(), None);
                loop {
                    let page = store.requests(&filter, after.as_ref(), 7).await.unwrap();
                    let Some(last) = page.last() else { break };
                    after = Some(Cursor { at: last.at, request_id: last.request_id.clone() });
                    found.extend(page);
                }
                assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter:?}");
            }
        }
    })
    .await;
}
