//! Reading answers that this gateway has written itself: its format is OpenAI's. For the response cache.

use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, TextReply};

use crate::adapter::StreamDecoder;
use crate::adapters::openai;

/// A chat answer that the gateway has written.
///
/// # Errors
/// It is none.
pub fn chat(body: &[u8]) -> Result<ChatReply<'_>, Failure> {
    openai::chat(body)
}

/// A text completion that the gateway has written.
///
/// # Errors
/// It is none.
pub fn completion(body: &[u8]) -> Result<TextReply<'_>, Failure> {
    openai::completion(body)
}

/// The decoder of a stream that the gateway has written, of chats or of text completions. Its events may be larger than what an
/// upstream may send: an answer that came whole is one of them.
#[must_use]
pub fn stream(most_bytes: usize) -> Box<dyn StreamDecoder> {
    openai::own_stream(most_bytes)
}
