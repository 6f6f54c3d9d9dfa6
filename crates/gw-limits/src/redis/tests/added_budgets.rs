//! Budgets over Redis that are removed, added again, or added while requests are in flight. No cost is forgotten.

use super::*;
use crate::Refusal;
use crate::doubles::NOW;

#[tokio::test]
async fn a_budget_that_was_removed_and_added_asks_the_ledger_once_for_each_replica() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    // Under a clock that stands, a call that is late asks no further question.
    let (one, _one) = replica_at(settings(&redis), &clock, &ledger).await;
    let (two, _two) = replica_at(settings(&redis), &clock, &ledger).await;
    let total = budget(100, Period::Total);
    let subjects = [key(&one, total), key(&two, total)];
    one.admit("a", &subjects[0]).await.unwrap();
    one.reserve("a", &subjects[0], 0, nano(10)).await.unwrap().settle("a", 0, nano(10));
    let mut over = two.reserve("b", &subjects[1], 0, nano(20)).await.unwrap();
    drain(&one).await;
    for (n, limiter) in [&one, &two, &one, &two, &one].into_iter().enumerate() {
        let free = key(limiter, Limits::default());
        limiter.reserve(&format!("c{n}"), &free, 0, nano(10)).await.unwrap().settle(
            &format!("c{n}"),
            0,
            nano(10),
        );
    }
    *ledger.spent.lock() = nano(60);
    let again = [key(&one, total), key(&two, total)];
    assert!(one.reserve("d", &again[0], 0, nano(21)).await.is_err(), "60 are spent, 20 are reserved");
    assert_eq!(figures(&redis, &again[0][0]).await, (60, 20));
    // The ledger of the other replica knows less. The counted spending stays.
    one.reserve("e", &again[0], 0, nano(5)).await.unwrap().settle("e", 0, nano(5));
    drain(&one).await;
    two.admit("f", &again[1]).await.unwrap();
    assert_eq!(figures(&redis, &again[1][0]).await, (65, 20));
    over.settle("r", 0, nano(40));
    drain(&two).await;
    for (limiter, subjects) in [(&one, &again[0]), (&two, &again[1])] {
        let same = key(limiter, total);
        assert!(Arc::ptr_eq(same[0].state(), subjects[0].state()));
        let why = limiter.admit("g", &same).await.unwrap_err().refusal;
        assert_eq!(
            why,
            Refusal::Budget {
                subject: SubjectKind::Key,
                period: Period::Total,
                resets_in: None,
                left_nano: 0
            }
        );
    }
    assert_eq!(figures(&redis, &again[0][0]).await, (105, 0));
    assert_eq!(ledger.questions.lock().len(), 3);
}

#[tokio::test]
async fn a_request_that_began_without_a_budget_counts_in_a_budget_added_meanwhile() {
    let redis = Redis::start().await;
    for before in [Limits::default(), Limits { tpm: Some(1_000), ..Limits::default() }] {
        redis.flush().await;
        let limiter = replica(settings(&redis), &ledger()).await;
        let free =
            [key(&limiter, before)[0].clone(), limiter.subject(SubjectKind::Team, "t", Limits::default())];
        let mut under_way = Vec::new();
        for n in 0..10 {
            limiter.admit(&format!("a{n}"), &free).await.unwrap();
            under_way.push(limiter.reserve(&format!("a{n}"), &free, 1, nano(10)).await.unwrap());
        }
        let total = budget(300, Period::Total);
        let given = [
            key(&limiter, total)[0].clone(),
            limiter.subject(SubjectKind::Team, "t", budget(100, Period::Day)),
        ];
        limiter.admit("b", &given).await.unwrap();
        for mut reserved in under_way {
            reserved.settle("r", 1, nano(10));
        }
        drain(&limiter).await;
        for subject in &given {
            assert_eq!(figures(&redis, subject).await, (100, 0), "{before:?}");
        }
        let why = limiter.admit("c", &given).await.unwrap_err().refusal;
        assert!(matches!(why, Refusal::Budget { subject: SubjectKind::Team, .. }), "{why:?}");
    }
}

/// The costs that other replicas have counted, and whose rows are not in the ledger yet, stay counted.
#[tokio::test]
async fn a_changed_period_keeps_what_the_ledger_does_not_know_yet() {
    for period in ["total", "month", "30d", "1d"].map(|name| Period::parse(name).unwrap()) {
        let redis = Redis::start().await;
        let (clock, ledger) = (clock(), ledger());
        let (one, _one) = replica_at(settings(&redis), &clock, &ledger).await;
        let (two, _two) = replica_at(settings(&redis), &clock, &ledger).await;
        *ledger.rows.lock() = vec![(NOW - 600, nano(2)), (NOW - 40 * 86_400, nano(1))];
        let daily = key(&one, budget(100, Period::Day));
        one.admit("a", &daily).await.unwrap();
        let mut late = one.reserve("late", &daily, 0, nano(5)).await.unwrap();
        for (id, cost) in [("b", 10), ("c", 60)] {
            one.reserve(id, &daily, 0, nano(cost)).await.unwrap().settle(id, 0, nano(cost));
        }
        drain(&one).await;
        // The row of one request is written. The settlement of another one comes after its row.
        ledger.rows.lock().extend([(NOW, nano(10)), (NOW, nano(5))]);
        ledger.counted.lock().push("late".to_owned());
        ledger.costs.lock().insert("late".to_owned(), (nano(5), NOW));
        let changed = [key(&one, budget(100, period)), key(&two, budget(100, period))];
        let before = if period == Period::Total { 1 } else { 0 };
        assert!(two.reserve("d", &changed[1], 0, nano(24 - before)).await.is_err(), "{period:?}");
        assert_eq!(figures(&redis, &changed[1][0]).await, (77 + before, 0), "{period:?}");
        late.settle("r", 0, nano(5));
        drain(&one).await;
        two.reserve("e", &changed[1], 0, nano(23 - before)).await.unwrap().settle("e", 0, nano(23 - before));
        drain(&two).await;
        assert!(one.admit("f", &changed[0]).await.is_err(), "{period:?}");
    }
}

/// Requests that began before the change still hold the former limits.
#[tokio::test]
async fn requests_of_the_former_period_leave_the_spending_of_the_new_one_known() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let former = key(&limiter, budget(100, Period::Day));
    limiter.admit("before", &former).await.unwrap();
    let changed = key(&limiter, budget(100, Period::Month));
    for _ in 0..10 {
        for subjects in [&changed, &former] {
            limiter.admit("r", subjects).await.unwrap();
        }
    }
    assert_eq!(ledger.questions.lock().len(), 2, "one for each period");
}

/// What a month has spent is more than the former budget of a day.
#[tokio::test]
async fn requests_of_the_former_period_have_the_amount_of_the_new_one() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let former = key(&limiter, budget(10, Period::Day));
    limiter.admit("before", &former).await.unwrap();
    let changed = key(&limiter, budget(1_000, Period::Month));
    limiter.reserve("after", &changed, 0, nano(500)).await.unwrap().settle("after", 0, nano(500));
    drain(&limiter).await;
    let more = limiter.reserve("before+1", &former, 0, nano(5)).await.unwrap();
    assert_eq!(figures(&redis, &changed[0]).await, (500, 5));
    let why = limiter.reserve("before+2", &former, 0, nano(496)).await.unwrap_err();
    assert!(matches!(why, Refusal::Budget { period: Period::Month, left_nano: 495, .. }), "{why:?}");
    assert_eq!(limiter.least_left(&former).await, Some(nano(495)));
    drop(more);
}

/// A request looks up the counters of the rules of its target while it is under way.
#[tokio::test]
async fn a_counter_that_a_request_of_a_former_configuration_looks_up_keeps_the_newer_period() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let counter =
        |period, configuration| [limiter.rule_counter("counter", budget(100, period), configuration)];
    limiter.admit("before", &counter(Period::Day, 1)).await.unwrap();
    limiter.admit("after", &counter(Period::Month, 2)).await.unwrap();
    for _ in 0..10 {
        for (period, configuration) in [(Period::Day, 1), (Period::Month, 2)] {
            limiter.admit("r", &counter(period, configuration)).await.unwrap();
        }
    }
    assert_eq!(ledger.questions.lock().len(), 2, "one for each period");
}

/// Redis has the spending of the time before the first restart. The second process served the key without a budget.
#[tokio::test]
async fn a_budget_that_comes_back_with_a_restart_asks_the_ledger() {
    for limits in [Limits::default(), Limits { rpm: Some(60), ..Limits::default() }] {
        let redis = Redis::start().await;
        let (clock, ledger) = (clock(), ledger());
        let total = Limits { budget: budget(1_000, Period::Total).budget, ..limits };
        let spend = async |limiter: &Limiter, limits, id: &str, cost| {
            let subjects = key(limiter, limits);
            limiter.admit(id, &subjects).await.unwrap();
            limiter.reserve(id, &subjects, 0, nano(cost)).await.unwrap().settle(id, 0, nano(cost));
            drain(limiter).await;
            ledger.rows.lock().push((clock.unix_seconds(), nano(cost)));
        };
        let (first, _first) = replica_at(settings(&redis), &clock, &ledger).await;
        spend(&first, total, "a", 5).await;
        clock.advance(Duration::from_secs(60));
        let (second, _second) = replica_at(settings(&redis), &clock, &ledger).await;
        spend(&second, limits, "b", 900).await;
        clock.advance(Duration::from_secs(60));
        let (third, _third) = replica_at(settings(&redis), &clock, &ledger).await;
        let subjects = key(&third, total);
        assert!(third.reserve("c", &subjects, 0, nano(96)).await.is_err(), "{limits:?}");
        drop(third.reserve("d", &subjects, 0, nano(95)).await.unwrap());
        assert_eq!(ledger.questions.lock().len(), 2, "once for each process");
    }
}
