//! OpenAI's dialect, which most providers and local servers speak. A request is the client's own with small edits.
//! Answers are read leniently, because compatible servers differ in many details.

mod calls;
mod embeddings;
mod joined_texts;
pub(in crate::adapters) mod lenient;
mod located;
mod native_responses;
mod quick;
mod repair;
mod reply;
mod responses;
mod rewrite;
mod shape;
mod stream;
mod usage;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use gw_wire::dialects::ClientDialect;
use gw_wire::dialects::messages::native::{NativeHost, Signature, request_body};
use gw_wire::failure::Failure;
use gw_wire::json::View;
use gw_wire::reply::{ChatReply, EmbeddingsReply, TextReply};
use gw_wire::request::encode::{
    EmbeddingsOptions, EncodeOptions, MaxTokensName, encode_chat, encode_completion, encode_embeddings,
};
use gw_wire::request::{
    AllowedMembers, Body, ChatRequest, CompletionRequest, EmbeddingsRequest, GuardedMember,
};
use http::HeaderMap;
use serde_json::Value;

use super::bounded::Bounded;
use super::counting::{counting, picked};
use super::failure;
use super::http_call::{JSON, get_json, post_json};
use super::model_list::{ModelList, makes_embeddings};
use super::replay::{self, SealingStream};
use crate::adapter::{
    Adapter, Built, Capabilities, ChoiceRange, CountCall, Encoded, HttpCall, ListedModel, Reading,
    StreamDecoder, Target,
};
use crate::media_sizes::MediaSizes;
use crate::model_rules::{Effort, EffortBesideTools, LimitName, ModelRules, Sampling, Thinks};
use crate::presets::{Quirks, TokenCounter};
use crate::settings::{ProviderSettings, SettingsError};

use self::native_responses::NativeResponses;

/// The name of a model's token limit.
pub(super) fn limit_name(rules: ModelRules) -> MaxTokensName {
    match rules.limit_name {
        LimitName::MaxTokens => MaxTokensName::MaxTokens,
        LimitName::MaxCompletionTokens => MaxTokensName::MaxCompletionTokens,
    }
}

/// The sampling parameters of the request that a reasoning model refuses. Default values are accepted.
fn refused_sampling(rules: ModelRules, body: &Body, effort: Option<&str>) -> Vec<&'static str> {
    const DEFAULTS: [(&str, Option<f64>); 7] = [
        ("temperature", Some(1.0)),
        ("top_p", Some(1.0)),
        ("presence_penalty", Some(0.0)),
        ("frequency_penalty", Some(0.0)),
        ("logit_bias", None),
        ("logprobs", None),
        ("top_logprobs", None),
    ];
    let is_fixed = match rules.sampling {
        Sampling::Both | Sampling::One => false,
        Sampling::Fixed => true,
        Sampling::FixedWhileThinking => match effort {
            Some(effort) => effort != "none",
            None => rules.thinks == Thinks::Usually,
        },
    };
    if !is_fixed {
        return Vec::new();
    }
    let is_other = |(name, default): &(&'static str, Option<f64>)| {
        let given = body.get(name)?;
        let is_default = given == "false" || default.is_some() && given.parse().ok() == *default;
        (!is_default).then_some(*name)
    };
    DEFAULTS.iter().filter_map(is_other).collect()
}

/// The most prompts of one call: the most that a client may send.
const MAX_PROMPTS: usize = 2048;

/// The reasoning effort of a request to a model.
#[derive(Clone, Copy)]
struct SentEffort<'a> {
    /// The value of the member; None leaves it out.
    sent: Option<&'a str>,
    /// The value differs from the client's.
    is_changed: bool,
}

/// Any provider that speaks OpenAI's dialect.
#[derive(Debug)]
pub struct OpenAi {
    quirks: Quirks,
    allowed: AllowedMembers,
    responses: NativeResponses,
}

/// Builds the adapter with the deviations of the provider. `responses` tells whether it has the Responses API.
///
/// # Errors
/// The option is wrong.
pub(crate) fn build(settings: &ProviderSettings) -> Result<Built, SettingsError> {
    let responses = NativeResponses::of(settings)?;
    let adapter =
        OpenAi::new(Quirks::of(settings)).allowing(settings.allowed_members()).with_responses(responses);
    Ok(Built::new(Box::new(adapter)))
}

impl OpenAi {
    /// An adapter with the deviations of one provider.
    #[must_use]
    pub fn new(quirks: Quirks) -> Self {
        Self { quirks, allowed: AllowedMembers::default(), responses: NativeResponses::off() }
    }

    /// Allows members that choose a model, an upstream or a price.
    #[must_use]
    pub fn allowing(self, allowed: AllowedMembers) -> Self {
        Self { allowed, ..self }
    }

    /// Sends requests of the Responses API to the provider's own endpoint.
    #[must_use]
    fn with_responses(self, responses: NativeResponses) -> Self {
        Self { responses, ..self }
    }

    /// The edits of a request for this model. `choices` is the number of choices of the whole request.
    pub(super) fn options<'a>(
        &self,
        target: &Target<'a>,
        range: &ChoiceRange,
        choices: u32,
    ) -> EncodeOptions<'a> {
        let by_name = || limit_name(target.rules);
        EncodeOptions {
            clamp_max_tokens: target.clamp_max_tokens,
            most_tokens: target.most_tokens,
            ask_stream_usage: self.quirks.stream_usage,
            unsupported: self.quirks.unsupported,
            choices: (range.n != choices).then_some(range.n),
            ..EncodeOptions::plain(target.upstream_model, self.quirks.max_tokens.unwrap_or_else(by_name))
        }
    }

    /// Encodes a chat for this path.
    pub(super) fn chat_to(
        &self,
        path: String,
        request: &ChatRequest,
        options: &EncodeOptions<'_>,
        rules: ModelRules,
        target: &Target<'_>,
    ) -> Encoded {
        let replay_target = target.replay_target();
        let asked = request.body.view("reasoning_effort").and_then(View::string);
        let wanted = self.effort(rules, &request.body, asked.as_deref());
        let mut unsupported = refused_sampling(rules, &request.body, wanted.sent);
        unsupported.extend(options.unsupported);
        if asked.is_some() && wanted.sent.is_none() {
            unsupported.push("reasoning_effort");
        }
        if !rules.stop {
            unsupported.push("stop");
        }
        // A client of the Messages API means Anthropic's parameter. OpenAI and others refuse it.
        if request.client.as_ref().is_some_and(|client| client.form.dialect() == ClientDialect::Messages) {
            unsupported.push("top_k");
        }
        let effort = wanted.sent.filter(|_| wanted.is_changed);
        let is_cleaned = request.client.is_some() && !self.quirks.cache_control;
        let cleaned = |name| {
            let text = if is_cleaned { request.body.get(name) } else { None };
            text.and_then(rewrite::without_cache_control)
        };
        let clean_tools = cleaned("tools");
        let (clean_messages, messages, lost) = match request.has_plain_messages {
            true => (None, None, false),
            false => {
                let own = request.body.get("messages").unwrap_or_default();
                let clean = cleaned("messages");
                let has_parts = request.client.is_some() && !self.quirks.text_parts;
                let joined =
                    has_parts.then(|| joined_texts::joined(clean.as_deref().unwrap_or(own))).flatten();
                let clean = joined.or(clean);
                let text = clean.as_deref().unwrap_or(own);
                let (messages, lost) = rewrite::messages(text, &self.quirks, &replay_target);
                (clean, messages, lost)
            }
        };
        let withheld = self.allowed.withheld(&request.guarded);
        let options = EncodeOptions {
            messages: messages.as_deref().or(clean_messages.as_deref()),
            tools: clean_tools.as_deref(),
            withheld: &withheld,
            unsupported: &unsupported,
            effort,
            ..*options
        };
        let call = post(path, encode_chat(request, &options), request.stream);
        let mut encoded = self.encoded(call, &request.body, &request.guarded, &unsupported);
        if asked.as_deref() == Some("none") && rules.thinks == Thinks::Never {
            // `none` has no effect on a model that never reasons.
            encoded.warnings.retain(|warning| *warning != "parameter_dropped:reasoning_effort");
        }
        if effort.is_some() {
            encoded.warnings.push(Cow::Borrowed("parameter_clamped:reasoning_effort"));
        }
        encoded.warnings.extend(rules.warning());
        encoded.warnings.extend(lost.then_some(Cow::Borrowed(replay::DROPPED)));
        encoded.reading.replay = Some(Arc::new(replay_target));
        encoded
    }

    /// The effort to send for the client's effort.
    fn effort<'a>(&self, rules: ModelRules, body: &Body, asked: Option<&'a str>) -> SentEffort<'a> {
        let is_function = |tool: View<'_>| {
            let [kind] = tool.pick(["type"]);
            kind.and_then(View::string).is_none_or(|kind| kind == "function")
        };
        let tools = ["tools", "functions"].into_iter().filter_map(|name| body.view(name));
        let has_tools = tools.flat_map(View::elements).any(is_function);
        // Only OpenAI's own endpoint has this rule. Other servers of its models may have another.
        let beside_tools = match has_tools && self.quirks.developer {
            true => rules.effort_beside_tools,
            false => EffortBesideTools::Any,
        };
        let is_off = asked == Some("none");
        if rules.thinks == Thinks::Never || beside_tools == EffortBesideTools::Absent && !is_off {
            return SentEffort { sent: None, is_changed: false };
        }
        if beside_tools == EffortBesideTools::None {
            return SentEffort { sent: Some("none"), is_changed: !is_off };
        }
        let fitting = asked.and_then(|asked| {
            let asked = Effort::read(asked)?;
            rules.effort(asked).filter(|sent| *sent != asked).map(Effort::as_str)
        });
        SentEffort { sent: fitting.or(asked), is_changed: fitting.is_some() }
    }

    /// Encodes a text completion for this path.
    pub(super) fn completion_to(
        &self,
        path: String,
        request: &CompletionRequest,
        options: &EncodeOptions<'_>,
    ) -> Encoded {
        let withheld = self.allowed.withheld(&request.guarded);
        let options = EncodeOptions { withheld: &withheld, ..*options };
        let call = post(path, encode_completion(request, &options), request.stream);
        self.encoded(call, &request.body, &request.guarded, options.unsupported)
    }

    /// Encodes embeddings of these inputs for this path. `upstream_model` is None when the path names the model.
    pub(super) fn embeddings_to(
        &self,
        path: String,
        request: &EmbeddingsRequest,
        inputs: Range<usize>,
        upstream_model: Option<&str>,
    ) -> HttpCall {
        let Quirks { dimensions, encoding_format, .. } = self.quirks;
        let withheld = self.allowed.withheld(&request.guarded);
        let options = EmbeddingsOptions { upstream_model, dimensions, encoding_format, withheld: &withheld };
        post(path, encode_embeddings(request, inputs, &options), false)
    }

    /// Adds a warning for each member that was left out.
    fn encoded(
        &self,
        call: HttpCall,
        body: &Body,
        guarded: &[GuardedMember],
        unsupported: &[&str],
    ) -> Encoded {
        let given = unsupported.iter().copied().filter(|member| body.get(member).is_some());
        let is_dropped =
            |member: &&GuardedMember| member.rule.is_dropped() && !self.allowed.has(&member.name);
        let mut dropped: Vec<&str> = given.collect();
        for member in guarded.iter().filter(is_dropped) {
            // A client may send one name in several spellings.
            if !dropped.contains(&&*member.name) {
                dropped.push(&member.name);
            }
        }
        let warnings = dropped.into_iter().map(|member| Cow::Owned(format!("parameter_dropped:{member}")));
        Encoded { warnings: warnings.collect(), ..Encoded::plain(call) }
    }
}

/// A `POST` of a JSON body, whose response is an event stream or a JSON document.
pub(super) fn post(path: impl Into<String>, body: Vec<u8>, is_stream: bool) -> HttpCall {
    post_json(path, body, if is_stream { "text/event-stream" } else { JSON })
}

/// Reads a complete chat answer in OpenAI's format.
pub(crate) fn chat(body: &[u8]) -> Result<ChatReply<'_>, Failure> {
    reply::chat(body)
}

/// Reads a complete text completion in OpenAI's format.
pub(crate) fn completion(body: &[u8]) -> Result<TextReply<'_>, Failure> {
    reply::completion(body)
}

impl OpenAi {
    /// A decoder of a chat stream whose texts refer to sources.
    pub(super) fn locating_stream(&self) -> Box<dyn StreamDecoder> {
        Box::new(stream::OpenAiStream::locating())
    }
}

impl Adapter for OpenAi {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            openai_fields: true,
            suffix: true,
            token_prompts: self.quirks.openai_tokens,
            stream_usage: self.quirks.stream_usage,
            image_urls: true,
            choices: self.quirks.choices,
            prompts: MAX_PROMPTS,
            max_tools: self.quirks.max_tools,
        }
    }

    fn speaks(&self, dialect: ClientDialect, _: &Target<'_>) -> bool {
        dialect == ClientDialect::Responses && self.responses.is_on()
    }

    fn is_native_certain(&self) -> bool {
        self.responses.is_certain()
    }

    fn answered_native(&self) {
        self.responses.note_answer();
    }

    fn refused_native(&self, failure: &Failure, target: &Target<'_>) -> bool {
        self.responses.note_refusal(failure, target.upstream_model)
    }

    fn forget_learned(&self) {
        self.responses.forget();
    }

    fn count(&self, request: &ChatRequest, target: &Target<'_>) -> Option<CountCall> {
        match self.quirks.counter? {
            TokenCounter::Tokenize => {
                let whole = ChoiceRange { n: request.n, prompts: 0..1 };
                let options = self.options(target, &whole, request.n);
                let rules = target.rules;
                let Encoded { call, .. } = self.chat_to(String::new(), request, &options, rules, target);
                Some(counting(&call, "/../tokenize".to_owned(), "count", |body| {
                    let counted = picked(&call, ["model", "messages", "tools", "chat_template_kwargs"]);
                    counted.for_each(|(name, value)| body.raw(name, value.text()));
                }))
            }
            TokenCounter::Messages => {
                let client = request.client.as_ref()?;
                if client.native.dialect != ClientDialect::Messages {
                    return None;
                }
                let host = NativeHost { model: Some(target.upstream_model), ..NativeHost::default() };
                let body = request_body(&client.native.bytes, &host, |_| Signature::Drop).body;
                let call = post("/messages/count_tokens", body, false);
                Some(CountCall { call, member: "input_tokens" })
            }
        }
    }

    fn media_sizes(&self, upstream_model: &str, id: &str) -> MediaSizes {
        MediaSizes::of([upstream_model, id], MediaSizes::openai())
    }

    fn chat(
        &self,
        request: &ChatRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        let own = request.client.as_ref().filter(|_| self.responses.is_on());
        if let Some(encoded) = own.and_then(|client| responses::forward(request, client, target)) {
            return Ok(encoded);
        }
        let options = self.options(target, range, request.n);
        let rules = target.rules;
        Ok(self.chat_to("/chat/completions".to_owned(), request, &options, rules, target))
    }

    fn completion(
        &self,
        request: &CompletionRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        let options = self.options(target, range, request.n);
        Ok(self.completion_to("/completions".to_owned(), request, &options))
    }

    fn embeddings(
        &self,
        request: &EmbeddingsRequest,
        inputs: Range<usize>,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        Ok(self.embeddings_to("/embeddings".to_owned(), request, inputs, Some(target.upstream_model)))
    }

    fn decode_chat<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure> {
        if reading.is_native {
            let reply = responses::chat(body, reading)?;
            self.answered_native();
            return Ok(reply);
        }
        let mut reply = reply::chat(body)?;
        if let Some(target) = &reading.replay {
            replay::seal_reply(&mut reply, target, reading.seals_plain);
        }
        Ok(reply)
    }

    fn decode_completion<'a>(&self, body: &'a [u8], _: &Reading) -> Result<TextReply<'a>, Failure> {
        reply::completion(body)
    }

    fn decode_embeddings<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        embeddings::decode(body, expected)
    }

    fn chat_stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
        if reading.is_native {
            return responses::native_stream(reading);
        }
        let stream = stream::OpenAiStream::default();
        match &reading.replay {
            Some(target) => {
                let sealing = SealingStream::new(stream, Arc::clone(target), reading.seals_plain, false);
                Box::new(Bounded::new(sealing))
            }
            None => Box::new(Bounded::new(stream)),
        }
    }

    fn completion_stream(&self, _: &Reading) -> Box<dyn StreamDecoder> {
        Box::new(Bounded::new(stream::OpenAiStream::default()))
    }

    fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        failure::classify(status, headers, body)
    }

    fn list_models(&self) -> Option<HttpCall> {
        Some(get_json("/models"))
    }

    fn decode_models(&self, body: &[u8]) -> Result<Vec<ListedModel>, Failure> {
        let value: Value = serde_json::from_slice(body).map_err(|fault| failure::invalid_json(&fault))?;
        // Together answers with the list itself.
        let list = [Some(&value), value.get("data"), value.get("models")]
            .into_iter()
            .flatten()
            .find_map(Value::as_array);
        let list = list.ok_or_else(|| failure::invalid("no list of models"))?;
        let mut models = ModelList::default();
        for model in list {
            let name =
                model.as_str().or_else(|| model.get("id")?.as_str()).or_else(|| model.get("name")?.as_str());
            models.add_of_kind(name.unwrap_or_default(), context_length(model), makes_embeddings(model));
        }
        Ok(models.into_models())
    }
}

/// The context length of an entry of a model list, under the names of vLLM, llama.cpp, aggregators and Groq. llama.cpp
/// reports the configured context (`n_ctx`) or the context of the model's training.
fn context_length(model: &Value) -> Option<u64> {
    let own = ["max_model_len", "context_length", "context_window"]
        .iter()
        .find_map(|name| model.get(name)?.as_u64());
    let of_meta = || ["n_ctx", "n_ctx_train"].iter().find_map(|name| model.get("meta")?.get(name)?.as_u64());
    own.or_else(of_meta)
}

#[cfg(test)]
mod tests;
