//! Writes complete answers: the encoder of streams makes the object, so that both have the same items.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::details;
use super::echo::AnswerFacts;
use super::snapshot::Snapshot;
use super::stream::ResponsesEncoder;
use crate::dialects::{AnswerEncoder, EncoderOpening};
use crate::event::Event;
use crate::render::Envelope;
use crate::reply::order::{ReplyPart, reply_parts};
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
    object.encoder.into_object(reply.finish_of(choice), &closing)
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

/// Passes an answer's parts to an encoder. The frames are discarded.
struct ObjectMaker {
    encoder: ResponsesEncoder,
    frames: Vec<u8>,
}

impl ObjectMaker {
    fn take(&mut self, event: &Event<'_>) {
        self.encoder.accept(event, &mut self.frames);
        self.frames.clear();
    }

    /// The parts in the model's order. Extras come before the first text, because citations wait for it.
    fn choice(&mut self, choice: &ChatChoice<'_>) {
        let mut extras = choice.extras.iter().filter(|(name, _)| name != details::MEMBER);
        let mut logprobs = choice.logprobs.as_deref();
        reply_parts(choice, |part| {
            if !matches!(part, ReplyPart::Reasoning(_) | ReplyPart::Detail(_)) {
                self.extras(&mut extras);
            }
            self.part(part, &mut logprobs);
        });
        self.extras(&mut extras);
        if let Some((name, arguments)) = choice.legacy_call() {
            self.take(&Event::ToolStart { choice: 0, call: 0, id: "".into(), name: name.into() });
            self.take(&Event::ToolArgs { choice: 0, call: 0, fragment: arguments.into() });
        }
        if let Some(logprobs) = logprobs {
            self.take(&Event::Text { choice: 0, text: "".into(), logprobs: Some(logprobs) });
        }
    }

    /// Passes the remaining extras.
    fn extras<'c>(&mut self, extras: &mut impl Iterator<Item = &'c (Cow<'c, str>, Cow<'c, RawValue>)>) {
        for (name, value) in extras {
            self.take(&Event::Extra { choice: 0, name, value });
        }
    }

    /// Passes a part. The log probabilities go with the first text.
    fn part(&mut self, part: ReplyPart<'_>, logprobs: &mut Option<&RawValue>) {
        match part {
            ReplyPart::Text(text) => {
                self.take(&Event::Text { choice: 0, text: text.into(), logprobs: logprobs.take() });
            }
            ReplyPart::Reasoning(text) => self.take(&Event::Reasoning { choice: 0, text: text.into() }),
            ReplyPart::Detail(entry) => {
                if let Some(signed) = details::signed_entry(entry) {
                    self.encoder.sign(&signed, &mut self.frames);
                    self.frames.clear();
                }
            }
            ReplyPart::Refusal(text) => self.take(&Event::Refusal { choice: 0, text: text.into() }),
            ReplyPart::Image(image) => self.take(&Event::Image { choice: 0, image: image.clone() }),
            ReplyPart::Call(position, tool) => {
                let call = u32::try_from(position).unwrap_or(u32::MAX);
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
    }
}
