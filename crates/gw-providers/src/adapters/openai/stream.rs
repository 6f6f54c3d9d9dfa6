//! Streams of OpenAI's dialect, chat and text. Each event is parsed once, and its texts are not copied.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use gw_wire::event::{Event, thought_bytes};
use gw_wire::failure::Failure;
use gw_wire::json::View;
use gw_wire::reply::{Finish, STOP_SEQUENCE};
use gw_wire::usage::Usage;
use gw_wire::utf8;
use serde_json::Value;

use super::calls::ToolCallTracker;
use super::located::TextLocations;
use super::split_pairs::HeldEvent;
use super::wire::{FinishReason, OpenAiChoice, OpenAiEnvelope, OpenAiMessage};
use super::{quick, repair, usage};
use crate::adapters::failure::{cut_event, gave_up, invalid, invalid_event, reported};
use crate::adapters::replay::DETAILS;
use crate::adapters::sse_adapter::{
    EventSink, Framing, SseAdapter, StreamProgress, StreamState, UpstreamEvent,
};
use crate::adapters::template::{Template, place_of};
use crate::adapters::written::report;

/// Approximate memory of a choice in the set of choices with a legacy call.
const LEGACY_BYTES: usize = 16;

/// Decodes one stream.
pub(super) type OpenAiStream = SseAdapter<OpenAiStreamState>;

#[derive(Debug, Default)]
pub(super) struct OpenAiStreamState {
    progress: StreamProgress,
    calls: ToolCallTracker,
    /// The choices with a call in OpenAI's older form.
    legacy: HashSet<u32>,
    template: Template,
    /// The last event, which waits for the other half of its last character.
    held: Option<Box<HeldEvent>>,
    located: TextLocations,
    is_model_known: bool,
    is_fingerprint_known: bool,
    is_tier_known: bool,
    /// The chunks name a service tier with a price of its own.
    has_other_tier: bool,
}

impl OpenAiStream {
    /// A decoder for an upstream whose texts refer to sources.
    pub(super) fn locating() -> Self {
        Self::new(OpenAiStreamState { located: TextLocations::new(), ..OpenAiStreamState::default() })
    }
}

impl StreamState for OpenAiStreamState {
    fn framing(first: u8) -> Framing {
        if matches!(first, b'{' | b'[') { Framing::Document } else { Framing::Events }
    }

    fn progress(&mut self) -> &mut StreamProgress {
        &mut self.progress
    }

    fn event(&mut self, event: UpstreamEvent<'_>, sink: EventSink<'_>) {
        let UpstreamEvent { name, data, is_last, .. } = event;
        if self.held.is_some() {
            return self.after_half(event, sink);
        }
        if name != b"error"
            && let Some((choice, text)) = self.template.read(data)
        {
            self.located.text(choice, text, None);
            sink(Event::Text { choice, text: Cow::Borrowed(text), logprobs: None });
            return;
        }
        if data == b"[DONE]" {
            self.calls.start_all_nameless(sink);
            return self.progress.end(sink);
        }
        let Ok(text) = utf8::text(data) else {
            return self.fail(invalid("an event of the stream is not UTF-8"), sink);
        };
        if name == b"error" {
            let error = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
            return self.fail(reported(&error, self.progress.error_kind()), sink);
        }
        let Some(envelope) = quick::envelope(text) else {
            match HeldEvent::of(text).filter(|_| !is_last) {
                Some(held) => self.held = Some(Box::new(held)),
                None => self.unusual(text, is_last, sink),
            }
            return;
        };
        self.read(envelope, text, sink);
    }

    fn finish(&mut self, sink: EventSink<'_>) {
        if let Some(held) = self.held.take() {
            self.unusual(&held.into_text(), false, sink);
        }
    }

    fn document(&mut self, document: &[u8], sink: EventSink<'_>) {
        let Ok(text) = utf8::text(document) else { return };
        let Ok(envelope) = serde_json::from_str::<OpenAiEnvelope<'_>>(text) else { return };
        if envelope.is_error() || envelope.choices.is_some() {
            self.progress.has_begun = true;
            self.envelope(envelope, text, sink);
            self.progress.end(sink);
        }
    }

    fn held_bytes(&self) -> usize {
        let held = self.held.as_ref().map_or(0, |held| held.held_bytes());
        self.calls.held_bytes() + self.located.held_bytes() + self.legacy.len() * LEGACY_BYTES + held
    }
}

impl OpenAiStreamState {
    fn fail(&mut self, failure: Failure, sink: EventSink<'_>) {
        self.progress.fail(failure, sink);
    }

    /// Reads an event, and learns its form if it holds a text alone.
    #[inline]
    fn read(&mut self, envelope: OpenAiEnvelope<'_>, text: &str, sink: EventSink<'_>) {
        let mut carried = Carried::Nothing;
        self.envelope(envelope, text, &mut |event| {
            carried = match (&event, &carried) {
                (Event::Text { choice, text: Cow::Borrowed(piece), logprobs: None }, Carried::Nothing) => {
                    Carried::Text { choice: *choice, place: place_of(text.as_bytes(), piece) }
                }
                _ => Carried::More,
            };
            sink(event);
        });
        if let Carried::Text { choice, place } = carried {
            self.template.learn(text.as_bytes(), choice, place);
        }
    }

    /// Reads an event that the fast reader does not read.
    #[cold]
    fn unusual(&mut self, text: &str, is_last: bool, sink: EventSink<'_>) {
        match serde_json::from_str(text) {
            Ok(envelope) => self.read(envelope, text, sink),
            Err(_) => self.odd_event(text, is_last, sink),
        }
    }

    /// Reads the event after one that ends with half of a character, and before it that one.
    #[cold]
    fn after_half(&mut self, event: UpstreamEvent<'_>, sink: EventSink<'_>) {
        let Some(held) = self.held.take() else { return };
        let next = utf8::text(event.data).ok().filter(|_| event.name != b"error");
        match next.and_then(|next| held.join(next)) {
            Some((whole, rest)) => {
                self.unusual(&whole, false, sink);
                if !self.progress.is_over {
                    self.event(UpstreamEvent { data: rest.as_bytes(), ..event }, sink);
                }
            }
            None => {
                self.unusual(&held.into_text(), false, sink);
                if !self.progress.is_over {
                    self.event(event, sink);
                }
            }
        }
    }

    /// Reads an event that is not one JSON object: several objects, bare NaN, or no JSON.
    #[cold]
    fn odd_event(&mut self, text: &str, last: bool, sink: EventSink<'_>) {
        let repaired = repair::without_bare_words(text);
        let text = repaired.as_deref().unwrap_or(text);
        for envelope in serde_json::Deserializer::from_str(text).into_iter::<OpenAiEnvelope<'_>>() {
            match envelope {
                Ok(envelope) if !self.progress.is_over => self.envelope(envelope, text, sink),
                Ok(_) => return,
                Err(_) if last => {
                    return self.fail(cut_event(), sink);
                }
                Err(fault) => return self.fail(invalid_event(&fault), sink),
            }
        }
    }

    /// `text` is the JSON of the envelope. It is read again for errors, which have no fixed format.
    fn envelope(&mut self, mut envelope: OpenAiEnvelope<'_>, text: &str, sink: EventSink<'_>) {
        if envelope.is_error() {
            let error = serde_json::from_str(text).unwrap_or(Value::Null);
            self.fail(reported(&error, self.progress.error_kind()), sink);
            return;
        }
        self.start(&mut envelope, sink);
        self.has_other_tier |= envelope.service_tier.is_some_and(usage::names_other_tier);
        for (name, value) in envelope.members() {
            // Every chunk repeats the tier.
            if name != "service_tier" || !std::mem::replace(&mut self.is_tier_known, true) {
                sink(Event::Member { name, value });
            }
        }
        let mut used = envelope.usage_text();
        for (position, choice) in envelope.choices.unwrap_or_default().into_iter().enumerate() {
            used = used.or(choice.usage);
            self.choice(choice, position, sink);
            if self.progress.is_over {
                return;
            }
        }
        if let Some(used) = used.and_then(usage::read) {
            sink(Event::Usage(Usage { has_unpriced: used.has_unpriced || self.has_other_tier, ..used }));
            self.progress.report_given_up(sink);
        }
    }

    /// Reports the model and the fingerprint once each.
    fn start(&mut self, envelope: &mut OpenAiEnvelope<'_>, sink: EventSink<'_>) {
        if self.is_model_known && self.is_fingerprint_known {
            return;
        }
        let known = |text: &super::lenient::LenientText<'_>| !text.0.is_empty();
        let model = envelope.model.take().filter(|text| !self.is_model_known && known(text));
        let fingerprint = if self.is_fingerprint_known { None } else { envelope.take_fingerprint() };
        if model.is_some() || fingerprint.is_some() {
            self.is_model_known |= model.is_some();
            self.is_fingerprint_known |= fingerprint.is_some();
            sink(Event::Start { model: model.map(|text| text.0), fingerprint });
        }
    }

    fn choice(&mut self, mut choice: OpenAiChoice<'_>, position: usize, sink: EventSink<'_>) {
        let given = choice.index.and_then(|index| index.0);
        let index = given.unwrap_or_else(|| u32::try_from(position).unwrap_or(u32::MAX));
        let finish_kind = choice.finish_kind();
        if let Some(value) = choice.stop_sequence() {
            sink(Event::Member { name: STOP_SEQUENCE, value });
        }
        // MiniMax repeats the deltas in a `message`. Without deltas the `message` is the answer.
        let mut message =
            choice.delta.take().or_else(|| choice.message.take().map(|message| *message)).unwrap_or_default();
        if let Some(content) = &message.content {
            self.located.text(index, &content.0, content.2.as_deref());
        }
        for (is_thought, text) in message.take_parts().unwrap_or_default() {
            let text = Cow::Owned(text);
            sink(match is_thought {
                true => Event::Reasoning { choice: index, text },
                // The log probabilities belong to all texts of the chunk together.
                false => Event::Text { choice: index, text, logprobs: choice.logprobs.take() },
            });
        }
        if let Some(text) = message.take_reasoning() {
            sink(Event::Reasoning { choice: index, text });
        } else {
            // Some servers have the thoughts in this list alone.
            let details = message.extras.iter().filter(|(name, _)| *name == DETAILS);
            details.for_each(|(_, value)| report(thought_bytes(View::new(value.get())), sink));
        }
        let content = message.content.take().map(|content| content.0).filter(|text| !text.is_empty());
        let text = content.or_else(|| choice.text.take().map(|text| text.0)).unwrap_or_default();
        if !text.is_empty() || choice.logprobs.is_some() {
            sink(Event::Text { choice: index, text, logprobs: choice.logprobs });
        }
        self.message(index, message, sink);
        if matches!(finish_kind, Some(FinishReason::Known(_) | FinishReason::Unknown)) {
            self.calls.start_nameless(index, sink);
            self.located.report(index, sink);
        }
        if let Some(failure) = choice.failure(self.progress.error_kind()) {
            self.progress.give_up(failure);
        }
        match finish_kind.filter(|_| !self.progress.has_given_up()) {
            None => {}
            Some(FinishReason::Failed) => {
                let reason = choice.finish_reason.as_ref().map_or("error", |reason| &reason.0);
                self.progress.give_up(gave_up(reason));
            }
            Some(FinishReason::Known(reason)) => sink(Event::Finish { choice: index, reason }),
            Some(FinishReason::Unknown) => {
                let reason = match (self.calls.any(index), self.legacy.contains(&index)) {
                    (true, _) => Finish::ToolCalls,
                    (false, true) => Finish::FunctionCall,
                    (false, false) => Finish::Stop,
                };
                sink(Event::Finish { choice: index, reason });
            }
        }
    }

    /// Reads the rarer members of a delta.
    fn message(&mut self, choice: u32, message: OpenAiMessage<'_>, sink: EventSink<'_>) {
        if let Some(refusal) = message.refusal.filter(|text| !text.0.is_empty()) {
            sink(Event::Refusal { choice, text: refusal.0 });
        }
        if let Some(call) = message.function_call {
            let name = call.name.map(|name| name.0).filter(|text| !text.is_empty());
            let arguments = call.arguments.map(|text| text.0).filter(|text| !text.is_empty());
            if name.is_some() || arguments.is_some() {
                self.legacy.insert(choice);
                sink(Event::FunctionCall { choice, name, arguments });
            }
        }
        if let Some(pieces) = message.tool_calls
            && !self.calls.take(choice, pieces, sink)
        {
            self.fail(invalid("too many tool calls"), sink);
        }
        for (name, value) in &message.extras {
            sink(Event::Extra { choice, name, value });
        }
    }
}

/// The content of an event.
enum Carried {
    Nothing,
    /// Only one text, at this position of the event.
    Text {
        choice: u32,
        place: Range<usize>,
    },
    More,
}

#[cfg(test)]
mod tests;
