//! The trait a provider's dialect implements: pure conversions, no IO. Adding a provider is one file behind it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use gw_wire::event::Event;
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply, TextReply};
use gw_wire::request::{ChatRequest, CompletionRequest, EmbeddingsRequest};
use http::{HeaderMap, Method};
use memchr::memchr2;

use crate::media_sizes::MediaSizes;
use crate::model_rules::ModelRules;
use crate::settings::Api;

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

/// A request in a provider's dialect, and what is needed to read its answer.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// What is sent.
    pub call: HttpCall,
    /// How the answer is to be read.
    pub reading: Reading,
    /// What of the request could not be said and was left out, as entries of `gateway.warnings`
    /// (`parameter_dropped:seed`). Never something that changes what the answer means.
    pub warnings: Vec<Cow<'static, str>>,
}

impl Encoded {
    /// A call whose answer is read as it stands.
    #[must_use]
    pub fn plain(call: HttpCall) -> Self {
        Self { call, reading: Reading::default(), warnings: Vec::new() }
    }
}

/// What the request was turned into, so that its answer can be turned back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Structured output was asked for by a tool of this name that must be called: its input is the answer's text.
    pub json_tool: Option<String>,
    /// JSON was asked for in words: a code fence around the answer is taken off.
    pub fenced: bool,
    /// The client offered legacy functions: a tool call is answered as a `function_call`.
    pub function_call: bool,
    /// Text that a text completion begins with (`echo` of a provider without it).
    pub echo: Option<String>,
    /// The catalogue id of the model: what has to come back to it is stamped with it.
    pub origin: Option<String>,
    /// Custom tools that were offered as functions: their calls are answered as calls of custom tools.
    pub custom_tools: Vec<String>,
    /// Tools that the provider knows by another name: that one, and the client's.
    pub tool_names: Vec<(String, String)>,
    /// The answer is in Anthropic's dialect. Only Vertex AI asks: it serves Claude beside Gemini.
    pub is_claude: bool,
}

/// Which part of a request one call carries. A provider that gives one choice, or takes one prompt, at a time is called
/// several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceRange {
    /// Choices per prompt.
    pub n: u32,
    /// Prompts of a text completion; `0..1` of a chat.
    pub prompts: Range<usize>,
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
    /// The most that the request can pay: the limit where the client sets none, and the upper bound of the client's.
    pub most_tokens: Option<u64>,
    /// The most it can generate, where the catalogue knows.
    pub max_output_tokens: Option<u64>,
    /// Its context in tokens, where the catalogue knows.
    pub context_length: Option<u64>,
    /// What it demands, where that was looked up when the catalogue was built.
    pub rules: Option<ModelRules>,
}

impl Target<'_> {
    /// What the model demands of a request.
    #[must_use]
    pub fn rules(&self, api: Api) -> ModelRules {
        self.rules.unwrap_or_else(|| ModelRules::of(api, self.upstream_model, self.id))
    }

    /// The client's token limit, bound for a fallback candidate and by what the request can pay.
    #[must_use]
    pub fn max_tokens(&self, asked: Option<u64>) -> Option<u64> {
        let asked = asked.map(|asked| self.clamp_max_tokens.map_or(asked, |most| asked.min(most)));
        asked.into_iter().chain(self.most_tokens).min()
    }
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
    /// Image addresses are fetched by the provider; without it only bytes can be sent.
    pub image_urls: bool,
    /// Choices of one call; more are asked for in several calls.
    pub choices: u32,
    /// Prompts of a text completion in one call.
    pub prompts: usize,
}

/// How a call proves whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `Authorization: Bearer <key>`.
    Bearer,
    /// The bare key in a header of this (lower-case) name.
    Header(&'static str),
}

/// Credentials that are made for each call or fetched from time to time: signatures, OAuth tokens.
pub trait Signer: Send + Sync + fmt::Debug {
    /// Adds the credentials to a call that is otherwise complete. `url` is where it goes, base path included.
    fn sign<'a>(
        &'a self,
        call: &'a mut HttpCall,
        url: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

    /// The secrets it holds now, so that they can be taken out of what an upstream says.
    fn secrets(&self) -> Vec<String>;
}

/// A provider's dialect.
pub trait Adapter: Send + Sync + fmt::Debug {
    /// What it can carry.
    fn capabilities(&self) -> Capabilities;

    /// How its keys are sent. Not asked when there is a [`Signer`].
    fn scheme(&self) -> Scheme {
        Scheme::Bearer
    }

    /// What a model bills for pictures, pages and sounds, by its name at the provider and its catalogue id.
    fn media_sizes(&self, upstream_model: &str, id: &str) -> MediaSizes {
        MediaSizes::of([upstream_model, id], MediaSizes::default())
    }

    /// A chat completion as the provider wants it.
    ///
    /// # Errors
    /// An `Unsupported` failure when the request cannot be said in this dialect.
    fn chat(
        &self,
        request: &ChatRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure>;

    /// A text completion as the provider wants it.
    ///
    /// # Errors
    /// As [`Adapter::chat`].
    fn completion(
        &self,
        request: &CompletionRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure>;

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
    fn decode_chat<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure>;

    /// Reads a complete text completion.
    ///
    /// # Errors
    /// As [`Adapter::decode_chat`].
    fn decode_completion<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<TextReply<'a>, Failure>;

    /// Reads embeddings: sorted by index, exactly `expected` vectors of one length.
    ///
    /// # Errors
    /// As [`Adapter::decode_chat`].
    fn decode_embeddings<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure>;

    /// A fresh decoder of a chat stream.
    fn chat_stream(&self, reading: &Reading) -> Box<dyn StreamDecoder>;

    /// A fresh decoder of a text completion stream.
    fn completion_stream(&self, reading: &Reading) -> Box<dyn StreamDecoder>;

    /// What a non-2xx answer means.
    fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure;

    /// The request for the provider's own model list; None when it has none.
    fn list_models(&self) -> Option<HttpCall>;

    /// Reads the provider's own model list.
    ///
    /// # Errors
    /// `InvalidResponse`.
    fn decode_models(&self, body: &[u8]) -> Result<Vec<ListedModel>, Failure>;
}

/// A dialect set up for one provider.
#[derive(Debug)]
pub struct Built {
    /// The dialect.
    pub adapter: Box<dyn Adapter>,
    /// Credentials that are more than a key in a header; None = the keys of the settings, see [`Adapter::scheme`].
    pub signer: Option<Arc<dyn Signer>>,
    /// Where it is when the settings name no `base_url` and a region or a project decides.
    pub base_url: Option<String>,
}

impl Built {
    /// With plain keys and a fixed address.
    #[must_use]
    pub fn new(adapter: Box<dyn Adapter>) -> Self {
        Self { adapter, signer: None, base_url: None }
    }
}

/// A model on a provider's own list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedModel {
    /// The provider's name of it; never empty, and unique in the list.
    pub name: String,
    /// Tokens of prompt and answer together, where the list tells.
    pub context_length: Option<u64>,
}

/// Turns an upstream stream's bytes into events, however the network cut them.
pub trait StreamDecoder: Send {
    /// Takes the next bytes; every event that they complete goes to `sink` at once. A fault is an [`Event::Error`].
    fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(Event<'_>));

    /// The body ended cleanly; a last complete event without its blank line is still given.
    fn eof(&mut self, sink: &mut dyn FnMut(Event<'_>));

    /// Bytes that are kept: of an event that is not complete, and of everything that is remembered until the stream ends. A
    /// decoder of an upstream's stream keeps 32 MiB at most: beyond that it gives an [`Event::Error`] and keeps nothing.
    fn held_bytes(&self) -> usize;

    /// Bytes that are read at once when this chunk comes, or the body's end (`None`): reading takes as long as they are many.
    /// 0 for a chunk that is only put aside, because it does not complete the event under way.
    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize;
}

impl<D: StreamDecoder + ?Sized> StreamDecoder for Box<D> {
    fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
        (**self).feed(chunk, sink);
    }

    fn eof(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        (**self).eof(sink);
    }

    fn held_bytes(&self) -> usize {
        (**self).held_bytes()
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        (**self).work_bytes(chunk)
    }
}

/// [`StreamDecoder::work_bytes`] of a stream whose events end with a line, with so many bytes of the event under way.
pub(crate) fn work_by_lines(pending: usize, chunk: Option<&[u8]>) -> usize {
    match chunk {
        None => pending,
        Some(chunk) if memchr2(b'\n', b'\r', chunk).is_some() => pending.saturating_add(chunk.len()),
        Some(_) => 0,
    }
}
