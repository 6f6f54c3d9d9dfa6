//! The parsing of the bodies that need no translation.

use bytes::Bytes;
use gw_wire::operation::PlainOperation;
use gw_wire::request::{RequestLimits, chat, completion, embeddings};

use crate::error::Result;
use crate::request::ValidatedRequest;

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
        PlainOperation::Embeddings => {
            ValidatedRequest::Embeddings(Box::new(embeddings::parse_embeddings(body, limits)?))
        }
    })
}
