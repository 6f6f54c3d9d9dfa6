//! The cache in process, from lookups to figures. `redis/tests.rs` tests it over Redis.

use gw_wire::money::Money;

use super::*;
use crate::doubles::{NOW, answer, key};
use crate::{CacheDirectives, Lifetime};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn an_answer_is_fresh_then_stale_then_expired() {
    let cache = Cache::in_process(1 << 20);
    let lifetime = Lifetime::new(NOW, Duration::from_secs(60), Duration::from_secs(30));
    cache.store(key("a"), Arc::new(Stored { lifetime, ..answer("A") }), cache.stamp());
    let look = async |max_age, later_ms| cache.look(&key("a"), max_age, NOW + later_ms).await;
    assert!(matches!(look(HOUR, 60_000).await, Found::Fresh(_)));
    assert!(matches!(look(Duration::from_secs(5), 5_001).await, Found::Stale(_)));
    assert!(matches!(look(HOUR, 60_001).await, Found::Stale(_)));
    assert!(matches!(look(HOUR, 90_001).await, Found::Nothing));
    assert!(matches!(cache.look(&key("b"), HOUR, NOW).await, Found::Nothing));
    assert!(!cache.is_away());
}

#[tokio::test]
async fn an_answer_is_fresh_for_its_own_time_even_if_the_request_takes_older_ones() {
    let cache = Cache::in_process(1 << 20);
    let directives = CacheDirectives::new(crate::Mode::ReadWrite, HOUR).with_cache_control(b"max-age=10");
    cache.store(key("a"), Arc::new(answer("A")), cache.stamp());
    let look = async |max_age, later_ms| cache.look(&key("a"), max_age, NOW + later_ms).await;
    assert!(matches!(look(directives.max_age, 10_000).await, Found::Fresh(_)));
    // Without a window for stale answers, an answer that is too old for one request is a miss, and still fresh for
    // others.
    assert!(matches!(look(directives.max_age, 10_001).await, Found::Nothing));
    assert!(matches!(look(HOUR, 59_999).await, Found::Fresh(_)));
    assert!(matches!(look(HOUR, 60_001).await, Found::Nothing));
}

#[tokio::test]
async fn savings_are_counted_exactly() {
    let cache = Cache::in_process(1 << 20);
    let stored = answer("A");
    cache.store(key("a"), Arc::new(stored.clone()), cache.stamp());
    assert!(cache.figures().hit_ratio().abs() < f64::EPSILON);
    for outcome in [
        Outcome::Miss,
        Outcome::Hit(&stored),
        Outcome::Hit(&stored),
        Outcome::Coalesced(&stored),
        Outcome::Stale(&stored),
        Outcome::Similar(&stored),
        Outcome::Bypass,
        Outcome::Miss,
        Outcome::Partial(&stored),
    ] {
        cache.count(outcome);
    }
    let figures = cache.figures();
    let counts =
        (figures.hits, figures.coalesced, figures.stale, figures.similar, figures.misses, figures.bypassed);
    assert_eq!(counts, (2, 1, 1, 1, 3, 1));
    assert_eq!(figures.partial, 1, "it is one of the misses too");
    assert_eq!(figures.saved, Money::from_femtos(6 * stored.cost.unwrap().femtos()));
    assert_eq!(figures.saved_ms, 4 * stored.took_ms, "a shared call and a call for a part save no time");
    assert!((figures.hit_ratio() - 5.0 / 8.0).abs() < 1e-9);
    assert_eq!((figures.stored, figures.entries), (1, 1));
    assert!(figures.bytes > 0);
    cache.purge(&Purge::All).await.unwrap();
    assert_eq!((cache.figures().entries, cache.figures().bytes), (0, 0));
    cache.wait_until_written().await;
}
