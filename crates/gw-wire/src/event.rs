//! The one internal event type that every provider's stream is turned into, and the normaliser consumes.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::json::View;
use crate::reply::{Finish, Image};
use crate::usage::{BYTES_PER_TOKEN, IMAGE_TOKENS, Usage, text_bytes};

/// One thing that happened in an upstream stream. Borrowed from the upstream's frame: no copy per chunk.
#[derive(Debug)]
pub enum Event<'a> {
    /// The upstream introduced itself. May come several times; the first known value of each part counts.
    Start {
        /// The model name the upstream reports.
        model: Option<Cow<'a, str>>,
        /// The upstream's `system_fingerprint`.
        fingerprint: Option<Cow<'a, str>>,
    },
    /// A piece of the answer's text.
    Text {
        /// Choice index.
        choice: u32,
        /// Decoded text, may be empty.
        text: Cow<'a, str>,
        /// The `logprobs` member as the upstream sent it (OpenAI dialects only).
        logprobs: Option<&'a RawValue>,
    },
    /// A piece of the model's reasoning.
    Reasoning {
        /// Choice index.
        choice: u32,
        /// Decoded text.
        text: Cow<'a, str>,
    },
    /// A piece of a refusal.
    Refusal {
        /// Choice index.
        choice: u32,
        /// Decoded text.
        text: Cow<'a, str>,
    },
    /// A tool call begins.
    ToolStart {
        /// Choice index.
        choice: u32,
        /// The decoder's own handle of this call within the choice; the normaliser counts client indices itself.
        call: u32,
        /// The call's id, empty when the upstream gave none.
        id: Cow<'a, str>,
        /// The function's name.
        name: Cow<'a, str>,
    },
    /// A call of a custom tool begins. The fragments of its input come as `ToolArgs`.
    CustomStart {
        /// Choice index.
        choice: u32,
        /// As that of `ToolStart`.
        call: u32,
        /// The call's id, empty when the upstream gave none.
        id: Cow<'a, str>,
        /// The tool's name.
        name: Cow<'a, str>,
    },
    /// A fragment of a tool call's arguments, or of a custom tool's input.
    ToolArgs {
        /// Choice index.
        choice: u32,
        /// The handle given by `ToolStart`.
        call: u32,
        /// Decoded fragment of the JSON text.
        fragment: Cow<'a, str>,
    },
    /// A fragment of a legacy `function_call`.
    FunctionCall {
        /// Choice index.
        choice: u32,
        /// The function's name, once.
        name: Option<Cow<'a, str>>,
        /// A fragment of the arguments.
        arguments: Option<Cow<'a, str>>,
    },
    /// A picture that the model made.
    Image {
        /// Choice index.
        choice: u32,
        /// The picture, whole.
        image: Image<'a>,
    },
    /// A delta member that has no event of its own (`audio`, `annotations`, …), passed on untouched.
    Extra {
        /// Choice index.
        choice: u32,
        /// Member name.
        name: &'a str,
        /// Member value.
        value: &'a RawValue,
    },
    /// A member of the answer itself (`service_tier`, `moderation`, …), passed on untouched. A later one replaces an earlier one.
    Member {
        /// Member name.
        name: &'a str,
        /// Member value.
        value: &'a RawValue,
    },
    /// A choice is complete.
    Finish {
        /// Choice index.
        choice: u32,
        /// Why.
        reason: Finish,
    },
    /// Token usage. Cumulative: a later one replaces an earlier one.
    Usage(Usage),
    /// The upstream reported a failure inside its stream.
    Error(Failure),
    /// The upstream said that the stream is over (`[DONE]`, `message_stop`, …).
    End,
}

/// Characters of sound in base64 that stand for one byte of text: compressed sound has about 1,050 of them to a token (20 tokens and 21 KiB
/// a second), uncompressed sound more.
const SOUND_PER_TEXT_BYTE: u64 = 350;

impl Event<'_> {
    /// Bytes that the model has written with it, as text of as many tokens.
    #[must_use]
    pub fn answer_bytes(&self) -> u64 {
        match self {
            Self::Text { text, .. } | Self::Reasoning { text, .. } | Self::Refusal { text, .. } => {
                text_bytes(text)
            }
            Self::ToolStart { name, .. } | Self::CustomStart { name, .. } => text_bytes(name),
            Self::ToolArgs { fragment, .. } => text_bytes(fragment),
            Self::FunctionCall { name, arguments, .. } => {
                name.as_deref().map_or(0, text_bytes) + arguments.as_deref().map_or(0, text_bytes)
            }
            Self::Image { image, .. } => image.tokens.saturating_mul(BYTES_PER_TOKEN),
            Self::Extra { name: "images", value, .. } => {
                (View::new(value.get()).elements().count() as u64) * IMAGE_TOKENS * BYTES_PER_TOKEN
            }
            // Where a text comes from: a tool or the gateway has written it, not the model.
            Self::Extra { name: "annotations", .. } => 0,
            Self::Extra { name: "audio", value, .. } => {
                (value.get().len() as u64).div_ceil(SOUND_PER_TEXT_BYTE)
            }
            Self::Extra { value, .. } => text_bytes(value.get()),
            Self::Start { .. }
            | Self::Member { .. }
            | Self::Finish { .. }
            | Self::Usage(_)
            | Self::Error(_)
            | Self::End => 0,
        }
    }

    /// The same event of a choice that stands so many places further on.
    #[must_use]
    pub fn shifted(mut self, by: u32) -> Self {
        match &mut self {
            Self::Text { choice, .. }
            | Self::Reasoning { choice, .. }
            | Self::Refusal { choice, .. }
            | Self::ToolStart { choice, .. }
            | Self::CustomStart { choice, .. }
            | Self::ToolArgs { choice, .. }
            | Self::FunctionCall { choice, .. }
            | Self::Image { choice, .. }
            | Self::Extra { choice, .. }
            | Self::Finish { choice, .. } => *choice = choice.saturating_add(by),
            Self::Start { .. } | Self::Member { .. } | Self::Usage(_) | Self::Error(_) | Self::End => {}
        }
        self
    }
}
