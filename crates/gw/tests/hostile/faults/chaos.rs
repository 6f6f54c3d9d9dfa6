//! Chaos: upstream faults, clients that disconnect, stores that restart and replicas that are killed, at random, for
//! `CHAOS_SECONDS` seconds. At the end the ledger must equal the upstream's own log, to the token and the nano-dollar: every
//! request that reached the upstream has one row, every row has the reported usage or is marked as an estimate, the sums are
//! those of the rows, and the budget in Redis equals the ledger.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gw_store::Store;
use gw_store::ledger::{Entry, Filter};
use gw_testkit::postgres::Postgres;
use gw_testkit::upstream::{Recorded, Step, chat_body, chat_transcript};
use gw_testkit::wait::eventually_ok;
use gw_testkit::{Answer, FakeUpstream, Gateway, Launch, Redis};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use crate::harness::{Setup, binary, send_chat};

const KEY: &str = "sk-chaos";
const CLIENTS: usize = 24;
const REPLICAS: usize = 2;

fn seconds() -> u64 {
    std::env::var("CHAOS_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(8)
}

/// The prompt and completion tokens that the upstream reported; `None` when it reported none.
type Oracle = Arc<Mutex<HashMap<String, Vec<Option<(u64, u64)>>>>>;

/// A small number derived from a text, so that a run can be repeated.
fn dice(text: &str, sides: u64) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (state ^ (state >> 29)) % sides
}

/// The upstream: mostly healthy, sometimes faulty. Its log is the reference.
fn behave(request: &Recorded, oracle: &Oracle, count: &AtomicUsize) -> Answer {
    let body = request.json();
    let user = body["user"].as_str().unwrap_or("").to_owned();
    let turn = count.fetch_add(1, Ordering::Relaxed);
    let (prompt, completion) = (5 + dice(&user, 40), 1 + dice(&format!("{user}!"), 30));
    let usage = json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion });
    let told = |tokens| oracle.lock().expect("no panic").entry(user.clone()).or_default().push(tokens);
    let fault = dice(&format!("{turn}"), 20);
    if body["stream"] == json!(true) {
        let mut pieces = chat_transcript(&["Hello", " there", " and", " more"]);
        if let Some(last) = pieces.last_mut() {
            last["usage"] = usage;
        }
        return match fault {
            0 => told_nothing(told, Answer::error(500, "broken", "no")),
            1 => told_nothing(told, Answer::sse().all(&pieces[..2]).reset()),
            2 => told_nothing(told, Answer::sse().all(&pieces[..3]).end()),
            _ => {
                told(Some((prompt, completion)));
                Answer::sse().all(&pieces).done()
            }
        };
    }
    let mut whole = chat_body("m", "Hello");
    whole["usage"] = usage;
    match fault {
        0 => told_nothing(told, Answer::error(500, "broken", "no")),
        1 => told_nothing(told, Answer::error(429, "slow_down", "no")),
        2 => told_nothing(told, Answer::steps(vec![Step::Reset])),
        3 => told_nothing(told, Answer::full(200, &[("content-type", "application/json")], "{\"choices\":")),
        _ => {
            told(Some((prompt, completion)));
            Answer::json(200, &whole)
        }
    }
}

fn told_nothing(told: impl Fn(Option<(u64, u64)>), answer: Answer) -> Answer {
    told(None);
    answer
}

struct World {
    config: String,
    data: Vec<TempDir>,
    gateways: Vec<Gateway>,
    addrs: Arc<Mutex<Vec<std::net::SocketAddr>>>,
}

impl World {
    async fn launch(&self, replica: usize) -> Gateway {
        let launch = Launch::new(binary()).file("gateway.toml", &self.config);
        launch.env("MODEL_GATEWAY_DATA_DIR", &self.data[replica].path().to_string_lossy()).start().await
    }

    /// Kills a replica and starts it again in its place.
    async fn kill(&mut self, replica: usize) {
        let _ = self.gateways.remove(replica).stop();
        let next = self.launch(replica).await;
        self.addrs.lock().expect("no panic")[replica] = next.addr;
        self.gateways.insert(replica, next);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chaos_leaves_a_ledger_that_equals_the_upstreams_own_log() {
    let (mut postgres, redis, upstream) =
        (Postgres::start(), Redis::start().await, FakeUpstream::start().await);
    let (oracle, count) = (Oracle::default(), Arc::new(AtomicUsize::new(0)));
    upstream.respond_with({
        let (oracle, count) = (Arc::clone(&oracle), Arc::clone(&count));
        move |request| behave(request, &oracle, &count)
    });
    let url = postgres.database();
    let extra = format!(
        "[store]\nurl = \"{url}\"\n[redis]\nurl = \"{}\"\ntimeout_ms = 500\n[[keys]]\nname = \"chaos\"\nkey = \"{KEY}\"\n\
         rpm = 1000000\ntpm = 1000000000\nmax_in_flight = 1000\nbudget_usd = 1000\nbudget_period = \"total\"\n",
        redis.url()
    );
    // Reservations of killed replicas expire after twice the longest request.
    let config = Setup { extra, timeouts: "total_ms = 10000", ..Setup::default() }
        .config(&upstream.base_url(), &upstream.base_url());
    let data = (0..REPLICAS).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let mut world = World { config, data, gateways: Vec::new(), addrs: Arc::default() };
    for replica in 0..REPLICAS {
        let gateway = world.launch(replica).await;
        world.addrs.lock().expect("no panic").push(gateway.addr);
        world.gateways.push(gateway);
    }
    let over = Arc::new(AtomicBool::new(false));
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(behave_badly(client, Arc::clone(&world.addrs), Arc::clone(&over)));
    }
    let end = Instant::now() + Duration::from_secs(seconds());
    let mut round = 0_usize;
    let mut faults = [0; 4];
    while Instant::now() < end {
        // Sleeps: the clients work between two faults.
        tokio::time::sleep(Duration::from_millis(500 + dice(&format!("pause {round}"), 2_000))).await;
        let fault = dice(&format!("fault {round}"), 4) as usize;
        match fault {
            0 | 1 => world.kill(round % REPLICAS).await,
            2 => tokio::task::block_in_place(|| postgres.restart()),
            _ => {
                redis.pause();
                // Sleeps: Redis hangs for this time.
                tokio::time::sleep(Duration::from_millis(300)).await;
                redis.resume();
            }
        }
        faults[fault] += 1;
        round += 1;
    }
    over.store(true, Ordering::Release);
    let mut asked = 0;
    while let Some(done) = clients.join_next().await {
        asked += done.expect("a client does not panic");
    }
    // Every replica restarts once more and recovers the requests of the killed ones.
    for replica in 0..REPLICAS {
        world.kill(replica).await;
    }
    let store = settled(&url, &upstream).await;
    let oracle = oracle.lock().expect("no panic").clone();
    let summary = compare(&store, &oracle).await;
    let spent = redis_agrees(&redis, &store, &world).await;
    println!(
        "chaos: {} s, {asked} requests, kills {}, PostgreSQL restarts {}, Redis pauses {}; {summary}; {spent}",
        seconds(),
        faults[0] + faults[1],
        faults[2],
        faults[3]
    );
}

/// One client that sometimes disconnects in the middle. Returns the number of its requests.
async fn behave_badly(
    client: usize,
    addrs: Arc<Mutex<Vec<std::net::SocketAddr>>>,
    over: Arc<AtomicBool>,
) -> usize {
    let mut number = 0;
    while !over.load(Ordering::Acquire) {
        let user = format!("u-{client}-{number}");
        let addr = {
            let addrs = addrs.lock().expect("no panic");
            addrs[(client + number) % addrs.len()]
        };
        let leaves = dice(&format!("leaves {user}"), 10) == 0;
        ask(addr, &user, number % 2 == 0, leaves).await;
        number += 1;
        // Sleeps: a client pauses. A long run sends fewer requests per second, so that one query can still read all rows.
        tokio::time::sleep(Duration::from_millis(dice(&user, 30) * seconds().div_ceil(25))).await;
    }
    number
}

async fn ask(addr: std::net::SocketAddr, user: &str, stream: bool, leaves: bool) -> Option<()> {
    let body = json!({ "model": "acme/plain", "user": user, "stream": stream, "max_tokens": 40,
        "messages": [{ "role": "user", "content": "Hello" }] });
    let mut socket = send_chat(addr, KEY, &body).await?;
    if leaves {
        let mut some = [0; 64];
        let reading = socket.read(&mut some);
        let _ = tokio::time::timeout(Duration::from_millis(dice(user, 20)), reading).await;
        return None;
    }
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(60), socket.read_to_end(&mut answer)).await.ok()?.ok()?;
    Some(())
}

/// The store, once every request that reached the upstream has a row.
async fn settled(url: &str, upstream: &FakeUpstream) -> Store {
    let user = |request: &Arc<Recorded>| request.json()["user"].as_str().unwrap_or("").to_owned();
    let wanted: std::collections::HashSet<String> = upstream.requests().iter().map(user).collect();
    let store = Store::open_url(url).await.expect("the store");
    eventually_ok("every request has its row", async || {
        let rows = store.requests(&Filter::default(), None, u32::MAX >> 1).await.unwrap_or_default();
        let have: std::collections::HashSet<&str> =
            rows.iter().filter_map(|row| row.user.as_deref()).collect();
        let missing: Vec<_> = wanted.iter().filter(|user| !have.contains(user.as_str())).take(5).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("no row for {missing:?}")) }
    })
    .await;
    store
}

/// 1 and 2 USD per million tokens.
fn price(prompt: u64, completion: u64) -> i128 {
    i128::from(prompt) * 1_000_000_000 + i128::from(completion) * 2_000_000_000
}

async fn compare(store: &Store, oracle: &HashMap<String, Vec<Option<(u64, u64)>>>) -> String {
    let rows = store.requests(&Filter::default(), None, u32::MAX >> 1).await.expect("rows");
    let mut by_user: HashMap<&str, Vec<&Entry>> = HashMap::new();
    for row in &rows {
        by_user.entry(row.user.as_deref().unwrap_or("")).or_default().push(row);
    }
    let (mut exact, mut estimated, mut free) = (0, 0, 0);
    for (user, calls) in oracle {
        let rows = &by_user[user.as_str()];
        assert_eq!(rows.len(), 1, "{user}: {rows:?}");
        let row = rows[0];
        let of_the_tokens = price(row.tokens.prompt, row.tokens.completion);
        match row.attempts.as_slice() {
            [] => assert_eq!(row.cost, of_the_tokens, "{row:?}"),
            attempts @ [.., last] => {
                let sum: i128 = attempts.iter().filter_map(|attempt| attempt.cost).sum();
                assert_eq!(row.cost, sum, "the cost is that of all upstream calls: {row:?}");
                let tokens_are = [last.cost.unwrap_or_default(), sum];
                assert!(
                    tokens_are.contains(&of_the_tokens),
                    "the tokens are the last one's, or all: {row:?}"
                );
            }
        }
        let reported = calls.iter().flatten().next_back();
        if row.status == "ok" {
            let reported =
                reported.unwrap_or_else(|| panic!("{user} was ok and the upstream never was: {row:?}"));
            assert_eq!((row.tokens.prompt, row.tokens.completion), *reported, "{row:?}");
            exact += 1;
        } else if row.tokens.prompt + row.tokens.completion == 0 {
            // A failed request is free. A disconnected client or a killed replica may have been charged.
            assert_ne!(row.status, "interrupted", "{row:?}");
            free += 1;
        } else if row.estimated {
            estimated += 1;
        } else {
            assert_eq!(Some(&(row.tokens.prompt, row.tokens.completion)), reported, "{row:?}");
            exact += 1;
        }
    }
    let sums = store.total(&Filter::default()).await.expect("sums");
    assert_eq!(sums.requests as usize, rows.len());
    assert_eq!(sums.cost, rows.iter().map(|row| row.cost).sum::<i128>(), "the sums are those of the rows");
    assert_eq!(sums.tokens.prompt, rows.iter().map(|row| row.tokens.prompt).sum::<u64>());
    assert_eq!(sums.tokens.completion, rows.iter().map(|row| row.tokens.completion).sum::<u64>());
    assert!(exact > 0 && estimated > 0 && free > 0, "{exact} {estimated} {free}");
    format!(
        "{} rows: {exact} as the upstream reported, {estimated} estimated, {free} failed free; {} nano-USD",
        rows.len(),
        sums.cost / 1_000_000
    )
}

/// Checks the key's budget in Redis: it equals the ledger, and nothing is reserved any more.
async fn redis_agrees(redis: &Redis, store: &Store, world: &World) -> String {
    let client = world.gateways[0].client().with_key(KEY);
    eventually_ok("Redis has what the ledger has", async || {
        // The next request removes expired reservations.
        client.post_json("/v1/chat/completions", &json!({ "user": "nobody" })).await;
        let nano = store.total(&Filter::default()).await.expect("sums").cost / 1_000_000;
        let mut figures = Vec::new();
        for key in redis.command(&["KEYS", "gw:*"]).await {
            if redis.command(&["TYPE", &key]).await.concat().contains("hash") {
                let found = redis.command(&["HMGET", &key, "spent", "reserved"]).await;
                if let [spent, reserved] = found.as_slice()
                    && !spent.is_empty()
                {
                    figures
                        .push((spent.parse::<i128>().unwrap_or(-1), reserved.parse::<i128>().unwrap_or(0)));
                }
            }
        }
        if figures == [(nano, 0)] {
            return Ok(format!("Redis has counted {nano} nano-USD, 0 set aside"));
        }
        Err(format!("the ledger has {nano} nano-USD, Redis {figures:?}"))
    })
    .await
}
