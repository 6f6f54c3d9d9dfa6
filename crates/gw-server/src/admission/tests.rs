//! The gate lets requests begin turn by turn, and says when it is overloaded.

use super::*;
use futures_util::FutureExt;

const LIMIT: Duration = Duration::from_millis(20);

fn gate(limit: Duration, signals: &Arc<Signals>) -> Arc<Gate> {
    let reports = Reports { refused: Counter::default(), wait: Gauge::default() };
    let mut gate = Gate::new(limit, Arc::clone(signals), reports);
    // Old enough for queues of any age.
    gate.origin -= Duration::from_secs(60);
    Arc::new(gate)
}

fn quiet() -> Arc<Signals> {
    Arc::default()
}

/// A gate whose requests take so long each.
fn paced(pace: Duration) -> Arc<Gate> {
    let gate = gate(LIMIT, &quiet());
    gate.pace.store(nanos(pace), Ordering::Relaxed);
    gate
}

/// As if so many requests waited, the first of them since `age`.
fn queue(gate: &Gate, waiting: u32, age: Duration) {
    gate.waiting.store(waiting, Ordering::Relaxed);
    gate.queued_since.store(gate.now().saturating_sub(nanos(age)), Ordering::Relaxed);
}

#[tokio::test]
async fn requests_begin_in_their_order_turn_by_turn() {
    let gate = gate(LIMIT, &quiet());
    let keeper = Arc::clone(&gate);
    tokio::spawn(async move { keeper.turn().await });
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let many = MOST_IN_A_TURN * 3;
    for number in 0..many {
        let (gate, tell) = (Arc::clone(&gate), tell.clone());
        tokio::spawn(async move {
            assert_eq!(gate.enter().await, Ok(()));
            tell.send(number).unwrap();
        });
    }
    for number in 0..many {
        assert_eq!(told.recv().await, Some(number));
    }
    assert_eq!(gate.waiting.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_turn_has_a_bounded_number_of_places() {
    let gate = paced(Duration::from_micros(250));
    assert!(!gate.refill(nanos(Duration::from_millis(1))), "nobody waits");
    let begun = (0..MOST_IN_A_TURN).filter(|_| gate.enter().now_or_never().is_some()).count();
    assert_eq!(begun, places(gate.pace.load(Ordering::Relaxed)));
    assert!((1..MOST_IN_A_TURN).contains(&begun), "{begun}");
}

#[test]
fn a_turn_holds_as_many_requests_as_fit_into_it() {
    for (micros, most) in [(0, 64), (1, 64), (100, 10), (125, 8), (999, 8), (50_000, 8)] {
        assert_eq!(places(nanos(Duration::from_micros(micros))), most, "{micros} µs each");
    }
}

#[tokio::test]
async fn a_request_that_leaves_the_queue_is_not_counted() {
    let gate = paced(Duration::from_millis(1));
    while gate.enter().now_or_never().is_some() {}
    let mut left = Box::pin(gate.enter());
    assert!(left.as_mut().now_or_never().is_none());
    assert_eq!(gate.waiting.load(Ordering::Relaxed), 1);
    drop(left);
    assert_eq!(gate.waiting.load(Ordering::Relaxed), 0);
}

#[test]
fn the_expected_wait_decides() {
    let gate = paced(Duration::from_millis(1));
    for (waiting, age_ms, is_overloaded) in [
        (0, 1_000, false),
        (8, 1_000, false),
        (20, 1_000, false),
        (21, 1_000, true),
        // A burst may be longer.
        (21, 50, false),
        (100, 50, false),
        (101, 50, true),
        (101, 0, true),
    ] {
        queue(&gate, waiting, Duration::from_millis(age_ms));
        assert_eq!(gate.is_overloaded(), is_overloaded, "{waiting} since {age_ms} ms");
    }
}

#[test]
fn a_short_queue_of_slow_requests_is_no_overload() {
    let gate = paced(Duration::from_secs(1));
    queue(&gate, SHORT_QUEUE, Duration::from_secs(1));
    assert!(!gate.is_overloaded());
    queue(&gate, SHORT_QUEUE + 1, Duration::from_secs(1));
    assert!(gate.is_overloaded());
}

#[tokio::test]
async fn refusals_are_counted_and_end_with_the_queue() {
    let gate = paced(Duration::from_millis(1));
    queue(&gate, 30, Duration::from_secs(1));
    assert_eq!(gate.enter().await, Err(Overloaded));
    assert_eq!(gate.enter().await, Err(Overloaded));
    assert_eq!(gate.reports.refused.get(), 2);
    queue(&gate, 0, Duration::ZERO);
    assert_eq!(gate.enter().await, Ok(()));
    assert_eq!(gate.reports.refused.get(), 2);
}

#[tokio::test]
async fn a_queue_elsewhere_counts_too() {
    let wait = Arc::new(AtomicU64::new(0));
    let (signals, shown) = (quiet(), Arc::clone(&wait));
    let signal = move || Duration::from_millis(shown.load(Ordering::Relaxed));
    assert!(signals.set(vec![Box::new(|| Duration::ZERO), Box::new(signal)]));
    assert!(!signals.set(Vec::new()), "once");
    let gate = gate(LIMIT, &signals);
    for (millis, outcome) in [(100, Ok(())), (101, Err(Overloaded)), (0, Ok(()))] {
        wait.store(millis, Ordering::Relaxed);
        assert_eq!(gate.enter().await, outcome, "{millis} ms");
    }
}

#[tokio::test]
async fn a_limit_of_zero_lets_everything_through() {
    let gate = gate(Duration::ZERO, &quiet());
    gate.pace.store(nanos(Duration::from_secs(1)), Ordering::Relaxed);
    queue(&gate, 1_000, Duration::from_secs(10));
    for _ in 0..MOST_IN_A_TURN * 2 {
        assert_eq!(gate.enter().now_or_never(), Some(Ok(())));
    }
}

#[test]
fn the_pace_follows_what_turns_take() {
    let gate = gate(LIMIT, &quiet());
    for _ in 0..100 {
        gate.refill(nanos(Duration::from_millis(4)));
    }
    let pace = gate.pace.load(Ordering::Relaxed);
    let millis = Duration::from_nanos(pace).as_secs_f64() * 1e3;
    assert!((3.9..=4.0).contains(&millis), "one request a turn of 4 ms: {millis}");
}
