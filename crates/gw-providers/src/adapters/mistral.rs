//! Mistral's La Plateforme: OpenAI's format with a strict validator.
//!
//! Documented in Mistral's API reference (docs.mistral.ai/api): Chat Completion, Fill-in-the-middle Completion,
//! Embeddings, List Models. The models of the official clients (`ChatCompletionRequest`, `FIMCompletionRequest`,
//! `ContentChunk`) are generated from the same specification. An unknown member is refused with 422 `extra_forbidden`,
//! at the top level and inside messages and tools. A body is therefore written member by member. Answers have OpenAI's
//! format, except that `content` may be a list of `text` and `thinking` parts. OpenAI's reader reads both.

mod embeddings;
mod messages;
mod request;
mod response;
mod stream;
mod transcription;

use std::borrow::Cow;

use gw_wire::conversation::Conversation;
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply};
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;

use super::native::{self, Dialect, Native, Policy};
use super::openai::moderation::OpenAiModeration;
use super::openai::{self, OpenAi};
use crate::adapter::{
    Adapter, Built, Capabilities, DialectTraits, Encoded, HttpCall, Reading, StreamDecoder, Target,
};
use crate::media_sizes::MediaSizes;
use crate::presets::Quirks;
use crate::settings::{ProviderSettings, SettingsError};
use crate::surfaces::Surfaces;

/// The most choices of one call: the most that a client may ask for. The reference gives no bound.
const MAX_CHOICES: u32 = 128;

/// Builds the adapter. It has no options of its own.
///
/// # Errors
/// None today.
#[expect(clippy::unnecessary_wraps, reason = "the constructors of all adapters have one form")]
pub(crate) fn build(settings: &ProviderSettings) -> Result<Built, SettingsError> {
    let adapter = Native(Mistral { answers: OpenAi::new(Quirks::of(settings)) });
    let surfaces = Surfaces {
        moderation: Some(Box::new(OpenAiModeration)),
        transcription: Some(Box::new(transcription::Voxtral)),
        ..Surfaces::default()
    };
    Ok(Built { surfaces, ..Built::new(Box::new(adapter)) })
}

/// The dialect.
#[derive(Debug)]
struct Mistral {
    /// Reads the answers.
    answers: OpenAi,
}

impl Dialect for Mistral {
    const POLICY: &'static Policy = &Policy {
        traits: DialectTraits {
            // The last chunk of a stream always has the usage.
            capabilities: Capabilities {
                suffix: true,
                stream_usage: true,
                choices: MAX_CHOICES,
                ..native::CAPABILITIES
            },
            media_sizes: MediaSizes::mistral(),
            models: Some(openai::MODELS),
            ..native::POLICY.traits
        },
        keeps: &["prediction"],
        sends_reasoning: |_, _| true,
        demands_results: true,
        ..native::POLICY
    };

    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
        request::encode(conversation, target)
    }

    fn decode<'a>(&self, body: &'a [u8], _: &Reading) -> Result<ChatReply<'a>, Failure> {
        let mut reply = self.answers.decode_chat(body, &Reading::default())?;
        response::add_order(body, &mut reply);
        Ok(reply)
    }

    fn failed_usage(&self, body: &[u8], _: &Reading) -> Option<Usage> {
        self.answers.failed_usage(body, &Reading::default())
    }

    fn stream(&self, _: &Reading) -> Box<dyn StreamDecoder> {
        let inner = self.answers.locating_stream();
        Box::new(stream::OrderedStream { inner, orders: stream::ChoiceOrders::default() })
    }

    fn embed(
        &self,
        texts: &[Cow<'_, str>],
        request: &EmbeddingsRequest,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        Ok(embeddings::encode(texts, request, target))
    }

    fn decode_embed<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        self.answers.decode_embeddings(body, expected)
    }
}

#[cfg(test)]
mod tests;
