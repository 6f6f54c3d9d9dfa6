//! The events that every provider's stream is translated into and that the normaliser consumes.

pub mod log;

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::dialects::client_dialect::ClientDialect;
use crate::failure::Failure;
use crate::json::View;
use crate::reply::{Finish, Image};
use crate::usage::{BYTES_PER_TOKEN, IMAGE_TOKENS, Usage, text_bytes};

/// The name of an [`Event::Extra`] with a partial image of a stream of images.
pub const PARTIAL_IMAGE: &str = "image_generation.partial_image";
/// Image tokens of a partial image (GPT Image at platform.openai.com/docs/guides/image-generation, November 2026).
pub const PARTIAL_IMAGE_TOKENS: u64 = 100;
/// The name of an [`Event::Extra`] with a complete image of a stream of images.
pub const COMPLETED_IMAGE: &str = "image_generation.completed";

/// The name of an [`Event::Extra`] with a segment of a transcript, such as the words of one speaker.
pub const TRANSCRIPT_SEGMENT: &str = "transcript.text.segment";
/// The name of an [`Event::Extra`] with the complete transcript.
pub const TRANSCRIPT_DONE: &str = "transcript.text.done";

/// One event of an upstream's stream. It borrows from the upstream's frame, so no chunk is copied.
#[derive(Debug)]
pub enum Event<'a> {
    /// The upstream's metadata. May come several times; the first known value of each field counts.
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
    /// A piece of the model's reasoning. An empty piece says that the model works out of sight: its reasoning is not
    /// shown, or the provider runs a tool.
    Reasoning {
        /// Choice index.
        choice: u32,
        /// Decoded text, may be empty.
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
        /// The decoder's own number of this call within the choice; the normaliser assigns the client's index.
        call: u32,
        /// The call's id, empty when the upstream sent none.
        id: Cow<'a, str>,
        /// The function's name.
        name: Cow<'a, str>,
    },
    /// A call of a custom tool begins. Fragments of its input follow as `ToolArgs`.
    CustomStart {
        /// Choice index.
        choice: u32,
        /// As in `ToolStart`.
        call: u32,
        /// The call's id, empty when the upstream sent none.
        id: Cow<'a, str>,
        /// The tool's name.
        name: Cow<'a, str>,
    },
    /// A fragment of a tool call's arguments, or of a custom tool's input.
    ToolArgs {
        /// Choice index.
        choice: u32,
        /// The number given in `ToolStart`.
        call: u32,
        /// Decoded fragment of the JSON text.
        fragment: Cow<'a, str>,
    },
    /// A fragment of a legacy `function_call`.
    FunctionCall {
        /// Choice index.
        choice: u32,
        /// The function's name. The first one counts.
        name: Option<Cow<'a, str>>,
        /// A fragment of the arguments.
        arguments: Option<Cow<'a, str>>,
    },
    /// A generated image.
    Image {
        /// Choice index.
        choice: u32,
        /// The complete image.
        image: Image<'a>,
    },
    /// A piece of a sound file.
    Sound(&'a [u8]),
    /// A member of a delta without an event of its own (`audio`, `annotations`, …), forwarded unchanged.
    Extra {
        /// Choice index.
        choice: u32,
        /// Member name.
        name: &'a str,
        /// Member value.
        value: &'a RawValue,
    },
    /// A member of the answer itself (`service_tier`, `moderation`, …), forwarded unchanged. A later value replaces an earlier one.
    Member {
        /// Member name.
        name: &'a str,
        /// Member value.
        value: &'a RawValue,
    },
    /// An event of an upstream that speaks the client's own dialect, for that client alone. The other events of its
    /// content follow it.
    Frame {
        /// The dialect of the upstream and of the client.
        dialect: ClientDialect,
        /// The `event` of the server-sent event.
        name: &'a str,
        /// Its data: JSON without line breaks.
        data: &'a str,
    },
    /// The size of a text that the model wrote and that no other event holds, such as what it asks of a tool that the
    /// provider runs. It only counts: a client that sees the text has it in a frame.
    Written {
        /// The bytes, as [`text_bytes`] counts them.
        bytes: u64,
    },
    /// A choice is complete.
    Finish {
        /// Choice index.
        choice: u32,
        /// The finish reason.
        reason: Finish,
    },
    /// Token usage so far. A later value replaces an earlier one.
    Usage(Usage),
    /// The upstream reported a failure inside its stream.
    Error(Failure),
    /// The upstream's end marker (`[DONE]`, `message_stop`, …).
    End,
}

/// Base64 characters of audio that count as one byte of text. Compressed audio has about 1,050 characters per token (20 tokens and
/// 21 KiB a second), uncompressed audio more.
pub const AUDIO_CHARS_PER_TEXT_BYTE: u64 = 350;

/// The beginning of every string that the gateway seals, with the version of the format.
pub const SEAL_PREFIX: &str = "gw1.";

/// The format of the entries of `reasoning_details` that hold Gemini's signatures.
pub const GEMINI_SIGNATURES: &str = "google-gemini-v1";

/// The bytes that a seal of the gateway adds to a string, before base64: the nonce, the tag, and the names of the target.
const SEAL_OVERHEAD_BYTES: usize = 128;

/// The size of encrypted thoughts in the entries of `reasoning_details`. Readable thoughts have events of their own, which count, and
/// a signature is no text of the model.
fn encrypted_bytes(details: View<'_>) -> u64 {
    let bytes = |entry: View<'_>| {
        let [data, format] = entry.pick(["data", "format"]);
        let is_signature = format.and_then(View::string).is_some_and(|format| format == GEMINI_SIGNATURES);
        let data = data.filter(|_| !is_signature)?;
        let len = data.string_len();
        let is_sealed = data.string().is_some_and(|data| data.starts_with(SEAL_PREFIX));
        Some(if is_sealed { (len / 4 * 3).saturating_sub(SEAL_OVERHEAD_BYTES) } else { len } as u64)
    };
    details.elements().filter_map(bytes).sum()
}

/// The size of readable thoughts in the entries of `reasoning_details`, for an answer that has them nowhere else.
#[must_use]
pub fn thought_bytes(details: View<'_>) -> u64 {
    let texts = details.elements().flat_map(|entry| entry.pick(["text", "summary"]));
    texts.flatten().filter_map(View::string).map(|text| text_bytes(&text)).sum()
}

/// The size of a piece of spoken audio. It has sound in base64 or the words that are spoken, which are tokens beside the sound.
fn spoken_bytes(value: View<'_>) -> u64 {
    let [data, words] = value.pick(["data", "transcript"]);
    let sound = data.map_or(0, |data| data.string_len() as u64);
    sound.div_ceil(AUDIO_CHARS_PER_TEXT_BYTE)
        + words.and_then(View::string).map_or(0, |words| text_bytes(&words))
}

impl Event<'_> {
    /// The size of the generated content, in bytes of text that stand for as many tokens.
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
            // Annotations come from a tool or from the gateway; the model did not generate them.
            Self::Extra { name: "annotations", .. } => 0,
            // The bytes of a file say nothing about its tokens. The usage counts complete images.
            Self::Extra { name: PARTIAL_IMAGE, .. } => PARTIAL_IMAGE_TOKENS * BYTES_PER_TOKEN,
            Self::Extra { name: COMPLETED_IMAGE, .. } => 0,
            // The text counts by itself, and sound by its duration.
            Self::Extra { name: TRANSCRIPT_SEGMENT | TRANSCRIPT_DONE, .. } => 0,
            Self::Extra { name: "reasoning_details", value, .. } => encrypted_bytes(View::new(value.get())),
            Self::Extra { name: "audio", value, .. } => spoken_bytes(View::new(value.get())),
            Self::Extra { value, .. } => text_bytes(value.get()),
            Self::Written { bytes } => *bytes,
            Self::Start { .. }
            | Self::Sound(_)
            | Self::Member { .. }
            | Self::Frame { .. }
            | Self::Finish { .. }
            | Self::Usage(_)
            | Self::Error(_)
            | Self::End => 0,
        }
    }

    /// Returns the event with `offset` added to its choice index.
    #[must_use]
    pub fn with_choice_offset(mut self, offset: u32) -> Self {
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
            | Self::Finish { choice, .. } => *choice = choice.saturating_add(offset),
            Self::Start { .. }
            | Self::Sound(_)
            | Self::Member { .. }
            | Self::Frame { .. }
            | Self::Written { .. }
            | Self::Usage(_)
            | Self::Error(_)
            | Self::End => {}
        }
        self
    }
}
