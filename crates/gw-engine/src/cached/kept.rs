//! The content of an answer, of a chat or of a text completion: read from what the gateway wrote itself, written to be kept, and
//! written again for another request.

use gw_cache::Gather;
use gw_providers::own;
use gw_wire::event::Event;
use gw_wire::render::{self, Envelope};
use gw_wire::reply::{ChatReply, Finish, TextReply};
use gw_wire::stream::Shape;

use crate::attempts::Told;
use crate::live::{replay_chat, replay_text};
use crate::whole::fingerprint;

/// What an answer says.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Chat(ChatReply<'a>),
    Text(TextReply<'a>),
}

impl<'a> Content<'a> {
    /// Of a whole answer that the gateway has written; None when it cannot be read.
    pub(super) fn read(shape: Shape, body: &'a [u8]) -> Option<Self> {
        match shape {
            Shape::Chat => own::chat(body).ok().map(Self::Chat),
            Shape::Text => own::completion(body).ok().map(Self::Text),
        }
    }

    /// Of a stream that the gateway has written; None when it is not complete.
    pub(super) fn gathered(shape: Shape, gather: Gather) -> Option<Self> {
        match shape {
            Shape::Chat => gather.into_chat().map(Self::Chat),
            Shape::Text => gather.into_text().map(Self::Text),
        }
    }

    /// Why each choice ended; None when one has not.
    pub(super) fn finishes(&self) -> Option<Vec<Finish>> {
        match self {
            Self::Chat(reply) => reply.choices.iter().map(|choice| choice.finish).collect(),
            Self::Text(reply) => reply.choices.iter().map(|choice| choice.finish).collect(),
        }
    }

    /// As it is kept.
    pub(super) fn to_be_kept(&self, told: &Told) -> Vec<u8> {
        let model = &told.candidate.model.upstream_model;
        match self {
            Self::Chat(reply) => {
                render::cacheable_chat(reply, model, &fingerprint(&told.candidate), &told.usage)
            }
            Self::Text(reply) => render::cacheable_text(reply, model, &told.usage),
        }
    }

    /// As a whole answer.
    pub(super) fn write(&self, envelope: &Envelope<'_>) -> Vec<u8> {
        match self {
            Self::Chat(reply) => render::chat(reply, envelope),
            Self::Text(reply) => render::text(reply, envelope),
        }
    }

    /// As the events of a stream.
    pub(super) fn replay(self, play: &mut dyn FnMut(Event<'_>)) {
        match self {
            Self::Chat(reply) => replay_chat(reply, play),
            Self::Text(reply) => replay_text(reply, play),
        }
    }
}
