//! `POST /v1/messages` over an upstream of OpenAI's dialect.

use gw_testkit::Answer;
use gw_testkit::upstream::sse_data;
use serde_json::json;

use super::{ask_messages, events, message, names};
use crate::harness::{Setup, with, world};

#[tokio::test]
async fn an_answer_has_the_form_of_the_messages_api_and_the_gateways_members() {
    let world = world().await;
    let answer = ask_messages(&world.client, &message("acme/fast")).await.ok();
    let body = answer.json();
    assert!(body["id"].as_str().is_some_and(|id| id.starts_with("msg_")), "{body}");
    assert_eq!(body["type"], "message");
    assert_eq!(body["role"], "assistant");
    assert_eq!(body["content"], json!([{"type": "text", "text": "Hello from upstream"}]));
    assert_eq!((&body["stop_reason"], &body["stop_sequence"]), (&json!("end_turn"), &json!(null)));
    assert_eq!((&body["usage"]["input_tokens"], &body["usage"]["output_tokens"]), (&json!(10), &json!(5)));
    assert_eq!(body["gateway"]["model_used"], "acme/fast");
    assert!(body["usage"]["cost_usd"].is_number());
    assert_eq!(answer.header("request-id"), answer.header("x-request-id"));
    assert_eq!(answer.header("x-gateway-model"), Some("acme/fast"));
    assert!(answer.header("x-gateway-cost-usd").is_some());
    let sent = world.upstream.last();
    assert_eq!(sent.path, "/v1/chat/completions");
    assert_eq!(sent.json()["messages"], json!([{"role": "user", "content": "Hello"}]));
    assert_eq!(sent.header("anthropic-version"), None);
}

#[tokio::test]
async fn a_plain_answer_has_none_of_the_gateways_members() {
    let world = world().await;
    let client = world.client.with_header("x-gateway-plain", "true");
    let body = ask_messages(&client, &message("acme/fast")).await.ok().json();
    assert_eq!(body.get("gateway"), None);
    assert_eq!(body["usage"].get("cost_usd"), None);
}

#[tokio::test]
async fn a_stream_opens_and_closes_each_block_once() {
    let world = world().await;
    let body = with(message("acme/fast"), json!({"stream": true}));
    let events = events(&world.client, "/v1/messages", &body).await;
    assert_eq!(
        names(&events),
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    let (_, start) = &events[0];
    assert!(start["message"]["usage"]["input_tokens"].as_u64() > Some(0), "{start}");
    let (_, delta) = &events[6];
    assert_eq!(delta["usage"]["input_tokens"], 10);
    assert_eq!(delta["usage"]["output_tokens"], 5);
    assert_eq!(delta["gateway"]["provider"], "acme");
}

#[tokio::test]
async fn parallel_tool_calls_are_blocks_one_after_the_other() {
    let world = world().await;
    let call = |index: u64, id: &str, arguments: &str| {
        json!({"tool_calls": [{"index": index, "id": id, "type": "function",
               "function": {"name": "get_weather", "arguments": arguments}}]})
    };
    let more = |index: u64, arguments: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]});
    world.upstream.enqueue(
        Answer::sse()
            .all(&[
                sse_data(&call(0, "call_a", ""), None),
                sse_data(&call(1, "call_b", "{\"city\":"), None),
                sse_data(&more(0, "{\"city\":\"Oslo\"}"), None),
                sse_data(&more(1, "\"Rome\"}"), None),
                sse_data(&json!({}), Some("tool_calls")),
            ])
            .done(),
    );
    let tools = json!([{"name": "get_weather", "input_schema": {"type": "object"}}]);
    let body = with(message("acme/fast"), json!({"stream": true, "tools": tools}));
    let events = events(&world.client, "/v1/messages", &body).await;
    let blocks: Vec<_> = events
        .iter()
        .filter(|(name, _)| name == "content_block_start")
        .map(|(_, data)| (data["index"].as_u64(), data["content_block"]["id"].as_str()))
        .collect();
    assert_eq!(blocks, [(Some(0), Some("call_a")), (Some(1), Some("call_b"))]);
    let arguments = |index: u64| -> String {
        let of = events.iter().filter(|(name, data)| name == "content_block_delta" && data["index"] == index);
        of.filter_map(|(_, data)| data["delta"]["partial_json"].as_str()).collect()
    };
    assert_eq!(
        (arguments(0).as_str(), arguments(1).as_str()),
        ("{\"city\":\"Oslo\"}", "{\"city\":\"Rome\"}")
    );
    let open: Vec<_> = events.iter().filter(|(name, _)| name.starts_with("content_block_")).collect();
    let mut current = None;
    for (name, data) in open {
        let index = data["index"].as_u64();
        match name.as_str() {
            "content_block_start" => assert_eq!(current.replace(index), None, "two blocks are open"),
            "content_block_delta" => assert_eq!(current, Some(index)),
            _ => assert_eq!(current.take(), Some(index)),
        }
    }
    let delta = events.iter().find(|(name, _)| name == "message_delta").map(|(_, data)| data);
    assert_eq!(delta.map(|data| &data["delta"]["stop_reason"]), Some(&json!("tool_use")));
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error_event_and_no_stop() {
    let world = world().await;
    world.upstream.enqueue(Answer::sse().all(&[sse_data(&json!({"content": "Hel"}), None)]).reset());
    let body = with(message("acme/fast"), json!({"stream": true}));
    let events = events(&world.client, "/v1/messages", &body).await;
    let (name, last) = events.last().expect("an event");
    assert_eq!(name, "error");
    assert_eq!(last["error"]["type"], "api_error");
    assert!(!names(&events).contains(&"message_stop"));
}

#[tokio::test]
async fn tokens_are_counted_without_a_call() {
    let world = world().await;
    let body = json!({"model": "acme/fast", "messages": [{"role": "user", "content": "Hello"}]});
    let answer = world.client.post_json("/v1/messages/count_tokens", &body).await.ok();
    assert_eq!(answer.header("x-gateway-token-count"), Some("estimate"));
    assert_eq!(answer.json().as_object().map(serde_json::Map::len), Some(1));
    assert!(answer.json()["input_tokens"].as_u64() > Some(0));
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn an_answer_of_no_tokens_needs_no_upstream() {
    let world = world().await;
    let body = with(message("acme/fast"), json!({"max_tokens": 0}));
    let answer = ask_messages(&world.client, &body).await.ok().json();
    assert_eq!(answer["content"], json!([]));
    assert_eq!(answer["usage"]["cost_usd"], 0);
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn an_answer_of_no_tokens_ends_its_turn_in_both_forms() {
    let world = world().await;
    let body = with(message("acme/fast"), json!({"max_tokens": 0}));
    let answer = ask_messages(&world.client, &body).await.ok().json();
    assert_eq!((&answer["stop_reason"], &answer["content"]), (&json!("end_turn"), &json!([])), "{answer}");
    assert_eq!(answer.get("stop_details"), None, "{answer}");
    let events = events(&world.client, "/v1/messages", &with(body, json!({"stream": true}))).await;
    assert_eq!(names(&events), ["message_start", "message_delta", "message_stop"]);
    let (_, start) = events.first().expect("an event");
    let (_, end) = events.get(1).expect("a second event");
    assert_eq!(start["message"]["model"], answer["model"], "{start}");
    assert_eq!(end["delta"]["stop_reason"], "end_turn", "{end}");
    assert_eq!(end["delta"].get("stop_details"), None, "{end}");
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_told_in_the_words_that_start_a_compaction() {
    let world = world().await;
    let told =
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.";
    world.upstream.enqueue(Answer::error(400, "context_length_exceeded", told));
    let answer = ask_messages(&world.client, &message("acme/fast")).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(answer.json()["error"]["message"], "prompt is too long: 9001 tokens > 8192 maximum");
    // The catalogue gives the maximum that clients know of, unless the upstream's own is the smaller one, as above.
    let told = "This model's maximum context length is 8192 tokens. However, your messages resulted in 130001 tokens.";
    world.upstream.enqueue(Answer::error(400, "context_length_exceeded", told));
    let answer = ask_messages(&world.client, &message("acme/fast")).await;
    assert_eq!(answer.json()["error"]["message"], "prompt is too long: 130001 tokens > 128000 maximum");
}

#[tokio::test]
async fn a_request_that_the_upstream_finds_too_large_keeps_its_status() {
    let world = world().await;
    world.upstream.enqueue(Answer::error(413, "request_too_large", "Request exceeds the maximum size"));
    let answer = ask_messages(&world.client, &message("acme/fast")).await;
    let body = answer.json();
    assert_eq!((answer.status, &body["error"]["type"]), (413, &json!("request_too_large")), "{body}");
}

#[tokio::test]
async fn a_thread_is_refused_where_no_provider_keeps_it() {
    let world = world().await;
    for (thread, details) in [
        (
            json!({"type": "continue", "previous_message_id": "msg_1"}),
            json!({"error_code": "thread_not_found"}),
        ),
        (
            json!({"type": "create"}),
            json!({"error_code": "thread_unsupported_request", "unsupported": ["thread"]}),
        ),
    ] {
        let answer =
            ask_messages(&world.client, &with(message("acme/fast"), json!({"thread": thread}))).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(answer.json()["error"]["details"], details);
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn cache_control_reaches_no_upstream_that_does_not_know_it() {
    let world = world().await;
    let mark = json!({"type": "ephemeral"});
    let body = json!({"model": "acme/fast", "max_tokens": 9,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": mark}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello", "cache_control": mark}]}]});
    ask_messages(&world.client, &body).await.ok();
    let sent = world.upstream.last().json();
    assert!(!sent.to_string().contains("cache_control"), "{sent}");
    assert_eq!(sent["tools"][0]["function"]["name"], "f");
}

#[tokio::test]
async fn blocks_of_a_system_text_and_of_a_tools_result_count_as_content_parts() {
    let server = "request_limits = { max_content_parts = 5 }";
    let world = Setup { server, ..Setup::default() }.start().await;
    let blocks = |count: usize| vec![json!({"type": "text", "text": "x"}); count];
    // One more part is the user's.
    let system = |count: usize| with(message("acme/fast"), json!({"system": blocks(count)}));
    // Three more parts are the question, the call and its result.
    let result = |count: usize| {
        let call = json!({"type": "tool_use", "id": "call_a", "name": "f", "input": {}});
        let result = json!({"type": "tool_result", "tool_use_id": "call_a", "content": blocks(count)});
        let messages = json!([
            {"role": "user", "content": "x"}, {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]);
        with(message("acme/fast"), json!({"messages": messages}))
    };
    for (place, within, beyond) in [
        ("system.5", system(4), system(6)),
        ("messages.2.content.0.tool_result.content.2", result(2), result(3)),
    ] {
        ask_messages(&world.client, &within).await.ok();
        let hits = world.upstream.hits();
        let answer = ask_messages(&world.client, &beyond).await;
        assert_eq!(answer.status, 400, "{place}: {}", answer.text());
        let told = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(told.starts_with(&format!("{place}: too many content blocks. At most 5 ")), "{told}");
        assert_eq!(world.upstream.hits(), hits, "{place}: nothing is sent");
    }
}
