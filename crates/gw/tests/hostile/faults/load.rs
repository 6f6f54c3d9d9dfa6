//! Many clients at once: each gets its own answer, no resources leak, and a slow reader costs little.

use std::time::{Duration, Instant};

use gw_testkit::measured::at_most;
use gw_testkit::sse::text_of;
use gw_testkit::upstream::{Step, chat_body, chat_transcript, sse_data};
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{ADMIN, World, chat_with, world};

const CHAT: &str = "/v1/chat/completions";

/// A request whose answer repeats `word`.
fn ask(word: &str, stream: bool) -> Value {
    chat_with("acme/fast", json!({ "stream": stream, "messages": [{ "role": "user", "content": word }] }))
}

fn repeat_the_question(world: &World) {
    world.upstream.respond_with(|request| {
        let body = request.json();
        let word = body["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
        if body["stream"] == json!(true) {
            let (first, second) = word.split_at(word.len() / 2);
            return Answer::sse().all(&chat_transcript(&[first, second])).done();
        }
        Answer::json(200, &chat_body("m", &word))
    });
}

#[tokio::test]
async fn answers_find_their_askers() {
    let world = world().await;
    repeat_the_question(&world);
    let mut clients = JoinSet::new();
    for number in 0..200 {
        let client = world.client.clone();
        clients.spawn(async move {
            let word = format!("word-{number:04}-{}", "x".repeat(number));
            if number % 2 == 0 {
                let answer = client.post_json(CHAT, &ask(&word, false)).await.ok();
                assert_eq!(answer.json()["choices"][0]["message"]["content"], word);
                return answer.header("x-request-id").map(str::to_owned);
            }
            let mut stream = client.stream(CHAT, &ask(&word, true)).await;
            let id = stream.head.header("x-request-id").map(str::to_owned);
            assert_eq!(text_of(&stream.rest().await, 0), word);
            id
        });
    }
    let ids: std::collections::BTreeSet<_> = clients.join_all().await.into_iter().flatten().collect();
    assert_eq!(ids.len(), 200, "every request has its own id");
}

/// The value of a metric without labels.
async fn gauge(world: &World, name: &str) -> f64 {
    let text = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    let line = text.lines().find(|line| !line.starts_with('#') && line.contains(name)).map(str::to_owned);
    let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[tokio::test]
async fn clients_that_leave_at_any_time_leave_nothing_behind() {
    let world = world().await;
    let drip = format!("data: {}\n\n", sse_data(&json!({ "content": "x" }), None)).into_bytes();
    world.upstream.respond_with(move |request| {
        let streamed = request.json()["stream"] == json!(true);
        let endless = Step::Endless(drip.clone(), Duration::from_millis(2));
        if streamed { Answer::sse().then(endless) } else { Answer::default().hang() }
    });
    let mut clients = JoinSet::new();
    for number in 0_u64..90 {
        let client = world.client.clone();
        clients.spawn(async move {
            let body = ask("hello", number % 3 != 0).to_string();
            let mut wire = RawClient::connect(client.addr).await;
            wire.send(client.head("POST", CHAT, Some("application/json"), Some(body.len()))).await;
            // Some clients disconnect within the body, some at once, some after a number of bytes of the answer.
            if number % 10 == 9 {
                wire.send(&body[..10]).await;
            } else {
                wire.send(&body).await;
                if number % 3 != 0 {
                    let head = wire.head().await.expect("a stream");
                    wire.expect_body(&head, false);
                    for _ in 0..number % 7 {
                        wire.body_chunk().await.expect("more of the stream");
                    }
                }
            }
            if number % 2 == 0 { wire.reset() } else { drop(wire) }
        });
    }
    clients.join_all().await;
    let left = Instant::now();
    while gauge(&world, "in_flight").await > 1.0 {
        assert!(left.elapsed() < gw_testkit::wait::DEADLINE, "requests are still counted");
    }
    let open = || world.upstream.requests().iter().all(|request| request.closed_at().is_some()).then_some(());
    eventually("every upstream call is closed", open).await;
    // The gateway may not see a client that resets at once. Every other client has exactly one log line.
    let called = world.upstream.hits();
    let all_told = || {
        let lines = world.gateway.logs();
        let gone = lines.iter().filter(|line| line["code"] == "client_closed_request").count();
        assert!(gone <= 90, "one line each: {gone}");
        (gone >= called).then_some(())
    };
    eventually("one line for each client that left", all_told).await;
    world.upstream.respond_with(gw_testkit::upstream::default_answer);
    world.chat_ok(&ask("still there?", false)).await;
}

#[tokio::test]
async fn c01_a_reader_that_stops_costs_little() {
    let world = world().await;
    // The first streams load the code and buffers that all streams use.
    for _ in 0..3 {
        world.client.stream(CHAT, &ask("x", true)).await.rest().await;
    }
    let before = world.gateway.rss_kib();
    let piece =
        format!("data: {}\n\n", sse_data(&json!({ "content": "y".repeat(16 * 1024) }), None)).into_bytes();
    world.upstream.always(Answer::sse().then(Step::Endless(piece, Duration::ZERO)));
    let body = ask("x", true).to_string();
    let mut readers = Vec::new();
    for _ in 0..8 {
        let mut wire = RawClient::connect_with_receive_buffer(world.gateway.addr, 8 * 1024).await;
        wire.send(world.client.head("POST", CHAT, Some("application/json"), Some(body.len())) + &body).await;
        readers.push(wire);
    }
    // Other clients are served while these do not read.
    world.second.always(Answer::sse().all(&chat_transcript(&["fine"])).done());
    let other = chat_with("beta/fast", json!({ "stream": true }));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        let frames = world.client.stream(CHAT, &other).await.rest().await;
        assert_eq!(text_of(&frames, 0), "fine");
    }
    let grown = world.gateway.rss_kib().saturating_sub(before);
    at_most("KiB of 8 readers that stopped", grown, 8 * 1024);
}
