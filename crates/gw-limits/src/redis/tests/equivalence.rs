//! The limiter in process and the limiter over Redis decide alike.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::doubles::ending;
use crate::{AdmissionPermit, Refusal, Reservation};

#[tokio::test]
async fn scripts_compute_the_periods_of_the_store() {
    let redis = Redis::start().await;
    let clock = clock();
    let (_limiter, core) = replica_at(settings(&redis), &clock, &ledger()).await;
    // Moments in five centuries from 1970 on, and the seconds around the edges of their periods.
    let odd = (0..2_000_i64).map(|n| n * 91 * 86_400 + n * 7_919 % 86_400);
    for moment in odd {
        for period in ending() {
            let (start, end) = period.around(moment);
            for moment in [start, start - 1, moment, end - 1, end].into_iter().filter(|moment| *moment >= 0) {
                clock.monotonic_micros.store((moment - 1_735_689_600) * 1_000_000, Ordering::SeqCst);
                let call = core.call("").arg(period.as_str());
                let answer = core.ask(&core.scripts.period, &call).await.unwrap();
                let seen = (answer.field(0).parse().unwrap(), answer.field(1).parse().unwrap());
                let (start, end) = period.around(moment);
                // Scripts do not handle moments before 1970.
                assert_eq!(seen, (start.max(0), end), "{period:?} around {moment}");
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enter { who: usize },
    Leave { which: usize },
    EnterRules { both: bool },
    TakeBack { which: usize },
    Reserve { who: usize, tokens: u64, worst: u64, least: u64 },
    Settle { which: usize, tokens: u64, used: u64 },
    Drop { which: usize },
    Change { rpm: u32, tpm: u64, budget: u64 },
    Pass { millis: u64 },
    Back { millis: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0_usize..4).prop_map(|who| Step::Enter { who }),
        3 => (0_usize..6).prop_map(|which| Step::Leave { which }),
        4 => any::<bool>().prop_map(|both| Step::EnterRules { both }),
        3 => (0_usize..6).prop_map(|which| Step::TakeBack { which }),
        4 => (0_usize..4, 0_u64..400, 0_u64..60).prop_map(|(who, tokens, worst)| {
            Step::Reserve { who, tokens, worst, least: worst }
        }),
        3 => (0_usize..4, 0_u64..400, 0_u64..200, 0_u64..200).prop_map(|(who, tokens, worst, least)| {
            Step::Reserve { who, tokens, worst, least }
        }),
        3 => (0_usize..6, 0_u64..500, 0_u64..80).prop_map(|(which, tokens, used)| Step::Settle { which, tokens, used }),
        1 => (0_usize..6).prop_map(|which| Step::Drop { which }),
        1 => (1_u32..12, 1_u64..700, 0_u64..300).prop_map(|(rpm, tpm, budget)| Step::Change { rpm, tpm, budget }),
        3 => (0_u64..40_000).prop_map(|millis| Step::Pass { millis }),
        1 => (0_u64..100_000_000).prop_map(|millis| Step::Pass { millis }),
        1 => prop_oneof![0_u64..3_000, 0_u64..200_000_000].prop_map(|millis| Step::Back { millis }),
    ]
}

/// One of the two limiters that are compared.
struct Side {
    limiter: Limiter,
    rates: bool,
    subjects: Vec<Arc<Subject>>,
    permit: Vec<AdmissionPermit>,
    /// A rule that counts every request of rules, and one that counts some of them.
    rules: Vec<Arc<Subject>>,
    /// The requests that rules count, each with its id and its rules.
    ruled: Vec<(String, Vec<Arc<Subject>>)>,
    /// Reservations, and when each began.
    reserved: Vec<(Reservation, i64)>,
    /// The ledger that hears of the costs, and the clock. Both sides share one ledger.
    ledger: Option<(Arc<TestLedger>, Arc<TestClock>)>,
}

#[derive(Debug, PartialEq)]
enum Observed {
    Nothing,
    Granted { femtos: i128 },
    AdmissionPermit { requests: Option<(u32, u32, u64)>, tokens: Option<(u64, u64, u64)> },
    Rules { requests: Vec<Option<(u32, u32, u64)>> },
    Refused { refusal: Refusal },
}

/// Whole microseconds. The slack hides differences in the last bit of a double.
fn micros(time: Duration) -> u64 {
    u64::try_from((time + Duration::from_nanos(200)).as_micros()).unwrap()
}

impl Side {
    fn new(limiter: Limiter, rates: bool, ledger: Option<(Arc<TestLedger>, Arc<TestClock>)>) -> Self {
        let (subjects, rules) = (Vec::new(), Vec::new());
        Self {
            limiter,
            rates,
            subjects,
            permit: Vec::new(),
            rules,
            ruled: Vec::new(),
            reserved: Vec::new(),
            ledger,
        }
    }

    fn limit(&mut self, case: u64, rpm: u32, tpm: u64, budget: u64) {
        let limits = |rpm, tpm, most, nano, period| Limits {
            rpm: Some(rpm),
            // Every third limit has a burst.
            burst: (rpm % 3 == 0).then_some(rpm.div_ceil(2)),
            tpm: Some(tpm),
            max_in_flight: Some(most),
            budget: Some(Budget { nano, period }),
            ..Limits::default()
        };
        let rolling = super::budget(250, Period::parse("2d").unwrap());
        let total = Limits { tpm: Some(tpm), ..super::budget(200, Period::Total) };
        let subject = |kind, name: &str, limits: Limits| {
            let plain = Limits { rpm: None, burst: None, tpm: None, ..limits };
            let limits = if self.rates { limits } else { plain };
            self.limiter.subject(kind, &format!("{name}-{case}-{}", self.rates), limits)
        };
        self.subjects = vec![
            subject(SubjectKind::Key, "one", limits(rpm, tpm, 3, budget, Period::Day)),
            subject(SubjectKind::Key, "two", total),
            subject(SubjectKind::Team, "team", limits(10, 900, 4, 280, Period::Week)),
            subject(SubjectKind::Key, "rolling", rolling),
        ];
        let rule = |rpm| Limits { rpm: Some(rpm), ..Limits::default() };
        self.rules = vec![
            subject(SubjectKind::Rule, "wide", rule(rpm.saturating_mul(2))),
            subject(SubjectKind::Rule, "narrow", rule(rpm)),
        ];
    }

    /// Counts a request in the rules, or takes one back. Returns how far the rules are used up.
    async fn step_of_rules(&mut self, step: Step, id: &str) -> Observed {
        match step {
            Step::EnterRules { both } => {
                let rules = self.rules.iter().take(1 + usize::from(both)).cloned().collect::<Vec<_>>();
                match self.limiter.admit_rates(id, &rules).await {
                    Ok(_permit) => self.ruled.push((id.to_owned(), rules)),
                    Err(refused) => return Observed::Refused { refusal: rounded(refused.refusal) },
                }
            }
            Step::TakeBack { which } if which < self.ruled.len() => {
                let (id, rules) = self.ruled.swap_remove(which);
                self.limiter.take_back(&id, &rules);
            }
            _ => {}
        }
        drain(&self.limiter).await;
        let uses = self.limiter.inspect(&self.rules).await.unwrap();
        let seen = uses.iter().map(|used| used.requests);
        let requests = seen.map(|seen| seen.map(|seen| (seen.limit, seen.remaining, micros(seen.reset))));
        Observed::Rules { requests: requests.collect() }
    }

    /// The first key, the second key, the first key with its team, or the key with a rolling budget.
    fn who(&self, who: usize) -> Vec<Arc<Subject>> {
        match who {
            0 | 1 | 3 => vec![self.subjects[who].clone()],
            _ => vec![self.subjects[0].clone(), self.subjects[2].clone()],
        }
    }

    async fn step(&mut self, step: Step, case: u64, id: &str) -> Observed {
        match step {
            Step::Enter { who } => match self.limiter.admit(id, &self.who(who)).await {
                Ok(permit) => {
                    let requests =
                        permit.limits.requests.map(|seen| (seen.limit, seen.remaining, micros(seen.reset)));
                    let tokens =
                        permit.limits.tokens.map(|seen| (seen.limit, seen.remaining, micros(seen.reset)));
                    self.permit.push(permit);
                    return Observed::AdmissionPermit { requests, tokens };
                }
                Err(refused) => return Observed::Refused { refusal: rounded(refused.refusal) },
            },
            Step::Reserve { who, tokens, worst, least } => {
                let (most, least) = (nano(worst), nano(least));
                match self.limiter.reserve_up_to(id, &self.who(who), tokens, most, least).await {
                    Ok((reserved, femtos)) => {
                        let begun = self.ledger.as_ref().map_or(0, |(_, clock)| clock.unix_seconds());
                        self.reserved.push((reserved, begun));
                        return Observed::Granted { femtos };
                    }
                    Err(refusal) => return Observed::Refused { refusal: rounded(refusal) },
                }
            }
            Step::EnterRules { .. } | Step::TakeBack { .. } => return self.step_of_rules(step, id).await,
            Step::Leave { which } if which < self.permit.len() => drop(self.permit.swap_remove(which)),
            Step::Settle { which, tokens, used } if which < self.reserved.len() => {
                let (mut reserved, begun) = self.reserved.swap_remove(which);
                reserved.settle("r", tokens, nano(used));
                if let Some((ledger, _)) = &self.ledger {
                    ledger.rows.lock().push((begun, nano(used)));
                }
            }
            Step::Drop { which } if which < self.reserved.len() => drop(self.reserved.swap_remove(which)),
            Step::Change { rpm, tpm, budget } => self.limit(case, rpm, tpm, budget),
            Step::Pass { .. }
            | Step::Back { .. }
            | Step::Leave { .. }
            | Step::Settle { .. }
            | Step::Drop { .. } => {}
        }
        drain(&self.limiter).await;
        Observed::Nothing
    }
}

/// Rounds the times of a refusal.
fn rounded(refusal: Refusal) -> Refusal {
    let round = |time| Duration::from_micros(micros(time));
    match refusal {
        Refusal::Requests { subject, limit, retry_after } => {
            Refusal::Requests { subject, limit, retry_after: round(retry_after) }
        }
        Refusal::Tokens { subject, limit, wanted, retry_after } => {
            Refusal::Tokens { subject, limit, wanted, retry_after: retry_after.map(round) }
        }
        other => other,
    }
}

#[test]
fn both_decide_alike() {
    decide_alike(300, true);
}

/// Rates are left out, because their clock never goes back in process.
#[test]
fn both_decide_alike_about_money_when_the_clock_goes_back() {
    decide_alike(200, false);
}

/// The step ahead of the clock was learnt from the ledger and is free, so neither of both asks the ledger again. Its answer would
/// count the spending that the period has left behind, because [`TestLedger::spent`] is spent at the begin of every period.
#[test]
fn both_decide_alike_after_a_free_request_that_the_ledger_knows_and_a_clock_that_went_back() {
    let free = Step::Reserve { who: 3, tokens: 0, worst: 0, least: 0 };
    // From 09:38:16 to 12:28:55.955, back to a millisecond before noon, and to noon, when a step begins.
    let steps = vec![
        free,
        Step::Pass { millis: 10_239_955 },
        Step::Reserve { who: 3, tokens: 0, worst: 4, least: 4 },
        Step::Settle { which: 1, tokens: 0, used: 0 },
        Step::Back { millis: 1_735_956 },
        Step::Pass { millis: 1 },
    ];
    Both::start(false).compare(steps).unwrap();
}

fn decide_alike(cases: u32, rates: bool) {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let both = Both::start(rates);
    runner.run(&prop::collection::vec(step(), 1..80), |steps| both.compare(steps)).unwrap();
}

/// The two limiters, with one clock and one ledger.
struct Both {
    runtime: tokio::runtime::Runtime,
    redis: Redis,
    clock: Arc<TestClock>,
    ledger: Arc<TestLedger>,
    local: Limiter,
    remote: Limiter,
    _core: Arc<Replica>,
    rates: bool,
    /// The number of cases so far.
    cases: AtomicU64,
}

impl Both {
    fn start(rates: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let redis = runtime.block_on(Redis::start());
        let ledger = Arc::new(TestLedger { spent: nano(7).into(), ..TestLedger::default() });
        // Rolling budgets begin with spending of several steps.
        ledger.rows.lock().extend((0..40).map(|hours| (NOW - 1_234 - hours * 3_600, nano(1))));
        let clock = clock();
        // Reservations in process do not expire, so the leases have to outlast the test.
        let settings = RedisSettings { lease: Duration::from_secs(400 * 86_400), ..settings(&redis) };
        let (remote, core) = runtime.block_on(replica_at(settings, &clock, &ledger));
        let local = Limiter::in_process_with_clock(clock.clone(), ledger.clone());
        Self { runtime, redis, clock, ledger, local, remote, _core: core, rates, cases: AtomicU64::new(0) }
    }

    /// Takes the steps with both, and compares every answer and the amounts at the end.
    fn compare(&self, steps: Vec<Step>) -> Result<(), TestCaseError> {
        let (runtime, clock, rates) = (&self.runtime, &self.clock, self.rates);
        let case = self.cases.fetch_add(1, Ordering::Relaxed);
        self.ledger.rows.lock().truncate(40);
        // Each case begins at one moment, so that a failing one can be shrunk.
        clock.set_both(NOW);
        let heard = Some((self.ledger.clone(), clock.clone()));
        let mut here = Side::new(self.local.clone(), rates, heard);
        let mut there = Side::new(self.remote.clone(), rates, None);
        here.limit(case, 5, 500, 150);
        there.limit(case, 5, 500, 150);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Pass { millis } => clock.advance(Duration::from_millis(millis)),
                Step::Back { millis } if !rates => clock.go_back(Duration::from_millis(millis)),
                _ => {}
            }
            // The two treat a settlement differently while the spending is unknown: Redis adds it to the ledger's
            // answer, and the process expects it in that answer. So both ask the ledger first.
            let looks = !rates && matches!(step, Step::Pass { .. } | Step::Back { .. });
            let steps = if looks { vec![Step::Enter { who: 2 }, Step::Enter { who: 3 }] } else { vec![step] };
            for (part, step) in steps.into_iter().enumerate() {
                let id = format!("{case}-{number}-{part}");
                let here = runtime.block_on(here.step(step, case, &id));
                let there = runtime.block_on(there.step(step, case, &id));
                prop_assert_eq!(&here, &there, "step {}: {:?}", number, step);
            }
        }
        // The spent and the reserved amounts are the same, to the nano-USD.
        for (here, there) in here.subjects.iter().zip(&there.subjects) {
            let (spent, reserved) = here.state().budget.figures();
            let seen = runtime.block_on(figures(&self.redis, there));
            let reserved_there = (nano(seen.0), nano(seen.1));
            if here.state().budget.is_current(here.limits().budget.unwrap(), clock.unix_seconds()) {
                prop_assert_eq!((spent, reserved), reserved_there);
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn s12_a_redis_whose_clock_jumps_neither_forgets_nor_locks() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let limits = Limits { rpm: Some(3), tpm: Some(100), max_in_flight: Some(9), ..budget(100, Period::Day) };
    let subjects = key(&limiter, limits);
    // A minute before midnight.
    clock.advance(Duration::from_secs(14 * 3600 + 20 * 60 + 44));
    drop(limiter.admit("a", &subjects).await.unwrap());
    limiter.reserve("a", &subjects, 50, nano(90)).await.unwrap().settle("a", 50, nano(90));
    drain(&limiter).await;
    *ledger.spent.lock() = nano(90);
    let hour = 3_600_000_000;
    for jump in [hour, -hour, -hour, hour] {
        clock.monotonic_micros.fetch_add(jump, Ordering::SeqCst);
        // A TAT is at most two minutes ahead, so requests pass after a jump.
        drop(limiter.admit("b", &subjects).await.unwrap());
        drain(&limiter).await;
    }
    // The clock is back on the first day, and the ledger was asked for its spending.
    let why = limiter.reserve("c", &subjects, 0, nano(11)).await.unwrap_err();
    assert!(matches!(why, Refusal::Budget { .. }), "{why:?}");
    limiter.reserve("c", &subjects, 0, nano(10)).await.unwrap();
}
