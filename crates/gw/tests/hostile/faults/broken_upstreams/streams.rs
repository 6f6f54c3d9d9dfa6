//! Streams that stall, break, never end or are written in an unusual way.

use std::time::{Duration, Instant};

use gw_testkit::measured::at_most;
use gw_testkit::sse::{chunks, text_of};
use gw_testkit::upstream::{Step, chat_body, sse_data};
use gw_testkit::{Answer, Signal, within};
use serde_json::json;

use super::{CHAT, frames, patient, streamed, text};
use crate::harness::answers::assert_broken_off;
use crate::harness::{Setup, World, assert_error, chat, chat_with};

/// The frames of a stream that the upstream starts and then ends like this.
async fn broken(world: &World, ending: impl FnOnce(Answer) -> Answer) -> Vec<String> {
    world.upstream.enqueue(ending(Answer::sse().data(&text("begun"))));
    let frames = frames(world).await;
    assert_eq!(text_of(&frames, 0), "begun");
    frames
}

#[tokio::test]
async fn u06_stall_between_chunks() {
    let world = Setup { timeouts: "idle_ms = 300", routing: "retries = 0", ..Setup::default() }.start().await;
    let start = Instant::now();
    world.upstream.enqueue(Answer::sse().data(&text("begun")).hang());
    let mut stream = world.client.stream(CHAT, &streamed()).await;
    let request_id = stream.head.header("x-request-id").expect("an id").to_owned();
    let frames = stream.rest().await;
    assert!(start.elapsed() >= Duration::from_millis(300), "not before the limit");
    at_most("u06_stall_between_chunks", start.elapsed(), Duration::from_secs(3));
    assert_broken_off(&frames, "upstream_timeout");
    world.upstream.last().until_closed().await;
    let line = world.gateway.log_of(&request_id).await;
    assert_eq!((&line["code"], &line["estimated"]), (&json!("upstream_timeout"), &json!(true)), "{line}");
    assert!(
        line["completion_tokens"].as_u64().is_some_and(|tokens| tokens > 0),
        "tokens so far are metered: {line}"
    );
}

#[tokio::test]
async fn u07_reset_in_the_middle() {
    let world = patient().await;
    let (cut, seen) = (Signal::new(), text("begun"));
    world.upstream.enqueue(Answer::sse().data(&seen).wait(&cut).reset());
    let mut stream = world.client.stream(CHAT, &streamed()).await;
    let mut all = vec![stream.data().await.expect("the role"), stream.data().await.expect("the text")];
    let start = Instant::now();
    cut.fire();
    all.extend(stream.rest().await);
    at_most("u07_reset_in_the_middle", start.elapsed(), Duration::from_millis(250));
    assert_broken_off(&all, "upstream_stream_error");
}

#[tokio::test]
async fn u08_clean_end_without_done() {
    let world = patient().await;
    assert_broken_off(&broken(&world, Answer::end).await, "upstream_stream_error");
    let until_close = Answer::sse_until_close().bytes(format!("data: {}\n\n", text("begun"))).close();
    world.upstream.enqueue(until_close);
    assert_broken_off(&frames(&world).await, "upstream_stream_error");
    // `[DONE]` alone does not show that the answer is complete.
    assert_broken_off(&broken(&world, Answer::done).await, "upstream_stream_error");
    // With a finish_reason the answer is complete, with or without `[DONE]`.
    let whole = broken(&world, |answer| answer.data(&sse_data(&json!({}), Some("length"))).end()).await;
    assert_eq!(
        chunks(&whole).last().map(|chunk| chunk["choices"][0]["finish_reason"].clone()),
        Some(json!("length"))
    );
    assert!(!whole.concat().contains("\"error\""));
}

#[tokio::test]
async fn u12_every_legal_way_to_write_an_event_stream() {
    let world = patient().await;
    let (a, b, end) = (text("A🦀"), text("é—B"), sse_data(&json!({}), Some("stop")));
    let pretty = serde_json::to_string_pretty(&b).expect("JSON").replace('\n', "\ndata: ");
    let transcripts = [
        ("lf", format!("data: {a}\n\ndata: {b}\n\ndata: {end}\n\ndata: [DONE]\n\n")),
        ("crlf", format!("data: {a}\r\n\r\ndata: {b}\r\n\r\ndata: {end}\r\n\r\ndata: [DONE]\r\n\r\n")),
        ("cr", format!("data: {a}\r\rdata: {b}\r\rdata: {end}\r\rdata: [DONE]\r\r")),
        ("mixed", format!("data: {a}\r\n\ndata: {b}\r\rdata: {end}\n\r\ndata: [DONE]\n\n")),
        ("bom", format!("\u{feff}data: {a}\n\ndata: {b}\n\ndata: {end}\n\ndata: [DONE]\n\n")),
        (
            "comments",
            format!(
                ": hi\n\ndata: {a}\n: inside\n\n:\n\n: OPENROUTER PROCESSING\n\ndata: {b}\n\ndata: {end}\n\ndata: [DONE]\n\n"
            ),
        ),
        ("no space", format!("data:{a}\n\ndata:{b}\n\ndata:{end}\n\ndata:[DONE]\n\n")),
        (
            "fields",
            format!(
                "event: message\nid: 1\nretry: 5\ndata: {a}\n\nid\nevent: x\ndata: {b}\nunknown: y\n\ndata: {end}\n\nevent: ping\n\ndata: [DONE]\n\n"
            ),
        ),
        ("several lines", format!("data: {a}\n\ndata: {pretty}\n\ndata: {end}\n\ndata: [DONE]\n\n")),
        ("no last blank line", format!("data: {a}\n\ndata: {b}\n\ndata: {end}\n\ndata: [DONE]")),
        ("unended last event", format!("data: {a}\n\ndata: {b}\n\ndata: {end}")),
    ];
    for (label, transcript) in transcripts {
        world.upstream.enqueue(Answer::sse().chunk(transcript).end());
        let frames = frames(&world).await;
        assert_eq!(text_of(&frames, 0), "A🦀é—B", "{label}: {frames:?}");
        assert_eq!(chunks(&frames).len(), 4, "{label}: {frames:?}");
        assert_eq!(chunks(&frames)[3]["choices"][0]["finish_reason"], "stop", "{label}");
    }
}

#[tokio::test]
async fn u13_a_line_without_end() {
    // A debug build needs time to read this much.
    let timeouts = "connect_ms = 1000\nfirst_token_ms = 60000\nidle_ms = 60000\ntotal_ms = 60000";
    let world = Setup { timeouts, routing: "retries = 0", ..Setup::default() }.start().await;
    let starts = [Answer::sse(), Answer::sse().data(&text("begun"))];
    let mut rss = 0;
    // The first round loads code and buffers that all later rounds use again.
    for round in 0..5 {
        for start in &starts {
            let piece = vec![b'x'; 1024 * 1024];
            let endless = start.clone().chunk("data: ").then(Step::Endless(piece, Duration::from_millis(1)));
            world.upstream.enqueue(endless);
            let hit = world.upstream.hits();
            match world.client.try_stream(CHAT, &streamed()).await {
                Err(answer) => assert_eq!(answer.status, 502, "{}", answer.text()),
                Ok(mut stream) => assert_broken_off(&stream.rest().await, "upstream_stream_error"),
            }
            world.upstream.request(hit).await.until_closed().await;
        }
        if round == 0 {
            rss = world.gateway.rss_kib();
        }
    }
    // The allocator returns pages during later work.
    within("the memory is freed", async {
        loop {
            frames(&world).await;
            if world.gateway.rss_kib() <= rss + 4 * 1024 {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn u14_comments_and_drips_do_not_live_for_ever() {
    let timed =
        |timeouts: &'static str| Setup { timeouts, routing: "retries = 0", ..Setup::default() }.start();
    let world = timed("idle_ms = 400\ntotal_ms = 3000").await;
    let endless = |bytes: &str| Step::Endless(bytes.as_bytes().to_vec(), Duration::from_millis(20));
    // Comments after content: only content resets the idle timeout.
    world.upstream.enqueue(Answer::sse().data(&text("begun")).then(endless(":\n\n")));
    let start = Instant::now();
    assert_broken_off(&frames(&world).await, "upstream_timeout");
    at_most("u14_comments_and_drips_do_not_live_for_ever", start.elapsed(), Duration::from_millis(1400));
    // Endless content: the total timeout ends it.
    world.upstream.enqueue(Answer::sse().then(endless(&format!("data: {}\n\n", text("x")))));
    let start = Instant::now();
    assert_broken_off(&frames(&world).await, "upstream_timeout");
    at_most("u14_comments_and_drips_do_not_live_for_ever", start.elapsed(), Duration::from_secs(4));
    let world = timed("first_token_ms = 400").await;
    // Comments only: never a first token.
    world.upstream.enqueue(Answer::sse().then(endless(":\n\n")));
    let answer = world.client.try_stream(CHAT, &streamed()).await.expect_err("not a stream");
    assert_error("comments only", &answer, 504, "upstream_error", "upstream_timeout");
}

#[tokio::test]
async fn u15_an_error_as_the_first_event() {
    let world = patient().await;
    let errors = [
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
        "data: {\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\",\"code\":null}}\n\n",
        "data: {\"object\":\"error\",\"message\":\"x\",\"code\":503}\n\n",
        "data: {\"choices\":[],\"error\":{\"code\":502,\"message\":\"x\"}}\n\n",
        ": wait\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: {\"error\":{\"message\":\"late\"}}\n\n",
    ];
    for error in errors {
        world.upstream.enqueue(Answer::sse().chunk(error).done());
        let body =
            chat_with("acme/fast", json!({ "stream": true, "routing": { "fallback": ["beta/spare"] } }));
        let frames = world.client.stream(CHAT, &body).await.rest().await;
        assert_eq!(text_of(&frames, 0), "Hello from upstream", "{error}");
        let all = chunks(&frames);
        assert!(
            all.iter().all(|chunk| chunk.get("error").is_none() && chunk["id"] == all[0]["id"]),
            "{error}"
        );
        assert_eq!(all[0]["choices"][0]["delta"], json!({ "role": "assistant" }), "{error}");
        assert_eq!(all.last().map(|chunk| chunk["gateway"]["model_used"].clone()), Some(json!("beta/spare")));
    }
}

#[tokio::test]
async fn u25_strings_that_break_lines() {
    let world = patient().await;
    let nasty = "a\nb\r\u{0}c\u{2028}d\u{2029}e\u{85}f\"g\\h";
    let mut body = chat_body(nasty, nasty);
    body["id"] = json!(nasty);
    body["system_fingerprint"] = json!(nasty);
    world.upstream.enqueue(Answer::json(200, &body));
    let got = world.chat(&chat("acme/fast")).await.ok();
    assert_eq!(got.json()["choices"][0]["message"]["content"], nasty);
    assert_eq!(got.json()["model"], nasty);
    for (_, value) in &got.headers {
        assert!(!value.contains('\n') && !value.contains('\0'), "{value:?}");
    }
    let mut chunk = text(nasty);
    for name in ["id", "model", "system_fingerprint"] {
        chunk[name] = json!(nasty);
    }
    world.upstream.enqueue(Answer::sse().data(&chunk).data(&sse_data(&json!({}), Some("stop"))).done());
    let got = frames(&world).await;
    assert_eq!(chunks(&got).len(), 3, "one event stays one event: {got:?}");
    assert_eq!(text_of(&got, 0), nasty);
    for frame in &got {
        assert_eq!(frame.matches('\n').count(), 2, "{frame:?}");
        assert!(!frame.contains(['\u{2028}', '\u{2029}', '\u{85}', '\r', '\0']), "{frame:?}");
    }
    // A lone surrogate has no UTF-8 form, so the replacement character stands for it.
    let whole = chat_body("m", "MARK").to_string().replace("MARK", "\\ud800");
    world.upstream.enqueue(Answer::full(200, &[], whole));
    let got = world.chat(&chat("acme/fast")).await;
    assert_eq!(got.ok().json()["choices"][0]["message"]["content"], "\u{fffd}");
    let event = text("MARK").to_string().replace("MARK", "\\udfff");
    world.upstream.enqueue(
        Answer::sse()
            .data(&text("begun"))
            .chunk(format!("data: {event}\n\n"))
            .data(&sse_data(&json!({}), Some("stop")))
            .done(),
    );
    let got = frames(&world).await;
    assert_eq!(text_of(&got, 0), "begun\u{fffd}");
}
