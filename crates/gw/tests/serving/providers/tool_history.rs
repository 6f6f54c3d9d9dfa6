//! Histories of tool calls that a provider would refuse: two calls of one id, and calls without a result.

use serde_json::{Value, json};

use crate::harness::KEY;
use crate::harness::providers::{all, targets};

fn call(id: &str, city: &str) -> Value {
    let arguments = json!({"city": city}).to_string();
    json!({"id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}})
}

fn calling(calls: &[Value]) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

/// Two turns whose calls have the same ids, as some models number them. The results of the second come in another order.
fn doubled() -> Value {
    let weather =
        json!({"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}});
    json!({"max_tokens": 50, "tools": [weather], "messages": [
        {"role": "user", "content": "sunny?"},
        calling(&[call("call_0", "Paris")]),
        result("call_0", "sun in Paris"),
        calling(&[call("call_0", "Rome"), call("call_1", "Oslo")]),
        result("call_1", "snow in Oslo"),
        result("call_0", "rain in Rome"),
    ]})
}

/// A call without a result in the middle, one whose result comes late, and one at the end.
fn unanswered() -> Value {
    let weather =
        json!({"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}});
    json!({"max_tokens": 50, "tools": [weather], "messages": [
        {"role": "user", "content": "sunny?"},
        calling(&[call("call_a", "Paris"), call("call_b", "Rome")]),
        {"role": "user", "content": "go on"},
        result("call_a", "sun in Paris"),
        calling(&[call("call_c", "Oslo")]),
    ]})
}

/// The request that the provider of this API gets.
async fn sent(api: &str, mut body: Value) -> Value {
    let (gateway, upstreams) = all().await;
    let (place, (_, model)) = targets().enumerate().find(|(_, (name, _))| *name == api).expect("an API");
    body["model"] = json!(model);
    gateway.client().with_key(KEY).post_json("/v1/chat/completions", &body).await.ok();
    upstreams[place].last().json()
}

/// The members of every block of this kind, in order.
fn blocks(request: &Value, kind: &str, members: [&str; 2]) -> Vec<Value> {
    let messages = request["messages"].as_array().expect("messages");
    let blocks = messages.iter().flat_map(|message| message["content"].as_array().expect("blocks"));
    let blocks = blocks.filter(|block| block["type"] == kind || block.get(kind).is_some());
    let inner = |block: &Value| block.get(kind).unwrap_or(block).clone();
    blocks.map(inner).map(|block| json!(members.map(|name| block[name].clone()))).collect()
}

#[tokio::test]
async fn doubled_ids_reach_bedrock_once_and_the_results_name_their_calls() {
    let request = sent("bedrock", doubled()).await;
    let calls = blocks(&request, "toolUse", ["toolUseId", "input"]);
    let results = blocks(&request, "toolResult", ["toolUseId", "content"]);
    let id = |block: &Value| block[0].as_str().expect("an id").to_owned();
    let ids: Vec<String> = calls.iter().map(id).collect();
    assert_eq!((ids[0].as_str(), ids[2].as_str()), ("call_0", "call_1"), "{request}");
    assert!(ids[1].starts_with("call_") && ids[1] != "call_0" && ids[1] != "call_1", "{request}");
    let cities: Vec<&Value> = calls.iter().map(|call| &call[1]["city"]).collect();
    assert_eq!(cities, ["Paris", "Rome", "Oslo"]);
    let texts: Vec<&Value> = results.iter().map(|result| &result[1][0]["text"]).collect();
    assert_eq!(texts, ["sun in Paris", "rain in Rome", "snow in Oslo"], "{request}");
    assert_eq!(results.iter().map(id).collect::<Vec<_>>(), ids, "{request}");
}

#[tokio::test]
async fn doubled_ids_reach_anthropic_once_and_the_results_name_their_calls() {
    let request = sent("anthropic", doubled()).await;
    let calls = blocks(&request, "tool_use", ["id", "name"]);
    let results = blocks(&request, "tool_result", ["tool_use_id", "content"]);
    let ids: Vec<&Value> = calls.iter().map(|call| &call[0]).collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{request}");
    assert_eq!(results.iter().map(|result| &result[0]).collect::<Vec<_>>(), ids, "{request}");
    let texts: Vec<&Value> = results.iter().map(|result| &result[1]).collect();
    assert_eq!(texts, ["sun in Paris", "rain in Rome", "snow in Oslo"], "{request}");
}

/// The roles and the texts of the messages; for results the place of their call, counted from 0.
fn story(request: &Value) -> Vec<String> {
    let mut ids = Vec::new();
    let messages = request["messages"].as_array().expect("messages").iter();
    let line = |message: &Value| {
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        ids.extend(calls.into_iter().map(|call| call["id"].clone()));
        let of = ids.iter().position(|id| *id == message["tool_call_id"]);
        let of = of.map(|place| format!(" {place}")).unwrap_or_default();
        format!(
            "{}{of}: {}",
            message["role"].as_str().unwrap_or_default(),
            message["content"].as_str().unwrap_or_default()
        )
    };
    messages.map(line).collect()
}

#[tokio::test]
async fn mistral_gets_a_result_behind_every_call() {
    let expected = [
        "user: sunny?",
        "assistant: ",
        "tool 0: sun in Paris",
        "tool 1: (no result)",
        "assistant: OK.",
        "user: go on",
        "assistant: ",
        "tool 2: (no result)",
    ];
    assert_eq!(story(&sent("mistral", unanswered()).await), expected);
}

#[tokio::test]
async fn cohere_gets_a_result_behind_every_call() {
    let expected = [
        "user: sunny?",
        "assistant: ",
        "tool 0: sun in Paris",
        "tool 1: (no result)",
        "user: go on",
        "assistant: ",
        "tool 2: (no result)",
    ];
    assert_eq!(story(&sent("cohere", unanswered()).await), expected);
}
