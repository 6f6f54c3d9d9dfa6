//! Redis is killed, hangs, is slow or refuses: a look is a miss within its bound, and nothing once that is known.

use std::time::Instant;

use gw_testkit::{Proxy, within};

use super::*;

/// The settings that a gateway has.
async fn hasty(url: String) -> Cache {
    Cache::shared(SharedSettings::new(SecretString::from(url))).await
}

/// That sixteen at a time look in vain, none for long: an answer would take half a second, or for ever. The machine may be busy with
/// other tests, so that the bound itself is kept in one of three rounds.
async fn everybody_misses_in_time(cache: &Arc<Cache>) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let mut looks = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let cache = Arc::clone(cache);
            looks.spawn(async move {
                let key = key("a");
                let mut longest = Duration::ZERO;
                for _ in 0..50 {
                    let start = Instant::now();
                    assert!(matches!(cache.look(&key, HOUR, NOW).await, Found::Nothing));
                    longest = longest.max(start.elapsed());
                }
                longest
            });
        }
        let longest = within("all looks", looks.join_all()).await.into_iter().max().unwrap_or_default();
        assert!(longest < Duration::from_millis(450), "{longest:?}");
        if longest < Duration::from_millis(70) {
            return;
        }
        seen.push(longest);
    }
    panic!("{seen:?}");
}

/// That looks cost nothing: a thousand of them take less than twenty would that wait.
async fn looks_are_free(cache: &Cache) {
    eventually("Redis counts as away", || cache.is_away().then_some(())).await;
    let key = key("a");
    let start = Instant::now();
    for _ in 0..1000 {
        assert!(matches!(cache.look(&key, HOUR, NOW).await, Found::Nothing));
    }
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s09_a_killed_redis_is_a_miss_and_comes_back_by_itself() {
    let mut redis = Redis::start().await;
    let cache = Arc::new(hasty(redis.url()).await);
    store(&cache, "a", answer("A")).await;
    redis.kill();
    everybody_misses_in_time(&cache).await;
    looks_are_free(&cache).await;
    cache.store(key("a"), Arc::new(answer("A")), cache.stamp());
    assert_eq!(cache.purge(&Purge::All).await, Err(crate::NotPurged));
    assert!(cache.figures().unwritten > 0);
    redis.restart().await;
    back(&cache).await;
    // What was known of the old table is older than the new one.
    eventually_found(&cache).await;
}

/// Stores until it is found: a busy machine may once be late.
async fn eventually_found(cache: &Cache) {
    for _ in 0..100 {
        back(cache).await;
        store(cache, "a", answer("B")).await;
        if said(cache, "a").await.as_deref() == Some("B") {
            return;
        }
    }
    panic!("not found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s09_a_redis_that_hangs_is_a_miss_within_the_bound() {
    let redis = Redis::start().await;
    let cache = Arc::new(hasty(redis.url()).await);
    store(&cache, "a", answer("A")).await;
    redis.pause();
    everybody_misses_in_time(&cache).await;
    looks_are_free(&cache).await;
    redis.resume();
    eventually_found(&cache).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s09_a_slow_redis_is_a_miss_within_the_bound() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port()).await;
    let cache = Arc::new(hasty(format!("redis://{}/0", proxy.address())).await);
    back(&cache).await;
    proxy.delay(Duration::from_millis(500));
    everybody_misses_in_time(&cache).await;
    looks_are_free(&cache).await;
    proxy.delay(Duration::ZERO);
    eventually_found(&cache).await;
    proxy.cut();
    everybody_misses_in_time(&cache).await;
    looks_are_free(&cache).await;
    proxy.heal();
    eventually_found(&cache).await;
}

#[tokio::test]
async fn s09_a_flushed_redis_is_empty_and_goes_on() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    store(&cache, "a", answer("A")).await;
    redis.flush().await;
    assert_eq!(said(&cache, "a").await, None);
    let last = cache.stamp();
    eventually("a new table", || (cache.stamp() > last).then_some(())).await;
    eventually_found(&cache).await;
    assert!(!cache.is_away());
}

#[tokio::test]
async fn s09_a_redis_that_is_full_answers_misses() {
    let redis = Redis::start_with(&["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"]).await;
    let cache = replica(&redis).await;
    for n in 0..80 {
        store(&cache, &n.to_string(), answer(&"x".repeat(100_000))).await;
    }
    let figures = cache.figures();
    assert!(figures.unwritten > 0, "{figures:?}");
    // What went in before is found; whatever the rest is, it is no wait and no error.
    let mut found = 0;
    for n in 0..80 {
        back(&cache).await;
        found += u32::from(said(&cache, &n.to_string()).await.is_some());
    }
    assert!((1..80).contains(&found), "{found}");
}

#[tokio::test]
async fn a_redis_that_is_not_there_yet_is_found_when_it_comes() {
    let mut redis = Redis::start().await;
    redis.kill();
    let cache = within("a start", hasty(redis.url())).await;
    assert!(cache.is_away());
    cache.store(key("a"), Arc::new(answer("A")), cache.stamp());
    redis.restart().await;
    eventually_found(&cache).await;
}
