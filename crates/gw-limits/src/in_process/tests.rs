//! Limits in process, under parallel requests and a clock that tests set: never exceeded, never leaked.

mod added_budgets;
mod free_requests;
mod many_counters;
mod partial_reservations;
mod periods;
mod taken_back;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gw_store::{Budget, Limits, Period};
use parking_lot::Mutex;
use proptest::prelude::*;

use crate::doubles::{DAY, NOW, TestClock, TestLedger};
use crate::{Limiter, Refusal, Reservation, Subject, SubjectKind};

struct World {
    limiter: Limiter,
    clock: Arc<TestClock>,
    ledger: Arc<TestLedger>,
}

fn world() -> World {
    world_of(TestLedger::default())
}

fn world_of(ledger: TestLedger) -> World {
    let clock = Arc::new(TestClock::at(NOW));
    let ledger = Arc::new(ledger);
    World { limiter: Limiter::in_process_with_clock(clock.clone(), ledger.clone()), clock, ledger }
}

impl World {
    fn key(&self, limits: Limits) -> [Arc<Subject>; 1] {
        [self.limiter.subject(SubjectKind::Key, "k", limits)]
    }
}

fn budget(femtos: u64, period: Period) -> Limits {
    assert!(femtos.is_multiple_of(1_000_000));
    Limits { budget: Some(Budget { nano: femtos / 1_000_000, period }), ..Limits::default() }
}

/// A budget of all time, in nano-USD.
fn total(nano: u64) -> Limits {
    budget(nano * 1_000_000, Period::Total)
}

fn figures(subject: &Subject) -> (i128, i128) {
    subject.state().budget.figures()
}

/// A ledger whose answers wait for [`admitted_beside`].
fn waiting_ledger() -> TestLedger {
    TestLedger { answer_permits: Some(tokio::sync::Semaphore::new(0)), ..TestLedger::default() }
}

/// Admits a request. While the ledger answers a question, `meanwhile` runs with the number of the question. Returns the number of questions.
async fn admitted_beside(
    (world, key): (&World, &[Arc<Subject>; 1]),
    mut meanwhile: impl FnMut(usize),
) -> usize {
    let (before, mut answered) = (world.ledger.questions.lock().len(), 0);
    let (limiter, subjects) = (world.limiter.clone(), key.clone());
    let asking = tokio::spawn(async move { limiter.admit("r", &subjects).await.map(drop) });
    while !asking.is_finished() {
        tokio::task::yield_now().await;
        if world.ledger.questions.lock().len() > before + answered {
            answered += 1;
            meanwhile(answered);
            world.ledger.answer_permits.as_ref().unwrap().add_permits(1);
        }
    }
    asking.await.unwrap().unwrap();
    answered
}

#[tokio::test]
async fn requests_count_for_the_key_and_for_its_team() {
    let world = world();
    let rpm = |limit| Limits { rpm: Some(limit), ..Limits::default() };
    let team = world.limiter.subject(SubjectKind::Team, "t", rpm(3));
    let keys = ["a", "b"].map(|id| [world.limiter.subject(SubjectKind::Key, id, rpm(10)), team.clone()]);
    for n in 0..3 {
        let permit = world.limiter.admit("r", &keys[n % 2]).await.unwrap();
        let state = permit.limits.requests.unwrap();
        assert_eq!(
            (state.limit, state.remaining),
            (3, 2 - n as u32),
            "the permit shows the limit with less left"
        );
    }
    world.clock.advance(Duration::from_secs(20));
    let refused = world.limiter.admit("r", &keys[0]).await.unwrap_err();
    let retry_after = Duration::from_secs(40);
    assert_eq!(refused.refusal, Refusal::Requests { subject: SubjectKind::Team, limit: 3, retry_after });
    assert_eq!(refused.limits.requests.unwrap().remaining, 0);
    world.clock.advance(retry_after);
    world.limiter.admit("r", &keys[0]).await.unwrap();
}

#[tokio::test]
async fn requests_in_flight_are_counted_and_released() {
    let world = world();
    let limits = |max| Limits { max_in_flight: Some(max), ..Limits::default() };
    let key = world.limiter.subject(SubjectKind::Key, "k", limits(3));
    let team = world.limiter.subject(SubjectKind::Team, "t", limits(2));
    let both = [key.clone(), team.clone()];
    let one = world.limiter.admit("r", &both).await.unwrap();
    let two = world.limiter.admit("r", &both).await.unwrap();
    let refused = world.limiter.admit("r", &both).await.unwrap_err();
    assert_eq!(refused.refusal, Refusal::InFlight { subject: SubjectKind::Team, limit: 2 });
    assert_eq!(key.state().in_flight.load(Ordering::SeqCst), 2, "the place of the key was released at once");
    drop(one);
    let three = world.limiter.admit("r", &both).await.unwrap();
    drop((two, three));
    assert_eq!(team.state().in_flight.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn tokens_are_reserved_and_unused_ones_come_back() {
    let world = world();
    let key = world.key(Limits { tpm: Some(600), ..Limits::default() });
    let reserve = async |tokens| world.limiter.reserve("r", &key, tokens, 0).await;
    let mut all = reserve(600).await.unwrap();
    let why = reserve(100).await.unwrap_err();
    let retry_after = Some(Duration::from_secs(10));
    assert_eq!(why, Refusal::Tokens { subject: SubjectKind::Key, limit: 600, wanted: 100, retry_after });
    all.settle("r", 200, 0);
    all.settle("r", 0, 0);
    let seen = world.limiter.admit("r", &key).await.unwrap().limits.tokens.unwrap();
    assert_eq!((seen.limit, seen.remaining, seen.reset), (600, 400, Duration::from_secs(20)));
    let never = reserve(601).await.unwrap_err();
    assert!(matches!(never, Refusal::Tokens { retry_after: None, .. }), "{never:?}");
    drop(reserve(400).await.unwrap());
    reserve(400).await.unwrap();
}

#[tokio::test]
async fn money_is_reserved_before_it_is_spent() {
    let world = world();
    let key = world.key(total(100));
    let reserve = async |cost: i128| world.limiter.reserve("r", &key, 1, cost * 1_000_000).await;
    let mut one = reserve(60).await.unwrap();
    let left = |left_nano| Refusal::Budget {
        subject: SubjectKind::Key,
        period: Period::Total,
        resets_in: None,
        left_nano,
    };
    assert_eq!(reserve(41).await.unwrap_err(), left(40));
    one.settle("r", 1, 25_000_001);
    one.settle("r", 1, 25_000_001);
    drop(one);
    assert_eq!(figures(&key[0]), (25_000_001, 0), "settled once, to the femto-dollar");
    assert_eq!(reserve(75).await.unwrap_err(), left(74), "a femto-dollar is missing");
    drop(reserve(74).await.unwrap());
    assert_eq!(figures(&key[0]), (25_000_001, 0), "a dropped reservation is released");
    let mut rest = world.limiter.reserve("r", &key, 1, 74_999_999).await.unwrap();
    assert_eq!(world.limiter.admit("r", &key).await.unwrap_err().refusal, left(0));
    rest.settle("r", 1, 0);
    world.limiter.admit("r", &key).await.unwrap();
    let mut more = reserve(1).await.unwrap();
    more.settle("r", 1, 500_000_000);
    assert_eq!(figures(&key[0]), (525_000_001, 0), "a cost above the reservation counts in full");
    assert_eq!(world.limiter.admit("r", &key).await.unwrap_err().refusal, left(0));
}

#[tokio::test]
async fn a_refusal_of_the_team_releases_the_reservation_of_the_key() {
    let world = world();
    let key = world.limiter.subject(SubjectKind::Key, "k", Limits { tpm: Some(1000), ..total(100) });
    let team = world.limiter.subject(SubjectKind::Team, "t", total(10));
    let both = [key.clone(), team.clone()];
    let reserve =
        async |tokens, cost: i128| world.limiter.reserve("r", &both, tokens, cost * 1_000_000).await;
    let why = reserve(500, 50).await.unwrap_err();
    assert_eq!(
        why,
        Refusal::Budget { subject: SubjectKind::Team, period: Period::Total, resets_in: None, left_nano: 10 }
    );
    assert_eq!(figures(&key), (0, 0));
    let why = reserve(1000, 101).await.unwrap_err();
    assert_eq!(
        why,
        Refusal::Budget { subject: SubjectKind::Key, period: Period::Total, resets_in: None, left_nano: 100 }
    );
    drop(reserve(1000, 5).await.unwrap());
    assert_eq!((figures(&key), figures(&team)), ((0, 0), (0, 0)));
}

#[tokio::test]
async fn waiting_requests_share_one_question_to_the_ledger() {
    let answer_permits = Some(tokio::sync::Semaphore::new(0));
    let world =
        world_of(TestLedger { spent: Mutex::new(40_000_000), answer_permits, ..TestLedger::default() });
    let key = world.key(budget(100_000_000, Period::Day));
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let (limiter, key) = (world.limiter.clone(), key.clone());
            tokio::spawn(async move { limiter.reserve("r", &key, 0, 10_000_000).await })
        })
        .collect();
    while world.ledger.questions.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    world.ledger.answer_permits.as_ref().unwrap().add_permits(1);
    let mut held = Vec::new();
    for task in asking {
        held.extend(task.await.unwrap());
    }
    assert_eq!(held.len(), 6, "the spending in the ledger counts");
    assert_eq!(*world.ledger.questions.lock(), [NOW - NOW % DAY]);
}

#[tokio::test]
async fn an_unavailable_ledger_closes_budgets_and_nothing_else() {
    let world = world_of(TestLedger { is_away: true.into(), ..TestLedger::default() });
    let key = world.key(total(100));
    assert_eq!(world.limiter.admit("r", &key).await.unwrap_err().refusal, Refusal::StoreUnavailable);
    assert_eq!(world.limiter.reserve("r", &key, 1, 1).await.unwrap_err(), Refusal::StoreUnavailable);
    let free =
        [world.limiter.subject(SubjectKind::Key, "other", Limits { tpm: Some(10), ..Limits::default() })];
    world.limiter.admit("r", &free).await.unwrap();
    world.limiter.reserve("r", &free, 1, 1).await.unwrap();
    world.ledger.is_away.store(false, Ordering::SeqCst);
    world.limiter.reserve("r", &key, 1, 1).await.unwrap();
}

#[tokio::test]
async fn waiting_requests_share_the_failure_of_the_ledger() {
    let world = world_of(TestLedger {
        is_away: true.into(),
        answer_permits: Some(tokio::sync::Semaphore::new(0)),
        ..TestLedger::default()
    });
    let key = world.key(total(100));
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let (limiter, key) = (world.limiter.clone(), key.clone());
            tokio::spawn(async move { limiter.admit("r", &key).await.unwrap_err().refusal })
        })
        .collect();
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    world.ledger.answer_permits.as_ref().unwrap().add_permits(1);
    for task in asking {
        assert_eq!(task.await.unwrap(), Refusal::StoreUnavailable);
    }
    assert_eq!(world.ledger.questions.lock().len(), 1);
}

#[tokio::test]
async fn changed_limits_apply_at_once_and_the_state_stays() {
    let world = world();
    let key = world.key(Limits { rpm: Some(2), ..total(100) });
    world.limiter.admit("r", &key).await.unwrap();
    let mut one = world.limiter.reserve("r", &key, 1, 60_000_000).await.unwrap();
    let lower = world.key(Limits { rpm: Some(2), ..total(59) });
    let why = world.limiter.admit("r", &lower).await.unwrap_err();
    assert_eq!(
        why.refusal,
        Refusal::Budget { subject: SubjectKind::Key, period: Period::Total, resets_in: None, left_nano: 0 }
    );
    let why = world.limiter.admit("r", &lower).await.unwrap_err();
    assert!(matches!(why.refusal, Refusal::Requests { limit: 2, .. }), "{why:?}");
    let higher = world.key(total(200));
    one.settle("r", 1, 60_000_000);
    let _rest = world.limiter.reserve("r", &higher, 1, 140_000_000).await.unwrap();
    assert!(world.limiter.reserve("r", &higher, 1, 1).await.is_err());
    assert_eq!(world.ledger.questions.lock().len(), 1);
    // Only the ledger knows the spending of a period of another kind.
    *world.ledger.spent.lock() = 70_000_000;
    let daily = world.key(budget(300_000_000, Period::Day));
    world.limiter.admit("r", &daily).await.unwrap();
    assert_eq!((figures(&daily[0]), world.ledger.questions.lock().len()), ((70_000_000, 140_000_000), 2));
}

#[tokio::test]
async fn a_charge_counts_only_after_the_spending_is_known() {
    let world = world_of(TestLedger { spent: Mutex::new(50_000_000), ..TestLedger::default() });
    let key = world.key(total(100));
    world.limiter.charge("r", &[(SubjectKind::Key, key[0].id())], 7, NOW);
    world.limiter.admit("r", &key).await.unwrap();
    assert_eq!(figures(&key[0]), (50_000_000, 0), "the ledger includes the charge");
    world.limiter.charge("r", &[(SubjectKind::Key, key[0].id())], 50_000_000, NOW);
    assert!(world.limiter.admit("r", &key).await.is_err());
}

#[tokio::test]
async fn s12_a_period_ends_at_midnight_utc_and_what_is_under_way_counts_in_its_own() {
    // The midnights after 2028-02-29, a leap day, after 2028-03-31, and after 2026-12-31.
    let (leap_day, spring, year) = (1_835_481_600, 1_838_160_000, 1_798_761_600);
    for (period, midnight) in [
        (Period::Day, leap_day),
        (Period::Month, leap_day),
        (Period::Quarter, spring),
        (Period::Quarter, year),
    ] {
        let world = world();
        world.clock.set_calendar(midnight - 10);
        let key = world.key(budget(100_000_000, period));
        let mut over = world.limiter.reserve("r", &key, 0, 60_000_000).await.unwrap();
        world.limiter.reserve("r", &key, 0, 40_000_000).await.unwrap().settle("r", 0, 40_000_000);
        let why = world.limiter.reserve("r", &key, 0, 1).await.unwrap_err();
        let resets_in = Some(Duration::from_secs(10));
        assert_eq!(why, Refusal::Budget { subject: SubjectKind::Key, period, resets_in, left_nano: 0 });
        world.clock.advance(Duration::from_secs(10));
        assert!(world.limiter.reserve("r", &key, 0, 40_000_001).await.is_err(), "60 are reserved");
        over.settle("r", 0, 10_000_000);
        assert_eq!(figures(&key[0]), (0, 0), "the request began before midnight");
        assert_eq!(world.ledger.questions.lock().len(), 1, "the next period begins with nothing spent");
    }
}

#[tokio::test]
async fn s12_a_clock_that_jumps_neither_forgets_nor_locks() {
    let world = world();
    let midnight = NOW - NOW % DAY;
    world.clock.set_calendar(midnight - 60);
    let limits = Limits { rpm: Some(3), tpm: Some(100), ..budget(100_000_000, Period::Day) };
    let key = world.key(limits);
    world.limiter.admit("r", &key).await.unwrap();
    world.limiter.reserve("r", &key, 50, 90_000_000).await.unwrap().settle("r", 50, 90_000_000);
    *world.ledger.spent.lock() = 90_000_000;
    for jump in [3600, -3600, -3600, 3600] {
        world.clock.move_calendar(jump);
        // Rates use the monotonic clock, which did not move.
        let permit = world.limiter.admit("r", &key).await;
        let states = match permit {
            Ok(permit) => (permit.limits.requests, permit.limits.tokens),
            Err(refused) => (refused.limits.requests, refused.limits.tokens),
        };
        assert!(states.0.unwrap().reset <= Duration::from_secs(60));
        assert_eq!(states.1.unwrap().remaining, 50);
    }
    // The clock is back on the first day, and the ledger was asked for its spending.
    assert!(world.limiter.reserve("r", &key, 0, 10_000_001).await.is_err());
    world.limiter.reserve("r", &key, 0, 10_000_000).await.unwrap();
    for moment in [i64::MIN, i64::MAX, 0, -1] {
        world.clock.set_calendar(moment);
        let _ = world.limiter.reserve("r", &key, 0, 1).await;
    }
    assert_eq!(figures(&key[0]).1, 0);
}

#[test]
fn parallel_requests_never_reserve_more_than_the_budget() {
    let world = world();
    let key = world.key(total(1_000));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(world.limiter.admit("r", &key)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                for n in 0..500_u64 {
                    let reserved = runtime.block_on(world.limiter.reserve("r", &key, 1, 7_000_000));
                    let (spent, aside) = figures(&key[0]);
                    assert!(spent + aside <= 1_000_000_000);
                    if let Ok(mut reserved) = reserved
                        && n.is_multiple_of(3)
                    {
                        reserved.settle("r", 1, i128::from(n % 8) * 1_000_000);
                    }
                }
            });
        }
    });
    let (spent, aside) = figures(&key[0]);
    assert!((900_000_000..=1_000_000_000).contains(&spent), "{spent}");
    assert_eq!(aside, 0);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Reserve { both: bool, worst: u64, tokens: u64 },
    Settle { which: usize, used: u64 },
    Drop { which: usize },
    Pass { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), 0_u64..60, 0_u64..50).prop_map(|(both, worst, tokens)| Step::Reserve { both, worst, tokens }),
        2 => (0_usize..8, 0_u64..80).prop_map(|(which, used)| Step::Settle { which, used }),
        1 => (0_usize..8).prop_map(|which| Step::Drop { which }),
        1 => (0_u64..30).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

proptest! {
    /// Compares a budget with a simple model under random sequences of reservations, settlements and drops. No
    /// reservation exceeds the budget, the spending is the sum of the settlements, and nothing stays reserved.
    #[test]
    fn a_budget_has_spent_the_sum_of_its_settlements(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let world = world();
        let key = world.limiter.subject(SubjectKind::Key, "k", Limits { tpm: Some(100), ..total(600) });
        let team = world.limiter.subject(SubjectKind::Team, "t", total(500));
        let both = [key.clone(), team.clone()];
        let mut open: Vec<(Reservation, bool, i128)> = Vec::new();
        // The spending of the key and of the team.
        let mut spent = [0_i128; 2];
        for step in steps {
            match step {
                Step::Reserve { both: with_team, worst, tokens } => {
                    let subjects = if with_team { &both[..] } else { &both[..1] };
                    let worst = i128::from(worst) * 1_000_000;
                    let aside = |team: bool| -> i128 {
                        open.iter().filter(|(_, both, _)| *both || !team).map(|(_, _, worst)| worst).sum()
                    };
                    let fits = spent[0] + aside(false) + worst <= 600_000_000
                        && (!with_team || spent[1] + aside(true) + worst <= 500_000_000);
                    match runtime.block_on(world.limiter.reserve("r", subjects, tokens, worst)) {
                        Ok(reserved) => {
                            prop_assert!(fits);
                            open.push((reserved, with_team, worst));
                        }
                        Err(Refusal::Tokens { .. }) => {}
                        Err(why) => prop_assert!(!fits, "{why:?}"),
                    }
                }
                Step::Settle { which, used } if which < open.len() => {
                    let (mut reserved, with_team, _) = open.swap_remove(which);
                    let used = i128::from(used) * 1_000_000 / 3;
                    reserved.settle("r", 1, used);
                    spent[0] += used;
                    spent[1] += if with_team { used } else { 0 };
                }
                Step::Drop { which } if which < open.len() => drop(open.swap_remove(which)),
                Step::Pass { seconds } => world.clock.advance(Duration::from_secs(seconds)),
                Step::Settle { .. } | Step::Drop { .. } => {}
            }
        }
        drop(open);
        // Both budgets are compared, the unused one too.
        prop_assert_eq!([figures(&key), figures(&team)], spent.map(|spent| (spent, 0)));
    }
}
