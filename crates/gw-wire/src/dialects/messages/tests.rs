//! Tests of the Messages API as a dialect.

mod answers;
mod folding;
mod history;
mod native;
mod properties;
mod requests;
mod robustness;
mod streams;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{MessagesContext, MessagesEncoder, MessagesRequest, translate};
use crate::dialects::{AnswerEncoder, EncoderOpening};
use crate::event::Event;
use crate::gateway::GatewayMeta;
use crate::money::Money;
use crate::reply::Finish;
use crate::request::{RequestLimits, parse_chat};
use crate::stream::Closing;
use crate::usage::Usage;

/// Translates a body, checks that the chat body is valid, and returns it.
fn chat(body: &Value) -> Value {
    let request = translated(body);
    parse_chat(Bytes::from(request.chat.clone()), &RequestLimits::default()).expect("a valid chat body");
    serde_json::from_slice(&request.chat).expect("JSON")
}

fn translated(body: &Value) -> MessagesRequest {
    translate(Bytes::from(body.to_string()), &RequestLimits::default()).expect("a valid request")
}

/// The message of the fault in a body.
fn fault(body: &Value) -> String {
    translate(Bytes::from(body.to_string()), &RequestLimits::default()).expect_err("a fault").message
}

/// A body with these messages.
fn body(messages: Value) -> Value {
    let mut body = serde_json::json!({"model": "m", "max_tokens": 100});
    body["messages"] = messages;
    body
}

fn opening() -> EncoderOpening {
    EncoderOpening { id: "msg_1".into(), created: 1, model: "m-0".into(), prompt_tokens: 12 }
}

fn meta() -> GatewayMeta {
    GatewayMeta { model_used: "acme/m-1".into(), routing_strategy: "direct", ..GatewayMeta::example() }
}

fn usage() -> Usage {
    Usage { prompt: 20, completion: 9, cached: Some(5), cache_write: Some(3), ..Usage::default() }
}

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).expect("JSON")
}

/// The frames of a stream of these events.
fn stream(context: &MessagesContext, events: &[Event<'_>], finish: Option<Finish>) -> String {
    let mut encoder = MessagesEncoder::new(context.clone(), opening());
    let mut out = Vec::new();
    for event in events {
        encoder.accept(event, &mut out);
    }
    let gateway = meta();
    encoder.finish(
        finish,
        &Closing { usage: usage(), cost: Some(Money::from_femtos(5)), gateway: &gateway },
        &mut out,
    );
    String::from_utf8(out).expect("UTF-8")
}

/// Name and data of each frame.
fn frames(text: &str) -> Vec<(String, Value)> {
    let frames = text.split_terminator("\n\n").map(|frame| {
        let (name, data) = frame.split_once('\n').expect("two lines");
        let name = name.strip_prefix("event: ").expect("an event line");
        let data = data.strip_prefix("data: ").expect("a data line");
        (name.to_owned(), serde_json::from_str(data).expect("JSON on one line"))
    });
    frames.collect()
}

fn text(text: &str) -> Event<'_> {
    Event::Text { choice: 0, text: text.into(), logprobs: None }
}

fn reasoning(text: &str) -> Event<'_> {
    Event::Reasoning { choice: 0, text: text.into() }
}

fn call<'a>(call: u32, id: &'a str, name: &'a str) -> Event<'a> {
    Event::ToolStart { choice: 0, call, id: id.into(), name: name.into() }
}

fn arguments(call: u32, fragment: &str) -> Event<'_> {
    Event::ToolArgs { choice: 0, call, fragment: fragment.into() }
}

fn details(value: &RawValue) -> Event<'_> {
    Event::Extra { choice: 0, name: "reasoning_details", value }
}
