//! Any answer, written in a client's dialect and sent back, has its blocks in the model's order.

use std::borrow::Cow;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::messages::{MessagesContext, translate as translate_message};
use super::responses::translate as translate_response;
use super::{AnswerForm, EncoderOpening};
use crate::event::Event;
use crate::gateway::GatewayMeta;
use crate::json::View;
use crate::money::Money;
use crate::render::Envelope;
use crate::reply::{ChatChoice, ChatReply, Finish, ToolCall};
use crate::request::{RequestLimits, parse_chat};
use crate::stream::Closing;
use crate::usage::Usage;

/// A block of an answer.
#[derive(Clone, Debug)]
enum Block {
    Text(String),
    Thought(String, Option<String>),
    Encrypted(String),
    Call,
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let words = || "[a-z\"\\\\\né漢]{1,5}";
    let opaque = || "(gw1\\.)?[a-z]{1,4}";
    let block = prop_oneof![
        3 => words().prop_map(Block::Text),
        2 => (words(), prop::option::of(opaque())).prop_map(|(words, opaque)| Block::Thought(words, opaque)),
        1 => opaque().prop_map(Block::Encrypted),
        2 => Just(Block::Call),
    ];
    // A turn without text and calls says nothing.
    prop::collection::vec(block, 0..12).prop_map(|mut blocks| {
        blocks.push(Block::Text("end".to_owned()));
        blocks
    })
}

/// The blocks as a list of kinds and texts. Texts in a row are one, and so is reasoning that nothing signs in between.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tokens(Vec<(char, String)>);

impl Tokens {
    fn push(&mut self, kind: char, text: &str) {
        match self.0.last_mut() {
            Some((last, known)) if *last == kind && matches!(kind, 't' | 'r') => known.push_str(text),
            _ if text.is_empty() && kind != 'c' => {}
            _ => self.0.push((kind, text.to_owned())),
        }
    }
}

fn call_id(number: usize) -> String {
    format!("toolu_{number}")
}

fn entry(block: &Block, at: usize) -> Option<Value> {
    Some(match block {
        Block::Thought(words, Some(opaque)) => {
            json!({"type": "reasoning.text", "text": words, "signature": opaque, "index": at})
        }
        Block::Encrypted(opaque) => json!({"type": "reasoning.encrypted", "data": opaque, "index": at}),
        _ => return None,
    })
}

/// The complete answer, and the tokens of its blocks.
fn answer(blocks: &[Block]) -> (ChatReply<'static>, Tokens) {
    let (mut text, mut reasoning, mut order, mut entries) =
        (String::new(), String::new(), Vec::new(), Vec::new());
    let (mut tool_calls, mut tokens) = (Vec::new(), Tokens::default());
    for (at, block) in blocks.iter().enumerate() {
        match block {
            Block::Text(words) => {
                order.push(format!("t{}", words.len()));
                text.push_str(words);
                tokens.push('t', words);
            }
            Block::Thought(words, opaque) => {
                order.push(if opaque.is_some() { "d".to_owned() } else { format!("r{}", words.len()) });
                reasoning.push_str(words);
                tokens.push('r', words);
                tokens.push('s', opaque.as_deref().unwrap_or_default());
            }
            Block::Encrypted(opaque) => {
                order.push("d".to_owned());
                tokens.push('s', opaque);
            }
            Block::Call => {
                order.push("c".to_owned());
                let id = call_id(tool_calls.len());
                tokens.push('c', &id);
                let (name, arguments) = ("f".into(), "{}".into());
                tool_calls.push(ToolCall { id: id.into(), name, arguments, custom: false });
            }
        }
        entries.extend(entry(block, at));
    }
    entries.push(json!({"type": "gateway.order", "order": order.join(" "), "index": blocks.len()}));
    let details = RawValue::from_string(json!(entries).to_string()).unwrap();
    let choice = ChatChoice {
        content: Some(text.into()),
        reasoning: Some(reasoning.into()),
        tool_calls,
        extras: vec![("reasoning_details".into(), Cow::Owned(details))],
        finish: Some(Finish::Stop),
        ..ChatChoice::default()
    };
    (ChatReply { choices: vec![choice], ..ChatReply::default() }, tokens)
}

fn meta() -> GatewayMeta {
    GatewayMeta { routing_strategy: "direct", ..GatewayMeta::example() }
}

fn plain(form: &dyn AnswerForm, reply: &ChatReply<'_>) -> Value {
    let gateway = meta();
    let envelope = Envelope {
        id: "x_1",
        created: 1,
        model: "m",
        fingerprint: "",
        usage: Usage::default(),
        cost: Some(Money::ZERO),
        gateway: &gateway,
    };
    serde_json::from_slice(&form.write(reply, &envelope)).unwrap()
}

fn streamed(form: &dyn AnswerForm, blocks: &[Block]) -> Vec<Value> {
    let opening = EncoderOpening { id: "x_1".into(), created: 1, model: "m".into(), prompt_tokens: 1 };
    let (mut encoder, mut out, mut calls) = (form.encoder(opening), Vec::new(), 0_u32);
    for (at, block) in blocks.iter().enumerate() {
        match block {
            Block::Text(words) => {
                encoder.accept(&Event::Text { choice: 0, text: words.into(), logprobs: None }, &mut out);
            }
            Block::Thought(words, _) => {
                encoder.accept(&Event::Reasoning { choice: 0, text: words.into() }, &mut out);
            }
            Block::Encrypted(_) => {}
            Block::Call => {
                let id = call_id(calls as usize);
                let start = Event::ToolStart { choice: 0, call: calls, id: id.into(), name: "f".into() };
                encoder.accept(&start, &mut out);
                encoder.accept(&Event::ToolArgs { choice: 0, call: calls, fragment: "{}".into() }, &mut out);
                calls += 1;
            }
        }
        if let Some(entry) = entry(block, at) {
            let value = RawValue::from_string(json!([entry]).to_string()).unwrap();
            encoder.accept(&Event::Extra { choice: 0, name: "reasoning_details", value: &value }, &mut out);
        }
    }
    let gateway = meta();
    let closing = Closing { usage: Usage::default(), cost: Some(Money::ZERO), gateway: &gateway };
    encoder.finish(Some(Finish::Stop), &closing, &mut out);
    let text = String::from_utf8(out).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// The blocks of a streamed message.
fn folded(events: &[Value]) -> Value {
    let mut blocks: Vec<Value> = Vec::new();
    for event in events {
        if event["type"] == "content_block_start" {
            blocks.push(event["content_block"].clone());
        }
        for name in ["text", "thinking", "signature"] {
            if let (Some(more), Some(block)) = (event["delta"][name].as_str(), blocks.last_mut()) {
                let known = block[name].as_str().unwrap_or_default();
                block[name] = json!(format!("{known}{more}"));
            }
        }
    }
    json!(blocks)
}

/// The tokens of the assistant's message in a translated request.
fn read_back(chat: &[u8]) -> Tokens {
    parse_chat(Bytes::copy_from_slice(chat), &RequestLimits::default()).unwrap();
    let chat: Value = serde_json::from_slice(chat).unwrap();
    let message = &chat["messages"][1];
    let (mut text, mut reasoning) = (
        message["content"].as_str().unwrap_or_default(),
        message["reasoning_content"].as_str().unwrap_or_default(),
    );
    let details = message["reasoning_details"].as_array().cloned().unwrap_or_default();
    let order = details.iter().find_map(|entry| entry["order"].as_str());
    let mut entries = details.iter().filter(|entry| entry["order"].is_null());
    let mut calls = message["tool_calls"].as_array().into_iter().flatten();
    let mut tokens = Tokens::default();
    let usual = {
        let count = message["tool_calls"].as_array().map_or(0, Vec::len);
        let text = (!text.is_empty()).then(|| format!("t{}", text.len()));
        text.into_iter().chain((0..count).map(|_| "c".to_owned())).collect::<Vec<_>>().join(" ")
    };
    for word in order.unwrap_or(&usual).split(' ').filter(|word| !word.is_empty()) {
        let len: usize = word[1..].parse().unwrap_or_default();
        match &word[..1] {
            "t" => {
                tokens.push('t', &text[..len]);
                text = &text[len..];
            }
            "r" => {
                tokens.push('r', &reasoning[..len]);
                reasoning = &reasoning[len..];
            }
            "c" => tokens.push('c', calls.next().unwrap()["id"].as_str().unwrap()),
            _ => {
                let entry = entries.next().unwrap();
                let opaque = entry["signature"].as_str().or(entry["data"].as_str());
                tokens.push('s', opaque.unwrap());
            }
        }
    }
    assert_eq!((text, reasoning, entries.next(), calls.next()), ("", "", None, None));
    tokens
}

fn echoed_response(output: &Value) -> Tokens {
    let mut input = vec![json!({"role": "user", "content": "q"})];
    let items = output.as_array().unwrap();
    input.extend(items.iter().cloned());
    for item in items.iter().filter(|item| item["type"] == "function_call") {
        input.push(json!({"type": "function_call_output", "call_id": item["call_id"], "output": "x"}));
    }
    let body = Bytes::from(json!({"model": "m", "input": input}).to_string());
    read_back(&translate_response(body, &RequestLimits::default(), &[]).unwrap().chat)
}

fn echoed_message(content: &Value) -> Tokens {
    let calls = content.as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
    let mut results: Vec<Value> =
        calls.map(|call| json!({"type": "tool_result", "tool_use_id": call["id"], "content": "x"})).collect();
    results.push(json!({"type": "text", "text": "Go on."}));
    let messages = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": content},
        {"role": "user", "content": results}]);
    let body = Bytes::from(json!({"model": "m", "max_tokens": 9, "messages": messages}).to_string());
    read_back(&translate_message(body, &RequestLimits::default()).unwrap().chat)
}

proptest! {
    #[test]
    fn an_answer_that_is_sent_back_keeps_the_order_of_its_blocks(blocks in blocks()) {
        let (reply, tokens) = answer(&blocks);
        let request = Bytes::from(json!({"model": "m", "input": "q"}).to_string());
        let form = translate_response(request, &RequestLimits::default(), &[]).unwrap().context;
        let whole = plain(&form, &reply);
        prop_assert_eq!(&echoed_response(&whole["output"]), &tokens);
        let events = streamed(&form, &blocks);
        prop_assert_eq!(&echoed_response(&events.last().unwrap()["response"]["output"]), &tokens);
        let form = MessagesContext::default();
        let whole = plain(&form, &reply);
        prop_assert_eq!(&echoed_message(&whole["content"]), &tokens);
        prop_assert_eq!(&echoed_message(&folded(&streamed(&form, &blocks))), &tokens);
    }
}

#[test]
fn a_sealed_string_comes_back_without_members_that_its_provider_does_not_know() {
    for (opaque, has_more) in [("gw1.abc", false), ("abc", true)] {
        let item = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": opaque});
        let input = json!([{"role": "user", "content": "q"}, item, {"role": "assistant", "content": "a"}]);
        let body = Bytes::from(json!({"model": "m", "input": input}).to_string());
        let chat = translate_response(body, &RequestLimits::default(), &[]).unwrap().chat;
        let chat: Value = serde_json::from_slice(&chat).unwrap();
        let entry = &chat["messages"][1]["reasoning_details"][0];
        assert_eq!(
            (entry.get("id").is_some(), entry.get("index").is_some()),
            (has_more, has_more),
            "{entry}"
        );
        assert_eq!(
            View::new(&entry.to_string()).pick(["data"])[0].and_then(View::string).as_deref(),
            Some(opaque)
        );
    }
}
