//! Complete answers, and the model list.

use std::borrow::Cow;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::{ChatChoice, ChatReply, ToolCall};
use gw_wire::usage::Usage;
use serde_json::Value;

use super::wire::{CohereCall, CohereMessage, CohereReply, add_citations};
use super::{finish, logprobs, usage};
use crate::adapter::ListedModel;
use crate::adapters::annotations::Annotations;
use crate::adapters::failure::{body_text, invalid, invalid_json, reported};
use crate::adapters::model_list::ModelList;
use crate::adapters::native::stop_member;
use crate::adapters::replay::DETAILS;
use crate::adapters::replay::order::{Block, Order};

/// The usage in an answer that cannot be used.
pub(super) fn failed_usage(body: &[u8]) -> Option<Usage> {
    let reply: CohereReply<'_> = serde_json::from_slice(body).ok()?;
    usage::read(reply.usage.as_ref()?)
}

/// Reads a chat answer. It does not hold the model's name. `only_stop` is the only stop sequence of the request.
pub(super) fn decode<'a>(body: &'a [u8], only_stop: Option<&str>) -> Result<ChatReply<'a>, Failure> {
    let text = body_text(body)?;
    let reply: CohereReply<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    let message = reply.message.filter(|message| message.get().starts_with('{'));
    let Some(message) = message.filter(|_| reply.error.is_none()) else {
        if reply.message.is_some() || reply.error.is_some() {
            let error = serde_json::from_str(text).unwrap_or(Value::Null);
            return Err(reported(&error, FailureKind::Server));
        }
        return Err(invalid("the body has no message"));
    };
    let message: CohereMessage<'_> =
        serde_json::from_str(message.get()).map_err(|fault| invalid_json(&fault))?;
    let mut choice = choice(message);
    if let Some(reason) = &reply.finish_reason {
        let has_calls = !choice.tool_calls.is_empty();
        choice.finish = Some(finish::read(&reason.0, has_calls, None, FailureKind::StreamBroken)?);
    }
    choice.logprobs = reply.logprobs.and_then(logprobs::convert).map(Cow::Owned);
    let usage = reply.usage.as_ref().and_then(usage::read);
    let is_at_stop = reply.finish_reason.as_ref().is_some_and(|reason| reason.0 == finish::STOP_SEQUENCE);
    let ending = only_stop.filter(|_| is_at_stop);
    let (choices, members) = (vec![choice], stop_member(ending).into_iter().collect());
    Ok(ChatReply { model: None, fingerprint: None, choices, usage, members, native: None })
}

fn choice(message: CohereMessage<'_>) -> ChatChoice<'_> {
    let (mut content, mut reasoning) = (Cow::Borrowed(""), Cow::Borrowed(""));
    let mut order = Order::default();
    // The plan is text in front of other text, as in a stream. Reasoning is in `content`.
    let mut plan = message.tool_plan.map(|plan| plan.0).filter(|plan| !plan.is_empty());
    let mut shift = 0;
    if let Some(pieces) = message.content {
        pieces.each(|piece| {
            order.close();
            let (thinking, text) = (piece.thinking.map(|text| text.0), piece.text.map(|text| text.0));
            record(&mut order, thinking.as_deref(), Block::Thought);
            append(&mut reasoning, thinking);
            let Some(text) = text.filter(|text| !text.is_empty()) else { return };
            if let Some(plan) = plan.take() {
                shift = characters(&plan).saturating_add(1);
                order.add(Block::Plan(plan.len()));
                order.add(Block::Text("\n".len()));
                append(&mut content, Some(plan));
                append(&mut content, Some(Cow::Borrowed("\n")));
            }
            order.add(Block::Text(text.len()));
            append(&mut content, Some(text));
        });
    }
    if let Some(plan) = plan {
        order.add(Block::Plan(plan.len()));
        append(&mut content, Some(plan));
    }
    let mut annotations = Annotations::default();
    if let Some(citations) = message.citations {
        add_citations(citations, shift, &mut annotations);
    }
    let mut tool_calls = Vec::new();
    if let Some(calls) = message.tool_calls {
        calls.each(|call| tool_calls.extend(tool_call(call)));
    }
    tool_calls.iter().for_each(|_| order.add(Block::Call));
    let order_entry = order.entry(USUAL, 0).map(|value| (Cow::Borrowed(DETAILS), Cow::Owned(value)));
    let mut choice = ChatChoice {
        extras: order_entry.into_iter().collect(),
        index: 0,
        content: Some(content),
        reasoning: (!reasoning.is_empty()).then_some(reasoning),
        tool_calls,
        ..ChatChoice::default()
    };
    annotations.add_to(&mut choice);
    choice
}

/// Orders that need no entry, because messages are written in them anyway: a text, or a plan and calls.
pub(super) const USUAL: &[&[(char, usize)]] = &[&[('t', 1)], &[('p', 1), ('c', usize::MAX)]];

/// Adds a text to the order.
pub(super) fn record(order: &mut Order, text: Option<&str>, block: fn(usize) -> Block) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        order.add(block(text.len()));
    }
}

/// The number of characters, which citations count.
pub(super) fn characters(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

fn append<'a>(whole: &mut Cow<'a, str>, piece: Option<Cow<'a, str>>) {
    match piece {
        Some(piece) if whole.is_empty() => *whole = piece,
        Some(piece) => whole.to_mut().push_str(&piece),
        None => {}
    }
}

/// Converts a call. A call without a function is dropped.
fn tool_call(call: CohereCall<'_>) -> Option<ToolCall<'_>> {
    let function = call.function?;
    Some(ToolCall {
        id: call.id.unwrap_or_default().0,
        name: function.name?.0,
        arguments: function.arguments.unwrap_or_default().0,
        custom: false,
    })
}

/// The models that chat, embed or rerank. Other models (classify) cannot be called through the gateway.
pub(super) fn models(body: &[u8]) -> Result<Vec<ListedModel>, Failure> {
    let value: Value = serde_json::from_slice(body).map_err(|fault| invalid_json(&fault))?;
    let list = value.get("models").and_then(Value::as_array).ok_or_else(|| invalid("no list of models"))?;
    let mut models = ModelList::default();
    for model in list {
        let endpoints = model.get("endpoints").and_then(Value::as_array);
        let can = |named: &str| {
            endpoints.is_none_or(|all| all.iter().any(|endpoint| endpoint.as_str() == Some(named)))
        };
        let category = match (can("chat"), can("embed"), can("rerank")) {
            (true, _, _) => None,
            (false, true, _) => Some("embedding"),
            (false, false, true) => Some("rerank"),
            (false, false, false) => continue,
        };
        let name = model.get("name").and_then(Value::as_str);
        models.add_of_category(name.unwrap_or_default(), None, category);
    }
    Ok(models.into_models())
}
