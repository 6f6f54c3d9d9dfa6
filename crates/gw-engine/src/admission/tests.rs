//! Limits under many hands: never exceeded, never leaked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_store::{Budget, Limits, Period};
use gw_wire::money::{Money, Price};
use proptest::prelude::*;

use super::tokens::TokenRate;
use super::{Allowance, Reservation, enter};
use crate::error::Kind;

fn budget(nano: u64) -> Limits {
    Limits { budget: Some(Budget { nano, period: Period::Total }), ..Limits::default() }
}

/// So many nano-USD.
fn nanos(nano: u64) -> Money {
    Price::from_nanos(1_000_000).cost(nano)
}

fn allowance(limits: &Limits) -> Arc<Allowance> {
    Arc::new(Allowance::new("key", limits))
}

#[test]
fn requests_at_one_time_are_counted_and_their_places_given_back() {
    let key = allowance(&Limits { max_in_flight: Some(2), ..Limits::default() });
    let one = enter(&key, None).unwrap();
    let two = enter(&key, None).unwrap();
    let (_, error) = *enter(&key, None).unwrap_err();
    assert_eq!(error.kind, Kind::RateLimitExceeded);
    drop(one);
    let three = enter(&key, None).unwrap();
    drop((two, three));
    assert_eq!(key.running.load(std::sync::atomic::Ordering::Acquire), 0);
}

#[test]
fn a_team_holds_its_keys_together() {
    let team = Arc::new(Allowance::new("team", &Limits { rpm: Some(3), ..Limits::default() }));
    let keys = [allowance(&Limits::default()), allowance(&Limits::default())];
    for n in 0..3 {
        enter(&keys[n % 2], Some(&team)).unwrap();
    }
    let (entered, error) = *enter(&keys[0], Some(&team)).unwrap_err();
    assert!(error.message.contains("team") && entered.requests.is_some_and(|state| state.remaining == 0));
}

#[test]
fn money_is_set_aside_before_it_is_spent() {
    let key = allowance(&budget(100));
    let purse = key.purse().unwrap();
    let reserve = |nano: u64| Reservation::of([&key].into_iter(), 1, nanos(nano));
    let mut one = reserve(60).unwrap();
    assert_eq!(reserve(41).unwrap_err().kind, Kind::InsufficientQuota);
    one.settle(1, nanos(25));
    one.settle(1, nanos(25));
    assert_eq!(purse.figures(), (nanos(25), Money::ZERO), "settled once");
    drop(reserve(75).unwrap());
    assert_eq!(purse.figures(), (nanos(25), Money::ZERO), "dropped, it goes back");
    let all = reserve(75).unwrap();
    assert_eq!((*enter(&key, None).unwrap_err()).1.kind, Kind::InsufficientQuota);
    drop(all);
    enter(&key, None).unwrap();
}

#[test]
fn what_one_cannot_give_the_other_gets_back() {
    let key = allowance(&Limits { tpm: Some(1000), ..budget(100) });
    let team = Arc::new(Allowance::new("team", &budget(10)));
    let both = || [&key, &team].into_iter();
    assert_eq!(Reservation::of(both(), 500, nanos(50)).unwrap_err().kind, Kind::InsufficientQuota);
    assert_eq!(key.purse().unwrap().figures(), (Money::ZERO, Money::ZERO));
    Reservation::of(both(), 1000, nanos(5)).unwrap();
    assert_eq!(Reservation::of(both(), 1001, nanos(5)).unwrap_err().kind, Kind::RateLimitExceeded);
}

#[test]
fn tokens_come_back_evenly_and_what_was_not_used_at_once() {
    let start = Instant::now();
    let rate = TokenRate::new(600);
    rate.take(600, start).unwrap();
    let wait = rate.take(100, start).unwrap_err().unwrap();
    assert!((wait.as_secs_f64() - 10.0).abs() < 0.01, "{wait:?}");
    rate.take(100, start + Duration::from_secs(11)).unwrap();
    rate.settle(600, 100);
    assert_eq!(rate.state(start + Duration::from_secs(11)).remaining, 510);
    assert!(rate.take(601, start).unwrap_err().is_none(), "never");
}

#[test]
fn parallel_requests_never_set_aside_more_than_the_budget() {
    let key = allowance(&budget(1_000));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for n in 0..500_u64 {
                    let Ok(mut reserved) = Reservation::of([&key].into_iter(), 1, nanos(7)) else { continue };
                    let (spent, aside) = key.purse().unwrap().figures();
                    assert!(spent + aside <= nanos(1_000));
                    if n.is_multiple_of(3) {
                        reserved.settle(1, nanos(n % 8));
                    }
                }
            });
        }
    });
    let (spent, aside) = key.purse().unwrap().figures();
    assert!(spent <= nanos(1_000) && aside == Money::ZERO, "{spent} {aside}");
}

proptest! {
    /// Whatever is reserved, settled and dropped in whatever order: spent is the sum of what was settled, and nothing
    /// stays set aside.
    #[test]
    fn a_purse_is_the_sum_of_its_settlements(steps in prop::collection::vec((0_u64..50, 0_u64..50, any::<bool>()), 1..200)) {
        let key = allowance(&budget(1_000));
        let mut open = Vec::new();
        let mut sum = Money::ZERO;
        for (worst, used, settles) in steps {
            if let Ok(reserved) = Reservation::of([&key].into_iter(), 1, nanos(worst)) {
                open.push((reserved, used.min(worst), settles));
            }
            if open.len() > 5 {
                let (mut reserved, used, settles) = open.remove(0);
                if settles {
                    reserved.settle(1, nanos(used));
                    sum += nanos(used);
                }
            }
            let (spent, aside) = key.purse().unwrap().figures();
            prop_assert!(spent + aside <= nanos(1_000));
            prop_assert_eq!(spent, sum);
        }
        drop(open);
        prop_assert_eq!(key.purse().unwrap().figures(), (sum, Money::ZERO));
    }
}
