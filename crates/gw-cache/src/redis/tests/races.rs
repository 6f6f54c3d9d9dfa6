//! Lookups that are cancelled race lookups that are not. No lookup gets the answer of another one.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

const NAMES: u64 = 64;

/// `S10_CALLS=100000` runs the full test. The default takes less time.
fn calls() -> usize {
    std::env::var("S10_CALLS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s10_looks_that_are_cancelled_leave_no_wrong_answer_behind() {
    let redis = Redis::start().await;
    let cache = Arc::new(replica(&redis).await);
    for n in 0..NAMES {
        // The lengths differ, so that an answer that is cut in the wrong place is noticed.
        let text = format!("{n}:").repeat(usize::try_from(n * n).expect("small") + 1);
        store(&cache, &n.to_string(), answer(&text)).await;
    }
    const TASKS: usize = 32;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let cache = Arc::clone(&cache);
        tasks.spawn(async move {
            let mut rng = StdRng::seed_from_u64(task as u64);
            let (mut found, mut cancelled) = (0, 0);
            for _ in 0..calls() / TASKS {
                let n = rng.random_range(0..NAMES).to_string();
                // Cancelled before, during or after the exchange with Redis.
                let patience = Duration::from_micros(rng.random_range(0..300));
                let doomed = fresh_body(&cache, &n);
                cancelled += usize::from(tokio::time::timeout(patience, doomed).await.is_err());
                let n = rng.random_range(0..NAMES).to_string();
                if let Some(text) = fresh_body(&cache, &n).await {
                    assert!(text.starts_with(&format!("{n}:")), "asked for {n}, got {text:.20}");
                    found += 1;
                }
            }
            (found, cancelled)
        });
    }
    let done = tasks.join_all().await;
    let (found, cancelled) = done.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(found > calls() * 9 / 10, "{found}");
    assert!(cancelled > calls() / 10, "{cancelled}");
}

#[tokio::test]
async fn s10_a_value_that_lies_under_another_keys_name_is_a_miss() {
    let redis = Redis::start().await;
    let cache = replica(&redis).await;
    store(&cache, "a", answer("A")).await;
    let a = redis.command(&["KEYS", "gw:cache:[0-9a-f]*"]).await.concat();
    store(&cache, "b", answer("B")).await;
    let both = redis.command(&["KEYS", "gw:cache:[0-9a-f]*"]).await;
    let b = both.iter().find(|name| **name != a && !name.ends_with("purges")).unwrap();
    redis.command(&["COPY", &a, b, "REPLACE"]).await;
    assert_eq!(fresh_body(&cache, "b").await, None);
    assert_eq!(fresh_body(&cache, "a").await.as_deref(), Some("A"));
    for garbage in ["", "x", &"x".repeat(500)] {
        redis.command(&["SET", &a, garbage]).await;
        assert_eq!(fresh_body(&cache, "a").await, None);
    }
    redis.command(&["DEL", &a]).await;
    redis.command(&["LPUSH", &a, "x"]).await;
    assert_eq!(fresh_body(&cache, "a").await, None);
    store(&cache, "a", answer("C")).await;
    assert_eq!(fresh_body(&cache, "a").await.as_deref(), Some("C"));
    assert!(!cache.is_away());
}
