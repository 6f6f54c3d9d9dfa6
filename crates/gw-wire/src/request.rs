//! A client's generation request: read once, validated once, kept as the bytes that came plus what we understood.
//!
//! `parse_*` in the submodules are the only constructors, so holding one of these types means that it is valid.

mod body;
pub mod chat;
pub mod completion;
mod continued;
pub mod embeddings;
pub mod encode;
pub mod fields;
pub mod limits;
mod measure;
pub mod member_policy;
mod messages;
mod options;
pub mod references;
mod schemas;
mod tools;

use std::ops::Range;

pub use chat::parse_chat;
pub use completion::parse_completion;
pub use embeddings::parse_embeddings;

pub use body::strict;
pub use limits::RequestLimits;
pub use measure::{Detail, Medium, image_size};
pub use member_policy::{AllowedMembers, Guarded, Rule};
pub use options::CACHE_MODES;
pub use references::References;

use bytes::Bytes;

use crate::names::NameIndex;
use crate::strategy::Strategy;

/// A request that breaks the contract: always answered 400 `invalid_request_error`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// Code of CONTRACT 1.3 (`invalid_type`, `missing_required_parameter`, …).
    pub code: &'static str,
    /// Begins with the field: `Invalid 'temperature': …`.
    pub message: String,
}

/// A name and where its value stands in the body.
type Member = (Box<str>, Range<usize>);

/// The top-level members of a request body, as ranges into the bytes that came. Names are unescaped and unique.
#[derive(Clone, Debug)]
pub struct Body {
    pub(crate) bytes: Bytes,
    pub(crate) members: Vec<Member>,
    /// Of many members.
    index: Option<NameIndex>,
}

/// `routing` of a request, validated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// The strategy that the client named.
    pub strategy: Option<Strategy>,
    /// Fallback models in the client's order, deduplicated, the requested model removed.
    pub fallback: Vec<Fallback>,
    /// Permission to be served by a better model.
    pub allow_upgrade: bool,
}

/// A fallback model of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// As the client wrote it.
    pub model: String,
    /// The list that names it: `routing.fallback`, `models` or `fallbacks`.
    pub member: &'static str,
    /// Its index in that list.
    pub index: usize,
}

/// `cache` of a chat request, validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheAsk {
    /// Whether a cached answer will do.
    pub enabled: bool,
    /// Seconds, 1..=2592000, when the client says.
    pub ttl: Option<u32>,
    /// One of [`CACHE_MODES`]: whether a kept answer will do, and whether the new one may be kept.
    pub mode: &'static str,
}

/// What a request needs of a model, checked against the catalogue entry's features and modalities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent capabilities, not a state")]
pub struct Needs {
    /// Tools or functions are offered.
    pub tools: bool,
    /// Custom tools are offered, or were called.
    pub custom_tools: bool,
    /// An image is in the messages.
    pub image: bool,
    /// Audio is in the messages.
    pub audio_input: bool,
    /// `modalities` asks for audio.
    pub audio_output: bool,
    /// `response_format` is `json_object`.
    pub json_mode: bool,
    /// `response_format` is `json_schema`.
    pub json_schema: bool,
    /// The member that holds something only OpenAI-type providers understand: one of the constants below.
    pub openai_only: Option<&'static str>,
}

impl Needs {
    /// Tools or a tool choice of a type that only OpenAI-type providers know: elsewhere `unsupported_value`.
    pub const OTHER_TOOLS: &'static str = "tools";
    /// Content parts of a type that we do not know: elsewhere `invalid_value`.
    pub const OTHER_PARTS: &'static str = "messages";
}

/// What is in a prompt beside its text: the base of what it may cost at the worst.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Messages, prompts or inputs: each is put into a frame.
    pub frames: u64,
    /// Pictures, documents and sounds, measured.
    pub media: Vec<Medium>,
    /// Bytes of text files, of a schema, of a suffix or a prediction, and of what only the provider understands.
    pub bytes: u64,
}

/// A validated chat completion request.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// The body as it came.
    pub body: Body,
    /// As the client wrote it.
    pub model: String,
    /// Server-sent events wanted.
    pub stream: bool,
    /// `stream_options.include_usage`.
    pub include_usage: bool,
    /// Number of choices, 1..=128.
    pub n: u32,
    /// `max_completion_tokens`, else `max_tokens`.
    pub max_tokens: Option<u64>,
    /// Routing wishes.
    pub routing: Routing,
    /// Cache wishes.
    pub cache: Option<CacheAsk>,
    /// Needed capabilities.
    pub needs: Needs,
    /// Bytes of all text in messages and tools: the base of token estimates.
    pub prompt_bytes: u64,
    /// What else is in the prompt.
    pub beside: Beside,
    /// The request's references to what lies at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<Guarded>,
}

/// One prompt of a text completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Text.
    Text(String),
    /// Token ids.
    Tokens(Vec<u32>),
}

/// A validated text completion request.
#[derive(Clone, Debug)]
pub struct CompletionRequest {
    /// The body as it came.
    pub body: Body,
    /// As the client wrote it.
    pub model: String,
    /// One or more prompts.
    pub prompts: Vec<Prompt>,
    /// Server-sent events wanted.
    pub stream: bool,
    /// `stream_options.include_usage`.
    pub include_usage: bool,
    /// Choices per prompt, 1..=128.
    pub n: u32,
    /// Answers per prompt that are made to choose from, and paid; 0 = not said.
    pub best_of: u32,
    /// `max_tokens`.
    pub max_tokens: Option<u64>,
    /// Prefix the answer with the prompt.
    pub echo: bool,
    /// A suffix was given.
    pub suffix: bool,
    /// Routing wishes.
    pub routing: Routing,
    /// Bytes of all prompts (4 per token id).
    pub prompt_bytes: u64,
    /// What else is in the prompts.
    pub beside: Beside,
    /// The request's references to what lies at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<Guarded>,
}

/// How the client wants its vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodingFormat {
    /// JSON numbers.
    Float,
    /// Base64 of little-endian f32.
    Base64,
}

/// The inputs of an embeddings request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Texts, as raw JSON string literals in ranges of the body (no copy).
    Texts(Vec<Range<usize>>),
    /// Token arrays.
    Tokens(Vec<Vec<u32>>),
}

/// A validated embeddings request.
#[derive(Clone, Debug)]
pub struct EmbeddingsRequest {
    /// The body as it came.
    pub body: Body,
    /// As the client wrote it.
    pub model: String,
    /// 1..=2048 inputs.
    pub inputs: Inputs,
    /// Wanted encoding.
    pub encoding: EncodingFormat,
    /// Wanted dimensions.
    pub dimensions: Option<u32>,
    /// Bytes of all inputs (4 per token id).
    pub prompt_bytes: u64,
    /// The request's references to what lies at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<Guarded>,
}

impl Inputs {
    /// Number of inputs.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Tokens(tokens) => tokens.len(),
        }
    }

    /// Never true for a validated request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Body {
    /// The JSON text of a top-level member. `null` members are not here: null is absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.range(name).map(|range| self.text(range))
    }

    /// All non-null members in the order they came.
    pub fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members.iter().map(|(name, range)| (&**name, self.text(range)))
    }

    /// The text at a range of the body.
    #[must_use]
    pub fn text(&self, range: &Range<usize>) -> &str {
        self.bytes.get(range.clone()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("null")
    }
}
