//! Clients that disconnect at any moment, gracefully or not: the upstream call ends, the ledger has one row, and no budget
//! stays reserved.

use std::time::Duration;

use gw_store::Store;
use gw_store::ledger::{Entry, Filter};
use gw_testkit::upstream::{DRIP, Recorded, Step, chat_transcript};
use gw_testkit::wait::{eventually_ok, eventually_true};
use gw_testkit::{Answer, Gateway, within};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, World, world};

const CHAT: &str = "/v1/chat/completions";
/// The number of disconnects. The guarantee's thousand: `C02_TIMES=1000`.
const TIMES: usize = 200;
const AT_ONCE: usize = 20;

fn times() -> usize {
    std::env::var("C02_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(TIMES)
}

/// Sends the first `sent` bytes of a streamed chat, reads `read` bytes of its answer, and disconnects.
async fn send_and_disconnect(
    gateway: &Gateway,
    key: &str,
    user: &str,
    sent: Option<usize>,
    read: usize,
    reset: bool,
) {
    let body = json!({ "model": "acme/plain", "user": user, "stream": true, "max_tokens": 5,
        "messages": [{ "role": "user", "content": "Hello!" }] })
    .to_string();
    let request = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut socket = TcpStream::connect(gateway.addr).await.expect("the gateway accepts");
    let bytes = request.as_bytes();
    let _ = socket.write_all(&bytes[..sent.unwrap_or(bytes.len()).min(bytes.len())]).await;
    let mut answer = vec![0; read.max(1)];
    if read > 0 {
        let reading = socket.read_exact(&mut answer);
        let _ = tokio::time::timeout(Duration::from_secs(10), reading).await;
    }
    if reset {
        socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO)).expect("an option of every socket");
    }
}

/// An endless stream with a word from time to time.
fn endless(_: &Recorded) -> Answer {
    let pieces = chat_transcript(&["word "]);
    Answer::sse().all(&pieces[..1]).then(Step::Endless(format!("data: {}\n\n", pieces[1]).into_bytes(), DRIP))
}

async fn rows(world: &World) -> Vec<Entry> {
    let store = Store::open(&world.gateway.dir().join("data/gateway.db")).await.expect("the store");
    let rows = store.requests(&Filter::default(), None, 100_000).await.expect("rows");
    store.close().await;
    rows
}

/// Checks that nothing stays reserved: a budget of the spending plus one small request lets that request pass.
async fn nothing_is_set_aside(world: &World, key: &str, made: &serde_json::Value) {
    let admin = world.gateway.client().with_key(ADMIN);
    let path = format!("/admin/v1/keys/{}", made["id"].as_str().expect("an id"));
    let spent: i128 = rows(world)
        .await
        .iter()
        .filter(|row| Some(&*row.key_id) == made["id"].as_str())
        .map(|row| row.cost)
        .sum();
    let budget = format!(
        "{}.{:09}",
        (spent / 1_000_000 + 20_000) / 1_000_000_000,
        (spent / 1_000_000 + 20_000) % 1_000_000_000
    );
    let patched = ask(&admin, "PATCH", &path, &json!({ "budget_usd": budget })).await;
    assert_eq!(patched.status, 200, "{}", patched.text());
    world.upstream.respond_with(gw_testkit::upstream::default_answer);
    let small = json!({ "model": "acme/plain", "max_tokens": 5, "messages": [{ "role": "user", "content": "Hello!" }] });
    world.gateway.client().with_key(key).post_json(CHAT, &small).await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c02_a_client_that_leaves_at_any_moment_is_one_row_and_nothing_stays_set_aside() {
    let world = world().await;
    let (key, made) = create(
        &world.gateway.client().with_key(ADMIN),
        json!({ "name": "leaves", "budget_usd": "10", "budget_period": "total", "tpm": 1_000_000_000u64 }),
    )
    .await;
    world.upstream.respond_with(endless);
    for first in (0..times()).step_by(AT_ONCE) {
        let leaving = (first..first + AT_ONCE).map(|number| {
            // From the first byte of the head to some way into the content.
            let read = (number * 97) % 1_400 + 1;
            let (world, key) = (&world, &key);
            async move {
                send_and_disconnect(&world.gateway, key, &format!("u-{number}"), None, read, number % 2 == 0)
                    .await
            }
        });
        futures_util::future::join_all(leaving).await;
    }
    for request in world.upstream.requests() {
        request.until_closed().await;
    }
    let called = world.upstream.hits();
    let rows = eventually_ok("every call has its row", async || {
        let rows = rows(&world).await;
        if rows.len() >= called { Ok(rows) } else { Err(format!("{} rows of {called}", rows.len())) }
    })
    .await;
    assert_eq!(rows.len(), called, "one row for each");
    assert_eq!(called, times());
    for row in &rows {
        assert_eq!(row.status, "client_closed_request", "{row:?}");
        assert!(row.estimated && row.cost > 0, "the sent text is charged: {row:?}");
    }
    nothing_is_set_aside(&world, &key, &made).await;
}

/// Waits until no request is in flight; the gateway does not count requests for its metrics.
async fn until_idle(world: &World) {
    let admin = world.gateway.client().with_key(ADMIN);
    within("every request has ended", async {
        while !admin.get("/metrics").await.ok().text().contains("\ngateway_http_in_flight 0\n") {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c04_a_client_that_leaves_while_sending_costs_nothing() {
    let world = world().await;
    let (key, made) = create(
        &world.gateway.client().with_key(ADMIN),
        json!({ "name": "leaves", "budget_usd": "1", "budget_period": "total", "max_in_flight": 30 }),
    )
    .await;
    for number in 0..100_usize {
        send_and_disconnect(&world.gateway, &key, "u", Some(number * 2 + 20), 0, number % 2 == 0).await;
    }
    until_idle(&world).await;
    // All thirty permits are free again.
    let client = world.gateway.client().with_key(&key);
    let small = json!({ "model": "acme/plain", "max_tokens": 5, "messages": [{ "role": "user", "content": "Hello!" }] });
    let answers = futures_util::future::join_all((0..30).map(|_| client.post_json(CHAT, &small))).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200; 30]);
    let hits = world.upstream.hits();
    assert_eq!(hits, 30, "no request of a client that left was sent on");
    eventually_true("the ledger has every row", async || {
        rows(&world).await.iter().filter(|row| row.status == "ok").count() >= hits
    })
    .await;
    nothing_is_set_aside(&world, &key, &made).await;
}
