//! Gemini models on Vertex AI, and models that are tuned or deployed from them. They use the bodies of the `gemini`
//! adapter.

use std::borrow::Cow;

use gw_wire::conversation::{self, Conversation, ToolChoice};
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply};
use gw_wire::request::EmbeddingsRequest;
use http::HeaderMap;

use super::embeddings;
use super::location::ProjectLocation;
use crate::adapter::{
    Capabilities, CountCall, Encoded, HttpCall, ListedModel, Scheme, StreamDecoder, Target,
};
use crate::adapters::counting::{counting, picked};
use crate::adapters::failure::invalid;
use crate::adapters::gemini::flavour::Flavour;
use crate::adapters::gemini::{
    CAPABILITIES, COUNT_MEMBER, contents, errors, media, method, post, request, response, stream,
};
use crate::adapters::native::Dialect;
use crate::media_sizes::MediaSizes;

const PUBLISHER: &str = "google";

/// Gemini on Vertex AI.
#[derive(Debug)]
pub(super) struct VertexGemini(pub(super) ProjectLocation);

impl Dialect for VertexGemini {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn scheme(&self) -> Scheme {
        Scheme::Bearer
    }

    fn takes_back(&self, image: &conversation::Source<'_>) -> bool {
        media::can_be_sent_back(image)
    }

    fn takes_tool_name(&self, name: &str) -> bool {
        request::is_tool_name(name)
    }

    /// API v1, which the gateway calls, has no mode `VALIDATED` (`FunctionCallingConfig.Mode` of
    /// Google.Cloud.AIPlatform.V1 3.50.0; v1beta1 has it; read 2026-11-22), so function names are allowed only with
    /// `ANY`.
    fn names_allowed_tools(&self, choice: &ToolChoice<'_>) -> bool {
        *choice == ToolChoice::Required
    }

    fn reasoning_format(&self) -> &'static str {
        contents::SIGNATURE_FORMAT
    }

    fn usual_media_sizes(&self) -> MediaSizes {
        MediaSizes::gemini()
    }

    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
        let body = request::encode(conversation, target, Flavour::Vertex)?;
        let path = self.0.path(PUBLISHER, target.upstream_model, method(conversation.stream));
        Ok(Encoded { call: post(path, body.bytes), reading: body.reading, warnings: body.warnings })
    }

    /// "Count tokens" (docs.cloud.google.com, `projects.locations.publishers.models.countTokens`).
    fn count(&self, encoded: &Encoded, target: &Target<'_>) -> Option<CountCall> {
        let path = self.0.path(PUBLISHER, target.upstream_model, "countTokens");
        Some(counting(&encoded.call, path, COUNT_MEMBER, |body| {
            let counted = picked(&encoded.call, ["contents", "systemInstruction", "tools"]);
            counted.for_each(|(name, value)| body.raw(name, value.text()));
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
        let (method, body) = embeddings::encode(texts, target.upstream_model, request.dimensions)?;
        Ok(post(self.0.path(PUBLISHER, target.upstream_model, method), body))
    }

    fn decode_embed<'a>(&self, body: &'a [u8], _: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        embeddings::decode(body)
    }

    fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        errors::classify(status, headers, body)
    }

    fn list_models(&self) -> Option<HttpCall> {
        None
    }

    fn decode_models(&self, _: &[u8]) -> Result<Vec<ListedModel>, Failure> {
        Err(invalid("this provider has no list of its models"))
    }
}
