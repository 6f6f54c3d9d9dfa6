//! The periods of budgets over Redis under a clock that jumps.

use std::sync::atomic::Ordering;

use super::*;
use crate::Refusal;
use crate::doubles::{DAY, ending};
use crate::redis::message::{Message, MessageKind, Settlement};
use crate::redis::outbox::SendOnDrop;

#[tokio::test]
async fn p10_a_clock_that_goes_back_and_forth_grants_nothing_anew() {
    let redis = Redis::start().await;
    for period in ending() {
        redis.flush().await;
        let (clock, ledger) = (clock(), ledger());
        let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
        let subjects = key(&limiter, budget(100, period));
        let (start, end) = period.around(NOW);
        let spend = async |cost| {
            let mut reserved = limiter.reserve("r", &subjects, 0, nano(cost)).await?;
            reserved.settle("r", 0, nano(cost));
            drain(&limiter).await;
            ledger.rows.lock().push((clock.unix_seconds(), nano(cost)));
            Ok::<_, Refusal>(())
        };
        for moment in [start, end - 1, start - 1, start, end, 2 * start - end, end - 1, end, start] {
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
async fn the_next_period_begins_without_a_question_to_the_ledger() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = key(&limiter, budget(100, Period::Day));
    for day in 0..5 {
        clock.set_both(NOW + day * DAY);
        limiter.reserve("r", &subjects, 0, nano(100)).await.unwrap().settle("r", 0, nano(100));
        drain(&limiter).await;
    }
    assert_eq!(ledger.questions.lock().len(), 1);
}

#[tokio::test]
async fn a_cost_counts_in_the_period_in_which_the_request_began() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let both = [
        key(&limiter, budget(100, Period::Day))[0].clone(),
        limiter.subject(SubjectKind::Team, "t", budget(1_000, Period::Total)),
    ];
    let seen = async || [figures(&redis, &both[0]).await, figures(&redis, &both[1]).await];
    let midnight = Period::Day.around(NOW).1;
    clock.set_both(midnight - 1);
    let mut over = limiter.reserve("over", &both, 0, nano(70)).await.unwrap();
    let lost = limiter.reserve("lost", &both, 0, nano(5)).await.unwrap();
    std::mem::forget(lost);
    clock.set_both(midnight);
    let mut late = limiter.reserve("late", &both, 0, nano(10)).await.unwrap();
    late.set_begin(midnight - 1);
    let mut new = limiter.reserve("new", &both, 0, nano(10)).await.unwrap();
    new.set_begin(midnight);
    assert_eq!(seen().await, [(0, 95); 2], "everything is reserved");
    clock.advance(Duration::from_secs(100));
    over.settle("r", 0, nano(70));
    late.settle("r", 0, nano(5));
    new.settle("r", 0, nano(3));
    drain(&limiter).await;
    assert_eq!(seen().await, [(3, 5), (78, 5)]);
    limiter.charge("lost", &names(&both), nano(4), midnight - 1);
    drain(&limiter).await;
    assert_eq!(seen().await, [(3, 0), (82, 0)], "the charge ends the lease");
    std::mem::forget(limiter.reserve("lost too", &both, 0, nano(5)).await.unwrap());
    limiter.charge("lost too", &names(&both), nano(4), midnight + 50);
    drain(&limiter).await;
    assert_eq!(seen().await, [(7, 0), (86, 0)]);
}

/// Spending that the ledger does not know yet stays in its own period when the clock of Redis goes back and forth.
#[tokio::test]
async fn a_clock_that_goes_back_carries_no_cost_into_another_period() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = key(&limiter, budget(100, Period::Day));
    let midnight = Period::Day.around(NOW).1;
    clock.set_both(midnight - 2);
    limiter.admit("a", &subjects).await.unwrap();
    clock.set_both(midnight + 1);
    limiter.reserve("b", &subjects, 0, nano(40)).await.unwrap().settle("b", 0, nano(40));
    drain(&limiter).await;
    clock.set_both(midnight - 1);
    limiter.admit("c", &subjects).await.unwrap();
    assert_eq!(figures(&redis, &subjects[0]).await, (0, 0));
    ledger.rows.lock().push((midnight + 1, nano(40)));
    clock.set_both(midnight + 2);
    limiter.admit("d", &subjects).await.unwrap();
    assert_eq!(figures(&redis, &subjects[0]).await, (40, 0));
}

#[tokio::test]
async fn a_jump_of_the_calendar_moves_no_request_to_another_period() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = key(&limiter, budget(100, Period::Day));
    let mut one = limiter.reserve("one", &subjects, 0, nano(10)).await.unwrap();
    one.set_begin(clock.unix_seconds());
    // Scripts use the monotonic time, which stays.
    clock.move_calendar(3 * DAY);
    one.settle("r", 0, nano(10));
    drain(&limiter).await;
    assert_eq!(figures(&redis, &subjects[0]).await, (10, 0));
}

/// As the test of this name in process, with requests of two replicas.
#[tokio::test]
async fn a_rolling_budget_gets_spending_back_at_its_age_and_at_most_a_step_later() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (one, _one) = replica_at(settings(&redis), &clock, &ledger).await;
    let (other, _other) = replica_at(settings(&redis), &clock, &ledger).await;
    let period = Period::parse("2d").unwrap();
    let limits = || budget(100, period);
    let (own, others) = (key(&one, limits()), key(&other, limits()));
    let spend = async |limiter: &Limiter, subjects: &[Arc<Subject>], at: i64, cost| {
        clock.set_both(at);
        let mut reserved = limiter.reserve(&format!("r{at}"), subjects, 0, nano(cost)).await?;
        reserved.set_begin(at);
        reserved.settle("r", 0, nano(cost));
        drain(limiter).await;
        ledger.rows.lock().push((at, nano(cost)));
        Ok::<_, Refusal>(())
    };
    let step = 2 * 3600;
    let begin = NOW - NOW % step;
    spend(&one, &own, begin, 60).await.unwrap();
    spend(&other, &others, begin + 3 * step, 40).await.unwrap();
    let why = spend(&one, &own, begin + 2 * DAY + step - 1, 1).await.unwrap_err();
    let resets_in = Some(Duration::from_secs(1));
    assert_eq!(why, Refusal::Budget { subject: SubjectKind::Key, period, resets_in, left_nano: 0 });
    clock.set_both(begin + 2 * DAY + step);
    let mut open = one.reserve("open", &own, 0, nano(50)).await.unwrap();
    open.set_begin(begin + 2 * DAY + step);
    spend(&other, &others, begin + 2 * DAY + step + 1, 11).await.unwrap_err();
    assert_eq!(figures(&redis, &own[0]).await, (40, 50));
    // The request settles while the spending of the next step is not known yet, and counts once.
    clock.set_both(begin + 2 * DAY + step + 600);
    open.settle("r", 0, nano(50));
    drain(&one).await;
    ledger.rows.lock().push((begin + 2 * DAY + step, nano(50)));
    spend(&other, &others, begin + 2 * DAY + 4 * step, 51).await.unwrap_err();
    spend(&other, &others, begin + 2 * DAY + 4 * step, 50).await.unwrap();
    assert_eq!(figures(&redis, &own[0]).await, (100, 0));
}

/// As the test of this name in process, with requests of two replicas. The ledger knows none of them.
#[tokio::test]
async fn a_rolling_budget_moves_on_while_the_ledger_is_away() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let settings = RedisSettings { lease: Duration::from_secs(40 * 86_400), ..settings(&redis) };
    let (one, _one) = replica_at(settings.clone(), &clock, &ledger).await;
    let (other, _other) = replica_at(settings, &clock, &ledger).await;
    let limits = || budget(100, Period::parse("1d").unwrap());
    let (own, others) = (key(&one, limits()), key(&other, limits()));
    let hour = NOW - NOW % 3_600;
    *ledger.rows.lock() =
        vec![(hour - DAY, nano(20)), (hour - DAY + 3_600, nano(1)), (hour - 7_200, nano(9))];
    one.admit("first", &own).await.unwrap();
    assert_eq!(figures(&redis, &own[0]).await, (30, 0));
    ledger.is_away.store(true, Ordering::SeqCst);
    let mut over = other.reserve("over", &others, 0, nano(40)).await.unwrap();
    one.reserve("a", &own, 0, nano(30)).await.unwrap().settle("a", 0, nano(30));
    drain(&one).await;
    clock.set_both(hour + 3_600);
    assert!(other.reserve("b", &others, 0, nano(21)).await.is_err(), "20 have left");
    other.reserve("c", &others, 0, nano(20)).await.unwrap().settle("c", 0, nano(20));
    drain(&other).await;
    clock.set_both(hour + 7_200);
    over.settle("r", 0, nano(40));
    drain(&other).await;
    assert!(one.reserve("d", &own, 0, nano(2)).await.is_err());
    one.reserve("e", &own, 0, nano(1)).await.unwrap().settle("e", 0, nano(1));
    drain(&one).await;
    // Everything leaves but the last.
    clock.set_both(hour + 3_600 + DAY + 3_600);
    assert!(one.reserve("f", &own, 0, nano(100)).await.is_err());
    clock.set_both(hour + 30 * DAY);
    drop(one.reserve("g", &own, 0, nano(100)).await.unwrap());
    assert_eq!(ledger.questions.lock().len(), 1);
    drain(&one).await;
    // No step that has left remains in Redis.
    let fields = redis.command(&["HKEYS", "gw:{key:k}"]).await;
    assert!(!fields.iter().any(|field| field.starts_with("step:")), "{fields:?}");
}

/// A settlement that is delivered once more after a step counts once.
#[tokio::test]
async fn a_settlement_that_is_delivered_twice_counts_once_over_a_step() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = key(&limiter, budget(1_000, Period::parse("1d").unwrap()));
    let epoch = async || redis.command(&["HGET", "gw:{key:k}", "epoch"]).await.concat();
    std::mem::forget(limiter.reserve("r", &subjects, 0, nano(90)).await.unwrap());
    let first = epoch().await;
    clock.set_both(NOW - NOW % 3_600 + 3_601);
    limiter.admit("x", &subjects).await.unwrap();
    assert_eq!(epoch().await, first);
    for _ in 0..3 {
        let settlement = Settlement { reserved_nano: Some(90), cost_nano: 50, ..Settlement::default() };
        let work = MessageKind::Settle(Settlement { epochs: first.clone(), ..settlement });
        drop(SendOnDrop::new(&core, Message::new("r", subjects.to_vec(), work)));
        drain(&limiter).await;
        assert_eq!(figures(&redis, &subjects[0]).await, (50, 0));
    }
}

#[tokio::test]
async fn a_request_with_many_unknown_budgets_learns_all_of_them() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let rule = |n| limiter.subject(SubjectKind::Rule, &format!("rule {n}"), budget(100, Period::Total));
    let subjects: Vec<_> = (0..12).map(rule).collect();
    limiter.admit("r", &subjects).await.unwrap();
    assert_eq!(ledger.questions.lock().len(), 12);
}
