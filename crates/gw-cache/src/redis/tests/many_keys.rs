//! Lookups and writes of many keys, such as the inputs of a batch of embeddings.

use super::*;

use gw_testkit::measured::at_most;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("n{n}")).collect()
}

/// The body of the fresh answer under each of these names.
async fn fresh_bodies(cache: &Cache, names: &[String]) -> Vec<Option<String>> {
    let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
    let found = cache.look_all(&keys, HOUR, NOW).await;
    let text = |found| match found {
        Found::Fresh(stored) => Some(String::from_utf8(stored.body.to_vec()).expect("text")),
        Found::Stale(_) | Found::Nothing => None,
    };
    found.into_iter().map(text).collect()
}

async fn store_all(cache: &Cache, names: &[String]) {
    let answers = names.iter().map(|name| (key(name), Arc::new(answer(name)))).collect();
    cache.store_all(answers, cache.stamp());
    cache.wait_until_written().await;
}

#[tokio::test]
async fn stored_answers_are_found_in_the_order_of_their_keys() {
    let redis = Redis::start().await;
    for cache in [replica(&redis).await, Cache::in_process(64 << 20)] {
        let all = names(2048);
        let some: Vec<String> = all.iter().filter(|name| !name.ends_with('7')).cloned().collect();
        store_all(&cache, &some).await;
        assert_eq!((cache.figures().stored, cache.figures().unwritten), (some.len() as u64, 0));
        let expected: Vec<_> = all.iter().map(|name| some.contains(name).then(|| name.clone())).collect();
        assert_eq!(fresh_bodies(&cache, &all).await, expected);
        assert_eq!(fresh_bodies(&cache, &[]).await, Vec::<Option<String>>::new());
        assert_eq!(fresh_body(&cache, "n0").await.as_deref(), Some("n0"));
        cache.purge(&Purge::All).await.unwrap();
        assert!(fresh_bodies(&cache, &all).await.iter().all(Option::is_none));
    }
}

#[tokio::test]
async fn many_large_answers_are_written_in_groups() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    // More bytes than a group holds, more answers than a group holds, and one answer that is too large.
    let text = "0123456789abcdef".repeat(40_000);
    let mut answers: Vec<_> = names(3).iter().map(|name| (key(name), Arc::new(answer(&text)))).collect();
    answers.extend(names(200).iter().skip(3).map(|name| (key(name), Arc::new(answer(name)))));
    answers.push((key("too large"), Arc::new(answer(&text.repeat(4)))));
    cache.store_all(answers, cache.stamp());
    cache.wait_until_written().await;
    let found = fresh_bodies(&cache, &names(200)).await;
    assert!(found.iter().take(3).all(|body| body.as_ref() == Some(&text)));
    assert!(found.iter().skip(3).all(Option::is_some));
    assert_eq!((cache.figures().stored, cache.figures().unwritten), (200, 0));
    assert_eq!(fresh_body(&cache, "too large").await, None);
}

#[tokio::test]
async fn a_lookup_of_many_keys_waits_no_longer_than_one_and_counts_as_one_miss() {
    let redis = Redis::start().await;
    let timeout = Duration::from_millis(100);
    let cache = Cache::over_redis(RedisSettings { timeout, ..settings(redis.url()) }).await;
    let all = names(2048);
    redis.pause();
    // Each lookup counts as one missed answer, whatever its number of keys.
    for looks in 1..=u64::from(gw_redis::MAX_MISSED_ANSWERS) {
        let asked = tokio::time::Instant::now();
        assert!(fresh_bodies(&cache, &all).await.iter().all(Option::is_none));
        at_most(
            "a_lookup_of_many_keys_waits_no_longer_than_one_and_counts_as_one_miss",
            asked.elapsed(),
            timeout * 20,
        );
        // A sign of life that has none may have come before.
        assert!(cache.is_away() || cache.figures().unanswered >= looks, "{:?}", cache.figures());
    }
    eventually("it counts as away", || cache.is_away().then_some(())).await;
    assert!(fresh_bodies(&cache, &all).await.iter().all(Option::is_none));
    redis.resume();
    wait_until_back(&cache).await;
}
