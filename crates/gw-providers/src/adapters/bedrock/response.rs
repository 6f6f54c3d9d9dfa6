//! The complete response of Converse. API Reference, `API_runtime_Converse`, "Response Syntax".

use std::borrow::Cow;

use gw_wire::failure::Failure;
use gw_wire::reply::{ChatChoice, ChatReply, Finish, ToolCall};
use gw_wire::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{citations, images, reasoning, usage};
use crate::adapters::annotations::{Annotations, characters};
use crate::adapters::failure::{gave_up, invalid, invalid_json};
use crate::adapters::native::stop_member;
use crate::adapters::replay::DETAILS;
use crate::adapters::replay::order::{self, Order, joined};
use crate::adapters::text::{Text, filled};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConverseResponse<'a> {
    #[serde(borrow)]
    output: Option<ConverseOutput<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ConverseOutput<'a> {
    #[serde(borrow)]
    message: Option<ConverseMessage<'a>>,
}

#[derive(Deserialize)]
struct ConverseMessage<'a> {
    #[serde(borrow)]
    content: Option<Vec<ConverseContent<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConverseContent<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    tool_use: Option<ConverseToolUse<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<ConverseReasoning<'a>>,
    #[serde(borrow)]
    image: Option<images::BedrockImage<'a>>,
    /// Text with its citations.
    #[serde(borrow)]
    citations_content: Option<CitationsContent<'a>>,
}

#[derive(Deserialize)]
struct CitationsContent<'a> {
    #[serde(borrow)]
    content: Option<Vec<ConverseContent<'a>>>,
    #[serde(borrow)]
    citations: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConverseToolUse<'a> {
    #[serde(borrow)]
    tool_use_id: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    /// `server_tool_use` for a tool that the provider itself calls.
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConverseReasoning<'a> {
    #[serde(borrow)]
    reasoning_text: Option<ConverseReasoningText<'a>>,
    #[serde(borrow)]
    redacted_content: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct ConverseReasoningText<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    signature: Option<Text<'a>>,
}

/// The reason of an answer that a stop sequence ended.
pub(super) const STOP_SEQUENCE: &str = "stop_sequence";

/// The usage in a response that cannot be used.
pub(super) fn failed_usage(body: &[u8]) -> Option<Usage> {
    let answer: ConverseResponse<'_> = serde_json::from_slice(body).ok()?;
    usage::read(answer.usage?)
}

/// Decodes the response. `only_stop` is the only stop sequence of the request. A 200 without `output` is an invalid response.
pub(super) fn decode<'a>(body: &'a [u8], only_stop: Option<&str>) -> Result<ChatReply<'a>, Failure> {
    let answer: ConverseResponse<'_> = serde_json::from_slice(body).map_err(|fault| invalid_json(&fault))?;
    let message = answer.output.and_then(|output| output.message);
    let message = message.ok_or_else(|| invalid("the body has no output"))?;
    let mut choice = ChatChoice::default();
    let (mut details, mut order, mut sources) = (Vec::new(), Order::default(), BedrockCitations::default());
    for content in message.content.unwrap_or_default() {
        block(content, &mut choice, &mut details, &mut order, &mut sources);
    }
    sources.annotations.add_to(&mut choice);
    let order = order.entry(&[reasoning::USUAL_ORDER], details.len());
    if let Some(details) = joined(reasoning::details(&details), order) {
        choice.extras.push((Cow::Borrowed(DETAILS), Cow::Owned(details)));
    }
    let has_calls = !choice.tool_calls.is_empty();
    let ending = only_stop.filter(|_| Text::of(&answer.stop_reason) == STOP_SEQUENCE);
    choice.finish = match answer.stop_reason {
        Some(reason) => finish_reason(&reason.0, has_calls)?,
        None => None,
    };
    Ok(ChatReply {
        model: None,
        fingerprint: None,
        choices: vec![choice],
        usage: answer.usage.and_then(usage::read),
        members: stop_member(ending).into_iter().collect(),
        native: None,
    })
}

/// The citations and the length of the text so far.
#[derive(Default)]
struct BedrockCitations {
    annotations: Annotations,
    characters: u64,
}

impl BedrockCitations {
    /// Appends text to the answer.
    fn add_text<'a>(&mut self, choice: &mut ChatChoice<'a>, order: &mut Order, text: Cow<'a, str>) {
        self.characters += characters(&text);
        order.add(order::Block::Text(text.len()));
        append(&mut choice.content, text);
    }
}

fn block<'a>(
    content: ConverseContent<'a>,
    choice: &mut ChatChoice<'a>,
    details: &mut Vec<serde_json::Value>,
    order: &mut Order,
    sources: &mut BedrockCitations,
) {
    order.close();
    if let Some(text) = filled(content.text) {
        sources.add_text(choice, order, text);
    }
    if let Some(cited) = content.citations_content {
        let start = sources.characters;
        for text in cited.content.unwrap_or_default().into_iter().filter_map(|part| filled(part.text)) {
            sources.add_text(choice, order, text);
        }
        if let Some(citations) = cited.citations {
            citations::cite(citations, start, sources.characters, &mut sources.annotations);
        }
    }
    if let Some(image) = content.image.and_then(images::BedrockImage::image) {
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
    if let Some(reasoning) = content.reasoning_content {
        let mut block = reasoning::ReasoningBlock {
            redacted: filled(reasoning.redacted_content).unwrap_or_default(),
            ..reasoning::ReasoningBlock::default()
        };
        if let Some(text) = reasoning.reasoning_text {
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

/// Whether the provider itself calls the tool. Clients do not see such calls.
pub(super) fn is_server_tool(kind: Option<&Text<'_>>) -> bool {
    kind.is_some_and(|kind| kind.0 == "server_tool_use")
}

/// Appends a piece. The first piece is not copied.
fn append<'a>(joined: &mut Option<Cow<'a, str>>, piece: Cow<'a, str>) {
    match joined {
        None => *joined = Some(piece),
        Some(joined) => joined.to_mut().push_str(&piece),
    }
}

/// Returns the finish reason; None for an unknown word. API Reference, `API_runtime_Converse`, `stopReason`, November
/// 2026.
///
/// # Errors
/// The model stopped without a usable answer.
pub(super) fn finish_reason(reason: &str, has_calls: bool) -> Result<Option<Finish>, Failure> {
    Ok(Some(match reason {
        "malformed_model_output" | "malformed_tool_use" => return Err(gave_up(reason)),
        // Some models report `end_turn` after tool calls, and clients rely on the reason.
        "end_turn" if has_calls => Finish::ToolCalls,
        "end_turn" | STOP_SEQUENCE => Finish::Stop,
        "tool_use" => Finish::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "guardrail_intervened" | "content_filtered" => Finish::ContentFilter,
        _ => return Ok(None),
    }))
}
