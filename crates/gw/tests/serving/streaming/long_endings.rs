//! The end of a long response repeats its text. It counts as a large event until its client has it (C32, C36).

use gw_testkit::upstream::sse_data;
use gw_testkit::wait::eventually_true;
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Client, Gateway, Signal};
use serde_json::{Value, json};

use crate::harness::ledger::rows;
use crate::harness::{ADMIN, Setup, World};

const RESPONSES: &str = "/v1/responses";
const DELTA: &str = "event: response.output_text.delta\n";
/// The pieces of an answer of 8 MB. No piece is a large event.
const PIECES: usize = 134;

async fn event_bytes(gateway: &Gateway) -> u64 {
    let text = gateway.client().with_key(ADMIN).get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix("gateway_stream_event_bytes "));
    line.expect("the metrics tell it").parse().expect("a number")
}

fn cut(world: &World) -> usize {
    world.gateway.logs().iter().filter(|line| line["code"] == "upstream_stream_error").count()
}

/// A client that reads all the text of an answer. Then the upstream ends the answer, and the client reads no more.
async fn stalled_at_the_end(world: &World, store: bool) -> RawClient {
    let gate = Signal::new();
    let end = sse_data(&json!({}), Some("stop"));
    world.upstream.enqueue(Answer::sse().all(&text()).wait(&gate).all(&[end]).done());
    let body = json!({"model": "acme/unpriced", "input": "Write a book.", "stream": true, "store": store});
    let wire = reads_pieces(&world.client, &body, PIECES).await;
    gate.fire();
    wire
}

fn text() -> Vec<Value> {
    vec![sse_data(&json!({"content": "word ".repeat(12_000)}), None); PIECES]
}

/// A client that reads so many pieces of the answer, and no more.
async fn reads_pieces(client: &Client, body: &Value, pieces: usize) -> RawClient {
    let body = body.to_string();
    let mut wire = RawClient::connect_with_receive_buffer(client.addr, 128 * 1024).await;
    let head = client.head("POST", RESPONSES, Some("application/json"), Some(body.len()));
    wire.send(head + &body).await;
    let head = wire.head().await.expect("a head");
    assert_eq!(head.status, 200);
    wire.expect_body(&head, false);
    let mut seen = 0;
    while seen < pieces {
        let chunk = wire.body_chunk().await.expect("the stream is whole").expect("more text");
        seen += String::from_utf8_lossy(&chunk).matches(DELTA).count();
    }
    wire
}

#[tokio::test]
async fn c32_the_end_of_a_long_response_counts_until_its_client_has_it() {
    let setup = Setup { acme: "responses = false".to_owned(), ..Setup::default() };
    let world = setup.start().await;
    let mut waiting = Vec::new();
    for at in 0..6_u64 {
        waiting.push(stalled_at_the_end(&world, at % 2 == 0).await);
        // Four events repeat the 8 MB. Beyond its share of 128 MiB the key's stream ends as for any large event.
        eventually_true("the end is counted or cut", async || {
            !(event_bytes(&world.gateway).await < (at + 1) * 32_000_000 && cut(&world) == 0)
        })
        .await;
        let held = event_bytes(&world.gateway).await;
        assert!(held <= 128 << 20, "{held} bytes after {at} others");
        if cut(&world) > 0 {
            break;
        }
    }
    assert!((3..6).contains(&waiting.len()), "{} ends", waiting.len());
    // Another key has its own share.
    let other = world.gateway.client().with_key(ADMIN);
    let text = sse_data(&json!({"content": "word ".repeat(200_000)}), None);
    let end = sse_data(&json!({}), Some("stop"));
    world.upstream.enqueue(Answer::sse().all(&[text, end]).done());
    let body = json!({"model": "acme/unpriced", "input": "Write a page.", "stream": true});
    let frames = other.stream(RESPONSES, &body).await.rest().await;
    assert!(frames.iter().any(|frame| frame.contains("response.completed")), "{:.300}", frames.concat());
    drop(waiting);
    eventually_true("the memory is given back", async || event_bytes(&world.gateway).await == 0).await;
}

#[tokio::test]
async fn c32_the_end_of_a_response_that_its_budget_cuts_counts_until_its_client_has_it() {
    let key = |name: &str| {
        format!("[[keys]]\nname = \"{name}\"\nkey = \"sk-{name}\"\nbudget_usd = 1.5\non_budget = \"cut\"\n")
    };
    let setup = Setup {
        acme: "responses = false".to_owned(),
        extra: key("a-reader-of-the-whole-answer") + &key("a-reader-that-stalls-at-the-end"),
        ..Setup::default()
    };
    let world = setup.start().await;
    let body = json!({"model": "acme/plain", "input": "Write a book.", "stream": true});
    let answer = || Answer::sse().all(&text()).wait(&Signal::new());
    // The budget ends both answers after as many pieces.
    world.upstream.enqueue(answer());
    let whole = world.gateway.client().with_key("sk-a-reader-of-the-whole-answer");
    let frames = whole.stream(RESPONSES, &body).await.rest().await;
    let pieces: usize = frames.iter().map(|frame| frame.matches(DELTA).count()).sum();
    let is_cut = frames.iter().any(|frame| frame.contains("\"code\":\"insufficient_quota\""));
    assert!(is_cut && (20..PIECES).contains(&pieces), "{pieces} pieces");
    world.upstream.enqueue(answer());
    let stalled = world.gateway.client().with_key("sk-a-reader-that-stalls-at-the-end");
    let stalled = reads_pieces(&stalled, &body, pieces).await;
    // Its row is written after the end was made, so the memory in which the end was made no longer counts.
    rows(&world.gateway, 2).await;
    eventually_true("the end is counted", async || {
        event_bytes(&world.gateway).await >= pieces as u64 * 60_000
    })
    .await;
    drop(stalled);
}
