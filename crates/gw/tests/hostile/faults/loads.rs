//! Loads of one key that hold much memory: another key and `/healthz` are served beside each, in a small container (C35, P5).
//!
//! Every run takes a tenth of each load. `LOADS=full` takes all, and `MODEL_GATEWAY_BIN` names another program than the debug build:
//! `LOADS=full MODEL_GATEWAY_BIN=$PWD/target/release/model-gateway cargo test --package gw --test hostile -- loads_of_one_key --nocapture`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gw_testkit::measured::at_most;
use gw_testkit::memory_group::MemoryGroup;
use gw_testkit::upstream::{chat_body, sse_data};
use gw_testkit::wait::within;
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Launch, open_files};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::scarce_resources::peak_mib;
use crate::harness::{ADMIN, KEY, PATIENT, Setup, binary, chat, chat_with};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const MIB: usize = 1 << 20;
/// The container of every load.
const CONTAINER_MIB: u64 = 512;
/// The most memory above idle, and the longest p99 of others, in `./test long`.
const GROWTH_MIB: u64 = 400;
const OTHERS_P99: Duration = Duration::from_millis(250);

/// The bytes that the gateway counts for the loads.
const POOLS: [&str; 4] = [
    "gateway_answer_bytes",
    "gateway_request_body_bytes",
    "gateway_stored_response_read_bytes",
    "gateway_stream_event_bytes",
];

/// The program in a container, its upstream, the key that loads it and the key of another tenant.
struct Loaded {
    upstream: FakeUpstream,
    /// The upstream of the other tenant.
    _second: FakeUpstream,
    gateway: Gateway,
    group: Option<MemoryGroup>,
    client: Client,
    other: Client,
}

impl Loaded {
    async fn start() -> Self {
        let group = MemoryGroup::new(CONTAINER_MIB << 20);
        // Where no control group can be made, the gateway gets the setting that it would derive, and its peak is measured.
        let server = if group.is_some() { "" } else { "body_memory_mib = 64" };
        let (upstream, second) = (FakeUpstream::start().await, FakeUpstream::start().await);
        let extra = "[responses]\nstore = \"database\"\n".to_owned();
        let setup = Setup { server, extra, acme: "responses = false".to_owned(), ..Setup::default() };
        let config = setup.config(&upstream.base_url(), &second.base_url());
        let join = group.as_ref().map(|group| format!("echo $$ > '{}' && ", group.members().display()));
        let script = format!("{}exec \"$0\" serve", join.unwrap_or_default());
        let launch = Launch::new("sh").arg("-c").arg(script).arg(binary());
        let gateway = launch.file("gateway.toml", config).start().await;
        let client = gateway.client().with_key(KEY);
        let other = gateway.client().with_key(ADMIN);
        other.post_json(CHAT, &chat("demo/chat")).await.ok();
        Self { upstream, _second: second, gateway, group, client, other }
    }

    /// Stores a response with this input and an answer of this many bytes.
    async fn stored(&self, input: &str, answer_bytes: usize) -> String {
        self.upstream.enqueue(Answer::json(200, &chat_body("m", &"word ".repeat(answer_bytes / 5))));
        let body = json!({"model": "acme/unpriced", "input": input});
        let answer = self.client.post_json(RESPONSES, &body).await.ok().json();
        answer["id"].as_str().expect("an id").to_owned()
    }

    /// Sends all requests at once; the statuses of their answers.
    async fn together(&self, path: &'static str, body: Vec<u8>, count: usize) -> Vec<u16> {
        let (body, mut clients) = (Arc::new(body), JoinSet::new());
        for _ in 0..count {
            let (client, body) = (self.client.clone(), Arc::clone(&body));
            clients.spawn(async move { client.post_bytes(path, &body).await.status });
        }
        clients.join_all().await
    }
}

/// Opens connections that send the request and read nothing; gives them as soon as each has its head.
async fn unread(client: &Client, request: &[u8], count: usize) -> Vec<RawClient> {
    let mut readers = Vec::new();
    for _ in 0..count {
        let mut wire = RawClient::connect_with_receive_buffer(client.addr, 4 * 1024).await;
        wire.send(request).await;
        readers.push(wire);
    }
    for wire in &mut readers {
        wire.head().await.expect("a head");
    }
    readers
}

fn post(client: &Client, path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let head = client.head("POST", path, Some("application/json"), Some(body.len()));
    [head.as_bytes(), body.as_bytes()].concat()
}

/// The loads, in the order of the table.
const LOADS: [&str; 7] = [
    "300 stalled replays of 8 MB",
    "400 continuations of 100 bytes on 7.5 MB",
    "128 responses in the background with bodies of 9 MiB",
    "seven turns of 18 MB",
    "60 bodies of 20 MiB",
    "1,000 stalled readers of events of 100 KB",
    "300 unread answers of 18 MB",
];

/// Runs a load to its end; gives the connections that it leaves open.
async fn run(load: usize, loaded: &Loaded, part: usize) -> Vec<RawClient> {
    let client = &loaded.client;
    match load {
        0 => {
            let id = loaded.stored("Write a book.", 8_000_000).await;
            let head = client.head("GET", &format!("{RESPONSES}/{id}?stream=true"), None, None);
            unread(client, head.as_bytes(), 300 / part).await
        }
        1 => {
            let id = loaded.stored(&"word ".repeat(1_500_000), 5).await;
            let body =
                json!({"model": "acme/unpriced", "input": "x".repeat(100), "previous_response_id": id});
            let statuses = loaded.together(RESPONSES, body.to_string().into_bytes(), 400 / part).await;
            assert!(statuses.iter().all(|status| [200, 429, 503].contains(status)), "{statuses:?}");
            Vec::new()
        }
        2 => {
            let body = json!({"model": "acme/fast", "input": "x".repeat(9 * MIB), "background": true});
            let statuses = loaded.together(RESPONSES, body.to_string().into_bytes(), 128 / part).await;
            assert!(statuses.iter().all(|status| [200, 429, 503].contains(status)), "{statuses:?}");
            Vec::new()
        }
        3 => {
            let id = loaded.stored(&"word ".repeat(3_600_000), 5).await;
            for input in ["word ".repeat(3_600_000).as_str(), "short"] {
                for _ in 0..3_usize.div_ceil(part) {
                    let body = json!({"model": "acme/unpriced", "input": input, "previous_response_id": id});
                    let status = client.post_json(RESPONSES, &body).await.status;
                    // Two turns of 18 MB are larger than a body may be.
                    assert_eq!(status, if input == "short" { 200 } else { 413 });
                }
            }
            Vec::new()
        }
        4 => {
            let question = json!({"messages": [{"role": "user", "content": "x".repeat(20 * MIB)}]});
            let body = chat_with("acme/unpriced", question).to_string().into_bytes();
            let statuses = loaded.together(CHAT, body, 60 / part).await;
            assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
            Vec::new()
        }
        5 => {
            let event = sse_data(&json!({"content": "x".repeat(100_000)}), None);
            loaded.upstream.always(Answer::sse().all(&vec![event; 20]).hang());
            let request = post(client, CHAT, &chat_with("acme/fast", json!({"stream": true})));
            unread(client, &request, 1_000 / part).await
        }
        _ => {
            let body = json!({"model": "demo/embed", "input": vec!["x"; 1_000], "dimensions": 1536});
            let request = post(client, "/v1/embeddings", &body);
            let mut readers = Vec::new();
            for _ in 0..300 / part {
                let mut wire = RawClient::connect_with_receive_buffer(client.addr, 4 * 1024).await;
                wire.send(&request).await;
                readers.push(wire);
            }
            // The others wait for room.
            while answer_bytes(&loaded.other).await < 10 << 20 {}
            readers
        }
    }
}

/// Asks at short intervals until the flag is set; gives the p99.
async fn p99_of(
    client: Client,
    path: &'static str,
    body: Option<Value>,
    is_over: Arc<AtomicBool>,
) -> Duration {
    let mut times = Vec::new();
    while !is_over.load(Ordering::Acquire) || times.len() < 50 {
        let begun = Instant::now();
        match &body {
            Some(body) => client.post_json(path, body).await.ok(),
            None => client.get(path).await.ok(),
        };
        times.push(begun.elapsed());
        // Sleeps: the load has a fixed pace.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c35_loads_of_one_key_leave_another_key_served_in_a_small_container() {
    open_files(8192);
    let part = if std::env::var("LOADS").is_ok_and(|loads| loads == "full") { 1 } else { 10 };
    for (load, name) in LOADS.iter().enumerate() {
        let loaded = Loaded::start().await;
        let idle_mib = loaded.gateway.rss_kib() >> 10;
        let is_over = Arc::new(AtomicBool::new(false));
        let health = tokio::spawn(p99_of(loaded.other.clone(), "/healthz", None, Arc::clone(&is_over)));
        let question = Some(chat("beta/fast"));
        let other = tokio::spawn(p99_of(loaded.other.clone(), CHAT, question, Arc::clone(&is_over)));
        let held = within(name, run(load, &loaded, part)).await;
        is_over.store(true, Ordering::Release);
        let (health, other) = (health.await.expect("healthy"), other.await.expect("served"));
        let (open, peak) = (held.len(), peak_mib(&loaded.gateway));
        drop(held);
        let kills = loaded.group.as_ref().map_or(0, MemoryGroup::kills);
        assert_eq!(kills, 0, "{name}");
        for pool in POOLS {
            within("the memory is given back", async { while gauge(&loaded.other, pool).await > 0 {} }).await;
        }
        let after_mib = loaded.gateway.rss_kib() >> 10;
        println!(
            "| {name} | {open} open | RSS {idle_mib} / {peak} / {after_mib} MiB | {health:?} | {other:?} |"
        );
        at_most(&format!("MiB above idle, {name}"), peak.saturating_sub(idle_mib), GROWTH_MIB);
        at_most(&format!("p99 of /healthz, {name}"), health, OTHERS_P99);
        at_most(&format!("p99 of another key's chat, {name}"), other, OTHERS_P99);
    }
}

/// A gauge, from the metrics.
async fn gauge(admin: &Client, name: &str) -> u64 {
    let text = admin.get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.expect("the metrics tell it").parse().expect("a number")
}

/// The bytes of large answers.
async fn answer_bytes(admin: &Client) -> u64 {
    gauge(admin, "gateway_answer_bytes").await
}

/// The answer of the demo's embeddings has 18 MB; the limits of the key hold until its client has read it.
#[tokio::test]
async fn c35_an_unread_answer_keeps_its_place_in_flight_and_counts_in_memory() {
    const NARROW: &str = "sk-test-narrow-0002";
    let extra = format!("[[keys]]\nname = \"narrow\"\nkey = \"{NARROW}\"\nmax_in_flight = 1\n");
    let world = Setup { extra, server: PATIENT, ..Setup::default() }.start().await;
    let body = json!({"model": "demo/embed", "input": vec!["x"; 1_000], "dimensions": 1536});
    let narrow = world.gateway.client().with_key(NARROW);
    let reader = unread(&narrow, &post(&narrow, "/v1/embeddings", &body), 1).await;
    let refused = narrow.post_json(CHAT, &chat("acme/fast")).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limit_exceeded"), "{}", refused.text());
    drop(reader);
    let admin = world.gateway.client().with_key(ADMIN);
    let bytes = || answer_bytes(&admin);
    within("the place is given back", async {
        while narrow.post_json(CHAT, &chat("acme/fast")).await.status != 200 {}
    })
    .await;
    assert_eq!(bytes().await, 0);
    // The answers of a key without limits have its share of the memory. Further ones wait for room, and other keys do not.
    let request = post(&world.client, "/v1/embeddings", &body);
    let mut readers = Vec::new();
    for _ in 0..8 {
        let mut wire = RawClient::connect_with_receive_buffer(world.client.addr, 4 * 1024).await;
        wire.send(&request).await;
        readers.push(wire);
    }
    within("the share is used", async { while bytes().await < 80 << 20 {} }).await;
    let short = json!({"model": "demo/embed", "input": vec!["x"; 50], "dimensions": 1536});
    assert_eq!(admin.post_json("/v1/embeddings", &short).await.status, 200, "another key");
    world.chat_ok(&chat("acme/fast")).await;
    assert!(bytes().await <= 128 << 20, "{} bytes", bytes().await);
    let mut reading: JoinSet<_> =
        readers.into_iter().map(|mut wire| async move { wire.response().await }).collect();
    while let Some(answer) = reading.join_next().await {
        let answer = answer.expect("a reader").expect("an answer").ok().text();
        assert!(answer.contains("\"index\":999") && answer.ends_with('}'), "{} bytes", answer.len());
    }
    assert_eq!(bytes().await, 0);
}
