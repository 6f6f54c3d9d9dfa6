//! Images in answers: large ones, plain and streamed, in bounded memory and without delay for other requests.

use std::time::Duration;

use gw_testkit::measured::at_most;
use gw_testkit::sse::chunks;
use gw_testkit::upstream::sse_data;
use gw_testkit::wait::eventually_within;
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Launch, Signal};
use serde_json::{Value, json};

use crate::harness::answers::assert_broken_off;
use crate::harness::{ADMIN, KEY, binary, chat, chat_with};

const CHAT: &str = "/v1/chat/completions";
/// The memory bound of all large events of the process together, in bytes.
const BOUND: u64 = 256 << 20;

/// Base64 of this many bytes that begin like a PNG.
fn picture(bytes: usize) -> String {
    let mut text = "iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAIAAADwf7zU".to_owned();
    text.extend("Ab3/+9Zz".chars().cycle().take(bytes.div_ceil(3) * 4 - text.len()));
    text
}

fn url(base64: &str) -> String {
    format!("data:image/png;base64,{base64}")
}

/// An answer of Gemini.
fn gemini(base64: &str) -> Value {
    let parts = json!([
        { "text": "A cat:" },
        { "inlineData": { "mimeType": "image/png", "data": base64 } },
    ]);
    json!({
        "candidates": [{ "index": 0, "content": { "role": "model", "parts": parts }, "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 7, "candidatesTokenCount": 1300, "totalTokenCount": 1307 },
        "modelVersion": "gemini-2.5-flash-image",
    })
}

/// A gateway with one worker before an upstream of this dialect.
async fn gateway(api: &str, lines: &str) -> (Gateway, FakeUpstream, Client) {
    let upstream = FakeUpstream::start().await;
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nshed_after_ms = 60000\n{lines}\n\
         [[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n[[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n\
         [[providers]]\nname = \"my\"\napi = \"{api}\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"my/painter\"\ncategory = [\"chat\"]\n\
         pricing = {{ official_input_per_m = 1.0, official_output_per_m = 30.0 }}\n",
        upstream.addr
    );
    let launch = Launch::new(binary()).env("TOKIO_WORKER_THREADS", "1").file("gateway.toml", &config);
    let gateway = launch.start().await;
    let client = gateway.client().with_key(KEY);
    (gateway, upstream, client)
}

fn streamed() -> Value {
    chat_with("my/painter", json!({ "stream": true, "stream_options": { "include_usage": true } }))
}

async fn metric(gateway: &Gateway, name: &str) -> u64 {
    let text = gateway.client().with_key(ADMIN).get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.expect("the metrics tell it").parse().expect("a number")
}

#[tokio::test]
async fn pictures_of_3_and_12_mb_come_back_plain_and_streamed() {
    let (gateway, upstream, client) = gateway("gemini", "").await;
    for bytes in [3_000_000, 12_000_000] {
        let base64 = picture(bytes);
        upstream.enqueue(Answer::json(200, &gemini(&base64)));
        let answer = client.post_json(CHAT, &chat("my/painter")).await.ok().json();
        let message = &answer["choices"][0]["message"];
        assert_eq!(message["content"], "A cat:");
        let image = &message["images"][0];
        assert_eq!((&image["type"], &image["index"]), (&json!("image_url"), &json!(0)));
        assert!(image["image_url"]["url"] == url(&base64), "{bytes} bytes, plain");
        assert_eq!(answer["usage"]["completion_tokens"], 1300);

        upstream.enqueue(Answer::sse().data(&gemini(&base64)).end());
        let frames = client.stream(CHAT, &streamed()).await.rest().await;
        let chunks = chunks(&frames);
        let deltas: Vec<&Value> = chunks.iter().filter_map(|chunk| chunk["choices"].get(0)).collect();
        assert_eq!(deltas[0]["delta"], json!({ "role": "assistant" }));
        assert_eq!(deltas[1]["delta"], json!({ "content": "A cat:" }));
        let image = &deltas[2]["delta"]["images"][0];
        assert!(image["image_url"]["url"] == url(&base64), "{bytes} bytes, streamed");
        assert_eq!((&deltas[3]["delta"], &deltas[3]["finish_reason"]), (&json!({}), &json!("stop")));
        assert_eq!(chunks.last().expect("usage")["usage"]["completion_tokens"], 1300);
    }
    assert_eq!(metric(&gateway, "gateway_stream_event_bytes").await, 0);
}

#[tokio::test]
async fn a_picture_of_an_openai_type_upstream_is_passed_on() {
    let (_gateway, upstream, client) = gateway("openai", "").await;
    let images =
        json!([{ "type": "image_url", "image_url": { "url": url(&picture(2_000_000)) }, "index": 0 }]);
    let message = json!({ "role": "assistant", "content": "", "images": images });
    let whole = json!({ "id": "x", "object": "chat.completion", "created": 1, "model": "up",
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] });
    upstream.enqueue(Answer::json(200, &whole));
    let answer = client.post_json(CHAT, &chat("my/painter")).await.ok().json();
    assert!(answer["choices"][0]["message"]["images"] == images, "plain");
    // The upstream reports no usage.
    assert_eq!(answer["usage"]["completion_tokens"], 1290);
    upstream.enqueue(
        Answer::sse()
            .data(&sse_data(&json!({ "images": images }), None))
            .data(&sse_data(&json!({}), Some("stop")))
            .done(),
    );
    let frames = client.stream(CHAT, &streamed()).await.rest().await;
    let chunks = chunks(&frames);
    assert!(chunks[1]["choices"][0]["delta"]["images"] == images, "streamed");
    assert_eq!(chunks.last().expect("usage")["usage"]["completion_tokens"], 1290);
}

#[tokio::test]
async fn a_line_beyond_16_mib_is_a_fault_of_the_upstream() {
    let (_gateway, upstream, client) = gateway("gemini", "[routing]\nretries = 0").await;
    upstream.enqueue(Answer::sse().data(&gemini(&picture(12_700_000))).end());
    let refused = client.try_stream(CHAT, &streamed()).await.expect_err("no stream");
    assert_eq!((refused.status, refused.code().as_str()), (502, "upstream_invalid_response"));
}

#[tokio::test]
async fn nobody_waits_while_a_line_of_16_mb_is_read() {
    let (_gateway, upstream, client) = gateway("gemini", "").await;
    let text = json!({ "candidates": [{ "content": { "parts": [{ "text": "Look:" }] } }] });
    let gate = Signal::new();
    let line = format!("data: {}\n\n", gemini(&picture(12_000_000)));
    let (most, last) = line.split_at(line.len() - 10);
    // Only the end of the line is missing, so the test measures the reading alone.
    let answer = Answer::sse().data(&text).chunk(most).wait(&gate).chunk(last).end();
    upstream.enqueue(answer);
    let mut stream = client.stream(CHAT, &streamed()).await;
    while !stream.data().await.expect("content").contains("Look:") {}
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let others = {
        let (over, client) = (std::sync::Arc::clone(&over), client.clone());
        tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            while !over.load(std::sync::atomic::Ordering::Acquire) {
                let begun = std::time::Instant::now();
                client.get("/healthz").await.ok();
                longest = longest.max(begun.elapsed());
            }
            longest
        })
    };
    let begun = std::time::Instant::now();
    gate.fire();
    while !stream.data().await.expect("the picture").contains("A cat:") {}
    let took = begun.elapsed();
    over.store(true, std::sync::atomic::Ordering::Release);
    let longest = others.await.expect("the others are answered");
    println!("the line took {took:?}, nobody else more than {longest:?}");
    at_most("nobody_waits_while_a_line_of_16_mb_is_read", longest, took / 2);
}

#[tokio::test]
async fn half_sent_lines_of_many_upstreams_stay_within_the_bound_of_all() {
    let (gateway, upstream, client) = gateway("gemini", "[routing]\nretries = 0").await;
    let half = format!("data: {}", &gemini(&picture(9_000_000)).to_string()[..9 << 20]);
    let text = json!({ "candidates": [{ "content": { "parts": [{ "text": "Look:" }] } }] });
    let before = gateway.rss_kib();
    let count = 40;
    let body = streamed().to_string();
    let mut waiting = Vec::new();
    for _ in 0..count {
        upstream.enqueue(Answer::sse().data(&text).chunk(&half).hang());
        let mut wire = RawClient::connect(client.addr).await;
        wire.send(client.head("POST", CHAT, Some("application/json"), Some(body.len())) + &body).await;
        waiting.push(wire);
    }
    let cut = || gateway.logs().iter().filter(|line| line["code"] == "upstream_stream_error").count();
    // At most 28 events of 9 MiB fit. Spare room in their buffers makes it fewer.
    eventually_within(Duration::from_secs(100), "those without room are cut", || {
        (cut() >= count - 28).then_some(())
    })
    .await;
    let counted = metric(&gateway, "gateway_stream_event_bytes").await;
    assert!(counted > BOUND / 4 && counted <= BOUND, "{counted} bytes are held");
    let grown = gateway.rss_kib().saturating_sub(before) * 1024;
    at_most("bytes of half-sent lines", grown, BOUND + (64 << 20));
    assert!(cut() < count, "the lines within the bound go on");
    drop(waiting);
    eventually_within(Duration::from_secs(60), "the memory is given back", || {
        (gateway.rss_kib().saturating_sub(before) < 64 << 10).then_some(())
    })
    .await;
    assert_eq!(metric(&gateway, "gateway_stream_event_bytes").await, 0);
}

#[tokio::test]
async fn an_upstream_that_opens_blocks_without_end_is_ended() {
    let (gateway, upstream, client) = gateway("anthropic", "[routing]\nretries = 0").await;
    let signature = "x".repeat(2 << 20);
    let block = |at: usize, block: Value| json!({ "type": "content_block_start", "index": at, "content_block": block });
    let mut answer = Answer::sse()
        .data(&json!({ "type": "message_start", "message": { "model": "m" } }))
        .data(&block(0, json!({ "type": "text", "text": "begun" })));
    for at in 1..40 {
        answer =
            answer.data(&block(at, json!({ "type": "thinking", "thinking": "", "signature": signature })));
    }
    upstream.enqueue(answer.hang());
    let before = gateway.rss_kib();
    let frames = client.stream(CHAT, &streamed()).await.rest().await;
    assert!(frames[1].contains("begun"), "{frames:?}");
    assert_broken_off(&frames, "upstream_stream_error");
    let grown = gateway.rss_kib().saturating_sub(before);
    at_most("KiB of an upstream that opens blocks", grown, 96 << 10);
    assert_eq!(metric(&gateway, "gateway_stream_event_bytes").await, 0);
}
