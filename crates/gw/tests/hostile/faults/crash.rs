//! P1: the process is killed repeatedly with requests in flight. Every request that reached an upstream has exactly one row,
//! and the row equals the client's answer.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gw_store::Store;
use gw_store::ledger::{Entry, Filter};
use gw_testkit::upstream::{Recorded, default_answer};
use gw_testkit::{FakeUpstream, Gateway, Launch, eventually};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::harness::{KEY, Setup, binary, send_chat};

/// Requests in flight when the process is killed.
const IN_FLIGHT: usize = 50;

/// The number of kills (`kill -9`): `P1_ROUNDS`, or the default.
pub(crate) fn rounds() -> usize {
    std::env::var("P1_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20)
}

/// The request ids of complete answers, by `user`.
type DeliveredTexts = Arc<Mutex<HashMap<String, String>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p01_a_killed_process_loses_and_doubles_nothing_on_sqlite() {
    let data = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite://{}", data.path().join("gateway.db").display());
    killed_again_and_again(&url, data.path(), rounds()).await;
}

/// The test for any store.
pub(crate) async fn killed_again_and_again(url: &str, data: &Path, rounds: usize) {
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(default_answer);
    let extra = format!("[store]\nurl = \"{url}\"\n");
    let config = Setup { extra, ..Setup::default() }.config(&upstream.base_url(), &upstream.base_url());
    let told = DeliveredTexts::default();
    for round in 0..rounds {
        let gateway = start(&config, data).await;
        let load = Load::start(gateway.addr, round, &told);
        // Each round kills at another number of calls.
        let wanted = upstream.hits() + 1 + (round * 37) % 211;
        eventually("the upstream is called", || (upstream.hits() >= wanted).then_some(())).await;
        let _ = gateway.stop();
        load.ended().await;
    }
    let gateway = start(&config, data).await;
    let store = Store::open_url(url).await.expect("the store");
    let told = told.lock().expect("no panic").clone();
    compare(&store, &upstream, &told).await;
    store.close().await;
    drop(gateway);
}

async fn start(config: &str, data: &Path) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await
}

/// Clients that send requests until the process is gone.
struct Load {
    clients: tokio::task::JoinSet<()>,
    over: Arc<AtomicBool>,
}

impl Load {
    fn start(addr: SocketAddr, round: usize, told: &DeliveredTexts) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..IN_FLIGHT {
            let (told, over) = (Arc::clone(told), Arc::clone(&over));
            clients.spawn(async move {
                for number in 0.. {
                    let user = format!("{round}-{client}-{number}");
                    let Some(id) = ask(addr, &user, (client + number) % 2 == 0).await else { return };
                    told.lock().expect("no panic").insert(user, id);
                    if over.load(Ordering::Acquire) {
                        return;
                    }
                }
            });
        }
        Self { clients, over }
    }

    async fn ended(mut self) {
        self.over.store(true, Ordering::Release);
        while let Some(ended) = self.clients.join_next().await {
            ended.expect("a client does not panic");
        }
    }
}

/// Sends one request; gives the request id of a complete answer, or `None` when the gateway is gone.
async fn ask(addr: SocketAddr, user: &str, stream: bool) -> Option<String> {
    let body = json!({ "model": "acme/fast", "user": user, "stream": stream,
        "messages": [{ "role": "user", "content": "Hello" }] });
    let mut socket = send_chat(addr, KEY, &body).await?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let end = if stream { "data: [DONE]\n\n\r\n0\r\n\r\n" } else { "}" };
    if !answer.starts_with("HTTP/1.1 200") || !answer.ends_with(end) {
        return None;
    }
    let (_, id) = answer.split_once("x-request-id: ")?;
    id.split("\r\n").next().map(str::to_owned)
}

/// Compares the ledger with the upstream's own log and with the clients' answers.
async fn compare(store: &Store, upstream: &FakeUpstream, told: &HashMap<String, String>) {
    let rows = store.requests(&Filter::default(), None, u32::MAX >> 1).await.expect("the ledger");
    let mut by_user: HashMap<&str, Vec<&Entry>> = HashMap::new();
    for row in &rows {
        by_user.entry(row.user.as_deref().unwrap_or("")).or_default().push(row);
    }
    let user = |request: &Recorded| request.json()["user"].as_str().unwrap_or("").to_owned();
    let called: Vec<String> = upstream.requests().iter().map(|request| user(request)).collect();
    assert!(!called.is_empty());
    for user in &called {
        let rows = by_user.get(user.as_str()).map_or(0, Vec::len);
        assert_eq!(rows, 1, "request {user} reached the upstream and has {rows} rows");
    }
    for (user, id) in told {
        let row = by_user.get(user.as_str()).and_then(|rows| rows.first());
        let row = row.unwrap_or_else(|| panic!("{user} was answered and has no row"));
        assert_eq!((&*row.request_id, &*row.status), (&**id, "ok"), "{user}");
        assert_eq!((row.tokens.prompt, row.tokens.completion, row.cost), (10, 5, 4_500_000_000), "{user}");
    }
    let sums = store.total(&Filter::default()).await.expect("sums");
    assert_eq!(sums.requests as usize, rows.len(), "the sums equal the rows");
    assert_eq!(sums.cost, rows.iter().map(|row| row.cost).sum::<i128>());
    let interrupted = rows.iter().filter(|row| row.status == "interrupted").count();
    assert!(interrupted > 0, "the process was killed in the middle of requests: {} rows", rows.len());
}
