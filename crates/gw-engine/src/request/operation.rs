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

pub(crate) fn parse(operation: Operation, body: Bytes, limits: &RequestLimits) -> Result<ValidatedRequest> {
    Ok(match operation {
        Operation::Chat => ValidatedRequest::Chat(Box::new(chat::parse_chat(body, limits)?)),
        Operation::Completion => {
            ValidatedRequest::Completion(Box::new(completion::parse_completion(body, limits)?))
        }
        Operation::Embeddings => {
            ValidatedRequest::Embeddings(Box::new(embeddings::parse_embeddings(body, limits)?))
        }
        Operation::Messages | Operation::Responses => {
            return Err(crate::error::Error::new(
                crate::error::Kind::UnknownUrl,
                "This URL is not served yet.",
            ));
        }
    })
}
