//! Redis is killed, hangs, is slow, full, or forgets: what requests see, and what counts in the end.

use std::time::Instant;

use gw_testkit::measured::at_most;
use gw_testkit::wait::eventually_true;
use gw_testkit::{Proxy, eventually};

use super::*;
use crate::WhenAway;
use crate::redis::message::{Message, MessageKind, Settlement};
use crate::redis::outbox::SendOnDrop;
use crate::{Refusal, Reservation};

/// A key with a budget, and a key with other limits only.
fn rich_and_fast(limiter: &Limiter) -> ([Arc<Subject>; 1], [Arc<Subject>; 1]) {
    let rates =
        Limits { rpm: Some(1_000_000), tpm: Some(1_000_000), max_in_flight: Some(900), ..Limits::default() };
    let rich = limiter.subject(SubjectKind::Key, "rich", budget(1_000_000, Period::Month));
    ([rich], [limiter.subject(SubjectKind::Key, "fast", rates)])
}

/// Asserts that requests wait for less than 20 ms. One of three rounds has to pass, because the machine may be busy
/// with other tests.
async fn assert_no_waiting(limiter: &Limiter) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let p99 = p99_while_away(limiter).await;
        if p99 < Duration::from_millis(20) {
            return;
        }
        seen.push(p99);
    }
    panic!("{seen:?}");
}

/// The 99th percentile of the waiting time over sixteen tasks with two hundred requests each. Requests with a budget
/// are refused, all others pass.
async fn p99_while_away(limiter: &Limiter) -> Duration {
    let mut running = tokio::task::JoinSet::new();
    for n in 0..16 {
        let limiter = limiter.clone();
        running.spawn(async move {
            let (rich, fast) = rich_and_fast(&limiter);
            let mut waited = Vec::new();
            for m in 0..200 {
                let (id, start) = (format!("req_{n}_{m}"), Instant::now());
                if m % 2 == 0 {
                    let refused = limiter.reserve(&id, &rich, 1, 1).await.unwrap_err();
                    assert_eq!(refused, Refusal::StoreUnavailable);
                } else {
                    let permit = limiter.admit(&id, &fast).await.unwrap();
                    limiter.reserve(&id, &fast, 1, 1).await.unwrap().settle(&id, 1, 1);
                    drop(permit);
                }
                waited.push(start.elapsed());
                // Sleeps: the requests are spread over time.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            waited
        });
    }
    let mut waited: Vec<Duration> = running.join_all().await.concat();
    waited.sort_unstable();
    at_most("p99_while_away", waited[waited.len() - 1], Duration::from_secs(1));
    waited[waited.len() * 99 / 100]
}

/// Waits until Redis is used again.
async fn wait_until_back(limiter: &Limiter) {
    eventually("Redis is used again", || (!limiter.is_away()).then_some(())).await;
}

/// Reserves, and repeats it if a busy machine was late.
async fn reserved(limiter: &Limiter, id: &str, subjects: &[Arc<Subject>], cost: i128) -> Reservation {
    for n in 0..50 {
        wait_until_back(limiter).await;
        match limiter.reserve(&format!("{id}_{n}"), subjects, 1, cost).await {
            Ok(reserved) => return reserved,
            Err(refusal) => assert_eq!(refusal, Refusal::StoreUnavailable),
        }
    }
    panic!("{id}: no reservation");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s09_redis_is_killed_and_comes_back_empty() {
    let mut redis = Redis::start().await;
    let ledger = ledger();
    let limiter = replica(default_settings(&redis), &ledger).await;
    let (rich, _) = rich_and_fast(&limiter);
    let mut held = reserved(&limiter, "held", &rich, nano(500)).await;
    redis.kill();
    assert_no_waiting(&limiter).await;
    // This settlement waits in the queue.
    held.settle("r", 1, nano(400));
    *ledger.spent.lock() = nano(100);
    redis.restart().await;
    drop(reserved(&limiter, "again", &rich, 0).await);
    drain(&limiter).await;
    // 100 from the ledger, and 400 that it does not know yet.
    assert_eq!(figures(&redis, &rich[0]).await, (500, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s09_redis_hangs_and_goes_on() {
    let redis = Redis::start().await;
    let limiter = replica(default_settings(&redis), &ledger()).await;
    let (rich, _) = rich_and_fast(&limiter);
    let mut held = reserved(&limiter, "held", &rich, nano(500)).await;
    redis.pause();
    assert_no_waiting(&limiter).await;
    held.settle("r", 1, nano(400));
    redis.resume();
    wait_until_back(&limiter).await;
    drain(&limiter).await;
    let seen = || async { figures(&redis, &rich[0]).await };
    // Redis executes now what was sent before it hung. The messages that undo it follow.
    eventually_true("what was sent is undone", async || seen().await == (400, 0)).await;
    assert_eq!(leases(&redis, &rich[0]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s09_a_slow_redis_is_one_that_is_away() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port()).await;
    let settings = without_initial_wait(format!("redis://{}/0", proxy.address()));
    let limiter = replica(settings, &ledger()).await;
    let (rich, _) = rich_and_fast(&limiter);
    drop(reserved(&limiter, "first", &rich, nano(500)).await);
    proxy.delay(Duration::from_millis(500));
    assert_no_waiting(&limiter).await;
    assert!(limiter.is_away());
    proxy.delay(Duration::ZERO);
    reserved(&limiter, "again", &rich, nano(500)).await.settle("r", 1, nano(300));
    drain(&limiter).await;
    assert_eq!(figures(&redis, &rich[0]).await.0, 300);
}

#[tokio::test]
async fn r07_an_answer_after_the_timeout_counts_while_redis_is_not_given_up() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port()).await;
    let settings = settings_of(format!("redis://{}/0", proxy.address()));
    let late = settings.timeout * 5 / 4;
    let limiter = replica(settings, &ledger()).await;
    let (_, fast) = rich_and_fast(&limiter);
    wait_until_back(&limiter).await;

    // From here on the clock moves only when the answer is on its way. A running blocking task keeps it from moving by
    // itself.
    let (test_runs, is_over) = std::sync::mpsc::channel::<()>();
    let _blocking = tokio::task::spawn_blocking(move || is_over.recv());
    tokio::time::pause();
    proxy.delay(late);
    let clock = async {
        loop {
            tokio::task::yield_now().await;
            if proxy.delayed() > 0 {
                tokio::time::advance(late).await;
            }
        }
    };
    let admitted = tokio::select! {
        admitted = limiter.admit("late", &fast) => admitted.unwrap(),
        () = clock => unreachable!(),
    };
    assert_eq!(admitted.limits.requests.unwrap().remaining, 999_999);
    assert!(!limiter.is_away());
    assert_eq!(redis.command(&["ZCARD", "gw:{key:fast}:flying"]).await, ["1"], "Redis counts the request");
    drop(test_runs);
}

#[tokio::test]
async fn r05_a_replica_that_is_cut_off_settles_once_when_it_is_back() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port()).await;
    let ledger = ledger();
    let cut = replica(settings_of(format!("redis://{}/0", proxy.address())), &ledger).await;
    let other = replica(settings(&redis), &ledger).await;
    let subjects = key(&cut, budget(1_000, Period::Month));
    let mut held = Vec::new();
    for n in 0..10 {
        held.push(cut.reserve(&format!("req_{n}"), &subjects, 1, nano(100)).await.unwrap());
    }
    // The connection breaks while answers are on their way, so the requests are in doubt.
    proxy.delay(Duration::from_millis(200));
    for mut reserved in held.drain(..5) {
        reserved.settle("r", 1, nano(50));
    }
    while figures(&redis, &subjects[0]).await.0 == 0 {
        tokio::task::yield_now().await;
    }
    proxy.cut();
    eventually("away", || cut.is_away().then_some(())).await;
    assert!(other.reserve("x", &key(&other, budget(1_000, Period::Month)), 1, nano(751)).await.is_err());
    for mut reserved in held {
        reserved.settle("r", 1, nano(50));
    }
    proxy.delay(Duration::ZERO);
    proxy.heal();
    wait_until_back(&cut).await;
    drain(&cut).await;
    assert_eq!(figures(&redis, &subjects[0]).await, (500, 0));
    assert_eq!(leases(&redis, &subjects[0]).await, 0);
}

#[tokio::test]
async fn s09_after_flushall_the_ledger_is_asked_and_what_is_under_way_still_counts() {
    let redis = Redis::start().await;
    let ledger = ledger();
    let limiter = replica(settings(&redis), &ledger).await;
    let subjects = key(&limiter, budget(1_000, Period::Month));
    limiter.reserve("a", &subjects, 1, nano(300)).await.unwrap().settle("a", 1, nano(300));
    limiter.reserve("unwritten", &subjects, 1, nano(100)).await.unwrap().settle("unwritten", 1, nano(100));
    let mut under_way = limiter.reserve("b", &subjects, 1, nano(200)).await.unwrap();
    drain(&limiter).await;
    redis.flush().await;
    redis.command(&["SCRIPT", "FLUSH"]).await;
    *ledger.spent.lock() = nano(300);
    *ledger.counted.lock() = vec!["a".to_owned()];
    assert!(limiter.reserve("c", &subjects, 1, nano(401)).await.is_err());
    assert_eq!(figures(&redis, &subjects[0]).await, (400, 200));
    let mut new = limiter.reserve("d", &subjects, 1, nano(400)).await.unwrap();
    assert!(limiter.reserve("e", &subjects, 1, nano(1)).await.is_err());
    under_way.settle("r", 1, nano(150));
    new.settle("r", 1, nano(250));
    drain(&limiter).await;
    assert_eq!(figures(&redis, &subjects[0]).await, (800, 0));
    assert_eq!(ledger.questions.lock().len(), 2);
    assert_eq!(limiter.holding_figures().memory_losses, 1);
}

#[tokio::test]
async fn s09_a_budget_that_was_evicted_is_unknown_and_not_unspent() {
    let redis = Redis::start_with(&["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let ledger = ledger();
    let limiter = replica(settings(&redis), &ledger).await;
    let subjects = key(&limiter, budget(1_000, Period::Month));
    limiter.reserve("a", &subjects, 1, nano(900)).await.unwrap().settle("a", 1, nano(900));
    drain(&limiter).await;
    *ledger.spent.lock() = nano(900);
    ledger.counted.lock().push("a".to_owned());
    let junk = "x".repeat(20_000);
    for n in 0..10_000 {
        redis.command(&["SET", &format!("junk-{n}"), &junk]).await;
        if redis.command(&["EXISTS", "gw:{key:k}"]).await == ["0"] {
            break;
        }
    }
    assert_eq!(redis.command(&["EXISTS", "gw:{key:k}"]).await, ["0"], "evicted");
    assert!(limiter.reserve("b", &subjects, 1, nano(101)).await.is_err());
    limiter.reserve("c", &subjects, 1, nano(100)).await.unwrap().settle("c", 1, nano(100));
    drain(&limiter).await;
    assert_eq!(figures(&redis, &subjects[0]).await, (1_000, 0));
    assert_eq!(ledger.questions.lock().len(), 2);
}

#[tokio::test]
async fn a_hash_or_a_set_that_was_evicted_alone_is_repaired() {
    let redis = Redis::start().await;
    let ledger = ledger();
    let limiter = replica(settings(&redis), &ledger).await;
    let subjects = key(&limiter, budget(1_000, Period::Month));
    let mut held = limiter.reserve("a", &subjects, 1, nano(600)).await.unwrap();
    // Without the set nothing stays reserved.
    redis.command(&["DEL", "gw:{key:k}:leases"]).await;
    drop(limiter.reserve("b", &subjects, 1, nano(1_000)).await.unwrap());
    held.settle("r", 1, nano(100));
    drain(&limiter).await;
    let (_, reserved) = figures(&redis, &subjects[0]).await;
    assert_eq!(reserved, 0);
    // Without the hash the set still holds the reservations.
    let _held = limiter.reserve("c", &subjects, 1, nano(600)).await.unwrap();
    redis.command(&["DEL", "gw:{key:k}"]).await;
    assert!(limiter.reserve("d", &subjects, 1, nano(401)).await.is_err());
    limiter.reserve("e", &subjects, 1, nano(400)).await.unwrap();
}

#[tokio::test]
async fn s09_a_full_redis_closes_budgets_and_recovers() {
    let redis = Redis::start_with(&["--maxmemory-policy", "noeviction"]).await;
    let limiter = replica(settings(&redis), &ledger()).await;
    let (rich, fast) = rich_and_fast(&limiter);
    limiter.admit("a", &rich).await.unwrap();
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for n in 0..10 {
        let why = limiter.reserve(&format!("b{n}"), &rich, 1, nano(1)).await.unwrap_err();
        assert_eq!(why, Refusal::StoreUnavailable);
        limiter.admit(&format!("c{n}"), &fast).await.unwrap();
    }
    assert!(limiter.is_away());
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    wait_until_back(&limiter).await;
    limiter.reserve("d", &rich, 1, nano(1)).await.unwrap();
    drain(&limiter).await;
}

#[tokio::test]
async fn each_replica_counts_its_share_while_redis_is_away() {
    let mut redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (one, core) = replica_at(settings(&redis), &clock, &ledger).await;
    let (two, _core) = replica_at(settings(&redis), &clock, &ledger).await;
    core.send_heartbeat(&core.supervisor.connection().unwrap()).await.unwrap();
    let limits = Limits { rpm: Some(10), tpm: Some(1_000), max_in_flight: Some(2), ..Limits::default() };
    let permit = one.admit("first", &key(&one, limits)).await.unwrap();
    redis.kill();
    for limiter in [&one, &two] {
        eventually("away", || limiter.is_away().then_some(())).await;
    }
    let why = one.admit("second", &key(&one, limits)).await.unwrap_err().refusal;
    assert_eq!(
        why,
        Refusal::InFlight { subject: SubjectKind::Key, limit: 1 },
        "this process counts the request in flight from before"
    );
    drop(permit);
    for (limiter, left) in [(&one, 4), (&two, 5)] {
        let subjects = key(limiter, limits);
        for n in 0..left {
            limiter.admit(&format!("{n}"), &subjects).await.unwrap();
        }
        let why = limiter.admit("one more", &subjects).await.unwrap_err().refusal;
        assert!(matches!(why, Refusal::Requests { limit: 5, .. }), "{why:?}");
        let mut all = limiter.reserve("r", &subjects, 500, 0).await.unwrap();
        assert!(limiter.reserve("s", &subjects, 1, 0).await.is_err());
        all.settle("r", 400, 0);
        limiter.reserve("t", &subjects, 100, 0).await.unwrap();
    }
}

#[tokio::test]
async fn the_closed_mode_refuses_every_limit_while_redis_is_away() {
    let mut redis = Redis::start().await;
    let settings = RedisSettings { when_away: WhenAway::Closed, ..settings(&redis) };
    let limiter = replica(settings, &ledger()).await;
    let (_, fast) = rich_and_fast(&limiter);
    limiter.admit("a", &fast).await.unwrap();
    redis.kill();
    eventually("away", || limiter.is_away().then_some(())).await;
    assert_eq!(limiter.admit("b", &fast).await.unwrap_err().refusal, Refusal::StoreUnavailable);
    assert_eq!(limiter.reserve("b", &fast, 1, 1).await.unwrap_err(), Refusal::StoreUnavailable);
    let free = [limiter.subject(SubjectKind::Key, "free", Limits::default())];
    limiter.admit("c", &free).await.unwrap();
    limiter.reserve("c", &free, 1, 1).await.unwrap();
}

#[tokio::test]
async fn the_queue_of_settlements_is_bounded() {
    let mut redis = Redis::start().await;
    let (clock, ledger) = (clock(), ledger());
    let (limiter, core) = replica_at(settings(&redis), &clock, &ledger).await;
    let subjects = key(&limiter, budget(1_000, Period::Month));
    limiter.admit("a", &subjects).await.unwrap();
    redis.kill();
    eventually("away", || limiter.is_away().then_some(())).await;
    for n in 0..crate::redis::replica::MAX_QUEUED_MESSAGES + 1_000 {
        let work = MessageKind::Settle(Settlement {
            reserved_tokens: 0,
            reserved_nano: Some(1),
            used_tokens: 0,
            cost_nano: 1,
            epochs: "none".to_owned(),
        });
        drop(SendOnDrop::new(&core, Message::new(&n.to_string(), subjects.to_vec(), work)));
    }
    let lost = core.lost_messages.load(std::sync::atomic::Ordering::SeqCst);
    // The delivering task holds a batch, which is not in the queue.
    assert!((800..=1_000).contains(&lost), "{lost}");
    // The ledger knows the lost settlements.
    *ledger.spent.lock() = nano(700);
    let before = core.holdings.generation();
    redis.restart().await;
    wait_until_back(&limiter).await;
    drain(&limiter).await;
    assert_ne!(core.holdings.generation(), before);
    limiter.admit("b", &subjects).await.unwrap();
    assert_eq!(figures(&redis, &subjects[0]).await, (700, 0));
}
