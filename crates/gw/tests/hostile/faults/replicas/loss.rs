//! Redis loses its data during a burst, and is slow: no budget is granted twice, and the limits of parallel requests hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gw_testkit::eventually;
use gw_testkit::sse::chunks;
use gw_testkit::upstream::{Step, default_answer};
use tokio::task::JoinSet;

use super::*;

/// The fault of Redis.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Flushed,
    /// Redis restarts empty.
    Restarted,
    /// PostgreSQL stops, Redis restarts empty, and PostgreSQL returns later.
    WithPostgres,
}

/// The number of requests that a key's budget pays.
const ENOUGH: usize = 10;

/// As [`cheap()`], with a delayed answer.
fn held() -> Value {
    json!({ "model": "acme/plain", "max_tokens": 5, "messages": [{ "role": "user", "content": "Hold!!" }] })
}

/// Answers of each status.
#[derive(Debug, Default)]
struct Seen {
    served: usize,
    refused: usize,
    away: usize,
}

impl Seen {
    fn count(&mut self, answer: &Response) {
        match answer.status {
            200 => self.served += 1,
            429 => self.refused += 1,
            503 => self.away += 1,
            status => panic!("{status}: {}", answer.text()),
        }
    }
}

/// Requests at one time, over all replicas.
fn ask_at_once(replicas: &Replicas, key: &str, body: &Value, count: usize) -> JoinSet<Response> {
    let mut asking = JoinSet::new();
    for index in 0..count {
        let (client, body) = (replicas.client(index % replicas.gateways.len(), key), body.clone());
        asking.spawn(async move { client.post_json(CHAT, &body).await });
    }
    asking
}

async fn burst(replicas: &Replicas, key: &str, count: usize) -> Seen {
    let mut seen = Seen::default();
    let answers = ask_at_once(replicas, key, &cheap(), count).join_all().await;
    answers.iter().for_each(|answer| seen.count(answer));
    seen
}

/// Sends bursts until every budget is known again; gives the number of served requests.
async fn bursts(replicas: &Replicas, key: &str) -> usize {
    let (start, mut served) = (Instant::now(), 0);
    loop {
        let seen = burst(replicas, key, 20).await;
        served += seen.served;
        if seen.away == 0 {
            return served;
        }
        assert!(start.elapsed() < DEADLINE, "budgets are known again: {seen:?}");
    }
}

/// Requests whose answers wait for a signal.
struct Held {
    word: Signal,
    asking: JoinSet<Response>,
}

impl Held {
    async fn begin(replicas: &Replicas, key: &str, count: usize) -> Self {
        let word = Signal::new();
        replicas.upstream.respond_with({
            let word = word.clone();
            move |request| {
                let waits = request.json()["messages"][0]["content"] == "Hold!!";
                let answer = default_answer(request);
                if waits { answer.after(Step::Wait(word.clone())) } else { answer }
            }
        });
        let before = replicas.upstream.hits();
        let asking = ask_at_once(replicas, key, &held(), count);
        eventually("they are held", || (replicas.upstream.hits() == before + count).then_some(())).await;
        Self { word, asking }
    }

    /// Lets them continue; gives their number.
    async fn release(self) -> usize {
        let over = Arc::new(AtomicBool::new(false));
        let firing = tokio::spawn({
            let (over, word) = (Arc::clone(&over), self.word);
            async move {
                // A signal lets one answer go on.
                while !over.load(Ordering::SeqCst) {
                    word.fire();
                    // Sleeps: the signals are fired until all answers are there, and the answers need a processor.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
        let answers = self.asking.join_all().await;
        over.store(true, Ordering::SeqCst);
        firing.await.expect("the task does not panic");
        answers.iter().for_each(|answer| assert_eq!(answer.status, 200, "{}", answer.text()));
        answers.len()
    }
}

/// Redis loses its data after a burst of a new key; gives the number of served requests. The key's budget pays [`ENOUGH`].
async fn round(replicas: &mut Replicas, loss: Loss, number: usize) -> usize {
    let name = format!("{loss:?} {number}");
    let (key, _) =
        replicas.key(json!({ "name": name, "budget_usd": "0.0002", "budget_period": "total" })).await;
    let before = replicas.upstream.hits();
    let mut served = burst(replicas, &key, 2).await.served;
    let held = Held::begin(replicas, &key, 3).await;
    match loss {
        Loss::Flushed => replicas.redis.flush().await,
        Loss::Restarted => replicas.redis.restart().await,
        Loss::WithPostgres => {
            tokio::task::block_in_place(|| replicas.postgres.stop());
            served += burst(replicas, &key, 2).await.served;
            replicas.redis.restart().await;
            served += burst(replicas, &key, 20).await.served;
            tokio::task::block_in_place(|| replicas.postgres.resume());
        }
    }
    served += bursts(replicas, &key).await;
    served += held.release().await;
    served += bursts(replicas, &key).await;
    assert_eq!(replicas.upstream.hits() - before, served, "{name}: refused requests reach no upstream");
    served
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_flushall_behind_a_burst_gives_no_budget_back() {
    let mut replicas = Replicas::start(2).await;
    for number in 0..3 {
        assert_eq!(round(&mut replicas, Loss::Flushed, number).await, ENOUGH);
    }
    let metrics = replicas.admin(0).get("/metrics").await.ok().text();
    assert!(metrics.contains("gateway_limits_rebuilds_total 3"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_redis_restarted_empty_after_postgres_was_away_gives_no_budget_back() {
    let mut replicas = Replicas::start(2).await;
    assert_eq!(round(&mut replicas, Loss::WithPostgres, 0).await, ENOUGH);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_what_a_killed_replica_held_is_known_again_when_redis_was_lost_meanwhile() {
    let mut replicas = Replicas::start(2).await;
    let (key, made) =
        replicas.key(json!({ "name": "killed", "budget_usd": "0.0002", "budget_period": "total" })).await;
    assert_eq!(burst(&replicas, &key, 2).await.served, 2);
    let held = Held::begin(&replicas, &key, 6).await;
    let _ = replicas.gateways.remove(0).stop();
    replicas.redis.flush().await;
    // A replica that begins on an empty Redis waits two seconds for others, which a busy machine may take to notice the loss.
    eventually_true("the living replica has noticed the loss", async || {
        let metrics = replicas.admin(0).get("/metrics").await.ok().text();
        metrics.contains("gateway_limits_rebuilds_total 1")
    })
    .await;
    let next = replicas.launch(&replicas.data[0], (None, None)).start().await;
    replicas.gateways.insert(0, next);
    let generation = replicas.data[0].path().join("journal").join("generation");
    bursts(&replicas, &key).await;
    let known = || std::fs::read_to_string(&generation).is_ok_and(|name| !name.is_empty()).then_some(());
    eventually("the journal decides about its lines", known).await;
    // The requests to the stopped replica fail.
    let Held { word, mut asking } = held;
    let firing = tokio::spawn(async move {
        loop {
            word.fire();
            // Sleeps: the signals are fired until all answers are there, and the answers need a processor.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    while asking.join_next().await.is_some() {}
    firing.abort();
    bursts(&replicas, &key).await;
    let store = replicas.store().await;
    let filter = Filter { key_id: made["id"].as_str().map(str::to_owned), ..Filter::default() };
    within("nearly all of it is spent", Duration::from_secs(10), async || {
        let total = store.total(&filter).await.expect("sums");
        total.cost > 180_000_000_000
    })
    .await;
    for gateway in &mut replicas.gateways {
        gateway.sigterm();
        gateway.ended().await;
    }
    let spent = store.total(&filter).await.expect("sums").cost;
    assert!(spent <= 200_000_000_000, "{spent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_rounds_of_losses_overspend_nothing() {
    let rounds = std::env::var("S16_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(5);
    let mut replicas = Replicas::start(2).await;
    let (mut fewest, mut overspent) = (usize::MAX, 0);
    for number in 0..rounds {
        let loss = [Loss::Flushed, Loss::Restarted, Loss::WithPostgres][number % 3];
        let served = round(&mut replicas, loss, number).await;
        println!("round {number}: {loss:?}, {served} of {ENOUGH} served");
        fewest = fewest.min(served);
        overspent += served.saturating_sub(ENOUGH);
    }
    println!("{rounds} rounds: {overspent} requests too many, {fewest} of {ENOUGH} at the fewest");
    assert_eq!(overspent, 0);
    assert_eq!(fewest, ENOUGH);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r07_requests_at_one_time_over_a_slow_redis() {
    let mut replicas = Replicas::start(0).await;
    let proxies = Arc::new([Proxy::to(replicas.redis.port()).await, Proxy::to(replicas.redis.port()).await]);
    for proxy in &*proxies {
        let data = tempfile::tempdir().expect("a directory");
        let gateway = replicas.launch(&data, (None, Some(proxy.address().port()))).start().await;
        replicas.gateways.push(gateway);
        replicas.data.push(data);
    }
    let (key, _) = replicas.key(json!({ "name": "five", "max_in_flight": 5 })).await;
    let slow = tokio::spawn({
        let proxies = Arc::clone(&proxies);
        async move {
            for step in 0_u64.. {
                for (proxy, odd) in proxies.iter().zip([17, 29]) {
                    proxy.delay(Duration::from_millis(20 + step * odd % 51));
                }
                // Sleeps: the delay of a network changes in time.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    for round in 0..10 {
        let word = Signal::new();
        replicas.upstream.respond_with({
            let word = word.clone();
            move |request| default_answer(request).after(Step::Wait(word.clone()))
        });
        let before = replicas.upstream.hits();
        let mut asking = ask_at_once(&replicas, &key, &cheap(), 24);
        // Requests above the limit are refused; the others wait for the signal.
        let mut seen = Seen::default();
        while replicas.upstream.hits() - before + seen.refused < 24 {
            let next = tokio::time::timeout(Duration::from_millis(10), asking.join_next()).await;
            if let Ok(Some(answer)) = next {
                seen.count(&answer.expect("an answer"));
            }
        }
        let open = replicas.upstream.hits() - before;
        assert_eq!(seen.served, 0);
        let went = replicas
            .gateways
            .iter()
            .filter(|gateway| gateway.stderr().iter().any(|line| line.contains("Redis is away")));
        assert_eq!(went.count(), 0, "round {round}: Redis stays in use");
        assert!((1..=5).contains(&open), "round {round}: {open} at one time");
        Held { word, asking }.release().await;
    }
    slow.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_cannot_set_more_aside_says_that_the_store_is_away() {
    let mut replicas = Replicas::start(1).await;
    let members = json!({ "name": "c", "budget_usd": "1", "budget_period": "day", "on_budget": "cut" });
    let (key, _) = replicas.key(members).await;
    let more = Signal::new();
    let pieces = chat_transcript(&["word "]);
    let word = format!("data: {}\n\n", pieces[1]).into_bytes();
    let endless = Answer::sse().all(&pieces[..2]).wait(&more);
    replicas.upstream.enqueue(endless.then(Step::Endless(word, Duration::from_micros(200))));
    let mut body = cheap();
    body["stream"] = json!(true);
    body.as_object_mut().expect("an object").remove("max_tokens");
    let mut stream = replicas.client(0, &key).stream(CHAT, &body).await;
    stream.json().await;
    replicas.redis.kill();
    more.fire();
    let frames = stream.rest().await;
    let error = chunks(&frames[..frames.len() - 1]).pop().expect("an error event");
    let told = (&error["error"]["type"], &error["error"]["code"]);
    assert_eq!(told, (&json!("server_error"), &json!("budget_store_unavailable")), "{error}");
}
