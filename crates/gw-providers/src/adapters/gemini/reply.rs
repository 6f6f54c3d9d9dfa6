//! A whole answer.

use std::borrow::Cow;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::{ChatChoice, ChatReply, Finish, ToolCall};
use serde_json::value::RawValue;

use super::answer::{Answer, Candidate, Part, call_id, finish, made_id};
use super::contents::{SIGNATURE_FORMAT, USUAL};
use super::errors;
use super::logprobs;
use crate::adapters::failure::{invalid, invalid_json};
use crate::adapters::replay::order::{Block, Order, joined};

pub(super) use crate::adapters::replay::DETAILS;

/// Reads a whole answer.
pub(in crate::adapters) fn decode(body: &[u8]) -> Result<ChatReply<'_>, Failure> {
    let text = std::str::from_utf8(body).map_err(|_| invalid("the body is not UTF-8"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('[') {
        let value = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
        return Err(match errors::in_list(&value) {
            Some(error) => errors::reported(error, FailureKind::Server),
            None => invalid("the body is a list"),
        });
    }
    let mut answer: Answer<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    if answer.error.is_some() {
        let error = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
        return Err(errors::reported(&error, FailureKind::Server));
    }
    if !answer.is_answer() {
        return Err(invalid("the body has no candidates"));
    }
    let is_blocked = answer.is_blocked();
    let response = answer.response_id.take().unwrap_or_default();
    let candidates = answer.candidates.take().unwrap_or_default();
    let mut choices: Vec<ChatChoice<'_>> = Vec::with_capacity(candidates.len().max(1));
    for (position, candidate) in candidates.into_iter().enumerate() {
        let index = candidate.index.unwrap_or_else(|| u32::try_from(position).unwrap_or(u32::MAX));
        choices.push(choice(index, candidate, &response.0));
    }
    if choices.is_empty() {
        let finish = if is_blocked { Finish::ContentFilter } else { Finish::Stop };
        let content = Some(Cow::Borrowed(""));
        choices.push(ChatChoice { content, finish: Some(finish), ..ChatChoice::default() });
    }
    choices.sort_by_key(|choice| choice.index);
    Ok(ChatReply {
        model: answer.model_version.map(|text| text.0).filter(|text| !text.is_empty()),
        fingerprint: None,
        choices,
        usage: answer.usage_metadata.and_then(|counts| counts.usage()),
    })
}

fn choice<'a>(index: u32, candidate: Candidate<'a>, response: &str) -> ChatChoice<'a> {
    let mut choice = ChatChoice { index, content: Some(Cow::Borrowed("")), ..ChatChoice::default() };
    let (mut signatures, mut order) = (Vec::new(), Order::default());
    for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
        order.close();
        add(&mut choice, part, &mut signatures, &mut order, response);
    }
    let order = order.entry(&[USUAL], signatures.len());
    if let Some(details) = joined(details(&signatures, 0), order) {
        choice.extras.push((Cow::Borrowed(DETAILS), Cow::Owned(details)));
    }
    choice.logprobs = candidate.logprobs_result.as_ref().and_then(logprobs::openai).map(Cow::Owned);
    let has_calls = !choice.tool_calls.is_empty();
    choice.finish = candidate.finish_reason.map(|reason| finish(&reason.0, has_calls));
    // Without a reason, a call is one.
    if choice.finish.is_none() && has_calls {
        choice.finish = Some(Finish::ToolCalls);
    }
    choice
}

/// Takes a text, a thought or a signature into the order.
pub(super) fn record(order: &mut Order, is_thought: bool, len: usize, is_signed: bool) {
    if len > 0 || is_signed {
        order.add(if is_thought { Block::Thought(len) } else { Block::Text(len) });
    }
    if is_signed {
        order.add(Block::Signature);
    }
}

fn add<'a>(
    choice: &mut ChatChoice<'a>,
    part: Part<'a>,
    signatures: &mut Vec<Cow<'a, str>>,
    order: &mut Order,
    response: &str,
) {
    if let Some(mut call) = part.function_call {
        let count = u32::try_from(choice.tool_calls.len()).unwrap_or(u32::MAX);
        let id = call_id(&mut call, part.thought_signature, || made_id(response, choice.index, count));
        let arguments = call.arguments();
        // A call of nothing is none.
        if let Some(name) = call.name.map(|name| name.0).filter(|name| !name.is_empty()) {
            order.add(Block::Call);
            choice.tool_calls.push(ToolCall { id, name, arguments, custom: false });
        }
        return;
    }
    let is_thought = part.thought == Some(true);
    let into = if is_thought { &mut choice.reasoning } else { &mut choice.content };
    let text = part.text.map(|text| text.0).filter(|text| !text.is_empty());
    let signature = part.thought_signature.map(|text| text.0).filter(|text| !text.is_empty());
    record(order, is_thought, text.as_deref().map_or(0, str::len), signature.is_some());
    if let Some(text) = text {
        match into {
            Some(before) if !before.is_empty() => before.to_mut().push_str(&text),
            _ => *into = Some(text),
        }
    }
    signatures.extend(signature);
}

/// Signatures of text as OpenRouter writes them, so that clients which send `reasoning_details` back bring them home.
pub(super) fn details(signatures: &[Cow<'_, str>], first: u32) -> Option<Box<RawValue>> {
    if signatures.is_empty() {
        return None;
    }
    let entries: Vec<serde_json::Value> = (first..)
        .zip(signatures)
        .map(|(index, data)| {
            serde_json::json!({ "type": "reasoning.encrypted", "data": data, "format": SIGNATURE_FORMAT, "index": index })
        })
        .collect();
    serde_json::value::to_raw_value(&entries).ok()
}
