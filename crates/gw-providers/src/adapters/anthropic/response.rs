//! The complete response.

use std::borrow::Cow;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::{ChatChoice, ChatReply, ToolCall};
use gw_wire::usage::Usage;
use serde_json::Value;
use serde_json::value::RawValue;

use super::details::{self, Thought, ThoughtKind};
use super::usage::AnthropicUsage;
use super::wire::{
    AnthropicBlock, AnthropicMessage, FAILED, StopDetails, Text, ending_sequence, finish_reason, sources,
};
use crate::adapters::annotations::{Annotations, characters};
use crate::adapters::failure::{gave_up, invalid, invalid_json, reported};
use crate::adapters::replay::order::{self, Order, joined};

/// The usage in a response that cannot be used.
pub(in crate::adapters) fn failed_usage(body: &[u8]) -> Option<Usage> {
    let message: AnthropicMessage<'_> = serde_json::from_slice(body).ok()?;
    let mut counts = AnthropicUsage::default();
    counts.take(message.usage?);
    counts.usage()
}

/// Decodes a complete response.
pub(in crate::adapters) fn decode(body: &[u8]) -> Result<ChatReply<'_>, Failure> {
    let message: AnthropicMessage<'_> = serde_json::from_slice(body).map_err(|fault| invalid_json(&fault))?;
    if Text::of(&message.kind) == "error" || message.error.is_some() {
        let error = serde_json::from_slice(body).unwrap_or(Value::Null);
        return Err(reported(&error, FailureKind::Server));
    }
    if Text::of(&message.stop_reason) == FAILED {
        return Err(gave_up(FAILED));
    }
    let ending = ending_sequence(Text::of(&message.stop_reason), message.stop_sequence);
    let Some(content) = message.content else { return Err(invalid("the body has no content")) };
    let mut counts = AnthropicUsage::default();
    if let Some(usage) = message.usage {
        counts.take(usage);
    }
    let mut choice =
        ChatChoice { finish: finish_reason(Text::of(&message.stop_reason)), ..ChatChoice::default() };
    choice.refusal = StopDetails::explanation(message.stop_details);
    let (mut thoughts, mut order) = (Vec::new(), Order::default());
    let (mut citations, count) = (AnthropicCitations::default(), content.len());
    for (index, block) in (0_u32..).zip(content) {
        citations.add(&block);
        add_block(block, index, &mut choice, &mut thoughts, &mut order);
    }
    let thoughts = if thoughts.is_empty() { None } else { details::to_member(&thoughts) };
    let member = joined(thoughts, order.entry(&[details::USUAL_ORDER], count)).map(Cow::Owned);
    choice.extras.extend(member.map(|value| (Cow::Borrowed(details::MEMBER), value)));
    citations.annotations.add_to(&mut choice);
    Ok(ChatReply {
        model: message.model.map(|model| model.0).filter(|model| !model.is_empty()),
        fingerprint: None,
        choices: vec![choice],
        usage: counts.usage(),
        members: ending
            .map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value)))
            .into_iter()
            .collect(),
        native: None,
    })
}

/// The citations and the length of the text so far.
#[derive(Default)]
struct AnthropicCitations {
    annotations: Annotations,
    characters: u64,
}

impl AnthropicCitations {
    fn add(&mut self, block: &AnthropicBlock<'_>) {
        let start = self.characters;
        match Text::of(&block.kind) {
            "text" => {
                self.characters += characters(Text::of(&block.text));
                for source in sources(block.citations) {
                    self.annotations.add(&source, start, self.characters);
                }
            }
            "web_search_tool_result" => {
                for source in sources(block.content) {
                    self.annotations.add(&source, start, start);
                }
            }
            _ => {}
        }
    }
}

fn add_block<'a>(
    block: AnthropicBlock<'a>,
    index: u32,
    choice: &mut ChatChoice<'a>,
    thoughts: &mut Vec<Thought<'a>>,
    order: &mut Order,
) {
    let before = thoughts.len();
    order.close();
    match Text::of(&block.kind) {
        "text" => {
            if let len @ 1.. = Text::of(&block.text).len() {
                order.add(order::Block::Text(len));
            }
            join(&mut choice.content, block.text);
        }
        "thinking" => {
            let text = block.thinking.unwrap_or_default().0;
            join(&mut choice.reasoning, Some(Text(text.clone())));
            if let Some(signature) = block.signature.filter(|signature| !signature.0.is_empty()) {
                thoughts.push(Thought { index, kind: ThoughtKind::Signed { text, signature: signature.0 } });
            }
        }
        "redacted_thinking" => {
            let data = block.data.map(|data| data.0).filter(|data| !data.is_empty());
            thoughts.extend(data.map(|data| Thought { index, kind: ThoughtKind::Redacted { data } }));
        }
        "tool_use" | "server_tool_use" => {
            order.add(order::Block::Call);
            choice.tool_calls.push(ToolCall {
                id: block.id.unwrap_or_default().0,
                name: block.name.unwrap_or_default().0,
                arguments: Cow::Borrowed(block.input.map_or("{}", RawValue::get)),
                custom: false,
            });
        }
        _ => {}
    }
    if thoughts.len() > before {
        order.add(order::Block::Detail);
    }
}

/// Appends a piece. The usual single piece stays borrowed.
fn join<'a>(joined: &mut Option<Cow<'a, str>>, piece: Option<Text<'a>>) {
    let Some(piece) = piece.map(|piece| piece.0).filter(|piece| !piece.is_empty()) else { return };
    match joined {
        Some(joined) => joined.to_mut().push_str(&piece),
        None => *joined = Some(piece),
    }
}
