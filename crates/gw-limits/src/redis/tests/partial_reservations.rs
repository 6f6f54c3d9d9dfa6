//! Reservations over Redis that accept less money than they ask for.

use super::*;
use crate::Refusal;

#[tokio::test]
async fn a_lease_and_its_settlement_have_the_granted_amount() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = [
        key(&limiter, budget(100, Period::Month))[0].clone(),
        limiter.subject(SubjectKind::Team, "t", budget(40, Period::Day)),
    ];
    let up_to =
        async |id: &str, most, least| limiter.reserve_up_to(id, &subjects, 0, nano(most), nano(least)).await;
    let (mut one, granted) = up_to("req_1+1", 25, 5).await.unwrap();
    assert_eq!(granted, nano(25));
    let (mut two, granted) = up_to("req_1+2", 25, 5).await.unwrap();
    assert_eq!(granted, nano(15));
    let why = up_to("req_1+3", 25, 1).await.unwrap_err();
    assert!(matches!(why, Refusal::Budget { subject: SubjectKind::Team, .. }), "{why:?}");
    for subject in &subjects {
        assert_eq!((figures(&redis, subject).await, leases(&redis, subject).await), ((0, 40), 2));
    }
    two.settle("r", 0, nano(12));
    drain(&limiter).await;
    for subject in &subjects {
        assert_eq!((figures(&redis, subject).await, leases(&redis, subject).await), ((12, 25), 1));
    }
    // Redis rounds the amount up to whole nano-USD. The request gets what it asked for.
    let (three, granted) = limiter.reserve_up_to("req_1+4", &subjects, 0, nano(3) - 1, 1).await.unwrap();
    assert_eq!(granted, nano(3) - 1);
    one.settle("r", 0, 0);
    drop(three);
    drain(&limiter).await;
    for subject in &subjects {
        assert_eq!((figures(&redis, subject).await, leases(&redis, subject).await), ((12, 0), 0));
    }
}

#[tokio::test]
async fn a_request_that_is_cancelled_before_the_grant_arrives_holds_nothing() {
    let redis = Redis::start().await;
    let limiter = replica(settings(&redis), &ledger()).await;
    let subjects = key(&limiter, budget(100, Period::Month));
    limiter.admit("first", &subjects).await.unwrap();
    for n in 0..50 {
        let id = format!("req_{n}");
        // Polled once: the request is sent, and its answer is not awaited.
        tokio::select! {
            biased;
            reserved = limiter.reserve_up_to(&id, &subjects, 0, nano(30), 1) => drop(reserved),
            () = tokio::task::yield_now() => {}
        }
    }
    drain(&limiter).await;
    assert_eq!((figures(&redis, &subjects[0]).await, leases(&redis, &subjects[0]).await), ((0, 0), 0));
}
