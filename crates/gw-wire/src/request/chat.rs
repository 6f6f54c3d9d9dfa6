//! `POST /v1/chat/completions`: reads and checks the request.

use std::sync::Arc;

use bytes::Bytes;

use super::body::{Body, NameSet, ParsedBody};
use super::invalid::Invalid;
use super::limits::RequestLimits;
use super::measure::{ForwardedPrompt, PromptExtras};
use super::member_policy::{self, GuardedMember};
use super::messages::messages;
use super::native_policy::{InnerWork, chat_tools};
use super::needs::Needs;
use super::options::{CacheOptions, Fields, Routing};
use super::other_members::other_bytes;
use super::references::References;
use super::schemas::Schemas;
use crate::dialects::{ClientDialect, ClientRequest};
use crate::fetched_images::FetchedImages;
use crate::hosted_tools::HostedCalls;
use crate::json::{Kind, View};
use crate::operation::PlainOperation;

/// A validated chat completion request.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// The received body.
    pub body: Body,
    /// The model name as the client wrote it.
    pub model: String,
    /// Whether the client wants server-sent events.
    pub stream: bool,
    /// `stream_options.include_usage`.
    pub include_usage: bool,
    /// Number of choices, 1..=128.
    pub n: u32,
    /// `max_completion_tokens`, else `max_tokens`.
    pub max_tokens: Option<u64>,
    /// `routing`.
    pub routing: Routing,
    /// `cache`.
    pub cache: Option<CacheOptions>,
    /// Capabilities that a model must have.
    pub needs: Needs,
    /// Bytes of all text in messages and tools: the basis of token estimates.
    pub prompt_bytes: u64,
    /// The content of the prompt besides that text.
    pub extras: PromptExtras,
    /// References to resources at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<GuardedMember>,
    /// The work of the tools in `tools` that a provider runs itself, and their most calls with a price.
    pub hosted: (InnerWork, HostedCalls),
    /// The parts of a request in another dialect that this one was translated from; None = the client speaks OpenAI's.
    pub client: Option<Box<ClientRequest>>,
    /// The prompt of the client's own body, for an upstream that gets it.
    pub forwarded: ForwardedPrompt,
    /// Whether every message holds only a text and one of the roles `system`, `user` and `assistant`: no provider of
    /// OpenAI's dialect needs another spelling of such messages.
    pub has_plain_messages: bool,
    /// The bytes of its images at http(s) addresses, fetched for providers that take only bytes. None: they are not fetched.
    pub images: Option<Arc<FetchedImages>>,
}

/// Members of which only the type is checked: their meaning is up to the provider.
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
const LIGHT_NAMES: NameSet = NameSet::of_kinds(&LIGHT);

/// Reads and checks a chat request. The first fault is reported, in this order: the body as JSON, `model`, `messages`,
/// then the parameters in the order of this function.
///
/// # Errors
/// The fault, with its error code.
pub fn parse_chat(bytes: Bytes, limits: &RequestLimits) -> Result<ChatRequest, Invalid> {
    let members = ParsedBody::read(&bytes, limits)?;
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
        survey.extras.bytes += format as u64;
    }
    if members.may_hold_any(LIGHT_NAMES) {
        fields.kinds(&LIGHT)?;
    }
    survey.extras.bytes += predicted_bytes(&fields);
    let messages = fields.get("messages").map_or(0, |messages| messages.text().len());
    let counted = usize::try_from(tool_bytes).unwrap_or(usize::MAX).saturating_add(messages);
    survey.extras.bytes += other_bytes(&members, &["messages", "prediction"], counted);
    fields.modalities(&mut survey.needs)?;
    let routing = fields.routing(&model)?;
    let cache = fields.cache()?;
    let other_tools = survey.needs.openai_only.is_some() || survey.needs.custom_tools;
    let mut hosted = fields.get("tools").filter(|_| other_tools).map(chat_tools).unwrap_or_default();
    hosted.0.is_unpriced |= survey.has_unpriced_part;
    let references = &mut survey.references;
    let guarded =
        member_policy::survey(members.text, &members.members, PlainOperation::Chat, other_tools, references);
    let members = members.without_fallbacks();
    Ok(ChatRequest {
        body: members.into_body(bytes),
        model,
        stream,
        include_usage,
        n,
        max_tokens: max_completion_tokens.or(max_tokens),
        routing,
        cache,
        needs: survey.needs,
        prompt_bytes: survey.bytes + tool_bytes,
        extras: survey.extras,
        references: survey.references,
        guarded,
        hosted,
        client: None,
        forwarded: ForwardedPrompt::default(),
        has_plain_messages: survey.is_plain,
        images: None,
    })
}

impl ChatRequest {
    /// Whether the provider may run tools itself. One upstream call then holds several calls of the model.
    #[must_use]
    pub fn runs_hosted_tools(&self) -> bool {
        let is_native = self.client.as_ref().is_some_and(|client| client.native.policy.inner.calls_model);
        self.hosted.0.calls_model || is_native || self.guarded.iter().any(GuardedMember::runs_tools)
    }

    /// Whether the model may work for long before its first content: it reasons, or the provider runs tools.
    /// `reasons_unasked` says whether it reasons about a request that says nothing about it.
    #[must_use]
    pub fn may_be_silent(&self, reasons_unasked: bool) -> bool {
        let effort = self.body.view("reasoning_effort").and_then(View::string);
        effort.map_or(reasons_unasked, |effort| effort != "none")
            || self.forwarded.asks_for_reasoning
            || self.runs_hosted_tools()
    }

    /// The request with the client's own request beside it.
    #[must_use]
    pub fn with_client(self, client: ClientRequest) -> Self {
        let forwarded = match client.native.dialect {
            // No upstream gets the own body of a Gemini request.
            ClientDialect::OpenAi | ClientDialect::Gemini => ForwardedPrompt::default(),
            ClientDialect::Messages | ClientDialect::Responses => {
                ForwardedPrompt::of(&client.native.bytes, &self.extras)
            }
        };
        Self { client: Some(Box::new(client)), forwarded, ..self }
    }
}

/// Bytes of the answer that the client predicts: the provider reads it with the prompt.
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
