//! Streams that several requests share. The normaliser counts and checks, and writes a log of the events
//! ([`crate::event::log`]). Each request reads the log with a normaliser of its own, which writes its client's stream.

use std::borrow::Cow;

use super::legacy::LegacyCalls;
use super::{Normaliser, Opening, Shape};
use crate::dialects::{AnswerEncoder, ClientDialect};
use crate::event::{Event, log};
use crate::render::{made_tool_id, text_finish};
use crate::reply::METADATA;

/// The stream of the client that pays for a recorded answer, as far as it tells whether the client can read it.
#[derive(Debug)]
pub(super) struct LeaderReading {
    encoder: Box<dyn AnswerEncoder>,
    legacy: LegacyCalls,
    out: Vec<u8>,
}

impl LeaderReading {
    /// Only the Messages API has answers that it cannot carry: calls of tools that are no JSON.
    fn of(opening: &Opening) -> Option<Self> {
        let form = opening.form.as_ref().filter(|form| form.dialect() == ClientDialect::Messages);
        let encoder = form.and_then(|_| opening.encoder())?;
        Some(Self { encoder, legacy: LegacyCalls::default(), out: Vec::new() })
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.encoder.held_bytes() + self.legacy.held_bytes() + self.out.capacity()
    }

    /// Readers get the content of an event, and no frames of the upstream.
    fn accept(&mut self, event: &Event<'_>) {
        if !matches!(event, Event::Frame { .. }) {
            self.out.clear();
            let Self { encoder, legacy, out } = self;
            legacy.pass(event, |event| encoder.accept(event, out));
        }
    }
}

impl Normaliser {
    /// A normaliser that writes a log of the events, and nothing for a client.
    #[must_use]
    pub fn recording(opening: Opening) -> Self {
        let reading = LeaderReading::of(&opening).map(Box::new);
        Self { is_recording: true, reading, ..Self::new(Opening { form: None, ..opening }) }
    }

    /// Whether the client that pays for the recorded answer gets an error, because its dialect cannot carry the answer.
    #[must_use]
    pub fn is_unreadable_for_leader(&self) -> bool {
        let finish = self.choices.first().and_then(|choice| choice.finish);
        self.reading.as_ref().is_some_and(|reading| reading.encoder.fault(finish).is_some())
    }

    /// Whether it writes a log of the events.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// Consumes an event. Only content is written at once, because output counts as a sign of life of the upstream.
    pub(super) fn accept_recorded(&mut self, event: Event<'_>, out: &mut Vec<u8>) {
        if let Some(reading) = &mut self.reading {
            reading.accept(&event);
        }
        let is_chat = self.opening.shape == Shape::Chat;
        let choice = match &event {
            Event::Text { choice, text, logprobs } if !text.is_empty() || logprobs.is_some() => *choice,
            Event::Reasoning { choice, text } | Event::Refusal { choice, text }
                if is_chat && !text.is_empty() =>
            {
                *choice
            }
            Event::ToolArgs { choice, call, fragment } if is_chat && !fragment.is_empty() => {
                let state = self.choices.get(*choice as usize);
                if state.and_then(|state| state.position(*call)).is_none() {
                    return;
                }
                *choice
            }
            Event::ToolStart { choice, .. }
            | Event::CustomStart { choice, .. }
            | Event::FunctionCall { choice, .. }
            | Event::Image { choice, .. }
            | Event::Extra { choice, .. }
                if is_chat =>
            {
                *choice
            }
            _ => return self.note(event, out),
        };
        if !self.open_recorded(choice, out) {
            return;
        }
        match event {
            Event::ToolStart { call, id, name, .. } => {
                if let Some(id) = self.record_tool(choice, call, id, false) {
                    log::write(&Event::ToolStart { choice, call, id, name }, out);
                }
            }
            Event::CustomStart { call, id, name, .. } => {
                if let Some(id) = self.record_tool(choice, call, id, true) {
                    log::write(&Event::CustomStart { choice, call, id, name }, out);
                }
            }
            Event::FunctionCall { name, arguments, .. } => {
                let piece = self.register_function(choice, name.as_deref(), arguments.as_deref());
                if let Some((name, arguments)) = piece {
                    let (name, arguments) = (name.map(Cow::Borrowed), arguments.map(Cow::Borrowed));
                    log::write(&Event::FunctionCall { choice, name, arguments }, out);
                }
            }
            content => log::write(&content, out),
        }
    }

    /// Notes an event without content. The readers need the last state of these only.
    fn note(&mut self, event: Event<'_>, out: &mut Vec<u8>) {
        match event {
            Event::Start { model, .. } => {
                let is_early = !self.has_content && !self.is_continuation;
                if let Some(model) = model.filter(|name| is_early && !name.is_empty()) {
                    self.opening.model = model.into_owned();
                }
            }
            Event::Finish { choice, reason } => {
                let is_new = choice as usize >= self.choices.len();
                if self.open_recorded(choice, out)
                    && let Some(state) = self.choices.get_mut(choice as usize)
                {
                    state.finish = Some(reason);
                    if is_new {
                        self.record_finish(choice, out);
                    }
                }
            }
            Event::Member { name, value } => self.member(name, value),
            Event::Usage(usage) => self.usage = Some(usage.after(self.usage)),
            Event::Error(failure) => self.failure = Some(failure),
            Event::End => self.end_of_stream(),
            // Written at once, because readers that end early count it, too.
            Event::Written { .. } => {
                self.signs_of_work += 1;
                log::write(&event, out);
            }
            Event::Frame { .. }
            | Event::Sound(_)
            | Event::Text { .. }
            | Event::Reasoning { .. }
            | Event::Refusal { .. }
            | Event::ToolStart { .. }
            | Event::CustomStart { .. }
            | Event::ToolArgs { .. }
            | Event::FunctionCall { .. }
            | Event::Image { .. }
            | Event::Extra { .. } => {}
        }
    }

    /// Opens this choice and all before it. The first content follows the model's name and the usage so far.
    fn open_recorded(&mut self, choice: u32, out: &mut Vec<u8>) -> bool {
        if self.mark_begun(choice) {
            return true;
        }
        if choice >= self.opening.choices {
            return self.refuse_choice();
        }
        if !self.has_content && !self.is_continuation {
            let model = Some(Cow::Borrowed(self.opening.model.as_str()));
            log::write(&Event::Start { model, fingerprint: None }, out);
            if let Some(usage) = self.usage {
                log::write(&Event::Usage(usage), out);
            }
        }
        self.has_content = true;
        self.add_choices(choice);
        true
    }

    /// Numbers a new tool call, and returns its id. All readers get one id, because the cache keeps it.
    fn record_tool<'a>(
        &mut self,
        choice: u32,
        call: u32,
        id: Cow<'a, str>,
        is_custom: bool,
    ) -> Option<Cow<'a, str>> {
        let position = self.register_tool(choice, call, is_custom)?;
        let is_missing = id.is_empty();
        Some(if is_missing { Cow::Owned(made_tool_id(&self.opening.id, choice, position)) } else { id })
    }

    fn record_finish(&self, choice: u32, out: &mut Vec<u8>) {
        let state = self.choices.get(choice as usize);
        if let Some(reason) = state.and_then(|state| state.finish) {
            let reason = if self.opening.shape == Shape::Text { text_finish(reason) } else { reason };
            log::write(&Event::Finish { choice, reason }, out);
        }
    }

    /// Ends the log of a complete answer: the members of the answer, the finish reasons, and the end.
    pub fn finish_recording(&self, out: &mut Vec<u8>) {
        for (name, value) in self.members.iter().filter(|(name, _)| *name != METADATA) {
            log::write(&Event::Member { name, value }, out);
        }
        for choice in (0..).take(self.choices.len()) {
            self.record_finish(choice, out);
        }
        log::write(&Event::End, out);
    }
}

#[cfg(test)]
mod tests;
