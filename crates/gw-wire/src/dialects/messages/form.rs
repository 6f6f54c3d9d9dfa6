//! The Messages API as the form of an answer.

use super::context::MessagesContext;
use super::native::write_native;
use super::response;
use super::stream::MessagesEncoder;
use crate::dialects::{AnswerEncoder, AnswerForm, ClientDialect, EncoderOpening};
use crate::render::Envelope;
use crate::reply::ChatReply;

impl AnswerForm for MessagesContext {
    fn dialect(&self) -> ClientDialect {
        ClientDialect::Messages
    }

    fn encoder(&self, opening: EncoderOpening) -> Box<dyn AnswerEncoder> {
        Box::new(MessagesEncoder::new(self.clone(), opening))
    }

    fn write(&self, reply: &ChatReply<'_>, envelope: &Envelope<'_>) -> Vec<u8> {
        match &reply.native {
            Some(document) => write_native(document, reply, envelope, self),
            None => response::write(reply, envelope, self),
        }
    }
}
