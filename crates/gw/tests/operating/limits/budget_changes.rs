//! Budgets that are given, taken away and changed while requests run. Each request counts once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gw_testkit::upstream::chat_body;
use gw_testkit::{Answer, Client, Signal};
use serde_json::{Value, json};

use crate::harness::management::create;
use crate::harness::{ADMIN, assert_error, management, world};

const CHAT: &str = "/v1/chat/completions";
/// The cost of a request, in nano-USD.
const COST_NANO: u64 = 20_000;

/// 10 prompt and 5 completion tokens of `acme/plain` are 0.00002 USD.
fn ask(max_tokens: u64) -> Value {
    json!({ "model": "acme/plain", "max_tokens": max_tokens, "messages": [{ "role": "user", "content": "Hello!" }] })
}

#[tokio::test]
async fn a_budget_that_is_taken_away_and_given_back_remembers() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, made) =
        create(&admin, json!({ "name": "given back", "budget_usd": "0.00005", "budget_period": "total" }))
            .await;
    let path = format!("/admin/v1/keys/{}", made["id"].as_str().expect("an id"));
    let change = async |members: Value| management::ask(&admin, "PATCH", &path, &members).await.ok();
    let client = world.gateway.client().with_key(&secret);
    client.post_json(CHAT, &ask(5)).await.ok();
    change(json!({ "budget_usd": null })).await;
    for _ in 0..5 {
        client.post_json(CHAT, &ask(5)).await.ok();
    }
    change(json!({ "budget_usd": "0.00005", "budget_period": "total" })).await;
    let refused = client.post_json(CHAT, &ask(5)).await;
    assert_error("given back", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert_eq!(world.upstream.hits(), 6, "the upstream gets no request");
}

#[tokio::test]
async fn requests_under_way_when_a_budget_is_given_are_counted_in_it() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, made) = create(&admin, json!({ "name": "under way" })).await;
    let path = format!("/admin/v1/keys/{}", made["id"].as_str().expect("an id"));
    let client = world.gateway.client().with_key(&secret);
    let go: Vec<_> = (0..10).map(|_| Signal::new()).collect();
    let body = chat_body("m", "x").to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let under_way: Vec<_> = go
        .iter()
        .map(|go| {
            world.upstream.enqueue(Answer::steps(Vec::new()).wait(go).bytes(head.clone() + &body));
            let client = client.clone();
            tokio::spawn(async move { client.post_json(CHAT, &ask(5)).await.status })
        })
        .collect();
    world.upstream.request(9).await;
    management::ask(&admin, "PATCH", &path, &json!({ "budget_usd": 0.000_05 })).await.ok();
    // The gateway reads the ledger now, which has no rows of them.
    client.post_json(CHAT, &ask(5)).await.ok();
    go.iter().for_each(Signal::fire);
    for task in under_way {
        assert_eq!(task.await.expect("no panic"), 200);
    }
    assert_eq!(client.post_json(CHAT, &ask(5)).await.code(), "insufficient_quota");
}

/// Sends requests one after the other until they are to end, and counts them.
async fn run(client: Client, (is_over, count): (Arc<AtomicBool>, Arc<AtomicU64>)) {
    while !is_over.load(Ordering::Acquire) {
        client.post_json(CHAT, &ask(5)).await.ok();
        count.fetch_add(1, Ordering::AcqRel);
    }
}

#[tokio::test]
async fn requests_that_end_while_a_changed_budget_asks_the_ledger_count_once() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, made) = create(&admin, json!({ "name": "changed" })).await;
    let path = format!("/admin/v1/keys/{}", made["id"].as_str().expect("an id"));
    let client = world.gateway.client().with_key(&secret);
    let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let running: Vec<_> = (0..8)
        .map(|_| tokio::spawn(run(client.clone(), (Arc::clone(&is_over), Arc::clone(&count)))))
        .collect();
    for period in ["day", "total", "month", "1d"].into_iter().cycle().take(24) {
        management::ask(&admin, "PATCH", &path, &json!({ "budget_usd": 5, "budget_period": period }))
            .await
            .ok();
        let seen = count.load(Ordering::Acquire);
        while count.load(Ordering::Acquire) < seen + 16 {
            tokio::task::yield_now().await;
        }
    }
    is_over.store(true, Ordering::Release);
    for task in running {
        task.await.expect("each request is answered");
    }
    let me = client.get("/v1/me").await.ok().json();
    let spent_nano = me["limits"][0]["budget"]["spent_usd"].as_f64().map(|usd| (usd * 1e9).round());
    assert_eq!(spent_nano, Some((COST_NANO * count.load(Ordering::Acquire)) as f64), "{me}");
}
