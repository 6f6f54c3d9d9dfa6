//! The memory of the process for its cache is bounded, however many answers pass through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gw_testkit::measured::at_most;
use gw_testkit::{Client, Gateway};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{ADMIN, KEY, Setup, chat_with, serve};

const MAX_MIB: u64 = 16;
const MIB: u64 = 1 << 20;
/// The tolerated difference between two processes with equal work: the allocator's reserve and the store's caches.
const NOISE: u64 = 3 * MIB;
const WORKERS: usize = 4;
/// The length of a question and of the answer that repeats it, in bytes.
const SIZES: [usize; 4] = [200, 4_000, 16_000, 48_000];

fn question(number: usize, cached: bool) -> Value {
    let text = format!("{number} ").repeat(SIZES[number % SIZES.len()] / 8);
    let messages = json!([{ "role": "user", "content": text }]);
    chat_with("demo/chat", json!({ "messages": messages, "cache": { "enabled": cached } }))
}

/// Sends this many new questions; gives the largest memory of the process meanwhile, in bytes.
async fn ask(gateway: &Arc<Gateway>, many: usize, cached: bool) -> u64 {
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (gateway, next) = (Arc::clone(gateway), Arc::clone(&next));
        workers.spawn(async move {
            let client = gateway.client().with_key(KEY);
            let mut wire = client.open("GET", "/healthz", None, None).await;
            wire.response().await.expect("it is there");
            let mut most = 0;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= many {
                    return most;
                }
                let body = question(number, cached).to_string();
                wire.send(client.head(
                    "POST",
                    "/v1/chat/completions",
                    Some("application/json"),
                    Some(body.len()),
                ))
                .await;
                wire.send(body).await;
                let answer = wire.response().await.expect("an answer").ok();
                let told = if cached { "MISS" } else { "BYPASS" };
                assert_eq!(answer.header("x-gateway-cache").unwrap_or_default(), told);
                if number % 64 == 0 {
                    most = most.max(gateway.rss_kib() * 1024);
                    assert!(figures(&gateway.client()).await["bytes"].as_u64() <= Some(MAX_MIB * MIB));
                }
            }
        });
    }
    workers.join_all().await.into_iter().max().unwrap_or_default()
}

async fn figures(client: &Client) -> Value {
    client.with_key(ADMIN).get("/admin/v1/cache").await.ok().json()
}

/// The guarantee is `CACHE_ANSWERS=1000000`. The default fills the cache twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_grows_by_what_the_cache_may_hold_and_a_tenth_at_most() {
    let answers = std::env::var("CACHE_ANSWERS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_400);
    let extra = format!("[cache]\nmax_mib = {MAX_MIB}\n");
    let config = Setup { extra, ..Setup::default() }.config("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1");
    let (gateway, other) = (Arc::new(serve(&config).await), Arc::new(serve(&config).await));
    // Equal traffic without the cache shows how much memory the traffic itself takes.
    let (most, without) = tokio::join!(ask(&gateway, answers, true), ask(&other, answers, false));
    let figures = figures(&gateway.client()).await;
    let grown = most.saturating_sub(without);
    let shown = format!("{} KiB more than {} KiB: {figures}", grown >> 10, without >> 10);
    println!("{shown}");
    assert_eq!(figures["stored"], json!(answers), "{shown}");
    // The cache is full and has evicted many answers.
    assert!(figures["bytes"].as_u64() > Some(MAX_MIB * MIB * 9 / 10), "{shown}");
    assert!(figures["entries"].as_u64() < Some(answers as u64 * 3 / 4), "{shown}");
    at_most("bytes of a full cache", grown, MAX_MIB * MIB * 11 / 10 + NOISE);
}
