//! Redis loses its memory under several replicas: what each holds is counted again before anything is granted.

use super::*;
use crate::Refusal;
use crate::shared::core::ALIVE;

/// Until this replica has heard of all the others.
async fn met(core: &Core, count: u32) {
    while core.share() != count {
        core.beat(&core.line.link().unwrap()).await;
    }
}

#[tokio::test]
async fn s16_what_every_replica_holds_is_known_again_before_anything_is_granted() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (one, first) = replica_at(settings(&redis), &clock, &ledger).await;
    let (two, second) = replica_at(settings(&redis), &clock, &ledger).await;
    met(&first, 2).await;
    met(&second, 2).await;
    let limits = Limits { max_in_flight: Some(3), ..budget(1_000, Period::Month) };
    let subjects = [key(&one, limits), key(&two, limits)];
    let _places = (one.enter("a", &subjects[0]).await.unwrap(), two.enter("b", &subjects[1]).await.unwrap());
    let mut mine = one.reserve("a", &subjects[0], 1, nano(300)).await.unwrap();
    let mut theirs = two.reserve("b", &subjects[1], 1, nano(400)).await.unwrap();
    // Over at the other replica, and in no ledger yet.
    two.reserve("c", &subjects[1], 1, nano(100)).await.unwrap().settle(1, nano(100));
    drained(&two).await;
    for round in 0..10 {
        redis.flush().await;
        // The first one asks; the second hears of it at its next sign of life.
        let id = format!("r{round}");
        let why = one.reserve(&id, &subjects[0], 1, nano(201)).await.unwrap_err();
        assert!(matches!(why, Refusal::Budget { .. }), "{round}: {why:?}");
        assert_eq!(figures(&redis, &subjects[0][0]).await, (100, 700), "{round}");
        drop(one.reserve(&id, &subjects[0], 1, nano(200)).await.unwrap());
        drained(&one).await;
    }
    assert_eq!(redis.command(&["ZCARD", "gw:{key:k}:flying"]).await, ["2"]);
    mine.settle(1, nano(10));
    theirs.settle(1, nano(20));
    drained(&one).await;
    drained(&two).await;
    assert_eq!(figures(&redis, &subjects[0][0]).await, (130, 0));
    assert_eq!(leases(&redis, &subjects[0][0]).await, 0);
}

#[tokio::test]
async fn s16_a_replica_is_waited_for_however_often_redis_forgets_it() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (one, first) = replica_at(settings(&redis), &clock, &ledger).await;
    let (two, second) = replica_at(settings(&redis), &clock, &ledger).await;
    met(&first, 2).await;
    met(&second, 2).await;
    let subjects = [key(&one, budget(1_000, Period::Month)), key(&two, budget(1_000, Period::Month))];
    let _theirs = two.reserve("b", &subjects[1], 1, nano(900)).await.unwrap();
    for round in 0..5 {
        // Redis named the other one last so long ago.
        let ago = std::time::Instant::now().checked_sub(ALIVE * 2).unwrap();
        first.peers.lock().as_mut().unwrap().values_mut().for_each(|heard| *heard = ago);
        redis.flush().await;
        let why = one.reserve(&format!("r{round}"), &subjects[0], 1, nano(200)).await.unwrap_err();
        assert!(matches!(why, Refusal::Budget { .. }), "{round}: {why:?}");
    }
}

#[tokio::test]
async fn s16_a_replica_that_is_never_heard_of_again_is_waited_for_no_longer_than_five_seconds() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (one, first) = replica_at(settings(&redis), &clock, &ledger).await;
    let (two, _second) = replica_at(settings(&redis), &clock, &ledger).await;
    met(&first, 2).await;
    let subjects = key(&one, budget(1_000, Period::Month));
    drop(two);
    redis.flush().await;
    assert_eq!(one.enter("a", &subjects).await.unwrap_err().refusal, Refusal::StoreAway);
    let free = [one.subject(Whose::Key, "free", Limits { rpm: Some(10), ..Limits::default() })];
    one.enter("b", &free).await.unwrap();
    clock.pass(Duration::from_secs(5));
    one.enter("c", &subjects).await.unwrap();
}

#[tokio::test]
async fn s16_a_redis_that_comes_back_with_an_old_memory_is_not_believed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_string_lossy().into_owned();
    let mut redis = Redis::start_with(&["--dir", &path]).await;
    let ledger = ledger();
    let limiter = replica(settings(&redis), &ledger).await;
    let subjects = key(&limiter, budget(1_000, Period::Month));
    let mut old = limiter.reserve("old", &subjects, 1, nano(700)).await.unwrap();
    redis.command(&["SAVE"]).await;
    old.settle(1, nano(600));
    let _held = limiter.reserve("held", &subjects, 1, nano(250)).await.unwrap();
    drained(&limiter).await;
    *ledger.spent.lock() = nano(600);
    *ledger.counted.lock() = vec!["old".to_owned()];
    redis.restart().await;
    assert_eq!(redis.command(&["EXISTS", "gw:{key:k}"]).await, ["1"], "the file was read");
    gw_testkit::eventually("a new generation", || (limiter.held().1 == 1).then_some(())).await;
    gw_testkit::eventually("Redis is used again", || (!limiter.is_away()).then_some(())).await;
    assert!(limiter.reserve("x", &subjects, 1, nano(151)).await.is_err());
    limiter.reserve("y", &subjects, 1, nano(150)).await.unwrap();
    assert_eq!(figures(&redis, &subjects[0]).await.0, 600);
}

#[tokio::test]
async fn a_settlement_that_the_ledger_already_counts_is_not_counted_again() {
    let redis = Redis::start().await;
    let ledger = ledger();
    let limiter = replica(settings(&redis), &ledger).await;
    let subjects = key(&limiter, budget(1_000, Period::Month));
    let mut late = limiter.reserve("late", &subjects, 1, nano(300)).await.unwrap();
    let mut later = limiter.reserve("later", &subjects, 1, nano(300)).await.unwrap();
    redis.flush().await;
    // Its row was faster than what Redis is told of it.
    *ledger.spent.lock() = nano(200);
    ledger.counted.lock().push("late".to_owned());
    limiter.enter("x", &subjects).await.unwrap();
    assert_eq!(figures(&redis, &subjects[0]).await, (200, 300));
    late.settle(1, nano(200));
    later.settle(1, nano(100));
    drained(&limiter).await;
    assert_eq!(figures(&redis, &subjects[0]).await, (300, 0));
    // A row that is written is held no longer.
    limiter.written(&mut ["late", "later"].into_iter());
    assert_eq!(limiter.held().0, 0);
}

#[tokio::test]
async fn what_is_settled_while_the_budget_is_unknown_counts_once_whether_the_ledger_has_it_or_not() {
    let redis = Redis::start().await;
    let held = Some(tokio::sync::Semaphore::new(1));
    let ledger = Arc::new(Ledger { held, ..Ledger::default() });
    let limiter = replica(settings(&redis), &ledger).await;
    let subjects = key(&limiter, budget(1_000, Period::Month));
    let mut reserved = Vec::new();
    for id in ["in", "out"] {
        reserved.push(limiter.reserve(id, &subjects, 1, nano(300)).await.unwrap());
    }
    redis.flush().await;
    let asking = tokio::spawn({
        let (limiter, subjects) = (limiter.clone(), subjects.clone());
        async move { limiter.reserve("x", &subjects, 1, nano(701)).await.is_err() }
    });
    gw_testkit::eventually("the ledger is asked", || (ledger.asked.lock().len() == 2).then_some(())).await;
    for mut reserved in reserved {
        reserved.settle(1, nano(150));
    }
    drained(&limiter).await;
    *ledger.spent.lock() = nano(150);
    ledger.counted.lock().push("in".to_owned());
    ledger.held.as_ref().unwrap().add_permits(9);
    assert!(asking.await.unwrap());
    assert_eq!(figures(&redis, &subjects[0]).await, (300, 0));
}

#[tokio::test]
async fn a_place_that_was_taken_while_redis_was_away_is_told_when_it_is_back() {
    let mut redis = Redis::start().await;
    let ledger = ledger();
    let limiter = replica(settings(&redis), &ledger).await;
    let subjects = key(&limiter, Limits { max_in_flight: Some(2), ..Limits::default() });
    let first = limiter.enter("first", &subjects).await.unwrap();
    redis.kill();
    gw_testkit::eventually("away", || limiter.is_away().then_some(())).await;
    let _second = limiter.enter("second", &subjects).await.unwrap();
    let gone = limiter.undelivered();
    // Nobody ever heard of one that comes and goes meanwhile.
    assert!(limiter.enter("third", &subjects).await.is_err());
    assert_eq!(limiter.undelivered(), gone);
    redis.restart().await;
    gw_testkit::eventually("Redis is used again", || (!limiter.is_away()).then_some(())).await;
    assert!(limiter.enter("fourth", &subjects).await.is_err());
    drop(first);
    drained(&limiter).await;
    assert_eq!(redis.command(&["ZRANGE", "gw:{key:k}:flying", "0", "-1"]).await, ["second"]);
    limiter.enter("fifth", &subjects).await.unwrap();
}
