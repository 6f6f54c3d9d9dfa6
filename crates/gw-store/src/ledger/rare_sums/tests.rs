//! The sums of amounts that few requests have, compared with the rows.

use std::sync::Arc;

use gw_wire::attribution::Attribution;
use gw_wire::money::Money;
use gw_wire::prompt_cache::PromptCacheUse;

use super::*;
use crate::testing::on_both;

const DAY: i64 = 86_400_000;

fn entry(n: u64) -> Entry {
    let tags: &[&str] = [&["a"][..], &["a", "b"], &[]][(n % 3) as usize];
    let attribution = Attribution {
        end_user: (n % 4 < 3).then(|| format!("user-{}", n % 5).into()),
        tags: tags.iter().map(|tag| (*tag).into()).collect(),
        ..Attribution::default()
    };
    let used = PromptCacheUse {
        saved: Some(Money::from_femtos(i128::from(n) * 1_000_003)),
        surcharge: Some(Money::from_femtos(-7)),
        ..PromptCacheUse::default()
    };
    Entry {
        request_id: format!("req_{n:05}").into(),
        at: 20_000 * DAY + i64::try_from(n).unwrap() * 47 * 60_000,
        key_id: format!("key-{}", n % 2).into(),
        operation: "chat".into(),
        model: "acme/fast".into(),
        provider: if n.is_multiple_of(7) { "free" } else { "acme" }.to_owned().into(),
        status: "ok".into(),
        session: n.is_multiple_of(4).then(|| "s".to_owned()),
        prompt_cache: n.is_multiple_of(2).then(|| Arc::new(used)),
        provider_cost: (!n.is_multiple_of(3) && !n.is_multiple_of(7)).then(|| i128::from(n) * 1_234_567),
        attribution: (!attribution.is_empty()).then(|| Arc::new(attribution)),
        ..Entry::default()
    }
}

fn sum<'e>(entries: impl Iterator<Item = &'e Entry>) -> RareSums {
    entries.fold(RareSums::default(), |mut sums, entry| {
        sums.add(&RareSums::of(entry));
        sums
    })
}

fn names(dimension: Dimension, entry: &Entry) -> Vec<String> {
    let attribution = entry.attribution.clone().unwrap_or_default();
    attribution.names().filter(|(kind, _)| *kind == dimension).map(|(_, name)| name.to_owned()).collect()
}

#[tokio::test]
async fn amounts_by_every_group_are_those_of_the_rows() {
    on_both(async |place| {
        let mut all: Vec<Entry> = (0..200).map(entry).collect();
        let store = place.open().await;
        store.record(&all[100..]).await.unwrap();
        store.record(&all[..100]).await.unwrap();
        store.record(&all[90..110]).await.unwrap();
        store.close().await;
        let store = place.open().await;
        let whole = Filter::default();
        let key = Filter { key_id: Some("key-1".to_owned()), ..Filter::default() };
        let user = vec![(Dimension::EndUser, "user-2".to_owned())];
        let user = Filter { names: user, since: Some(20_001 * DAY), ..Filter::default() };
        for filter in [&whole, &key, &user] {
            let fits = |entry: &&Entry| {
                filter.key_id.as_ref().is_none_or(|id| **id == *entry.key_id)
                    && filter.since.is_none_or(|since| entry.at >= since)
                    && filter.names.iter().all(|(kind, name)| names(*kind, entry).contains(name))
            };
            for (name, by) in GroupBy::ALL {
                let found = store.rare_sums(by, filter).await.unwrap();
                let Some(found) = found else {
                    assert!(by == GroupBy::Session && !filter.names.is_empty(), "{name}");
                    continue;
                };
                let mut total = RareSums::default();
                found.iter().for_each(|(_, sums)| total.add(sums));
                assert_eq!(total, sum(all.iter().filter(fits)), "{name}");
            }
        }
        let free = store.rare_sums(GroupBy::Provider, &whole).await.unwrap().unwrap();
        let stated: Vec<_> =
            free.iter().map(|(name, sums)| (&**name, sums.provider_cost().is_some())).collect();
        assert!(stated.contains(&("free", false)) && stated.contains(&("acme", true)), "{stated:?}");
        for dimension in [Dimension::EndUser, Dimension::Tag, Dimension::Branch] {
            let listed = ["user-2", "b"];
            let found =
                store.rare_sums_by_name(dimension, &whole, listed.into_iter()).await.unwrap().unwrap();
            let has = |name: &'static str| {
                move |entry: &&Entry| names(dimension, entry).iter().any(|own| own == name)
            };
            for name in listed {
                let wanted = sum(all.iter().filter(has(name)));
                assert_eq!(found.listed.get(name).copied().unwrap_or_default(), wanted, "{name}");
            }
            let others = all.iter().flat_map(|entry| {
                let other = |name: &String| !listed.contains(&&**name);
                names(dimension, entry).into_iter().filter(other).map(move |_| entry)
            });
            assert_eq!(found.others, sum(others), "{dimension:?}");
            assert_eq!(found.unnamed, sum(all.iter().filter(|entry| names(dimension, entry).is_empty())));
            assert_eq!(found.total, sum(all.iter()));
        }
        let both = Filter { session: Some("s".to_owned()), ..user };
        assert!(store.rare_sums(GroupBy::Day, &both).await.unwrap().is_none());
        // The sums by name go with the rows.
        assert!(store.purge(20_003 * DAY, 1_000).await.unwrap() > 0);
        store.purge_detailed_sums(i64::MAX).await.unwrap();
        all.retain(|entry| entry.at >= 20_003 * DAY);
        let found =
            store.rare_sums_by_name(Dimension::Tag, &whole, ["a"].into_iter()).await.unwrap().unwrap();
        assert_eq!(
            found.listed["a"],
            sum(all.iter().filter(|entry| names(Dimension::Tag, entry)[..].contains(&"a".to_owned())))
        );
    })
    .await;
}
