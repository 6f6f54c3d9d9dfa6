//! The content of a chat or completion answer: read from the gateway's own document, written into the cache, and
//! written again for another request.

use gw_cache::Accumulator;
use gw_providers::gateway_format;
use gw_wire::event::Event;
use gw_wire::render::{self, Envelope};
use gw_wire::reply::{ChatChoice, ChatReply, Finish, TextReply};
use gw_wire::stream::Shape;

use crate::call::CallSummary;
use crate::upstream::replay::{replay_chat, replay_text};
use crate::upstream::unary::fingerprint;

/// The content of an answer.
#[derive(Debug)]
pub(crate) enum AnswerContent<'a> {
    Chat(ChatReply<'a>),
    Text(TextReply<'a>),
}

impl<'a> AnswerContent<'a> {
    /// Reads a document of the gateway; None if it cannot be read.
    pub(crate) fn read(shape: Shape, body: &'a [u8]) -> Option<Self> {
        match shape {
            Shape::Chat => gateway_format::chat(body).ok().map(Self::Chat),
            Shape::Text => gateway_format::completion(body).ok().map(Self::Text),
        }
    }

    /// Takes the content of a gathered stream; None if the stream is incomplete.
    pub(crate) fn gathered(shape: Shape, accumulator: Accumulator) -> Option<Self> {
        match shape {
            Shape::Chat => accumulator.into_chat().map(Self::Chat),
            Shape::Text => accumulator.into_text().map(Self::Text),
        }
    }

    /// The finish reason of each choice; None if a choice has none.
    pub(crate) fn finishes(&self) -> Option<Vec<Finish>> {
        match self {
            Self::Chat(reply) => reply.choices.iter().map(|choice| choice.finish).collect(),
            Self::Text(reply) => reply.choices.iter().map(|choice| choice.finish).collect(),
        }
    }

    /// Whether the answer has a call of a tool that nobody can read. A client that asks again must not get it again.
    fn has_broken_call(&self) -> bool {
        match self {
            Self::Chat(reply) => reply.choices.iter().any(ChatChoice::has_broken_call),
            Self::Text(_) => false,
        }
    }

    /// The bytes of the cache entry.
    pub(crate) fn entry_body(&self, summary: &CallSummary) -> Vec<u8> {
        let model = &summary.candidate.model.upstream_model;
        match self {
            Self::Chat(reply) => {
                // All calls have ids: the document was written with them, and so was the log of the stream.
                let made = fingerprint(&summary.candidate);
                render::cacheable_chat(reply, "", model, &made, &summary.usage)
            }
            Self::Text(reply) => render::cacheable_text(reply, model, &summary.usage),
        }
    }

    /// The bytes of a complete answer.
    pub(crate) fn write(&self, envelope: &Envelope<'_>) -> Vec<u8> {
        match self {
            Self::Chat(reply) => render::chat(reply, envelope),
            Self::Text(reply) => render::text(reply, envelope),
        }
    }

    /// The events of a stream.
    pub(crate) fn replay(self, play: &mut dyn FnMut(Event<'_>)) {
        match self {
            Self::Chat(reply) => replay_chat(reply, play),
            Self::Text(reply) => replay_text(reply, play),
        }
    }
}

/// The parts of an answer that a cache entry is made of.
#[derive(Debug, Default)]
pub(crate) struct KeptAnswer {
    /// The bytes of the cache entry.
    pub(crate) body: Vec<u8>,
    /// The finish reason of each choice; None if a choice has none, or if the answer is not worth keeping.
    pub(crate) finishes: Option<Vec<Finish>>,
}

impl KeptAnswer {
    pub(crate) fn of(content: &AnswerContent<'_>, summary: &CallSummary) -> Self {
        let finishes = content.finishes().filter(|_| !content.has_broken_call());
        Self { body: content.entry_body(summary), finishes }
    }
}
