//! Budgets that are never exceeded (`on_budget = "cut"`), and the charges of a killed process for its open streams.

use std::time::Duration;

use gw_testkit::sse::chunks;
use gw_testkit::upstream::{Recorded, Step, chat_body, chat_transcript};
use gw_testkit::{Answer, FakeUpstream, Gateway, Launch, eventually};
use serde_json::json;

use crate::harness::ledger::rows;
use crate::harness::{KEY, Setup, World, assert_error, binary};
use crate::limits::budgets::{client, key};

const CHAT: &str = "/v1/chat/completions";
/// `acme/plain` costs 1 and 2 USD per million tokens.
const TOKEN: i128 = 1_000_000_000;
/// Tokens that a stream may cost beyond its budget (docs/keys.md).
const BEYOND: i128 = 100;

fn stream() -> serde_json::Value {
    json!({ "model": "acme/plain", "stream": true, "stream_options": { "include_usage": true },
            "messages": [{ "role": "user", "content": "Hello!" }] })
}

/// An endless stream with a word of four letters per chunk.
fn endless(_: &Recorded) -> Answer {
    let pieces = chat_transcript(&["word "]);
    let word = format!("data: {}\n\n", pieces[1]).into_bytes();
    Answer::sse().all(&pieces[..1]).then(Step::Endless(word, Duration::from_micros(200)))
}

#[tokio::test]
async fn a_stream_is_cut_when_its_budget_ends() {
    let world = key("budget_usd = 0.001\non_budget = \"cut\"").start().await;
    world.upstream.respond_with(endless);
    let frames = client(&world).stream(CHAT, &stream()).await.rest().await;
    assert_eq!(frames.last().map(|frame| frame.trim()), Some("data: [DONE]"));
    let chunks = chunks(&frames[..frames.len() - 1]);
    let [.., usage, error] = chunks.as_slice() else { panic!("{frames:?}") };
    assert_eq!(
        (&error["error"]["type"], &error["error"]["code"]),
        (&json!("insufficient_quota"), &json!("insufficient_quota")),
        "{error}"
    );
    let told = usage["usage"]["cost_usd"].as_f64().expect("a cost");
    assert!(told > 0.0008 && told <= 0.001 + BEYOND as f64 * 2e-6, "nearly all of it is used: {usage}");
    world.upstream.last().until_closed().await;
    let row = rows(&world.gateway, 1).await.remove(0);
    assert_eq!(row.status, "insufficient_quota");
    assert!((800_000 * TOKEN / 1000..=(1000 + BEYOND * 2) * TOKEN).contains(&row.cost), "{row:?}");
    // The budget is used up for the next request.
    let refused = client(&world).try_stream(CHAT, &stream()).await.expect_err("no budget");
    assert_error("spent", &refused, 429, "insufficient_quota", "insufficient_quota");
}

/// Fast upstreams and proxies on the way send many events in one packet.
#[tokio::test]
async fn a_stream_whose_events_come_at_once_is_cut_where_the_money_ends() {
    let messages = json!([{ "role": "user", "content": "Hello!" }]);
    let asked = [
        (CHAT, json!({ "model": "acme/plain", "stream": true, "messages": messages })),
        (
            "/v1/messages",
            json!({ "model": "acme/plain", "stream": true, "max_tokens": 30_000, "messages": messages }),
        ),
        ("/v1/responses", json!({ "model": "acme/plain", "stream": true, "input": "Hello!" })),
    ];
    for (path, body) in asked {
        for piece_tokens in [1, 20, 80] {
            let world = key("budget_usd = 0.001\non_budget = \"cut\"").start().await;
            // 20,000 tokens in all.
            let piece = "abc".repeat(piece_tokens);
            let pieces = chat_transcript(&vec![piece.as_str(); 20_000 / piece_tokens]);
            let events: String = pieces.iter().map(|piece| format!("data: {piece}\n\n")).collect();
            let answer =
                Answer::full(200, &[("content-type", "text/event-stream")], events + "data: [DONE]\n\n");
            world.upstream.respond_with(move |request| match &*request.path {
                "/v1/responses" => Answer::error(404, "x", "only chats"),
                _ => answer.clone(),
            });
            client(&world).stream(path, &body).await.rest().await;
            let row = rows(&world.gateway, 1).await.remove(0);
            assert_eq!(row.status, "insufficient_quota", "{path}, {piece_tokens}");
            // The cut is up to 32 tokens before the end of the money. An event passes whole.
            let spent = (1_000 - 2 * (32 + piece_tokens as i128))..=(1_000 + 2 * piece_tokens as i128);
            assert!(spent.contains(&(row.cost / TOKEN)), "{path}, {piece_tokens}: {}", row.cost / TOKEN);
        }
    }
}

/// The prompt of 408 tokens costs 0.000408 USD. As a part of the answer its echo would cost 0.0008 USD more.
#[tokio::test]
async fn the_echo_of_a_prompt_uses_no_money() {
    let world = key("budget_usd = 0.0006\non_budget = \"cut\"").start().await;
    let prompt = "lorem ipsum ".repeat(100);
    let piece = |text: &str, finish: Option<&str>| {
        let choice = json!({ "index": 0, "text": text, "logprobs": null, "finish_reason": finish });
        json!({ "id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice] })
    };
    let mut pieces = vec![piece(&prompt, None)];
    pieces.extend((0..20).map(|_| piece("word ", None)));
    pieces.push(piece("", Some("stop")));
    pieces.push(json!({ "id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [],
                "usage": { "prompt_tokens": 400, "completion_tokens": 20, "total_tokens": 420 } }));
    world.upstream.always(Answer::sse().all(&pieces).done().end());
    let asked =
        json!({ "model": "acme/plain", "prompt": prompt, "echo": true, "max_tokens": 200, "stream": true });
    let frames = client(&world).stream("/v1/completions", &asked).await.rest().await;
    assert_eq!(frames.iter().filter(|frame| frame.contains("word ")).count(), 20, "{frames:?}");
    let row = rows(&world.gateway, 1).await.remove(0);
    assert_eq!((&*row.status, row.cost), ("ok", 440 * TOKEN));
}

/// 10 prompt tokens and 20 of the answer cost 50 tokens' worth. No tokens can follow that the rest of the budget would have to pay.
#[tokio::test]
async fn a_stream_whose_worst_case_fits_is_not_cut() {
    let world = key("budget_usd = 0.00006\non_budget = \"cut\"").start().await;
    world.upstream.always(Answer::sse().all(&chat_transcript(&["word "; 20])).done().end());
    let mut body = stream();
    body["max_tokens"] = json!(20);
    let frames = client(&world).stream(CHAT, &body).await.rest().await;
    assert_eq!(frames.iter().filter(|frame| frame.contains("word ")).count(), 20, "{:?}", frames.last());
    let row = rows(&world.gateway, 1).await.remove(0);
    assert_eq!(row.status, "ok", "{row:?}");
}

#[tokio::test]
async fn a_stream_that_another_upstream_goes_on_with_is_cut_like_any_other() {
    let setup = key("budget_usd = 0.001\non_budget = \"cut\"");
    let world = Setup { routing: "retries = 0\nmid_stream = \"continue\"", ..setup }.start().await;
    // The first upstream sends 334 of the 495 tokens that the budget pays, so that the rest pays the longer prompt of the next one and 64
    // tokens. The next one continues without an end.
    let pieces = chat_transcript(&["word "]);
    let said = vec![pieces[1].clone(); 200];
    world.upstream.enqueue(Answer::sse().all(&pieces[..1]).all(&said).reset());
    world.second.respond_with(endless);
    let mut body = stream();
    body["routing"] = json!({ "fallback": ["beta/fast"] });
    let frames = client(&world).stream(CHAT, &body).await.rest().await;
    assert!(frames.iter().any(|frame| frame.contains("insufficient_quota")), "{:?}", frames.last());
    let row = rows(&world.gateway, 1).await.remove(0);
    assert_eq!((&*row.status, row.attempts.len()), ("insufficient_quota", 2), "{row:?}");
    assert!((900 * TOKEN..=(1000 + BEYOND * 2) * TOKEN).contains(&row.cost), "{row:?}");
}

/// The budget that two hundred streams share, in tokens of an answer.
const SHARED_TOKENS: i128 = 25_000;

/// Two hundred streams at one time under one budget: their cost in the ledger in femto-USD, and the number of pieces that the clients
/// got.
async fn two_hundred(world: &World, body: &serde_json::Value, piece: &'static str) -> (i128, usize) {
    let mut streams = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let (client, body) = (client(world), body.clone());
        streams.spawn(async move {
            match client.try_stream(CHAT, &body).await {
                Ok(mut stream) => {
                    let frames = stream.rest().await;
                    frames.iter().filter(|frame| frame.contains(piece)).count()
                }
                Err(refused) => {
                    assert_eq!(refused.status, 429, "{}", String::from_utf8_lossy(&refused.body));
                    0
                }
            }
        });
    }
    let pieces = streams.join_all().await.into_iter().sum();
    let mut count = world.upstream.hits();
    loop {
        let found = rows(&world.gateway, count).await;
        if found.iter().filter(|row| row.tokens.completion > 0).count() >= world.upstream.hits() {
            return (found.iter().map(|row| row.cost).sum(), pieces);
        }
        count = found.len() + 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_streams_together_do_not_cross_a_budget() {
    let world = key("budget_usd = 0.05\non_budget = \"cut\"").start().await;
    world.upstream.respond_with(endless);
    let (spent, _) = two_hundred(&world, &stream(), "word ").await;
    let (streams, over) = (world.upstream.hits() as i128, spent - SHARED_TOKENS * 2 * TOKEN);
    println!("{streams} streams, {} femto-USD over a budget of 0.05 USD", over.max(0));
    assert!(over <= streams * BEYOND * 2 * TOKEN, "{over}");
    assert!(spent > 40_000 * TOKEN, "{spent}");
}

/// The tokenizers of OpenAI, Meta and Mistral make up to three tokens of one emoji.
fn dense(_: &Recorded) -> Answer {
    let pieces = chat_transcript(&["\u{1f642}"]);
    let piece = format!("data: {}\n\n", pieces[1]).into_bytes();
    Answer::sse().all(&pieces[..1]).then(Step::Endless(piece, Duration::from_micros(200)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_streams_of_dense_tokens_do_not_cross_a_budget() {
    let world = key("budget_usd = 0.05\non_budget = \"cut\"").start().await;
    world.upstream.respond_with(dense);
    let (_, pieces) = two_hundred(&world, &stream(), "\u{1f642}").await;
    let (streams, truth) = (world.upstream.hits() as i128, pieces as i128 * 3);
    println!("{streams} streams, {truth} dense tokens of a budget of {SHARED_TOKENS}");
    assert!(truth <= SHARED_TOKENS + streams * BEYOND, "{truth}");
}

/// Reasoning tokens that an upstream bills beyond `max_tokens` and reports only in its usage.
const HIDDEN: u64 = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reasoning_that_no_stream_shows_is_beyond_the_budget_once_for_each_stream_under_way() {
    let world = key("budget_usd = 0.05\non_budget = \"cut\"").start().await;
    world.upstream.respond_with(|_| {
        let pieces = chat_transcript(&["word "]);
        let usage = json!({ "prompt_tokens": 10, "completion_tokens": 100 + HIDDEN, "total_tokens": 110 + HIDDEN,
                            "completion_tokens_details": { "reasoning_tokens": 50 + HIDDEN } });
        let usage = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage });
        Answer::sse().all(&pieces).data(&usage).done()
    });
    let mut body = stream();
    body["max_tokens"] = json!(100);
    let (spent, _) = two_hundred(&world, &body, "word ").await;
    let (streams, over) = (world.upstream.hits() as i128, spent - SHARED_TOKENS * 2 * TOKEN);
    println!("{streams} streams, {} femto-USD over a budget of 0.05 USD", over.max(0));
    // Each stream reserves 100 tokens and its prompt: 238 of them fit at one time.
    assert!(over <= streams * i128::from(HIDDEN) * 2 * TOKEN, "{over}");
    let refused = client(&world).try_stream(CHAT, &body).await.expect_err("no budget is left");
    assert_error("spent", &refused, 429, "insufficient_quota", "insufficient_quota");
}

#[tokio::test]
async fn a_plain_answer_is_asked_for_no_longer_than_its_budget_can_pay() {
    let world = key("budget_usd = 0.001\non_budget = \"cut\"").start().await;
    world.upstream.respond_with(|_| Answer::json(200, &chat_body("plain", "done")));
    let body = json!({ "model": "acme/plain", "messages": [{ "role": "user", "content": "Hello!" }] });
    client(&world).post_json(CHAT, &body).await.ok();
    // 0.001 USD pays 1,000 prompt tokens: 10 for the prompt, and 495 answer tokens at twice the price.
    assert_eq!(world.upstream.last().json()["max_tokens"], 495);
    let mut long = body.clone();
    long["max_tokens"] = json!(300);
    client(&world).post_json(CHAT, &long).await.ok();
    assert_eq!(world.upstream.last().json()["max_tokens"], 300, "the client's own limit is lower");
}

#[tokio::test]
async fn an_answer_may_be_finished_where_nothing_says_otherwise() {
    let world = key("budget_usd = 0.05").start().await;
    world.upstream.respond_with(|_| Answer::json(200, &chat_body("plain", "done")));
    let body = json!({ "model": "acme/plain", "messages": [{ "role": "user", "content": "Hello!" }] });
    client(&world).post_json(CHAT, &body).await.ok();
    assert_eq!(world.upstream.last().json().get("max_tokens"), None, "the body is forwarded unchanged");
}

async fn start(config: &str, data: &std::path::Path) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await
}

/// The number of kills (`kill -9`): `P11_ROUNDS`.
fn rounds() -> usize {
    std::env::var("P11_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p11_a_killed_process_charges_what_its_streams_have_delivered() {
    const STREAMS: usize = 50;
    let data = tempfile::tempdir().expect("a directory");
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(endless);
    let config = Setup::default().config(&upstream.base_url(), &upstream.base_url());
    for round in 0..rounds() {
        let gateway = start(&config, data.path()).await;
        let mut streams = tokio::task::JoinSet::new();
        let delivered = std::sync::Arc::new(std::sync::Mutex::new(std::collections::HashMap::new()));
        for _ in 0..STREAMS {
            let (client, delivered) = (gateway.client().with_key(KEY), std::sync::Arc::clone(&delivered));
            streams.spawn(async move {
                let mut body = stream();
                body["max_tokens"] = json!(2_000);
                let Ok(mut stream) = client.try_stream(CHAT, &body).await else { return };
                let id = stream.head.header("x-request-id").expect("an id").to_owned();
                while let Some(data) = stream.data().await {
                    if data.contains("word ") {
                        *delivered.lock().expect("no panic").entry(id.clone()).or_insert(0_u64) += 5;
                    }
                }
            });
        }
        let enough = || {
            let delivered = delivered.lock().expect("no panic");
            (delivered.len() == STREAMS && delivered.values().all(|bytes| *bytes > 3_000)).then_some(())
        };
        eventually("every stream has begun", enough).await;
        let _ = gateway.stop();
        streams.join_all().await;
        let gateway = start(&config, data.path()).await;
        let store = gw_store::Store::open(&data.path().join("gateway.db")).await.expect("the store");
        let found = store.requests(&gw_store::ledger::Filter::default(), None, 100_000).await.expect("rows");
        store.close().await;
        let mut largest = 0;
        for (id, bytes) in delivered.lock().expect("no panic").iter() {
            let row =
                found.iter().find(|row| *row.request_id == **id).unwrap_or_else(|| panic!("no row of {id}"));
            assert_eq!((&*row.status, row.estimated), ("interrupted", true), "{row:?}");
            let missing = bytes.div_ceil(3).saturating_sub(row.tokens.completion);
            largest = largest.max(missing);
            // A twentieth of the 2,000 reserved tokens.
            assert!(missing <= 100, "{missing} tokens of {bytes} bytes are not charged: {row:?}");
        }
        println!("round {round}: {STREAMS} streams, at most {largest} tokens delivered and not charged");
        drop(gateway);
    }
}
