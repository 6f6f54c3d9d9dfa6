//! Items of stored responses that a later request refers to by their ids, as agents' SDKs do at each step.

use std::collections::BTreeSet;

use gw_testkit::upstream::Recorded;
use gw_testkit::{Answer, Client};
use serde_json::{Value, json};

use super::{ask_responses, response};
use crate::harness::{Setup, World, with};

const TURNS: usize = 20;

async fn world(place: &str, has_responses: bool) -> World {
    let extra = format!("[responses]\nstore = \"{place}\"\n\n[[models]]\nid = \"acme/o4-mini\"\n");
    Setup { acme: format!("responses = {has_responses}"), extra, ..Setup::default() }.start().await
}

/// The n-th answer of a provider with a Responses API: a message and a call, with ids of its own.
fn native_answer(step: usize, is_last: bool) -> Value {
    let mut output = vec![json!({"type": "message", "id": format!("msg_68af{step}"), "role": "assistant",
        "status": "completed", "content": [{"type": "output_text", "text": format!("step {step}"), "annotations": []}]})];
    if !is_last {
        output.push(
            json!({"type": "function_call", "id": format!("fc_68af{step}"), "call_id": format!("call_{step}"),
            "name": "weather", "arguments": "{}", "status": "completed"}),
        );
    }
    json!({"id": format!("resp_68af{step}"), "object": "response", "created_at": 1, "status": "completed",
        "model": "fast-2026-01", "error": null, "incomplete_details": null, "output": output,
        "usage": {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}})
}

/// The n-th answer of a provider without one.
fn chat_answer(step: usize, is_last: bool) -> Value {
    let call = json!([{"id": format!("call_{step}"), "type": "function", "function": {"name": "weather", "arguments": "{}"}}]);
    let mut message = json!({"role": "assistant", "content": format!("step {step}")});
    if !is_last {
        message["tool_calls"] = call;
    }
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "fast-2026-01",
        "choices": [{"index": 0, "message": message, "finish_reason": if is_last { "stop" } else { "tool_calls" }}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})
}

/// The number of answers that a request already has in its conversation.
fn step_of(request: &Recorded, is_native: bool) -> usize {
    let body = request.json();
    let list = if is_native { &body["input"] } else { &body["messages"] };
    list.as_array().map_or(0, |items| items.iter().filter(|item| item["role"] == "assistant").count())
}

/// Runs a loop of tool calls as Vercel's `openai(...)` does: all items of former answers are references. Returns the last
/// request at the upstream.
async fn run_loop(client: &Client, steps: usize) -> Value {
    let tools =
        json!([{"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": false}]);
    let mut input = vec![json!({"role": "user", "content": [{"type": "input_text", "text": "What now?"}]})];
    for step in 0..steps {
        let body = json!({"model": "acme/fast", "input": input, "tools": tools});
        let answer = ask_responses(client, &body).await.ok().json();
        assert_eq!(answer["store"], true);
        let items = answer["output"].as_array().expect("items").clone();
        assert_eq!(items[0]["content"][0]["text"], format!("step {step}"), "{answer}");
        let calls = items.iter().filter(|item| item["type"] == "function_call");
        let outputs: Vec<Value> = calls
            .map(|call| json!({"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}))
            .collect();
        assert_eq!(outputs.len(), usize::from(step + 1 < steps), "{answer}");
        input.extend(items.iter().map(|item| json!({"type": "item_reference", "id": item["id"]})));
        input.extend(outputs);
    }
    Value::Array(input)
}

#[tokio::test]
async fn tool_loops_that_refer_to_the_items_of_former_answers_run_over_every_upstream() {
    for place in ["memory", "database"] {
        for (is_native, steps) in [(true, 6), (false, 6), (true, TURNS), (false, TURNS)] {
            let world = world(place, is_native).await;
            world.upstream.respond_with(move |request| {
                let step = step_of(request, is_native);
                let answer = if is_native { native_answer } else { chat_answer };
                Answer::json(200, &answer(step, step + 1 == steps))
            });
            run_loop(&world.client, steps).await;
            let sent = world.upstream.last().json();
            let list = if is_native { &sent["input"] } else { &sent["messages"] };
            let list = list.as_array().expect("a list");
            assert!(!sent.to_string().contains("item_reference"), "{place}: {sent}");
            // The question, and for each former step the words, the call and its output: two messages of a chat.
            let expected = if is_native { 1 + 3 * (steps - 1) } else { 1 + 2 * (steps - 1) };
            assert_eq!(list.len(), expected, "{place}, native {is_native}: {sent}");
        }
    }
}

/// An upstream like OpenAI's: reasoning comes with its encrypted content only if the request asks for it, and cannot be sent
/// back without it.
fn reasoning_answer(request: &Recorded) -> Answer {
    let body = request.json();
    let is_empty = |item: &&Value| item["type"] == "reasoning" && !item["encrypted_content"].is_string();
    if let Some(item) = body["input"].as_array().into_iter().flatten().find(is_empty) {
        let message = format!("Item with id '{}' not found.", item["id"]);
        return Answer::json(404, &json!({"error": {"message": message, "type": "invalid_request_error"}}));
    }
    let step = step_of(request, true);
    let mut answer = native_answer(step, step == 2);
    let mut thought = json!({"type": "reasoning", "id": format!("rs_68af{step}"), "summary": []});
    if body["include"].as_array().is_some_and(|asked| asked.contains(&json!("reasoning.encrypted_content"))) {
        thought["encrypted_content"] = json!(format!("thought {step}"));
    }
    answer["output"].as_array_mut().expect("items").insert(1, thought);
    Answer::json(200, &answer)
}

#[tokio::test]
async fn the_reasoning_of_former_answers_reaches_an_upstream_with_its_content() {
    let tools = json!([{"type": "function", "name": "weather", "parameters": {"type": "object"}}]);
    for (place, refers) in [("memory", true), ("database", true), ("memory", false), ("database", false)] {
        let world = world(place, true).await;
        world.upstream.respond_with(reasoning_answer);
        let mut body = json!({"model": "acme/o4-mini", "input": [{"role": "user", "content": "What now?"}], "tools": tools});
        for step in 0..2 {
            let answer = ask_responses(&world.client, &body).await.ok().json();
            let items = answer["output"].as_array().expect("items").clone();
            assert_eq!(items.len(), 3, "{answer}");
            let output =
                json!({"type": "function_call_output", "call_id": format!("call_{step}"), "output": "rain"});
            if refers {
                let input = body["input"].as_array_mut().expect("items");
                input.extend(items.iter().map(|item| json!({"type": "item_reference", "id": item["id"]})));
                input.push(output);
            } else {
                body["previous_response_id"] = answer["id"].clone();
                body["input"] = json!([output]);
            }
        }
        let answer = ask_responses(&world.client, &body).await.ok().json();
        assert!(!answer["gateway"].to_string().contains("reasoning_dropped"), "{answer}");
        let sent = world.upstream.last().json();
        let thoughts: Vec<_> = sent["input"]
            .as_array()
            .expect("items")
            .iter()
            .filter(|item| item["type"] == "reasoning")
            .map(|item| item["encrypted_content"].clone())
            .collect();
        assert_eq!(thoughts, ["thought 0", "thought 1"], "{place}: {sent}");
    }
}

#[tokio::test]
async fn reasoning_that_an_upstream_gave_without_its_content_is_left_out_with_a_warning() {
    for refers in [true, false] {
        let world = world("memory", true).await;
        // The rules of this model are unknown, so the gateway does not ask for the content.
        world.upstream.respond_with(reasoning_answer);
        let answer = ask_responses(&world.client, &response("acme/fast")).await.ok().json();
        assert!(world.upstream.last().json().get("include").is_none());
        let thought = &answer["output"][1];
        assert_eq!(thought["type"], "reasoning", "{answer}");
        let more = match refers {
            true => {
                json!({"input": [{"type": "item_reference", "id": thought["id"]}, {"role": "user", "content": "And?"}]})
            }
            false => json!({"previous_response_id": answer["id"]}),
        };
        let next = ask_responses(&world.client, &with(response("acme/fast"), more)).await.ok().json();
        assert!(next["gateway"]["warnings"].to_string().contains("reasoning_dropped"), "{next}");
        assert!(!world.upstream.last().json()["input"].to_string().contains("reasoning"));
    }
}

#[tokio::test]
async fn the_same_words_in_two_turns_are_two_items_of_the_conversation() {
    for place in ["memory", "database"] {
        let world = world(place, true).await;
        let mut body = json!({"model": "acme/fast", "input": "Go on."});
        for step in 0..3 {
            world.upstream.always(Answer::json(200, &native_answer(step, true)));
            let answer = ask_responses(&world.client, &body).await.ok().json();
            body["previous_response_id"] = answer["id"].clone();
        }
        // OpenAI refuses a request in which an id stands twice.
        let sent = world.upstream.last().json();
        let ids: Vec<&str> =
            sent["input"].as_array().expect("items").iter().filter_map(|item| item["id"].as_str()).collect();
        let distinct: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!((ids.len(), distinct.len()), (4, 4), "{place}: {sent}");
    }
}

#[tokio::test]
async fn an_unknown_item_and_an_item_of_another_key_are_refused() {
    for place in ["memory", "database"] {
        let world = world(place, true).await;
        world.upstream.always(Answer::json(200, &native_answer(1, true)));
        let answer = ask_responses(&world.client, &response("acme/fast")).await.ok().json();
        assert_eq!(answer["output"][0]["id"], "msg_68af1");
        let body = json!({"model": "acme/fast", "store": false, "input": [
            {"type": "item_reference", "id": "msg_68af1"}, {"role": "user", "content": "And?"}]});
        ask_responses(&world.client, &body).await.ok();
        let other = world.gateway.client().with_key(crate::harness::ADMIN);
        let unknown = with(body.clone(), json!({"input": [{"type": "item_reference", "id": "msg_none"}]}));
        for (client, body, id) in [(&other, &body, "msg_68af1"), (&world.client, &unknown, "msg_none")] {
            let refused = ask_responses(client, body).await;
            assert_eq!(
                (refused.status, refused.code().as_str()),
                (400, "invalid_value"),
                "{}",
                refused.text()
            );
            assert!(refused.message().contains(id), "{}", refused.message());
        }
        // A deleted response takes its items along.
        let id = answer["id"].as_str().expect("an id");
        world.client.send("DELETE", &format!("/v1/responses/{id}"), None, None).await.ok();
        let refused = ask_responses(&world.client, &body).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_value"), "{}", refused.text());
    }
}

#[tokio::test]
async fn an_item_that_refers_to_itself_ends_no_process() {
    for place in ["memory", "database"] {
        let mut world = world(place, true).await;
        let mut answer = native_answer(1, true);
        answer["output"].as_array_mut().expect("items").push(json!({"id": "x"}));
        world.upstream.always(Answer::json(200, &answer));
        let stored = ask_responses(&world.client, &response("acme/fast")).await.ok().json();
        let id = stored["id"].as_str().expect("an id");
        let body = with(response("acme/fast"), json!({"previous_response_id": id}));
        ask_responses(&world.client, &body).await.ok();
        let sent = world.upstream.last().json();
        assert!(!sent["input"].to_string().contains("\"x\""), "{sent}");
        let body = with(response("acme/fast"), json!({"input": [{"id": "x"}]}));
        assert_eq!(ask_responses(&world.client, &body).await.status, 400);
        assert!(world.gateway.is_running());
    }
}
