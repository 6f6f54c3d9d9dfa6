//! The trait a provider's dialect implements: pure conversions, no IO. Adding a provider is one file behind it.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use gw_wire::event::Event;
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply, TextReply};
use gw_wire::request::{ChatRequest, CompletionRequest, EmbeddingsRequest};
use http::{HeaderMap, Method};

/// One HTTP request to an upstream, before origin and credentials are added.
#[derive(Clone, Debug)]
pub struct HttpCall {
    /// Method.
    pub method: Method,
    /// Appended to the provider's base path, begins with `/`. Every variable segment is percent-encoded.
    pub path: String,
    /// Headers of the dialect (`content-type`, `accept`, …), never credentials.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// Which upstream model is called, and with what limits.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The model's name at the provider.
    pub upstream_model: &'a str,
    /// Its catalogue id.
    pub id: &'a str,
    /// Upper bound of max_tokens for a fallback candidate; None = forward the client's value.
    pub clamp_max_tokens: Option<u64>,
}

/// What a dialect can carry; what it cannot is a clear 400 before any call.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent capabilities, not a state")]
pub struct Capabilities {
    /// OpenAI's own extras (custom tools, audio, unknown fields and parts) are forwarded verbatim.
    pub openai_fields: bool,
    /// `suffix` of text completions.
    pub suffix: bool,
    /// Token arrays as prompts and embedding inputs.
    pub token_prompts: bool,
    /// Streams can be asked for usage (`stream_options`).
    pub stream_usage: bool,
}

/// A provider's dialect.
pub trait Adapter: Send + Sync + fmt::Debug {
    /// What it can carry.
    fn capabilities(&self) -> Capabilities;

    /// A chat completion as the provider wants it.
    ///
    /// # Errors
    /// A `BadRequest` failure when the request cannot be said in this dialect.
    fn chat(&self, request: &ChatRequest, target: &Target<'_>) -> Result<HttpCall, Failure>;

    /// A text completion as the provider wants it.
    ///
    /// # Errors
    /// As [`Adapter::chat`].
    fn completion(&self, request: &CompletionRequest, target: &Target<'_>) -> Result<HttpCall, Failure>;

    /// Embeddings of a range of the request's inputs.
    ///
    /// # Errors
    /// As [`Adapter::chat`].
    fn embeddings(
        &self,
        request: &EmbeddingsRequest,
        inputs: Range<usize>,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure>;

    /// Reads a complete chat answer.
    ///
    /// # Errors
    /// `InvalidResponse`, or what an error object inside a 200 says.
    fn decode_chat<'a>(&self, body: &'a [u8]) -> Result<ChatReply<'a>, Failure>;

    /// Reads a complete text completion.
    ///
    /// # Errors
    /// As [`Adapter::decode_chat`].
    fn decode_completion<'a>(&self, body: &'a [u8]) -> Result<TextReply<'a>, Failure>;

    /// Reads embeddings: sorted by index, exactly `expected` vectors of one length.
    ///
    /// # Errors
    /// As [`Adapter::decode_chat`].
    fn decode_embeddings<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure>;

    /// A fresh decoder of a chat stream.
    fn chat_stream(&self) -> Box<dyn StreamDecoder>;

    /// A fresh decoder of a text completion stream.
    fn completion_stream(&self) -> Box<dyn StreamDecoder>;

    /// What a non-2xx answer means.
    fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure;

    /// The request for the provider's own model list; None when it has none.
    fn list_models(&self) -> Option<HttpCall>;

    /// Reads the provider's own model list into model names.
    ///
    /// # Errors
    /// `InvalidResponse`.
    fn decode_models(&self, body: &[u8]) -> Result<Vec<String>, Failure>;
}

/// Turns an upstream stream's bytes into events, however the network cut them.
pub trait StreamDecoder: Send {
    /// Takes the next bytes; every event that they complete goes to `sink` at once. A fault is an [`Event::Error`].
    fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(Event<'_>));

    /// The body ended cleanly; a last complete event without its blank line is still given.
    fn eof(&mut self, sink: &mut dyn FnMut(Event<'_>));
}
