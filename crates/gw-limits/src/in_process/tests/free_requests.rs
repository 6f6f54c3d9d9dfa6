//! Requests that cost nothing: they read what is paid already.

use super::*;

#[tokio::test]
async fn a_free_request_counts_in_every_limit_but_the_budget() {
    let world = world();
    let limits = Limits { rpm: Some(4), max_in_flight: Some(1), ..total(100) };
    let key = world.key(limits);
    let (spent, _) = world.limiter.reserve_up_to("r", &key, 0, 100_000_000, 100_000_000).await.unwrap();
    assert!(matches!(world.limiter.admit("a", &key).await.unwrap_err().refusal, Refusal::Budget { .. }));
    let held = world.limiter.admit_free("b", &key).await.unwrap();
    let refused = world.limiter.admit_free("c", &key).await.unwrap_err().refusal;
    assert!(matches!(refused, Refusal::InFlight { limit: 1, .. }), "{refused:?}");
    drop(held);
    world.limiter.admit_free("d", &key).await.unwrap();
    let refused = world.limiter.admit_free("e", &key).await.unwrap_err().refusal;
    assert!(matches!(refused, Refusal::Requests { limit: 4, .. }), "{refused:?}");
    drop(spent);
}

#[tokio::test]
async fn a_free_request_needs_no_ledger() {
    let world = world_of(TestLedger { is_away: true.into(), ..TestLedger::default() });
    let key = world.key(Limits { max_in_flight: Some(1), ..total(100) });
    let held = world.limiter.admit_free("a", &key).await.unwrap();
    assert!(world.limiter.admit_free("b", &key).await.is_err());
    drop(held);
    world.limiter.admit_free("c", &key).await.unwrap();
}

#[tokio::test]
async fn the_least_left_is_that_of_all_budgets_or_unknown() {
    let world = world();
    let subject = |id: &str, limits| world.limiter.subject(SubjectKind::Key, id, limits);
    let rates = subject("rates", Limits { rpm: Some(4), ..Limits::default() });
    let all = [rates, subject("wide", total(100)), subject("narrow", total(60))];
    assert_eq!(world.limiter.least_left_here(&all[..1]), Some(None), "no budget");
    world.limiter.inspect(&all[..2]).await.unwrap();
    assert_eq!(world.limiter.least_left_here(&all[..2]), Some(Some(100_000_000)));
    assert_eq!(world.limiter.least_left_here(&all), None, "the ledger has to be asked about the narrow one");
    world.ledger.is_away.store(true, Ordering::SeqCst);
    assert_eq!(world.limiter.least_left(&all).await, None);
    world.ledger.is_away.store(false, Ordering::SeqCst);
    assert_eq!(world.limiter.least_left(&all).await, Some(60_000_000));
    assert_eq!(world.limiter.least_left_here(&all), Some(Some(60_000_000)));
}
