//! The complete response.

use std::borrow::Cow;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::hosted_tools::HostedCalls;
use gw_wire::reply::{ChatChoice, ChatReply, Finish, ToolCall};
use gw_wire::usage::Usage;
use serde_json::value::RawValue;

use super::candidate::{
    Candidate, CandidatePart, GeminiResponse, Text, call_id, finish_reason, make_call_id, no_candidate,
};
use super::contents::{IMAGE_ID_PREFIX, SIGNATURE_FORMAT, TEXT_ID_PREFIX, USUAL_ORDER};
use super::errors;
use super::grounding::GroundingCitations;
use super::logprobs;
use crate::adapters::failure::{body_text, invalid, invalid_json};
use crate::adapters::replay::order::{Block, Order, joined};

pub(super) use crate::adapters::replay::DETAILS;

/// The usage in a response that cannot be used.
pub(in crate::adapters) fn failed_usage(body: &[u8]) -> Option<Usage> {
    let answer: GeminiResponse<'_> = serde_json::from_slice(body).ok()?;
    answer.usage_metadata?.usage()
}

/// Decodes a complete response.
pub(in crate::adapters) fn decode(body: &[u8]) -> Result<ChatReply<'_>, Failure> {
    let text = body_text(body)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('[') {
        let value = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
        return Err(match errors::in_list(&value) {
            Some(error) => errors::reported(error, FailureKind::Server),
            None => invalid("the body is a list"),
        });
    }
    let mut answer: GeminiResponse<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    if answer.error.is_some() {
        let error = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
        return Err(errors::reported(&error, FailureKind::Server));
    }
    if !answer.is_response() {
        return Err(invalid("the body has no candidates"));
    }
    let is_blocked = answer.is_blocked();
    let response = answer.response_id.take().unwrap_or_default();
    let candidates = answer.candidates.take().unwrap_or_default();
    let mut searches = HostedCalls::default();
    let mut choices: Vec<ChatChoice<'_>> = Vec::with_capacity(candidates.len().max(1));
    for (position, candidate) in candidates.into_iter().enumerate() {
        let index = candidate.index.unwrap_or_else(|| u32::try_from(position).unwrap_or(u32::MAX));
        choices.push(choice(index, candidate, &response.0, &mut searches)?);
    }
    if choices.is_empty() {
        if !is_blocked {
            return Err(no_candidate());
        }
        let (content, finish) = (Some(Cow::Borrowed("")), Some(Finish::ContentFilter));
        choices.push(ChatChoice { content, finish, ..ChatChoice::default() });
    }
    choices.sort_by_key(|choice| choice.index);
    Ok(ChatReply {
        model: answer.model_version.map(|text| text.0).filter(|text| !text.is_empty()),
        fingerprint: None,
        choices,
        usage: with_searches(answer.usage_metadata.and_then(|counts| counts.usage()), searches),
        members: Vec::new(),
        native: None,
    })
}

/// The reported usage with the searches of the answer, which Google bills beside the tokens.
pub(super) fn with_searches(used: Option<Usage>, searches: HostedCalls) -> Option<Usage> {
    match used {
        None if searches.is_none() => None,
        None => Some(Usage { hosted: searches, estimated: true, ..Usage::default() }),
        Some(used) => Some(Usage { hosted: searches, ..used }),
    }
}

fn choice<'a>(
    index: u32,
    candidate: Candidate<'a>,
    response: &str,
    searches: &mut HostedCalls,
) -> Result<ChatChoice<'a>, Failure> {
    let mut choice = ChatChoice { index, content: Some(Cow::Borrowed("")), ..ChatChoice::default() };
    let (mut signatures, mut order) = (Vec::new(), Order::default());
    for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
        order.close();
        add(&mut choice, part, &mut signatures, &mut order, response);
    }
    let order = order.entry(&[USUAL_ORDER], signatures.len());
    if let Some(details) = joined(details(&signatures, 0), order) {
        choice.extras.push((Cow::Borrowed(DETAILS), Cow::Owned(details)));
    }
    if let Some(grounding) = candidate.grounding_metadata {
        let mut sources = GroundingCitations::default();
        sources.add_text(choice.content.as_deref().unwrap_or_default());
        sources.add(grounding);
        *searches = searches.plus(&sources.searches());
        sources.annotations().add_to(&mut choice);
    }
    choice.logprobs = candidate.logprobs_result.as_ref().and_then(logprobs::openai).map(Cow::Owned);
    let has_calls = !choice.tool_calls.is_empty();
    choice.finish = candidate.finish_reason.map(|reason| finish_reason(&reason.0, has_calls)).transpose()?;
    // A call without a finish reason ended the choice.
    if choice.finish.is_none() && has_calls {
        choice.finish = Some(Finish::ToolCalls);
    }
    Ok(choice)
}

/// Records a text or thought, an image and a signature in the order of blocks.
pub(super) fn record(order: &mut Order, is_thought: bool, len: usize, is_image: bool, is_signed: bool) {
    if len > 0 || is_signed && !is_image {
        order.add(if is_thought { Block::Thought(len) } else { Block::Text(len) });
    }
    if is_image {
        order.add(Block::Image);
    }
    if is_signed {
        order.add(Block::Signature);
    }
}

fn add<'a>(
    choice: &mut ChatChoice<'a>,
    mut part: CandidatePart<'a>,
    signatures: &mut Vec<Signature<'a>>,
    order: &mut Order,
    response: &str,
) {
    if let Some(mut call) = part.function_call {
        let count = u32::try_from(choice.tool_calls.len()).unwrap_or(u32::MAX);
        let id = call_id(&mut call, part.thought_signature, || make_call_id(response, choice.index, count));
        let arguments = call.arguments();
        // A call without a name is ignored.
        if let Some(name) = call.name.map(|name| name.0).filter(|name| !name.is_empty()) {
            order.add(Block::Call);
            choice.tool_calls.push(ToolCall { id, name, arguments, custom: false });
        }
        return;
    }
    let image = part.take_image();
    let is_thought = part.thought == Some(true);
    let into = if is_thought { &mut choice.reasoning } else { &mut choice.content };
    let text = part.text.map(|text| text.0).filter(|text| !text.is_empty());
    let len = text.as_deref().map_or(0, str::len);
    let signed = if image.is_some() { SignedPart::Image(choice.images.len()) } else { SignedPart::Text(len) };
    let signature = Signature::of(part.thought_signature, signed);
    record(order, is_thought, len, image.is_some(), signature.is_some());
    if let Some(text) = text {
        match into {
            Some(before) if !before.is_empty() => before.to_mut().push_str(&text),
            _ => *into = Some(text),
        }
    }
    choice.images.extend(image);
    signatures.extend(signature);
}

/// The signature of a text or an image.
pub(super) struct Signature<'a> {
    data: Cow<'a, str>,
    /// The part that it signs.
    part: SignedPart,
}

/// The part that a signature belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) enum SignedPart {
    /// A text or thought of this many bytes. Clients join texts, so the signature tells its own.
    Text(usize),
    /// The image with this index among the choice's images.
    Image(usize),
}

impl<'a> Signature<'a> {
    pub(super) fn of(data: Option<Text<'a>>, part: SignedPart) -> Option<Self> {
        data.map(|text| text.0).filter(|data| !data.is_empty()).map(|data| Self { data, part })
    }
}

/// Returns signatures in the format of OpenRouter's `reasoning_details`, which clients send back. The `id` of an entry
/// names the part that it signs.
pub(super) fn details(signatures: &[Signature<'_>], first: u32) -> Option<Box<RawValue>> {
    if signatures.is_empty() {
        return None;
    }
    let entry = |(index, Signature { data, part }): (u32, &Signature<'_>)| {
        let id = match part {
            SignedPart::Text(len) => format!("{TEXT_ID_PREFIX}{len}"),
            SignedPart::Image(place) => format!("{IMAGE_ID_PREFIX}{place}"),
        };
        serde_json::json!({
            "type": "reasoning.encrypted", "data": data, "format": SIGNATURE_FORMAT, "id": id, "index": index,
        })
    };
    let entries: Vec<serde_json::Value> = (first..).zip(signatures).map(entry).collect();
    serde_json::value::to_raw_value(&entries).ok()
}
