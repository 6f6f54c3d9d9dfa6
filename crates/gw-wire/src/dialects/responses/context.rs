//! The parts of a request that its answer needs, and the entry to the writers of the answer.

use std::sync::Arc;

use super::echo::{AnswerFacts, RequestEcho};
use super::native::seals::ItemSeals;
use super::stream::ResponsesEncoder;
use super::{native, response};
use crate::dialects::{AnswerEncoder, AnswerForm, ClientDialect, EncoderOpening};
use crate::render::Envelope;
use crate::reply::ChatReply;
use crate::stream::Closing;

/// Writes the answer to one Responses request. A copy is cheap.
#[derive(Clone, Debug)]
pub struct ResponsesContext {
    pub(super) facts: AnswerFacts,
}

impl ResponsesContext {
    pub(super) fn new(echo: RequestEcho, is_stored: bool) -> Self {
        Self { facts: AnswerFacts { echo: Arc::new(echo), is_plain: false, is_stored } }
    }

    /// The context of an answer with or without the gateway's own members (`gateway`, `usage.cost_usd`).
    #[must_use]
    pub fn with_plain(mut self, is_plain: bool) -> Self {
        self.facts.is_plain = is_plain;
        self
    }

    /// The context of an answer whose `store` member is this value. The gateway decides it, not the request alone.
    #[must_use]
    pub fn with_stored(mut self, is_stored: bool) -> Self {
        self.facts.is_stored = is_stored;
        self
    }

    /// An encoder for a streamed answer.
    #[must_use]
    pub fn stream(&self, opening: EncoderOpening) -> ResponsesEncoder {
        ResponsesEncoder::new(self.facts.clone(), opening)
    }

    /// Writes the complete answer of an upstream that speaks this dialect: its own document with the gateway's members.
    /// `reply` is the same answer as its adapter read it. Entries of its `reasoning_details` that have the id of an item
    /// replace the item's opaque string.
    #[must_use]
    pub fn write_native(
        &self,
        id: &str,
        document: &str,
        reply: &ChatReply<'_>,
        closing: &Closing<'_>,
    ) -> Vec<u8> {
        let sealed = ItemSeals::of_reply(reply).applied(document);
        native::answer(&self.facts, id, &sealed, closing)
    }

    /// Writes a response without output: `queued` or `in_progress` for an answer that is made in the background, and
    /// `cancelled` for one that was stopped.
    #[must_use]
    pub fn write_pending(&self, opening: &EncoderOpening, status: &str) -> Vec<u8> {
        response::pending(&self.facts, opening, status)
    }
}

impl AnswerForm for ResponsesContext {
    fn dialect(&self) -> ClientDialect {
        ClientDialect::Responses
    }

    fn encoder(&self, opening: EncoderOpening) -> Box<dyn AnswerEncoder> {
        Box::new(self.stream(opening))
    }

    fn write(&self, reply: &ChatReply<'_>, envelope: &Envelope<'_>) -> Vec<u8> {
        match &reply.native {
            Some(document) => {
                let Envelope { usage, cost, gateway, .. } = *envelope;
                self.write_native(envelope.id, document, reply, &Closing { usage, cost, gateway })
            }
            None => response::write(&self.facts, reply, envelope),
        }
    }
}
