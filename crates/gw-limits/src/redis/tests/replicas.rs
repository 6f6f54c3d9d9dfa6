//! Several replicas share one limit.

use gw_testkit::wait::eventually_async;
use tokio::task::JoinSet;

use super::*;
use crate::{Refusal, Reservation};

async fn three(redis: &Redis, ledger: &Arc<TestLedger>) -> Vec<Limiter> {
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(replica(settings(redis), ledger).await);
    }
    replicas
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r01_three_replicas_and_three_hundred_requests_never_exceed_a_budget_for_a_hundred() {
    let redis = Redis::start().await;
    let ledger = ledger();
    let replicas = three(&redis, &ledger).await;
    // The budget of the key is a hundred times the worst case of a request, that of the team twice as much.
    const WORST: u64 = 1_000;
    let mut running = JoinSet::new();
    for n in 0..300_u64 {
        let limiter = replicas[n as usize % 3].clone();
        running.spawn(async move {
            let subjects = [
                limiter.subject(SubjectKind::Key, "k", budget(100 * WORST, Period::Month)),
                limiter.subject(SubjectKind::Team, "t", budget(200 * WORST, Period::Month)),
            ];
            let id = format!("req_{n}");
            limiter.admit(&id, &subjects).await.ok()?;
            let mut reserved = limiter.reserve(&id, &subjects, 10, nano(WORST)).await.ok()?;
            tokio::task::yield_now().await;
            let used = WORST - n % 300;
            reserved.settle("r", 10, nano(used));
            Some(used)
        });
    }
    let served: Vec<u64> = running.join_all().await.into_iter().flatten().collect();
    for limiter in &replicas {
        drain(limiter).await;
    }
    let spent: u64 = served.iter().sum();
    assert!(served.len() >= 95, "{} served", served.len());
    assert!(spent <= 100 * WORST, "{spent} spent");
    for (kind, id) in [(SubjectKind::Key, "k"), (SubjectKind::Team, "t")] {
        let subject = replicas[0].subject(kind, id, Limits::default());
        assert_eq!(figures(&redis, &subject).await, (spent, 0));
        assert_eq!(leases(&redis, &subject).await, 0);
    }
    // The rest of the budget is granted exactly.
    let rest = 100 * WORST - spent;
    let subjects = key(&replicas[1], budget(100 * WORST, Period::Month));
    assert!(replicas[1].reserve("more", &subjects, 0, nano(rest + 1)).await.is_err());
    replicas[2].reserve("rest", &subjects, 0, nano(rest)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r03_a_hundred_a_minute_over_three_replicas_is_a_hundred() {
    let redis = Redis::start().await;
    let ledger = ledger();
    let replicas = three(&redis, &ledger).await;
    let mut running = JoinSet::new();
    for n in 0..450_usize {
        let limiter = replicas[n % 3].clone();
        running.spawn(async move {
            let subjects = key(&limiter, Limits { rpm: Some(100), ..Limits::default() });
            limiter.admit(&format!("req_{n}"), &subjects).await.map_err(|refused| refused.refusal)
        });
    }
    let answers = running.join_all().await;
    let admitted = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(admitted, 100);
    for refusal in answers.into_iter().filter_map(Result::err) {
        let Refusal::Requests { limit: 100, retry_after, .. } = refusal else { panic!("{refusal:?}") };
        assert!(retry_after <= Duration::from_secs(60), "{retry_after:?}");
    }
}

#[tokio::test]
async fn r06_the_clocks_of_replicas_do_not_matter() {
    let redis = Redis::start().await;
    let ledger = ledger();
    let mut replicas = Vec::new();
    for minutes in [-5, 0, 5, 60 * 24 * 40] {
        let clock: Arc<dyn Clock> = Arc::new(TestClock::at(NOW + minutes * 60));
        let shared = RedisLimiter::start(settings(&redis), None).await;
        replicas.push(Limiter::new(InProcess { clock, ledger: ledger.clone() }, Some(shared)));
    }
    let limits = Limits { rpm: Some(8), tpm: Some(1_000), ..budget(100, Period::Day) };
    let _subjects: Vec<_> = replicas.iter().map(|limiter| key(limiter, limits)).collect();
    let mut held: Vec<Reservation> = Vec::new();
    for (n, limiter) in replicas.iter().chain(&replicas).enumerate() {
        let permit = limiter.admit(&format!("req_{n}"), &key(limiter, limits)).await.unwrap();
        assert_eq!(permit.limits.requests.unwrap().remaining, 7 - n as u32);
        held.push(limiter.reserve(&format!("req_{n}"), &key(limiter, limits), 10, nano(12)).await.unwrap());
    }
    for limiter in &replicas {
        let why = limiter.admit("one more", &key(limiter, limits)).await.unwrap_err().refusal;
        assert!(matches!(why, Refusal::Requests { .. }), "{why:?}");
        let why = limiter.reserve("one more", &key(limiter, limits), 10, nano(5)).await.unwrap_err();
        assert!(matches!(why, Refusal::Budget { resets_in: Some(_), .. }), "{why:?}");
    }
    let mut periods = ledger.questions.lock().clone();
    // A call that Redis executes late asks once more.
    periods.dedup();
    assert_eq!(periods.len(), 1, "all replicas use one period: {periods:?}");
}

#[tokio::test]
async fn replicas_are_counted_until_their_heartbeats_stop() {
    let redis = Redis::start().await;
    let ledger = ledger();
    let (clock, settings) = (clock(), settings(&redis));
    let (_one, first) = replica_at(settings.clone(), &clock, &ledger).await;
    let (two, second) = replica_at(settings, &clock, &ledger).await;
    assert_eq!(second.replica_count(), 2);
    first.send_heartbeat(&first.supervisor.connection().unwrap()).await.unwrap();
    assert_eq!(first.replica_count(), 2);
    drop(two);
    clock.advance(Duration::from_secs(6));
    first.send_heartbeat(&first.supervisor.connection().unwrap()).await.unwrap();
    assert_eq!(first.replica_count(), 1);
}

#[tokio::test]
async fn one_replica_asks_the_ledger_for_all() {
    let redis = Redis::start().await;
    let ledger = Arc::new(TestLedger { spent: nano(95).into(), ..TestLedger::default() });
    let clock = clock();
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(replica_at(settings(&redis), &clock, &ledger).await.0);
    }
    // All processes have the key before the first asks. A later one would ask once more.
    let keys: Vec<_> = replicas.iter().map(|limiter| key(limiter, budget(100, Period::Total))).collect();
    for (limiter, subjects) in replicas.iter().zip(keys) {
        limiter.admit("a", &subjects).await.unwrap();
        assert!(limiter.reserve("a", &subjects, 0, nano(6)).await.is_err());
    }
    assert_eq!(*ledger.questions.lock(), [i64::MIN]);
}

#[tokio::test]
async fn the_first_answer_of_the_ledger_counts() {
    let redis = Redis::start().await;
    let ledger = Arc::new(TestLedger { spent: nano(40).into(), ..TestLedger::default() });
    let (clock, settings) = (clock(), settings(&redis));
    let (limiter, core) = replica_at(settings.clone(), &clock, &ledger).await;
    let subjects = key(&limiter, budget(100, Period::Day));
    limiter.reserve("a", &subjects, 0, nano(10)).await.unwrap().settle("a", 0, nano(10));
    drain(&limiter).await;
    // The answers of another replica, which asked at the same time, come late.
    let since = Period::Day.around(NOW).0;
    for (since, name) in [(since, "late"), (since - 86_400, "of yesterday")] {
        let call = core.call("").arg(&since).arg(&format!("{since}:40")).arg(name).arg("0").arg(&0).arg("");
        let call = call.subject(&settings.prefix, &subjects[0]);
        core.ask(&core.scripts.learn_spending, &call).await.unwrap();
        assert_eq!(figures(&redis, &subjects[0]).await, (50, 0));
    }
    // An answer about yesterday does not make the spending of today known.
    redis.flush().await;
    let call = core
        .call("")
        .arg(&(since - 86_400))
        .arg(&format!("{since}:40"))
        .arg("of yesterday")
        .arg("0")
        .arg(&0)
        .arg("");
    core.ask(&core.scripts.learn_spending, &call.subject(&settings.prefix, &subjects[0])).await.unwrap();
    *ledger.spent.lock() = nano(100);
    assert!(limiter.admit("b", &subjects).await.is_err());
}

#[tokio::test]
async fn open_circuits_are_known_to_all_replicas_while_they_are_open() {
    let redis = Redis::start().await;
    let ledger = Arc::new(TestLedger::default());
    let (one, two) = (replica(settings(&redis), &ledger).await, replica(settings(&redis), &ledger).await);
    assert_eq!(two.exchange_circuits(&[]).await, Some(Vec::new()));
    let open = |name: &str, millis: u64| (name.to_owned(), Duration::from_millis(millis));
    let heard = one
        .exchange_circuits(&[open("acme/fast", 60_000), open("beta/spare", 1)])
        .await
        .expect("there is Redis");
    assert!(heard.iter().any(|(name, _)| name == "acme/fast"), "{heard:?}");
    // A shorter report from another replica does not shorten it.
    let heard = eventually_async("the other replica has heard", async || {
        let heard = two.exchange_circuits(&[open("acme/fast", 5)]).await.expect("there is Redis");
        (heard.len() == 1).then_some(heard)
    })
    .await;
    assert_eq!(heard[0].0, "acme/fast");
    assert!(heard[0].1 > Duration::from_secs(30) && heard[0].1 <= Duration::from_secs(60), "{heard:?}");
}
