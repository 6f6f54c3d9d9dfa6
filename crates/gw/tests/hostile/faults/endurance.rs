//! Long load, and a processor that others use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gw_testkit::measured::at_most;
use gw_testkit::upstream::{Recorded, chat_body, chat_transcript};
use gw_testkit::wait::eventually_true;
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Client, Gateway};
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::{ADMIN, Setup, World, chat, chat_with};

const CHAT: &str = "/v1/chat/completions";
const KEY: &str = "sk-endurance";
const CLIENTS: u64 = 16;
/// A shorter run says nothing about the growth of memory: pools and caches still fill.
const SHORTEST_RUN_FOR_MEMORY: Duration = Duration::from_secs(300);

/// A number from the environment, so that one test serves both the usual run and a long one.
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(usual)
}

/// One request in twenty fails. The others are chats and streams.
fn mostly_healthy(request: &Recorded, turn: u64) -> Answer {
    if turn.is_multiple_of(20) {
        return Answer::error(500, "broken", "no");
    }
    if request.json()["stream"] == json!(true) {
        return Answer::sse().all(&chat_transcript(&["Hello", " there", " and", " more"])).done();
    }
    Answer::json(200, &chat_body("m", "Hello there and more"))
}

/// Sends requests at a steady rate until the time is over. Returns their number.
async fn ask_steadily(client: Client, number: u64, pause: Duration, over: Arc<AtomicBool>) -> u64 {
    let mut asked = 0;
    let mut clock = tokio::time::interval(pause);
    while !over.load(Ordering::Acquire) {
        clock.tick().await;
        let streams = asked % 4 >= 2;
        let body =
            chat_with("acme/fast", json!({ "stream": streams, "user": format!("u-{number}-{asked}") }));
        if asked % 8 == 7 {
            leave_within_a_stream(&client, &body.to_string()).await;
        } else if streams {
            if let Ok(mut stream) = client.try_stream(CHAT, &body).await {
                stream.rest().await;
            }
        } else {
            client.post_json(CHAT, &body).await;
        }
        asked += 1;
    }
    asked
}

async fn leave_within_a_stream(client: &Client, body: &str) {
    let mut wire = RawClient::connect(client.addr).await;
    wire.send(client.head("POST", CHAT, Some("application/json"), Some(body.len()))).await;
    wire.send(body).await;
    wire.head().await.expect("an answer");
}

fn descriptors(gateway: &Gateway) -> u64 {
    let folder = format!("/proc/{}/fd", gateway.pid());
    std::fs::read_dir(folder).map_or(0, |entries| entries.count() as u64)
}

/// What the operator does while requests come: reloads, an emptied cache, a deleted payload.
async fn operate(admin: &Client, world: &World, setup: &Setup, round: u64) {
    let file = setup.config(&world.upstream.base_url(), &world.second.base_url());
    let aliases = format!("[aliases]\nround-{round} = \"acme/fast\"\n");
    let new = world.gateway.dir().join("gateway.toml.new");
    std::fs::write(&new, file.replacen("[aliases]\n", &aliases, 1))
        .expect("the test's directory is writable");
    std::fs::rename(new, world.gateway.dir().join("gateway.toml")).expect("the test's directory is writable");
    admin.post_json("/admin/v1/reload", &json!({})).await.ok();
    assert_eq!(admin.send("DELETE", "/admin/v1/cache", None, None).await.status, 200);
    let newest = admin.get("/admin/v1/requests?limit=1").await.ok().json();
    if let Some(id) = newest["data"][0]["id"].as_str() {
        let path = format!("/admin/v1/requests/{id}/payload");
        let status = admin.send("DELETE", &path, None, None).await.status;
        assert!(status < 500, "{status}");
    }
}

async fn rows(admin: &Client) -> u64 {
    let usage = admin.get("/admin/v1/usage?by=key").await.ok().json();
    let groups = usage["data"].as_array().cloned().unwrap_or_default();
    groups.iter().filter_map(|group| group["requests"].as_u64()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p08_steady_load_leaves_one_row_for_each_request_and_no_descriptors_and_memory() {
    let seconds = setting("SOAK_SECONDS", 10);
    let pause = Duration::from_micros(CLIENTS * 1_000_000 / setting("SOAK_REQUESTS_PER_SECOND", 50));
    let extra = format!("[[keys]]\nname = \"steady\"\nkey = \"{KEY}\"\nlog_payloads = true\n");
    let setup = || Setup { server: "reload_on_change = false", extra: extra.clone(), ..Setup::default() };
    let world = setup().start().await;
    let turn = AtomicU64::new(1);
    world.upstream.respond_with(move |request| mostly_healthy(request, turn.fetch_add(1, Ordering::Relaxed)));
    let (admin, over) = (world.client.with_key(ADMIN), Arc::new(AtomicBool::new(false)));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(ask_steadily(world.client.with_key(KEY), number, pause, Arc::clone(&over)));
    }
    let (start, mut memory_kib, mut most_open) = (Instant::now(), Vec::new(), 0);
    let mut clock = tokio::time::interval(Duration::from_secs(1));
    while start.elapsed() < Duration::from_secs(seconds) {
        clock.tick().await;
        operate(&admin, &world, &setup(), memory_kib.len() as u64).await;
        world.upstream.forget_requests();
        memory_kib.push(world.gateway.rss_kib());
        if start.elapsed() < Duration::from_secs(seconds) / 2 {
            most_open = most_open.max(descriptors(&world.gateway));
        }
    }
    over.store(true, Ordering::Release);
    let asked: u64 = clients.join_all().await.into_iter().sum();
    eventually_true("each request has its row", async || rows(&admin).await >= asked).await;
    assert_eq!(rows(&admin).await, asked, "one row for each request");
    eventually_true("no more descriptors are open than under load", async || {
        descriptors(&world.gateway) <= most_open
    })
    .await;
    let (first, second) = memory_kib.split_at(memory_kib.len() / 2);
    let mean = |samples: &[u64]| samples.iter().sum::<u64>() as f64 / samples.len().max(1) as f64;
    let growth = (mean(second) / mean(first) - 1.0) * 100.0;
    println!(
        "soak: {seconds} s, {asked} requests, RSS {:.1} MiB in the first half, {:.1} in the second ({growth:+.1} %)",
        mean(first) / 1024.0,
        mean(second) / 1024.0
    );
    if start.elapsed() >= SHORTEST_RUN_FOR_MEMORY {
        at_most("percent that memory grew in the second half", growth, 5.0);
    }
}

/// Threads that keep the processor busy, two for each of its cores, until the value is dropped.
struct BusyProcessor(Arc<AtomicBool>);

impl BusyProcessor {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..2 * cores {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(over)
    }
}

impl Drop for BusyProcessor {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p09_a_starved_processor_fails_no_request_and_opens_no_circuit() {
    let world = Setup::default().start().await;
    let busy = BusyProcessor::start();
    let mut clients = JoinSet::new();
    for _ in 0..16 {
        let client = world.client.clone();
        clients.spawn(async move {
            for _ in 0..20 {
                let answer = client.post_json(CHAT, &chat("acme/fast")).await.ok().json();
                assert_eq!(answer["gateway"]["provider"], json!("acme"), "no fallback: {answer}");
            }
        });
    }
    let mut slowest = Duration::ZERO;
    while !clients.is_empty() {
        let asked = Instant::now();
        world.client.without_key().get("/healthz").await.ok();
        slowest = slowest.max(asked.elapsed());
        while let Some(done) = clients.try_join_next() {
            done.expect("every chat is answered");
        }
    }
    drop(busy);
    at_most("slowest /healthz of a starved processor", slowest, Duration::from_secs(1));
    let metrics = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    let mut opened = metrics.lines().filter(|line| line.starts_with("gateway_breaker_opened_total"));
    assert!(opened.all(|line| line.ends_with(" 0")), "{metrics}");
    let providers = world.client.with_key(ADMIN).get("/admin/v1/providers").await.ok().text();
    assert!(!providers.contains(r#""standing":"open""#), "{providers}");
}
