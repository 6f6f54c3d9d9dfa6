//! Limits in process, under many hands and by a clock that is set: never exceeded, never leaked.

mod given;
mod periods;
mod up_to;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gw_store::{Budget, Limits, Period};
use parking_lot::Mutex;
use proptest::prelude::*;

use crate::doubles::{DAY, Hands, Ledger, NOW};
use crate::{Limiter, Refusal, Reservation, Subject, Whose};

struct World {
    limiter: Limiter,
    clock: Arc<Hands>,
    ledger: Arc<Ledger>,
}

fn world() -> World {
    world_of(Ledger::default())
}

fn world_of(ledger: Ledger) -> World {
    let clock = Arc::new(Hands::at(NOW));
    let ledger = Arc::new(ledger);
    World { limiter: Limiter::local_by(clock.clone(), ledger.clone()), clock, ledger }
}

impl World {
    fn key(&self, limits: Limits) -> [Arc<Subject>; 1] {
        [self.limiter.subject(Whose::Key, "k", limits)]
    }
}

fn budget(femtos: u64, period: Period) -> Limits {
    assert!(femtos.is_multiple_of(1_000_000));
    Limits { budget: Some(Budget { nano: femtos / 1_000_000, period }), ..Limits::default() }
}

/// A budget of so many millions of femto-USD.
fn total(nano: u64) -> Limits {
    budget(nano * 1_000_000, Period::Total)
}

fn figures(subject: &Subject) -> (i128, i128) {
    subject.state().purse.figures()
}

#[tokio::test]
async fn requests_are_counted_by_key_and_by_team() {
    let world = world();
    let rpm = |limit| Limits { rpm: Some(limit), ..Limits::default() };
    let team = world.limiter.subject(Whose::Team, "t", rpm(3));
    let keys = ["a", "b"].map(|id| [world.limiter.subject(Whose::Key, id, rpm(10)), team.clone()]);
    for n in 0..3 {
        let entered = world.limiter.enter("r", &keys[n % 2]).await.unwrap();
        let state = entered.requests.unwrap();
        assert_eq!((state.limit, state.remaining), (3, 2 - n as u32), "the tighter of the two is shown");
    }
    world.clock.pass(Duration::from_secs(20));
    let refused = world.limiter.enter("r", &keys[0]).await.unwrap_err();
    let retry_after = Duration::from_secs(40);
    assert_eq!(refused.refusal, Refusal::Requests { whose: Whose::Team, limit: 3, retry_after });
    assert_eq!(refused.entered.requests.unwrap().remaining, 0);
    world.clock.pass(retry_after);
    world.limiter.enter("r", &keys[0]).await.unwrap();
}

#[tokio::test]
async fn places_are_counted_and_given_back() {
    let world = world();
    let limits = |max| Limits { max_in_flight: Some(max), ..Limits::default() };
    let key = world.limiter.subject(Whose::Key, "k", limits(3));
    let team = world.limiter.subject(Whose::Team, "t", limits(2));
    let both = [key.clone(), team.clone()];
    let one = world.limiter.enter("r", &both).await.unwrap();
    let two = world.limiter.enter("r", &both).await.unwrap();
    let refused = world.limiter.enter("r", &both).await.unwrap_err();
    assert_eq!(refused.refusal, Refusal::InFlight { whose: Whose::Team, limit: 2 });
    assert_eq!(key.state().running.load(Ordering::SeqCst), 2, "the key's place was given back at once");
    drop(one);
    let three = world.limiter.enter("r", &both).await.unwrap();
    drop((two, three));
    assert_eq!(team.state().running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn tokens_are_set_aside_and_what_was_not_used_comes_back() {
    let world = world();
    let key = world.key(Limits { tpm: Some(600), ..Limits::default() });
    let reserve = async |tokens| world.limiter.reserve("r", &key, tokens, 0).await;
    let mut all = reserve(600).await.unwrap();
    let why = reserve(100).await.unwrap_err();
    let retry_after = Some(Duration::from_secs(10));
    assert_eq!(why, Refusal::Tokens { whose: Whose::Key, limit: 600, wanted: 100, retry_after });
    all.settle(200, 0);
    all.settle(0, 0);
    let seen = world.limiter.enter("r", &key).await.unwrap().tokens.unwrap();
    assert_eq!((seen.limit, seen.remaining, seen.reset), (600, 400, Duration::from_secs(20)));
    let never = reserve(601).await.unwrap_err();
    assert!(matches!(never, Refusal::Tokens { retry_after: None, .. }), "{never:?}");
    drop(reserve(400).await.unwrap());
    reserve(400).await.unwrap();
}

#[tokio::test]
async fn money_is_set_aside_before_it_is_spent() {
    let world = world();
    let key = world.key(total(100));
    let reserve = async |cost: i128| world.limiter.reserve("r", &key, 1, cost * 1_000_000).await;
    let mut one = reserve(60).await.unwrap();
    let none = Refusal::Budget { whose: Whose::Key, resets_in: None };
    assert_eq!(reserve(41).await.unwrap_err(), none);
    one.settle(1, 25_000_001);
    one.settle(1, 25_000_001);
    drop(one);
    assert_eq!(figures(&key[0]), (25_000_001, 0), "settled once, to the femto-dollar");
    assert_eq!(reserve(75).await.unwrap_err(), none, "a femto-dollar is missing");
    drop(reserve(74).await.unwrap());
    assert_eq!(figures(&key[0]), (25_000_001, 0), "dropped, it goes back");
    let mut rest = world.limiter.reserve("r", &key, 1, 74_999_999).await.unwrap();
    assert_eq!(world.limiter.enter("r", &key).await.unwrap_err().refusal, none);
    rest.settle(1, 0);
    world.limiter.enter("r", &key).await.unwrap();
    let mut more = reserve(1).await.unwrap();
    more.settle(1, 500_000_000);
    assert_eq!(figures(&key[0]), (525_000_001, 0), "an upstream that used more is counted in full");
    assert_eq!(world.limiter.enter("r", &key).await.unwrap_err().refusal, none);
}

#[tokio::test]
async fn what_one_cannot_give_the_other_gets_back() {
    let world = world();
    let key = world.limiter.subject(Whose::Key, "k", Limits { tpm: Some(1000), ..total(100) });
    let team = world.limiter.subject(Whose::Team, "t", total(10));
    let both = [key.clone(), team.clone()];
    let reserve =
        async |tokens, cost: i128| world.limiter.reserve("r", &both, tokens, cost * 1_000_000).await;
    let why = reserve(500, 50).await.unwrap_err();
    assert_eq!(why, Refusal::Budget { whose: Whose::Team, resets_in: None });
    assert_eq!(figures(&key), (0, 0));
    let why = reserve(1000, 101).await.unwrap_err();
    assert_eq!(why, Refusal::Budget { whose: Whose::Key, resets_in: None });
    drop(reserve(1000, 5).await.unwrap());
    assert_eq!((figures(&key), figures(&team)), ((0, 0), (0, 0)));
}

#[tokio::test]
async fn the_ledger_is_asked_once_for_all_who_wait() {
    let held = Some(tokio::sync::Semaphore::new(0));
    let world = world_of(Ledger { spent: Mutex::new(40_000_000), held, ..Ledger::default() });
    let key = world.key(budget(100_000_000, Period::Day));
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let (limiter, key) = (world.limiter.clone(), key.clone());
            tokio::spawn(async move { limiter.reserve("r", &key, 0, 10_000_000).await })
        })
        .collect();
    while world.ledger.asked.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    world.ledger.held.as_ref().unwrap().add_permits(1);
    let mut held = Vec::new();
    for task in asking {
        held.extend(task.await.unwrap());
    }
    assert_eq!(held.len(), 6, "what the ledger knew counts");
    assert_eq!(*world.ledger.asked.lock(), [NOW - NOW % DAY]);
}

#[tokio::test]
async fn a_ledger_that_is_away_closes_budgets_and_nothing_else() {
    let world = world_of(Ledger { away: true.into(), ..Ledger::default() });
    let key = world.key(total(100));
    assert_eq!(world.limiter.enter("r", &key).await.unwrap_err().refusal, Refusal::StoreAway);
    assert_eq!(world.limiter.reserve("r", &key, 1, 1).await.unwrap_err(), Refusal::StoreAway);
    let free = [world.limiter.subject(Whose::Key, "other", Limits { tpm: Some(10), ..Limits::default() })];
    world.limiter.enter("r", &free).await.unwrap();
    world.limiter.reserve("r", &free, 1, 1).await.unwrap();
    world.ledger.away.store(false, Ordering::SeqCst);
    world.limiter.reserve("r", &key, 1, 1).await.unwrap();
}

#[tokio::test]
async fn a_ledger_that_is_away_is_not_asked_by_one_after_the_other() {
    let world = world_of(Ledger {
        away: true.into(),
        held: Some(tokio::sync::Semaphore::new(0)),
        ..Ledger::default()
    });
    let key = world.key(total(100));
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let (limiter, key) = (world.limiter.clone(), key.clone());
            tokio::spawn(async move { limiter.enter("r", &key).await.unwrap_err().refusal })
        })
        .collect();
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    world.ledger.held.as_ref().unwrap().add_permits(1);
    for task in asking {
        assert_eq!(task.await.unwrap(), Refusal::StoreAway);
    }
    assert_eq!(world.ledger.asked.lock().len(), 1);
}

#[tokio::test]
async fn changed_limits_hold_at_once_and_the_state_stays() {
    let world = world();
    let key = world.key(Limits { rpm: Some(2), ..total(100) });
    world.limiter.enter("r", &key).await.unwrap();
    let mut one = world.limiter.reserve("r", &key, 1, 60_000_000).await.unwrap();
    let lower = world.key(Limits { rpm: Some(2), ..total(59) });
    let why = world.limiter.enter("r", &lower).await.unwrap_err();
    assert_eq!(why.refusal, Refusal::Budget { whose: Whose::Key, resets_in: None });
    let why = world.limiter.enter("r", &lower).await.unwrap_err();
    assert!(matches!(why.refusal, Refusal::Requests { limit: 2, .. }), "{why:?}");
    let higher = world.key(total(200));
    one.settle(1, 60_000_000);
    let _rest = world.limiter.reserve("r", &higher, 1, 140_000_000).await.unwrap();
    assert!(world.limiter.reserve("r", &higher, 1, 1).await.is_err());
    assert_eq!(world.ledger.asked.lock().len(), 1);
    // Another kind of period: only the ledger knows what was spent in it.
    *world.ledger.spent.lock() = 70_000_000;
    let daily = world.key(budget(300_000_000, Period::Day));
    world.limiter.enter("r", &daily).await.unwrap();
    assert_eq!((figures(&daily[0]), world.ledger.asked.lock().len()), ((70_000_000, 140_000_000), 2));
}

#[tokio::test]
async fn charges_count_once_the_purse_is_known() {
    let world = world_of(Ledger { spent: Mutex::new(50_000_000), ..Ledger::default() });
    let key = world.key(total(100));
    world.limiter.charge("r", &key, 7, NOW).await;
    world.limiter.enter("r", &key).await.unwrap();
    assert_eq!(figures(&key[0]), (50_000_000, 0), "the ledger knew of it");
    world.limiter.charge("r", &key, 50_000_000, NOW).await;
    assert!(world.limiter.enter("r", &key).await.is_err());
}

#[tokio::test]
async fn s12_a_period_ends_at_midnight_utc_and_what_is_under_way_counts_in_its_own() {
    // 2028-02-29T23:59:50Z: a leap day and the end of a month.
    let midnight = 1_835_481_600;
    for period in [Period::Day, Period::Month] {
        let world = world();
        world.clock.set_unix(midnight - 10);
        let key = world.key(budget(100_000_000, period));
        let mut over = world.limiter.reserve("r", &key, 0, 60_000_000).await.unwrap();
        world.limiter.reserve("r", &key, 0, 40_000_000).await.unwrap().settle(0, 40_000_000);
        let why = world.limiter.reserve("r", &key, 0, 1).await.unwrap_err();
        let resets_in = Some(Duration::from_secs(10));
        assert_eq!(why, Refusal::Budget { whose: Whose::Key, resets_in });
        world.clock.pass(Duration::from_secs(10));
        assert!(world.limiter.reserve("r", &key, 0, 40_000_001).await.is_err(), "60 are under way");
        over.settle(0, 10_000_000);
        assert_eq!(figures(&key[0]), (0, 0), "it began before midnight, as the ledger has it");
        assert_eq!(world.ledger.asked.lock().len(), 1, "a new period begins with nothing spent");
    }
}

#[tokio::test]
async fn s12_a_clock_that_jumps_neither_forgets_nor_locks() {
    let world = world();
    let midnight = NOW - NOW % DAY;
    world.clock.set_unix(midnight - 60);
    let limits = Limits { rpm: Some(3), tpm: Some(100), ..budget(100_000_000, Period::Day) };
    let key = world.key(limits);
    world.limiter.enter("r", &key).await.unwrap();
    world.limiter.reserve("r", &key, 50, 90_000_000).await.unwrap().settle(50, 90_000_000);
    *world.ledger.spent.lock() = 90_000_000;
    for jump in [3600, -3600, -3600, 3600] {
        world.clock.jump(jump);
        // Rates go by the other clock, which did not move.
        let entered = world.limiter.enter("r", &key).await;
        let states = match entered {
            Ok(entered) => (entered.requests, entered.tokens),
            Err(refused) => (refused.entered.requests, refused.entered.tokens),
        };
        assert!(states.0.unwrap().reset <= Duration::from_secs(60));
        assert_eq!(states.1.unwrap().remaining, 50);
    }
    // Back in the day in which it was spent: the ledger was asked, nothing was forgotten.
    assert!(world.limiter.reserve("r", &key, 0, 10_000_001).await.is_err());
    world.limiter.reserve("r", &key, 0, 10_000_000).await.unwrap();
    for moment in [i64::MIN, i64::MAX, 0, -1] {
        world.clock.set_unix(moment);
        let _ = world.limiter.reserve("r", &key, 0, 1).await;
    }
    assert_eq!(figures(&key[0]).1, 0);
}

#[test]
fn parallel_requests_never_set_aside_more_than_the_budget() {
    let world = world();
    let key = world.key(total(1_000));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(world.limiter.enter("r", &key)).unwrap();
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
                        reserved.settle(1, i128::from(n % 8) * 1_000_000);
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
    /// Against the plainest model: whatever is reserved, settled and dropped in whatever order, a budget is kept at
    /// every reservation, spent is the sum of what was settled, and nothing stays set aside.
    #[test]
    fn a_purse_is_the_sum_of_its_settlements(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let world = world();
        let key = world.limiter.subject(Whose::Key, "k", Limits { tpm: Some(100), ..total(600) });
        let team = world.limiter.subject(Whose::Team, "t", total(500));
        let both = [key.clone(), team.clone()];
        let mut open: Vec<(Reservation, bool, i128)> = Vec::new();
        // Of the key, of the team.
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
                    reserved.settle(1, used);
                    spent[0] += used;
                    spent[1] += if with_team { used } else { 0 };
                }
                Step::Drop { which } if which < open.len() => drop(open.swap_remove(which)),
                Step::Pass { seconds } => world.clock.pass(Duration::from_secs(seconds)),
                Step::Settle { .. } | Step::Drop { .. } => {}
            }
        }
        drop(open);
        // A purse that was never asked knows nothing, and nothing was spent from it.
        prop_assert_eq!([figures(&key), figures(&team)], spent.map(|spent| (spent, 0)));
    }
}
