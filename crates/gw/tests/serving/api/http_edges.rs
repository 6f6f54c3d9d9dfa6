//! Edge cases of HTTP: unreadable heads, transfer codings, endless HTTP/2 heads, CORS of the management API, and the type
//! of every member.

use std::time::{Duration, Instant};

use gw_testkit::Response;
use gw_testkit::measured::at_most;
use gw_testkit::wire::RawClient;
use serde_json::{Value, json};

use crate::harness::{
    ADMIN, KEY, Setup, World, assert_error, assert_invalid, assert_request_id, chat, chat_with, with, world,
};

const CHAT: &str = "/v1/chat/completions";

/// Reads the only answer; the connection must end after it.
async fn last_answer(world: &World, bytes: &[u8]) -> Response {
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send(bytes).await;
    let answer = wire.response().await.expect("an answer");
    assert!(wire.response().await.is_none(), "the connection is closed after it");
    answer
}

/// Checks the error body of an answer to an unreadable head.
#[track_caller]
fn assert_unread_head(label: &str, answer: &Response, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{label}: {}", answer.text());
    let body = answer.json();
    assert_eq!(body["error"]["type"], "invalid_request_error", "{label}: {body}");
    assert_eq!(body["error"].as_object().map(serde_json::Map::len), Some(3), "{label}: {body}");
    assert!(!answer.message().is_empty(), "{label}: {body}");
    assert_eq!(answer.header("content-type"), Some("application/json"), "{label}");
    assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()), "{label}");
    assert_eq!(answer.header("connection"), Some("close"), "{label}");
    assert!(answer.header("date").is_some(), "{label}: {:?}", answer.headers);
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{label}: pages can read it");
    assert_request_id(label, answer.header("x-request-id"));
    let once = |name: &str| answer.headers.iter().filter(|(have, _)| have == name).count();
    assert_eq!((once("content-length"), once("connection"), once("date")), (1, 1, 1), "{label}");
}

#[tokio::test]
async fn a_head_that_cannot_be_read_is_answered_with_the_error_shape() {
    let world = world().await;
    let huge = format!("GET /v1/models HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let many = format!("GET /v1/models HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1000));
    for (label, bytes, status, code) in [
        ("no http", "hello\r\n\r\n", 400, "invalid_request"),
        ("a space in a name", "GET / HTTP/1.1\r\nx y: a\r\n\r\n", 400, "invalid_request"),
        ("a bad length", "POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400, "invalid_request"),
        ("a huge header", &huge, 431, "request_headers_too_large"),
        ("many headers", &many, 431, "request_headers_too_large"),
    ] {
        let answer = last_answer(&world, bytes.as_bytes()).await;
        assert_unread_head(label, &answer, status, code);
    }
}

#[tokio::test]
async fn a_head_that_cannot_be_read_does_not_disturb_the_answers_before_it() {
    let world = world().await;
    let mut wire = RawClient::connect(world.gateway.addr).await;
    let good = world.client.head("GET", "/v1/models", None, None);
    wire.send(format!("{good}{good}GET / HTTP/1.1\r\nx y: a\r\n\r\n")).await;
    for _ in 0..2 {
        assert_eq!(wire.response().await.expect("an answer").ok().json()["object"], "list");
    }
    let last = wire.response().await.expect("an answer");
    assert_unread_head("the third", &last, 400, "invalid_request");
    assert!(wire.response().await.is_none());
}

#[tokio::test]
async fn a_transfer_coding_that_is_not_understood_is_501() {
    let world = world().await;
    let body = chat("acme/fast").to_string();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let ask = |codings: &str| {
        format!(
            "POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n\
             {codings}\r\n{chunked}"
        )
    };
    let (unknown, twice) = ("unsupported_transfer_encoding", "invalid_request");
    for (codings, status, code) in [
        ("transfer-encoding: gzip, chunked\r\n", 501, unknown),
        ("Transfer-Encoding: X-Own , Chunked\r\n", 501, unknown),
        ("transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n", 501, unknown),
        ("transfer-encoding: gzip;level=\"1,2\", chunked\r\n", 501, unknown),
        ("transfer-encoding: chunked, chunked\r\n", 400, twice),
        ("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", 400, twice),
    ] {
        let answer = last_answer(&world, ask(codings).as_bytes()).await;
        assert_error(codings, &answer, status, "invalid_request_error", code);
        assert_eq!(answer.header("connection"), Some("close"), "{codings}");
    }
    assert_eq!(world.upstream.hits(), 0);
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send(ask("transfer-encoding: Chunked\r\n")).await;
    wire.response().await.expect("an answer").ok();
}

/// Encodes a frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(payload.len()).expect("a frame is short").to_be_bytes();
    [&[high, middle, low, kind, flags, 0, 0, 0, stream], payload].concat()
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: u8 = 4;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
/// `:method GET`, `:scheme http`, `:path /`, from the static table.
const HEAD_BLOCK: [u8; 3] = [0x82, 0x86, 0x84];

/// The time after which the gateway closes a connection that sends only these bytes.
async fn kept_for(world: &World, bytes: &[u8]) -> Duration {
    let mut wire = RawClient::connect(world.gateway.addr).await;
    let start = Instant::now();
    wire.send(bytes).await;
    tokio::time::timeout(Duration::from_secs(40), wire.until_closed()).await.expect("it is closed");
    start.elapsed()
}

#[tokio::test]
async fn the_head_clock_applies_to_http2() {
    let world = Setup { server: "head_timeout_ms = 1000", ..Setup::default() }.start().await;
    let begun = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    let cases = [
        ("a part of the preface", PREFACE[..10].to_vec()),
        ("no SETTINGS", PREFACE.to_vec()),
        ("a part of a frame", [&begun[..], &[0, 0, 4]].concat()),
        ("HEADERS without an end", [&begun[..], &frame(HEADERS, 0, 1, &HEAD_BLOCK)].concat()),
        (
            "CONTINUATION without an end",
            [&begun[..], &frame(HEADERS, 0, 1, &HEAD_BLOCK), &frame(CONTINUATION, 0, 1, &[])].concat(),
        ),
    ];
    for (label, bytes) in cases {
        let kept = kept_for(&world, &bytes).await;
        assert!(kept >= Duration::from_millis(900), "{label}: {kept:?}");
        at_most(label, kept, Duration::from_secs(8));
    }
    // A connection is idle after its SETTINGS, and the idle timeout is longer than the head timeout.
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send(&begun).await;
    let heard = tokio::time::timeout(Duration::from_secs(3), wire.until_closed()).await;
    assert!(heard.is_err(), "it is kept for its first request");
}

#[tokio::test]
async fn a_large_head_over_http2_is_answered_with_the_error_shape() {
    let world = world().await;
    let url = format!("http://{}/v1/models", world.gateway.addr);
    let header = format!("x-large: {}", "y".repeat(20_000));
    let authorization = format!("Authorization: Bearer {KEY}");
    let asked = tokio::process::Command::new("curl")
        .args(["-sS", "--http2-prior-knowledge", "-i", "-H", &authorization, "-H", &header, &url])
        .output()
        .await
        .expect("curl runs");
    let text = String::from_utf8(asked.stdout).expect("text");
    assert!(text.starts_with("HTTP/2 431"), "{text} {}", String::from_utf8_lossy(&asked.stderr));
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.contains("content-type: application/json"), "{head}");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["error"]["code"], "request_headers_too_large", "{body}");
}

/// URLs that are not for users of `/v1`: the management API, the metrics and others.
const OPERATORS: [&str; 6] =
    ["/admin/v1/keys", "/admin/v1/config", "/admin/v1/nothing", "/metrics", "/ui/", "/nothing"];

#[tokio::test]
async fn what_is_the_operators_answers_no_page_of_another_origin() {
    for server in ["", "cors_origins = [\"https://app.example\"]"] {
        let world = Setup { server, ..Setup::default() }.start().await;
        let page = world.client.with_key(ADMIN).with_header("origin", "https://app.example");
        for path in OPERATORS {
            for method in ["GET", "OPTIONS", "POST"] {
                let answer = page.send(method, path, None, None).await;
                let names = answer.headers.iter().map(|(name, _)| name.to_ascii_lowercase());
                let cors: Vec<_> = names.filter(|name| name.starts_with("access-control")).collect();
                assert!(cors.is_empty(), "{method} {path}: {cors:?}");
            }
        }
        for path in ["/v1/models", "/v1/nothing", "/healthz", "/openapi.json"] {
            let answer = page.get(path).await;
            let expected = if server.is_empty() { "*" } else { "https://app.example" };
            assert_eq!(answer.header("access-control-allow-origin"), Some(expected), "{path}");
        }
    }
}

#[tokio::test]
async fn a_named_origin_may_call_the_management_api() {
    let server = "admin_cors_origins = [\"https://ops.example\"]";
    let world = Setup { server, ..Setup::default() }.start().await;
    let admin = world.client.with_key(ADMIN);
    let ops = admin.with_header("origin", "https://ops.example");
    let answer = ops.get("/admin/v1/keys").await.ok();
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://ops.example"));
    let asked = ops
        .with_header("access-control-request-method", "DELETE")
        .with_header("access-control-request-headers", "authorization");
    let answer = asked.send("OPTIONS", "/admin/v1/keys/key_1", None, None).await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://ops.example"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization"));
    let methods = answer.header("access-control-allow-methods").unwrap_or_default();
    assert!(methods.contains("PATCH") && methods.contains("DELETE"), "{methods}");
    let other = admin.with_header("origin", "https://app.example").get("/admin/v1/keys").await.ok();
    assert_eq!(other.header("access-control-allow-origin"), None);
    assert_eq!(other.header("vary"), Some("origin"));
}

/// The gateway checks the type of every typed member, at any depth.
#[tokio::test]
async fn a_member_of_a_wrong_type_is_refused_wherever_it_stands() {
    let world = world().await;
    let (text, embed) = ("/v1/completions", "/v1/embeddings");
    let prompt = json!({ "model": "acme/fast", "prompt": "x" });
    let input = json!({ "model": "acme/embed", "input": "x" });
    let user = |content: Value| json!({ "messages": [{ "role": "user", "content": content }] });
    let cases = [
        (
            CHAT,
            json!({ "stream_options": { "include_obfuscation": "yes" } }),
            "stream_options.include_obfuscation",
        ),
        (
            text,
            json!({ "stream_options": { "include_obfuscation": 1 } }),
            "stream_options.include_obfuscation",
        ),
        (CHAT, json!({ "stream_options": { "include_usage": "yes" } }), "stream_options.include_usage"),
        (CHAT, json!({ "stream_options": [] }), "stream_options"),
        (CHAT, json!({ "parallel_tool_calls": "yes" }), "parallel_tool_calls"),
        (CHAT, json!({ "moderation": "x" }), "moderation"),
        (CHAT, json!({ "store": "yes" }), "store"),
        (CHAT, json!({ "metadata": [] }), "metadata"),
        (CHAT, json!({ "service_tier": 1 }), "service_tier"),
        (CHAT, json!({ "modalities": "audio" }), "modalities"),
        (CHAT, json!({ "logprobs": 1 }), "logprobs"),
        (CHAT, user(json!([{ "type": "text", "text": 1 }])), "messages[0].content[0].text"),
        (
            CHAT,
            user(json!([{ "type": "image_url", "image_url": { "url": "data:,", "detail": 1 } }])),
            "messages[0].content[0].image_url.detail",
        ),
        (
            CHAT,
            user(json!([{ "type": "file", "file": { "filename": 1 } }])),
            "messages[0].content[0].file.filename",
        ),
        (text, json!({ "echo": "yes" }), "echo"),
        (text, json!({ "suffix": 1 }), "suffix"),
        (text, json!({ "user": 1 }), "user"),
        (text, json!({ "logprobs": true }), "logprobs"),
        (embed, json!({ "user": 1 }), "user"),
        (embed, json!({ "dimensions": "8" }), "dimensions"),
    ];
    for (path, more, member) in cases {
        let body = match path {
            CHAT => chat_with("acme/fast", more),
            "/v1/completions" => with(prompt.clone(), more),
            _ => with(input.clone(), more),
        };
        let answer = world.client.post_json(path, &body).await;
        assert_invalid(&body.to_string(), &answer, "invalid_type");
        assert!(answer.message().contains(&format!("'{member}'")), "{body}: {}", answer.message());
    }
    assert_eq!(world.upstream.hits(), 0);
}
