//! The periods of budgets, by a clock that jumps.

use super::*;
use crate::Clock;

#[tokio::test]
async fn p10_a_clock_that_goes_back_and_forth_grants_nothing_anew() {
    for (period, days) in [(Period::Day, 1), (Period::Week, 7), (Period::Month, 31)] {
        let world = world();
        let key = world.key(budget(100_000_000, period));
        let (start, end) = period.around(NOW);
        let spend = async |cost: i128| {
            let mut reserved = world.limiter.reserve("r", &key, 0, cost).await?;
            reserved.settle(0, cost);
            world.ledger.rows.lock().push((world.clock.unix(), cost));
            Ok::<_, Refusal>(())
        };
        for moment in [start, end - 1, start - 1, start, end, start - 86_400 * days, end - 1, end, start] {
            world.clock.set_unix(moment);
            let _ = spend(60_000_000).await;
            let _ = spend(40_000_000).await;
            let why = spend(1).await.unwrap_err();
            assert!(matches!(why, Refusal::Budget { .. }), "{period:?} {moment}: {why:?}");
        }
        let rows = world.ledger.rows.lock();
        for (at, _) in rows.iter() {
            let (from, until) = period.around(*at);
            let spent: i128 = rows.iter().filter(|row| (from..until).contains(&row.0)).map(|row| row.1).sum();
            assert_eq!(spent, 100_000_000, "{period:?}: one budget in each period");
        }
    }
}

#[tokio::test]
async fn a_period_that_follows_is_known_without_the_ledger() {
    let world = world();
    let key = world.key(budget(100_000_000, Period::Day));
    for day in 0..5 {
        world.clock.set_unix(NOW + day * DAY);
        world.limiter.reserve("r", &key, 0, 100_000_000).await.unwrap().settle(0, 100_000_000);
    }
    assert_eq!(world.ledger.asked.lock().len(), 1);
}
