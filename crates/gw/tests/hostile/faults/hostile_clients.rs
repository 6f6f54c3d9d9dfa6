//! Hostile and broken clients: the rows C1 to C32 of tests/guarantees.md. This file has names, texts and members that try
//! to reach something else.

mod bodies;

use gw_testkit::sse::{chunks, text_of};
use gw_testkit::upstream::{chat_body, chat_transcript, sse_data};
use gw_testkit::{Answer, Signal};
use serde_json::{Value, json};

use crate::harness::{Differences, Setup, assert_error, chat, chat_with, world};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn c14_line_breaks_in_names_reach_no_header_and_no_log_line() {
    let world = world().await;
    let nasty = "x\r\nx-injected: 1\r\n\r\nGET /evil HTTP/1.1\u{0}";
    let tool = json!([{ "type": "function", "function": { "name": nasty } }]);
    for (more, status) in [
        (json!({ "user": nasty }), 200),
        (json!({ "metadata": { "k": nasty } }), 200),
        (json!({ "tools": tool }), 200),
        (json!({ "model": nasty }), 404),
    ] {
        let answer = world.chat(&chat_with("acme/fast", more)).await;
        assert!(answer.header("x-injected").is_none());
        assert_eq!(answer.status, status, "{}", answer.text());
        world.gateway.log_of(answer.header("x-request-id").expect("an id")).await;
    }
    world.client.with_header("x-client-request-id", "a\tb\u{1b}[31mc").get("/v1/models").await;
    for sent in world.upstream.requests() {
        assert!(sent.header("x-injected").is_none());
        assert_eq!(sent.path, CHAT);
    }
    for line in world.gateway.stdout() {
        assert!(line.starts_with('{') && serde_json::from_str::<Value>(&line).is_ok(), "{line:?}");
        assert!(!line.contains(['\u{1b}', '\r']), "{line:?}");
    }
}

#[tokio::test]
async fn c15_model_ids_that_look_like_paths() {
    let world = world().await;
    let long = format!("acme/{}", "x".repeat(10_000));
    const NONE: (u16, &str) = (404, "model_not_found");
    const FOUND: (u16, &str) = (200, "");
    // Each id with three expected answers: as the model of a chat, as a path, and as a path with every byte encoded.
    let ids = [
        ("../", NONE, NONE, NONE),
        ("acme/../fast", NONE, NONE, NONE),
        ("%2e%2e%2f", NONE, NONE, NONE),
        ("acme/%2e%2e%2ffast", NONE, NONE, NONE),
        ("//", NONE, NONE, NONE),
        ("acme//fast", NONE, NONE, NONE),
        ("%00", NONE, NONE, NONE),
        ("acme/fast%00", NONE, NONE, NONE),
        ("acme/fast;x", NONE, NONE, NONE),
        ("acme/fast?x=1", NONE, FOUND, NONE),
        ("acme/fast#x", NONE, FOUND, NONE),
        ("a/../../v1/files", NONE, NONE, NONE),
        ("acme/fast@evil.example", NONE, NONE, NONE),
        ("@evil", NONE, NONE, NONE),
        ("http://evil.example/x", NONE, NONE, NONE),
        ("acme\\fast", NONE, NONE, NONE),
        (".", NONE, NONE, NONE),
        ("..", NONE, NONE, NONE),
        ("acme/.", NONE, NONE, NONE),
        ("acme/..", NONE, NONE, NONE),
        (" acme/fast", NONE, NONE, NONE),
        ("acme/fast ", NONE, NONE, NONE),
        (long.as_str(), (400, "string_above_max_length"), NONE, NONE),
    ];
    let mut rows = Differences::default();
    for (id, chatted, plain, escaped) in ids {
        rows.answer(format!("model {id}"), &world.chat(&chat(id)).await, chatted);
        let path = format!("/v1/models/{}", id.replace(' ', "%20"));
        rows.answer(&path, &world.client.get(&path).await, plain);
        let path = format!("/v1/models/{}", encoded(id));
        rows.answer(format!("{id} as {path}"), &world.client.get(&path).await, escaped);
    }
    rows.finish();
    assert_eq!(world.upstream.hits(), 0, "the catalogue decides, not the text of an id");
    // The gateway decodes a path once; a second encoding is part of the name.
    assert_eq!(world.client.get("/v1/models/acme%2Ffast").await.status, 200);
    assert_eq!(world.client.get("/v1/models/acme%252Ffast").await.status, 404);
    let strange = Setup {
        extra: "[[models]]\nid = \"acme/we%2Fird../?#name\"\ncategory = [\"chat\"]\n".to_owned(),
        ..Setup::default()
    };
    let world = strange.start().await;
    world.chat_ok(&chat("acme/we%2Fird../?#name")).await;
    assert_eq!(world.upstream.last().path, CHAT, "whatever the model is called");
}

fn encoded(id: &str) -> String {
    id.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

#[tokio::test]
async fn c16_text_that_looks_like_an_event() {
    let world = world().await;
    let text = "before\n\ndata: [DONE]\n\ndata: {\"error\":{}}\n\nevent: x\r\n: comment\n\nafter";
    world.upstream.enqueue(Answer::sse().all(&chat_transcript(&[text])).done());
    let frames =
        world.client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await.rest().await;
    assert_eq!(chunks(&frames).len(), 3, "role, text, finish");
    assert_eq!(
        frames.iter().filter(|frame| frame.contains("[DONE]")).count(),
        2,
        "one of them inside a string"
    );
    assert_eq!(text_of(&frames, 0), text);
    let messages = json!({ "messages": [{ "role": "user", "content": text }] });
    world.upstream.enqueue(Answer::json(200, &chat_body("m", text)));
    let body = world.chat_ok(&chat_with("acme/fast", messages.clone())).await;
    assert_eq!(body["choices"][0]["message"]["content"], text);
    assert_eq!(world.upstream.last().json()["messages"], messages["messages"]);
}

#[tokio::test]
async fn c21_fields_that_try_to_steer_the_gateway_are_inert() {
    let world = world().await;
    let evil = world.second.base_url();
    let body = chat_with(
        "acme/fast",
        json!({ "host": "evil.example", "timeout": 1, "Model": "beta/fast", "MODEL": "beta/fast",
                "stream_options": { "include_usage": true } }),
    );
    let overrides = json!({ "api_base": evil, "base_url": evil, "api_key": "stolen", "headers": { "x-evil": "1" },
        "extra_headers": { "authorization": "Bearer stolen" }, "extra_body": { "model": "evil" },
        "user_config": { "api_base": evil }, "custom_llm_provider": "evil", "proxy": evil });
    for (name, value) in overrides.as_object().expect("members") {
        let answer = world.chat(&chat_with("acme/fast", json!({ name: value }))).await;
        assert_error(name, &answer, 400, "invalid_request_error", "unsupported_value");
    }
    assert_eq!(world.upstream.hits(), 0, "a member that steers is sent nowhere");
    let client = world
        .client
        .with_header("x-portkey-custom-host", &evil)
        .with_header("api-base", &evil)
        .with_header("x-forwarded-host", "evil.example");
    let answer = client.post_json(CHAT, &body).await.ok().json();
    assert_eq!(answer["gateway"]["model_used"], "acme/fast");
    assert_eq!((world.second.hits(), world.second.connections()), (0, 0), "no other address is called");
    let sent = world.upstream.last();
    for name in ["x-evil", "x-portkey-custom-host", "api-base", "x-forwarded-host"] {
        assert_eq!(sent.header(name), None, "{name}");
    }
    assert_eq!(sent.header("host"), Some(world.upstream.addr.to_string().as_str()));
    assert_eq!(sent.json()["model"], "fast-2026-01", "the upstream gets the checked model");
}

#[tokio::test]
async fn c23_a_panic_is_one_clients_500_and_nobody_elses_trouble() {
    let world = world().await;
    let release = Signal::new();
    let text = |text: &str| sse_data(&json!({ "content": text }), None);
    world.upstream.enqueue(
        Answer::sse()
            .data(&text("before"))
            .wait(&release)
            .data(&text(" after"))
            .data(&sse_data(&json!({}), Some("stop")))
            .done(),
    );
    let mut stream = world.client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
    stream.json().await;
    assert_eq!(stream.json().await["choices"][0]["delta"]["content"], "before");
    for streamed in [false, true] {
        let answer = world.chat(&chat_with("demo/panic", json!({ "stream": streamed }))).await;
        assert_error("panic", &answer, 500, "server_error", "internal_error");
        let line = world.gateway.log_of(answer.header("x-request-id").expect("an id")).await;
        assert!(line.to_string().contains("internal_error"), "{line}");
    }
    let metrics = world.client.with_key(crate::harness::ADMIN).get("/metrics").await.ok().text();
    let panics = metrics
        .lines()
        .find(|line| line.contains("panics") && !line.starts_with('#'))
        .unwrap_or_default()
        .to_owned();
    assert!(panics.ends_with(" 2"), "the panics are counted: {panics:?}");
    release.fire();
    assert_eq!(text_of(&stream.rest().await, 0), " after");
}
