//! Anthropic's Messages API, documented at platform.claude.com.

mod content;
pub(super) mod details;
pub(super) mod errors;
pub(super) mod forward;
pub(super) mod messages;
mod open_blocks;
pub(super) mod request;
pub(super) mod response;
pub(super) mod schema;
pub(super) mod stream;
pub(super) mod thinking;
mod tools;
mod usage;
mod wire;

use bytes::Bytes;
use gw_wire::conversation::Conversation;
use gw_wire::dialects::{ClientDialect, ClientRequest};
use gw_wire::failure::Failure;
use gw_wire::reply::ChatReply;
use gw_wire::request::ChatRequest;
use gw_wire::usage::Usage;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;

use self::request::MessagesHost;
pub(crate) use self::usage::AnthropicUsage;
use super::counting::{self, counting, picked};
use super::http_call::post_streamable;
use super::model_list::ModelList;
use super::native::{self, Dialect, Native, Policy};
use super::tool_names::is_claude_name;
use super::{breakpoints, failure};
use crate::adapter::{
    Built, Capabilities, CountCall, DialectTraits, Encoded, HttpCall, ListedModel, ModelListing, Reading,
    Scheme, StreamDecoder, Target,
};
use crate::media_sizes::MediaSizes;
use crate::settings::{ProviderSettings, SettingsError};

/// The API version, sent as a header of every request.
const VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));

/// The path of the model list, with the largest page size that the API takes.
const MODELS_PATH: &str = "/v1/models?limit=1000";

/// The member of a count with the number of tokens.
pub(super) const COUNT_MEMBER: &str = "input_tokens";

/// The members of a body that count ("Count tokens in a Message" at platform.claude.com, November 2026).
pub(super) const COUNTED: [&str; 6] =
    ["system", "messages", "tools", "tool_choice", "thinking", "output_config"];

/// The traits of the Messages API, at Anthropic and at other hosts.
pub(super) const POLICY: Policy = Policy {
    traits: DialectTraits {
        capabilities: Capabilities { stream_usage: true, ..native::CAPABILITIES },
        media_sizes: MediaSizes::claude(),
        classify: errors::classify,
        ..native::POLICY.traits
    },
    takes_tool_name: is_claude_name,
    reasoning_format: details::FORMAT,
    ..native::POLICY
};

/// The dialect of Anthropic's own service.
#[derive(Clone, Copy, Debug, Default)]
struct Anthropic;

/// Builds the adapter. It has no options of its own.
///
/// # Errors
/// None today.
#[expect(clippy::unnecessary_wraps, reason = "the constructors of all adapters have one form")]
pub(crate) fn build(_: &ProviderSettings) -> Result<Built, SettingsError> {
    Ok(Built::new(Box::new(Native(Anthropic))))
}

/// The adapter for tests.
#[cfg(test)]
pub(crate) fn adapter() -> Box<dyn crate::adapter::Adapter> {
    Box::new(Native(Anthropic))
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(VERSION.0, VERSION.1);
    headers
}

fn list_models() -> HttpCall {
    HttpCall {
        method: Method::GET,
        path: MODELS_PATH.to_owned(),
        headers: headers(),
        body: Bytes::new(),
        upload: None,
    }
}

fn models(body: &[u8]) -> Result<Vec<ListedModel>, Failure> {
    let value: Value = serde_json::from_slice(body).map_err(|fault| failure::invalid_json(&fault))?;
    let list = value.get("data").and_then(Value::as_array);
    let list = list.ok_or_else(|| failure::invalid("the body has no list of models"))?;
    let mut models = ModelList::default();
    for id in list.iter().filter_map(|model| model.get("id")?.as_str()) {
        models.add(id, None);
    }
    Ok(models.into_models())
}

/// A new decoder of the Messages API's streams.
pub(super) fn decoder(reading: &Reading) -> Box<dyn StreamDecoder> {
    let is_native = reading.is_native;
    let state = is_native.then(stream::AnthropicStreamState::native).unwrap_or_default();
    Box::new(stream::AnthropicStream::new(state))
}

impl Dialect for Anthropic {
    const POLICY: &'static Policy = &Policy {
        traits: DialectTraits {
            scheme: Scheme::Header("x-api-key"),
            models: Some(ModelListing { call: list_models, read: models }),
            ..POLICY.traits
        },
        ..POLICY
    };

    fn speaks(&self, dialect: ClientDialect, _: &Target<'_>) -> bool {
        dialect == ClientDialect::Messages
    }

    fn count(&self, encoded: &Encoded, _: &Target<'_>) -> Option<CountCall> {
        let path = "/v1/messages/count_tokens".to_owned();
        if encoded.reading.is_native {
            let call = HttpCall { path, headers: counting::headers(&encoded.call), ..encoded.call.clone() };
            return Some(CountCall { call, member: COUNT_MEMBER });
        }
        Some(counting(&encoded.call, path, COUNT_MEMBER, |body| {
            picked(&encoded.call, ["model"]).chain(picked(&encoded.call, COUNTED)).for_each(
                |(name, value)| {
                    body.raw(name, value.text());
                },
            );
        }))
    }

    fn forward(&self, request: &ChatRequest, client: &ClientRequest, target: &Target<'_>) -> Option<Encoded> {
        let encoded = forward::encode(request, client, target)?;
        Some(breakpoints::mark_messages(encoded, target, true))
    }

    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
        let encoded = request::encode(conversation, target, MessagesHost::Anthropic)?;
        let mut call = post_streamable("/v1/messages", encoded.body, conversation.stream);
        call.headers.insert(VERSION.0, VERSION.1);
        let encoded = Encoded { call, reading: encoded.reading, warnings: encoded.warnings };
        Ok(breakpoints::mark_messages(encoded, target, true))
    }

    fn decode<'a>(&self, body: &'a [u8], _: &Reading) -> Result<ChatReply<'a>, Failure> {
        response::decode(body)
    }

    fn failed_usage(&self, body: &[u8], _: &Reading) -> Option<Usage> {
        response::failed_usage(body)
    }

    fn stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
        decoder(reading)
    }
}

#[cfg(test)]
mod tests;
