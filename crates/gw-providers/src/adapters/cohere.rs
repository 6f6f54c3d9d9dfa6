//! Cohere's own API: chats at `/v2/chat`, embeddings at `/v2/embed`, rankings at `/v2/rerank`.
//!
//! Documented at docs.cohere.com: "Chat" (`/reference/chat`), "Chat with Streaming" (`/reference/chat-stream`), "Embed"
//! (`/reference/embed`), "List Models" (`/reference/list-models`), "HTTP status codes" (`/reference/errors`); the
//! events of streams at `/docs/streaming` and `/docs/tool-use-streaming`. A body is written member by member, so it
//! holds only members of the reference.

mod embeddings;
mod errors;
mod finish;
mod logprobs;
mod messages;
mod request;
mod rerank;
mod response;
mod stream;
mod usage;
mod wire;

use std::borrow::Cow;

use gw_wire::conversation::Conversation;
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply};
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;

use super::http_call::get_json;
use super::native::{self, Dialect, Native, Policy};
use super::tool_names;
use crate::adapter::{
    Built, Capabilities, DialectTraits, Encoded, HttpCall, ModelListing, Reading, StreamDecoder, Target,
};
use crate::settings::{ProviderSettings, SettingsError};
use crate::surfaces::Surfaces;

/// Builds the adapter. It has no options of its own.
///
/// # Errors
/// None today.
#[expect(clippy::unnecessary_wraps, reason = "the constructors of all adapters have one form")]
pub(crate) fn build(_: &ProviderSettings) -> Result<Built, SettingsError> {
    let surfaces = Surfaces { rerank: Some(Box::new(rerank::CohereRerank)), ..Surfaces::default() };
    Ok(Built { surfaces, ..Built::new(Box::new(Native(Cohere))) })
}

/// The adapter for tests.
#[cfg(test)]
pub(crate) fn adapter() -> Box<dyn crate::adapter::Adapter> {
    Box::new(Native(Cohere))
}

/// The dialect.
#[derive(Debug)]
struct Cohere;

/// "Valid names contain only the characters a-z, A-Z, 0-9, _ and must not begin with a digit" (`Tool` of cohere 7.3.1, for
/// API v1; `ToolV2Function` gives no rule; read 2026-11-22).
fn takes_tool_name(name: &str) -> bool {
    tool_names::is_word(name)
        && !name.contains('-')
        && !name.starts_with(|first: char| first.is_ascii_digit())
}

/// The largest page; the default is twenty models.
fn list_models() -> HttpCall {
    get_json("/v1/models?page_size=1000")
}

impl Dialect for Cohere {
    const POLICY: &'static Policy = &Policy {
        traits: DialectTraits {
            // The last event of a stream always has the usage.
            capabilities: Capabilities { stream_usage: true, ..native::CAPABILITIES },
            models: Some(ModelListing { call: list_models, read: response::models }),
            classify: errors::classify,
            ..native::POLICY.traits
        },
        sends_reasoning: messages::sends_reasoning,
        takes_tool_name,
        demands_results: true,
        ..native::POLICY
    };

    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
        request::encode(conversation, target)
    }

    fn decode<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure> {
        response::decode(body, reading.only_stop.as_deref())
    }

    fn failed_usage(&self, body: &[u8], _: &Reading) -> Option<Usage> {
        response::failed_usage(body)
    }

    fn stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
        Box::new(stream::decoder(reading.only_stop.clone()))
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
        embeddings::decode(body, expected)
    }
}

#[cfg(test)]
mod tests;
