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
        // The entry points of these two read their bodies themselves.
        Operation::Messages | Operation::Responses => {
            ValidatedRequest::Chat(Box::new(chat::parse_chat(body, limits)?))
        }
    })
}
