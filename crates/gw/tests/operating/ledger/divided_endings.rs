//! Divided requests that end before the heads of all their parts have come: the parts that were answered cost what they told.

use std::path::Path;

use gw_store::ledger::Entry;
use gw_testkit::upstream::Step;
use gw_testkit::{Answer, FakeUpstream, Gateway, Launch, Signal, eventually};
use serde_json::{Value, json};

use crate::harness::ledger::rows_in;
use crate::harness::{KEY, binary, with};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";
/// One token at one USD per million.
const TOKEN: i128 = 1_000_000_000;
/// The estimated prompt of a part.
const PROMPT: u64 = 13;

fn config(upstream: &FakeUpstream) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[routing]\nretries = 0\n[routing.breaker]\nfailures = 1000\n\
         [[keys]]\nname = \"ci\"\nkey = \"{KEY}\"\n\
         [[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"claude/opus\"\ncategory = [\"chat\"]\npricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0 }}\n",
        upstream.addr
    )
}

async fn start(config: &str, data: &Path) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await
}

/// A request of three parts, whose prompts are five tokens of text and eight around it.
fn request(path: &str, name: &str, streams: bool) -> Value {
    let body = match path {
        CHAT => json!({"n": 3, "messages": [{"role": "user", "content": "what is there"}]}),
        _ => json!({"prompt": ["what is there", "what is those", "what is these"]}),
    };
    with(body, json!({"model": "claude/opus", "max_tokens": 50, "stream": streams, "user": name}))
}

/// A whole answer of 5,000 and 700 tokens. Its connection is closed when the gateway has read it.
fn whole(streams: bool) -> Answer {
    let message = |content: Value, output: u64| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": content, "stop_reason": "end_turn",
            "stop_sequence": null, "usage": {"input_tokens": 5000, "output_tokens": output}})
    };
    if !streams {
        let document = message(json!([{"type": "text", "text": "Hi all"}]), 700).to_string();
        return Answer::full(200, &[("content-type", "application/json"), ("connection", "close")], document);
    }
    let events = [
        json!({"type": "message_start", "message": message(json!([]), 1)}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi all"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 700}}),
        json!({"type": "message_stop"}),
    ];
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"));
    let body: String = events.iter().map(event).collect();
    Answer::full(200, &[("content-type", "text/event-stream"), ("connection", "close")], body)
}

/// Two parts are answered, and the third one as `third` says, when the gateway has read the others.
fn begin(upstream: &FakeUpstream, streams: bool, third: Answer) -> usize {
    let before = upstream.hits();
    upstream.enqueue(whole(streams));
    upstream.enqueue(whole(streams));
    upstream.enqueue(third);
    before
}

/// Waits until the gateway has read two answers and waits for the third one.
async fn until_read(upstream: &FakeUpstream, before: usize) {
    for place in 0..2 {
        upstream.request(before + place).await.until_closed().await;
    }
    upstream.request(before + 2).await;
}

/// The lines of the journal.
fn journal(data: &Path) -> String {
    let segments = std::fs::read_dir(data.join("journal")).into_iter().flatten().flatten();
    segments.filter_map(|segment| std::fs::read_to_string(segment.path()).ok()).collect()
}

fn row_of<'a>(rows: &'a [Entry], name: &str) -> &'a Entry {
    rows.iter().find(|row| row.user.as_deref() == Some(name)).expect("the row")
}

fn told(row: &Entry) -> (u64, u64, bool, i128) {
    (row.tokens.prompt, row.tokens.completion, row.estimated, row.cost / TOKEN)
}

#[tokio::test]
async fn streams_that_were_answered_cost_what_they_told_when_the_last_part_gets_no_head() {
    let (upstream, data) = (FakeUpstream::start().await, tempfile::tempdir().expect("a directory"));
    let gateway = start(&config(&upstream), data.path()).await;
    let client = gateway.client().with_key(KEY);
    let mut count = 0;
    for path in [CHAT, TEXT] {
        for (ending, third, estimate) in [
            ("refused", Answer::error(400, "x", "no"), 0),
            ("failed", Answer::error(500, "x", "down"), 0),
            ("cut", Answer::steps(Vec::new()).reset(), PROMPT),
            ("left", Answer::steps(Vec::new()).hang(), PROMPT),
        ] {
            let (name, signal) = (format!("{path} {ending}"), Signal::new());
            let before = begin(&upstream, true, third.after(Step::Wait(signal.clone())));
            let body = request(path, &name, true).to_string().into_bytes();
            let mut wire = client.open("POST", path, Some("application/json"), Some(&body)).await;
            until_read(&upstream, before).await;
            if ending == "left" {
                drop(wire);
            } else {
                signal.fire();
                let answer = wire.response().await.expect("an answer");
                assert!(answer.status >= 400, "{name}: {} {}", answer.status, answer.text());
            }
            count += 1;
            let rows = rows_in(&data.path().join("gateway.db"), count).await;
            let row = row_of(&rows, &name);
            let expected = (10_000 + estimate, 1_400, estimate > 0, 12_800 + i128::from(estimate));
            assert_eq!(told(row), expected, "{name}: {row:?}");
        }
    }
}

#[tokio::test]
async fn a_killed_process_has_noted_what_the_answered_parts_told() {
    let (upstream, data) = (FakeUpstream::start().await, tempfile::tempdir().expect("a directory"));
    let mut count = 0;
    for (path, streams) in [(CHAT, false), (CHAT, true), (TEXT, false), (TEXT, true)] {
        let gateway = start(&config(&upstream), data.path()).await;
        let client = gateway.client().with_key(KEY);
        let name = format!("{path} {streams}");
        let before = begin(&upstream, streams, Answer::steps(Vec::new()).hang());
        let body = request(path, &name, streams).to_string().into_bytes();
        let wire = client.open("POST", path, Some("application/json"), Some(&body)).await;
        until_read(&upstream, before).await;
        let noted = format!("{}", 10_000 + PROMPT);
        eventually("the journal has the answered parts", || {
            journal(data.path()).contains(&noted).then_some(())
        })
        .await;
        let _ = gateway.stop();
        drop(wire);
        let _gateway = start(&config(&upstream), data.path()).await;
        count += 1;
        let rows = rows_in(&data.path().join("gateway.db"), count).await;
        let row = row_of(&rows, &name);
        assert_eq!(row.status, "interrupted", "{name}");
        assert_eq!(told(row), (10_000 + PROMPT, 1_400, true, 12_800 + i128::from(PROMPT)), "{name}: {row:?}");
    }
}
