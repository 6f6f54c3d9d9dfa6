//! The generation endpoints, and the parsing of their bodies.

use bytes::Bytes;
use gw_wire::request::{RequestLimits, chat, completion, embeddings};

use crate::error::Result;
use crate::request::ValidatedRequest;

/// The endpoint of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Chat,
    Completion,
    Embeddings,
    Messages,
    Responses,
}

impl Operation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completion => "completion",
            Self::Embeddings => "embeddings",
            Self::Messages => "messages",
            Self::Responses => "responses",
        }
    }
}

/// The endpoint of a request in OpenAI's older dialects, whose body needs no translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainOperation {
    Chat,
    Completion,
    Embeddings,
}

impl From<PlainOperation> for Operation {
    fn from(plain: PlainOperation) -> Self {
        match plain {
            PlainOperation::Chat => Self::Chat,
            PlainOperation::Completion => Self::Completion,
            PlainOperation::Embeddings => Self::Embeddings,
        }
    }
}

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
