//! Google's `generateContent` API as AI Studio serves it: <https://ai.google.dev/api/generate-content>. Vertex AI takes
//! the same bodies at other addresses, see `vertex`.
//!
//! The adapter sends no safety settings, so the provider's defaults apply.

pub(super) mod candidate;
pub(super) mod contents;
pub(super) mod embeddings;
pub(super) mod errors;
pub(super) mod flavour;
mod grounding;
pub(super) mod images;
mod inline;
mod logprobs;
pub(super) mod media;
mod object_splitter;
pub(super) mod path;
pub(super) mod request;
pub(super) mod response;
mod schema;
pub(super) mod speech;
pub(super) mod stream;
mod thinking;
pub(super) mod transcription;
mod usage;
mod wire;

use std::borrow::Cow;

use gw_wire::conversation::Conversation;
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply};
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;
use http::{HeaderMap, Method};
use serde::Deserialize;

use self::flavour::Flavour;
use self::images::GeminiImages;
use self::path::{AiStudio, ModelPaths, encoded_path, resource};
pub(super) use self::path::{method, post};
use self::speech::GeminiSpeech;
use self::transcription::GeminiTranscription;
use super::counting::{counting, picked};
use super::failure::invalid_json;
use super::model_list::ModelList;
use super::native::{self, Dialect, Native, Policy};
use crate::adapter::{
    Built, Capabilities, CountCall, DialectTraits, Encoded, HttpCall, ListedModel, ModelListing, Reading,
    Scheme, StreamDecoder, Target,
};
use crate::media_sizes::MediaSizes;
use crate::settings::{ProviderSettings, SettingsError};
use crate::surfaces::Surfaces;

/// The capabilities of both services. They give one choice per request: every Gemini 3 model refuses a `candidateCount`
/// above 1 ("Multiple candidates is not enabled for this model", googleapis/js-genai#1609), and so do streams.
const CAPABILITIES: Capabilities = Capabilities {
    openai_fields: false,
    suffix: false,
    token_prompts: false,
    stream_usage: true,
    image_urls: true,
    choices: 1,
    prompts: 1,
    max_tools: None,
};

/// The traits that both services share.
const TRAITS: DialectTraits = DialectTraits {
    capabilities: CAPABILITIES,
    media_sizes: MediaSizes::gemini(),
    classify: errors::classify,
    ..native::POLICY.traits
};

/// The policy that both services share.
pub(super) const POLICY: Policy = Policy {
    traits: TRAITS,
    takes_back: media::can_be_sent_back,
    takes_tool_name: request::is_tool_name,
    reasoning_format: contents::SIGNATURE_FORMAT,
    ..native::POLICY
};

/// The member of a count with the number of tokens.
pub(super) const COUNT_MEMBER: &str = "totalTokens";

/// The AI Studio dialect.
#[derive(Debug)]
struct Gemini;

/// Builds the adapter. It has no options of its own.
///
/// # Errors
/// None today.
#[expect(clippy::unnecessary_wraps, reason = "the constructors of all adapters have one form")]
pub(crate) fn build(_: &ProviderSettings) -> Result<Built, SettingsError> {
    let surfaces = Surfaces {
        images: Some(Box::new(GeminiImages(AiStudio))),
        speech: Some(Box::new(GeminiSpeech(AiStudio))),
        transcription: Some(Box::new(GeminiTranscription(AiStudio))),
        ..Surfaces::default()
    };
    Ok(Built { surfaces, ..Built::new(Box::new(Native(Gemini))) })
}

/// The adapter for tests.
#[cfg(test)]
pub(crate) fn adapter() -> Box<dyn crate::adapter::Adapter> {
    Box::new(Native(Gemini))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Models {
    models: Vec<Listed>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Listed {
    name: String,
}

fn list_models() -> HttpCall {
    HttpCall {
        method: Method::GET,
        path: "/v1beta/models?pageSize=1000".to_owned(),
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
        upload: None,
    }
}

fn models(body: &[u8]) -> Result<Vec<ListedModel>, Failure> {
    let list: Models = serde_json::from_slice(body).map_err(|fault| invalid_json(&fault))?;
    let mut models = ModelList::default();
    for Listed { name } in &list.models {
        models.add(name.strip_prefix("models/").unwrap_or(name), None);
    }
    Ok(models.into_models())
}

impl Dialect for Gemini {
    const POLICY: &'static Policy = &Policy {
        traits: DialectTraits {
            // A key in a query parameter would appear in logs.
            scheme: Scheme::Header("x-goog-api-key"),
            models: Some(ModelListing { call: list_models, read: models }),
            ..TRAITS
        },
        keeps: &[request::SEARCH],
        names_allowed_tools: |_| true,
        ..POLICY
    };

    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
        let body = request::encode(conversation, target, Flavour::AiStudio)?;
        let path = AiStudio.method_path(target.upstream_model, method(conversation.stream));
        Ok(Encoded { call: post(path, body.bytes), reading: body.reading, warnings: body.warnings })
    }

    /// `models.countTokens` (ai.google.dev/api/tokens): the whole request, with the name of the model.
    fn count(&self, encoded: &Encoded, target: &Target<'_>) -> Option<CountCall> {
        let resource = resource(target.upstream_model);
        let path = format!("/v1beta/{}:countTokens", encoded_path(&resource));
        Some(counting(&encoded.call, path, COUNT_MEMBER, |body| {
            body.object("generateContentRequest", |request| {
                request.string("model", &resource);
                let counted = picked(&encoded.call, ["contents", "systemInstruction", "tools", "toolConfig"]);
                counted.for_each(|(name, value)| request.raw(name, value.text()));
            });
        }))
    }

    fn decode<'a>(&self, body: &'a [u8], _: &Reading) -> Result<ChatReply<'a>, Failure> {
        response::decode(body)
    }

    fn failed_usage(&self, body: &[u8], _: &Reading) -> Option<Usage> {
        response::failed_usage(body)
    }

    fn stream(&self, _: &Reading) -> Box<dyn StreamDecoder> {
        Box::new(stream::GeminiStream::default())
    }

    fn embed(
        &self,
        texts: &[Cow<'_, str>],
        request: &EmbeddingsRequest,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let resource = resource(target.upstream_model);
        let body = embeddings::encode(texts, &resource, request.dimensions)?;
        Ok(post(format!("/v1beta/{}:batchEmbedContents", encoded_path(&resource)), body))
    }

    fn decode_embed<'a>(&self, body: &'a [u8], _: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        embeddings::decode(body)
    }
}

/// Reads a `usageMetadata` of an answer that passes through; None without counts.
pub(crate) fn read_usage(text: &str) -> Option<Usage> {
    serde_json::from_str::<usage::UsageMetadata<'_>>(text).ok()?.usage()
}

#[cfg(test)]
mod tests;
