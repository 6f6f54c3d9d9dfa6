//! Writes complete answers: the encoder of streams makes the object, so that both have the same items.

use super::details;
use super::echo::AnswerFacts;
use super::snapshot::Snapshot;
use super::stream::ResponsesEncoder;
use crate::dialects::{AnswerEncoder, EncoderOpening};
use crate::event::Event;
use crate::render::Envelope;
use crate::reply::{ChatChoice, ChatReply};
use crate::stream::Closing;

/// Writes a complete answer.
pub(super) fn write(facts: &AnswerFacts, reply: &ChatReply<'_>, envelope: &Envelope<'_>) -> Vec<u8> {
    let opening = EncoderOpening {
        id: envelope.id.to_owned(),
        created: envelope.created,
        model: envelope.model.to_owned(),
        prompt_tokens: envelope.usage.prompt,
    };
    let mut object =
        ObjectMaker { encoder: ResponsesEncoder::new(facts.clone(), opening), frames: Vec::new() };
    object.take(&Event::Start { model: reply.model.clone(), fingerprint: None });
    for (name, value) in &reply.members {
        object.take(&Event::Member { name, value });
    }
    let choice = reply.choices.iter().find(|choice| choice.index == 0);
    if let Some(choice) = choice {
        object.choice(choice);
    }
    let closing = Closing { usage: envelope.usage, cost: envelope.cost, gateway: envelope.gateway };
    object.encoder.into_object(choice.and_then(|choice| choice.finish), &closing)
}

/// Writes a response without output.
pub(super) fn pending(facts: &AnswerFacts, opening: &EncoderOpening, status: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let snapshot = Snapshot {
        id: &opening.id,
        created: opening.created,
        model: &opening.model,
        status,
        error: None,
        incomplete: None,
        service_tier: None,
        output: b"",
        closing: None,
        gateway: None,
    };
    snapshot.write(facts, &mut out);
    out
}

/// Gives an answer's parts to an encoder. The frames are discarded.
struct ObjectMaker {
    encoder: ResponsesEncoder,
    frames: Vec<u8>,
}

impl ObjectMaker {
    fn take(&mut self, event: &Event<'_>) {
        self.encoder.accept(event, &mut self.frames);
        self.frames.clear();
    }

    fn choice(&mut self, choice: &ChatChoice<'_>) {
        self.reasoning(choice);
        for (name, value) in choice.extras.iter().filter(|(name, _)| name != details::MEMBER) {
            self.take(&Event::Extra { choice: 0, name, value });
        }
        if let Some(text) = choice.content.clone() {
            let logprobs = choice.logprobs.as_deref();
            self.take(&Event::Text { choice: 0, text, logprobs });
        }
        if let Some(text) = choice.refusal.clone() {
            self.take(&Event::Refusal { choice: 0, text });
        }
        for image in &choice.images {
            self.take(&Event::Image { choice: 0, image: image.clone() });
        }
        for (call, tool) in (0_u32..).zip(&choice.tool_calls) {
            let (id, name) = (tool.id.clone(), tool.name.clone());
            self.take(&match tool.custom {
                true => Event::CustomStart { choice: 0, call, id, name },
                false => Event::ToolStart { choice: 0, call, id, name },
            });
            if !tool.arguments.is_empty() {
                self.take(&Event::ToolArgs { choice: 0, call, fragment: tool.arguments.clone() });
            }
        }
    }

    /// The reasoning: one item for each signed thought, if the thoughts make up the text.
    fn reasoning(&mut self, choice: &ChatChoice<'_>) {
        let entries = choice.extras.iter().filter(|(name, _)| name == details::MEMBER);
        let signed: Vec<_> = entries.flat_map(|(_, value)| details::signed(value.get())).collect();
        let text = choice.reasoning.as_deref().unwrap_or_default();
        let mut rest = text;
        let mut pieces = Vec::with_capacity(signed.len());
        for entry in &signed {
            let words = entry.words.as_deref().unwrap_or_default();
            match rest.trim_start_matches('\n').strip_prefix(words) {
                Some(after) => {
                    pieces.push(words);
                    rest = after;
                }
                None => break,
            }
        }
        let is_divided = pieces.len() == signed.len() && rest.trim().is_empty();
        if !is_divided {
            pieces = vec![text];
        }
        for at in 0..pieces.len().max(signed.len()) {
            if let Some(words) = pieces.get(at).filter(|words| !words.is_empty()) {
                self.take(&Event::Reasoning { choice: 0, text: (*words).into() });
            }
            if let Some(entry) = signed.get(at) {
                self.encoder.sign(entry, &mut self.frames);
                self.frames.clear();
            }
        }
    }
}
