//! Redis is killed, hangs, is slow or is full. A lookup misses within its time limit, and at once when the fault is
//! known.

use std::time::Instant;

use gw_testkit::measured::at_most;
use gw_testkit::{Proxy, within};

use super::*;

/// A cache with the default settings of a gateway.
async fn cache_with_defaults(url: String) -> Cache {
    Cache::over_redis(RedisSettings::new(SecretString::from(url))).await
}

/// Asserts that lookups of sixteen tasks miss in time. An answer would take half a second, or forever. One of three
/// rounds has to keep the exact time limit, because the machine may be busy with other tests.
async fn assert_misses_in_time(cache: &Arc<Cache>) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let mut looks = JoinSet::new();
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
        at_most("assert_misses_in_time", longest, Duration::from_millis(450));
        if longest < Duration::from_millis(70) {
            return;
        }
        seen.push(longest);
    }
    panic!("{seen:?}");
}

/// Asserts that lookups do not wait: a thousand of them take less time than twenty timeouts.
async fn assert_lookups_are_free(cache: &Cache) {
    eventually("Redis counts as away", || cache.is_away().then_some(())).await;
    let key = key("a");
    let start = Instant::now();
    for _ in 0..1000 {
        assert!(matches!(cache.look(&key, HOUR, NOW).await, Found::Nothing));
    }
    at_most("assert_lookups_are_free", start.elapsed(), Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s09_a_killed_redis_is_a_miss_and_comes_back_by_itself() {
    let mut redis = Redis::start().await;
    let cache = Arc::new(cache_with_defaults(redis.url()).await);
    store(&cache, "a", answer("A")).await;
    redis.kill();
    assert_misses_in_time(&cache).await;
    assert_lookups_are_free(&cache).await;
    cache.store(key("a"), Arc::new(answer("A")), cache.stamp());
    assert_eq!(cache.purge(&Purge::All).await, Err(PurgeError));
    assert!(cache.figures().unwritten > 0);
    redis.restart().await;
    wait_until_back(&cache).await;
    // The new table of purges has higher numbers than the lost one.
    eventually_found(&cache).await;
}

/// Stores until the answer is found, because a busy machine may be late.
async fn eventually_found(cache: &Cache) {
    for _ in 0..100 {
        wait_until_back(cache).await;
        store(cache, "a", answer("B")).await;
        if fresh_body(cache, "a").await.as_deref() == Some("B") {
            return;
        }
    }
    panic!("not found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s09_a_redis_that_hangs_is_a_miss_within_the_bound() {
    let redis = Redis::start().await;
    let cache = Arc::new(cache_with_defaults(redis.url()).await);
    store(&cache, "a", answer("A")).await;
    redis.pause();
    assert_misses_in_time(&cache).await;
    assert_lookups_are_free(&cache).await;
    redis.resume();
    eventually_found(&cache).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s09_a_slow_redis_is_a_miss_within_the_bound() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port()).await;
    let cache = Arc::new(cache_with_defaults(format!("redis://{}/0", proxy.address())).await);
    wait_until_back(&cache).await;
    proxy.delay(Duration::from_millis(500));
    assert_misses_in_time(&cache).await;
    assert_lookups_are_free(&cache).await;
    proxy.delay(Duration::ZERO);
    eventually_found(&cache).await;
    proxy.cut();
    assert_misses_in_time(&cache).await;
    assert_lookups_are_free(&cache).await;
    proxy.heal();
    eventually_found(&cache).await;
}

#[tokio::test]
async fn s09_a_flushed_redis_is_empty_and_goes_on() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    store(&cache, "a", answer("A")).await;
    // The next heartbeat may come right after the flush.
    let last = cache.stamp();
    redis.flush().await;
    assert_eq!(fresh_body(&cache, "a").await, None);
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
    // The answers that were written are found. Lookups of the others neither wait nor fail.
    let mut found = 0;
    for n in 0..80 {
        wait_until_back(&cache).await;
        found += u32::from(fresh_body(&cache, &n.to_string()).await.is_some());
    }
    assert!((1..80).contains(&found), "{found}");
}

#[tokio::test]
async fn a_redis_that_is_not_there_yet_is_found_when_it_comes() {
    let mut redis = Redis::start().await;
    redis.kill();
    let cache = within("a start", cache_with_defaults(redis.url())).await;
    assert!(cache.is_away());
    cache.store(key("a"), Arc::new(answer("A")), cache.stamp());
    redis.restart().await;
    eventually_found(&cache).await;
}
