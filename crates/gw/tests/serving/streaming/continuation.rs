//! `mid_stream = "continue"`: the next candidate finishes a broken text stream, and both calls are charged.

use gw_testkit::sse::{chunks, text_of};
use gw_testkit::upstream::sse_data;
use gw_testkit::wait::eventually_async;
use gw_testkit::{Answer, Signal};
use serde_json::{Value, json};

use crate::harness::answers::assert_broken_off;
use crate::harness::{ADMIN, Setup, World, chat_with, logged, with};

const PATH: &str = "/v1/chat/completions";

async fn continuing() -> World {
    Setup { routing: "retries = 0\nmid_stream = \"continue\"", ..Setup::default() }.start().await
}

fn streamed(more: Value) -> Value {
    let asked = json!({ "stream": true, "stream_options": { "include_usage": true }, "routing": { "fallback": ["beta/fast"] } });
    with(chat_with("acme/fast", asked), more)
}

/// Some text without an end.
fn broken() -> Answer {
    Answer::sse()
        .data(&sse_data(&json!({ "role": "assistant", "content": "Once upon" }), None))
        .data(&sse_data(&json!({ "content": " a time" }), None))
}

async fn frames(world: &World, body: &Value) -> Vec<String> {
    world.client.stream(PATH, body).await.rest().await
}

/// The only row of the log.
async fn only_row(world: &World) -> Value {
    let admin = world.client.with_key(ADMIN);
    eventually_async("the row is in the ledger", async || {
        let rows = admin.get("/admin/v1/requests").await.ok().json();
        if rows["data"].as_array().is_some_and(|rows| rows.len() == 1) {
            return Some(rows["data"][0].clone());
        }
        None
    })
    .await
}

#[tokio::test]
async fn the_next_candidate_goes_on_where_the_text_stopped() {
    let world = continuing().await;
    world.upstream.enqueue(broken().reset());
    world.second.enqueue(
        Answer::sse()
            .data(&sse_data(&json!({ "role": "assistant", "content": " there was" }), None))
            .data(&sse_data(&json!({ "content": " a stream." }), Some("stop")))
            .done(),
    );
    let frames = frames(&world, &streamed(json!({ "max_tokens": 50 }))).await;
    assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"));
    let all = chunks(&frames);
    assert_eq!(text_of(&frames, 0), "Once upon a time there was a stream.");
    let roles = all.iter().filter(|chunk| !chunk["choices"][0]["delta"]["role"].is_null()).count();
    assert_eq!(roles, 1, "one role for one answer");
    let ids: std::collections::BTreeSet<&str> = all.iter().filter_map(|chunk| chunk["id"].as_str()).collect();
    let models: std::collections::BTreeSet<&str> =
        all.iter().filter_map(|chunk| chunk["model"].as_str()).collect();
    assert_eq!((ids.len(), models.len()), (1, 1), "{ids:?} {models:?}");
    let last = all.last().expect("a last chunk");
    let gateway = &last["gateway"];
    assert_eq!((&gateway["model_used"], &gateway["fallback_used"]), (&json!("beta/fast"), &json!(true)));
    assert_eq!(gateway["warnings"], json!(["continued_mid_stream"]));
    let attempts: Vec<&str> =
        gateway["attempts"].as_array().unwrap().iter().filter_map(|row| row["status"].as_str()).collect();
    assert_eq!(attempts, ["upstream_stream_error", "ok"]);
    // The second request has the text so far, the request for the rest, and the remaining token limit.
    let asked = world.second.last().json();
    let messages = asked["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{asked}");
    assert_eq!(messages[1], json!({ "role": "assistant", "content": "Once upon a time" }));
    assert!(asked["max_tokens"].as_u64().unwrap() < 50, "{asked}");
    // The answer and the ledger have the cost of both calls.
    let id = last["gateway"]["request_id"].as_str().unwrap_or_default();
    let row = logged(&world.client.with_key(ADMIN), id).await;
    assert_eq!(row["prompt_tokens"], last["usage"]["prompt_tokens"]);
    assert_eq!(row["completion_tokens"], last["usage"]["completion_tokens"]);
    assert_eq!((&row["cost_usd"], &row["estimated"]), (&last["usage"]["cost_usd"], &json!(true)), "{row}");
    let estimate = |model: &str, prompt: f64, text: f64| match model {
        "acme" => prompt * 0.15 + text * 0.6,
        _ => prompt * 0.3 + text * 1.2,
    };
    let second = (asked["messages"].to_string().len() as f64 / 3.0).ceil() + 24.0;
    let first = estimate("acme", 10.0, 6.0);
    let most = (first + estimate("beta", second, 8.0)) / 1e6;
    let cost = row["cost_usd"].as_f64().unwrap();
    assert!(cost > first / 1e6 && cost <= most, "{cost} of at most {most}");
    assert_eq!((&row["status"], row["attempts"].as_array().unwrap().len()), (&json!("ok"), 2));
}

/// The upstream breaks off when all its text is with the client, so that the continuation begins with nothing to send.
#[tokio::test]
async fn without_keepalives_a_continued_stream_has_no_comment() {
    let (routing, server) = ("retries = 0\nmid_stream = \"continue\"", "keepalive_seconds = 0");
    let world = Setup { routing, server, ..Setup::default() }.start().await;
    let is_read = Signal::new();
    world.upstream.enqueue(broken().wait(&is_read).reset());
    world
        .second
        .enqueue(Answer::sse().data(&sse_data(&json!({ "content": " there." }), Some("stop"))).done());
    let mut stream = world.client.stream(PATH, &streamed(json!({}))).await;
    let mut frames = Vec::new();
    while text_of(&frames, 0) != "Once upon a time" {
        frames.push(stream.frame().await.expect("a frame"));
    }
    is_read.fire();
    frames.extend(stream.rest().await);
    assert_eq!(text_of(&frames, 0), "Once upon a time there.");
    let comments: Vec<_> = frames.iter().filter(|frame| frame.starts_with(':')).collect();
    assert!(comments.is_empty(), "{frames:?}");
}

#[tokio::test]
async fn an_upstream_that_falls_silent_is_continued_too_and_a_second_break_by_the_third() {
    let setup = Setup {
        routing: "retries = 0\nmid_stream = \"continue\"",
        timeouts: "idle_ms = 3000",
        ..Setup::default()
    };
    let world = setup.start().await;
    world.upstream.enqueue(broken().hang());
    world.second.enqueue(Answer::sse().data(&sse_data(&json!({ "content": " there" }), None)).reset());
    world.second.enqueue(Answer::sse().data(&sse_data(&json!({ "content": " was." }), Some("stop"))).done());
    let body = streamed(json!({ "routing": { "fallback": ["beta/fast", "beta/spare"] } }));
    let frames = frames(&world, &body).await;
    let all = chunks(&frames);
    assert_eq!(text_of(&frames, 0), "Once upon a time there was.");
    let last = all.last().expect("a last chunk");
    assert_eq!(last["gateway"]["model_used"], "beta/spare");
    let messages = world.second.last().json()["messages"].clone();
    assert_eq!(messages[1]["content"], "Once upon a time there", "the whole text, once");
    assert_eq!(messages.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn nobody_to_go_on_is_the_error_event_and_what_was_used_is_paid() {
    let world = continuing().await;
    world.upstream.enqueue(broken().reset());
    world.second.always(Answer::error(500, "x", "down"));
    let body = streamed(json!({}));
    let frames = frames(&world, &body).await;
    assert_broken_off(&frames, "upstream_stream_error");
    let row = only_row(&world).await;
    assert_eq!(
        (&row["status"], &row["model"]),
        (&json!("upstream_stream_error"), &json!("acme/fast")),
        "{row}"
    );
    assert!(
        row["completion_tokens"].as_u64().unwrap() >= 3 && row["cost_usd"].as_f64().unwrap() > 0.0,
        "{row}"
    );
}

#[tokio::test]
async fn tool_calls_and_json_are_never_continued() {
    let tools =
        json!([{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }]);
    for more in [
        json!({ "tools": tools }),
        json!({ "response_format": { "type": "json_object" } }),
        json!({ "n": 2 }),
    ] {
        let world = continuing().await;
        world.upstream.enqueue(broken().reset());
        assert_broken_off(&frames(&world, &streamed(more)).await, "upstream_stream_error");
        assert_eq!(world.second.hits(), 0);
    }
    let call = json!({ "tool_calls": [{ "index": 0, "id": "c", "type": "function", "function": { "name": "f", "arguments": "{" } }] });
    let world = continuing().await;
    world.upstream.enqueue(broken().data(&sse_data(&call, None)).reset());
    assert_broken_off(&frames(&world, &streamed(json!({}))).await, "upstream_stream_error");
    assert_eq!(world.second.hits(), 0);
}

#[tokio::test]
async fn what_a_filter_refused_is_not_continued_by_another_model() {
    let world = continuing().await;
    let refusal = json!({ "error": { "message": "filtered", "type": "invalid_request_error", "code": "content_filter" } });
    world.upstream.enqueue(broken().data(&refusal).done());
    assert_broken_off(&frames(&world, &streamed(json!({}))).await, "upstream_stream_error");
    assert_eq!(world.second.hits(), 0);
}

#[tokio::test]
async fn a_stream_whose_time_is_over_is_not_continued_and_nobody_is_blamed() {
    let setup = Setup {
        routing: "retries = 0\nmid_stream = \"continue\"\n[routing.breaker]\nfailures = 1",
        timeouts: "total_ms = 3000",
        ..Setup::default()
    };
    let world = setup.start().await;
    world.upstream.enqueue(broken().hang());
    assert_broken_off(&frames(&world, &streamed(json!({}))).await, "upstream_timeout");
    assert_eq!(world.second.hits(), 0);
    let providers = world.client.with_key(ADMIN).get("/admin/v1/providers").await.ok().json();
    let standing = providers["data"][0]["targets"]
        .as_array()
        .and_then(|rows| rows.first())
        .map(|row| row["standing"].clone());
    assert_ne!(standing, Some(json!("open")), "a long answer is no fault: {providers}");
}

/// The data of a frame of the Responses API.
fn response_event(frame: &str) -> Option<Value> {
    let data = frame.lines().find_map(|line| line.strip_prefix("data: {"))?;
    serde_json::from_str(&format!("{{{data}")).ok()
}

/// The Responses API numbers its events. Signs of life before the next candidate's first word have numbers, or are no events.
#[tokio::test]
async fn the_events_of_a_continued_response_count_without_gaps_or_repeats() {
    for (server, waits) in [("", false), ("keepalive_seconds = 1", true)] {
        let routing = "retries = 0\nmax_attempts = 3\nmid_stream = \"continue\"";
        let acme = "responses = false".to_owned();
        let world = Setup { routing, server, acme, ..Setup::default() }.start().await;
        world.upstream.enqueue(broken().end());
        let more = Signal::new();
        let answer = if waits { Answer::sse().wait(&more) } else { Answer::sse() };
        let rest = [
            sse_data(&json!({ "role": "assistant", "content": " there" }), None),
            sse_data(&json!({ "content": " was." }), Some("stop")),
        ];
        world.second.enqueue(answer.all(&rest).done());
        let body = json!({ "model": "acme/fast", "input": "Hello", "stream": true,
            "routing": { "fallback": ["beta/fast"] } });
        let mut stream = world.client.stream("/v1/responses", &body).await;
        let mut frames = Vec::new();
        if waits {
            // Signs of life come while the next candidate is silent.
            while !frames.iter().any(|frame: &String| frame.contains(" a time")) {
                frames.push(stream.frame().await.expect("a frame"));
            }
            for _ in 0..2 {
                frames.push(stream.frame().await.expect("a sign of life"));
            }
            more.fire();
        }
        frames.extend(stream.rest().await);
        let numbers: Vec<u64> =
            frames.iter().filter_map(|frame| response_event(frame)?["sequence_number"].as_u64()).collect();
        let expected: Vec<u64> = (0..).take(numbers.len()).collect();
        assert_eq!(numbers, expected, "{waits}: {frames:?}");
        let text: String = frames
            .iter()
            .filter_map(|frame| response_event(frame))
            .filter(|event| event["type"] == "response.output_text.delta")
            .filter_map(|event| event["delta"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(text, "Once upon a time there was.", "{waits}: {frames:?}");
        assert!(frames.iter().any(|frame| frame.starts_with("event: response.completed")), "{frames:?}");
    }
}
