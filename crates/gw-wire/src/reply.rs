//! A complete upstream answer, as every adapter returns it and before it is written in the client's shape.

mod members;
pub mod order;

use std::borrow::Cow;

use serde_json::value::RawValue;

pub(crate) use self::members::is_passed_on;

/// The member of an answer that holds the stop sequence which ended it, a string. Chats do not have it, and the Messages
/// API does.
pub const STOP_SEQUENCE: &str = "stop_sequence";

/// The member of an answer in which a provider repeats the metadata of the request. No other request may get it.
pub const METADATA: &str = "metadata";
pub use self::members::{MAX_MEMBER_BYTES, Members};
use crate::embeddings::Packed;
use crate::json::check;
use crate::usage::Usage;

/// Why a choice ended. Strict clients accept only these values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// A natural end or a stop sequence.
    Stop,
    /// The token limit.
    Length,
    /// The model called tools.
    ToolCalls,
    /// A content filter cut the answer.
    ContentFilter,
    /// A legacy function call.
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
    /// The id, empty if the upstream sent none (the writer makes one).
    pub id: Cow<'a, str>,
    /// The function's or the custom tool's name.
    pub name: Cow<'a, str>,
    /// The arguments as JSON text ("" is written as "{}"); for a custom tool its input, which is free text.
    pub arguments: Cow<'a, str>,
    /// Whether it is a call of a custom tool.
    pub custom: bool,
}

/// A generated image. Clients get it as a data URL in `images`, as OpenRouter's clients do
/// (openrouter.ai/docs/features/multimodal/image-generation, November 2026).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image<'a> {
    /// `image/png`.
    pub media_type: Cow<'a, str>,
    /// The image's bytes in base64.
    pub base64: Cow<'a, str>,
    /// The tokens that it counts for if the provider reports no usage.
    pub tokens: u64,
}

/// One choice of a chat answer.
#[derive(Clone, Debug, Default)]
pub struct ChatChoice<'a> {
    /// Index of the choice.
    pub index: u32,
    /// The text; None and "" are equal for the client.
    pub content: Option<Cow<'a, str>>,
    /// Reasoning text.
    pub reasoning: Option<Cow<'a, str>>,
    /// Refusal text.
    pub refusal: Option<Cow<'a, str>>,
    /// Tool calls in order.
    pub tool_calls: Vec<ToolCall<'a>>,
    /// Legacy function call: the name, and the arguments as JSON text ("" is written as "{}").
    pub function_call: Option<(Cow<'a, str>, Cow<'a, str>)>,
    /// Generated images in order.
    pub images: Vec<Image<'a>>,
    /// Message members without a field above (`annotations`, `audio`, …), forwarded unchanged.
    pub extras: Vec<(Cow<'a, str>, Cow<'a, RawValue>)>,
    /// `logprobs` in OpenAI's shape.
    pub logprobs: Option<Cow<'a, RawValue>>,
    /// The finish reason; None if the upstream sent none or an unknown one.
    pub finish: Option<Finish>,
}

impl ChatChoice<'_> {
    /// Name and arguments of the legacy call, for clients whose dialects have calls of tools alone. None if there is none, or if the
    /// upstream also sent it in the newer form.
    #[must_use]
    pub fn legacy_call(&self) -> Option<(&str, &str)> {
        let (name, arguments) = self.function_call.as_ref().filter(|_| self.tool_calls.is_empty())?;
        Some((name, arguments))
    }

    /// The finish reason if the upstream sent none or an unknown one.
    #[must_use]
    pub fn made_finish(&self) -> Finish {
        match (self.tool_calls.is_empty(), &self.function_call) {
            (false, _) => Finish::ToolCalls,
            (true, Some(_)) => Finish::FunctionCall,
            (true, None) => Finish::Stop,
        }
    }

    /// Whether the choice has neither content nor a finish reason.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let texts = [&self.content, &self.reasoning, &self.refusal];
        let has_text = texts.into_iter().flatten().any(|text| !text.is_empty());
        let has_calls = !self.tool_calls.is_empty() || self.function_call.is_some();
        let has_more = !self.images.is_empty() || !self.extras.is_empty();
        self.finish.is_none() && !has_text && !has_calls && !has_more
    }

    /// Whether the choice says that it is whole, and has a call of a tool whose arguments are not JSON.
    #[must_use]
    pub fn has_broken_call(&self) -> bool {
        let is_broken = |call: &ToolCall<'_>| {
            !call.custom && !call.arguments.is_empty() && check(&call.arguments).is_err()
        };
        self.finish != Some(Finish::Length) && self.tool_calls.iter().any(is_broken)
    }
}

/// A complete chat answer.
#[derive(Clone, Debug, Default)]
pub struct ChatReply<'a> {
    /// The model name the upstream reports.
    pub model: Option<Cow<'a, str>>,
    /// The upstream's fingerprint.
    pub fingerprint: Option<Cow<'a, str>>,
    /// The choices; the writer makes one if there is none.
    pub choices: Vec<ChatChoice<'a>>,
    /// Usage, if reported.
    pub usage: Option<Usage>,
    /// Members of the answer without a field above (`service_tier`, `moderation`, …), forwarded unchanged.
    pub members: Vec<(Cow<'a, str>, Cow<'a, RawValue>)>,
    /// The document of an upstream that speaks the client's own dialect.
    pub native: Option<Cow<'a, str>>,
}

impl ChatReply<'_> {
    /// Why the choice ended, for an answer of a client whose dialect has one choice. An answer without a choice was filtered.
    #[must_use]
    pub fn finish_of(&self, choice: Option<&ChatChoice<'_>>) -> Option<Finish> {
        let filtered = self.choices.is_empty().then_some(Finish::ContentFilter);
        choice.and_then(|choice| choice.finish).or(filtered)
    }

    /// Whether the answer has choices without anything in them, and no usage: the body of something else than a model.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        !self.choices.is_empty() && self.usage.is_none() && self.choices.iter().all(ChatChoice::is_blank)
    }
}

/// One choice of a text completion.
#[derive(Clone, Debug, Default)]
pub struct TextChoice<'a> {
    /// Index: prompt × n + choice.
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

impl TextReply<'_> {
    /// Whether the answer has choices without a text and a finish reason, and no usage: the body of something else than a model.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let is_empty = |choice: &TextChoice<'_>| choice.finish.is_none() && choice.text.is_empty();
        !self.choices.is_empty() && self.usage.is_none() && self.choices.iter().all(is_empty)
    }
}

/// One embedding vector in the form in which it was received.
#[derive(Clone, Debug)]
pub enum Vector<'a> {
    /// The checked text of a JSON array of numbers.
    Json {
        /// The array's JSON text.
        text: &'a str,
        /// The number of values.
        len: usize,
    },
    /// Decoded numbers.
    Floats(Vec<f32>),
    /// A vector from the cache.
    Packed(Packed<'a>),
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
