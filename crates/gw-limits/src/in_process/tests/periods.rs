//! The periods of budgets under a clock that jumps.

use super::*;
use crate::Clock;
use crate::doubles::ending;

#[tokio::test]
async fn p10_a_clock_that_goes_back_and_forth_grants_nothing_anew() {
    for period in ending() {
        let world = world();
        let key = world.key(budget(100_000_000, period));
        let (start, end) = period.around(NOW);
        let spend = async |cost: i128| {
            let mut reserved = world.limiter.reserve("r", &key, 0, cost).await?;
            reserved.settle("r", 0, cost);
            world.ledger.rows.lock().push((world.clock.unix_seconds(), cost));
            Ok::<_, Refusal>(())
        };
        for moment in [start, end - 1, start - 1, start, end, 2 * start - end, end - 1, end, start] {
            world.clock.set_calendar(moment);
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
async fn the_next_period_begins_without_a_question_to_the_ledger() {
    let world = world();
    let key = world.key(budget(100_000_000, Period::Day));
    for day in 0..5 {
        world.clock.set_calendar(NOW + day * DAY);
        world.limiter.reserve("r", &key, 0, 100_000_000).await.unwrap().settle("r", 0, 100_000_000);
    }
    assert_eq!(world.ledger.questions.lock().len(), 1);
}

#[tokio::test]
async fn a_cost_counts_in_the_period_in_which_the_request_began() {
    let world = world();
    let key = world.key(budget(100_000_000, Period::Day));
    let team = world.limiter.subject(SubjectKind::Team, "t", total(1_000));
    let both = [key[0].clone(), team.clone()];
    let midnight = Period::Day.around(NOW).1;
    world.clock.set_calendar(midnight - 1);
    let mut over = world.limiter.reserve("r", &both, 0, 70_000_000).await.unwrap();
    world.clock.set_calendar(midnight);
    // This request began before midnight too, and reserved after its long body had arrived.
    let mut late = world.limiter.reserve("r", &both, 0, 10_000_000).await.unwrap();
    late.set_begin(midnight - 1);
    let mut new = world.limiter.reserve("r", &both, 0, 10_000_000).await.unwrap();
    new.set_begin(midnight);
    assert_eq!([figures(&key[0]), figures(&team)], [(0, 90_000_000); 2], "everything is reserved");
    over.settle("r", 0, 70_000_000);
    late.settle("r", 0, 5_000_000);
    new.settle("r", 0, 3_000_000);
    assert_eq!([figures(&key[0]), figures(&team)], [(3_000_000, 0), (78_000_000, 0)]);
    let names = both.each_ref().map(|subject| (subject.kind(), subject.id()));
    world.limiter.charge("lost", &names, 20_000_000, midnight - 1);
    world.limiter.charge("lost too", &names, 20_000_000, midnight);
    assert_eq!([figures(&key[0]), figures(&team)], [(23_000_000, 0), (118_000_000, 0)]);
    world.limiter.reserve("r", &key, 0, 77_000_000).await.unwrap();
}

/// Spends in a window of two days, whose step is two hours. NOW is in the step that begins at 08:00.
#[tokio::test]
async fn a_rolling_budget_gets_spending_back_at_its_age_and_at_most_a_step_later() {
    let world = world();
    let period = Period::parse("2d").unwrap();
    let key = world.key(budget(100_000_000, period));
    let spend = async |at: i64, cost: i128| {
        world.clock.set_calendar(at);
        let mut reserved = world.limiter.reserve("r", &key, 0, cost).await?;
        reserved.set_begin(at);
        reserved.settle("r", 0, cost);
        world.ledger.rows.lock().push((at, cost));
        Ok::<_, Refusal>(())
    };
    let step = 2 * 3600;
    let begin = NOW - NOW % step;
    spend(begin, 60_000_000).await.unwrap();
    spend(begin + 3 * step, 40_000_000).await.unwrap();
    // Nothing leaves before its age, to the last second of the step.
    let why = spend(begin + 2 * DAY + step - 1, 1).await.unwrap_err();
    let resets_in = Some(Duration::from_secs(1));
    assert_eq!(why, Refusal::Budget { subject: SubjectKind::Key, period, resets_in, left_nano: 0 });
    world.clock.set_calendar(begin + 2 * DAY + step);
    // What is reserved stays reserved over a step.
    let mut open = world.limiter.reserve("r", &key, 0, 50_000_000).await.unwrap();
    spend(begin + 2 * DAY + 3 * step - 1, 10_000_001).await.unwrap_err();
    world.clock.set_calendar(begin + 2 * DAY + 4 * step);
    assert!(world.limiter.reserve("r", &key, 0, 50_000_001).await.is_err(), "50 are reserved");
    open.set_begin(begin + 2 * DAY + step);
    open.settle("r", 0, 50_000_000);
    assert_eq!(figures(&key[0]), (50_000_000, 0));
    spend(begin + 2 * DAY + 4 * step, 50_000_000).await.unwrap();
    assert_eq!(world.ledger.questions.lock().len(), 1, "steps need no question");
}

#[tokio::test]
async fn a_rolling_budget_moves_on_while_the_ledger_is_away() {
    let world = world();
    let key = world.key(budget(100_000_000, Period::parse("1d").unwrap()));
    let hour = NOW - NOW % 3_600;
    *world.ledger.rows.lock() =
        vec![(hour - DAY, 20_000_000), (hour - DAY + 3_600, 1_000_000), (hour - 7_200, 9_000_000)];
    world.limiter.admit("r", &key).await.unwrap();
    assert_eq!(figures(&key[0]), (30_000_000, 0));
    world.ledger.is_away.store(true, Ordering::SeqCst);
    let mut over = world.limiter.reserve("r", &key, 0, 40_000_000).await.unwrap();
    world.limiter.reserve("r", &key, 0, 30_000_000).await.unwrap().settle("r", 0, 30_000_000);
    world.clock.set_calendar(hour + 3_600);
    assert!(world.limiter.reserve("r", &key, 0, 20_000_001).await.is_err(), "20 have left");
    world.limiter.reserve("r", &key, 0, 20_000_000).await.unwrap().settle("r", 0, 20_000_000);
    world.clock.set_calendar(hour + 7_200);
    over.settle("r", 0, 40_000_000);
    assert!(world.limiter.reserve("r", &key, 0, 1_000_001).await.is_err());
    world.limiter.reserve("r", &key, 0, 1_000_000).await.unwrap().settle("r", 0, 1_000_000);
    // Everything leaves but the last.
    world.clock.set_calendar(hour + 3_600 + DAY + 3_600);
    assert!(world.limiter.reserve("r", &key, 0, 99_000_001).await.is_err());
    world.clock.set_calendar(hour + 40 * DAY);
    world.limiter.reserve("r", &key, 0, 100_000_000).await.unwrap();
    assert_eq!(world.ledger.questions.lock().len(), 1);
}

#[tokio::test]
async fn a_period_that_moves_on_while_the_ledger_answers_refuses_nothing() {
    for period in ending() {
        let world = world_of(waiting_ledger());
        let key = world.key(budget(100_000_000, period));
        let next = period.around(NOW).1;
        world.ledger.rows.lock().push((next - 1, 40_000_000));
        let questions = admitted_beside((&world, &key), |_| world.clock.set_calendar(next)).await;
        assert_eq!(questions, 1, "{period:?}");
        // The last step of a rolling period still counts.
        let spent = if period.step().is_some() { 40_000_000 } else { 0 };
        assert_eq!(figures(&key[0]), (spent, 0), "{period:?}");
    }
}

#[tokio::test]
async fn a_settlement_in_the_new_period_has_the_ledger_asked_again() {
    for period in ending() {
        let world = world_of(waiting_ledger());
        let key = world.key(budget(100_000_000, period));
        let next = period.around(NOW).1;
        admitted_beside((&world, &key), |_| {}).await;
        let mut under_way = world.limiter.reserve("r", &key, 0, 30_000_000).await.unwrap();
        under_way.set_begin(next);
        key[0].state().budget.forget_spending();
        let row = (next, 20_000_000);
        let settle = |question| {
            if question == 1 {
                world.clock.set_calendar(next);
                under_way.settle("r", 0, row.1);
                world.ledger.rows.lock().push(row);
                world.ledger.counted.lock().push("r".to_owned());
            }
        };
        assert_eq!(admitted_beside((&world, &key), settle).await, 2, "{period:?}");
        assert_eq!(figures(&key[0]), (20_000_000, 0), "{period:?}");
    }
}

/// Requests of the former configuration still reserve under the former period.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_period_refuses_nothing_while_requests_of_the_former_one_run() {
    let world = Arc::new(world());
    world.ledger.rows.lock().push((NOW, 40_000_000));
    let keys = [Period::Day, Period::Total].map(|period| world.key(budget(100_000_000_000, period)));
    let running: Vec<_> = (0..12)
        .map(|n| {
            let (world, keys) = (Arc::clone(&world), keys.clone());
            tokio::spawn(async move {
                for _ in 0..200 {
                    let key = &keys[n % 2];
                    world.limiter.admit("r", key).await.map(drop).map_err(|refused| refused.refusal)?;
                    world.limiter.reserve("r", key, 0, 1_000_000).await?;
                    tokio::task::yield_now().await;
                }
                Ok::<_, Refusal>(())
            })
        })
        .collect();
    for request in running {
        request.await.unwrap().unwrap();
    }
    // The ledger tells the spending of each period once.
    assert_eq!(world.ledger.questions.lock().len(), 2);
}
