//! `POST /v1/chat/completions`: the request read and checked.

use bytes::Bytes;

use super::body::Members;
use super::member_policy::{self, Endpoint};
use super::messages::messages;
use super::options::Fields;
use super::schemas::Schemas;
use super::{Body, ChatRequest, Invalid, RequestLimits};
use crate::json::Kind;

/// Members that only have to be of a kind: what they mean is between the client and the provider.
const LIGHT: [(&str, Kind); 14] = [
    ("user", Kind::String),
    ("audio", Kind::Object),
    ("prediction", Kind::Object),
    ("web_search_options", Kind::Object),
    ("reasoning_effort", Kind::String),
    ("verbosity", Kind::String),
    ("service_tier", Kind::String),
    ("store", Kind::Boolean),
    ("metadata", Kind::Object),
    ("moderation", Kind::Object),
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
pub fn parse_chat(bytes: Bytes, limits: &RequestLimits) -> Result<ChatRequest, Invalid> {
    let members = Members::read(&bytes, limits)?;
    let fields = Fields { members: &members };
    let model = fields.model_or_first()?;
    let mut survey = messages(fields.get("messages"), limits)?;
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
    let mut schemas = Schemas::new(limits, members.schemas);
    let tool_bytes = fields.tools(&mut survey.needs, &mut schemas)?;
    fields.response_format(&mut survey.needs, &mut schemas)?;
    if survey.needs.json_schema {
        let format = fields.get("response_format").map_or(0, |format| format.text().len());
        survey.beside.bytes += format as u64;
    }
    fields.kinds(&LIGHT)?;
    survey.beside.bytes += predicted_bytes(&fields);
    fields.modalities(&mut survey.needs)?;
    let routing = fields.routing(&model)?;
    let cache = fields.cache()?;
    let other_tools = survey.needs.openai_only.is_some() || survey.needs.custom_tools;
    let references = &mut survey.references;
    let guarded =
        member_policy::survey(members.text, &members.members, Endpoint::Chat, other_tools, references);
    let (members, index) = members.without_fallbacks();
    Ok(ChatRequest {
        body: Body { bytes, members, index },
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
        references: survey.references,
        guarded,
    })
}

/// Bytes of the text that the client expects as the answer: a provider reads it with the prompt.
fn predicted_bytes(fields: &Fields<'_, '_>) -> u64 {
    let content = fields.get("prediction").and_then(|prediction| {
        let [content] = prediction.pick(["content"]);
        content
    });
    let bytes = content.map_or(0, |content| match content.kind() {
        Kind::String => content.string_len(),
        _ => content.text().len(),
    });
    bytes as u64
}

#[cfg(test)]
mod tests;
