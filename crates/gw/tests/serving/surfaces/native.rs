//! Upstreams that speak the client's own dialect get the client's own bytes.

use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use super::{ask_messages, ask_responses, event, events, names};
use crate::harness::{Setup, World, with};

const CLAUDE: &str = "claude/claude-opus-5-5";

/// A gateway with a provider of Anthropic's dialect.
async fn claude_world() -> (World, FakeUpstream) {
    let upstream = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"{CLAUDE}\"\n",
        upstream.addr
    );
    (Setup { extra, ..Setup::default() }.start().await, upstream)
}

fn claude_answer() -> Value {
    json!({"id": "msg_up", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": "Hi", "made_up": [1, 2]}], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 7, "output_tokens": 3}, "future_member": {"a": 1}})
}

#[tokio::test]
async fn a_messages_request_reaches_anthropic_byte_for_byte() {
    let (world, upstream) = claude_world().await;
    upstream.enqueue(Answer::json(200, &claude_answer()));
    let client = world
        .client
        .with_header("anthropic-version", "2023-06-01")
        .with_header("anthropic-beta", "context-1m-2025-08-07,made-up-2026-01-01");
    let body = r#"{ "model" : "claude/claude-opus-5-5", "max_tokens":64,"metadata":{"user_id":"u"}, "system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1;"}],
        "messages":[{"role":"user","content":[{"type":"text","text":"H\u00e9","cache_control":{"type":"ephemeral"}}]}],"context_management":{"edits":[ ]} , "routing":{"strategy":"default"}}"#;
    let answer = client.post_bytes("/v1/messages", body.as_bytes()).await.ok();
    let sent = upstream.last();
    assert_eq!(sent.path, "/v1/messages");
    let expected = body
        .replace("\"claude/claude-opus-5-5\"", "\"claude-opus-5-5\"")
        .replace(" , \"routing\":{\"strategy\":\"default\"}", "");
    assert_eq!(String::from_utf8_lossy(&sent.body), expected);
    assert_eq!(sent.header("anthropic-beta"), Some("context-1m-2025-08-07,made-up-2026-01-01"));
    assert_eq!(sent.header("x-api-key"), Some("sk-upstream-key-000"));
    let got = answer.json();
    assert_eq!(got["content"], claude_answer()["content"]);
    assert_eq!(got["future_member"], json!({"a": 1}));
    assert_eq!(got["gateway"]["provider"], "claude");
    assert_eq!(got["usage"]["cost_usd"], Value::Null, "the model has no price: {got}");
}

#[tokio::test]
async fn anthropics_events_are_handed_on_with_the_gateways_members() {
    let (world, upstream) = claude_world().await;
    let frames = [
        (
            "message_start",
            json!({"type": "message_start", "message": {"id": "msg_up", "type": "message", "role": "assistant",
            "model": "claude-opus-5-5", "content": [], "stop_reason": null, "usage": {"input_tokens": 7, "output_tokens": 1}}}),
        ),
        (
            "content_block_start",
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
        (
            "content_block_delta",
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi", "extra": 1}}),
        ),
        ("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
        (
            "message_delta",
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}),
        ),
        ("message_stop", json!({"type": "message_stop"})),
    ];
    let text: String = frames.iter().map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")).collect();
    upstream.enqueue(Answer::sse().chunk(text).end());
    let body = with(super::message(CLAUDE), json!({"stream": true}));
    let events = events(&world.client, "/v1/messages", &body).await;
    let expected: Vec<_> = frames.iter().map(|(name, _)| *name).collect();
    assert_eq!(names(&events), expected);
    assert_eq!(events[0].1["message"]["id"], "msg_up");
    assert_eq!(events[2].1["delta"]["extra"], 1);
    assert_eq!(events[4].1["gateway"]["model_used"], CLAUDE);
    assert_eq!(events[4].1["usage"]["output_tokens"], 3);
}

/// A gateway whose provider `acme` has a Responses API.
async fn responses_world() -> World {
    Setup { acme: "responses = true".to_owned(), ..Setup::default() }.start().await
}

fn response_object(status: &str) -> Value {
    json!({"id": "resp_up", "object": "response", "created_at": 1, "status": status, "model": "fast-2026-01", "error": null,
        "incomplete_details": null, "output": [{"type": "message", "id": "msg_up", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}]}],
        "usage": {"input_tokens": 8, "input_tokens_details": {"cached_tokens": 2}, "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 10}, "future_member": 5})
}

#[tokio::test]
async fn a_responses_request_reaches_a_provider_with_that_api() {
    let world = responses_world().await;
    world.upstream.enqueue(Answer::json(200, &response_object("completed")));
    let body = json!({"model": "acme/fast", "input": "Hello", "tools": [{"type": "apply_patch"}], "truncation": "auto"});
    let answer = ask_responses(&world.client, &body).await.ok().json();
    let sent = world.upstream.last();
    assert_eq!(sent.path, "/v1/responses");
    let sent = sent.json();
    assert_eq!(sent["model"], "fast-2026-01");
    assert_eq!(sent["store"], false, "the gateway stores the response itself");
    assert_eq!((&sent["tools"], &sent["truncation"]), (&body["tools"], &body["truncation"]));
    let id = answer["id"].as_str().expect("an id").to_owned();
    assert_ne!(id, "resp_up", "the upstream's ids may repeat");
    assert_eq!(answer["future_member"], 5);
    assert_eq!(answer["usage"]["input_tokens_details"]["cached_tokens"], 2);
    assert_eq!(answer["gateway"]["warnings"], json!([]), "nothing was dropped");
    let stored = world.client.get(&format!("/v1/responses/{id}")).await.ok().json();
    assert_eq!(stored["output"], answer["output"]);
}

#[tokio::test]
async fn a_providers_events_are_renumbered_and_its_conversation_goes_on() {
    let world = responses_world().await;
    let completed = json!({"type": "response.completed", "sequence_number": 40, "response": response_object("completed")});
    let frames = [
        json!({"type": "response.created", "sequence_number": 10, "response": response_object("in_progress")}),
        json!({"type": "response.in_progress", "sequence_number": 11, "response": response_object("in_progress")}),
        json!({"type": "response.web_search_call.searching", "sequence_number": 20, "output_index": 0, "item_id": "ws_1"}),
        json!({"type": "response.output_text.delta", "sequence_number": 30, "item_id": "msg_up", "output_index": 0,
            "content_index": 0, "delta": "Hi", "logprobs": []}),
        completed,
    ];
    let text: String = frames
        .iter()
        .map(|data| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()))
        .collect();
    world.upstream.enqueue(Answer::sse().chunk(text).end());
    let mut stream = world
        .client
        .stream("/v1/responses", &json!({"model": "acme/fast", "input": "Hello", "stream": true}))
        .await;
    let seen = stream.rest().await;
    let events: Vec<_> = seen.iter().filter_map(|frame| event(frame)).collect();
    let numbers: Vec<_> = events.iter().filter_map(|(_, data)| data["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>(), "{seen:?}");
    assert!(names(&events).contains(&"response.web_search_call.searching"));
    let (_, last) = events.last().expect("an event");
    assert_eq!(last["response"]["gateway"]["provider"], "acme");
    world.upstream.enqueue(Answer::json(200, &response_object("completed")));
    let more = json!({"model": "acme/fast", "input": "More", "previous_response_id": last["response"]["id"]});
    ask_responses(&world.client, &more).await.ok();
    let sent = world.upstream.last().json();
    assert_eq!(sent.get("previous_response_id"), None);
    let roles: Vec<_> =
        sent["input"].as_array().expect("items").iter().map(|item| item["role"].clone()).collect();
    assert_eq!(roles, [json!("user"), json!("assistant"), json!("user")], "{sent}");
}

/// A stream of the response cache holds one text, and such an answer can have several.
#[tokio::test]
async fn a_stream_of_messages_with_phases_is_no_business_of_the_cache() {
    let extra = "[[models]]\nid = \"acme/gpt-5.4\"\n".to_owned();
    let world = Setup { acme: "responses = true".to_owned(), extra, ..Setup::default() }.start().await;
    let message = |id: &str, phase: &str, text: &str| {
        json!({"type": "message", "id": id, "role": "assistant", "status": "completed", "phase": phase,
            "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]})
    };
    let output = [message("msg_1", "commentary", "Let me look."), message("msg_2", "final_answer", "42")];
    let mut response = response_object("completed");
    response["output"] = json!(output);
    let mut frames = vec![
        json!({"type": "response.created", "sequence_number": 0, "response": response_object("in_progress")}),
    ];
    for (at, item) in output.iter().enumerate() {
        frames.push(json!({"type": "response.output_item.added", "output_index": at,
            "item": with(item.clone(), json!({"status": "in_progress", "content": []}))}));
        frames.push(json!({"type": "response.output_text.delta", "output_index": at, "content_index": 0,
            "item_id": item["id"], "delta": item["content"][0]["text"], "logprobs": []}));
        frames.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    frames.push(json!({"type": "response.completed", "response": response}));
    let text: String = frames
        .iter()
        .map(|data| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()))
        .collect();
    let body = json!({"model": "acme/gpt-5.4", "input": "Hello", "stream": true, "cache": {"enabled": true}});
    for asked in 1..=2 {
        world.upstream.enqueue(Answer::sse().chunk(text.clone()).end());
        let mut stream = world.client.stream("/v1/responses", &body).await;
        assert_eq!(stream.head.header("x-gateway-cache"), Some("BYPASS"));
        let events: Vec<_> = stream.rest().await.iter().filter_map(|frame| event(frame)).collect();
        let (_, last) = events.last().expect("an event");
        let told = last["response"]["output"].as_array().expect("items").iter().map(|item| {
            [&item["phase"], &item["content"][0]["text"]]
                .map(|value| value.as_str().expect("a text").to_owned())
        });
        let told: Vec<_> = told.collect();
        assert_eq!(told, [["commentary", "Let me look."], ["final_answer", "42"]]);
        assert_eq!(world.upstream.hits(), asked);
    }
}

#[tokio::test]
async fn a_chat_client_never_sees_a_native_form() {
    let (world, upstream) = claude_world().await;
    upstream.enqueue(Answer::json(200, &claude_answer()));
    let chat = world.chat_ok(&crate::harness::chat(CLAUDE)).await;
    assert_eq!(chat["choices"][0]["message"]["content"], "Hi");
    let mixed = ask_messages(&world.client, &with(super::message(CLAUDE), json!({"model": "acme/fast"})))
        .await
        .ok()
        .json();
    assert_eq!(mixed["content"][0]["text"], "Hello from upstream");
}

#[tokio::test]
async fn anthropic_counts_the_tokens_of_its_own_models() {
    let (world, upstream) = claude_world().await;
    upstream.enqueue(Answer::json(200, &json!({"input_tokens": 4711})));
    let body = json!({"model": CLAUDE, "messages": [{"role": "user", "content": "Hello"}]});
    let counted = world.client.post_json("/v1/messages/count_tokens", &body).await.ok();
    assert_eq!(counted.header("x-gateway-token-count"), Some("upstream"));
    assert_eq!(counted.json(), json!({"input_tokens": 4711}));
    assert_eq!(upstream.last().path, "/v1/messages/count_tokens");
    assert_eq!(upstream.last().json()["model"], "claude-opus-5-5");
    upstream.enqueue(Answer::error(500, "x", "y"));
    let estimated = world.client.post_json("/v1/messages/count_tokens", &body).await.ok();
    assert_eq!(estimated.header("x-gateway-token-count"), Some("estimate"));
}
