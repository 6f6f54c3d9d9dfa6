//! The window of the catalogue, the fading figures of decisions, calls under way.

use super::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() < expected.abs() * 0.01 + 0.001
}

#[test]
fn nothing_is_known_until_there_is_traffic() {
    let measured = Measured::default();
    let now = Instant::now();
    assert!(measured.is_empty());
    assert_eq!(measured.window(), Window::default());
    assert_eq!(measured.seen(now), Seen::default());
    measured.failed(now);
    let expected = Window { samples: 1, availability: Some(0.0), p50_ms: None, p99_ms: None };
    assert_eq!(measured.window(), expected);
    assert!(!measured.is_empty());
}

#[test]
fn percentiles_are_of_answers_and_availability_is_of_calls() {
    let measured = Measured::default();
    let now = Instant::now();
    for millis in 1..=100 {
        measured.served(ms(millis), now);
    }
    measured.failed(now);
    let window = measured.window();
    assert_eq!((window.p50_ms, window.p99_ms), (Some(50.0), Some(99.0)));
    assert_eq!((window.availability, window.samples), (Some(99.01), 101));
}

#[test]
fn old_calls_are_forgotten_and_a_new_catalogue_remembers() {
    let measured = Measured::default();
    let now = Instant::now();
    measured.failed(now);
    for _ in 0..WINDOW {
        measured.served(ms(7), now);
    }
    let next = Measured::default();
    next.adopt(&measured);
    assert_eq!(next.window().availability, Some(100.0));
    assert_eq!(next.window().p99_ms, Some(7.0));
    assert_eq!(next.seen(now), measured.seen(now));
}

#[test]
fn averages_follow_the_last_half_minute() {
    let measured = Measured::default();
    let start = Instant::now();
    // Five minutes of 100 ms at ten a second, then half a minute of 500 ms.
    for tenth in 0..3_000 {
        measured.first_token(ms(100), start + ms(tenth * 100));
    }
    for tenth in 3_000..3_300 {
        measured.first_token(ms(500), start + ms(tenth * 100));
    }
    // 63 % of the way: 1 − 1/e.
    let seen = measured.seen(start + ms(330_000)).ttft_ms.unwrap();
    assert!(near(seen, 100.0 + 400.0 * 0.632), "{seen}");
}

#[test]
fn figures_lose_their_worth_in_silence_and_are_forgotten_at_last() {
    let measured = Measured::default();
    let start = Instant::now();
    measured.served(ms(900), start);
    measured.failed(start);
    measured.spoke(500, Duration::from_secs(10), start);
    let at_once = measured.seen(start);
    assert_eq!((at_once.ttft_ms, at_once.tokens_per_second, at_once.recent), (Some(900.0), Some(50.0), 2.0));
    assert!(near(at_once.error_rate, 1.0 / 3.0));
    let later = measured.seen(start + Duration::from_secs(69));
    assert_eq!(later.ttft_ms, Some(900.0));
    assert!(near(later.recent, 0.2) && near(later.error_rate, 0.1 / 1.2), "{later:?}");
    let forgotten = measured.seen(start + Duration::from_secs(600));
    assert_eq!((forgotten.ttft_ms, forgotten.tokens_per_second), (None, None));
    assert!(forgotten.error_rate < 1e-6);
    assert_eq!(forgotten.samples, 2);
}

#[test]
fn first_tokens_of_streams_count_before_plain_answers() {
    let measured = Measured::default();
    let now = Instant::now();
    measured.served(ms(5_000), now);
    assert_eq!(measured.seen(now).ttft_ms, Some(5_000.0));
    measured.first_token(ms(200), now);
    assert_eq!(measured.seen(now).ttft_ms, Some(200.0));
}

#[test]
fn nothing_spoken_and_no_time_are_no_speed() {
    let measured = Measured::default();
    let now = Instant::now();
    measured.spoke(0, ms(100), now);
    measured.spoke(100, Duration::ZERO, now);
    assert_eq!(measured.seen(now).tokens_per_second, None);
}

#[test]
fn a_moment_that_lies_back_changes_nothing_for_the_worse() {
    let measured = Measured::default();
    let start = Instant::now() + Duration::from_secs(60);
    measured.first_token(ms(100), start);
    // Another thread read its clock before, and came later to the lock.
    measured.first_token(ms(300), start.checked_sub(ms(50)).unwrap());
    assert_eq!(measured.seen(start.checked_sub(ms(10)).unwrap()).ttft_ms, Some(200.0));
    assert_eq!(measured.seen(start).ttft_ms, Some(200.0));
}

#[test]
fn the_95th_percentile_needs_twenty_first_tokens_and_looks_at_the_latest() {
    let measured = Measured::default();
    let now = Instant::now();
    for millis in 1..20 {
        measured.first_token(ms(millis), now);
        assert_eq!(measured.p95_ttft(), None);
    }
    measured.first_token(ms(20), now);
    assert_eq!(measured.p95_ttft(), Some(ms(19)));
    for millis in 1_001..=1_256 {
        measured.first_token(ms(millis), now);
    }
    assert_eq!(measured.p95_ttft(), Some(ms(1_244)));
}

#[test]
fn calls_are_under_way_until_they_are_dropped() {
    let measured = Arc::new(Measured::default());
    let now = Instant::now();
    let first = measured.begun();
    let second = measured.begun();
    assert_eq!(measured.seen(now).in_flight, 2);
    drop(first);
    drop(second);
    assert_eq!(measured.seen(now).in_flight, 0);
}
