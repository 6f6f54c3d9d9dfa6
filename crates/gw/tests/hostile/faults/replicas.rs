//! Several replicas on one PostgreSQL and one Redis, as real processes: limits and budgets hold over all of them, a revoked key
//! is revoked everywhere, and each replica keeps working while a store is away.

mod loss;
mod replayed;

use std::time::{Duration, Instant};

use gw_store::Store;
use gw_store::ledger::Filter;
use gw_testkit::measured::at_most;
use gw_testkit::postgres::Postgres;
use gw_testkit::upstream::chat_transcript;
use gw_testkit::wait::{DEADLINE, eventually_ok, eventually_true};
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Launch, Proxy, Redis, Response, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, KEY, Setup, assert_error, binary};

const CHAT: &str = "/v1/chat/completions";

/// Replicas, and the servers that they share.
struct Replicas {
    gateways: Vec<Gateway>,
    data: Vec<TempDir>,
    upstream: FakeUpstream,
    postgres: Postgres,
    redis: Redis,
    url: String,
    config: String,
}

impl Replicas {
    async fn start(count: usize) -> Self {
        Self::start_with(count, |_| (None, None), "").await
    }

    /// `ways` gives a replica other ports for its PostgreSQL and its Redis.
    async fn start_with(
        count: usize,
        ways: impl Fn(usize) -> (Option<u16>, Option<u16>),
        timeouts: &'static str,
    ) -> Self {
        let (postgres, redis, upstream) =
            (Postgres::start(), Redis::start().await, FakeUpstream::start().await);
        let url = postgres.database();
        // A slow answer of Redis on a busy machine must not count as a lost Redis.
        let extra = "[store]\nurl = \"<store>\"\n[redis]\nurl = \"<redis>\"\ntimeout_ms = 2000\n".to_owned();
        let config =
            Setup { extra, timeouts, ..Setup::default() }.config(&upstream.base_url(), &upstream.base_url());
        let mut replicas =
            Self { gateways: Vec::new(), data: Vec::new(), upstream, postgres, redis, url, config };
        let mut starting = tokio::task::JoinSet::new();
        for index in 0..count {
            let data = tempfile::tempdir().expect("a directory");
            let launch = replicas.launch(&data, ways(index));
            replicas.data.push(data);
            starting.spawn(async move { (index, launch.start().await) });
        }
        let mut gateways = starting.join_all().await;
        gateways.sort_by_key(|(index, _)| *index);
        replicas.gateways = gateways.into_iter().map(|(_, gateway)| gateway).collect();
        replicas
    }

    fn launch(&self, data: &TempDir, (postgres, redis): (Option<u16>, Option<u16>)) -> Launch {
        let through = |url: &str, own: u16, way: Option<u16>| {
            url.replace(&format!(":{own}"), &format!(":{}", way.unwrap_or(own)))
        };
        let store = through(&self.url, self.postgres.addr().port(), postgres);
        let shared = through(&self.redis.url(), self.redis.port(), redis);
        let config = self.config.replace("<store>", &store).replace("<redis>", &shared);
        let launch = Launch::new(binary()).file("gateway.toml", config);
        launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().to_string_lossy())
    }

    fn client(&self, replica: usize, key: &str) -> Client {
        self.gateways[replica].client().with_key(key)
    }

    fn admin(&self, replica: usize) -> Client {
        self.client(replica, ADMIN)
    }

    /// Creates a key at the first replica and waits until all the others know it.
    async fn key(&self, members: Value) -> (String, Value) {
        let made = create(&self.admin(0), members).await;
        for replica in 0..self.gateways.len() {
            let client = self.client(replica, &made.0);
            within("a key is known everywhere", Duration::from_secs(5), async || {
                client.get("/v1/models").await.status == 200
            })
            .await;
        }
        made
    }

    async fn store(&self) -> Store {
        Store::open_url(&self.url).await.expect("the store")
    }
}

/// Waits for a condition; gives the duration.
async fn within(what: &str, limit: Duration, holds: impl AsyncFn() -> bool) -> Duration {
    let start = Instant::now();
    eventually_true(what, holds).await;
    at_most(what, start.elapsed(), limit);
    start.elapsed()
}

/// 10 prompt and 5 completion tokens, as they are estimated and as the upstream reports them: 0.00002 USD.
fn cheap() -> Value {
    json!({ "model": "acme/plain", "max_tokens": 5, "messages": [{ "role": "user", "content": "Hello!" }] })
}

/// Sends this many requests at once over all replicas; gives the number of 200s. All other answers must be 429.
async fn at_once(replicas: &Replicas, key: &str, count: usize) -> usize {
    let mut asking = tokio::task::JoinSet::new();
    for index in 0..count {
        let client = replicas.client(index % replicas.gateways.len(), key);
        asking.spawn(async move { client.post_json(CHAT, &cheap()).await });
    }
    let mut served = 0;
    for answer in asking.join_all().await {
        match answer.status {
            200 => served += 1,
            429 => {}
            status => panic!("{status}: {}", answer.text()),
        }
    }
    served
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r01_three_replicas_and_three_hundred_requests_never_spend_more_than_the_budget() {
    let replicas = Replicas::start(3).await;
    // 100 × 0.00002.
    let (key, made) =
        replicas.key(json!({ "name": "b", "budget_usd": "0.002", "budget_period": "day" })).await;
    let served = at_once(&replicas, &key, 300).await;
    assert!((95..=100).contains(&served), "{served} of 100");
    assert_eq!(replicas.upstream.hits(), served, "refused requests reach no upstream");
    let store = replicas.store().await;
    let filter = Filter { key_id: made["id"].as_str().map(str::to_owned), ..Filter::default() };
    let total = async || store.total(&filter).await.expect("sums");
    within("each served request has its row", DEADLINE, async || {
        let sums = total().await;
        (sums.requests - sums.failed) as usize == served
    })
    .await;
    let spent = total().await.cost;
    assert_eq!(spent, served as i128 * 20_000_000_000);
    assert!(spent <= 2_000_000_000_000, "{spent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r02_what_a_killed_replica_had_set_aside_is_free_again() {
    let mut replicas = Replicas::start(2).await;
    let (key, _) =
        replicas.key(json!({ "name": "b", "budget_usd": "0.00002", "budget_period": "total" })).await;
    let never = Signal::new();
    replicas.upstream.enqueue(Answer::steps(Vec::new()).wait(&never));
    let client = replicas.client(0, &key);
    let hanging = tokio::spawn(async move { client.post_json(CHAT, &cheap()).await });
    replicas.upstream.request(0).await;
    let refused = replicas.client(1, &key).post_json(CHAT, &cheap()).await;
    assert_error("all of it is set aside", &refused, 429, "insufficient_quota", "insufficient_quota");
    let killed = replicas.gateways.remove(0);
    let _ = killed.stop();
    hanging.abort();
    // The next process recovers the request: the prompt was sent, so the prompt alone is charged.
    let next = replicas.launch(&replicas.data[0], (None, None)).start().await;
    let only_prompt = json!({ "model": "acme/plain", "max_tokens": 0, "messages": [{ "role": "user", "content": "Hello!" }] });
    let client = replicas.client(0, &key);
    within("the rest is free again", Duration::from_secs(10), async || {
        client.post_json(CHAT, &only_prompt).await.status == 200
    })
    .await;
    let store = replicas.store().await;
    let rows = store.requests(&Filter::default(), None, 100).await.expect("rows");
    assert_eq!(rows.iter().filter(|row| row.status == "interrupted").count(), 1);
    drop(next);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r03_a_hundred_a_minute_over_three_replicas_are_a_hundred() {
    let replicas = Replicas::start(3).await;
    let (key, _) = replicas.key(json!({ "name": "r", "rpm": 100 })).await;
    let served = at_once(&replicas, &key, 300).await;
    assert_eq!(served, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r04_a_revoked_key_is_revoked_everywhere() {
    let replicas = Replicas::start(3).await;
    let (key, made) = replicas.key(json!({ "name": "gone soon" })).await;
    let path = format!("/admin/v1/keys/{}", made["id"].as_str().expect("an id"));
    let lowered = ask(&replicas.admin(1), "PATCH", &path, &json!({ "budget_usd": "0.000001" })).await;
    assert_eq!(lowered.status, 200, "{}", lowered.text());
    for replica in 0..3 {
        let client = replicas.client(replica, &key);
        within("a lowered budget holds everywhere", DEADLINE, async || {
            client.post_json(CHAT, &cheap()).await.code() == "insufficient_quota"
        })
        .await;
    }
    let revoked = ask(&replicas.admin(2), "DELETE", &path, &Value::Null).await;
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    for replica in 0..3 {
        let client = replicas.client(replica, &key);
        within("a revoked key is refused everywhere", DEADLINE, async || {
            client.get("/v1/models").await.status == 401
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r05_a_replica_that_is_cut_off_works_on_and_heals() {
    let mut replicas = Replicas::start(1).await;
    // The second replica reaches both servers through proxies that the test can cut.
    let to_postgres = Proxy::to(replicas.postgres.addr().port()).await;
    let to_redis = Proxy::to(replicas.redis.port()).await;
    let data = tempfile::tempdir().expect("a directory");
    let ways = (Some(to_postgres.address().port()), Some(to_redis.address().port()));
    let second = replicas.launch(&data, ways).start().await;
    replicas.gateways.push(second);
    let (budgeted, made) =
        replicas.key(json!({ "name": "b", "budget_usd": "1", "budget_period": "day" })).await;
    let (limited, _) = replicas.key(json!({ "name": "r", "rpm": 1000 })).await;

    to_redis.cut();
    let cut = replicas.client(1, &budgeted);
    within("budgets fail closed", Duration::from_secs(5), async || {
        cut.post_json(CHAT, &cheap()).await.code() == "budget_store_unavailable"
    })
    .await;
    assert_eq!(
        replicas.client(1, &limited).post_json(CHAT, &cheap()).await.status,
        200,
        "limits go on alone"
    );
    assert_eq!(
        replicas.client(0, &budgeted).post_json(CHAT, &cheap()).await.status,
        200,
        "the other is untouched"
    );
    to_redis.heal();
    within("it heals", Duration::from_secs(10), async || cut.post_json(CHAT, &cheap()).await.status == 200)
        .await;

    to_postgres.cut();
    // A known key and its budget keep working without PostgreSQL; the rows wait.
    for _ in 0..5 {
        let answer = cut.post_json(CHAT, &cheap()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    // A key that the other replica creates meanwhile is unknown here, and is not called invalid.
    let (unknown, _) = create(&replicas.admin(0), json!({ "name": "new" })).await;
    let client = replicas.client(1, &unknown);
    within("an unknown key is a 503", Duration::from_secs(15), async || {
        client.get("/v1/models").await.status == 503
    })
    .await;
    to_postgres.heal();
    within("the new key arrives", Duration::from_secs(15), async || {
        client.get("/v1/models").await.status == 200
    })
    .await;
    // No row is lost or doubled: one at the first replica, and one per answered request at the second.
    let store = replicas.store().await;
    let filter = Filter {
        key_id: made["id"].as_str().map(str::to_owned),
        status: Some("ok".to_owned()),
        ..Filter::default()
    };
    let answered = answered(&replicas, "b");
    eventually_ok(&format!("{answered} rows"), async || {
        let rows = store.requests(&filter, None, 1_000).await.expect("rows").len();
        if rows == answered { Ok(()) } else { Err(rows) }
    })
    .await;
}

/// Successful chats in the access logs of all replicas by the key of this name.
fn answered(replicas: &Replicas, name: &str) -> usize {
    let chats = |gateway: &Gateway| {
        let fits = |line: &Value| line["path"] == CHAT && line["key"] == name && line["status"] == 200;
        gateway.logs().iter().filter(|line| fits(line)).count()
    };
    replicas.gateways.iter().map(chats).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s06_a_postgres_that_restarts_under_streams_loses_nothing() {
    let mut replicas = Replicas::start(1).await;
    let more = Signal::new();
    let pieces = chat_transcript(&["Hello, ", "world"]);
    let slow = Answer::sse().all(&pieces[..2]).wait(&more).all(&pieces[2..]).done();
    replicas.upstream.always(slow);
    let body =
        json!({ "model": "acme/fast", "stream": true, "messages": [{ "role": "user", "content": "Hi" }] });
    let mut streams = Vec::new();
    for _ in 0..200 {
        streams.push(replicas.client(0, KEY).stream(CHAT, &body).await);
    }
    tokio::task::block_in_place(|| replicas.postgres.restart());
    // A signal lets one answer go on.
    let firing = tokio::spawn(async move {
        loop {
            more.fire();
            // Sleeps: the signals are fired until the test has read all answers, and the answers need a processor.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    for stream in &mut streams {
        let frames = stream.rest().await;
        assert_eq!(frames.last().map(|frame| frame.trim()), Some("data: [DONE]"));
        assert!(!frames.concat().contains("error"), "{frames:?}");
    }
    firing.abort();
    let store = replicas.store().await;
    let ok = Filter { status: Some("ok".to_owned()), ..Filter::default() };
    eventually_true("200 rows", async || {
        store.requests(&ok, None, 1_000).await.is_ok_and(|rows| rows.len() == 200)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s07_a_frozen_postgres_holds_up_no_request() {
    let replicas = Replicas::start(1).await;
    let (key, made) = replicas.key(json!({ "name": "k" })).await;
    replicas.postgres.freeze();
    let start = Instant::now();
    for _ in 0..50 {
        replicas.client(0, &key).post_json(CHAT, &cheap()).await.ok();
    }
    at_most("s07_a_frozen_postgres_holds_up_no_request", start.elapsed(), Duration::from_secs(10));
    let management = replicas.admin(0).get("/admin/v1/keys").await;
    assert_eq!(management.status, 503, "{}", management.text());
    at_most("s07_a_frozen_postgres_holds_up_no_request", start.elapsed(), Duration::from_secs(25));
    replicas.postgres.thaw();
    let store = replicas.store().await;
    let filter = Filter { key_id: made["id"].as_str().map(str::to_owned), ..Filter::default() };
    eventually_true("the rows arrive", async || store.total(&filter).await.expect("sums").requests >= 50)
        .await;
    assert_eq!(store.total(&filter).await.expect("sums").requests, 50);
}

/// Redis knows nothing of the counter of a new tag, so only the ledger can tell what it has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s07_a_frozen_postgres_holds_up_no_answer_that_tells_what_a_budget_has_left() {
    let mut replicas = Replicas::start(0).await;
    replicas.config.push_str(
        "[cache]\n[[keys]]\nname = \"trusted\"\nkey = \"sk-trusted\"\ntrust_attribution = true\n\
         [[budgets]]\nname = \"tags\"\nmatch = { tag = \"project:*\" }\nsplit_by = \"tag:project\"\nbudget_usd = 5\n",
    );
    let data = tempfile::tempdir().expect("a directory");
    let gateway = replicas.launch(&data, (None, None)).start().await;
    replicas.gateways.push(gateway);
    replicas.data.push(data);
    let tagged = |tag: &str| replicas.client(0, "sk-trusted").with_header("x-gateway-tags", tag);
    let told = |answer: &Response| {
        ["x-gateway-cache", "x-gateway-budget-left-usd"].map(|name| answer.header(name).map(str::to_owned))
    };
    let mut body = cheap();
    body["cache"] = json!({ "enabled": true });
    let first = tagged("project:one").post_json(CHAT, &body).await.ok();
    assert_eq!(told(&first), [Some("MISS".to_owned()), Some("4.99998".to_owned())]);
    let store = replicas.store().await;
    // A row that is not written yet would end the question to the ledger early.
    eventually_true("the row is written", async || {
        store.total(&Filter::default()).await.expect("sums").requests == 1
    })
    .await;
    replicas.postgres.freeze();
    let start = Instant::now();
    let second = tagged("project:two").post_json(CHAT, &body).await.ok();
    at_most("an answer that tells no budget", start.elapsed(), Duration::from_secs(4));
    replicas.postgres.thaw();
    assert_eq!(told(&second), [Some("HIT".to_owned()), None]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s09_a_dead_redis_costs_no_request_without_a_budget() {
    let mut replicas = Replicas::start(1).await;
    let (limited, _) =
        replicas.key(json!({ "name": "r", "rpm": 10_000, "tpm": 10_000_000, "max_in_flight": 50 })).await;
    let (budgeted, _) = replicas.key(json!({ "name": "b", "budget_usd": "1", "budget_period": "day" })).await;
    replicas.redis.kill();
    for _ in 0..50 {
        replicas.client(0, &limited).post_json(CHAT, &cheap()).await.ok();
    }
    let refused = replicas.client(0, &budgeted).post_json(CHAT, &cheap()).await;
    assert_error("closed", &refused, 503, "server_error", "budget_store_unavailable");
    replicas.redis.restart().await;
    // Redis lost everything; the ledger has the spending.
    let client = replicas.client(0, &budgeted);
    within("it heals", Duration::from_secs(10), async || {
        client.post_json(CHAT, &cheap()).await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p01_a_killed_process_loses_and_doubles_nothing_on_postgres() {
    let postgres = Postgres::start();
    let data = tempfile::tempdir().expect("a directory");
    super::crash::killed_again_and_again(&postgres.database(), data.path(), super::crash::rounds()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_whose_payloads_are_switched_on_is_heard_by_every_replica() {
    let replicas = Replicas::start(2).await;
    let (key, made) = replicas.key(json!({ "name": "heard" })).await;
    let path = format!("/admin/v1/keys/{}", made["id"].as_str().expect("an id"));
    ask(&replicas.admin(0), "PATCH", &path, &json!({ "log_payloads": true })).await.ok();
    let client = replicas.client(1, &key);
    let store = replicas.store().await;
    within("the other replica stores the result", Duration::from_secs(5), async || {
        let id =
            client.post_json(CHAT, &cheap()).await.ok().header("x-request-id").expect("an id").to_owned();
        // Sleeps: a replica that has not heard of the change stores no payload, so there is no sign to wait for.
        tokio::time::sleep(Duration::from_millis(200)).await;
        store
            .payload(&id)
            .await
            .expect("an answer")
            .is_some_and(|payload| payload.request.text.contains("Hello!"))
    })
    .await;
    store.close().await;
}

#[tokio::test]
async fn a_circuit_that_opens_on_one_replica_is_open_on_the_others() {
    let replicas = Replicas::start(2).await;
    replicas.upstream.always(Answer::error(500, "x", "down"));
    let standing = async |replica: usize| {
        let answer = replicas.admin(replica).get("/admin/v1/providers").await.ok().json();
        let targets = answer["data"][0]["targets"].as_array().cloned().unwrap_or_default();
        let target = targets.iter().find(|target| target["model"] == "acme/fast");
        target.map(|target| target["standing"].clone()).unwrap_or_default()
    };
    let body = crate::harness::chat("acme/fast");
    for _ in 0..5 {
        replicas.client(0, KEY).post_json(CHAT, &body).await;
    }
    assert_eq!(standing(0).await, "open");
    within("the other replica knows", Duration::from_secs(5), async || standing(1).await == "open").await;
    // The gateway asks another target first.
    replicas.upstream.respond_with(|request| {
        let is_fast = request.json()["model"] == "fast-2026-01";
        if is_fast { Answer::error(500, "x", "down") } else { gw_testkit::upstream::default_answer(request) }
    });
    let body = crate::harness::chat_with("acme/fast", json!({ "routing": { "fallback": ["beta/spare"] } }));
    let answer = replicas.client(1, KEY).post_json(CHAT, &body).await.ok().json();
    assert_eq!(answer["gateway"]["attempts"].as_array().map(Vec::len), Some(1), "{answer}");
    assert_eq!(answer["gateway"]["model_used"], "beta/spare");
}
