//! Rows of keys and teams, on both databases.

use std::sync::Arc;

use crate::db::Error;
use crate::keys::{NewKey, Role, StoredKey, Team};
use crate::limits::{Budget, Limits, OnBudget, Period, UnpricedPolicy};
use crate::testing::{TestDatabase, on_both};

#[tokio::test]
async fn keys_are_found_again_after_a_restart() {
    on_both(async |place| {
        let key = NewKey::generate().unwrap();
        let full = StoredKey {
            models: Some(vec!["acme/*".to_owned(), "quoted\"".to_owned()]),
            expires_at: Some(2_000_000_000),
            revoked_at: Some(5),
            team: Some("search".to_owned()),
            limits: Limits {
                rpm: Some(6),
                burst: Some(5),
                tpm: Some(2),
                max_in_flight: Some(3),
                budget: Some(Budget { nano: 4, period: Period::Week }),
                on_budget: OnBudget::Cut,
                unpriced: UnpricedPolicy::Refuse,
            },
            log_payloads: true,
            trust_attribution: true,
            metadata: Some("{\"a\":1}".to_owned()),
            previous: Some(([7; 32], 9)),
            ..key.stored("ops; DROP TABLE keys", Role::Admin, 7)
        };
        let plain = NewKey::generate().unwrap().stored("plain", Role::Inference, 8);
        {
            let store = place.open().await;
            store.insert_key(&full).await.unwrap();
            store.insert_key(&plain).await.unwrap();
            store.close().await;
        }
        let again = place.open().await;
        again.ping().await.unwrap();
        assert!(again.keys().await.unwrap() == vec![full.clone(), plain.clone()]);
        let changed =
            StoredKey { name: "other".to_owned(), revoked_at: None, limits: Limits::default(), ..full };
        assert!(again.update_key(&changed).await.unwrap());
        assert!(again.key(&changed.id).await.unwrap() == Some(changed.clone()));
        assert!(again.keys().await.unwrap() == vec![changed, plain.clone()], "nobody else was changed");
        let nobody = StoredKey { id: "sk-gw-nobody".to_owned(), ..plain };
        assert!(!again.update_key(&nobody).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn teams_are_kept_by_their_name() {
    on_both(async |place| {
        let store = place.open().await;
        let limits = Limits { budget: Some(Budget { nano: 5, period: Period::Day }), ..Limits::default() };
        let mut team = Team { id: "search".to_owned(), limits, created_at: 1 };
        store.put_team(&team).await.unwrap();
        (team.limits.rpm, team.limits.burst, team.limits.on_budget) = (Some(9), Some(8), OnBudget::Cut);
        store.put_team(&Team { created_at: 7, ..team.clone() }).await.unwrap();
        assert_eq!(store.teams().await.unwrap(), [team]);
    })
    .await;
}

#[tokio::test]
async fn first_keys_are_kept_once() {
    on_both(async |place| {
        let store = place.open().await;
        let first = [NewKey::generate().unwrap().stored("admin", Role::Admin, 1)];
        let second = [NewKey::generate().unwrap().stored("admin", Role::Admin, 2)];
        assert_eq!(store.insert_first_keys(&first).await.unwrap(), [first[0].id.clone()]);
        assert!(store.insert_first_keys(&second).await.unwrap().is_empty());
        assert!(store.keys().await.unwrap() == first);
    })
    .await;
}

#[tokio::test]
async fn a_store_without_an_admin_key_gets_one() {
    on_both(async |place| {
        let store = place.open().await;
        let made = |role, at| NewKey::generate().unwrap().stored("k", role, at);
        let early = made(Role::Inference, 1);
        store.insert_key(&early).await.unwrap();
        let first = [made(Role::Admin, 2), made(Role::Inference, 2)];
        assert_eq!(store.insert_first_keys(&first).await.unwrap(), [first[0].id.clone()]);
        assert!(store.keys().await.unwrap() == [early, first[0].clone()]);
        assert!(store.insert_first_keys(&[made(Role::Admin, 3)]).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s13_programs_that_start_at_once_on_one_store_make_one_schema_and_one_set_of_keys() {
    for make in [TestDatabase::sqlite, TestDatabase::postgres] {
        for _ in 0..10 {
            let place = Arc::new(make());
            let starts: Vec<_> = (0..4)
                .map(|n| {
                    let place = Arc::clone(&place);
                    tokio::spawn(async move {
                        let store = place.open().await;
                        let keys = [NewKey::generate().unwrap().stored("admin", Role::Admin, n)];
                        !store.insert_first_keys(&keys).await.unwrap().is_empty()
                    })
                })
                .collect();
            let mut made = 0;
            for start in starts {
                made += u32::from(start.await.unwrap());
            }
            assert_eq!(made, 1);
        }
    }
}

#[tokio::test]
async fn an_id_is_kept_once() {
    on_both(async |place| {
        let store = place.open().await;
        let key = NewKey::generate().unwrap().stored("first", Role::Admin, 7);
        store.insert_key(&key).await.unwrap();
        assert!(matches!(store.insert_key(&key).await, Err(Error::Taken { .. })));
    })
    .await;
}

#[tokio::test]
async fn every_change_of_a_key_or_a_team_is_seen_in_the_revision() {
    on_both(async |place| {
        let (store, other) = (place.open().await, place.open().await);
        let mut before = other.revision().await.unwrap();
        let mut grown = async |what: &str| {
            let now = other.revision().await.unwrap();
            assert!(now > before, "{what}");
            before = now;
        };
        let key = NewKey::generate().unwrap().stored("first", Role::Admin, 7);
        store.insert_key(&key).await.unwrap();
        grown("insert_key").await;
        assert!(store.update_key(&key).await.unwrap());
        grown("update_key").await;
        store.change_key(&key.id, |key| key.revoked_at = Some(1)).await.unwrap();
        grown("change_key").await;
        let team = Team { id: "search".to_owned(), limits: Limits::default(), created_at: 1 };
        store.put_team(&team).await.unwrap();
        grown("put_team").await;
        store.put_team(&team).await.unwrap();
        grown("put_team again").await;
        store.change_team("search", |team| team.limits.rpm = Some(1)).await.unwrap();
        grown("change_team").await;
        assert!(store.delete_team("search").await.unwrap());
        grown("delete_team").await;
        assert!(!store.delete_team("search").await.unwrap());
        assert_eq!(store.team("search").await.unwrap(), None);
        assert!(store.change_team("search", |_| ()).await.unwrap().is_none());
        assert!(store.change_key("sk-gw-nobody", |_| ()).await.unwrap().is_none());
        store.record(&[crate::ledger::Entry::default()]).await.unwrap();
        assert_eq!(other.revision().await.unwrap(), store.revision().await.unwrap());
        store.changed().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_changes_are_all_kept() {
    on_both(async |place| {
        let (store, other) = (place.open().await, place.open().await);
        let key = NewKey::generate().unwrap().stored("", Role::Admin, 7);
        store.insert_key(&key).await.unwrap();
        store.put_team(&Team { id: "a".to_owned(), limits: Limits::default(), created_at: 1 }).await.unwrap();
        let changes: Vec<_> = (0..16)
            .map(|n| {
                let (store, id) = (if n % 2 == 0 { store.clone() } else { other.clone() }, key.id.clone());
                tokio::spawn(async move {
                    store.change_key(&id, |key| key.name.push('x')).await.unwrap().unwrap();
                    let more = |team: &mut Team| team.limits.rpm = Some(team.limits.rpm.unwrap_or(0) + 1);
                    store.change_team("a", more).await.unwrap().unwrap();
                })
            })
            .collect();
        for change in changes {
            change.await.unwrap();
        }
        assert_eq!(store.key(&key.id).await.unwrap().unwrap().name.len(), 16);
        assert_eq!(store.team("a").await.unwrap().unwrap().limits.rpm, Some(16));
    })
    .await;
}

#[tokio::test]
async fn every_period_is_stored_and_an_unknown_one_closes_its_budget_alone() {
    on_both(async |place| {
        let store = place.open().await;
        for period in Period::ALL.into_iter().chain(Period::parse("30d")) {
            let limits = Limits { budget: Some(Budget { nano: 5, period }), ..Limits::default() };
            let team = Team { id: period.as_str().to_owned(), limits, created_at: 1 };
            store.put_team(&team).await.unwrap();
            assert_eq!(store.team(&team.id).await.unwrap().unwrap().limits, limits);
        }
        let change = "UPDATE teams SET budget_period = 'fortnight' WHERE id = 'day'";
        store.run(crate::sql::Sql::new(change)).await.unwrap();
        // An edit must not overwrite what a newer program has written.
        assert!(matches!(store.team("day").await, Err(Error::Failed { .. })));
        assert!(matches!(store.change_team("day", |_| {}).await, Err(Error::Failed { .. })));
        let closed = Some(Budget { nano: 0, period: Period::Total });
        for team in store.teams().await.unwrap() {
            let expected = Some(Budget { nano: 5, period: Period::parse(&team.id).unwrap() });
            assert_eq!(team.limits.budget, if team.id == "day" { closed } else { expected });
        }
        for (name, at) in [("one", 1), ("two", 2)] {
            let limits =
                Limits { budget: Some(Budget { nano: 5, period: Period::Day }), ..Limits::default() };
            let plain = NewKey::generate().unwrap().stored(name, Role::Inference, at);
            let key = StoredKey { limits, ..plain };
            store.insert_key(&key).await.unwrap();
        }
        let change = "UPDATE keys SET budget_period = 'fortnight' WHERE name = 'one'";
        store.run(crate::sql::Sql::new(change)).await.unwrap();
        let budgets: Vec<_> = store.keys().await.unwrap().into_iter().map(|key| key.limits.budget).collect();
        assert_eq!(budgets, [closed, Some(Budget { nano: 5, period: Period::Day })]);
    })
    .await;
}
