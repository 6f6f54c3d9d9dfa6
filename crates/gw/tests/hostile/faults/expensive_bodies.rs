//! A body that takes long to read or to translate delays no other request (C26).
//!
//! The gateway has one worker thread here. A long step on that thread would silence every other connection. The tests count the
//! answers that other connections get meanwhile, so no timing decides. They test the debug build: a release build reads such a body in
//! less time than a few other answers take.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Launch};
use serde_json::{Value, json};

use crate::harness::{KEY, debug_build};

const CHAT: &str = "/v1/chat/completions";
/// Bytes of a body. A debug build reads them in about a hundred milliseconds.
const BODY_BYTES: usize = 256 << 10;
/// The number of answers to other connections that proves a free worker.
const ENOUGH: usize = 5;

/// A gateway with one worker, and a provider of this dialect that reads and refuses every request.
async fn gateway(api: &str, lines: &str, model: &str) -> (Gateway, FakeUpstream) {
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(|_| {
        Answer::json(400, &json!({"error": {"message": "seen", "code": "reached_the_upstream"}}))
    });
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\nrole = \"admin\"\n\
         [[providers]]\nname = \"my\"\napi = \"{api}\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n{lines}\n\
         [[models]]\nid = \"my/{model}\"\ncategory = [\"chat\", \"embedding\"]\n",
        upstream.addr
    );
    let launch = Launch::new(debug_build()).env("TOKIO_WORKER_THREADS", "1").file("gateway.toml", &config);
    (launch.start().await, upstream)
}

/// Pieces with commas between them, [`BODY_BYTES`] in total.
fn many(piece: impl Fn(usize) -> String) -> String {
    let mut out = String::with_capacity(BODY_BYTES + 1024);
    for at in 0.. {
        if out.len() >= BODY_BYTES {
            break;
        }
        if at > 0 {
            out.push(',');
        }
        out.push_str(&piece(at));
    }
    out
}

/// Sends a body; gives the status of its answer and the number of answers to other connections between the last byte of the body
/// and its answer.
async fn answered_meanwhile(client: &Client, path: &str, body: &str) -> (u16, usize) {
    let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut others = Vec::new();
    for _ in 0..4 {
        let (over, count, client) = (Arc::clone(&over), Arc::clone(&count), client.clone());
        others.push(tokio::spawn(async move {
            while !over.load(Ordering::Acquire) {
                client.get("/healthz").await.ok();
                count.fetch_add(1, Ordering::AcqRel);
            }
        }));
    }
    let head = client.head("POST", path, Some("application/json"), Some(body.len()));
    let mut wire = RawClient::connect(client.addr).await;
    wire.send(head).await;
    wire.send(body).await;
    let before = count.load(Ordering::Acquire);
    let answer = wire.response().await.expect("an answer");
    let after = count.load(Ordering::Acquire);
    over.store(true, Ordering::Release);
    for other in others {
        other.await.expect("the others are answered");
    }
    (answer.status, after - before)
}

async fn others_go_on(api: &str, lines: &str, model: &str, shapes: &[(&str, &str, String)]) {
    let (gateway, _upstream) = gateway(api, lines, model).await;
    let client = gateway.client().with_key(KEY);
    for (name, path, body) in shapes {
        let body = body.replace("<model>", &format!("my/{model}"));
        let (status, meanwhile) = answered_meanwhile(&client, path, &body).await;
        assert_eq!(status, 400, "{api}, {name}");
        assert!(meanwhile >= ENOUGH, "{api}, {name}: only {meanwhile} others were answered meanwhile");
    }
}

fn chat_of(messages: &str) -> String {
    format!(r#"{{"model":"<model>","messages":[{messages}]}}"#)
}

/// Bodies with very many messages, calls, properties or numbers.
fn shapes() -> Vec<(&'static str, &'static str, String)> {
    let call = |at: usize| {
        format!(r#"{{"id":"call_{at}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#)
    };
    let calls = many(call);
    let properties = many(|at| format!(r#""p{at}":{{"type":"string"}}"#));
    vec![
        ("messages", CHAT, chat_of(&many(|_| r#"{"role":"user","content":"x"}"#.to_owned()))),
        (
            "calls",
            CHAT,
            chat_of(&format!(
                r#"{{"role":"user","content":"x"}},{{"role":"assistant","tool_calls":[{calls}]}}"#
            )),
        ),
        (
            "properties",
            CHAT,
            format!(
                r#"{{"model":"<model>","messages":[{{"role":"user","content":"x"}}],"tools":[{{"type":"function","function":{{"name":"f","parameters":{{"type":"object","properties":{{{properties}}}}}}}}}]}}"#
            ),
        ),
        (
            "numbers",
            CHAT,
            format!(
                r#"{{"model":"<model>","messages":[{{"role":"user","content":"x"}}],"ignored":[{}]}}"#,
                many(|_| "1".to_owned())
            ),
        ),
    ]
}

#[tokio::test]
async fn c26_others_are_answered_while_a_heavy_body_is_read_and_translated() {
    others_go_on("openai", "", "gpt-4o", &shapes()).await;
    others_go_on("anthropic", "", "claude-sonnet-4-5", &shapes()).await;
    others_go_on("bedrock", "region = \"eu-west-1\"", "anthropic.claude-sonnet-4-5-20250929-v1:0", &shapes())
        .await;
    others_go_on("gemini", "", "gemini-2.5-pro", &shapes()).await;
}

#[tokio::test]
async fn c26_others_are_answered_while_tokens_and_inputs_are_read() {
    let tokens = many(|at| (at % 50_000).to_string());
    let inputs: Vec<String> = (0..2048).map(|at| format!("\"{at:0512}\"")).collect();
    let bodies = [
        ("prompt", "/v1/completions", format!(r#"{{"model":"<model>","prompt":[{tokens}],"suffix":5}}"#)),
        ("input", "/v1/embeddings", format!(r#"{{"model":"<model>","input":[{}]}}"#, inputs.join(","))),
    ];
    others_go_on("openai", "", "gpt-4o", &bodies).await;
}

/// A large answer to a small request.
#[tokio::test]
async fn c26_others_are_answered_while_a_large_answer_is_read() {
    let (gateway, upstream) = gateway("openai", "", "gpt-4o").await;
    let vector: Vec<Value> = (0..(2 << 20) / 10).map(|at| json!(f64::from(at) / 7e5)).collect();
    let body = json!({"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": vector}]});
    let body = body.to_string();
    upstream.respond_with(move |_| Answer::full(200, &[("content-type", "application/json")], body.clone()));
    let client = gateway.client().with_key(KEY);
    let request = r#"{"model":"my/gpt-4o","input":"x"}"#;
    let (status, meanwhile) = answered_meanwhile(&client, "/v1/embeddings", request).await;
    assert_eq!(status, 200);
    assert!(meanwhile >= ENOUGH, "only {meanwhile} others were answered meanwhile");
}

/// Waits until the number of steps that wait for a thread of the CPU pool fulfils the condition.
async fn until_waiting(client: &Client, holds: impl Fn(u64) -> bool) {
    let start = std::time::Instant::now();
    loop {
        let metrics = client.get("/metrics").await.ok().text();
        let line = metrics.lines().find_map(|line| line.strip_prefix("gateway_cpu_pool_waiting "));
        let steps = line.expect("the metric").parse().expect("a number");
        if holds(steps) {
            return;
        }
        assert!(start.elapsed() < gw_testkit::wait::DEADLINE, "{steps} steps wait");
        tokio::task::yield_now().await;
    }
}

/// A client that disconnects ends its request, and a drain does not wait for it.
#[tokio::test]
async fn c26_work_of_a_client_that_left_ends_and_does_not_hold_up_a_drain() {
    let (mut gateway, upstream) = gateway("anthropic", "", "claude-sonnet-4-5").await;
    let client = gateway.client().with_key(KEY);
    let messages = many(|_| r#"{"role":"user","content":"x"}"#.to_owned());
    let body = chat_of(&[messages.as_str(); 4].join(","));
    let body = body.replace("<model>", "my/claude-sonnet-4-5");
    let mut wires = Vec::new();
    for _ in 0..8 {
        let mut wire = RawClient::connect(gateway.addr).await;
        wire.send(client.head("POST", CHAT, Some("application/json"), Some(body.len()))).await;
        wire.send(&body).await;
        wires.push(wire);
    }
    // The pool has one thread: it reads one body, and the others wait.
    until_waiting(&client, |steps| steps >= 4).await;
    wires.into_iter().for_each(RawClient::reset);
    until_waiting(&client, |steps| steps == 0).await;
    gateway.sigterm();
    assert!(gateway.ended().await.success());
    assert_eq!(upstream.hits(), 0, "no request of a disconnected client is sent");
}
