//! The Messages and the Responses API in front of every kind of upstream.

mod accounting;
mod background;
mod background_death;
mod background_limits;
mod background_shutdown;
mod broken_calls;
mod chat_upstreams;
mod echo_table;
mod errors;
mod every_dialect;
mod fold;
mod further_readings;
mod gemini;
mod hosted_tools;
mod inner_work;
mod legacy_calls;
mod many_tools;
mod messages;
mod native;
mod native_endings;
mod native_hosts;
mod native_learning;
mod native_needs;
mod native_policy;
mod plain_endings;
mod realtime;
mod realtime_limits;
mod realtime_peers;
mod realtime_rules;
mod reservations;
mod responses;
mod sdk_names;
mod socket_rules;
mod socket_table;
mod socket_take_over;
mod sockets;
mod stored;
mod stored_bounds;
mod stored_items;
mod stored_load;
mod stored_numbers;
mod stream_failures;
mod success_statuses;
mod tenant_rules;
mod token_counts;
mod translated_turns;

use gw_testkit::{Client, Response};
use serde_json::{Value, json};

/// A Messages request of one user message.
fn message(model: &str) -> Value {
    json!({"model": model, "max_tokens": 64, "messages": [{"role": "user", "content": "Hello"}]})
}

/// A Responses request of one user message.
fn response(model: &str) -> Value {
    json!({"model": model, "input": "Hello"})
}

async fn ask_messages(client: &Client, body: &Value) -> Response {
    client.post_json("/v1/messages", body).await
}

async fn ask_responses(client: &Client, body: &Value) -> Response {
    client.post_json("/v1/responses", body).await
}

/// The events of a stream: the name of each frame and its data.
async fn events(client: &Client, path: &str, body: &Value) -> Vec<(String, Value)> {
    let mut stream = client.stream(path, body).await;
    let frames = stream.rest().await;
    assert!(!stream.broken, "{frames:?}");
    frames.iter().filter_map(|frame| event(frame)).collect()
}

/// The name and the data of a frame; None for comments and `[DONE]`.
fn event(frame: &str) -> Option<(String, Value)> {
    let name = frame.lines().find_map(|line| line.strip_prefix("event: "))?;
    let data = frame.lines().find_map(|line| line.strip_prefix("data: "))?;
    Some((name.to_owned(), serde_json::from_str(data).expect("an event's data is JSON")))
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}
