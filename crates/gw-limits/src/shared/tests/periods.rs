//! The periods of budgets over Redis, by a clock that jumps.

use super::*;
use crate::Refusal;
use crate::doubles::DAY;

#[tokio::test]
async fn p10_a_clock_that_goes_back_and_forth_grants_nothing_anew() {
    let redis = Redis::start().await;
    for (period, days) in [(Period::Day, 1), (Period::Week, 7), (Period::Month, 31)] {
        redis.flush().await;
        let (clock, ledger) = (clock(), ledger());
        let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
        let subjects = key(&limiter, budget(100, period));
        let (start, end) = period.around(NOW);
        let spend = async |cost| {
            let mut reserved = limiter.reserve("r", &subjects, 0, nano(cost)).await?;
            reserved.settle(0, nano(cost));
            drained(&limiter).await;
            ledger.rows.lock().push((clock.unix(), nano(cost)));
            Ok::<_, Refusal>(())
        };
        for moment in [start, end - 1, start - 1, start, end, start - DAY * days, end - 1, end, start] {
            clock.set_both(moment);
            let _ = spend(60).await;
            let _ = spend(40).await;
            let why = spend(1).await.unwrap_err();
            assert!(matches!(why, Refusal::Budget { .. }), "{period:?} {moment}: {why:?}");
        }
        let rows = ledger.rows.lock();
        for (at, _) in rows.iter() {
            let (from, until) = period.around(*at);
            let spent: i128 = rows.iter().filter(|row| (from..until).contains(&row.0)).map(|row| row.1).sum();
            assert_eq!(spent, nano(100), "{period:?}: one budget in each period");
        }
    }
}

#[tokio::test]
async fn a_period_that_follows_is_known_without_the_ledger() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = key(&limiter, budget(100, Period::Day));
    for day in 0..5 {
        clock.set_both(NOW + day * DAY);
        limiter.reserve("r", &subjects, 0, nano(100)).await.unwrap().settle(0, nano(100));
        drained(&limiter).await;
    }
    assert_eq!(ledger.asked.lock().len(), 1);
}
