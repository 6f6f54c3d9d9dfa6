//! Budgets that are removed, added again, or added while requests are in flight. No cost is forgotten.

use super::*;
use crate::budget::MAX_ENDED_MEANWHILE;
use crate::spending_ledger::MAX_QUESTIONS;

#[tokio::test]
async fn a_budget_that_was_removed_and_added_asks_the_ledger_again() {
    let world = world();
    let reserve = async |key: &[Arc<Subject>; 1], cost| world.limiter.reserve("r", key, 0, cost).await;
    let key = world.key(total(100));
    world.limiter.admit("r", &key).await.unwrap();
    reserve(&key, 10_000_000).await.unwrap().settle("r", 0, 10_000_000);
    // This request outlasts all changes.
    let mut over = reserve(&key, 20_000_000).await.unwrap();
    let free = world.key(Limits::default());
    for _ in 0..5 {
        reserve(&free, 10_000_000).await.unwrap().settle("r", 0, 10_000_000);
    }
    *world.ledger.spent.lock() = 60_000_000;
    let again = world.key(total(100));
    assert!(reserve(&again, 20_000_001).await.is_err(), "60 are spent, 20 are reserved");
    assert_eq!(figures(&again[0]), (60_000_000, 20_000_000));
    over.settle("r", 0, 40_000_000);
    let why = world.limiter.admit("r", &again).await.unwrap_err().refusal;
    assert_eq!(
        why,
        Refusal::Budget { subject: SubjectKind::Key, period: Period::Total, resets_in: None, left_nano: 0 }
    );
    // A change of another key sets these limits once more, unchanged. The ledger is not asked.
    let same = world.key(total(100));
    assert!(world.limiter.admit("r", &same).await.is_err());
    assert_eq!(world.ledger.questions.lock().len(), 2);
}

#[tokio::test]
async fn a_request_that_began_without_a_budget_counts_in_a_budget_added_meanwhile() {
    for before in [Limits::default(), Limits { tpm: Some(1_000), ..Limits::default() }] {
        let world = world();
        let free = [world.key(before)[0].clone(), world.limiter.subject(SubjectKind::Team, "t", before)];
        let mut under_way = Vec::new();
        for _ in 0..10 {
            world.limiter.admit("r", &free).await.unwrap();
            under_way.push(world.limiter.reserve("r", &free, 1, 10_000_000).await.unwrap());
        }
        let given =
            [world.key(total(100))[0].clone(), world.limiter.subject(SubjectKind::Team, "t", total(100))];
        world.limiter.admit("r", &given).await.unwrap();
        for (count, mut reserved) in (1..).zip(under_way) {
            reserved.settle("r", 1, 10_000_000);
            assert_eq!(given.each_ref().map(|subject| figures(subject)), [(count * 10_000_000, 0); 2]);
        }
        let why = world.limiter.admit("r", &given).await.unwrap_err().refusal;
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
}

#[tokio::test]
async fn a_request_that_ends_before_the_ledger_is_asked_counts_once() {
    let world = world();
    let free = world.key(Limits::default());
    let mut under_way = world.limiter.reserve("r", &free, 0, 30_000_000).await.unwrap();
    let key = world.key(total(100));
    under_way.settle("r", 0, 30_000_000);
    *world.ledger.spent.lock() = 30_000_000;
    world.limiter.admit("r", &key).await.unwrap();
    assert_eq!(figures(&key[0]), (30_000_000, 0), "not counted twice");
}

#[tokio::test]
async fn a_settlement_does_not_change_the_kind_of_the_period() {
    let world = world();
    let daily = world.key(budget(100_000_000, Period::Day));
    let mut over = world.limiter.reserve("r", &daily, 0, 30_000_000).await.unwrap();
    *world.ledger.spent.lock() = 40_000_000;
    let monthly = world.key(budget(100_000_000, Period::Month));
    world.limiter.admit("r", &monthly).await.unwrap();
    assert_eq!(figures(&monthly[0]), (40_000_000, 30_000_000));
    over.settle("r", 0, 25_000_000);
    assert_eq!(figures(&monthly[0]), (65_000_000, 0));
    assert!(world.limiter.reserve("r", &monthly, 0, 35_000_001).await.is_err());
    assert_eq!(world.ledger.questions.lock().len(), 2);
}

#[tokio::test]
async fn a_request_that_ends_while_the_ledger_is_asked_counts_once() {
    for is_in_the_answer in [true, false] {
        let world = world_of(waiting_ledger());
        let free = world.key(Limits::default());
        let mut under_way = world.limiter.reserve("r", &free, 0, 30_000_000).await.unwrap();
        let key = world.key(total(100));
        *world.ledger.spent.lock() = 40_000_000;
        let questions = admitted_beside((&world, &key), |question| {
            if question == 1 {
                under_way.settle("r", 0, 30_000_000);
                if is_in_the_answer {
                    *world.ledger.spent.lock() = 70_000_000;
                    world.ledger.counted.lock().push("r".to_owned());
                }
            }
        });
        assert_eq!(questions.await, 2, "the second question is about the request");
        assert_eq!(figures(&key[0]), (70_000_000, 0), "in the answer: {is_in_the_answer}");
    }
}

#[tokio::test]
async fn a_charge_while_the_ledger_is_asked_counts_once() {
    let world = world_of(waiting_ledger());
    let key = world.key(total(100));
    let charge = |id| world.limiter.charge(id, &[(SubjectKind::Key, "k")], 30_000_000, NOW);
    // The ledger has the row of this one before it is asked.
    charge("before");
    *world.ledger.spent.lock() = 30_000_000;
    let questions = admitted_beside((&world, &key), |question| {
        if question == 1 {
            charge("meanwhile");
        }
    });
    assert_eq!(questions.await, 2);
    assert_eq!(figures(&key[0]), (60_000_000, 0));
}

#[tokio::test]
async fn requests_that_end_during_each_question_count_at_last() {
    let world = world_of(waiting_ledger());
    let key = world.key(total(100));
    let questions = admitted_beside((&world, &key), |question| {
        let id = format!("r{question}");
        world.limiter.charge(&id, &[(SubjectKind::Key, "k")], 10_000_000, NOW);
        *world.ledger.spent.lock() += 10_000_000;
        world.ledger.counted.lock().push(id);
    });
    assert_eq!(questions.await, MAX_QUESTIONS);
    // The last answer may lack the last request, so the request counts beside the answer.
    assert_eq!(figures(&key[0]), (50_000_000, 0));
}

#[tokio::test]
async fn more_requests_than_are_kept_have_the_ledger_asked_anew() {
    let world = world_of(waiting_ledger());
    let key = world.key(total(100_000));
    let questions = admitted_beside((&world, &key), |question| {
        if question == 1 {
            for n in 0..=MAX_ENDED_MEANWHILE {
                world.limiter.charge(&n.to_string(), &[(SubjectKind::Key, "k")], 1_000_000, NOW);
            }
            *world.ledger.spent.lock() = 1_000_000 * (MAX_ENDED_MEANWHILE as i128 + 1);
        }
    });
    assert_eq!(questions.await, 2);
    assert_eq!(figures(&key[0]), (1_000_000 * (MAX_ENDED_MEANWHILE as i128 + 1), 0));
}
