//! Requests start turn by turn, and overload is detected by the expected wait.

use super::*;
use futures_util::FutureExt;

const LIMIT: Duration = Duration::from_millis(20);

fn admission(limit: Duration, signals: &Arc<LoadSignals>) -> Arc<Admission> {
    let metrics = AdmissionMetrics { refused: Counter::default(), wait: Gauge::default() };
    let mut admission = Admission::new(limit, Arc::clone(signals), metrics);
    // The queue can be as old as a test wants.
    admission.origin -= Duration::from_secs(60);
    Arc::new(admission)
}

fn quiet() -> Arc<LoadSignals> {
    Arc::default()
}

/// An admission queue whose requests take this long each.
fn paced(pace: Duration) -> Arc<Admission> {
    let admission = admission(LIMIT, &quiet());
    admission.pace.store(nanos(pace), Ordering::Relaxed);
    admission
}

/// Pretends that `waiting` requests wait, the first of them since `age`.
fn queue(admission: &Admission, waiting: u32, age: Duration) {
    admission.waiting.store(waiting, Ordering::Relaxed);
    admission.queued_since.store(admission.now().saturating_sub(nanos(age)), Ordering::Relaxed);
}

#[tokio::test]
async fn requests_start_in_their_order_turn_by_turn() {
    let admission = admission(LIMIT, &quiet());
    let keeper = Arc::clone(&admission);
    tokio::spawn(async move { keeper.run().await });
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let many = MAX_STARTS_PER_TURN * 3;
    for number in 0..many {
        let (admission, tell) = (Arc::clone(&admission), tell.clone());
        tokio::spawn(async move {
            assert_eq!(admission.admit().await, Ok(()));
            tell.send(number).unwrap();
        });
    }
    for number in 0..many {
        assert_eq!(told.recv().await, Some(number));
    }
    assert_eq!(admission.waiting.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_turn_starts_a_bounded_number_of_requests() {
    let admission = paced(Duration::from_micros(250));
    assert!(!admission.begin_turn(nanos(Duration::from_millis(1))), "nobody waits");
    let begun = (0..MAX_STARTS_PER_TURN).filter(|_| admission.admit().now_or_never().is_some()).count();
    assert_eq!(begun, starts_per_turn(admission.pace.load(Ordering::Relaxed)));
    assert!((1..MAX_STARTS_PER_TURN).contains(&begun), "{begun}");
}

#[test]
fn a_turn_holds_as_many_requests_as_fit_into_it() {
    for (micros, most) in [(0, 64), (1, 64), (100, 10), (125, 8), (999, 8), (50_000, 8)] {
        assert_eq!(starts_per_turn(nanos(Duration::from_micros(micros))), most, "{micros} µs each");
    }
}

#[tokio::test]
async fn a_request_that_leaves_the_queue_is_not_counted() {
    let admission = paced(Duration::from_millis(1));
    while admission.admit().now_or_never().is_some() {}
    let mut left = Box::pin(admission.admit());
    assert!(left.as_mut().now_or_never().is_none());
    assert_eq!(admission.waiting.load(Ordering::Relaxed), 1);
    drop(left);
    assert_eq!(admission.waiting.load(Ordering::Relaxed), 0);
}

#[test]
fn the_expected_wait_decides() {
    let admission = paced(Duration::from_millis(1));
    for (waiting, age_ms, is_overloaded) in [
        (0, 1_000, false),
        (8, 1_000, false),
        (20, 1_000, false),
        (21, 1_000, true),
        // In a burst the queue may be longer.
        (21, 50, false),
        (100, 50, false),
        (101, 50, true),
        (101, 0, true),
    ] {
        queue(&admission, waiting, Duration::from_millis(age_ms));
        assert_eq!(admission.is_overloaded(), is_overloaded, "{waiting} since {age_ms} ms");
    }
}

#[test]
fn by_default_a_request_that_would_be_answered_within_a_second_is_not_refused() {
    let limit = crate::settings::ServerSettings::default().shed_after;
    assert_eq!(limit, Duration::from_secs(1));
    let admission = admission(limit, &quiet());
    admission.pace.store(nanos(Duration::from_millis(5)), Ordering::Relaxed);
    for (waiting, is_overloaded) in [(50, false), (200, false), (201, true)] {
        queue(&admission, waiting, Duration::from_secs(10));
        assert_eq!(admission.is_overloaded(), is_overloaded, "{waiting} of 5 ms each");
    }
}

#[test]
fn a_short_queue_of_slow_requests_is_no_overload() {
    let admission = paced(Duration::from_secs(1));
    queue(&admission, MAX_HARMLESS_QUEUE, Duration::from_secs(1));
    assert!(!admission.is_overloaded());
    queue(&admission, MAX_HARMLESS_QUEUE + 1, Duration::from_secs(1));
    assert!(admission.is_overloaded());
}

#[tokio::test]
async fn refusals_are_counted_and_end_with_the_queue() {
    let admission = paced(Duration::from_millis(1));
    queue(&admission, 30, Duration::from_secs(1));
    assert_eq!(admission.admit().await, Err(Overloaded));
    assert_eq!(admission.admit().await, Err(Overloaded));
    assert_eq!(admission.metrics.refused.get(), 2);
    queue(&admission, 0, Duration::ZERO);
    assert_eq!(admission.admit().await, Ok(()));
    assert_eq!(admission.metrics.refused.get(), 2);
}

#[tokio::test]
async fn a_queue_elsewhere_counts_too() {
    let wait = Arc::new(AtomicU64::new(0));
    let (signals, shown) = (quiet(), Arc::clone(&wait));
    let signal = move || Duration::from_millis(shown.load(Ordering::Relaxed));
    assert!(signals.set(vec![Box::new(|| Duration::ZERO), Box::new(signal)]));
    assert!(!signals.set(Vec::new()), "once");
    let admission = admission(LIMIT, &signals);
    for (millis, outcome) in [(100, Ok(())), (101, Err(Overloaded)), (0, Ok(()))] {
        wait.store(millis, Ordering::Relaxed);
        assert_eq!(admission.admit().await, outcome, "{millis} ms");
    }
}

#[tokio::test]
async fn a_limit_of_zero_lets_everything_through() {
    let admission = admission(Duration::ZERO, &quiet());
    admission.pace.store(nanos(Duration::from_secs(1)), Ordering::Relaxed);
    queue(&admission, 1_000, Duration::from_secs(10));
    for _ in 0..MAX_STARTS_PER_TURN * 2 {
        assert_eq!(admission.admit().now_or_never(), Some(Ok(())));
    }
}

#[test]
fn the_pace_follows_what_turns_take() {
    let admission = admission(LIMIT, &quiet());
    for _ in 0..100 {
        admission.begin_turn(nanos(Duration::from_millis(4)));
    }
    let pace = admission.pace.load(Ordering::Relaxed);
    let millis = Duration::from_nanos(pace).as_secs_f64() * 1e3;
    assert!((3.9..=4.0).contains(&millis), "one request a turn of 4 ms: {millis}");
}
