//! Answers of OpenAI's Responses API ("Responses" in openai-openapi 2.3.0, read 2026-11-22). Only clients that speak this
//! API are served with it, so their request goes to the provider unchanged.

mod item;
mod stream;
mod written;

use std::borrow::Cow;
use std::sync::Arc;

use gw_wire::dialects::responses::native::{EncryptedContent, Forwarding, for_upstream, seal_items};
use gw_wire::dialects::{ClientDialect, ClientRequest};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::View;
use gw_wire::reply::{ChatChoice, ChatReply, Finish, ToolCall};
use gw_wire::request::ChatRequest;
use gw_wire::usage::Usage;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::lenient::RawText;
use super::usage;
use crate::adapter::{Encoded, Reading, StreamDecoder, Target};
use crate::adapters::bounded::Bounded;
use crate::adapters::failure::{body_text, invalid, invalid_json, reported};
use crate::adapters::http_call::post_streamable;
use crate::adapters::replay::{self, DETAILS, DROPPED, SealingStream};
use crate::seal::ReplayTarget;

use item::{HostedTally, OutputItem, text};
use stream::{ResponsesStream, ResponsesStreamState};

/// The index of the only choice.
const CHOICE: u32 = 0;

/// A response object.
#[derive(Debug, Default, Deserialize)]
struct ResponseObject<'a> {
    #[serde(borrow, default, deserialize_with = "text")]
    status: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    model: Cow<'a, str>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<IncompleteDetails<'a>>,
    #[serde(borrow, default)]
    output: Option<Vec<OutputItem<'a>>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    service_tier: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
struct IncompleteDetails<'a> {
    #[serde(borrow, default, deserialize_with = "text")]
    reason: Cow<'a, str>,
}

impl ResponseObject<'_> {
    /// The failure of a response that failed.
    fn failure(&self) -> Option<Failure> {
        let error = self.error.map(RawValue::get).filter(|error| *error != "null");
        if self.status != "failed" && (self.status == "completed" || error.is_none()) {
            return None;
        }
        let error = error.and_then(|error| serde_json::from_str(error).ok()).unwrap_or(Value::Null);
        Some(reported(&error, FailureKind::StreamBroken))
    }

    /// The finish reason of a response that ended. `has_calls` says whether it calls tools.
    fn finish(&self, has_calls: bool) -> Finish {
        match self.incomplete_details.as_ref().map(|details| &*details.reason) {
            Some("max_output_tokens") => Finish::Length,
            Some("content_filter") => Finish::ContentFilter,
            _ if has_calls => Finish::ToolCalls,
            _ => Finish::Stop,
        }
    }

    /// Whether the response says that it goes on, or that somebody cancelled it.
    fn is_unfinished(&self) -> bool {
        matches!(&*self.status, "queued" | "in_progress" | "cancelled")
    }

    /// The usage with the calls of hosted tools.
    fn used_with_hosted(&self) -> Option<Usage> {
        let mut hosted = HostedTally::default();
        self.output.iter().flatten().for_each(|item| _ = hosted.take(item));
        with_hosted(self.used(), &hosted)
    }

    fn used(&self) -> Option<Usage> {
        let used = self.usage.map(RawValue::get).filter(|used| *used != "null")?;
        usage::read_in_tier(RawText(used), self.service_tier)
    }
}

/// The detail of the failure of a response that ends without a status of an end.
const NOT_FINAL: &str = "the response has no final status";

/// The detail of the failure of a complete response without a list of items.
const NO_OUTPUT: &str = "the response has no output";

/// The shortest answer that the API lets a request ask for, in tokens.
const MIN_OUTPUT_TOKENS: u64 = 16;

/// Encodes the client's own body. None: the body is in another dialect, or the answer must be shorter than the client asks
/// for or than the API allows, which only the translated request can say.
pub(super) fn forward(request: &ChatRequest, client: &ClientRequest, target: &Target<'_>) -> Option<Encoded> {
    let is_own = client.native.dialect == ClientDialect::Responses;
    let is_short = request.max_tokens.is_some_and(|most| most < MIN_OUTPUT_TOKENS);
    if !is_own || is_short || target.max_tokens(request.max_tokens) != request.max_tokens {
        return None;
    }
    // The gateway keeps the responses itself, so the provider does not have to. What the next turn needs, the gateway must
    // get with the answer. Models that do not reason refuse to be asked for it.
    let is_kept_here = client.native.is_kept_here;
    let wants_encrypted = is_kept_here && reasons(request, target);
    let forwarding = Forwarding { model: target.upstream_model, wants_encrypted, ..Forwarding::default() };
    let own = target.replay_target();
    let (mut has_lost, mut has_lost_id) = (false, false);
    let open = |given: Option<&str>| match given {
        None if !is_kept_here => EncryptedContent::Keep,
        given => match given.and_then(|given| own.open_signature(given)) {
            Some(opened) => EncryptedContent::Replace(opened),
            None => {
                has_lost = true;
                EncryptedContent::DropItem
            }
        },
    };
    let call_id = |given: &str| replay::sent_id(given, &own, &mut has_lost_id);
    let body = for_upstream(&client.native, &forwarding, open, call_id);
    let mut encoded = Encoded::plain(post_streamable("/responses", body, request.stream));
    encoded.reading.is_native = true;
    encoded.reading.replay = Some(Arc::new(own));
    encoded.warnings.extend((has_lost || has_lost_id).then_some(Cow::Borrowed(DROPPED)));
    Some(encoded)
}

/// Whether the model reasons about this request.
fn reasons(request: &ChatRequest, target: &Target<'_>) -> bool {
    match request.body.view("reasoning_effort").and_then(View::string) {
        Some(effort) => effort != "none",
        None => target.rules.reasons_unasked(),
    }
}

/// Reads a complete answer. The answer keeps the provider's own document.
///
/// # Errors
/// The body is not a response, or the response failed.
pub(super) fn chat<'a>(body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure> {
    let mut reply = decode(body)?;
    if let Some(target) = &reading.replay {
        replay::seal_reply(&mut reply, target, false);
        reply.native = reply.native.map(|document| Cow::Owned(sealed_items(&document, target)));
    }
    Ok(reply)
}

/// The text of a document or of an event, with the provider's encrypted reasoning sealed.
fn sealed_items(json: &str, target: &ReplayTarget) -> String {
    seal_items(json, |encrypted| target.seal_signature(encrypted))
}

/// A decoder of a stream that the client gets as it is.
pub(super) fn native_stream(reading: &Reading) -> Box<dyn StreamDecoder> {
    let stream = ResponsesStream::new(ResponsesStreamState::sealing(reading.replay.clone()));
    match &reading.replay {
        Some(target) => Box::new(Bounded::new(SealingStream::new(stream, Arc::clone(target), false, false))),
        None => Box::new(Bounded::new(stream)),
    }
}

/// The usage of a response that failed, or that has not ended.
pub(super) fn failed_usage(body: &[u8]) -> Option<Usage> {
    let object: ResponseObject<'_> = serde_json::from_slice(body).ok()?;
    object.used_with_hosted()
}

fn decode(body: &[u8]) -> Result<ChatReply<'_>, Failure> {
    let text = body_text(body)?;
    let object: ResponseObject<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    if let Some(failure) = object.failure() {
        return Err(failure);
    }
    if !matches!(&*object.status, "completed" | "incomplete") {
        return Err(invalid(NOT_FINAL));
    }
    let used = object.used_with_hosted();
    let has_calls = object.output.iter().flatten().any(OutputItem::is_call);
    let finish = object.finish(has_calls);
    let mut choice = ChatChoice { index: CHOICE, finish: Some(finish), ..ChatChoice::default() };
    let mut details = Vec::new();
    for item in object.output.ok_or_else(|| invalid(NO_OUTPUT))? {
        take(item, &mut choice, &mut details);
    }
    if let Some(details) = details_value(&details) {
        choice.extras.push((Cow::Borrowed(DETAILS), Cow::Owned(details)));
    }
    let tier = object.service_tier.map(|tier| (Cow::Borrowed("service_tier"), Cow::Borrowed(tier)));
    Ok(ChatReply {
        model: Some(object.model).filter(|model| !model.is_empty()),
        fingerprint: None,
        choices: vec![choice],
        usage: used,
        members: tier.into_iter().collect(),
        native: Some(Cow::Borrowed(text)),
    })
}

/// The reported usage with the calls of hosted tools, which the provider bills beside the tokens. `seen` are those of the
/// answer's items; the provider's own count replaces them.
fn with_hosted(used: Option<Usage>, seen: &HostedTally) -> Option<Usage> {
    let Some(used) = used else { return seen.estimate() };
    let hosted = if used.hosted.is_none() { seen.calls() } else { used.hosted };
    Some(Usage { hosted, ..used })
}

/// Adds the content of an item to the choice, and its sealed reasoning to the entries.
fn take<'a>(item: OutputItem<'a>, choice: &mut ChatChoice<'a>, details: &mut Vec<String>) {
    if item.is_call() {
        let custom = item.is_custom_call();
        let (name, id) = (item.tool_name(), item.call_id);
        let arguments = if custom { item.input } else { item.arguments };
        choice.tool_calls.push(ToolCall { id, name, arguments, custom });
        return;
    }
    details.extend(item.encrypted_entry());
    let is_reasoning = item.kind == "reasoning";
    for part in item.summary.unwrap_or_default().into_iter().chain(item.content.unwrap_or_default()) {
        let place = match &*part.kind {
            "output_text" | "text" if !is_reasoning => &mut choice.content,
            "refusal" => &mut choice.refusal,
            "summary_text" | "reasoning_text" => &mut choice.reasoning,
            _ => continue,
        };
        append(place, part.into_text());
    }
}

/// Appends a text; the first one is not copied.
fn append<'a>(place: &mut Option<Cow<'a, str>>, text: Cow<'a, str>) {
    match place {
        None => *place = Some(text),
        Some(known) => known.to_mut().push_str(&text),
    }
}

/// The entries of `reasoning_details` as one array.
fn details_value(entries: &[String]) -> Option<Box<RawValue>> {
    if entries.is_empty() {
        return None;
    }
    RawValue::from_string(format!("[{}]", entries.join(","))).ok()
}

#[cfg(test)]
mod tests;
