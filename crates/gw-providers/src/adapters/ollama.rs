//! Ollama's own API: chats at `/api/chat`, text completions with a suffix at `/api/generate`, embeddings at
//! `/api/embed`.
//!
//! Documented at docs.ollama.com/api, formerly in docs/api.md of github.com/ollama/ollama. Missing members (`truncate`,
//! `shift`, `tool_name`) are in its `api/types.go`. The `/v1` route of the same server speaks OpenAI's dialect without
//! `num_ctx`, so it silently drops the beginning of long prompts.

mod embeddings;
mod errors;
mod logprobs;
mod messages;
mod request;
mod response;
mod stream;
mod wire;

use std::borrow::Cow;

use gw_wire::conversation::Conversation;
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply};
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;

use super::http_call::{JSON, get_json, post_json};
use super::native::{self, Dialect, Native, Policy};
use crate::adapter::{
    Built, Capabilities, DialectTraits, Encoded, HttpCall, ModelListing, Reading, StreamDecoder, Target,
};
use crate::settings::{ProviderSettings, SettingsError};

/// Builds the adapter. `num_ctx_max` limits the context that a request reserves.
///
/// # Errors
/// The option is wrong.
pub(crate) fn build(settings: &ProviderSettings) -> Result<Built, SettingsError> {
    let num_ctx_max = match settings.options.get("num_ctx_max") {
        None => None,
        Some(value) => {
            let tokens = value.as_integer().and_then(|tokens| u64::try_from(tokens).ok());
            let tokens = tokens.filter(|tokens| *tokens > 0);
            Some(
                tokens
                    .ok_or(SettingsError::Option { name: "num_ctx_max", expected: "a number of tokens" })?,
            )
        }
    };
    let allows_keep_alive = settings.allowed_members().has("keep_alive");
    Ok(Built::new(Box::new(Native(Ollama { num_ctx_max, allows_keep_alive }))))
}

/// The dialect.
#[derive(Debug)]
struct Ollama {
    /// The largest `num_ctx` of a request, because the server allocates memory for all of it.
    num_ctx_max: Option<u64>,
    /// Clients may set how long a model stays in memory.
    allows_keep_alive: bool,
}

impl Ollama {
    /// The `num_ctx` of a request: the model's context, up to the operator's limit; None when neither is known.
    fn num_ctx(&self, target: &Target<'_>) -> Option<u64> {
        match (target.context_length, self.num_ctx_max) {
            (Some(context), Some(most)) => Some(context.min(most)),
            (known, most) => known.or(most),
        }
    }
}

impl Dialect for Ollama {
    const POLICY: &'static Policy = &Policy {
        // A configured key is sent to ollama.com, or to a proxy in front of a server.
        traits: DialectTraits {
            capabilities: Capabilities {
                // The last line of a stream always has the usage.
                stream_usage: true,
                suffix: true,
                image_urls: false,
                ..native::CAPABILITIES
            },
            models: Some(ModelListing { call: || get_json("/api/tags"), read: response::models }),
            classify: errors::classify,
            ..native::POLICY.traits
        },
        sends_reasoning: |_, _| true,
        ..native::POLICY
    };

    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
        request::encode(conversation, target, self.num_ctx(target), self.allows_keep_alive)
    }

    fn decode<'a>(&self, body: &'a [u8], _: &Reading) -> Result<ChatReply<'a>, Failure> {
        response::decode(body)
    }

    fn failed_usage(&self, body: &[u8], _: &Reading) -> Option<Usage> {
        response::failed_usage(body)
    }

    fn stream(&self, _: &Reading) -> Box<dyn StreamDecoder> {
        Box::new(stream::OllamaStream::default())
    }

    fn embed(
        &self,
        texts: &[Cow<'_, str>],
        request: &EmbeddingsRequest,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        Ok(embeddings::encode(texts, request, target, self.num_ctx(target)))
    }

    fn decode_embed<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        embeddings::decode(body, expected)
    }
}

/// A `POST` of a JSON body, whose response is a stream of JSON lines or one JSON document.
fn post(path: &str, body: Vec<u8>, is_stream: bool) -> HttpCall {
    post_json(path, body, if is_stream { "application/x-ndjson" } else { JSON })
}

#[cfg(test)]
mod tests;
