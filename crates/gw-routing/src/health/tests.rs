//! The circuit breaker step by step, and with random events in random order.

use proptest::prelude::*;

use super::*;

const SETTINGS: BreakerSettings =
    BreakerSettings { failures: 5, cooldown: Duration::from_secs(10), ramp: Duration::from_secs(10) };

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Health whose circuit was opened at this moment.
fn opened(now: Instant) -> Arc<Health> {
    let health = Arc::new(Health::seeded(7));
    for _ in 0..5 {
        health.record_failure(&SETTINGS, now);
    }
    health
}

fn probe(health: &Arc<Health>, now: Instant) -> Probe {
    match health.request_permit(&SETTINGS, now) {
        Permit::Probe(probe) => probe,
        other => unreachable!("{other:?} instead of a probe"),
    }
}

fn is_closed(health: &Arc<Health>, now: Instant) -> bool {
    matches!(health.request_permit(&SETTINGS, now), Permit::Denied)
}

#[test]
fn five_failures_in_a_row_open_it_and_a_success_starts_again() {
    let health = Arc::new(Health::default());
    let now = Instant::now();
    for _ in 0..3 {
        for _ in 0..4 {
            assert!(!health.record_failure(&SETTINGS, now));
        }
        health.record_success(&SETTINGS, now);
    }
    for failure in 1..=5 {
        assert_eq!(health.status(&SETTINGS, now), HealthStatus::Able);
        assert_eq!(health.record_failure(&SETTINGS, now), failure == 5);
    }
    assert_eq!(health.status(&SETTINGS, now + secs(4)), HealthStatus::Open { left: secs(6) });
    assert!(is_closed(&health, now + secs(9)));
    assert_eq!(health.open_remaining(now + secs(4)), Some(secs(6)));
}

#[test]
fn one_probe_decides_and_success_ramps_up() {
    let start = Instant::now();
    let health = opened(start);
    let now = start + secs(10);
    assert_eq!(health.status(&SETTINGS, now), HealthStatus::Ready);
    let probe = probe(&health, now);
    assert_eq!(health.status(&SETTINGS, now), HealthStatus::Probing);
    assert!(is_closed(&health, now), "one at a time");
    health.record_success(&SETTINGS, now);
    drop(probe);
    let HealthStatus::Ramping { share } = health.status(&SETTINGS, now) else { panic!("no ramp") };
    assert!((share - 0.1).abs() < 1e-9);
    let HealthStatus::Ramping { share } = health.status(&SETTINGS, now + secs(5)) else { panic!("no ramp") };
    assert!((share - 0.55).abs() < 1e-9);
    assert_eq!(health.status(&SETTINGS, now + secs(10)), HealthStatus::Able);
    assert!(matches!(health.request_permit(&SETTINGS, now), Permit::Granted));
    assert_eq!(health.open_remaining(now), None);
}

#[test]
fn each_failed_probe_doubles_the_cooldown_up_to_eight_times() {
    let start = Instant::now();
    let health = opened(start);
    let mut now = start + secs(10);
    for factor in [2, 4, 8, 8, 8] {
        let probe = probe(&health, now);
        assert!(health.record_failure(&SETTINGS, now));
        drop(probe);
        let HealthStatus::Open { left } = health.status(&SETTINGS, now) else { panic!("not open") };
        let longer = secs(10) * factor;
        assert!(left >= longer && left <= longer.mul_f64(1.0 + JITTER), "{left:?} for {longer:?}");
        now += left;
    }
    // After recovery the next failures begin with the plain cooldown.
    let probe = probe(&health, now);
    health.record_success(&SETTINGS, now);
    drop(probe);
    for _ in 0..5 {
        health.record_failure(&SETTINGS, now);
    }
    assert_eq!(health.status(&SETTINGS, now), HealthStatus::Open { left: secs(10) });
}

#[test]
fn replicas_draw_different_jitter_and_the_same_seed_the_same() {
    let left = |seed| {
        let start = Instant::now();
        let health = Arc::new(Health::seeded(seed));
        for _ in 0..5 {
            health.record_failure(&SETTINGS, start);
        }
        let _probe = probe(&health, start + secs(10));
        health.record_failure(&SETTINGS, start + secs(10));
        health.open_remaining(start + secs(10))
    };
    assert_ne!(left(1), left(2));
    assert_eq!(left(3), left(3));
}

#[test]
fn a_probe_without_an_outcome_lets_the_next_request_probe() {
    let start = Instant::now();
    let health = opened(start);
    let now = start + secs(10);
    let first = probe(&health, now);
    drop(first);
    assert_eq!(health.status(&SETTINGS, now), HealthStatus::Ready);
    let second = probe(&health, now);
    // A 429 is neutral, and there is no probe during the pause.
    health.pause_until(now + secs(20));
    drop(second);
    assert_eq!(health.status(&SETTINGS, now), HealthStatus::Resting { left: secs(20) });
    assert_eq!(health.status(&SETTINGS, now + secs(20)), HealthStatus::Ready);
}

#[test]
fn a_429_is_neither_success_nor_failure() {
    let health = Arc::new(Health::default());
    let now = Instant::now();
    for _ in 0..4 {
        health.record_failure(&SETTINGS, now);
    }
    for _ in 0..100 {
        health.pause_until(now + secs(2));
    }
    assert_eq!(health.status(&SETTINGS, now), HealthStatus::Resting { left: secs(2) });
    assert!(matches!(health.request_permit(&SETTINGS, now), Permit::Granted), "the breaker is not concerned");
    assert_eq!(health.open_remaining(now), None);
    health.pause_until(now + secs(1));
    assert_eq!(health.status(&SETTINGS, now), HealthStatus::Resting { left: secs(2) }, "never shorter");
    assert_eq!(health.status(&SETTINGS, now + secs(2)), HealthStatus::Able);
    assert!(
        health.record_failure(&SETTINGS, now + secs(2)),
        "the fifth in a row; the 429s between do not count"
    );
}

#[test]
fn late_answers_neither_close_the_circuit_nor_prolong_the_cooldown() {
    let start = Instant::now();
    let health = opened(start);
    for _ in 0..50 {
        assert!(!health.record_failure(&SETTINGS, start + secs(1)));
    }
    assert_eq!(health.status(&SETTINGS, start + secs(1)), HealthStatus::Open { left: secs(9) });
    health.record_success(&SETTINGS, start + secs(2));
    assert_eq!(health.status(&SETTINGS, start + secs(2)), HealthStatus::Ready, "a probe decides");
    assert!(
        health.record_failure(&SETTINGS, start + secs(2)),
        "not the probe's failure: the cooldown is not doubled"
    );
    let HealthStatus::Open { left } = health.status(&SETTINGS, start + secs(2)) else { panic!("not open") };
    assert!(left >= secs(10) && left <= secs(11), "{left:?}");
}

#[test]
fn another_replicas_open_circuit_is_adopted_and_not_passed_on() {
    let health = Arc::new(Health::default());
    let now = Instant::now();
    health.adopt_open_circuit(now, now);
    assert_eq!(health.status(&SETTINGS, now), HealthStatus::Able);
    health.adopt_open_circuit(now + secs(8), now);
    assert_eq!(health.status(&SETTINGS, now), HealthStatus::Open { left: secs(8) });
    assert_eq!(health.open_remaining(now), None, "or two replicas would keep each other open");
    health.adopt_open_circuit(now + secs(9), now);
    assert_eq!(health.status(&SETTINGS, now), HealthStatus::Open { left: secs(9) });
    health.adopt_open_circuit(now + secs(90_000), now);
    assert_eq!(health.status(&SETTINGS, now), HealthStatus::Open { left: secs(300) });
    // A circuit that this replica opened itself keeps its own end.
    let ours = opened(now);
    ours.adopt_open_circuit(now + secs(200), now);
    assert_eq!(ours.status(&SETTINGS, now), HealthStatus::Open { left: secs(10) });
}

/// An event of a circuit breaker.
#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Attempt,
    Succeed(usize),
    Fail(usize),
    /// The attempt ends without a verdict: the client has gone, or a 429 without Retry-After.
    Leave(usize),
    Limited(usize, u64),
    Adopt(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u64..30_000).prop_map(Step::Wait),
        8 => Just(Step::Attempt),
        2 => (0_usize..8).prop_map(Step::Succeed),
        8 => (0_usize..8).prop_map(Step::Fail),
        1 => (0_usize..8).prop_map(Step::Leave),
        1 => (0_usize..8, 1_u64..300).prop_map(|(which, seconds)| Step::Limited(which, seconds)),
        1 => (0_u64..20).prop_map(Step::Adopt),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// With many attempts in flight and outcomes in any order: there are never two probes, the circuit opens at the
    /// configured number of failures in a row and not before, it is never open for longer than eight cooldowns and a
    /// tenth, and it never gets stuck: after the cooldown the next attempt is the probe.
    #[test]
    fn the_breaker_keeps_its_rules(
        steps in prop::collection::vec(step(), 1..200),
        failures in 1_u32..7,
    ) {
        let settings = BreakerSettings { failures, ..SETTINGS };
        let health = Arc::new(Health::seeded(1));
        let mut now = Instant::now();
        let mut in_flight: Vec<Option<Probe>> = Vec::new();
        let mut in_a_row = 0;
        for step in steps {
            let was = health.status(&settings, now);
            let shut = matches!(was, HealthStatus::Open { .. } | HealthStatus::Probing | HealthStatus::Ready);
            match step {
                Step::Wait(millis) => now += Duration::from_millis(millis),
                Step::Attempt => match (health.request_permit(&settings, now), was) {
                    (Permit::Probe(probe), HealthStatus::Ready | HealthStatus::Resting { .. }) => in_flight.push(Some(probe)),
                    (Permit::Granted, HealthStatus::Able | HealthStatus::Ramping { .. } | HealthStatus::Resting { .. }) => {
                        in_flight.push(None);
                    }
                    (Permit::Denied, HealthStatus::Open { .. } | HealthStatus::Probing) => {}
                    (pass, was) => prop_assert!(false, "{pass:?} when {was:?}"),
                },
                Step::Succeed(which) if which < in_flight.len() => {
                    health.record_success(&settings, now);
                    in_a_row = 0;
                    in_flight.swap_remove(which);
                }
                Step::Fail(which) if which < in_flight.len() => {
                    let opened = health.record_failure(&settings, now);
                    in_a_row += 1;
                    if !shut && !matches!(was, HealthStatus::Resting { .. }) {
                        prop_assert_eq!(opened, in_a_row >= failures);
                    }
                    in_flight.swap_remove(which);
                }
                Step::Leave(which) if which < in_flight.len() => drop(in_flight.swap_remove(which)),
                Step::Limited(which, seconds) if which < in_flight.len() => {
                    health.pause_until(now + secs(seconds));
                    in_flight.swap_remove(which);
                    let is = health.status(&settings, now);
                    prop_assert!(shut || matches!(is, HealthStatus::Resting { .. }), "{is:?} after {was:?}");
                }
                Step::Adopt(seconds) => health.adopt_open_circuit(now + secs(seconds), now),
                _ => {}
            }
            let probes = in_flight.iter().flatten().filter(|probe| {
                health.state.lock().open.as_ref().is_some_and(|open| open.probe == Some(probe.number))
            });
            prop_assert!(probes.count() <= 1);
            if let HealthStatus::Open { left } = health.status(&settings, now) {
                prop_assert!(left <= MAX_ADOPTED_OPEN.max(secs(88)));
            }
        }
        // The storm is over, everybody has gone home: within the longest cooldown it can be probed, then all is well.
        in_flight.clear();
        now += secs(301);
        match health.request_permit(&settings, now) {
            Permit::Probe(_probe) => health.record_success(&settings, now),
            pass => prop_assert!(matches!(pass, Permit::Granted), "{:?}", pass),
        }
        prop_assert_eq!(health.status(&settings, now + SETTINGS.ramp), HealthStatus::Able);
    }
}

#[test]
fn our_own_word_that_comes_back_does_not_open_what_has_recovered() {
    let begin = Instant::now();
    let health = opened(begin);
    let told = begin + SETTINGS.cooldown;
    // Two answers to requests from before: the first ends the cooldown, the second closes the circuit.
    health.record_success(&SETTINGS, begin + secs(1));
    health.record_success(&SETTINGS, begin + secs(2));
    let served = |now| health.status(&SETTINGS, now).is_served();
    assert!(served(begin + secs(2)));
    health.adopt_open_circuit(told, begin + secs(3));
    assert!(served(begin + secs(3)), "that was our own word");
    // A later one is news.
    health.adopt_open_circuit(begin + secs(60), begin + secs(4));
    assert!(!served(begin + secs(4)));
}
