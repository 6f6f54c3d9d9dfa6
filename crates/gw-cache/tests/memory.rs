//! The memory of the cache, in a process of its own. The bytes that the cache asks the allocator for depend on nothing but
//! the answers, so every run compares them with the bound. The resident memory depends on the machine, too.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test")]

use gw_wire::operation::PlainOperation;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_cache::{Cache, Key, Lifetime, Question, Scope, Stored};
use gw_testkit::measured::at_most;
use gw_wire::kept_answer::KeptPlaces;
use gw_wire::money::Money;
use gw_wire::reply::Finish;
use gw_wire::request::{Body, RequestLimits};
use gw_wire::usage::Usage;

const MIB: u64 = 1 << 20;

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = status.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

fn key(n: u64) -> Key {
    let body = Body::parse(Bytes::from(format!("{{\"n\":{n}}}")), &RequestLimits::default()).expect("a body");
    let scope = Scope::Key(Arc::from("key_1"));
    let question = Question {
        route: PlainOperation::Chat,
        model: "m",
        candidates: &["p/m"],
        config: 1,
        body: &body,
        native: None,
        input: None,
    };
    Key::of(&scope, &question).expect("a key")
}

/// An answer as the engine stores it: the names are shared, the text is not.
fn answer(names: &[Arc<str>; 3], bytes: usize) -> Stored {
    let [key, model, provider] = names.clone();
    Stored {
        scope: Scope::Key(key),
        source: Arc::from("req_00000000000000000000000000"),
        model: Arc::clone(&model),
        model_used: model,
        provider,
        body: Bytes::from(vec![b'x'; bytes]),
        finishes: vec![Finish::Stop],
        usage: Usage::default(),
        cost: Some(Money::ZERO),
        took_ms: 1,
        lifetime: Lifetime::new(0, Duration::from_secs(3600), Duration::ZERO),
        places: KeptPlaces::default(),
    }
}

/// Stores answers of `sizes` in `cache`, and returns the most bytes that its memory grew by: allocated, and resident.
fn fill(cache: &Cache, max_bytes: u64, answers: u64, sizes: &[usize]) -> (u64, u64) {
    let names = ["key_1", "p/m", "p"].map(Arc::<str>::from);
    let before = resident();
    let (mut allocated, mut most_allocated, mut most_resident) = (0, 0, 0);
    for n in 0..answers {
        let size = sizes[usize::try_from(n).expect("a small number") % sizes.len()];
        let work = allocation_counter::measure(|| {
            cache.store(key(n), Arc::new(answer(&names, size)), cache.stamp());
        });
        allocated += work.bytes_current;
        if n % 256 == 0 {
            most_allocated = most_allocated.max(allocated);
            most_resident = most_resident.max(resident().saturating_sub(before));
            assert!(cache.figures().bytes <= max_bytes);
        }
    }
    (u64::try_from(most_allocated).expect("a positive number"), most_resident)
}

/// `CACHE_ANSWERS=1000000` runs the full test. The default fills the cache several times over.
#[tokio::test]
async fn memory_stays_within_the_bound_and_a_tenth_under_a_million_distinct_answers() {
    let answers = std::env::var("CACHE_ANSWERS").ok().and_then(|text| text.parse().ok()).unwrap_or(50_000);
    // Small answers come first. The tables weigh most for them, and the freed memory is used again for the others.
    for (max_bytes, sizes) in [(16 * MIB, &[40][..]), (16 * MIB, &[200, 900, 2_000, 7_000])] {
        let cache = Cache::in_process(max_bytes);
        let (allocated, resident) = fill(&cache, max_bytes, answers, sizes);
        let figures = cache.figures();
        let shown = format!("{} MiB for {} entries of {sizes:?}", allocated / MIB, figures.entries);
        println!("{shown}, weighing {} MiB", figures.bytes / MIB);
        assert!(figures.bytes > max_bytes * 9 / 10, "{shown}");
        assert!(allocated <= max_bytes, "{shown}");
        at_most(
            &format!("resident MiB for {} entries of {sizes:?}", figures.entries),
            resident / MIB,
            max_bytes * 11 / 10 / MIB,
        );
        drop(cache);
    }
}
