//! The breaker as a story, and as a machine that is fed anything in any order.

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
        health.failed(&SETTINGS, now);
    }
    health
}

fn probe(health: &Arc<Health>, now: Instant) -> Probe {
    match health.pass(&SETTINGS, now) {
        Pass::Probe(probe) => probe,
        other => unreachable!("{other:?} instead of a probe"),
    }
}

fn is_closed(health: &Arc<Health>, now: Instant) -> bool {
    matches!(health.pass(&SETTINGS, now), Pass::Closed)
}

#[test]
fn five_failures_in_a_row_open_it_and_a_success_starts_again() {
    let health = Arc::new(Health::default());
    let now = Instant::now();
    for _ in 0..3 {
        for _ in 0..4 {
            assert!(!health.failed(&SETTINGS, now));
        }
        health.succeeded(&SETTINGS, now);
    }
    for failure in 1..=5 {
        assert_eq!(health.standing(&SETTINGS, now), Standing::Able);
        assert_eq!(health.failed(&SETTINGS, now), failure == 5);
    }
    assert_eq!(health.standing(&SETTINGS, now + secs(4)), Standing::Open { left: secs(6) });
    assert!(is_closed(&health, now + secs(9)));
    assert_eq!(health.open_for(now + secs(4)), Some(secs(6)));
}

#[test]
fn one_probe_finds_out_and_success_ramps_up() {
    let start = Instant::now();
    let health = opened(start);
    let now = start + secs(10);
    assert_eq!(health.standing(&SETTINGS, now), Standing::Ready);
    let probe = probe(&health, now);
    assert_eq!(health.standing(&SETTINGS, now), Standing::Probing);
    assert!(is_closed(&health, now), "one at a time");
    health.succeeded(&SETTINGS, now);
    drop(probe);
    let Standing::Ramping { share } = health.standing(&SETTINGS, now) else { panic!("no ramp") };
    assert!((share - 0.1).abs() < 1e-9);
    let Standing::Ramping { share } = health.standing(&SETTINGS, now + secs(5)) else { panic!("no ramp") };
    assert!((share - 0.55).abs() < 1e-9);
    assert_eq!(health.standing(&SETTINGS, now + secs(10)), Standing::Able);
    assert!(matches!(health.pass(&SETTINGS, now), Pass::Through));
    assert_eq!(health.open_for(now), None);
}

#[test]
fn each_failed_probe_doubles_the_cooldown_up_to_eight_times() {
    let start = Instant::now();
    let health = opened(start);
    let mut now = start + secs(10);
    for factor in [2, 4, 8, 8, 8] {
        let probe = probe(&health, now);
        assert!(health.failed(&SETTINGS, now));
        drop(probe);
        let Standing::Open { left } = health.standing(&SETTINGS, now) else { panic!("not open") };
        let longer = secs(10) * factor;
        assert!(left >= longer && left <= longer.mul_f64(1.0 + JITTER), "{left:?} for {longer:?}");
        now += left;
    }
    // Recovered, the next storm begins with the plain cooldown.
    let probe = probe(&health, now);
    health.succeeded(&SETTINGS, now);
    drop(probe);
    for _ in 0..5 {
        health.failed(&SETTINGS, now);
    }
    assert_eq!(health.standing(&SETTINGS, now), Standing::Open { left: secs(10) });
}

#[test]
fn replicas_draw_different_jitter_and_the_same_seed_the_same() {
    let left = |seed| {
        let start = Instant::now();
        let health = Arc::new(Health::seeded(seed));
        for _ in 0..5 {
            health.failed(&SETTINGS, start);
        }
        let _probe = probe(&health, start + secs(10));
        health.failed(&SETTINGS, start + secs(10));
        health.open_for(start + secs(10))
    };
    assert_ne!(left(1), left(2));
    assert_eq!(left(3), left(3));
}

#[test]
fn a_probe_without_a_verdict_is_free_again() {
    let start = Instant::now();
    let health = opened(start);
    let now = start + secs(10);
    let first = probe(&health, now);
    drop(first);
    assert_eq!(health.standing(&SETTINGS, now), Standing::Ready);
    let second = probe(&health, now);
    // It got a 429: neutral, and there is no probe while it rests.
    health.rest(now + secs(20));
    drop(second);
    assert_eq!(health.standing(&SETTINGS, now), Standing::Resting { left: secs(20) });
    assert_eq!(health.standing(&SETTINGS, now + secs(20)), Standing::Ready);
}

#[test]
fn a_429_is_neither_success_nor_failure() {
    let health = Arc::new(Health::default());
    let now = Instant::now();
    for _ in 0..4 {
        health.failed(&SETTINGS, now);
    }
    for _ in 0..100 {
        health.rest(now + secs(2));
    }
    assert_eq!(health.standing(&SETTINGS, now), Standing::Resting { left: secs(2) });
    assert!(matches!(health.pass(&SETTINGS, now), Pass::Through), "the breaker is not concerned");
    assert_eq!(health.open_for(now), None);
    health.rest(now + secs(1));
    assert_eq!(health.standing(&SETTINGS, now), Standing::Resting { left: secs(2) }, "never shorter");
    assert_eq!(health.standing(&SETTINGS, now + secs(2)), Standing::Able);
    assert!(health.failed(&SETTINGS, now + secs(2)), "the fifth in a row, whatever was between");
}

#[test]
fn answers_from_before_the_storm_neither_close_it_nor_make_it_longer() {
    let start = Instant::now();
    let health = opened(start);
    for _ in 0..50 {
        assert!(!health.failed(&SETTINGS, start + secs(1)));
    }
    assert_eq!(health.standing(&SETTINGS, start + secs(1)), Standing::Open { left: secs(9) });
    health.succeeded(&SETTINGS, start + secs(2));
    assert_eq!(health.standing(&SETTINGS, start + secs(2)), Standing::Ready, "a probe decides");
    assert!(health.failed(&SETTINGS, start + secs(2)), "not the probe's: as long again, not twice");
    let Standing::Open { left } = health.standing(&SETTINGS, start + secs(2)) else { panic!("not open") };
    assert!(left >= secs(10) && left <= secs(11), "{left:?}");
}

#[test]
fn another_replicas_word_opens_it_and_is_not_passed_on() {
    let health = Arc::new(Health::default());
    let now = Instant::now();
    health.open_elsewhere(now, now);
    assert_eq!(health.standing(&SETTINGS, now), Standing::Able);
    health.open_elsewhere(now + secs(8), now);
    assert_eq!(health.standing(&SETTINGS, now), Standing::Open { left: secs(8) });
    assert_eq!(health.open_for(now), None, "or two replicas would keep each other open");
    health.open_elsewhere(now + secs(9), now);
    assert_eq!(health.standing(&SETTINGS, now), Standing::Open { left: secs(9) });
    health.open_elsewhere(now + secs(90_000), now);
    assert_eq!(health.standing(&SETTINGS, now), Standing::Open { left: secs(300) });
    // What we have seen ourselves is ours to end.
    let ours = opened(now);
    ours.open_elsewhere(now + secs(200), now);
    assert_eq!(ours.standing(&SETTINGS, now), Standing::Open { left: secs(10) });
}

/// What can happen to a breaker.
#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Attempt,
    Succeed(usize),
    Fail(usize),
    /// The attempt ends without a verdict: the client has gone, or a 429 without Retry-After.
    Leave(usize),
    Limited(usize, u64),
    Elsewhere(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u64..30_000).prop_map(Step::Wait),
        8 => Just(Step::Attempt),
        2 => (0_usize..8).prop_map(Step::Succeed),
        8 => (0_usize..8).prop_map(Step::Fail),
        1 => (0_usize..8).prop_map(Step::Leave),
        1 => (0_usize..8, 1_u64..300).prop_map(|(which, seconds)| Step::Limited(which, seconds)),
        1 => (0_u64..20).prop_map(Step::Elsewhere),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// With many attempts under way and verdicts in any order: never two probes, never closed before five failures in
    /// a row, always open at the fifth, never longer than eight cooldowns and a tenth, and never stuck: once the
    /// cooldown is over and no probe is out, the next attempt is the probe.
    #[test]
    fn the_breaker_keeps_its_rules(
        steps in prop::collection::vec(step(), 1..200),
        failures in 1_u32..7,
    ) {
        let settings = BreakerSettings { failures, ..SETTINGS };
        let health = Arc::new(Health::seeded(1));
        let mut now = Instant::now();
        let mut under_way: Vec<Option<Probe>> = Vec::new();
        let mut in_a_row = 0;
        for step in steps {
            let was = health.standing(&settings, now);
            let shut = matches!(was, Standing::Open { .. } | Standing::Probing | Standing::Ready);
            match step {
                Step::Wait(millis) => now += Duration::from_millis(millis),
                Step::Attempt => match (health.pass(&settings, now), was) {
                    (Pass::Probe(probe), Standing::Ready | Standing::Resting { .. }) => under_way.push(Some(probe)),
                    (Pass::Through, Standing::Able | Standing::Ramping { .. } | Standing::Resting { .. }) => {
                        under_way.push(None);
                    }
                    (Pass::Closed, Standing::Open { .. } | Standing::Probing) => {}
                    (pass, was) => prop_assert!(false, "{pass:?} when {was:?}"),
                },
                Step::Succeed(which) if which < under_way.len() => {
                    health.succeeded(&settings, now);
                    in_a_row = 0;
                    under_way.swap_remove(which);
                }
                Step::Fail(which) if which < under_way.len() => {
                    let opened = health.failed(&settings, now);
                    in_a_row += 1;
                    if !shut && !matches!(was, Standing::Resting { .. }) {
                        prop_assert_eq!(opened, in_a_row >= failures);
                    }
                    under_way.swap_remove(which);
                }
                Step::Leave(which) if which < under_way.len() => drop(under_way.swap_remove(which)),
                Step::Limited(which, seconds) if which < under_way.len() => {
                    health.rest(now + secs(seconds));
                    under_way.swap_remove(which);
                    let is = health.standing(&settings, now);
                    prop_assert!(shut || matches!(is, Standing::Resting { .. }), "{is:?} after {was:?}");
                }
                Step::Elsewhere(seconds) => health.open_elsewhere(now + secs(seconds), now),
                _ => {}
            }
            let probes = under_way.iter().flatten().filter(|probe| {
                health.state.lock().open.as_ref().is_some_and(|open| open.probe == Some(probe.number))
            });
            prop_assert!(probes.count() <= 1);
            if let Standing::Open { left } = health.standing(&settings, now) {
                prop_assert!(left <= LONGEST_ELSEWHERE.max(secs(88)));
            }
        }
        // The storm is over, everybody has gone home: within the longest cooldown it can be probed, then all is well.
        under_way.clear();
        now += secs(301);
        match health.pass(&settings, now) {
            Pass::Probe(_probe) => health.succeeded(&settings, now),
            pass => prop_assert!(matches!(pass, Pass::Through), "{:?}", pass),
        }
        prop_assert_eq!(health.standing(&settings, now + SETTINGS.ramp), Standing::Able);
    }
}

#[test]
fn our_own_word_that_comes_back_does_not_open_what_has_recovered() {
    let begin = Instant::now();
    let health = opened(begin);
    let told = begin + SETTINGS.cooldown;
    // Two answers to requests from before: the first ends the cooldown, the second closes the circuit.
    health.succeeded(&SETTINGS, begin + secs(1));
    health.succeeded(&SETTINGS, begin + secs(2));
    let served = |now| health.standing(&SETTINGS, now).is_served();
    assert!(served(begin + secs(2)));
    health.open_elsewhere(told, begin + secs(3));
    assert!(served(begin + secs(3)), "that was our own word");
    // A later one is news.
    health.open_elsewhere(begin + secs(60), begin + secs(4));
    assert!(!served(begin + secs(4)));
}
