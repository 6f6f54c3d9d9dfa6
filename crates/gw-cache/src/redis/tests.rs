//! A cache over a real Redis: replicas share it, and every fault is a miss in time.

mod hostile;
mod many_keys;
mod races;
mod unavailable;

use std::time::Duration;

use gw_testkit::{Redis, eventually};
use secrecy::SecretString;

use super::*;
use crate::doubles::{NOW, answer, key};
use crate::{Cache, Found, Lifetime, Scope};

const HOUR: Duration = Duration::from_secs(3600);

/// Settings with a long timeout, because the machine may be busy. Tests of a Redis that does not answer use the
/// default.
fn settings(url: String) -> RedisSettings {
    RedisSettings { timeout: Duration::from_secs(30), ..RedisSettings::new(SecretString::from(url)) }
}

/// A cache that is connected. On a busy machine the first attempt may need more than its second.
async fn replica(redis: &Redis) -> Cache {
    let cache = Cache::over_redis(settings(redis.url())).await;
    wait_until_back(&cache).await;
    cache
}

async fn store(cache: &Cache, name: &str, stored: Stored) {
    cache.store(key(name), Arc::new(stored), cache.stamp());
    cache.wait_until_written().await;
}

/// The body of the fresh answer under this name.
async fn fresh_body(cache: &Cache, name: &str) -> Option<String> {
    match cache.look(&key(name), HOUR, NOW).await {
        Found::Fresh(stored) => Some(String::from_utf8(stored.body.to_vec()).expect("text")),
        Found::Stale(_) | Found::Nothing => None,
    }
}

/// Waits until Redis is used again.
async fn wait_until_back(cache: &Cache) {
    eventually("Redis is used again", || (!cache.is_away()).then_some(())).await;
}

#[tokio::test]
async fn two_replicas_share_what_one_of_them_stored() {
    let redis = Redis::start().await;
    let (one, other) = (replica(&redis).await, replica(&redis).await);
    assert_eq!(fresh_body(&other, "a").await, None);
    let stored = Stored { scope: Scope::Team(Arc::from("team_1")), ..answer("A") };
    store(&one, "a", stored.clone()).await;
    let Found::Fresh(found) = other.look(&key("a"), HOUR, NOW).await else { panic!("not found") };
    assert_eq!(*found, stored);
    assert_eq!(fresh_body(&other, "b").await, None);
    store(&other, "a", answer("B")).await;
    assert_eq!(fresh_body(&one, "a").await.as_deref(), Some("B"));
    assert_eq!((one.figures().stored, one.figures().unanswered, one.figures().unwritten), (1, 0, 0));
}

#[tokio::test]
async fn an_answer_expires_in_redis_and_for_lookups() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    let lifetime = Lifetime::new(NOW, Duration::from_secs(60), Duration::from_secs(30));
    store(&cache, "a", Stored { lifetime, ..answer("A") }).await;
    let keys = redis.command(&["KEYS", "gw:cache:*"]).await;
    let value = keys.iter().find(|key| !key.ends_with("purges")).unwrap();
    let left: u64 = redis.command(&["PTTL", value]).await.concat().parse().unwrap();
    assert!((60_000..=90_000).contains(&left), "{left}");
    let look = async |later_ms| cache.look(&key("a"), HOUR, NOW + later_ms).await;
    assert!(matches!(look(60_000).await, Found::Fresh(_)));
    assert!(matches!(look(60_001).await, Found::Stale(_)));
    assert!(matches!(look(90_001).await, Found::Nothing));
    let short = Lifetime::new(NOW, Duration::from_millis(20), Duration::ZERO);
    store(&cache, "b", Stored { lifetime: short, ..answer("B") }).await;
    let mut gone = false;
    while !gone {
        gone = redis.command(&["DBSIZE"]).await == ["2"];
    }
}

#[tokio::test]
async fn a_purge_applies_to_the_next_lookup_on_every_replica() {
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
            assert!(fresh_body(&other, name).await.is_some(), "{name} before {purge:?}");
        }
        one.purge(&purge).await.unwrap();
        for cache in [&one, &other] {
            for name in ["plain", "scope", "model"] {
                assert_eq!(
                    fresh_body(cache, name).await.is_some(),
                    left.contains(&name),
                    "{name} after {purge:?}"
                );
            }
        }
    }
    fill().await;
    assert!(fresh_body(&other, "plain").await.is_some(), "an answer that is stored after the purge is found");
}

#[tokio::test]
async fn an_answer_whose_call_began_on_another_replica_before_a_purge_is_not_found() {
    let redis = Redis::start().await;
    let (one, other) = (replica(&redis).await, replica(&redis).await);
    let before = other.stamp();
    one.purge(&Purge::Model(Arc::from("m"))).await.unwrap();
    other.store(key("a"), Arc::new(answer("A")), before);
    other.wait_until_written().await;
    assert_eq!((fresh_body(&one, "a").await, fresh_body(&other, "a").await), (None, None));
}

#[tokio::test]
async fn purges_of_too_many_names_purge_more_and_never_less() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    store(&cache, "a", answer("A")).await;
    for n in 0..=crate::purge_log::MAX_PURGED_NAMES {
        redis.command(&["HSET", "gw:cache:purges", &format!("model:{n}"), "1"]).await;
    }
    assert!(fresh_body(&cache, "a").await.is_some());
    cache.purge(&Purge::Model(Arc::from("one more"))).await.unwrap();
    assert_eq!(fresh_body(&cache, "a").await, None);
    assert_eq!(redis.command(&["HLEN", "gw:cache:purges"]).await, ["2"]);
}

#[tokio::test]
async fn a_lost_table_of_purges_is_a_purge_of_everything() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    store(&cache, "a", answer("A")).await;
    let value = redis.command(&["KEYS", "*"]).await.into_iter().find(|key| !key.ends_with("purges")).unwrap();
    redis.command(&["PERSIST", &value]).await;
    // The next heartbeat may come right after the loss.
    let last = cache.stamp();
    redis.command(&["DEL", "gw:cache:purges"]).await;
    assert_eq!(fresh_body(&cache, "a").await, None, "the purges are unknown");
    // A heartbeat creates the table again, and answers that are stored after that are found.
    eventually("a new table", || (cache.stamp() > last).then_some(())).await;
    assert_eq!(fresh_body(&cache, "a").await, None);
    store(&cache, "a", answer("B")).await;
    assert_eq!(fresh_body(&cache, "a").await.as_deref(), Some("B"));
}

#[tokio::test]
async fn a_new_table_with_lower_numbers_is_followed() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    redis.command(&["HSET", "gw:cache:purges", "last", "1000", "all", "1000"]).await;
    eventually("the new table", || (cache.stamp() == Stamp(1000)).then_some(())).await;
    store(&cache, "a", answer("A")).await;
    assert_eq!(fresh_body(&cache, "a").await.as_deref(), Some("A"));
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_stored() {
    let redis = Redis::start().await;
    let cache = Cache::over_redis(RedisSettings { max_entry_bytes: 100, ..settings(redis.url()) }).await;
    store(&cache, "a", answer(&"x".repeat(101))).await;
    store(&cache, "b", answer(&"x".repeat(100))).await;
    assert_eq!(fresh_body(&cache, "a").await, None);
    assert!(fresh_body(&cache, "b").await.is_some());
}

#[tokio::test]
async fn an_answer_of_a_megabyte_comes_back_unchanged() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    let text = "0123456789abcdef".repeat(1 << 16);
    store(&cache, "a", answer(&text)).await;
    for _ in 0..20 {
        assert_eq!(fresh_body(&cache, "a").await.as_ref(), Some(&text));
    }
}
