//! Streamed chat: the frame grammar, the order of chunks, the first content, failures in the middle, cancellation.

use std::time::Duration;

use gw_testkit::measured::at_most;
use gw_testkit::sse::{chunks, text_of};
use gw_testkit::upstream::{chat_transcript, sse_data};
use gw_testkit::{Answer, Signal};
use serde_json::{Value, json};

use crate::harness::answers::assert_broken_off;
use crate::harness::{Setup, World, assert_error, assert_request_id, chat_with, world};

const PATH: &str = "/v1/chat/completions";

fn streamed(more: Value) -> Value {
    crate::harness::with(chat_with("acme/fast", json!({ "stream": true })), more)
}

/// All frames of the answer to a streamed request.
async fn frames(world: &World, body: &Value) -> Vec<String> {
    world.client.stream(PATH, body).await.rest().await
}

/// All frames when the upstream streams these chunks and `[DONE]`.
async fn frames_of(world: &World, upstream: &[Value], body: &Value) -> Vec<String> {
    world.upstream.enqueue(Answer::sse().all(upstream).done());
    frames(world, body).await
}

fn usage_chunk() -> Value {
    chat_transcript(&[]).pop().expect("the transcript ends with usage")
}

#[tokio::test]
async fn every_frame_is_data_or_a_comment_and_the_last_is_done() {
    let world = world().await;
    let mut stream = world.client.stream(PATH, &streamed(json!({}))).await;
    let head = stream.head.clone();
    assert_eq!(head.status, 200);
    assert_eq!(head.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(head.header("cache-control"), Some("no-cache"));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    assert_eq!(head.header("content-length"), None);
    assert_eq!(head.header("content-encoding"), None);
    assert_eq!(head.header("access-control-allow-origin"), Some("*"));
    assert_request_id("stream", head.header("x-request-id"));
    let frames = stream.rest().await;
    assert!(!stream.broken, "the body ends cleanly");
    for frame in &frames {
        assert!(frame.ends_with("\n\n") && frame.matches('\n').count() == 2, "{frame:?}");
        assert!(frame.starts_with("data: ") || frame.starts_with(": "), "{frame:?}");
    }
    assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"));
}

#[tokio::test]
async fn chunks_come_in_the_specified_order() {
    let world = world().await;
    let body = streamed(json!({}));
    let mut stream = world.client.stream(PATH, &body).await;
    let request_id = stream.head.header("x-request-id").map(str::to_owned);
    let all = chunks(&stream.rest().await);
    assert_eq!(
        all[0]["choices"],
        json!([{ "index": 0, "delta": { "role": "assistant" }, "finish_reason": null }])
    );
    for (chunk, text) in all[1..].iter().zip(["Hello", " from", " upstream"]) {
        assert_eq!(
            chunk["choices"],
            json!([{ "index": 0, "delta": { "content": text }, "finish_reason": null }])
        );
    }
    let last = all.last().expect("chunks");
    assert_eq!(all.len(), 5);
    assert_eq!(last["choices"], json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }]));
    assert_eq!(last["gateway"]["request_id"].as_str(), request_id.as_deref());
    assert_eq!(last["gateway"]["model_used"], "acme/fast");
    assert_eq!(last["gateway"]["attempts"][0]["status"], "ok");
    assert!(last["gateway"]["latency_ms"].is_u64());
    for chunk in &all {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        for shared in ["id", "created", "model"] {
            assert_eq!(chunk[shared], all[0][shared]);
        }
        assert!(chunk.get("usage").is_none());
        assert_eq!(chunk.get("gateway").is_some(), chunk == last);
    }
    assert!(all[0]["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-") && id != "chatcmpl-upstream"));
    assert_eq!(world.upstream.last().json()["stream_options"]["include_usage"], true, "for our own metering");
}

#[tokio::test]
async fn usage_is_null_until_one_last_chunk_when_asked_for() {
    let world = world().await;
    let all =
        chunks(&frames(&world, &streamed(json!({ "stream_options": { "include_usage": true } }))).await);
    let (last, before) = all.split_last().expect("chunks");
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["prompt_tokens"], 10);
    assert_eq!(last["usage"]["completion_tokens"], 5);
    assert_eq!(last["usage"]["total_tokens"], 15);
    assert!(last["usage"]["cost_usd"].is_number());
    assert!(last["gateway"].is_object());
    for chunk in before {
        assert!(chunk.get("usage").is_some_and(Value::is_null) && chunk.get("gateway").is_none(), "{chunk}");
    }
    assert_eq!(before.last().map(|chunk| chunk["choices"][0]["finish_reason"].clone()), Some(json!("stop")));
}

#[tokio::test]
async fn untidy_upstreams_are_brought_into_order() {
    let world = world().await;
    let upstream = [
        json!({ "id": "", "object": "", "choices": [], "prompt_filter_results": [] }),
        sse_data(&json!({ "role": "assistant", "content": "A" }), None),
        sse_data(&json!({ "role": "assistant", "content": "B" }), None),
        sse_data(&json!({ "content": "C" }), Some("stop")),
    ];
    let frames = frames_of(&world, &upstream, &streamed(json!({}))).await;
    let all = chunks(&frames);
    assert_eq!(text_of(&frames, 0), "ABC");
    let roles = all.iter().filter(|chunk| chunk["choices"][0]["delta"].get("role").is_some()).count();
    assert_eq!(roles, 1, "the role is sent once");
    assert_eq!(all[0]["choices"][0]["delta"], json!({ "role": "assistant" }));
    assert_eq!(all.last().map(|chunk| chunk["choices"][0]["delta"].clone()), Some(json!({})));
    assert!(all.iter().all(|chunk| chunk["choices"].as_array().is_some_and(|choices| choices.len() == 1)));
}

#[tokio::test]
async fn roles_of_several_choices_come_in_index_order() {
    let world = world().await;
    let at = |index: u64, delta: Value, finish: Option<&str>| {
        let mut chunk = sse_data(&delta, finish);
        chunk["choices"][0]["index"] = json!(index);
        chunk
    };
    let upstream = [
        at(1, json!({ "content": "one" }), None),
        at(0, json!({ "content": "zero" }), None),
        at(1, json!({}), Some("length")),
        at(0, json!({}), Some("stop")),
    ];
    let frames = frames_of(&world, &upstream, &streamed(json!({ "n": 2 }))).await;
    let all = chunks(&frames);
    let roles: Vec<_> = all
        .iter()
        .flat_map(|chunk| chunk["choices"].as_array().cloned().unwrap_or_default())
        .filter(|choice| choice["delta"].get("role").is_some())
        .map(|choice| choice["index"].clone())
        .collect();
    assert_eq!(roles, [json!(0), json!(1)]);
    assert_eq!((text_of(&frames, 0), text_of(&frames, 1)), ("zero".to_owned(), "one".to_owned()));
}

#[tokio::test]
async fn tool_calls_are_counted_and_named_once() {
    let world = world().await;
    let call = |index: u64, id: Option<&str>, name: Option<&str>, arguments: &str| {
        let mut function = json!({ "arguments": arguments });
        if let Some(name) = name {
            function["name"] = json!(name);
        }
        let mut call = json!({ "index": index, "function": function });
        if let Some(id) = id {
            call["id"] = json!(id);
            call["type"] = json!("function");
        }
        sse_data(&json!({ "tool_calls": [call] }), None)
    };
    let upstream = [
        call(0, Some("call_a"), Some("first"), ""),
        call(0, Some("call_a"), None, "{\"x\""),
        call(0, None, None, ":1}"),
        call(1, None, Some("second"), ""),
        sse_data(&json!({}), Some("tool_calls")),
    ];
    let all = chunks(&frames_of(&world, &upstream, &streamed(json!({}))).await);
    let deltas: Vec<_> = all
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"].get("tool_calls"))
        .map(|calls| calls[0].clone())
        .collect();
    assert_eq!(
        deltas[0],
        json!({ "index": 0, "id": "call_a", "type": "function", "function": { "name": "first", "arguments": "" } })
    );
    assert_eq!(deltas[1], json!({ "index": 0, "function": { "arguments": "{\"x\"" } }));
    assert_eq!(deltas[2], json!({ "index": 0, "function": { "arguments": ":1}" } }));
    assert_eq!((&deltas[3]["index"], &deltas[3]["function"]["name"]), (&json!(1), &json!("second")));
    assert!(deltas[3]["id"].as_str().is_some_and(|id| !id.is_empty()), "an absent id is generated");
    assert_eq!(
        deltas[4],
        json!({ "index": 1, "function": { "arguments": "{}" } }),
        "no fragment at all: an empty object"
    );
    assert_eq!(
        all.last().map(|chunk| chunk["choices"][0]["finish_reason"].clone()),
        Some(json!("tool_calls"))
    );
}

#[tokio::test]
async fn chunks_are_passed_on_as_they_come() {
    let world = world().await;
    let signals: Vec<_> = (0..3).map(|_| Signal::new()).collect();
    let text = |text: &str| sse_data(&json!({ "content": text }), None);
    let answer = Answer::sse()
        .data(&text("one"))
        .wait(&signals[0])
        .data(&text("two"))
        .wait(&signals[1])
        .data(&sse_data(&json!({}), Some("stop")))
        .data(&usage_chunk())
        .done();
    world.upstream.enqueue(answer);
    let mut stream = world.client.stream(PATH, &streamed(json!({}))).await;
    assert_eq!(stream.json().await["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(stream.json().await["choices"][0]["delta"]["content"], "one");
    signals[0].fire();
    assert_eq!(stream.json().await["choices"][0]["delta"]["content"], "two");
    signals[1].fire();
    assert_eq!(stream.json().await["choices"][0]["finish_reason"], "stop");
    assert_eq!(stream.data().await.as_deref(), Some("data: [DONE]\n\n"));
    assert_eq!(stream.frame().await, None);
}

#[tokio::test]
async fn comments_keep_a_silent_stream_alive() {
    let world = Setup { server: "keepalive_seconds = 1", ..Setup::default() }.start().await;
    let release = Signal::new();
    let transcript = chat_transcript(&["late"]);
    let answer = Answer::sse()
        .data(&sse_data(&json!({ "content": "early" }), None))
        .wait(&release)
        .all(&transcript[1..])
        .done();
    world.upstream.enqueue(answer);
    let mut stream = world.client.stream(PATH, &streamed(json!({}))).await;
    stream.json().await;
    stream.json().await;
    assert_eq!(stream.frame().await.as_deref(), Some(": keepalive\n\n"));
    release.fire();
    assert_eq!(text_of(&stream.rest().await, 0), "late");
}

#[tokio::test]
async fn a_failure_before_the_first_event_is_an_http_error() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let failures = [
        (Answer::error(500, "x", "boom"), 502, "upstream_error"),
        (
            Answer::sse().data(&json!({ "error": { "message": "boom", "code": 500 } })).done(),
            502,
            "upstream_error",
        ),
        (Answer::sse().end(), 502, ""),
        (Answer::sse().reset(), 502, ""),
        (Answer::sse().data(&json!({ "choices": [] })).end(), 502, ""),
        (Answer::sse().chunk("data: [DONE]\n\n").end(), 502, ""),
    ];
    for (failure, status, code) in failures {
        let label = format!("{failure:?}");
        world.upstream.enqueue(failure);
        let answer = world.client.try_stream(PATH, &streamed(json!({}))).await.expect_err("not a stream");
        let code = if code.is_empty() { answer.code() } else { code.to_owned() };
        assert_error(&label, &answer, status, "upstream_error", &code);
    }
}

/// The only test that waits for a fixed timeout: ten seconds.
#[tokio::test]
async fn after_ten_seconds_without_an_event_the_stream_opens_and_a_failure_is_the_error_event() {
    let setup = Setup { timeouts: "first_token_ms = 11000", routing: "retries = 0", ..Setup::default() };
    let world = setup.start().await;
    world.upstream.enqueue(Answer::sse().hang());
    let start = std::time::Instant::now();
    let mut stream = world.client.stream(PATH, &streamed(json!({}))).await;
    assert_eq!(stream.head.status, 200);
    assert!(start.elapsed().as_secs() >= 9, "{:?}", start.elapsed());
    at_most(
        "after_ten_seconds_without_an_event_the_stream_opens_and_a_failure_is_the_error_event",
        start.elapsed().as_secs(),
        11,
    );
    assert_eq!(stream.frame().await.as_deref(), Some(": keepalive\n\n"));
    assert_broken_off(&stream.rest().await, "upstream_timeout");
}

#[tokio::test]
async fn request_faults_are_http_errors_also_for_streams() {
    let world = world().await;
    let answer = world
        .client
        .try_stream(PATH, &streamed(json!({ "temperature": 9 })))
        .await
        .expect_err("not a stream");
    crate::harness::assert_invalid("temperature", &answer, "decimal_above_max_value");
}

#[tokio::test]
async fn an_error_in_the_middle_is_the_error_event() {
    let world = world().await;
    let begin = || Answer::sse().data(&sse_data(&json!({ "content": "begun" }), None));
    let endings = [
        begin().data(&json!({ "error": { "message": "boom", "type": "x", "code": null } })).done(),
        begin().data(&json!({ "object": "error", "message": "boom", "code": 500 })).done(),
        begin().data(&json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "error" }] })).done(),
        begin().done(),
        begin().end(),
    ];
    for ending in endings {
        let label = format!("{ending:?}");
        world.upstream.enqueue(ending);
        let frames = frames(&world, &streamed(json!({}))).await;
        assert_eq!(text_of(&frames, 0), "begun", "{label}");
        assert_broken_off(&frames, "upstream_stream_error");
    }
    assert_eq!(world.upstream.hits(), 5, "no second attempt after the first byte");
}

#[tokio::test]
async fn closing_the_client_closes_the_upstream_at_once() {
    let world = world().await;
    let endless = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n".to_vec();
    world
        .upstream
        .always(Answer::sse().then(gw_testkit::upstream::Step::Endless(endless, gw_testkit::upstream::DRIP)));
    for reset in [false, true] {
        let hits = world.upstream.hits();
        let mut stream = world.client.stream(PATH, &streamed(json!({}))).await;
        stream.json().await;
        stream.json().await;
        let upstream = world.upstream.request(hits).await;
        let left = std::time::Instant::now();
        if reset {
            stream.reset()
        } else {
            stream.close()
        }
        let closed = upstream.until_closed().await;
        at_most(
            "closing_the_client_closes_the_upstream_at_once",
            closed.duration_since(left),
            Duration::from_secs(2),
        );
    }
    world.gateway.log_with("client_closed_request").await;
}

#[tokio::test]
async fn closing_the_client_before_the_first_token_closes_the_upstream() {
    let world = world().await;
    world.upstream.always(Answer::sse().hang());
    let body = streamed(json!({})).to_string();
    let wire = world.client.open("POST", PATH, Some("application/json"), Some(body.as_bytes())).await;
    let upstream = world.upstream.request(0).await;
    drop(wire);
    upstream.until_closed().await;
    world.gateway.log_with("client_closed_request").await;
}

#[tokio::test]
async fn line_separators_in_text_cannot_split_an_event() {
    let world = world().await;
    let nasty = "a\u{85}b\u{2028}c\u{2029}d\r\ne";
    let frames = frames_of(&world, &chat_transcript(&[nasty]), &streamed(json!({}))).await;
    assert_eq!(text_of(&frames, 0), nasty);
    for character in ['\u{85}', '\u{2028}', '\u{2029}', '\r'] {
        assert!(!frames.concat().contains(character), "{character:?} is escaped");
    }
}

#[tokio::test]
async fn the_demo_provider_streams_and_misbehaves_on_request() {
    let world =
        Setup { timeouts: "idle_ms = 300\nfirst_token_ms = 600", routing: "retries = 0", ..Setup::default() }
            .start()
            .await;
    let ask = |model: &str| chat_with(model, json!({ "stream": true }));
    let whole = frames(&world, &ask("demo/chat")).await;
    assert!(!text_of(&whole, 0).is_empty());
    let plain = world.chat_ok(&crate::harness::chat("demo/chat")).await;
    assert_eq!(plain["choices"][0]["message"]["content"], text_of(&whole, 0));
    assert_broken_off(&frames(&world, &ask("demo/cut")).await, "upstream_stream_error");
    for (model, status) in [("demo/error-429", 429), ("demo/error-500", 502)] {
        let answer = world.client.try_stream(PATH, &ask(model)).await.expect_err("not a stream");
        assert_eq!(answer.status, status, "{model}: {}", answer.text());
    }
}

/// Some upstreams stream with the content type of a document (Gemini's list, Ollama's lines behind a proxy).
#[tokio::test]
async fn a_stream_that_calls_itself_a_document_is_read_as_a_stream() {
    let world = world().await;
    let json = [("content-type", "application/json")];
    let events =
        |chunks: &[Value]| chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect::<String>();
    let transcript = chat_transcript(&["Hel", "lo"]);
    let whole = format!("{}data: [DONE]\n\n", events(&transcript));
    world.upstream.enqueue(Answer::full(200, &json, whole));
    let got = frames(&world, &streamed(json!({}))).await;
    assert_eq!(text_of(&got, 0), "Hello");
    assert_eq!(got.last().map(|frame| frame.trim_end()), Some("data: [DONE]"));
    // A body that is neither a stream nor a document is an invalid answer, and a cut stream is never complete.
    world.upstream.enqueue(Answer::full(200, &json, "{\"what\": 1"));
    assert_eq!(world.chat(&streamed(json!({}))).await.status, 502);
    world.upstream.enqueue(Answer::full(200, &json, events(&transcript[..2])));
    let got = frames(&world, &streamed(json!({}))).await;
    assert!(got.iter().any(|frame| frame.contains("upstream_stream_error")), "{got:?}");
}
