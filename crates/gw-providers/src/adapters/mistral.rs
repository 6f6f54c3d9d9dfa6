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

use std::borrow::Cow;

use gw_wire::conversation::Conversation;
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply};
use gw_wire::request::EmbeddingsRequest;
use http::HeaderMap;

use super::native::{self, Dialect, Native};
use super::openai::OpenAi;
use crate::adapter::{
    Adapter, Built, Capabilities, Encoded, HttpCall, ListedModel, Reading, Scheme, StreamDecoder, Target,
};
use crate::media_sizes::MediaSizes;
use crate::presets::Quirks;
use crate::settings::{ProviderSettings, SettingsError};

/// The most choices of one call: the most that a client may ask for. The reference gives no bound.
const MAX_CHOICES: u32 = 128;

/// Builds the adapter. It has no options of its own.
///
/// # Errors
/// None today.
#[expect(clippy::unnecessary_wraps, reason = "the constructors of all adapters have one form")]
pub(crate) fn build(settings: &ProviderSettings) -> Result<Built, SettingsError> {
    Ok(Built::new(Box::new(Native(Mistral { answers: OpenAi::new(Quirks::of(settings)) }))))
}

/// The dialect.
#[derive(Debug)]
struct Mistral {
    /// Reads the answers.
    answers: OpenAi,
}

impl Dialect for Mistral {
    fn capabilities(&self) -> Capabilities {
        // The last chunk of a stream always has the usage.
        Capabilities { suffix: true, stream_usage: true, choices: MAX_CHOICES, ..native::CAPABILITIES }
    }

    fn scheme(&self) -> Scheme {
        Scheme::Bearer
    }

    fn keeps(&self) -> &'static [&'static str] {
        &["prediction"]
    }

    fn usual_media_sizes(&self) -> MediaSizes {
        MediaSizes::mistral()
    }

    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
        request::encode(conversation, target)
    }

    fn decode<'a>(&self, body: &'a [u8]) -> Result<ChatReply<'a>, Failure> {
        let mut reply = self.answers.decode_chat(body, &Reading::default())?;
        response::add_order(body, &mut reply);
        Ok(reply)
    }

    fn stream(&self) -> Box<dyn StreamDecoder> {
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

    fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        self.answers.classify(status, headers, body)
    }

    fn list_models(&self) -> Option<HttpCall> {
        self.answers.list_models()
    }

    fn decode_models(&self, body: &[u8]) -> Result<Vec<ListedModel>, Failure> {
        self.answers.decode_models(body)
    }
}

#[cfg(test)]
mod tests;
