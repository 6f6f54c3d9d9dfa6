//! The parts of a request that its answer needs.

use super::response;
use super::stream::GeminiEncoder;
use crate::dialects::messages::MessagesContext;
use crate::dialects::{AnswerEncoder, AnswerForm, ClientDialect, EncoderOpening};
use crate::render::Envelope;
use crate::reply::ChatReply;

/// The parts of a Gemini request that its answer needs.
#[derive(Clone, Debug, Default)]
pub struct GeminiContext {
    /// A stream is a JSON array, and not server-sent events (`alt=sse`).
    pub is_array: bool,
    /// The stop sequences that the chat request does not hold, and whether the client gets thoughts.
    pub(super) content: MessagesContext,
}

impl AnswerForm for GeminiContext {
    fn dialect(&self) -> ClientDialect {
        ClientDialect::Gemini
    }

    fn encoder(&self, opening: EncoderOpening) -> Box<dyn AnswerEncoder> {
        Box::new(GeminiEncoder::new(self.clone(), opening))
    }

    fn write(&self, reply: &ChatReply<'_>, envelope: &Envelope<'_>) -> Vec<u8> {
        response::write(reply, envelope, self)
    }
}
