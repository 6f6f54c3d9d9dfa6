//! Redis loses its memory while several replicas use it. Everything that they hold counts again before anything is
//! granted.

use gw_redis::{Address, Connection, ReceiveBudget};

use super::*;
use crate::Refusal;
use crate::redis::replica::REPLICA_TTL;

/// Waits until this replica knows of all others.
async fn wait_until_met(core: &Replica, count: u32) {
    while core.replica_count() != count {
        core.send_heartbeat(&core.supervisor.connection().unwrap()).await.unwrap();
    }
}

/// Two replicas that know each other.
async fn two_replicas(
    redis: &Redis,
    clock: &Arc<TestClock>,
    ledger: &Arc<TestLedger>,
) -> [(Limiter, Arc<Replica>); 2] {
    let first = replica_at(settings(redis), clock, ledger).await;
    let second = replica_at(settings(redis), clock, ledger).await;
    wait_until_met(&first.1, 2).await;
    wait_until_met(&second.1, 2).await;
    [first, second]
}

#[tokio::test]
async fn s16_what_every_replica_holds_is_known_again_before_anything_is_granted() {
    let redis = Redis::start().await;
    let [(one, _first), (two, _second)] = two_replicas(&redis, &clock(), &ledger()).await;
    let limits = Limits { max_in_flight: Some(3), ..budget(1_000, Period::Month) };
    let subjects = [key(&one, limits), key(&two, limits)];
    let _places = (one.admit("a", &subjects[0]).await.unwrap(), two.admit("b", &subjects[1]).await.unwrap());
    let mut mine = one.reserve("a", &subjects[0], 1, nano(300)).await.unwrap();
    let mut theirs = two.reserve("b", &subjects[1], 1, nano(400)).await.unwrap();
    // This request is over at the other replica and is not in the ledger yet.
    two.reserve("c", &subjects[1], 1, nano(100)).await.unwrap().settle("c", 1, nano(100));
    drain(&two).await;
    for round in 0..10 {
        redis.flush().await;
        // The request at the first replica finds the loss. The second replica learns of it at its next heartbeat.
        let id = format!("r{round}");
        let why = one.reserve(&id, &subjects[0], 1, nano(201)).await.unwrap_err();
        assert!(matches!(why, Refusal::Budget { .. }), "{round}: {why:?}");
        assert_eq!(figures(&redis, &subjects[0][0]).await, (100, 700), "{round}");
        drop(one.reserve(&id, &subjects[0], 1, nano(200)).await.unwrap());
        drain(&one).await;
    }
    assert_eq!(redis.command(&["ZCARD", "gw:{key:k}:flying"]).await, ["2"]);
    mine.settle("r", 1, nano(10));
    theirs.settle("r", 1, nano(20));
    drain(&one).await;
    drain(&two).await;
    assert_eq!(figures(&redis, &subjects[0][0]).await, (130, 0));
    assert_eq!(leases(&redis, &subjects[0][0]).await, 0);
}

#[tokio::test]
async fn s16_a_replica_is_waited_for_however_often_redis_forgets_it() {
    let redis = Redis::start().await;
    let [(one, first), (two, _second)] = two_replicas(&redis, &clock(), &ledger()).await;
    let subjects = [key(&one, budget(1_000, Period::Month)), key(&two, budget(1_000, Period::Month))];
    let _theirs = two.reserve("b", &subjects[1], 1, nano(900)).await.unwrap();
    for round in 0..5 {
        // Redis has not named the other replica for a long time.
        let ago = std::time::Instant::now().checked_sub(REPLICA_TTL * 2).unwrap();
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
    wait_until_met(&first, 2).await;
    let subjects = key(&one, budget(1_000, Period::Month));
    drop(two);
    redis.flush().await;
    assert_eq!(one.admit("a", &subjects).await.unwrap_err().refusal, Refusal::StoreUnavailable);
    let free = [one.subject(SubjectKind::Key, "free", Limits { rpm: Some(10), ..Limits::default() })];
    one.admit("b", &free).await.unwrap();
    clock.advance(Duration::from_secs(5));
    one.admit("c", &subjects).await.unwrap();
}

/// A replica begins a generation before it has heard of another one, which has joined the generation before.
#[tokio::test]
async fn s16_a_forced_generation_waits_for_each_replica_that_redis_has_met() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (one, first) = replica_at(settings(&redis), &clock, &ledger).await;
    let shared: Arc<dyn Clock> = clock.clone();
    let (other, _messages) = Replica::new(settings(&redis), Some(shared));
    let address = Address::parse(&other.settings.url, None).unwrap();
    let connection = Connection::open(&address, ReceiveBudget::default()).await.unwrap();
    other.catch_up(&connection).await.unwrap();
    assert_eq!(redis.command(&["ZCARD", "gw:replicas"]).await, ["2"], "it counts as alive at once");
    let before = first.holdings.generation();
    if let Some(peers) = first.peers.lock().as_mut() {
        peers.clear();
    }
    one.begin_new_generation();
    let begun = || (first.holdings.generation() != before).then_some(());
    gw_testkit::eventually("another generation", begun).await;
    assert_eq!(redis.command(&["HGET", "gw:generation:rebuild", &other.id]).await, ["0"]);
    let subjects = key(&one, budget(1_000, Period::Month));
    assert_eq!(one.admit("a", &subjects).await.unwrap_err().refusal, Refusal::StoreUnavailable);
    other.catch_up(&connection).await.unwrap();
    other.send_heartbeat(&connection).await.unwrap();
    one.admit("b", &subjects).await.unwrap();
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
    old.settle("r", 1, nano(600));
    let _held = limiter.reserve("held", &subjects, 1, nano(250)).await.unwrap();
    drain(&limiter).await;
    *ledger.spent.lock() = nano(600);
    *ledger.counted.lock() = vec!["old".to_owned()];
    redis.restart().await;
    assert_eq!(redis.command(&["EXISTS", "gw:{key:k}"]).await, ["1"], "the file was read");
    gw_testkit::eventually("a new generation", || {
        (limiter.holding_figures().memory_losses == 1).then_some(())
    })
    .await;
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
    // The row of the request reached the ledger before the settlement reached Redis.
    *ledger.spent.lock() = nano(200);
    ledger.counted.lock().push("late".to_owned());
    limiter.admit("x", &subjects).await.unwrap();
    assert_eq!(figures(&redis, &subjects[0]).await, (200, 300));
    late.settle("r", 1, nano(200));
    later.settle("r", 1, nano(100));
    drain(&limiter).await;
    assert_eq!(figures(&redis, &subjects[0]).await, (300, 0));
    // Requests with a row in the ledger are not held any longer.
    limiter.mark_written(&mut ["late", "later"].into_iter());
    assert_eq!(limiter.holding_figures().requests, 0);
}

#[tokio::test]
async fn a_settlement_while_the_spending_is_unknown_counts_once_whether_the_ledger_has_it_or_not() {
    let redis = Redis::start().await;
    let answer_permits = Some(tokio::sync::Semaphore::new(1));
    let ledger = Arc::new(TestLedger { answer_permits, ..TestLedger::default() });
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
    gw_testkit::eventually("the ledger is asked", || (ledger.questions.lock().len() == 2).then_some(()))
        .await;
    for mut reserved in reserved {
        reserved.settle("r", 1, nano(150));
    }
    drain(&limiter).await;
    *ledger.spent.lock() = nano(150);
    ledger.counted.lock().push("in".to_owned());
    ledger.answer_permits.as_ref().unwrap().add_permits(9);
    assert!(asking.await.unwrap());
    assert_eq!(figures(&redis, &subjects[0]).await, (300, 0));
}

#[tokio::test]
async fn a_request_in_flight_that_began_while_redis_was_away_is_reported_later() {
    let mut redis = Redis::start().await;
    let ledger = ledger();
    let limiter = replica(settings(&redis), &ledger).await;
    let subjects = key(&limiter, Limits { max_in_flight: Some(2), ..Limits::default() });
    let first = limiter.admit("first", &subjects).await.unwrap();
    redis.kill();
    gw_testkit::eventually("away", || limiter.is_away().then_some(())).await;
    let _second = limiter.admit("second", &subjects).await.unwrap();
    let gone = limiter.delivery_figures();
    // Redis never hears of a request that begins and ends meanwhile.
    assert!(limiter.admit("third", &subjects).await.is_err());
    assert_eq!(limiter.delivery_figures(), gone);
    redis.restart().await;
    gw_testkit::eventually("Redis is used again", || (!limiter.is_away()).then_some(())).await;
    assert!(limiter.admit("fourth", &subjects).await.is_err());
    drop(first);
    drain(&limiter).await;
    assert_eq!(redis.command(&["ZRANGE", "gw:{key:k}:flying", "0", "-1"]).await, ["second"]);
    limiter.admit("fifth", &subjects).await.unwrap();
}

/// A budget asks the ledger while more requests are in flight than a page lists, and these end meanwhile.
#[tokio::test]
async fn requests_that_end_while_the_ledger_is_asked_do_not_void_its_answer() {
    let redis = Redis::start().await;
    let answer_permits = Some(tokio::sync::Semaphore::new(1));
    let ledger = Arc::new(TestLedger { answer_permits, ..TestLedger::default() });
    let limiter = replica(settings(&redis), &ledger).await;
    let subjects = key(&limiter, budget(10_000, Period::Day));
    let mut reserved = Vec::new();
    for n in 0..1_100 {
        reserved.push(limiter.reserve(&format!("r{n}"), &subjects, 1, nano(3)).await.unwrap());
    }
    let changed = key(&limiter, budget(10_000, Period::Total));
    let asking = tokio::spawn({
        let (limiter, changed) = (limiter.clone(), changed.clone());
        async move { limiter.reserve("x", &changed, 1, nano(1)).await.map(drop) }
    });
    gw_testkit::eventually("the ledger is asked", || (ledger.questions.lock().len() == 2).then_some(()))
        .await;
    // Every second request is in the ledger's answer.
    for (n, mut one) in reserved.into_iter().enumerate() {
        one.settle("r", 1, nano(2));
        if n % 2 == 0 {
            ledger.counted.lock().push(format!("r{n}"));
        }
    }
    drain(&limiter).await;
    *ledger.spent.lock() = nano(1_100);
    ledger.answer_permits.as_ref().unwrap().add_permits(1);
    asking.await.unwrap().unwrap();
    drain(&limiter).await;
    assert_eq!(figures(&redis, &subjects[0]).await, (2_200, 0));
    assert_eq!(ledger.questions.lock().len(), 2, "one answer is enough");
}

/// Leases that go while their ids are read page by page leave no other id out.
#[tokio::test]
async fn no_request_is_left_out_of_the_pages() {
    let redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = key(&limiter, budget(10_000, Period::Day));
    let mut reserved = Vec::new();
    for n in 0..40 {
        reserved.push(limiter.reserve(&format!("r{n:02}"), &subjects, 1, nano(3)).await.unwrap());
    }
    let total = key(&limiter, budget(10_000, Period::Total));
    let page = async |from: usize, gone: &str| {
        let call = core.call("").arg(&from).arg(&10).arg(gone).subject("gw:", &total[0]);
        let answer = core.ask(&core.scripts.list_requests, &call).await.unwrap();
        (answer.field(1).to_owned(), answer.fields_from(4).to_vec())
    };
    let (gone, mut seen) = page(0, "").await;
    for from in [10, 20, 30] {
        // These cost nothing, so that they leave no mark.
        reserved.drain(..3).for_each(drop);
        drain(&limiter).await;
        seen.extend(page(from, &gone).await.1);
    }
    let missing: Vec<_> = (0..40).map(|n| format!("r{n:02}")).filter(|id| !seen.contains(id)).collect();
    let ended: Vec<_> = (0..9).map(|n| format!("r{n:02}")).collect();
    assert!(missing.iter().all(|id| ended.contains(id)), "{missing:?}");
}
