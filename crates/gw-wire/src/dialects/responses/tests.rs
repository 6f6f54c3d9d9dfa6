//! The Responses API on the wire.

mod answers;
mod bodies;
mod fold;
mod item_graphs;
mod native;
mod properties;
mod requests;
mod stored;
mod streams;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::pieces::MAX_PIECE_BYTES;
use super::replay::Replay;
use super::{ResponsesContext, ResponsesRequest, translate};
use crate::dialects::{AnswerEncoder, EncoderOpening};
use crate::event::Event;
use crate::gateway::GatewayMeta;
use crate::money::Money;
use crate::reply::Finish;
use crate::request::{Invalid, RequestLimits, parse_chat};
use crate::stream::Closing;
use crate::usage::Usage;

fn body(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

fn translated(value: &Value) -> ResponsesRequest {
    followed(value, &[])
}

/// Translates a request behind earlier items. Its chat request must be valid.
fn followed(value: &Value, history: &[&str]) -> ResponsesRequest {
    let request = translate(body(value), &RequestLimits::default(), history).unwrap();
    let chat = Bytes::from(request.chat.clone());
    if let Err(fault) = parse_chat(chat, &RequestLimits::default()) {
        panic!("{fault}: {}", String::from_utf8_lossy(&request.chat));
    }
    request
}

fn fault(value: &Value) -> Invalid {
    translate(body(value), &RequestLimits::default(), &[]).unwrap_err()
}

fn chat(request: &ResponsesRequest) -> Value {
    serde_json::from_slice(&request.chat).unwrap()
}

fn messages(input: &Value) -> Value {
    chat(&translated(&json!({"model": "m", "input": input})))["messages"].take()
}

fn context(value: &Value) -> ResponsesContext {
    translated(value).context
}

fn plain_context() -> ResponsesContext {
    context(&json!({"model": "m", "input": "hi"}))
}

fn meta() -> GatewayMeta {
    GatewayMeta { latency_ms: 2500, ..GatewayMeta::example() }
}

fn usage() -> Usage {
    Usage { prompt: 12, completion: 3, cached: Some(4), ..Usage::default() }
}

fn opening() -> EncoderOpening {
    EncoderOpening { id: "resp_01".into(), created: 1_790_000_000, model: "m".into(), prompt_tokens: 12 }
}

/// Encodes a stream that ends well, and returns its text and its final object.
fn encoded(context: &ResponsesContext, events: &[Event<'_>], finish: Finish) -> (String, Value) {
    let mut encoder = context.stream(opening());
    let mut out = Vec::new();
    events.iter().for_each(|event| encoder.accept(event, &mut out));
    let gateway = meta();
    let closing = Closing { usage: usage(), cost: Some(Money::ZERO), gateway: &gateway };
    encoder.finish(Some(finish), &closing, &mut out);
    let stream = String::from_utf8(out).unwrap();
    let document = final_object(&stream);
    (stream, document)
}

/// The events of a stored response above a number. No piece of them is larger than the bound.
fn replayed(document: &str, starting_after: Option<u64>) -> String {
    let mut all = Vec::new();
    for piece in Replay::new(Bytes::from(document.to_owned()), starting_after) {
        assert!(!piece.is_empty() && piece.len() <= 2 * MAX_PIECE_BYTES, "{}", piece.len());
        all.extend_from_slice(&piece);
    }
    String::from_utf8(all).unwrap()
}

/// The object of the last frame.
fn final_object(stream: &str) -> Value {
    frames(stream).pop().unwrap()["response"].take()
}

/// The data of all frames. Each frame has an event line that repeats the type.
fn frames(stream: &str) -> Vec<Value> {
    let mut frames = Vec::new();
    for frame in stream.split_terminator("\n\n").filter(|frame| !frame.starts_with(':')) {
        if frame == "data: [DONE]" {
            continue;
        }
        let (event, data) = frame.split_once('\n').unwrap();
        let data = data.strip_prefix("data: ").unwrap();
        assert!(!data.contains('\n'), "{data}");
        let value: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
        assert_eq!(Some(event.strip_prefix("event: ").unwrap()), value["type"].as_str());
        frames.push(value);
    }
    frames
}

/// The frames on one line each, with the response objects left out, for snapshots.
fn listed(stream: &str) -> String {
    let lines = frames(stream).into_iter().map(|mut frame| {
        if let Some(response) = frame.get_mut("response") {
            *response =
                json!({"status": response["status"], "items": response["output"].as_array().map(Vec::len)});
        }
        frame.to_string()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn text(text: &str) -> Event<'_> {
    Event::Text { choice: 0, text: Cow::Borrowed(text), logprobs: None }
}

fn reasoning(text: &str) -> Event<'_> {
    Event::Reasoning { choice: 0, text: Cow::Borrowed(text) }
}

fn refusal(text: &str) -> Event<'_> {
    Event::Refusal { choice: 0, text: Cow::Borrowed(text) }
}

fn call<'a>(call: u32, id: &'a str, name: &'a str) -> Event<'a> {
    Event::ToolStart { choice: 0, call, id: Cow::Borrowed(id), name: Cow::Borrowed(name) }
}

fn custom<'a>(call: u32, id: &'a str, name: &'a str) -> Event<'a> {
    Event::CustomStart { choice: 0, call, id: Cow::Borrowed(id), name: Cow::Borrowed(name) }
}

fn arguments(call: u32, fragment: &str) -> Event<'_> {
    Event::ToolArgs { choice: 0, call, fragment: Cow::Borrowed(fragment) }
}
