//! The ids of tool calls that the gateway makes, in answers from the cache and in shared answers, on every surface.

use gw_testkit::upstream::{Step, chat_body};
use gw_testkit::{Answer, Response, Signal};
use serde_json::{Value, json};

use super::shared_calls::in_flight;
use crate::harness::answers::cache_result;
use crate::harness::{Setup, World, with};

/// A surface, and a request for it that calls tools.
const SURFACES: [&str; 3] = ["/v1/chat/completions", "/v1/messages", "/v1/responses"];

fn request(path: &str, more: Value) -> Value {
    let schema = json!({"type": "object"});
    let asked = json!([{"role": "user", "content": "Hello"}]);
    let body = match path {
        "/v1/messages" => {
            json!({"messages": asked, "max_tokens": 64, "tools": [{"name": "look", "input_schema": schema}]})
        }
        "/v1/responses" => {
            json!({"input": "Hello", "tools": [{"type": "function", "name": "look", "parameters": schema}]})
        }
        _ => {
            let function = json!({"name": "look", "parameters": schema});
            json!({"messages": asked, "tools": [{"type": "function", "function": function}]})
        }
    };
    let usual = json!({"model": "acme/fast", "temperature": 0, "cache": {"enabled": true}});
    with(with(body, usual), more)
}

/// An answer with two calls that have no ids.
fn nameless_calls() -> Answer {
    let call = json!({"type": "function", "function": {"name": "look", "arguments": "{}"}});
    let mut body = chat_body("m", "");
    body["choices"][0]["finish_reason"] = json!("tool_calls");
    body["choices"][0]["message"]["tool_calls"] = json!([call, call]);
    Answer::json(200, &body)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The ids of the calls in a document.
fn ids(body: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_chat = list(&body["choices"][0]["message"]["tool_calls"]);
    let of_messages = list(&body["content"]);
    let of_responses = list(&body["output"]);
    let ids = of_chat.iter().chain(&of_messages).map(|call| &call["id"]);
    ids.chain(of_responses.iter().map(|item| &item["call_id"])).filter_map(text).collect()
}

/// The ids of the calls in a stream, each from the event that begins its call.
fn streamed_ids(answer: &Response) -> Vec<String> {
    let body = answer.text();
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    events
        .filter_map(|event| {
            let begins = event["type"] == "response.output_item.added";
            text(&event["choices"][0]["delta"]["tool_calls"][0]["id"])
                .or_else(|| text(&event["content_block"]["id"]))
                .or_else(|| text(&event["item"]["call_id"]).filter(|_| begins))
        })
        .collect()
}

async fn ask(world: &World, path: &str, more: Value) -> Response {
    world.client.post_json(path, &request(path, more)).await.ok()
}

async fn chats_only() -> World {
    Setup { acme: "responses = false".to_owned(), ..Setup::default() }.start().await
}

#[tokio::test]
async fn a_kept_answer_has_the_ids_that_the_first_client_got() {
    for path in SURFACES {
        let world = chats_only().await;
        world.upstream.enqueue(nameless_calls());
        let first = ask(&world, path, json!({})).await;
        let expected = ids(&first.json());
        assert_eq!((cache_result(&first), expected.len()), ("MISS", 2), "{path}: {}", first.text());
        assert!(expected.iter().all(|id| id.len() > "call_00".len()), "{path}: {expected:?}");
        for round in 0..3 {
            let plain = ask(&world, path, json!({})).await;
            assert_eq!(
                (cache_result(&plain), ids(&plain.json())),
                ("HIT", expected.clone()),
                "{path} {round}"
            );
            let streamed = ask(&world, path, json!({"stream": true})).await;
            assert_eq!(cache_result(&streamed), "HIT", "{path}");
            assert_eq!(streamed_ids(&streamed), expected, "{path} {round}: {}", streamed.text());
        }
    }
}

#[tokio::test]
async fn the_answers_of_one_shared_call_have_the_same_ids() {
    for path in SURFACES {
        let world = chats_only().await;
        let more = Signal::new();
        world.upstream.enqueue(nameless_calls().after(Step::Wait(more.clone())));
        let asking = || {
            let (client, body) = (world.client.clone(), request(path, json!({})));
            tokio::spawn(async move { client.post_json(path, &body).await.ok() })
        };
        let leader = asking();
        world.upstream.request(0).await;
        let follower = asking();
        in_flight(&world, 2).await;
        more.fire();
        let (led, followed) = (leader.await.expect("an answer"), follower.await.expect("an answer"));
        assert_eq!((cache_result(&led), cache_result(&followed)), ("MISS", "COALESCED"), "{path}");
        assert_eq!(ids(&followed.json()), ids(&led.json()), "{path}");
        assert!(ids(&led.json()).iter().all(|id| id.len() > "call_00".len()), "{path}: {}", led.text());
    }
}
