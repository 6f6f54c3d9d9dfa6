//! A complete upstream answer, as every adapter returns it, before it is written in the client's shape.

mod members;

use std::borrow::Cow;

use serde_json::value::RawValue;

pub(crate) use self::members::is_passed_on;
pub use self::members::{MAX_MEMBER_BYTES, Members};
use crate::embeddings::Packed;
use crate::usage::Usage;

/// Why a choice ended. The closed set that strict clients accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Natural end or stop sequence.
    Stop,
    /// Token limit.
    Length,
    /// The model called tools.
    ToolCalls,
    /// A filter cut the answer.
    ContentFilter,
    /// Legacy function call.
    FunctionCall,
}

impl Finish {
    /// The wire spelling.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::FunctionCall => "function_call",
        }
    }
}

/// A complete tool call.
#[derive(Clone, Debug)]
pub struct ToolCall<'a> {
    /// The id, empty when the upstream gave none (the writer makes one).
    pub id: Cow<'a, str>,
    /// The function's or the custom tool's name.
    pub name: Cow<'a, str>,
    /// JSON text of the arguments, "" is written as "{}"; of a custom tool its input, which is any text.
    pub arguments: Cow<'a, str>,
    /// It is a call of a custom tool.
    pub custom: bool,
}

/// A picture that the model made. Clients get it as a data URL in `images`, as OpenRouter's do
/// (openrouter.ai/docs/features/multimodal/image-generation, November 2026).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image<'a> {
    /// `image/png`.
    pub media_type: Cow<'a, str>,
    /// Its bytes in base64.
    pub base64: Cow<'a, str>,
    /// Tokens that it counts as where the provider tells no usage.
    pub tokens: u64,
}

/// One choice of a chat answer.
#[derive(Clone, Debug, Default)]
pub struct ChatChoice<'a> {
    /// Position.
    pub index: u32,
    /// The text; None and "" are the same to the client.
    pub content: Option<Cow<'a, str>>,
    /// Reasoning text.
    pub reasoning: Option<Cow<'a, str>>,
    /// Refusal text.
    pub refusal: Option<Cow<'a, str>>,
    /// Tool calls in order.
    pub tool_calls: Vec<ToolCall<'a>>,
    /// Legacy function call (name, arguments).
    pub function_call: Option<(Cow<'a, str>, Cow<'a, str>)>,
    /// Pictures in order.
    pub images: Vec<Image<'a>>,
    /// Message members without a field above (`annotations`, `audio`, …), passed on untouched.
    pub extras: Vec<(Cow<'a, str>, Cow<'a, RawValue>)>,
    /// `logprobs` in OpenAI's shape.
    pub logprobs: Option<Cow<'a, RawValue>>,
    /// Finish reason, None if the upstream gave none or one we do not know.
    pub finish: Option<Finish>,
}

/// A complete chat answer.
#[derive(Clone, Debug, Default)]
pub struct ChatReply<'a> {
    /// The model name the upstream reports.
    pub model: Option<Cow<'a, str>>,
    /// The upstream's fingerprint.
    pub fingerprint: Option<Cow<'a, str>>,
    /// The choices; the writer makes one when there is none.
    pub choices: Vec<ChatChoice<'a>>,
    /// Usage, if reported.
    pub usage: Option<Usage>,
    /// Members of the answer itself without a field above (`service_tier`, `moderation`, …), passed on untouched.
    pub members: Vec<(Cow<'a, str>, Cow<'a, RawValue>)>,
}

/// One choice of a text completion.
#[derive(Clone, Debug, Default)]
pub struct TextChoice<'a> {
    /// Position: prompt × n + choice.
    pub index: u32,
    /// The text.
    pub text: Cow<'a, str>,
    /// `logprobs` in OpenAI's shape.
    pub logprobs: Option<Cow<'a, RawValue>>,
    /// Finish reason.
    pub finish: Option<Finish>,
}

/// A complete text completion.
#[derive(Clone, Debug, Default)]
pub struct TextReply<'a> {
    /// The model name the upstream reports.
    pub model: Option<Cow<'a, str>>,
    /// The choices.
    pub choices: Vec<TextChoice<'a>>,
    /// Usage, if reported.
    pub usage: Option<Usage>,
}

/// One embedding vector as it came.
#[derive(Clone, Debug)]
pub enum Vector<'a> {
    /// A JSON array of numbers, checked, as text.
    Json {
        /// The array's JSON text.
        text: &'a str,
        /// How many numbers it holds.
        len: usize,
    },
    /// Decoded numbers.
    Floats(Vec<f32>),
    /// One that was kept.
    Kept(Packed<'a>),
}

/// A complete embeddings answer, sorted by index, one vector per input.
#[derive(Clone, Debug, Default)]
pub struct EmbeddingsReply<'a> {
    /// The model name the upstream reports.
    pub model: Option<Cow<'a, str>>,
    /// Vectors in input order.
    pub vectors: Vec<Vector<'a>>,
    /// Prompt tokens, if reported.
    pub usage: Option<Usage>,
}
