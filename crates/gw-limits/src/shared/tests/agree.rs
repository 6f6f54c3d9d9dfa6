//! In process and over Redis the same is decided.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::{Entered, Refusal, Reservation};

#[tokio::test]
async fn periods_are_those_of_the_store() {
    let redis = Redis::start().await;
    let clock = clock();
    let (_limiter, core) = replica_at(settings(&redis), &clock, &ledger()).await;
    // Five centuries from 1970, at odd times of day, and the seconds around every edge that is found.
    let odd = (0..2_000_i64).map(|n| n * 91 * 86_400 + n * 7_919 % 86_400);
    for moment in odd {
        for period in [Period::Day, Period::Week, Period::Month] {
            let (start, end) = period.around(moment);
            for moment in [start, start - 1, moment, end - 1, end].into_iter().filter(|moment| *moment >= 0) {
                clock.micros.store((moment - 1_735_689_600) * 1_000_000, Ordering::SeqCst);
                let call = core.call("").arg(period.as_str());
                let answer = core.ask(&core.scripts.window, &call).await.unwrap();
                let seen = (answer.field(0).parse().unwrap(), answer.field(1).parse().unwrap());
                let (start, end) = period.around(moment);
                // Scripts speak of no moment before 1970, where no clock is.
                assert_eq!(seen, (start.max(0), end), "{period:?} around {moment}");
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enter { who: usize },
    Leave { which: usize },
    Reserve { who: usize, tokens: u64, worst: u64, least: u64 },
    Settle { which: usize, tokens: u64, used: u64 },
    Drop { which: usize },
    Change { rpm: u32, tpm: u64, budget: u64 },
    Pass { millis: u64 },
    Back { millis: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0_usize..3).prop_map(|who| Step::Enter { who }),
        3 => (0_usize..6).prop_map(|which| Step::Leave { which }),
        4 => (0_usize..3, 0_u64..400, 0_u64..60).prop_map(|(who, tokens, worst)| {
            Step::Reserve { who, tokens, worst, least: worst }
        }),
        3 => (0_usize..3, 0_u64..400, 0_u64..200, 0_u64..200).prop_map(|(who, tokens, worst, least)| {
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

/// One of the two that are compared.
struct Side {
    limiter: Limiter,
    rates: bool,
    subjects: Vec<Arc<Subject>>,
    entered: Vec<Entered>,
    reserved: Vec<Reservation>,
}

#[derive(Debug, PartialEq)]
enum Told {
    Nothing,
    Granted { femtos: i128 },
    Entered { requests: Option<(u32, u32, u64)>, tokens: Option<(u64, u64, u64)> },
    Refused { refusal: Refusal },
}

/// Microseconds; what a refusal gave back may have cost the last bit of a double.
fn micros(time: Duration) -> u64 {
    u64::try_from((time + Duration::from_nanos(200)).as_micros()).unwrap()
}

impl Side {
    fn new(limiter: Limiter, rates: bool) -> Self {
        Self { limiter, rates, subjects: Vec::new(), entered: Vec::new(), reserved: Vec::new() }
    }

    fn limit(&mut self, case: u64, rpm: u32, tpm: u64, budget: u64) {
        let limits = |rpm, tpm, most, nano, period| Limits {
            rpm: Some(rpm),
            // A part of the limits have a burst.
            burst: (rpm % 3 == 0).then_some(rpm.div_ceil(2)),
            tpm: Some(tpm),
            max_in_flight: Some(most),
            budget: Some(Budget { nano, period }),
            ..Limits::default()
        };
        let total = Limits { tpm: Some(tpm), ..super::budget(200, Period::Total) };
        let subject = |whose, name: &str, limits: Limits| {
            let plain = Limits { rpm: None, burst: None, tpm: None, ..limits };
            let limits = if self.rates { limits } else { plain };
            self.limiter.subject(whose, &format!("{name}-{case}-{}", self.rates), limits)
        };
        self.subjects = vec![
            subject(Whose::Key, "one", limits(rpm, tpm, 3, budget, Period::Day)),
            subject(Whose::Key, "two", total),
            subject(Whose::Team, "team", limits(10, 900, 4, 280, Period::Week)),
        ];
    }

    /// The first key, the second, or the first with its team.
    fn who(&self, who: usize) -> Vec<Arc<Subject>> {
        match who {
            0 | 1 => vec![self.subjects[who].clone()],
            _ => vec![self.subjects[0].clone(), self.subjects[2].clone()],
        }
    }

    async fn step(&mut self, step: Step, case: u64, id: &str) -> Told {
        match step {
            Step::Enter { who } => match self.limiter.enter(id, &self.who(who)).await {
                Ok(entered) => {
                    let requests =
                        entered.requests.map(|seen| (seen.limit, seen.remaining, micros(seen.reset)));
                    let tokens = entered.tokens.map(|seen| (seen.limit, seen.remaining, micros(seen.reset)));
                    self.entered.push(entered);
                    return Told::Entered { requests, tokens };
                }
                Err(refused) => return Told::Refused { refusal: plain(refused.refusal) },
            },
            Step::Reserve { who, tokens, worst, least } => {
                let (most, least) = (nano(worst), nano(least));
                match self.limiter.reserve_up_to(id, &self.who(who), tokens, most, least).await {
                    Ok((reserved, femtos)) => {
                        self.reserved.push(reserved);
                        return Told::Granted { femtos };
                    }
                    Err(refusal) => return Told::Refused { refusal: plain(refusal) },
                }
            }
            Step::Leave { which } if which < self.entered.len() => drop(self.entered.swap_remove(which)),
            Step::Settle { which, tokens, used } if which < self.reserved.len() => {
                self.reserved.swap_remove(which).settle(tokens, nano(used));
            }
            Step::Drop { which } if which < self.reserved.len() => drop(self.reserved.swap_remove(which)),
            Step::Change { rpm, tpm, budget } => self.limit(case, rpm, tpm, budget),
            Step::Pass { .. }
            | Step::Back { .. }
            | Step::Leave { .. }
            | Step::Settle { .. }
            | Step::Drop { .. } => {}
        }
        drained(&self.limiter).await;
        Told::Nothing
    }
}

/// A refusal with its times rounded.
fn plain(refusal: Refusal) -> Refusal {
    let round = |time| Duration::from_micros(micros(time));
    match refusal {
        Refusal::Requests { whose, limit, retry_after } => {
            Refusal::Requests { whose, limit, retry_after: round(retry_after) }
        }
        Refusal::Tokens { whose, limit, wanted, retry_after } => {
            Refusal::Tokens { whose, limit, wanted, retry_after: retry_after.map(round) }
        }
        other => other,
    }
}

#[test]
fn both_decide_alike() {
    decide_alike(300, true);
}

/// Of rates nothing is said: in process their clock never goes back.
#[test]
fn both_decide_alike_about_money_when_the_clock_goes_back() {
    decide_alike(200, false);
}

fn decide_alike(cases: u32, rates: bool) {
    static CASES: AtomicU64 = AtomicU64::new(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let redis = runtime.block_on(Redis::start());
    let ledger = Arc::new(Ledger { spent: nano(7).into(), ..Ledger::default() });
    let clock = clock();
    // In process nothing expires: leases that outlast the test make the two alike.
    let settings = RedisSettings { lease: Duration::from_secs(400 * 86_400), ..settings(&redis) };
    let (remote, _core) = runtime.block_on(replica_at(settings, &clock, &ledger));
    let local = Limiter::local_by(clock.clone(), ledger);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let steps = prop::collection::vec(step(), 1..80);
    let checked = runner.run(&steps, |steps| {
        let case = CASES.fetch_add(1, Ordering::Relaxed);
        let (mut here, mut there) = (Side::new(local.clone(), rates), Side::new(remote.clone(), rates));
        here.limit(case, 5, 500, 150);
        there.limit(case, 5, 500, 150);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Pass { millis } => clock.pass(Duration::from_millis(millis)),
                Step::Back { millis } if !rates => clock.go_back(Duration::from_millis(millis)),
                _ => {}
            }
            // What is settled while a purse is unknown is counted on top in Redis, and heard of from the ledger in
            // process: both are made to ask it first.
            let look = Step::Enter { who: 2 };
            let looks = !rates && matches!(step, Step::Pass { .. } | Step::Back { .. });
            let step = if looks { look } else { step };
            let id = format!("{case}-{number}");
            let told =
                (runtime.block_on(here.step(step, case, &id)), runtime.block_on(there.step(step, case, &id)));
            prop_assert_eq!(&told.0, &told.1, "step {}: {:?}", number, step);
        }
        // What was spent and is still set aside is the same, to the nano-dollar.
        for (here, there) in here.subjects.iter().zip(&there.subjects) {
            let (spent, reserved) = here.state().purse.figures();
            let seen = runtime.block_on(figures(&redis, there));
            let reserved_there = (nano(seen.0), nano(seen.1));
            if here.state().purse.is_current(here.limits().budget.unwrap(), clock.unix()) {
                prop_assert_eq!((spent, reserved), reserved_there);
            }
        }
        Ok(())
    });
    checked.unwrap();
}

#[tokio::test]
async fn s12_a_redis_whose_clock_jumps_neither_forgets_nor_locks() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let limits = Limits { rpm: Some(3), tpm: Some(100), max_in_flight: Some(9), ..budget(100, Period::Day) };
    let subjects = key(&limiter, limits);
    // A minute before midnight.
    clock.pass(Duration::from_secs(14 * 3600 + 20 * 60 + 44));
    drop(limiter.enter("a", &subjects).await.unwrap());
    limiter.reserve("a", &subjects, 50, nano(90)).await.unwrap().settle(50, nano(90));
    drained(&limiter).await;
    *ledger.spent.lock() = nano(90);
    let hour = 3_600_000_000;
    for jump in [hour, -hour, -hour, hour] {
        clock.micros.fetch_add(jump, Ordering::SeqCst);
        // Two minutes are the furthest that a limit is ever ahead: nobody waits for the clock to come there again.
        drop(limiter.enter("b", &subjects).await.unwrap());
        drained(&limiter).await;
    }
    // Back in the day in which it was spent: the ledger was asked, nothing was forgotten.
    let why = limiter.reserve("c", &subjects, 0, nano(11)).await.unwrap_err();
    assert!(matches!(why, Refusal::Budget { .. }), "{why:?}");
    limiter.reserve("c", &subjects, 0, nano(10)).await.unwrap();
}
