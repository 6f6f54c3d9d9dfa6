//! Calls of tools whose arguments are no JSON, for clients of the Messages API, which knows objects alone.

use gw_testkit::Answer;
use gw_testkit::upstream::{chat_body, sse_data};
use serde_json::{Value, json};

use super::{ask_messages, event, message};
use crate::harness::ledger::rows;
use crate::harness::{World, chat, with, world};

/// Arguments that no client can read: some are cut off, and some have their last brace.
const BROKEN: [&str; 3] = [r#"{"city":"Os"#, "{city: Oslo}", r#"{"city":"Oslo",}"#];

fn request(stream: bool) -> Value {
    let tool = json!({"name": "look", "input_schema": {"type": "object"}});
    with(message("acme/fast"), json!({"stream": stream, "tools": [tool]}))
}

/// The upstream's stream: a text, and calls with these arguments.
fn stream(calls: &[&str], finish: &str) -> Answer {
    let mut chunks = vec![sse_data(&json!({"role": "assistant", "content": "Well"}), None)];
    for (index, arguments) in calls.iter().enumerate() {
        let function = json!({"name": "look", "arguments": arguments});
        let call =
            json!({"index": index, "id": format!("call_{index}"), "type": "function", "function": function});
        chunks.push(sse_data(&json!({"tool_calls": [call]}), None));
    }
    chunks.push(sse_data(&json!({}), Some(finish)));
    let mut usage = sse_data(&json!({}), None);
    usage["choices"] = json!([]);
    usage["usage"] = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    chunks.push(usage);
    Answer::sse().all(&chunks).done()
}

/// The events that a client gets.
async fn told(world: &World) -> Vec<(String, Value)> {
    let mut stream = world.client.stream("/v1/messages", &request(true)).await;
    stream.rest().await.iter().filter_map(|frame| event(frame)).collect()
}

#[tokio::test]
async fn a_stream_with_a_call_that_is_no_json_ends_with_an_error_and_is_charged() {
    let world = world().await;
    let mut asked = 0;
    for broken in BROKEN {
        // The broken call is the only one, the first one or the last one.
        for calls in [&[broken][..], &[broken, "{}"], &["{}", broken]] {
            for finish in ["tool_calls", "stop"] {
                world.upstream.enqueue(stream(calls, finish));
                let events = told(&world).await;
                let label = format!("{calls:?} {finish}: {events:?}");
                let (name, last) = events.last().expect("an event");
                assert_eq!(
                    (name.as_str(), &last["error"]["type"]),
                    ("error", &json!("api_error")),
                    "{label}"
                );
                assert!(last["error"]["message"].to_string().contains("not valid JSON"), "{label}");
                assert!(
                    events.iter().all(|(name, _)| name != "message_stop" && name != "message_delta"),
                    "{label}"
                );
                asked += 1;
                let found = rows(&world.gateway, asked).await;
                for row in found {
                    assert_eq!((&*row.status, row.cost), ("upstream_stream_error", 4_500_000_000), "{row:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn broken_calls_of_one_client_open_no_circuit_for_others() {
    let world = world().await;
    for _ in 0..6 {
        world.upstream.enqueue(stream(&[BROKEN[0]], "tool_calls"));
        assert_eq!(told(&world).await.last().expect("an event").0, "error");
    }
    let body = with(chat("acme/fast"), json!({"routing": {"fallback": ["acme/plain"]}}));
    let answer = world.client.post_json("/v1/chat/completions", &body).await.ok().json();
    assert_eq!(answer["gateway"]["model_used"], "acme/fast", "{answer}");
}

#[tokio::test]
async fn a_stream_that_says_why_it_is_not_whole_ends_as_it_did() {
    let world = world().await;
    for (finish, reason) in [("length", "max_tokens"), ("content_filter", "refusal")] {
        world.upstream.enqueue(stream(&["{}", BROKEN[0]], finish));
        let events = told(&world).await;
        let [.., (_, delta), (name, _)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(
            (name.as_str(), &delta["delta"]["stop_reason"]),
            ("message_stop", &json!(reason)),
            "{events:?}"
        );
    }
    for whole in [r#"{"city":"Oslo"}"#, "", "{} and more", "null", "[1]", "no JSON"] {
        world.upstream.enqueue(stream(&[whole, whole], "tool_calls"));
        let events = told(&world).await;
        assert_eq!(events.last().expect("an event").0, "message_stop", "{whole}: {events:?}");
    }
}

#[tokio::test]
async fn the_input_of_a_plain_answer_is_an_object() {
    let world = world().await;
    for (arguments, input) in [
        (BROKEN[0], json!({"input": BROKEN[0]})),
        (BROKEN[1], json!({"input": BROKEN[1]})),
        (r#"{"city":"Oslo"}"#, json!({"city": "Oslo"})),
    ] {
        for (finish, reason) in [("tool_calls", "tool_use"), ("length", "max_tokens")] {
            let mut answer = chat_body("plain", "Well");
            answer["choices"][0]["finish_reason"] = json!(finish);
            answer["choices"][0]["message"]["tool_calls"] = json!([{"id": "call_1", "type": "function",
                "function": {"name": "look", "arguments": arguments}}]);
            world.upstream.enqueue(Answer::json(200, &answer));
            let got = ask_messages(&world.client, &request(false)).await.ok().json();
            assert_eq!((&got["content"][1]["input"], &got["stop_reason"]), (&input, &json!(reason)), "{got}");
        }
    }
}

/// A client that asks again gets another answer, however it asked before.
#[tokio::test]
async fn an_answer_with_such_a_call_is_not_kept_in_the_cache() {
    let world = world().await;
    let cached = |stream| with(request(stream), json!({"cache": {"enabled": true}}));
    let mut answer = chat_body("fast", "Well");
    answer["choices"][0]["finish_reason"] = json!("tool_calls");
    answer["choices"][0]["message"]["tool_calls"] =
        json!([{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": BROKEN[0]}}]);
    world.upstream.enqueue(Answer::json(200, &answer));
    let first = ask_messages(&world.client, &cached(false)).await.ok();
    assert_eq!(first.json()["content"][1]["input"], json!({"input": BROKEN[0]}), "{}", first.text());
    let told = async || -> Vec<(String, Value)> {
        let mut stream = world.client.stream("/v1/messages", &cached(true)).await;
        stream.rest().await.iter().filter_map(|frame| event(frame)).collect()
    };
    world.upstream.enqueue(stream(&[BROKEN[0]], "tool_calls"));
    assert_eq!(told().await.last().expect("an event").0, "error");
    world.upstream.enqueue(stream(&["{}"], "tool_calls"));
    assert_eq!(told().await.last().expect("an event").0, "message_stop");
    // The whole answer is kept.
    let kept = ask_messages(&world.client, &cached(false)).await.ok();
    assert_eq!((kept.header("x-gateway-cache"), world.upstream.hits()), (Some("HIT"), 3));
    for row in rows(&world.gateway, 4).await.iter().filter(|row| !row.cache_hit) {
        assert_eq!(row.cost, 4_500_000_000, "{row:?}");
    }
}

/// The row says what the client got, also if the call could be shared.
#[tokio::test]
async fn the_row_of_a_stream_that_could_be_shared_has_the_error() {
    let world = world().await;
    let body = with(request(true), json!({"cache": {"enabled": true}}));
    for (finish, status) in [("tool_calls", "upstream_stream_error"), ("length", "ok")] {
        world.upstream.enqueue(stream(&[BROKEN[0]], finish));
        let frames = world.client.stream("/v1/messages", &body).await.rest().await;
        let last = frames.iter().filter_map(|frame| event(frame)).next_back().expect("an event").0;
        assert_eq!(last == "error", status != "ok", "{frames:?}");
        let asked = if status == "ok" { 2 } else { 1 };
        let found = rows(&world.gateway, asked).await;
        let count = found.iter().filter(|row| row.status == status).count();
        assert_eq!((count, found.iter().all(|row| row.cost == 4_500_000_000)), (1, true), "{found:?}");
    }
}

/// The input of the last call of a stream, and its last event.
fn streamed_input(events: &[(String, Value)]) -> (String, &str) {
    let written = events.iter().filter_map(|(_, data)| data["delta"]["partial_json"].as_str()).collect();
    (written, events.last().expect("an event").0.as_str())
}

/// vLLM begins a call with `{}` and then sends its arguments.
#[tokio::test]
async fn an_empty_object_before_the_arguments_is_no_argument() {
    let world = world().await;
    for (arguments, input) in [
        (r#"{}{"city":"Oslo"}"#, r#"{"city":"Oslo"}"#),
        ("{ }\n{\"city\":\"Oslo\"} ", r#"{"city":"Oslo"}"#),
        (r#"{}{}"#, "{}"),
        ("{}", "{}"),
        ("{} ", "{}"),
        // Other texts behind the object are no arguments.
        (r#"{}{"city":"Oslo"}{}"#, r#"{"input":"{}{\"city\":\"Oslo\"}{}"}"#),
        ("{} and more", r#"{"input":"{} and more"}"#),
    ] {
        let mut answer = chat_body("plain", "Well");
        answer["choices"][0]["finish_reason"] = json!("tool_calls");
        answer["choices"][0]["message"]["tool_calls"] = json!([{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": arguments}}]);
        world.upstream.enqueue(Answer::json(200, &answer));
        let got = ask_messages(&world.client, &request(false)).await.ok().json();
        let expected: Value = serde_json::from_str(input).expect("JSON");
        assert_eq!(
            (&got["content"][1]["input"], &got["stop_reason"]),
            (&expected, &json!("tool_use")),
            "{got}"
        );
    }
    for (arguments, input, end) in [
        (&["{}", r#"{"city":"Oslo"}"#][..], r#"{"city":"Oslo"}"#, "message_stop"),
        (&["{", "}{\"ci", "ty\":\"Oslo\"", "} "], r#"{"city":"Oslo"}"#, "message_stop"),
        (&["{}"], "{}", "message_stop"),
        (&["{}", r#"{"city":"Os"#], "", "error"),
        (&[r#"{"city":"Oslo"}"#, " and more"], r#"{"city":"Oslo"} and more"#, "error"),
    ] {
        let first = sse_data(
            &json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
            "function": {"name": "look", "arguments": ""}}]}),
            None,
        );
        let piece = |text: &&str| {
            sse_data(&json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}), None)
        };
        let mut chunks = vec![first];
        chunks.extend(arguments.iter().map(piece));
        chunks.push(sse_data(&json!({}), Some("tool_calls")));
        world.upstream.enqueue(Answer::sse().all(&chunks).done());
        let events = told(&world).await;
        assert_eq!(streamed_input(&events), (input.to_owned(), end), "{arguments:?}: {events:?}");
    }
}

/// Calls without arguments do not hold up the calls behind them.
#[tokio::test]
async fn a_call_without_arguments_ends_where_the_next_one_begins() {
    let world = world().await;
    world.upstream.enqueue(stream(&["{}", r#"{}{"city":"Oslo"}"#, "{}"], "tool_calls"));
    let events = told(&world).await;
    let inputs: Vec<&str> =
        events.iter().filter_map(|(_, data)| data["delta"]["partial_json"].as_str()).collect();
    assert_eq!(inputs, ["{}", r#"{"city":"Oslo"}"#, "{}"], "{events:?}");
    assert_eq!(events.last().expect("an event").0, "message_stop", "{events:?}");
}
