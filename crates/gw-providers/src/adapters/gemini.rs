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
mod logprobs;
pub(super) mod media;
mod object_splitter;
pub(super) mod path;
pub(super) mod request;
pub(super) mod response;
mod schema;
pub(super) mod stream;
mod thinking;
mod usage;
mod wire;

use std::borrow::Cow;

use gw_wire::conversation::{Conversation, Source, ToolChoice};
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply};
use gw_wire::request::EmbeddingsRequest;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use serde::Deserialize;

use self::flavour::Flavour;
use self::path::encoded_path;
use super::counting::{counting, picked};
use super::failure::invalid_json;
use super::model_list::ModelList;
use super::native::{Dialect, Native};
use crate::adapter::{
    Built, Capabilities, CountCall, Encoded, HttpCall, ListedModel, Scheme, StreamDecoder, Target,
};
use crate::media_sizes::MediaSizes;
use crate::settings::{ProviderSettings, SettingsError};

/// The capabilities of both services. They give one choice per request: every Gemini 3 model refuses a `candidateCount`
/// above 1 ("Multiple candidates is not enabled for this model", googleapis/js-genai#1609), and so do streams.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    openai_fields: false,
    suffix: false,
    token_prompts: false,
    stream_usage: true,
    image_urls: true,
    choices: 1,
    prompts: 1,
    max_tools: None,
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
    Ok(Built::new(Box::new(Native(Gemini))))
}

/// The adapter for tests.
#[cfg(test)]
pub(crate) fn adapter() -> Box<dyn crate::adapter::Adapter> {
    Box::new(Native(Gemini))
}

/// Returns a POST request with a JSON body.
pub(super) fn post(path: String, body: impl Into<bytes::Bytes>) -> HttpCall {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    HttpCall { method: Method::POST, path, headers, body: body.into() }
}

/// Returns the method of a model that a chat calls.
pub(super) fn method(is_stream: bool) -> &'static str {
    if is_stream { "streamGenerateContent?alt=sse" } else { "generateContent" }
}

/// Returns the resource name: `models/…`, or the name itself if it already is a resource name (`tunedModels/…`).
fn resource(upstream_model: &str) -> String {
    if upstream_model.starts_with("models/") || upstream_model.starts_with("tunedModels/") {
        return upstream_model.to_owned();
    }
    format!("models/{upstream_model}")
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

impl Dialect for Gemini {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn scheme(&self) -> Scheme {
        // A key in a query parameter would appear in logs.
        Scheme::Header("x-goog-api-key")
    }

    fn keeps(&self) -> &'static [&'static str] {
        &[request::SEARCH]
    }

    fn takes_back(&self, image: &Source<'_>) -> bool {
        media::can_be_sent_back(image)
    }

    fn takes_tool_name(&self, name: &str) -> bool {
        request::is_tool_name(name)
    }

    fn names_allowed_tools(&self, _: &ToolChoice<'_>) -> bool {
        true
    }

    fn reasoning_format(&self) -> &'static str {
        contents::SIGNATURE_FORMAT
    }

    fn usual_media_sizes(&self) -> MediaSizes {
        MediaSizes::gemini()
    }

    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
        let body = request::encode(conversation, target, Flavour::AiStudio)?;
        let resource = encoded_path(&resource(target.upstream_model));
        let path = format!("/v1beta/{resource}:{}", method(conversation.stream));
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

    fn decode<'a>(&self, body: &'a [u8]) -> Result<ChatReply<'a>, Failure> {
        response::decode(body)
    }

    fn stream(&self) -> Box<dyn StreamDecoder> {
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

    fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        errors::classify(status, headers, body)
    }

    fn list_models(&self) -> Option<HttpCall> {
        Some(HttpCall {
            method: Method::GET,
            path: "/v1beta/models?pageSize=1000".to_owned(),
            headers: HeaderMap::new(),
            body: bytes::Bytes::new(),
        })
    }

    fn decode_models(&self, body: &[u8]) -> Result<Vec<ListedModel>, Failure> {
        let list: Models = serde_json::from_slice(body).map_err(|fault| invalid_json(&fault))?;
        let mut models = ModelList::default();
        for Listed { name } in &list.models {
            models.add(name.strip_prefix("models/").unwrap_or(name), None);
        }
        Ok(models.into_models())
    }
}

#[cfg(test)]
mod tests;
