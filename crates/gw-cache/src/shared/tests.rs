//! A cache over a real Redis: shared by replicas, and a miss in time whatever is wrong with it.

mod away;
mod hostile;
mod many;
mod races;

use gw_testkit::{Redis, eventually};

use super::*;
use crate::doubles::{NOW, answer, key};
use crate::{Cache, Found, Life, Scope};

const HOUR: Duration = Duration::from_secs(3600);

/// Settings with patience: the machine that runs this may be busy. Tests of a Redis that is away use less.
fn settings(url: String) -> SharedSettings {
    SharedSettings { timeout: Duration::from_secs(3), ..SharedSettings::new(SecretString::from(url)) }
}

async fn replica(redis: &Redis) -> Cache {
    Cache::shared(settings(redis.url())).await
}

async fn store(cache: &Cache, name: &str, stored: Stored) {
    cache.store(key(name), Arc::new(stored), cache.stamp());
    cache.written().await;
}

/// What is said under this name.
async fn said(cache: &Cache, name: &str) -> Option<String> {
    match cache.look(&key(name), HOUR, NOW).await {
        Found::Fresh(stored) => Some(String::from_utf8(stored.body.to_vec()).expect("text")),
        Found::Stale(_) | Found::Nothing => None,
    }
}

/// Until Redis is used again, nobody having done anything about it.
async fn back(cache: &Cache) {
    eventually("Redis is used again", || (!cache.is_away()).then_some(())).await;
}

#[tokio::test]
async fn two_replicas_share_what_one_of_them_stored() {
    let redis = Redis::start().await;
    let (one, other) = (replica(&redis).await, replica(&redis).await);
    assert_eq!(said(&other, "a").await, None);
    let stored = Stored { scope: Scope::Team(Arc::from("team_1")), ..answer("A") };
    store(&one, "a", stored.clone()).await;
    let Found::Fresh(found) = other.look(&key("a"), HOUR, NOW).await else { panic!("not found") };
    assert_eq!(*found, stored);
    assert_eq!(said(&other, "b").await, None);
    store(&other, "a", answer("B")).await;
    assert_eq!(said(&one, "a").await.as_deref(), Some("B"));
    assert_eq!((one.figures().stored, one.figures().unanswered, one.figures().unwritten), (1, 0, 0));
}

#[tokio::test]
async fn redis_forgets_an_answer_when_its_time_is_over_and_a_reader_before() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    let life = Life::new(NOW, Duration::from_secs(60), Duration::from_secs(30));
    store(&cache, "a", Stored { life, ..answer("A") }).await;
    let keys = redis.command(&["KEYS", "gw:cache:*"]).await;
    let value = keys.iter().find(|key| !key.ends_with("purges")).unwrap();
    let left: u64 = redis.command(&["PTTL", value]).await.concat().parse().unwrap();
    assert!((60_000..=90_000).contains(&left), "{left}");
    let look = async |later_ms| cache.look(&key("a"), HOUR, NOW + later_ms).await;
    assert!(matches!(look(60_000).await, Found::Fresh(_)));
    assert!(matches!(look(60_001).await, Found::Stale(_)));
    assert!(matches!(look(90_001).await, Found::Nothing));
    let short = Life::new(NOW, Duration::from_millis(20), Duration::ZERO);
    store(&cache, "b", Stored { life: short, ..answer("B") }).await;
    let mut gone = false;
    while !gone {
        gone = redis.command(&["DBSIZE"]).await == ["2"];
    }
}

#[tokio::test]
async fn a_purge_holds_on_all_replicas_from_the_next_look_on() {
    let redis = Redis::start().await;
    let (one, other) = (replica(&redis).await, replica(&redis).await);
    let fill = async || {
        store(&one, "plain", answer("plain")).await;
        store(&one, "scope", Stored { scope: Scope::Key(Arc::from("key_2")), ..answer("scope") }).await;
        store(&one, "model", Stored { model_used: Arc::from("q/m"), ..answer("model") }).await;
    };
    for (purge, left) in [
        (Purge::All, &[][..]),
        (Purge::Scope(Scope::Key(Arc::from("key_2"))), &["plain", "model"]),
        (Purge::Model(Arc::from("q/m")), &["plain", "scope"]),
        (Purge::Model(Arc::from("m")), &[]),
    ] {
        fill().await;
        for name in ["plain", "scope", "model"] {
            assert!(said(&other, name).await.is_some(), "{name} before {purge:?}");
        }
        one.purge(&purge).await.unwrap();
        for cache in [&one, &other] {
            for name in ["plain", "scope", "model"] {
                assert_eq!(said(cache, name).await.is_some(), left.contains(&name), "{name} after {purge:?}");
            }
        }
    }
    fill().await;
    assert!(said(&other, "plain").await.is_some(), "what is stored after a purge is found");
}

#[tokio::test]
async fn what_was_under_way_on_another_replica_when_it_was_purged_is_not_found() {
    let redis = Redis::start().await;
    let (one, other) = (replica(&redis).await, replica(&redis).await);
    let before = other.stamp();
    one.purge(&Purge::Model(Arc::from("m"))).await.unwrap();
    other.store(key("a"), Arc::new(answer("A")), before);
    other.written().await;
    assert_eq!((said(&one, "a").await, said(&other, "a").await), (None, None));
}

#[tokio::test]
async fn purges_of_more_names_than_are_told_apart_purge_more_not_less() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    store(&cache, "a", answer("A")).await;
    for n in 0..=crate::purges::MOST {
        redis.command(&["HSET", "gw:cache:purges", &format!("model:{n}"), "1"]).await;
    }
    assert!(said(&cache, "a").await.is_some());
    cache.purge(&Purge::Model(Arc::from("one more"))).await.unwrap();
    assert_eq!(said(&cache, "a").await, None);
    assert_eq!(redis.command(&["HLEN", "gw:cache:purges"]).await, ["2"]);
}

#[tokio::test]
async fn a_lost_table_of_purges_is_a_purge_of_everything() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    store(&cache, "a", answer("A")).await;
    let value = redis.command(&["KEYS", "*"]).await.into_iter().find(|key| !key.ends_with("purges")).unwrap();
    redis.command(&["PERSIST", &value]).await;
    redis.command(&["DEL", "gw:cache:purges"]).await;
    assert_eq!(said(&cache, "a").await, None, "nobody knows what was purged");
    // It is made anew in the background, and what is stored from then on is found.
    let last = cache.stamp();
    eventually("a new table", || (cache.stamp() > last).then_some(())).await;
    assert_eq!(said(&cache, "a").await, None);
    store(&cache, "a", answer("B")).await;
    assert_eq!(said(&cache, "a").await.as_deref(), Some("B"));
}

#[tokio::test]
async fn a_table_from_before_the_clock_went_back_is_followed_all_the_same() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    redis.command(&["HSET", "gw:cache:purges", "last", "1000", "all", "1000"]).await;
    eventually("the new table", || (cache.stamp() == Stamp(1000)).then_some(())).await;
    store(&cache, "a", answer("A")).await;
    assert_eq!(said(&cache, "a").await.as_deref(), Some("A"));
}

#[tokio::test]
async fn what_is_too_large_is_not_written() {
    let redis = Redis::start().await;
    let cache = Cache::shared(SharedSettings { most_bytes_of_one: 100, ..settings(redis.url()) }).await;
    store(&cache, "a", answer(&"x".repeat(101))).await;
    store(&cache, "b", answer(&"x".repeat(100))).await;
    assert_eq!(said(&cache, "a").await, None);
    assert!(said(&cache, "b").await.is_some());
}

#[tokio::test]
async fn a_megabyte_comes_back_whole() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    let text = "0123456789abcdef".repeat(1 << 16);
    store(&cache, "a", answer(&text)).await;
    for _ in 0..20 {
        assert_eq!(said(&cache, "a").await.as_ref(), Some(&text));
    }
}
