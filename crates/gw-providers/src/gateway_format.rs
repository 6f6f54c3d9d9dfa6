//! Reads documents that this gateway wrote itself, in OpenAI's format. The response cache uses it.

use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, TextReply};

use crate::adapters::openai;

/// Reads a chat answer of the gateway.
///
/// # Errors
/// The body is not such an answer.
pub fn chat(body: &[u8]) -> Result<ChatReply<'_>, Failure> {
    openai::chat(body)
}

/// Reads a text completion of the gateway.
///
/// # Errors
/// The body is not such an answer.
pub fn completion(body: &[u8]) -> Result<TextReply<'_>, Failure> {
    openai::completion(body)
}
