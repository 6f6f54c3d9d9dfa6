//! Waiting for conditions with a deadline, without guessed sleeps. The pauses between two looks at a condition stand here alone.

use std::fmt;
use std::time::{Duration, Instant};

/// The time after which a step of a test counts as hung. A busy machine is slow, and no test passes or fails by its speed.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Polls `probe` until it returns a value; panics with `what` after [`DEADLINE`].
#[track_caller]
pub fn eventually<T>(what: &str, probe: impl FnMut() -> Option<T>) -> impl Future<Output = T> {
    eventually_within(DEADLINE, what, probe)
}

/// Polls `probe` until it returns a value; panics with `what` after `limit`.
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
            pause_since(start).await;
        }
    }
}

/// Polls the future of `probe` until it returns a value; panics with `what` after [`DEADLINE`].
#[track_caller]
pub fn eventually_async<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
    within(what, async move {
        let start = Instant::now();
        loop {
            if let Some(value) = probe().await {
                return value;
            }
            pause_since(start).await;
        }
    })
}

/// Polls the future of `probe` until it returns `Ok`; panics with `what` and the last error after [`DEADLINE`].
#[track_caller]
pub fn eventually_ok<T, E: fmt::Debug>(
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, E>,
) -> impl Future<Output = T> {
    let (what, place) = (what.to_owned(), std::panic::Location::caller());
    async move {
        let (start, mut last) = (Instant::now(), None);
        let polling = async {
            loop {
                match probe().await {
                    Ok(value) => return value,
                    Err(error) => last = Some(error),
                }
                pause_since(start).await;
            }
        };
        match tokio::time::timeout(DEADLINE, polling).await {
            Ok(value) => value,
            Err(_) => panic!("not within {DEADLINE:?}: {what}: {last:?} (asked at {place})"),
        }
    }
}

/// Waits until the condition holds; panics with `what` after [`DEADLINE`].
#[track_caller]
pub fn eventually_true(what: &str, mut condition: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    eventually_async(what, async move || condition().await.then_some(()))
}

/// The pause between two looks at a condition: a hundredth of the time since the first one, so that a test that waits long leaves
/// the processor to the gateway.
async fn pause_since(start: Instant) {
    let pause = (start.elapsed() / 100).clamp(Duration::from_millis(5), Duration::from_millis(100));
    tokio::time::sleep(pause).await;
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
