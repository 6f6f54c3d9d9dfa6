//! The stream of an OpenAI-type upstream, chat or text: one borrowed parse per event, no copy of what it carries.

use std::borrow::Cow;
use std::ops::Range;

use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::Finish;
use gw_wire::sse::{EVENT_CAP, SseDecoder, SseEvent, hold};
use serde_json::Value;

use super::calls::ToolCallTracker;
use super::located::TextLocations;
use super::shape::{FinishReason, OpenAiCall, OpenAiChoice, OpenAiEnvelope, OpenAiMessage};
use super::template::Template;
use super::{repair, usage};
use crate::adapter::{StreamDecoder, work_by_lines};
use crate::adapters::failure::{broken, gave_up, invalid, invalid_json, reported};
use crate::adapters::replay::{DETAILS, Stamps, stamped_id};

type Sink<'s> = &'s mut dyn FnMut(Event<'_>);

/// Decodes one stream.
#[derive(Debug, Default)]
pub(super) struct OpenAiStream {
    sse: SseDecoder,
    body: Body,
    state: OpenAiStreamState,
}

/// What the body turned out to be.
#[derive(Debug, Default)]
enum Body {
    /// Only blanks so far.
    #[default]
    Unknown,
    Events,
    /// The upstream ignored `stream` and answers with one JSON document.
    Document(Vec<u8>),
}

#[derive(Debug, Default)]
struct OpenAiStreamState {
    calls: ToolCallTracker,
    /// The catalogue id that what has to come back is stamped with.
    origin: Option<String>,
    stamps: Stamps,
    template: Template,
    located: TextLocations,
    model_known: bool,
    fingerprint_known: bool,
    tier_known: bool,
    /// Something that means something came.
    begun: bool,
    /// The end or an error was given; what follows is not looked at.
    over: bool,
}

impl OpenAiStream {
    /// Of events of at most so many bytes.
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { sse: SseDecoder::new(most_bytes), ..Self::default() }
    }

    /// Of an upstream whose texts refer to sources.
    pub(super) fn locating() -> Self {
        let located = TextLocations::new();
        Self { state: OpenAiStreamState { located, ..OpenAiStreamState::default() }, ..Self::default() }
    }

    /// Of the model with this catalogue id.
    pub(super) fn of(origin: Option<String>) -> Self {
        Self { state: OpenAiStreamState { origin, ..OpenAiStreamState::default() }, ..Self::default() }
    }
}

impl StreamDecoder for OpenAiStream {
    fn feed(&mut self, chunk: &[u8], sink: Sink<'_>) {
        if self.state.over {
            return;
        }
        if matches!(self.body, Body::Unknown) {
            self.body = match chunk.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => Body::Unknown,
                Some(b'{' | b'[') => Body::Document(Vec::new()),
                Some(_) => Body::Events,
            };
        }
        if let Body::Document(document) = &mut self.body {
            hold(document, chunk, EVENT_CAP);
            if document.len() > EVENT_CAP {
                self.state.fail(invalid("a document instead of a stream, larger than 16 MiB"), sink);
            }
            return;
        }
        let Self { sse, state, .. } = self;
        if let Err(fault) = sse.feed(chunk, &mut |event| state.event(event, false, sink)) {
            state.fail(invalid(fault), sink);
        }
    }

    fn eof(&mut self, sink: Sink<'_>) {
        let Self { sse, state, body } = self;
        if let Body::Document(document) = body {
            state.document(document, sink);
        } else {
            sse.eof(&mut |event| state.event(event, true, sink));
        }
        if !state.begun {
            state.fail(invalid("the body is not an event stream"), sink);
        }
    }

    fn held_bytes(&self) -> usize {
        let body = match &self.body {
            Body::Document(document) => document.capacity(),
            Body::Unknown | Body::Events => self.sse.held_bytes(),
        };
        body.saturating_add(self.state.held_bytes())
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        match &self.body {
            Body::Document(document) => chunk.map_or(document.len(), |_| 0),
            Body::Unknown | Body::Events => work_by_lines(self.sse.pending_bytes(), chunk),
        }
    }
}

impl OpenAiStreamState {
    fn held_bytes(&self) -> usize {
        self.calls.held_bytes() + self.stamps.held_bytes() + self.located.held_bytes()
    }

    fn fail(&mut self, failure: Failure, sink: Sink<'_>) {
        if !std::mem::replace(&mut self.over, true) {
            self.begun = true;
            sink(Event::Error(failure));
        }
    }

    /// `last`: the stream ended in this event, which may be cut off.
    fn event(&mut self, event: SseEvent<'_>, last: bool, sink: Sink<'_>) {
        let data = event.data.trim_ascii();
        if self.over || data.is_empty() {
            return;
        }
        self.begun = true;
        if event.name != b"error"
            && let Some((choice, text)) = self.template.read(data)
        {
            self.located.text(choice, text, None);
            sink(Event::Text { choice, text: Cow::Borrowed(text), logprobs: None });
            return;
        }
        if data == b"[DONE]" {
            self.over = true;
            sink(Event::End);
            return;
        }
        let Ok(text) = std::str::from_utf8(data) else {
            self.fail(invalid("an event of the stream is not UTF-8"), sink);
            return;
        };
        if event.name == b"error" {
            let error = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
            self.fail(reported(&error, FailureKind::StreamBroken), sink);
            return;
        }
        match serde_json::from_str::<OpenAiEnvelope<'_>>(text) {
            Ok(envelope) => {
                let mut carried = Carried::Nothing;
                self.envelope(envelope, text, &mut |event| {
                    carried = match (&event, &carried) {
                        (
                            Event::Text { choice, text: Cow::Borrowed(piece), logprobs: None },
                            Carried::Nothing,
                        ) => {
                            let start = offset(text, piece);
                            Carried::Text { choice: *choice, place: start..start.saturating_add(piece.len()) }
                        }
                        _ => Carried::More,
                    };
                    sink(event);
                });
                if let Carried::Text { choice, place } = carried {
                    self.template.learn(text, choice, place);
                }
            }
            Err(_) => self.odd_event(text, last, sink),
        }
    }

    /// Not one JSON object: several in a row, bare NaN in it, or no JSON at all.
    #[cold]
    fn odd_event(&mut self, text: &str, last: bool, sink: Sink<'_>) {
        let repaired = repair::without_bare_words(text);
        let text = repaired.as_deref().unwrap_or(text);
        for envelope in serde_json::Deserializer::from_str(text).into_iter::<OpenAiEnvelope<'_>>() {
            match envelope {
                Ok(envelope) if !self.over => self.envelope(envelope, text, sink),
                Ok(_) => return,
                Err(_) if last => {
                    return self.fail(broken("The upstream's stream ended in the middle of an event."), sink);
                }
                Err(fault) => return self.fail(not_json(&fault), sink),
            }
        }
    }

    fn document(&mut self, document: &[u8], sink: Sink<'_>) {
        let Ok(text) = std::str::from_utf8(document) else { return };
        let Ok(envelope) = serde_json::from_str::<OpenAiEnvelope<'_>>(text) else { return };
        if envelope.is_error() || envelope.choices.is_some() {
            self.begun = true;
            self.envelope(envelope, text, sink);
            if !std::mem::replace(&mut self.over, true) {
                sink(Event::End);
            }
        }
    }

    /// `text` is the JSON that the envelope was read from, for errors, which have no fixed shape.
    fn envelope(&mut self, mut envelope: OpenAiEnvelope<'_>, text: &str, sink: Sink<'_>) {
        if envelope.is_error() {
            let error = serde_json::from_str(text).unwrap_or(Value::Null);
            self.fail(reported(&error, FailureKind::StreamBroken), sink);
            return;
        }
        self.start(&mut envelope, sink);
        for (name, value) in envelope.members() {
            // Told in every chunk, and always the same.
            if name != "service_tier" || !std::mem::replace(&mut self.tier_known, true) {
                sink(Event::Member { name, value });
            }
        }
        let mut used = envelope.usage_text();
        for (position, choice) in envelope.choices.unwrap_or_default().into_iter().enumerate() {
            used = used.or(choice.usage);
            self.choice(choice, position, sink);
            if self.over {
                return;
            }
        }
        if let Some(used) = used.and_then(usage::read) {
            sink(Event::Usage(used));
        }
    }

    /// Tells the model and the fingerprint once each.
    fn start(&mut self, envelope: &mut OpenAiEnvelope<'_>, sink: Sink<'_>) {
        if self.model_known && self.fingerprint_known {
            return;
        }
        let known = |text: &super::lenient::LenientText<'_>| !text.0.is_empty();
        let model = envelope.model.take().filter(|text| !self.model_known && known(text));
        let fingerprint = envelope.fingerprint.take().filter(|text| !self.fingerprint_known && known(text));
        if model.is_some() || fingerprint.is_some() {
            self.model_known |= model.is_some();
            self.fingerprint_known |= fingerprint.is_some();
            sink(Event::Start {
                model: model.map(|text| text.0),
                fingerprint: fingerprint.map(|text| text.0),
            });
        }
    }

    fn choice(&mut self, mut choice: OpenAiChoice<'_>, position: usize, sink: Sink<'_>) {
        let given = choice.index.and_then(|index| index.0);
        let index = given.unwrap_or_else(|| u32::try_from(position).unwrap_or(u32::MAX));
        let finish_kind = choice.finish_kind();
        // A `message` beside deltas repeats them (MiniMax); without any delta it is the answer.
        let mut message =
            choice.delta.take().or_else(|| choice.message.take().map(|message| *message)).unwrap_or_default();
        if let Some(content) = &message.content {
            self.located.text(index, &content.0, content.2.as_deref());
        }
        for (is_thought, text) in message.take_parts().unwrap_or_default() {
            let text = Cow::Owned(text);
            sink(match is_thought {
                true => Event::Reasoning { choice: index, text },
                // They are those of all texts of the chunk.
                false => Event::Text { choice: index, text, logprobs: choice.logprobs.take() },
            });
        }
        if let Some(text) = message.take_reasoning() {
            sink(Event::Reasoning { choice: index, text });
        }
        let content = message.content.take().map(|content| content.0).filter(|text| !text.is_empty());
        let text = content.or_else(|| choice.text.take().map(|text| text.0)).unwrap_or_default();
        if !text.is_empty() || choice.logprobs.is_some() {
            sink(Event::Text { choice: index, text, logprobs: choice.logprobs });
        }
        self.message(index, message, sink);
        if matches!(finish_kind, Some(FinishReason::Known(_) | FinishReason::Unknown)) {
            self.located.tell(index, sink);
        }
        match finish_kind {
            None => {}
            Some(FinishReason::Failed) => {
                self.fail(gave_up(choice.finish_reason.as_ref().map_or("error", |reason| &reason.0)), sink)
            }
            Some(FinishReason::Known(reason)) => sink(Event::Finish { choice: index, reason }),
            Some(FinishReason::Unknown) => {
                let reason = if self.calls.any(index) { Finish::ToolCalls } else { Finish::Stop };
                sink(Event::Finish { choice: index, reason });
            }
        }
    }

    /// The rarer members of a delta.
    fn message(&mut self, choice: u32, message: OpenAiMessage<'_>, sink: Sink<'_>) {
        if let Some(refusal) = message.refusal.filter(|text| !text.0.is_empty()) {
            sink(Event::Refusal { choice, text: refusal.0 });
        }
        if let Some(call) = message.function_call {
            let name = call.name.map(|name| name.0).filter(|text| !text.is_empty());
            let arguments = call.arguments.map(|text| text.0).filter(|text| !text.is_empty());
            if name.is_some() || arguments.is_some() {
                sink(Event::FunctionCall { choice, name, arguments });
            }
        }
        if let Some(pieces) = message.tool_calls
            && !self.take_calls(choice, pieces, sink)
        {
            self.fail(invalid("too many tool calls"), sink);
        }
        for (name, value) in &message.extras {
            let origin = self.origin.as_deref().filter(|_| *name == DETAILS);
            let stamped = origin.and_then(|origin| self.stamps.stamp(choice, value, origin));
            sink(Event::Extra { choice, name, value: stamped.as_deref().unwrap_or(value) });
        }
    }

    /// Events of the pieces of calls. False: there are too many calls.
    fn take_calls(&mut self, choice: u32, pieces: Vec<OpenAiCall<'_>>, sink: Sink<'_>) -> bool {
        let Some(origin) = &self.origin else { return self.calls.take(choice, pieces, sink) };
        self.calls.take(choice, pieces, &mut |event| match event {
            Event::ToolStart { choice, call, id, name } => {
                let id = stamped_id(&id, origin).map_or(id, Cow::Owned);
                sink(Event::ToolStart { choice, call, id, name });
            }
            other => sink(other),
        })
    }
}

/// What an event turned out to carry.
enum Carried {
    Nothing,
    /// One text, at this place of the event, and nothing else.
    Text {
        choice: u32,
        place: Range<usize>,
    },
    More,
}

/// Where `piece`, a slice of `text`, begins in it.
fn offset(text: &str, piece: &str) -> usize {
    (piece.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize)
}

fn not_json(fault: &serde_json::Error) -> Failure {
    let mut failure = invalid_json(fault);
    "The upstream provider sent an event that is not JSON of the expected kind."
        .clone_into(&mut failure.message);
    failure
}

#[cfg(test)]
mod tests;
