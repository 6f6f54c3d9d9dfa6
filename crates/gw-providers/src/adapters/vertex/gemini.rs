//! Gemini models on Vertex AI, and models that are tuned or deployed from them. They use the bodies of the `gemini`
//! adapter.

use std::borrow::Cow;

use gw_wire::conversation::{Conversation, ToolChoice};
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply};
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;

use super::embeddings;
use super::location::ProjectLocation;
use crate::adapter::{CountCall, Encoded, HttpCall, Reading, StreamDecoder, Target};
use crate::adapters::counting::{counting, picked};
use crate::adapters::gemini::flavour::Flavour;
use crate::adapters::gemini::{self, COUNT_MEMBER, method, post, request, response, stream};
use crate::adapters::native::{Dialect, Policy};

pub(super) const PUBLISHER: &str = "google";

/// Gemini on Vertex AI.
#[derive(Debug)]
pub(super) struct VertexGemini(pub(super) ProjectLocation);

impl Dialect for VertexGemini {
    const POLICY: &'static Policy = &Policy {
        // API v1, which the gateway calls, has no mode `VALIDATED` (`FunctionCallingConfig.Mode` of
        // Google.Cloud.AIPlatform.V1 3.50.0; v1beta1 has it; read 2026-11-22), so function names are allowed only with
        // `ANY`.
        names_allowed_tools: |choice| *choice == ToolChoice::Required,
        ..gemini::POLICY
    };

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
        let (method, body) = embeddings::encode(texts, target.upstream_model, request.dimensions)?;
        Ok(post(self.0.path(PUBLISHER, target.upstream_model, method), body))
    }

    fn decode_embed<'a>(&self, body: &'a [u8], _: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        embeddings::decode(body)
    }
}
