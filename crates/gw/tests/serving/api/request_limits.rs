//! The limits on the structure of a request: each is refused with its name and its setting, and each can be set.

use gw_testkit::Response;
use serde_json::{Value, json};

use crate::harness::{Setup, chat, chat_with, world};

/// Small limits of every kind, so that small requests reach them.
const SMALL: &str = "request_limits = { max_messages = 4, max_content_parts = 5, max_tool_calls = 6, \
                     max_schema_nodes = 20, max_schema_depth = 4, max_members = 7, max_values = 100 }";

#[track_caller]
fn assert_refused(answer: &Response, code: &str, setting: &str, limit: &str) {
    let text = answer.text();
    assert_eq!(answer.status, 400, "{text}");
    let error = &answer.json()["error"];
    assert_eq!((&error["type"], &error["code"]), (&json!("invalid_request_error"), &json!(code)), "{text}");
    let message = error["message"].as_str().unwrap_or_default();
    let named = format!("Expected at most {limit}");
    assert!(
        message.contains(&named) && message.contains(&format!("'server.request_limits.{setting}'")),
        "{text}"
    );
    assert!(message.contains(" but got "), "{text}");
}

fn messages(count: usize) -> Value {
    let message = json!({ "role": "user", "content": "x" });
    chat_with("acme/fast", json!({ "messages": vec![message; count] }))
}

/// Two messages with this many parts together.
fn parts(count: usize) -> Value {
    let part = json!({ "type": "text", "text": "x" });
    let message = |count: usize| json!({ "role": "user", "content": vec![part.clone(); count] });
    chat_with("acme/fast", json!({ "messages": [message(2), message(count - 2)] }))
}

/// Two messages with this many tool calls together.
fn calls(count: usize) -> Value {
    let call = json!({ "id": "a", "type": "function", "function": { "name": "f", "arguments": "{}" } });
    let message = |count: usize| json!({ "role": "assistant", "tool_calls": vec![call.clone(); count] });
    let user = json!({ "role": "user", "content": "x" });
    chat_with("acme/fast", json!({ "messages": [user, message(3), message(count - 3)] }))
}

/// Two tools and a response format, each with a schema of six nodes. The last one has `more`.
fn schemas(more: usize) -> Value {
    let schema = |count: usize| {
        let names: Vec<Value> = (0..count).map(|at| json!(at)).collect();
        json!({ "type": "object", "properties": { "a": { "enum": names } } })
    };
    let tool =
        |name: &str| json!({ "type": "function", "function": { "name": name, "parameters": schema(1) } });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": schema(1 + more) } });
    chat_with("acme/fast", json!({ "tools": [tool("a"), tool("b")], "response_format": format }))
}

/// A tool whose schema has this many levels.
fn depth(levels: usize) -> Value {
    let schema = (1..levels).fold(json!({ "type": "string" }), |inner, _| json!({ "a": inner }));
    let tool = json!({ "type": "function", "function": { "name": "f", "parameters": schema } });
    chat_with("acme/fast", json!({ "tools": [tool] }))
}

/// A body with this many members.
fn members(count: usize) -> Value {
    let more = (2..count).map(|at| (format!("x{at}"), json!(1)));
    chat_with("acme/fast", Value::Object(more.collect()))
}

/// A body with this many counted values: the body itself, the model, the messages, a message, its two members, the list and
/// its entries.
fn values(count: usize) -> Value {
    let list: Vec<Value> = (7..count).map(|_| json!("x")).collect();
    chat_with("acme/fast", json!({ "list": list }))
}

#[tokio::test]
async fn each_limit_is_refused_by_its_name_and_setting() {
    let world = Setup { server: SMALL, ..Setup::default() }.start().await;
    let cases = [
        ("max_messages", "4", "array_above_max_length", messages(4), messages(5)),
        ("max_content_parts", "5", "array_above_max_length", parts(5), parts(6)),
        ("max_tool_calls", "6", "array_above_max_length", calls(6), calls(7)),
        ("max_schema_nodes", "20", "invalid_value", schemas(2), schemas(3)),
        ("max_schema_depth", "4", "invalid_value", depth(4), depth(5)),
        ("max_members", "7", "invalid_value", members(7), members(8)),
        ("max_values", "100", "invalid_value", values(100), values(101)),
    ];
    for (setting, limit, code, within, beyond) in cases {
        let hits = world.upstream.hits();
        let answer = world.chat(&within).await;
        assert_eq!(answer.status, 200, "{setting}, within: {}", answer.text());
        assert_refused(&world.chat(&beyond).await, code, setting, limit);
        assert_eq!(world.upstream.hits(), hits + 1, "{setting}: no refused request reaches an upstream");
    }
}

/// A text completion with a response format whose schema has this many values and levels.
fn completion(nodes: usize, levels: usize) -> Value {
    let names: Vec<Value> = (2..nodes).map(|at| json!(at)).collect();
    let wide = json!({ "enum": names });
    let schema =
        if levels == 0 { wide } else { (1..levels).fold(json!({}), |inner, _| json!({ "a": inner })) };
    let format = json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": schema } });
    json!({ "model": "acme/fast", "prompt": "x", "response_format": format })
}

#[tokio::test]
async fn schemas_of_text_completions_have_the_same_limits() {
    let world = Setup { server: SMALL, ..Setup::default() }.start().await;
    for (setting, limit, within, beyond) in [
        ("max_schema_nodes", "20", completion(20, 0), completion(21, 0)),
        ("max_schema_depth", "4", completion(0, 4), completion(0, 5)),
    ] {
        let hits = world.upstream.hits();
        let answer = world.client.post_json("/v1/completions", &within).await;
        assert_eq!(answer.status, 200, "{setting}, within: {}", answer.text());
        let answer = world.client.post_json("/v1/completions", &beyond).await;
        assert_refused(&answer, "invalid_value", setting, limit);
        assert_eq!(world.upstream.hits(), hits + 1, "{setting}: no refused request reaches an upstream");
    }
}

#[tokio::test]
async fn token_ids_do_not_count_as_values() {
    let world = Setup { server: SMALL, ..Setup::default() }.start().await;
    let tokens: Vec<u32> = (0..5000).collect();
    let answer = world.chat(&chat_with("acme/fast", json!({ "ids": [tokens] }))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let texts = json!({ "model": "acme/embed", "input": vec!["x"; 200] });
    let answer = world.client.post_json("/v1/embeddings", &texts).await;
    assert_refused(&answer, "invalid_value", "max_values", "100");
}

#[tokio::test]
async fn the_usual_limits_hold_without_a_setting_and_refuse_no_large_conversation() {
    let world = world().await;
    for (setting, limit, code, beyond) in [
        ("max_messages", "20000", "array_above_max_length", messages(20_001)),
        ("max_content_parts", "20000", "array_above_max_length", parts(20_001)),
        ("max_tool_calls", "10000", "array_above_max_length", calls(10_001)),
        ("max_schema_nodes", "100000", "invalid_value", schemas(100_000)),
        ("max_schema_depth", "64", "invalid_value", depth(65)),
        ("max_members", "1024", "invalid_value", members(1025)),
        ("max_values", "1000000", "invalid_value", values(1_000_001)),
    ] {
        assert_refused(&world.chat(&beyond).await, code, setting, limit);
    }
    assert_eq!(world.upstream.hits(), 0);
    for within in [messages(20_000), parts(20_000), calls(10_000), schemas(90_000), depth(64), members(1024)]
    {
        let answer = world.chat(&within).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    world.chat_ok(&chat("acme/fast")).await;
}

#[tokio::test]
async fn a_body_of_many_gzip_members_is_refused_at_once() {
    let world = world().await;
    // An empty member of a gzip file (RFC 1952).
    let member = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let body = member.repeat(100_000);
    let client = world.client.with_header("content-encoding", "gzip");
    let answer = client.post_bytes("/v1/chat/completions", &body).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    let error = &answer.json()["error"];
    assert_eq!(error["code"], "invalid_json");
    assert_eq!(error["message"], "The request body has more than 2048 gzip members.");
}
