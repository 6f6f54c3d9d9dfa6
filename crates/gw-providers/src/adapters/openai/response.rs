//! Complete answers in OpenAI's dialect, chat and text, read without copying their texts.

use std::borrow::Cow;
use std::collections::HashSet;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::{ChatChoice, ChatReply, Finish, STOP_SEQUENCE, TextChoice, TextReply, ToolCall};
use serde_json::Value;

use super::lenient::Reference;
use super::wire::{
    FinishReason, OpenAiCall, OpenAiChoice, OpenAiChoices, OpenAiEnvelope, OpenAiFunction, OpenAiMessage,
};
use super::{quick, repair, usage};
use crate::adapters::annotations::{Annotations, CitedSource};
use crate::adapters::failure::{body_text, gave_up, invalid, invalid_json, reported};

/// Reads a chat answer.
pub(super) fn chat(body: &[u8]) -> Result<ChatReply<'_>, Failure> {
    let text = body_text(body)?;
    let mut envelope = None;
    if quick::envelope_into(text, &mut envelope)
        && let Some(envelope) = &mut envelope
    {
        return chat_reply(envelope, text);
    }
    match serde_json::from_str(text) {
        Ok(mut envelope) => chat_reply(&mut envelope, text),
        Err(fault) => {
            let repaired = repair::without_bare_words(text).ok_or_else(|| invalid_json(&fault))?;
            let mut envelope = serde_json::from_str(&repaired).map_err(|fault| invalid_json(&fault))?;
            chat_reply(&mut envelope, &repaired).map(own_chat)
        }
    }
}

/// Reads a text completion.
pub(super) fn completion(body: &[u8]) -> Result<TextReply<'_>, Failure> {
    let text = body_text(body)?;
    match quick::envelope(text).map_or_else(|| serde_json::from_str(text), Ok) {
        Ok(envelope) => text_reply(envelope, text),
        Err(fault) => {
            let repaired = repair::without_bare_words(text).ok_or_else(|| invalid_json(&fault))?;
            let envelope = serde_json::from_str(&repaired).map_err(|fault| invalid_json(&fault))?;
            text_reply(envelope, &repaired).map(own_text)
        }
    }
}

/// The choices of an answer; a failure when the envelope is an error.
fn choices<'e, 'a>(
    envelope: &'e mut OpenAiEnvelope<'a>,
    text: &str,
) -> Result<&'e mut OpenAiChoices<'a>, Failure> {
    if envelope.is_error() {
        let error = serde_json::from_str(text).unwrap_or(Value::Null);
        return Err(reported(&error, FailureKind::Server));
    }
    envelope.choices.as_mut().ok_or_else(|| invalid("the body has no choices"))
}

fn chat_reply<'a>(envelope: &mut OpenAiEnvelope<'a>, text: &str) -> Result<ChatReply<'a>, Failure> {
    let mut indices = Indices::default();
    let (mut read, mut stop, mut used) = (Vec::with_capacity(1), None, None);
    // A choice is large, so its parts are taken where it is.
    for choice in choices(envelope, text)?.iter_mut() {
        used = used.or(choice.usage);
        stop = stop.or(choice.stop_sequence());
        let finish = finish(choice)?;
        read.push(chat_choice(indices.next(choice), choice, finish));
    }
    let used = envelope.usage_text().or(used);
    let members = envelope.members().map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value)));
    let fingerprint = envelope.take_fingerprint();
    Ok(ChatReply {
        model: envelope.model.take().map(|text| text.0).filter(|text| !text.is_empty()),
        fingerprint,
        choices: read,
        usage: used.and_then(|used| usage::read_in_tier(used, envelope.service_tier)),
        members: members.chain(stop.map(|stop| (STOP_SEQUENCE.into(), Cow::Borrowed(stop)))).collect(),
        native: None,
    })
}

fn chat_choice<'a>(index: u32, choice: &mut OpenAiChoice<'a>, finish: Option<Finish>) -> ChatChoice<'a> {
    let (mut none, text) = (None, choice.text.take());
    let message = match (choice.message.as_deref_mut(), choice.delta.as_mut()) {
        (Some(message), _) | (None, Some(message)) => message,
        (None, None) => none.insert(OpenAiMessage::default()),
    };
    let reasoning = message.take_reasoning();
    let references = message.content.as_mut().and_then(|content| content.2.take());
    let mut read = ChatChoice {
        index,
        content: message.content.take().map(|content| content.0).or_else(|| text.map(|text| text.0)),
        reasoning,
        refusal: message.refusal.take().map(|text| text.0).filter(|text| !text.is_empty()),
        tool_calls: message.tool_calls.take().unwrap_or_default().into_iter().filter_map(tool_call).collect(),
        function_call: message
            .function_call
            .take()
            .map(|call| name_and_arguments(*call))
            .filter(|(name, _)| !name.is_empty()),
        // Images of this dialect are among the extras.
        images: Vec::new(),
        extras: std::mem::take(&mut message.extras)
            .into_iter()
            .map(|(name, value)| (name, Cow::Borrowed(value)))
            .collect(),
        logprobs: choice.logprobs.map(Cow::Borrowed),
        finish,
    };
    if let Some(references) = references {
        let mut annotations = Annotations::default();
        references.iter().for_each(|reference| add_reference(reference, 0, &mut annotations));
        annotations.add_to(&mut read);
    }
    read
}

/// Adds a reference of a piece of text. `base` is the character at which the piece begins.
pub(super) fn add_reference(reference: &Reference, base: u64, annotations: &mut Annotations) {
    let at = base + reference.at;
    annotations.add(
        &CitedSource { id: Some(Cow::Borrowed(&*reference.id)), ..CitedSource::default() },
        at,
        at,
    );
}

/// Converts a call. A call without a function is dropped. The input of a custom tool replaces the arguments.
fn tool_call(mut call: OpenAiCall<'_>) -> Option<ToolCall<'_>> {
    let id = call.take_id();
    let custom = call.function.is_none();
    let (name, arguments) = name_and_arguments(call.function.or(call.custom)?);
    Some(ToolCall { id, name, arguments, custom })
}

fn name_and_arguments(called: OpenAiFunction<'_>) -> (Cow<'_, str>, Cow<'_, str>) {
    (called.name.unwrap_or_default().0, called.arguments.or(called.input).unwrap_or_default().0)
}

fn text_reply<'a>(mut envelope: OpenAiEnvelope<'a>, text: &str) -> Result<TextReply<'a>, Failure> {
    let (mut indices, mut read, mut used) = (Indices::default(), Vec::new(), None);
    for choice in choices(&mut envelope, text)?.iter_mut() {
        used = used.or(choice.usage);
        let (index, finish) = (indices.next(choice), finish(choice)?);
        let text = choice.text.take().map(|text| text.0);
        let content = || choice.message.as_mut()?.content.take().map(|content| content.0);
        let text = text.or_else(content).unwrap_or_default();
        read.push(TextChoice { index, text, logprobs: choice.logprobs.map(Cow::Borrowed), finish });
    }
    let used = envelope.usage_text().or(used);
    Ok(TextReply {
        model: envelope.model.map(|text| text.0).filter(|text| !text.is_empty()),
        choices: read,
        usage: used.and_then(|used| usage::read_in_tier(used, envelope.service_tier)),
    })
}

fn finish(choice: &OpenAiChoice<'_>) -> Result<Option<Finish>, Failure> {
    choice.failure(FailureKind::Server).map_or(Ok(()), Err)?;
    match choice.finish_kind() {
        Some(FinishReason::Known(finish)) => Ok(Some(finish)),
        Some(FinishReason::Unknown) | None => Ok(None),
        Some(FinishReason::Failed) => {
            Err(gave_up(choice.finish_reason.as_ref().map_or("error", |reason| &reason.0)))
        }
    }
}

/// The index of each choice: the upstream's, or the position when it is missing. Behind a missing one, a repeated index gives way to its
/// position, too: such an upstream counts nothing.
#[derive(Default)]
struct Indices {
    /// Empty while every index equals its position, which is usual.
    seen: HashSet<u32>,
    position: u32,
    is_any_missing: bool,
}

impl Indices {
    fn next(&mut self, choice: &OpenAiChoice<'_>) -> u32 {
        let position = self.position;
        self.position += 1;
        let own = choice.index.and_then(|index| index.0);
        self.is_any_missing |= own.is_none();
        if self.seen.is_empty() {
            if own.is_none_or(|own| own == position) {
                return position;
            }
            self.seen.extend(0..position);
        }
        let is_new = |index: &u32| !self.is_any_missing || !self.seen.contains(index);
        let index = own.filter(is_new).unwrap_or(position);
        self.seen.insert(index);
        index
    }
}

/// An owned copy of a reply. Raw members cannot be owned and are dropped. Only replies that had to be repaired are
/// copied.
fn own_chat(reply: ChatReply<'_>) -> ChatReply<'static> {
    let choices = reply.choices.into_iter().map(|choice| ChatChoice {
        index: choice.index,
        content: choice.content.map(own),
        reasoning: choice.reasoning.map(own),
        refusal: choice.refusal.map(own),
        tool_calls: choice
            .tool_calls
            .into_iter()
            .map(|call| ToolCall {
                id: own(call.id),
                name: own(call.name),
                arguments: own(call.arguments),
                custom: call.custom,
            })
            .collect(),
        function_call: choice.function_call.map(|(name, arguments)| (own(name), own(arguments))),
        images: Vec::new(),
        extras: Vec::new(),
        logprobs: None,
        finish: choice.finish,
    });
    ChatReply {
        model: reply.model.map(own),
        fingerprint: reply.fingerprint.map(own),
        choices: choices.collect(),
        usage: reply.usage,
        members: Vec::new(),
        native: None,
    }
}

/// An owned copy, like [`own_chat`].
fn own_text(reply: TextReply<'_>) -> TextReply<'static> {
    let choices = reply.choices.into_iter().map(|choice| TextChoice {
        index: choice.index,
        text: own(choice.text),
        logprobs: None,
        finish: choice.finish,
    });
    TextReply { model: reply.model.map(own), choices: choices.collect(), usage: reply.usage }
}

fn own(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

#[cfg(test)]
mod tests;
