//! The use of limits as the holder of a key sees it.

use std::sync::atomic::Ordering;

use super::*;
use crate::BudgetUse;

#[tokio::test]
async fn a_budget_that_no_request_has_used_yet_is_known_from_the_ledger() {
    let redis = Redis::start().await;
    let ledger = ledger();
    *ledger.spent.lock() = nano(60);
    let limiter = replica(settings(&redis), &ledger).await;
    let subjects = [
        key(&limiter, budget(100, Period::Total))[0].clone(),
        limiter.subject(SubjectKind::Team, "t", budget(500, Period::Day)),
    ];
    let known = Some(BudgetUse { spent_femtos: nano(60), reserved_femtos: 0 });
    for _ in 0..2 {
        let uses = limiter.inspect(&subjects).await.expect("Redis answers");
        assert_eq!(uses.iter().map(|used| used.budget).collect::<Vec<_>>(), [known, known]);
    }
    assert_eq!(ledger.questions.lock().len(), 2, "the ledger is asked once for each subject");
    // The first request goes on from there.
    limiter.admit("a", &subjects).await.unwrap();
    limiter.reserve("a", &subjects, 0, nano(10)).await.unwrap().settle("a", 0, nano(10));
    drain(&limiter).await;
    let uses = limiter.inspect(&subjects).await.expect("Redis answers");
    assert_eq!(uses[0].budget.map(|used| used.spent_femtos), Some(nano(70)));
}

#[tokio::test]
async fn without_the_ledger_the_spending_is_shown_as_unknown() {
    let redis = Redis::start().await;
    let ledger = ledger();
    ledger.is_away.store(true, Ordering::SeqCst);
    let limiter = replica(settings(&redis), &ledger).await;
    let uses = limiter.inspect(&key(&limiter, budget(100, Period::Total))).await.expect("Redis answers");
    assert_eq!(uses[0].budget, None);
}

#[tokio::test]
async fn the_spending_of_many_subjects_is_asked_in_one_look() {
    let redis = Redis::start().await;
    let ledger = ledger();
    *ledger.spent.lock() = nano(60);
    let limiter = replica(settings(&redis), &ledger).await;
    let subjects: Vec<_> = (0..9)
        .map(|n| limiter.subject(SubjectKind::Key, &format!("k{n}"), budget(100, Period::Total)))
        .collect();
    let uses = limiter.inspect(&subjects).await.expect("Redis answers");
    assert!(uses.iter().all(|used| used.budget.is_some()), "{uses:?}");
}
