//! A complete answer of Converse. API Reference, `API_runtime_Converse`, "Response Syntax".

use std::borrow::Cow;

use gw_wire::failure::Failure;
use gw_wire::reply::{ChatChoice, ChatReply, Finish, ToolCall};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{citations, images, reasoning, usage};
use crate::adapters::annotations::{Annotations, characters};
use crate::adapters::failure::{gave_up, invalid, invalid_json};
use crate::adapters::replay::DETAILS;
use crate::adapters::replay::order::{self, Order, joined};
use crate::adapters::text::{Text, filled};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(borrow)]
    output: Option<Output<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Vec<Content<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    tool_use: Option<ToolUse<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Reasoning<'a>>,
    #[serde(borrow)]
    image: Option<images::Block<'a>>,
    /// Text with the places that it is taken from.
    #[serde(borrow)]
    citations_content: Option<Cited<'a>>,
}

#[derive(Deserialize)]
struct Cited<'a> {
    #[serde(borrow)]
    content: Option<Vec<Content<'a>>>,
    #[serde(borrow)]
    citations: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolUse<'a> {
    #[serde(borrow)]
    tool_use_id: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    /// `server_tool_use`: a tool that the provider itself calls.
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reasoning<'a> {
    #[serde(borrow)]
    reasoning_text: Option<ReasoningText<'a>>,
    #[serde(borrow)]
    redacted_content: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct ReasoningText<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    signature: Option<Text<'a>>,
}

/// Reads it. A 200 without `output` is no answer, whatever else it holds.
pub(super) fn decode(body: &[u8]) -> Result<ChatReply<'_>, Failure> {
    let answer: Answer<'_> = serde_json::from_slice(body).map_err(|fault| invalid_json(&fault))?;
    let message = answer.output.and_then(|output| output.message);
    let message = message.ok_or_else(|| invalid("the body has no output"))?;
    let mut choice = ChatChoice::default();
    let (mut details, mut order, mut sources) = (Vec::new(), Order::default(), Sources::default());
    for content in message.content.unwrap_or_default() {
        block(content, &mut choice, &mut details, &mut order, &mut sources);
    }
    sources.annotations.add_to(&mut choice);
    let order = order.entry(&[reasoning::USUAL], details.len());
    if let Some(details) = joined(reasoning::details(&details), order) {
        choice.extras.push((Cow::Borrowed(DETAILS), Cow::Owned(details)));
    }
    let has_calls = !choice.tool_calls.is_empty();
    choice.finish = match answer.stop_reason {
        Some(reason) => finish(&reason.0, has_calls)?,
        None => None,
    };
    Ok(ChatReply {
        model: None,
        fingerprint: None,
        choices: vec![choice],
        usage: answer.usage.and_then(usage::read),
        members: Vec::new(),
    })
}

/// The sources of the text so far.
#[derive(Default)]
struct Sources {
    annotations: Annotations,
    characters: u64,
}

impl Sources {
    /// Text is added to the answer.
    fn say<'a>(&mut self, choice: &mut ChatChoice<'a>, order: &mut Order, text: Cow<'a, str>) {
        self.characters += characters(&text);
        order.add(order::Block::Text(text.len()));
        append(&mut choice.content, text);
    }
}

fn block<'a>(
    content: Content<'a>,
    choice: &mut ChatChoice<'a>,
    details: &mut Vec<serde_json::Value>,
    order: &mut Order,
    sources: &mut Sources,
) {
    order.close();
    if let Some(text) = filled(content.text) {
        sources.say(choice, order, text);
    }
    if let Some(cited) = content.citations_content {
        let start = sources.characters;
        for text in cited.content.unwrap_or_default().into_iter().filter_map(|said| filled(said.text)) {
            sources.say(choice, order, text);
        }
        if let Some(citations) = cited.citations {
            citations::cite(citations, start, sources.characters, &mut sources.annotations);
        }
    }
    if let Some(image) = content.image.and_then(images::Block::image) {
        order.add(order::Block::Image);
        choice.images.push(image);
    }
    if let Some(call) = content.tool_use
        && !is_server_tool(call.kind.as_ref())
    {
        order.add(order::Block::Call);
        let arguments = call.input.map(RawValue::get).unwrap_or_default();
        choice.tool_calls.push(ToolCall {
            id: call.tool_use_id.unwrap_or_default().0,
            name: call.name.unwrap_or_default().0,
            arguments: Cow::Borrowed(arguments),
            custom: false,
        });
    }
    if let Some(thought) = content.reasoning_content {
        let mut block = reasoning::Block {
            redacted: filled(thought.redacted_content).unwrap_or_default(),
            ..reasoning::Block::default()
        };
        if let Some(text) = thought.reasoning_text {
            block.text = filled(text.text).unwrap_or_default();
            block.signature = filled(text.signature).unwrap_or_default();
        }
        if let Some(detail) = block.detail(details.len()) {
            order.add(order::Block::Detail);
            details.push(detail);
        }
        if !block.text.is_empty() {
            append(&mut choice.reasoning, block.text);
        }
    }
}

/// Whether it is a tool that the provider calls itself, which is none of the client's.
pub(super) fn is_server_tool(kind: Option<&Text<'_>>) -> bool {
    kind.is_some_and(|kind| kind.0 == "server_tool_use")
}

/// Adds a further piece; the first is not copied.
fn append<'a>(whole: &mut Option<Cow<'a, str>>, piece: Cow<'a, str>) {
    match whole {
        None => *whole = Some(piece),
        Some(whole) => whole.to_mut().push_str(&piece),
    }
}

/// Why the answer ended; None for a word that we do not know. API Reference, `API_runtime_Converse`, `stopReason`, November 2026.
///
/// # Errors
/// The model gave up.
pub(super) fn finish(reason: &str, has_calls: bool) -> Result<Option<Finish>, Failure> {
    Ok(Some(match reason {
        "malformed_model_output" | "malformed_tool_use" => return Err(gave_up(reason)),
        // Not every model names its calls as the reason, and clients go by the reason.
        "end_turn" if has_calls => Finish::ToolCalls,
        "end_turn" | "stop_sequence" => Finish::Stop,
        "tool_use" => Finish::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "guardrail_intervened" | "content_filtered" => Finish::ContentFilter,
        _ => return Ok(None),
    }))
}
