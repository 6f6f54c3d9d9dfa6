//! `POST /v1/chat/completions`: the request read and checked.

use bytes::Bytes;

use super::body::Members;
use super::messages::messages;
use super::options::Fields;
use super::{Body, ChatRequest, Invalid};
use crate::json::Kind;

/// Members that only have to be of a kind: what they mean is between the client and the provider.
const LIGHT: [(&str, Kind); 13] = [
    ("user", Kind::String),
    ("audio", Kind::Object),
    ("prediction", Kind::Object),
    ("web_search_options", Kind::Object),
    ("reasoning_effort", Kind::String),
    ("verbosity", Kind::String),
    ("service_tier", Kind::String),
    ("store", Kind::Boolean),
    ("metadata", Kind::Object),
    ("prompt_cache_key", Kind::String),
    ("prompt_cache_options", Kind::Object),
    ("prompt_cache_retention", Kind::String),
    ("safety_identifier", Kind::String),
];

/// Reads and checks a chat request. The first fault is reported: the body as JSON, `model`, `messages`, then the
/// parameters in the order of CONTRACT 1.4.
///
/// # Errors
/// The fault, with its code of CONTRACT 1.3.
pub fn parse_chat(bytes: Bytes) -> Result<ChatRequest, Invalid> {
    let members = Members::read(&bytes)?;
    let fields = Fields { members: &members };
    let model = fields.model()?;
    let mut survey = messages(fields.get("messages"))?;
    fields.sampling()?;
    let n = fields.choices()?;
    let max_tokens = fields.tokens("max_tokens")?;
    let max_completion_tokens = fields.tokens("max_completion_tokens")?;
    fields.stop()?;
    let stream = fields.boolean("stream")?;
    let include_usage = fields.include_usage()?;
    fields.integer("seed", &(i64::MIN..=i64::MAX))?;
    fields.boolean("logprobs")?;
    fields.integer("top_logprobs", &(0..=20))?;
    let tool_bytes = fields.tools(&mut survey.needs)?;
    fields.response_format(&mut survey.needs)?;
    if survey.needs.json_schema {
        let format = fields.get("response_format").map_or(0, |format| format.text().len());
        survey.beside.bytes += format as u64;
    }
    fields.kinds(&LIGHT)?;
    fields.modalities(&mut survey.needs)?;
    let routing = fields.routing(&model)?;
    let cache = fields.cache()?;
    let members = members.members;
    Ok(ChatRequest {
        body: Body { bytes, members },
        model,
        stream,
        include_usage,
        n,
        max_tokens: max_completion_tokens.or(max_tokens),
        routing,
        cache,
        needs: survey.needs,
        prompt_bytes: survey.bytes + tool_bytes,
        beside: survey.beside,
    })
}

#[cfg(test)]
mod tests;
