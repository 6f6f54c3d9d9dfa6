//! The catalogue's window, the fading averages of decisions, calls in flight.

use super::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() < expected.abs() * 0.01 + 0.001
}

#[test]
fn nothing_is_known_until_there_is_traffic() {
    let metrics = CallMetrics::default();
    let now = Instant::now();
    assert!(metrics.is_empty());
    assert_eq!(metrics.window(), Window::default());
    assert_eq!(metrics.averages(now), Averages::default());
    metrics.record_failure(now);
    let expected = Window { samples: 1, availability: Some(0.0), p50_ms: None, p99_ms: None };
    assert_eq!(metrics.window(), expected);
    assert!(!metrics.is_empty());
}

#[test]
fn percentiles_count_answers_and_availability_counts_calls() {
    let metrics = CallMetrics::default();
    let now = Instant::now();
    for millis in 1..=100 {
        metrics.record_success(ms(millis), now);
    }
    metrics.record_failure(now);
    let window = metrics.window();
    assert_eq!((window.p50_ms, window.p99_ms), (Some(50.0), Some(99.0)));
    assert_eq!((window.availability, window.samples), (Some(99.01), 101));
}

#[test]
fn old_calls_leave_the_window_and_a_new_catalogue_takes_it_over() {
    let metrics = CallMetrics::default();
    let now = Instant::now();
    metrics.record_failure(now);
    for _ in 0..WINDOW {
        metrics.record_success(ms(7), now);
    }
    let next = CallMetrics::default();
    next.adopt(&metrics);
    assert_eq!(next.window().availability, Some(100.0));
    assert_eq!(next.window().p99_ms, Some(7.0));
    assert_eq!(next.averages(now), metrics.averages(now));
}

#[test]
fn averages_follow_the_last_half_minute() {
    let metrics = CallMetrics::default();
    let start = Instant::now();
    // Ten first tokens a second: five minutes of 100 ms, then half a minute of 500 ms.
    for tenth in 0..3_000 {
        metrics.record_first_token(ms(100), start + ms(tenth * 100));
    }
    for tenth in 3_000..3_300 {
        metrics.record_first_token(ms(500), start + ms(tenth * 100));
    }
    // 63 % of the way: 1 − 1/e.
    let averages = metrics.averages(start + ms(330_000)).ttft_ms.unwrap();
    assert!(near(averages, 100.0 + 400.0 * 0.632), "{averages}");
}

#[test]
fn averages_fade_without_traffic_and_become_unknown() {
    let metrics = CallMetrics::default();
    let start = Instant::now();
    metrics.record_success(ms(900), start);
    metrics.record_failure(start);
    metrics.record_speed(500, Duration::from_secs(10), start);
    let at_once = metrics.averages(start);
    assert_eq!((at_once.ttft_ms, at_once.tokens_per_second, at_once.recent), (Some(900.0), Some(50.0), 2.0));
    assert!(near(at_once.error_rate, 1.0 / 3.0));
    let later = metrics.averages(start + Duration::from_secs(69));
    assert_eq!(later.ttft_ms, Some(900.0));
    assert!(near(later.recent, 0.2) && near(later.error_rate, 0.1 / 1.2), "{later:?}");
    let forgotten = metrics.averages(start + Duration::from_secs(600));
    assert_eq!((forgotten.ttft_ms, forgotten.tokens_per_second), (None, None));
    assert!(forgotten.error_rate < 1e-6);
    assert_eq!(forgotten.samples, 2);
}

#[test]
fn first_tokens_of_streams_count_before_plain_answers() {
    let metrics = CallMetrics::default();
    let now = Instant::now();
    metrics.record_success(ms(5_000), now);
    assert_eq!(metrics.averages(now).ttft_ms, Some(5_000.0));
    metrics.record_first_token(ms(200), now);
    assert_eq!(metrics.averages(now).ttft_ms, Some(200.0));
}

#[test]
fn no_tokens_and_no_time_give_no_speed() {
    let metrics = CallMetrics::default();
    let now = Instant::now();
    metrics.record_speed(0, ms(100), now);
    metrics.record_speed(100, Duration::ZERO, now);
    assert_eq!(metrics.averages(now).tokens_per_second, None);
}

#[test]
fn an_observation_with_an_earlier_time_does_no_harm() {
    let metrics = CallMetrics::default();
    let start = Instant::now() + Duration::from_secs(60);
    metrics.record_first_token(ms(100), start);
    // Another thread read its clock earlier and took the lock later.
    metrics.record_first_token(ms(300), start.checked_sub(ms(50)).unwrap());
    assert_eq!(metrics.averages(start.checked_sub(ms(10)).unwrap()).ttft_ms, Some(200.0));
    assert_eq!(metrics.averages(start).ttft_ms, Some(200.0));
}

#[test]
fn the_95th_percentile_needs_twenty_first_tokens_and_looks_at_the_latest() {
    let metrics = CallMetrics::default();
    let now = Instant::now();
    for millis in 1..20 {
        metrics.record_first_token(ms(millis), now);
        assert_eq!(metrics.p95_ttft(), None);
    }
    metrics.record_first_token(ms(20), now);
    assert_eq!(metrics.p95_ttft(), Some(ms(19)));
    for millis in 1_001..=1_256 {
        metrics.record_first_token(ms(millis), now);
    }
    assert_eq!(metrics.p95_ttft(), Some(ms(1_244)));
}

#[test]
fn calls_are_in_flight_until_they_are_dropped() {
    let metrics = Arc::new(CallMetrics::default());
    let now = Instant::now();
    let first = metrics.start_call();
    let second = metrics.start_call();
    assert_eq!(metrics.averages(now).in_flight, 2);
    drop(first);
    drop(second);
    assert_eq!(metrics.averages(now).in_flight, 0);
}
