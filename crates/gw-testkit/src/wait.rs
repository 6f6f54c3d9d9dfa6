//! Waiting for conditions with a deadline, without guessed sleeps.

use std::time::{Duration, Instant};

/// The time after which a step of a test counts as hung. A busy machine is slow, and no test passes or fails by its speed.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Polls `probe` until it gives a value; panics with `what` after [`DEADLINE`].
#[track_caller]
pub fn eventually<T>(what: &str, probe: impl FnMut() -> Option<T>) -> impl Future<Output = T> {
    eventually_within(DEADLINE, what, probe)
}

/// Polls `probe` until it gives a value; panics with `what` after `limit`.
#[track_caller]
pub fn eventually_within<T>(
    limit: Duration,
    what: &str,
    mut probe: impl FnMut() -> Option<T>,
) -> impl Future<Output = T> {
    let (what, place) = (what.to_owned(), std::panic::Location::caller());
    async move {
        let start = Instant::now();
        loop {
            if let Some(value) = probe() {
                return value;
            }
            assert!(start.elapsed() < limit, "not within {limit:?}: {what} (asked at {place})");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Polls the future of `probe` until it gives a value; panics with `what` after [`DEADLINE`].
#[track_caller]
pub fn eventually_async<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut probe: impl FnMut() -> F,
) -> impl Future<Output = T> {
    within(what, async move {
        loop {
            if let Some(value) = probe().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
}

/// Awaits `future`; panics with `what` when it takes longer than [`DEADLINE`].
#[track_caller]
pub fn within<F: Future>(what: &str, future: F) -> impl Future<Output = F::Output> {
    let (what, place) = (what.to_owned(), std::panic::Location::caller());
    async move {
        match tokio::time::timeout(DEADLINE, future).await {
            Ok(value) => value,
            Err(_) => panic!("hung for {DEADLINE:?}: {what} (asked at {place})"),
        }
    }
}
