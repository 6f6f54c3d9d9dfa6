//! The parsing of the bodies that need no translation.

pub(crate) mod embeddings;
pub(crate) mod image_forms;
mod images;
mod moderation;
mod realtime;
mod rerank;
mod score;
mod speech;
pub(crate) mod transcription;

use bytes::Bytes;
use gw_wire::operation::PlainOperation;
use gw_wire::request::{
    RequestLimits, chat, completion, parse_embeddings, parse_images, parse_moderation, parse_realtime,
    parse_rerank, parse_score, parse_speech,
};

use crate::error::Result;
use crate::request::ValidatedRequest;
use crate::request::one_shot::OneShot;
use crate::request::uploads::UploadedForm;

/// Parses and validates a body.
///
/// # Errors
/// The first fault of the body.
pub(crate) fn parse(
    operation: PlainOperation,
    body: Bytes,
    limits: &RequestLimits,
) -> Result<ValidatedRequest> {
    Ok(match operation {
        PlainOperation::Chat => ValidatedRequest::Chat(Box::new(chat::parse_chat(body, limits)?)),
        PlainOperation::Completion => {
            ValidatedRequest::Completion(Box::new(completion::parse_completion(body, limits)?))
        }
        PlainOperation::Embeddings => one_shot(parse_embeddings(body, limits)?),
        PlainOperation::Rerank => one_shot(parse_rerank(body, limits)?),
        PlainOperation::Score => one_shot(parse_score(body, limits)?),
        PlainOperation::Moderation => one_shot(parse_moderation(body, limits)?),
        PlainOperation::Images => one_shot(parse_images(body, limits)?),
        PlainOperation::Speech => one_shot(parse_speech(body, limits)?),
        PlainOperation::Realtime => one_shot(parse_realtime(body, limits)?),
        PlainOperation::Transcription | PlainOperation::Translation => {
            transcription::parse(operation, body, UploadedForm::default(), limits)?
        }
    })
}

fn one_shot(request: impl OneShot + 'static) -> ValidatedRequest {
    ValidatedRequest::OneShot(Box::new(request))
}
