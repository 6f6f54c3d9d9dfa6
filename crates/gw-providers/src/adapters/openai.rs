//! OpenAI's dialect, which most providers and local servers speak. A request is the client's own with small edits.
//! Answers are read leniently, because compatible servers differ in many details.

mod audio_usage;
mod calls;
mod embeddings;
pub(in crate::adapters) mod images;
pub(in crate::adapters) mod images_stream;
mod joined_texts;
pub(in crate::adapters) mod lenient;
mod located;
mod media_event;
pub(in crate::adapters) mod moderation;
mod quick;
pub(in crate::adapters) mod realtime;
mod repair;
mod request;
pub(in crate::adapters) mod rerank;
mod response;
mod responses;
mod rewrite;
mod score;
pub(in crate::adapters) mod speech;
mod split_pairs;
mod stream;
pub(in crate::adapters) mod transcription;
pub(in crate::adapters) mod transcription_stream;
mod usage;
mod wire;

use std::ops::Range;
use std::sync::Arc;

use gw_wire::dialects::ClientDialect;
use gw_wire::dialects::messages::native::{NativeHost, Signature, request_body};
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply, TextReply};
use gw_wire::request::{AllowedMembers, ChatRequest, CompletionRequest, EmbeddingsRequest};
use gw_wire::usage::Usage;
use serde_json::Value;
use serde_json::value::RawValue;

use self::rerank::{OpenAiRerank, SurfaceUrls};
use super::bounded::Bounded;
use super::counting::{counting, picked};
use super::failure;
use super::http_call::{get_json, post_streamable};
use super::model_list::{ModelList, makes_embeddings};
use super::replay::{self, SealingStream};
use crate::adapter::{
    Adapter, Built, Capabilities, ChoiceRange, CountCall, DialectTraits, Encoded, HttpCall, ListedModel,
    ModelListing, Reading, Scheme, StreamDecoder, Target,
};
use crate::media_sizes::MediaSizes;
use crate::native_responses::NativeResponses;
use crate::presets::{self, Quirks, TokenCounter};
use crate::settings::{ProviderSettings, SettingsError};
use crate::surfaces::Surfaces;

pub(super) use self::request::limit_name;

/// The most prompts of one call: the most that a client may send.
const MAX_PROMPTS: usize = 2048;

/// Any provider that speaks OpenAI's dialect.
#[derive(Debug)]
pub struct OpenAi {
    quirks: Quirks,
    allowed: AllowedMembers,
    responses: NativeResponses,
    traits: DialectTraits,
}

/// The name of the option.
const RESPONSES: &str = "responses";

/// Whether the provider has the Responses API, by the configuration or else by the table of known providers; None: it is
/// learned.
///
/// # Errors
/// The option has another value than true, false and "auto".
fn has_responses(settings: &ProviderSettings) -> Result<Option<bool>, SettingsError> {
    match settings.options.get(RESPONSES) {
        Some(toml::Value::Boolean(known)) => Ok(Some(*known)),
        Some(toml::Value::String(word)) if word == "auto" => Ok(None),
        Some(_) => Err(SettingsError::Option { name: RESPONSES, expected: "true, false or \"auto\"" }),
        None => Ok(presets::has_responses(settings)),
    }
}

/// Builds the adapter with the deviations of the provider. `responses` tells whether it has the Responses API.
///
/// # Errors
/// The option is wrong.
pub(crate) fn build(settings: &ProviderSettings) -> Result<Built, SettingsError> {
    let responses = NativeResponses::new(has_responses(settings)?);
    let quirks = Quirks::of(settings);
    let adapter = OpenAi::new(quirks).allowing(settings.allowed_members()).with_responses(responses);
    let urls = SurfaceUrls::of(settings.base_url.as_deref().or_else(|| presets::base_url(settings)));
    let surfaces = Surfaces {
        rerank: Some(Box::new(OpenAiRerank::new(quirks.top_n, urls))),
        score: Some(Box::new(score::OpenAiScore::new(urls))),
        moderation: Some(Box::new(moderation::OpenAiModeration)),
        images: Some(Box::new(images::OpenAiImageGeneration(images::UsualUrls))),
        speech: Some(Box::new(speech::OpenAiSpeech)),
        transcription: Some(Box::new(transcription::OpenAiTranscription)),
        realtime: Some(Box::new(realtime::OpenAiRealtime)),
    };
    Ok(Built { surfaces, ..Built::new(Box::new(adapter)) })
}

impl OpenAi {
    /// An adapter with the deviations of one provider.
    #[must_use]
    pub fn new(quirks: Quirks) -> Self {
        let traits = DialectTraits {
            capabilities: Capabilities {
                openai_fields: true,
                suffix: true,
                token_prompts: quirks.openai_tokens,
                stream_usage: quirks.stream_usage,
                image_urls: true,
                choices: quirks.choices,
                prompts: MAX_PROMPTS,
                max_tools: quirks.max_tools,
            },
            scheme: Scheme::Bearer,
            media_sizes: MediaSizes::openai(),
            models: Some(MODELS),
            classify: failure::classify,
        };
        Self { quirks, allowed: AllowedMembers::default(), responses: NativeResponses::off(), traits }
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
}

/// Reads a complete chat answer in OpenAI's format.
pub(crate) fn chat(body: &[u8]) -> Result<ChatReply<'_>, Failure> {
    response::chat(body)
}

/// Reads a complete text completion in OpenAI's format.
pub(crate) fn completion(body: &[u8]) -> Result<TextReply<'_>, Failure> {
    response::completion(body)
}

impl OpenAi {
    /// A decoder of a chat stream whose texts refer to sources.
    pub(super) fn locating_stream(&self) -> Box<dyn StreamDecoder> {
        Box::new(stream::OpenAiStream::locating())
    }
}

impl Adapter for OpenAi {
    fn traits(&self) -> &DialectTraits {
        &self.traits
    }

    fn speaks(&self, dialect: ClientDialect, _: &Target<'_>) -> bool {
        dialect == ClientDialect::Responses && self.responses.is_on()
    }

    fn native_responses(&self) -> Option<&NativeResponses> {
        Some(&self.responses)
    }

    fn count(&self, request: &ChatRequest, target: &Target<'_>) -> Option<CountCall> {
        match self.quirks.counter? {
            TokenCounter::Tokenize => {
                let whole = ChoiceRange { n: request.n, prompts: 0..1, from: 0 };
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
                let own = target.replay_target();
                let call_id = |given: &str| replay::sent_id(given, &own, &mut false);
                let body = request_body(&client.native.bytes, &host, |_| Signature::Drop, call_id).body;
                let call = post_streamable("/messages/count_tokens", body, false);
                Some(CountCall { call, member: "input_tokens" })
            }
        }
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

    fn failed_usage(&self, body: &[u8], reading: &Reading) -> Option<Usage> {
        if reading.is_native { responses::failed_usage(body) } else { usage::of_failed(body) }
    }

    fn decode_chat<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure> {
        if reading.is_native {
            let reply = responses::chat(body, reading)?;
            self.responses.note_answer();
            return Ok(reply);
        }
        let mut reply = response::chat(body)?;
        if let Some(target) = &reading.replay {
            replay::seal_reply(&mut reply, target, reading.seals_plain);
        }
        Ok(reply)
    }

    fn decode_completion<'a>(&self, body: &'a [u8], _: &Reading) -> Result<TextReply<'a>, Failure> {
        response::completion(body)
    }

    fn decode_embeddings<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        embeddings::decode(body, expected)
    }

    fn stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
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
}

/// The list of models, which most servers of the dialect have.
pub(super) const MODELS: ModelListing = ModelListing { call: || get_json("/models"), read: models };

fn models(body: &[u8]) -> Result<Vec<ListedModel>, Failure> {
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
        let category = makes_embeddings(model).then_some("embedding");
        models.add_of_category(name.unwrap_or_default(), context_length(model), category);
    }
    Ok(models.into_models())
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

/// Reads a usage object of an answer that passes through; None when no count can be used.
pub(crate) fn read_usage(text: &str) -> Option<Usage> {
    // The usage of sound has a duration, or details with names of their own.
    let is_of_sound = ["\"seconds\"", "\"input_token_details\""].iter().any(|name| text.contains(name));
    let of_sound = || audio_usage::usage(&serde_json::from_str(text).ok()?);
    // That of images tells the images of the prompt, and never thoughts. Its output is images, unless it says otherwise.
    let is_of_images = text.contains("\"input_tokens_details\"")
        && text.contains("\"image_tokens\"")
        && !text.contains("\"reasoning_tokens\"");
    let of_images = || images::usage(&serde_json::from_str(text).ok()?);
    let special = is_of_sound.then(of_sound).or_else(|| is_of_images.then(of_images)).flatten();
    special.or_else(|| usage::read(lenient::RawText(text)))
}

/// Whether a `service_tier` has a price of its own.
pub(crate) fn is_other_tier(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok_and(usage::names_other_tier)
}

#[cfg(test)]
mod tests;
