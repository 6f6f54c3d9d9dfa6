//! Reports by name on both databases, compared with the rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use gw_wire::attribution::{Attribution, Dimension};

use crate::ledger::{Attempt, Entry, Filter, GroupBy, Line, Sums, UsageByName};
use crate::testing::on_both;

const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;

/// The attribution of a request: each third has none, and some have the same names in another combination.
fn attribution(n: u64) -> Option<Arc<Attribution>> {
    let tags: &[&str] = match n % 4 {
        0 | 1 if n.is_multiple_of(5) => &["a", "x\"branch:none"],
        0 => &["a"],
        1 => &["a", "project:x\"y"],
        2 => &["end_user:ann"],
        _ => &[],
    };
    let attribution = Attribution {
        end_user: (n % 5 < 3).then(|| format!("user-{}", n % 7).into()),
        tags: tags.iter().map(|tag| (*tag).into()).collect(),
        repository: n.is_multiple_of(2).then(|| "acme/shop".into()),
        // A name with quotation marks, and one that looks like another kind.
        branch: n.is_multiple_of(2).then(|| ["b0", "b\\\"1", "\",\"end_user:eve"][(n % 3) as usize].into()),
        pull_request: n.is_multiple_of(8).then(|| "12".into()),
    };
    (!n.is_multiple_of(3) && !attribution.is_empty()).then(|| Arc::new(attribution))
}

fn entry(n: u64) -> Entry {
    let attempt = |model: &str, cost| Attempt {
        provider: "acme".into(),
        model: model.into(),
        status: "ok".into(),
        latency_ms: 1,
        started_ms: 0,
        image_fetch_ms: 0,
        cost: Some(cost),
        known_part: 0,
        reason: None,
    };
    let cost = i128::from(n + 1) * 1_234_567;
    Entry {
        request_id: format!("req_{n:05}").into(),
        at: 20_000 * DAY + i64::try_from(n).unwrap() * 17 * 60_000,
        key_id: format!("key-{}", n % 3).into(),
        team: n.is_multiple_of(2).then(|| "search".into()),
        operation: if n.is_multiple_of(2) { "chat" } else { "messages" }.to_owned().into(),
        model: "acme/fast".into(),
        provider: "acme".into(),
        status: if n.is_multiple_of(6) { "timeout" } else { "ok" }.to_owned().into(),
        session: n.is_multiple_of(4).then(|| "s".to_owned()),
        attempts: vec![attempt("acme/slow", 7), attempt("acme/fast", cost - 7)],
        cost,
        attribution: attribution(n),
        ..Entry::default()
    }
}

fn entries() -> Vec<Entry> {
    (0..400).map(entry).collect()
}

fn matches(filter: &Filter, entry: &Entry) -> bool {
    let floor = |at: i64| at.div_euclid(HOUR) * HOUR;
    filter.since.is_none_or(|since| entry.at >= floor(since))
        && filter.until.is_none_or(|until| entry.at < floor(until - 1) + HOUR)
        && filter.key_id.as_ref().is_none_or(|id| **id == *entry.key_id)
        && filter.session.as_ref().is_none_or(|session| Some(session) == entry.session.as_ref())
        && filter.surface.as_ref().is_none_or(|surface| surface == entry.surface())
        && filter.names.iter().all(|(dimension, name)| {
            entry.attribution.as_ref().is_some_and(|names| names.has(*dimension, name))
        })
}

fn sums_of<'e>(entries: impl Iterator<Item = &'e Entry>) -> Sums {
    entries.fold(Sums::default(), |mut sums, entry| {
        sums.add(entry);
        sums
    })
}

fn expected(dimension: Dimension, filter: &Filter, limit: usize) -> UsageByName {
    let rows = entries();
    let fitting: Vec<&Entry> = rows.iter().filter(|entry| matches(filter, entry)).collect();
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

fn filters() -> Vec<Filter> {
    let named = |names: &[(Dimension, &str)]| {
        names.iter().map(|(dimension, name)| (*dimension, (*name).to_owned())).collect::<Vec<_>>()
    };
    let user = named(&[(Dimension::EndUser, "user-2")]);
    let both = named(&[(Dimension::Tag, "a"), (Dimension::Repository, "acme/shop")]);
    let quoted = named(&[(Dimension::Tag, "project:x\"y")]);
    let (since, until) = (20_000 * DAY + 5 * HOUR + 7, 20_003 * DAY + 9 * HOUR);
    let mut filters = Vec::new();
    for names in [Vec::new(), user, both, quoted, named(&[(Dimension::Branch, "nowhere")])] {
        let base = Filter { names, ..Filter::default() };
        filters.push(Filter { since: Some(since), until: Some(until), ..base.clone() });
        filters.push(Filter { since: Some(since), until: Some(since + 3 * HOUR), ..base.clone() });
        filters.push(Filter { key_id: Some("key-1".to_owned()), since: Some(since), ..base.clone() });
        filters.push(Filter { session: Some("s".to_owned()), ..base.clone() });
        filters.push(Filter { surface: Some("messages".to_owned()), until: Some(until), ..base.clone() });
        filters.push(base);
    }
    filters
}

#[tokio::test]
async fn reports_by_name_are_those_of_the_rows() {
    on_both(async |place| {
        let store = place.open().await;
        store.record(&entries()).await.unwrap();
        // A row that is written again counts once.
        store.record(&entries()[10..30]).await.unwrap();
        for filter in filters() {
            for dimension in Dimension::ALL {
                for limit in [1, 1000] {
                    let found = store.usage_by_name(dimension, &filter, limit).await.unwrap();
                    let wanted = expected(dimension, &filter, limit as usize);
                    assert_eq!(found, wanted, "{dimension:?} {limit} {filter:?}");
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn costs_by_tags_are_those_of_the_rows() {
    type Sums = BTreeMap<(Vec<Box<str>>, bool, String, Option<String>), i128>;
    on_both(async |place| {
        let store = place.open().await;
        store.record(&entries()).await.unwrap();
        for filter in filters() {
            let mut found = Sums::new();
            for cost in store.costs_by_tags(&filter, 10_000).await.unwrap() {
                *found.entry((cost.tags, cost.has_end_user, cost.key_id, cost.team)).or_default() +=
                    cost.cost;
            }
            let mut expected = Sums::new();
            for entry in entries().iter().filter(|entry| matches(&filter, entry)) {
                let Some(names) = entry.attribution.as_deref() else { continue };
                let (key, team) = (entry.key_id.to_string(), entry.team.as_deref().map(str::to_owned));
                let place = (names.tags.clone(), names.end_user.is_some(), key, team);
                *expected.entry(place).or_default() += entry.cost;
            }
            assert_eq!(found, expected, "{filter:?}");
            assert!(store.costs_by_tags(&filter, 1).await.unwrap().len() <= 1);
        }
    })
    .await;
}

/// The reports of all time read sums of their own, and those of a span read the sums of days and hours.
#[tokio::test]
async fn sums_of_all_time_stay_those_of_the_rows_over_late_rows_a_restart_and_a_purge() {
    on_both(async |place| {
        let mut all = entries();
        let late = all.split_off(150);
        let store = place.open().await;
        store.record(&late).await.unwrap();
        store.roll_up(20_010 * DAY / 1_000).await.unwrap();
        store.record(&all).await.unwrap();
        store.record(&late[..20]).await.unwrap();
        store.close().await;
        let store = place.open().await;
        let spans = [
            Filter::default(),
            Filter { since: Some(0), ..Filter::default() },
            Filter {
                since: Some(19_999 * DAY + HOUR),
                until: Some(20_020 * DAY + HOUR),
                ..Filter::default()
            },
        ];
        for purged in [false, true] {
            if purged {
                store.purge(20_002 * DAY, 1_000).await.unwrap();
                store.purge_detailed_sums(i64::MAX).await.unwrap();
            }
            for dimension in Dimension::ALL {
                for limit in [1, 3, 1000] {
                    let mut wanted = expected(dimension, &Filter::default(), limit);
                    if purged {
                        // The sums by name went with the rows, and the other sums stayed.
                        let left = Filter { since: Some(20_002 * DAY), ..Filter::default() };
                        let total = wanted.total;
                        wanted = expected(dimension, &left, limit);
                        let gone = total.without(&wanted.total);
                        wanted.unnamed.join(&gone);
                        wanted.total = total;
                    }
                    for filter in &spans {
                        let found = store.usage_by_name(dimension, filter, limit as u32).await.unwrap();
                        assert_eq!(found, wanted, "{dimension:?} {limit} {filter:?} {purged}");
                    }
                }
            }
        }
        store.purge(i64::MAX, 1_000).await.unwrap();
        store.record(&[Entry { at: 20_100 * DAY, request_id: "req_last".into(), ..entry(1) }]).await.unwrap();
        store.purge_detailed_sums(i64::MAX).await.unwrap();
        let found = store.usage_by_name(Dimension::EndUser, &Filter::default(), 9).await.unwrap();
        assert_eq!((found.listed.len(), found.others.requests), (1, 0), "names without rows are gone");
    })
    .await;
}

#[tokio::test]
async fn every_report_and_the_log_know_the_filters() {
    on_both(async |place| {
        let store = place.open().await;
        store.record(&entries()).await.unwrap();
        for filter in filters() {
            let rows = entries();
            let fitting: Vec<&Entry> = rows.iter().filter(|entry| matches(&filter, entry)).collect();
            let wanted = sums_of(fitting.iter().copied());
            assert_eq!(store.total(&filter).await.unwrap(), wanted, "{filter:?}");
            for (name, by) in GroupBy::ALL {
                let groups = store.usage(by, &filter).await.unwrap();
                assert_eq!(Sums::of(groups.iter().map(|(_, sums)| sums)), wanted, "{name} {filter:?}");
            }
            if filter.since.is_none() && filter.until.is_none() {
                let mut ids: Vec<_> = fitting.iter().map(|entry| &*entry.request_id).collect();
                ids.reverse();
                let page = store.requests(&filter, None, 1_000).await.unwrap();
                let found: Vec<_> = page.iter().map(|entry| &*entry.request_id).collect();
                assert_eq!(found, ids, "{filter:?}");
            }
        }
        let page = store.requests(&Filter::default(), None, 1_000).await.unwrap();
        assert!(page.iter().all(|found| entries().contains(found)), "rows keep their names");
    })
    .await;
}

#[test]
fn a_line_without_names_has_no_place_for_them() {
    let plain = Line::new(Entry { attribution: None, ..entry(1) });
    assert!(plain.names.is_none() && plain.json().ends_with("]],null,null]"), "{}", plain.json());
    let named = Line::new(entry(1));
    assert_eq!(named.names.as_deref(), Some(r#"["end_user:user-1","tag:a","tag:project:x\"y","tag:"]"#));
    assert!(
        named.json().ends_with(r#",null,0,[["a","project:x\"y"],"user-1",null,null,null]]"#),
        "{}",
        named.json()
    );
    assert_eq!(Entry::from_line(named.json()).unwrap().attribution, attribution(1));
}
