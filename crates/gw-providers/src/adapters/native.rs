//! The common part of all dialects other than OpenAI's. They read a [`Conversation`], answer with a chat, and have no
//! text completions, legacy functions or `echo`. A dialect implements [`Dialect`], and [`Native`] makes it an
//! [`Adapter`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gw_wire::conversation::{Conversation, Source, ToolChoice};
use gw_wire::dialects::{ClientDialect, ClientRequest};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::View;
use gw_wire::reply::{ChatReply, EmbeddingsReply, TextChoice, TextReply};
use gw_wire::request::{ChatRequest, CompletionRequest, EmbeddingsRequest, GuardedMember, Inputs, Rule};
use http::HeaderMap;

use super::{replay, shaping, tool_names};
use crate::adapter::{
    Adapter, Capabilities, ChoiceRange, CountCall, Encoded, HttpCall, ListedModel, Reading, Scheme,
    StreamDecoder, Target,
};
use crate::media_sizes::MediaSizes;

/// The capabilities that most of these dialects share.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    openai_fields: false,
    suffix: false,
    token_prompts: false,
    stream_usage: false,
    image_urls: true,
    choices: 1,
    prompts: 1,
    max_tools: None,
};

/// The part of an adapter that differs between these dialects.
pub(super) trait Dialect: Send + Sync + fmt::Debug {
    /// The abilities of the dialect. `openai_fields` and `token_prompts` are false, `prompts` is 1.
    fn capabilities(&self) -> Capabilities;

    /// How keys are sent.
    fn scheme(&self) -> Scheme;

    /// Members of OpenAI's own that change the answer and that this dialect also has. They cause no warning.
    fn keeps(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether an image of an earlier answer, which the client sends back, can be sent to the model.
    fn takes_back(&self, _: &Source<'_>) -> bool {
        false
    }

    /// The value of `format` in signed entries of `reasoning_details`; "" when the dialect has none.
    fn reasoning_format(&self) -> &'static str {
        ""
    }

    /// Whether the provider accepts this name of a tool. Other names are changed in the request and restored in the
    /// answer.
    fn takes_tool_name(&self, name: &str) -> bool {
        tool_names::is_word(name)
    }

    /// Whether the request can name the allowed tools beside the offered ones, with this tool choice.
    fn names_allowed_tools(&self, _: &ToolChoice<'_>) -> bool {
        false
    }

    /// The media sizes of a model whose name is not recognised.
    fn usual_media_sizes(&self) -> MediaSizes {
        MediaSizes::default()
    }

    /// Whether requests of this dialect are sent as the client wrote them.
    fn speaks(&self, _: ClientDialect, _: &Target<'_>) -> bool {
        false
    }

    /// Whether the provider counts the tokens of a body that the client wrote. Otherwise it counts those of a translated
    /// chat.
    fn counts_native(&self) -> bool {
        true
    }

    /// The request that counts the tokens of an encoded chat. None: the provider has no counter for it.
    fn count(&self, _: &Encoded, _: &Target<'_>) -> Option<CountCall> {
        None
    }

    /// Encodes a request in the client's own dialect. None = it is sent as a translated chat.
    fn forward(&self, _: &ChatRequest, _: &ClientRequest, _: &Target<'_>) -> Option<Encoded> {
        None
    }

    /// Reads a complete answer that the client gets as it is.
    fn decode_native<'a>(&self, body: &'a [u8]) -> Result<ChatReply<'a>, Failure> {
        self.decode(body)
    }

    /// A new decoder of streams that the client gets as they are.
    fn native_stream(&self) -> Box<dyn StreamDecoder> {
        self.stream()
    }

    /// Encodes a conversation.
    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure>;

    /// Reads a complete answer. The caller converts structured-output tools and code fences.
    fn decode<'a>(&self, body: &'a [u8]) -> Result<ChatReply<'a>, Failure>;

    /// A new stream decoder.
    fn stream(&self) -> Box<dyn StreamDecoder>;

    /// Encodes embeddings of these texts. `request` gives the members that only this dialect knows.
    fn embed(
        &self,
        texts: &[Cow<'_, str>],
        request: &EmbeddingsRequest,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure>;

    /// Reads the answer to [`Dialect::embed`]: exactly `expected` vectors in order.
    fn decode_embed<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure>;

    /// The failure that a response other than 2xx means.
    fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure;

    /// The request for the provider's model list; None when the provider has no list.
    fn list_models(&self) -> Option<HttpCall>;

    /// Reads the provider's model list.
    fn decode_models(&self, body: &[u8]) -> Result<Vec<ListedModel>, Failure>;
}

/// A dialect as an adapter.
#[derive(Debug)]
pub(super) struct Native<D>(pub(super) D);

impl<D: Dialect> Adapter for Native<D> {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn scheme(&self) -> Scheme {
        self.0.scheme()
    }

    fn speaks(&self, dialect: ClientDialect, target: &Target<'_>) -> bool {
        self.0.speaks(dialect, target)
    }

    fn count(&self, request: &ChatRequest, target: &Target<'_>) -> Option<CountCall> {
        let whole = ChoiceRange { n: request.n, prompts: 0..1 };
        let encoded = if self.0.counts_native() || request.client.is_none() {
            self.chat(request, &whole, target)
        } else {
            self.chat(&ChatRequest { client: None, ..request.clone() }, &whole, target)
        };
        self.0.count(&encoded.ok()?, target)
    }

    fn media_sizes(&self, upstream_model: &str, id: &str) -> MediaSizes {
        MediaSizes::of([upstream_model, id], self.0.usual_media_sizes())
    }

    fn chat(
        &self,
        request: &ChatRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        let forward = |client: &ClientRequest| self.0.forward(request, client, target);
        if let Some(mut encoded) = request.client.as_deref().and_then(forward) {
            encoded.reading.is_native = true;
            encoded.reading.replay = Some(Arc::new(target.replay_target()));
            return Ok(encoded);
        }
        let replay_target = Arc::new(target.replay_target());
        let mut conversation = Conversation::of_chat(request, range.n);
        let opened = replay::opened_entries(&conversation, &replay_target, self.0.reasoning_format());
        let lost = replay::keep_own(&mut conversation, &opened, &replay_target);
        let names = tool_names::rename_refused(&mut conversation, |name| self.0.takes_tool_name(name));
        let names_allowed = self.0.names_allowed_tools(&conversation.tool_choice);
        let only_allowed = !names_allowed && keep_allowed(&mut conversation);
        let mut encoded = self.0.encode(&conversation, target)?;
        let own_name = |name: &str| {
            let known = names.iter().find(|(sent, _)| sent == name);
            known.map_or(name, |(_, own)| own).to_owned()
        };
        let custom = conversation.tools.iter().filter(|tool| tool.custom);
        encoded.reading.custom_tools = custom.map(|tool| own_name(&tool.name)).collect();
        encoded.reading.tool_names = names;
        if only_allowed {
            encoded.warnings.push(Cow::Borrowed("parameter_simplified:tool_choice"));
        }
        if lost {
            encoded.warnings.push(Cow::Borrowed(replay::DROPPED));
        }
        encoded.reading.replay = Some(replay_target);
        encoded.reading.function_call = conversation.legacy_functions;
        encoded.warnings.extend(openai_only(&conversation, self.0.keeps()));
        let mut images = conversation.messages.iter().flat_map(|message| &message.images);
        if images.any(|image| !self.0.takes_back(image)) {
            encoded.warnings.push(Cow::Borrowed("parameter_dropped:images"));
        }
        searches(&request.guarded, self.0.keeps(), &mut encoded.warnings);
        encoded.warnings.extend(target.rules.warning());
        Ok(encoded)
    }

    fn completion(
        &self,
        request: &CompletionRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        let conversation = Conversation::of_prompt(request, range.prompts.start, range.n);
        let mut encoded = self.0.encode(&conversation, target)?;
        if request.echo {
            let prompt = conversation.messages.first().map(|message| message.text());
            encoded.reading.echo = prompt.filter(|prompt| !prompt.is_empty());
        }
        encoded.warnings.extend(dropped(&conversation, &["best_of", "logprobs"]));
        encoded.warnings.extend(openai_only(&conversation, self.0.keeps()));
        searches(&request.guarded, self.0.keeps(), &mut encoded.warnings);
        encoded.warnings.extend(target.rules.warning());
        Ok(encoded)
    }

    fn embeddings(
        &self,
        request: &EmbeddingsRequest,
        inputs: Range<usize>,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let Inputs::Texts(ranges) = &request.inputs else {
            let message = "Invalid 'input': this provider takes text, not tokens.";
            return Err(unsupported(message));
        };
        let ranges = ranges.get(inputs).unwrap_or_default();
        let texts: Vec<Cow<'_, str>> = ranges
            .iter()
            .map(|range| View::new(request.body.text(range)).string().unwrap_or_default())
            .collect();
        self.0.embed(&texts, request, target)
    }

    fn decode_chat<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure> {
        let mut reply = if reading.is_native { self.0.decode_native(body)? } else { self.0.decode(body)? };
        shaping::reply(&mut reply, reading);
        if reading.is_native {
            reply.native = std::str::from_utf8(body).ok().map(Cow::Borrowed);
        }
        Ok(reply)
    }

    fn decode_completion<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<TextReply<'a>, Failure> {
        let mut reply = self.0.decode(body)?;
        shaping::reply(&mut reply, reading);
        let choices = reply.choices.into_iter().map(|choice| TextChoice {
            index: choice.index,
            text: choice.content.unwrap_or_default(),
            logprobs: None,
            finish: choice.finish,
        });
        Ok(TextReply { model: reply.model, choices: choices.collect(), usage: reply.usage })
    }

    fn decode_embeddings<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        let reply = self.0.decode_embed(body, expected)?;
        if reply.vectors.len() == expected {
            return Ok(reply);
        }
        Err(Failure::new(FailureKind::InvalidResponse, "The upstream did not return one vector per input."))
    }

    fn chat_stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
        let decoder = if reading.is_native { self.0.native_stream() } else { self.0.stream() };
        shaping::stream(decoder, reading)
    }

    fn completion_stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
        shaping::stream(self.0.stream(), reading)
    }

    fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        self.0.classify(status, headers, body)
    }

    fn list_models(&self) -> Option<HttpCall> {
        self.0.list_models()
    }

    fn decode_models(&self, body: &[u8]) -> Result<Vec<ListedModel>, Failure> {
        self.0.decode_models(body)
    }
}

/// Removes the tools that may not be called now. Returns true if any was removed.
fn keep_allowed(conversation: &mut Conversation<'_>) -> bool {
    let Some(allowed) = conversation.allowed_tools.take() else { return false };
    let offered = conversation.tools.len();
    let allowed: HashSet<&str> = allowed.iter().map(|name| &**name).collect();
    conversation.tools.retain(|tool| allowed.contains(&*tool.name));
    conversation.tools.len() < offered
}

/// A 400 `unsupported_value` for a request that the provider cannot serve. The message begins with the field.
pub(super) fn unsupported(message: impl Into<String>) -> Failure {
    let mut failure = Failure::new(FailureKind::Unsupported, message);
    failure.code = Some("unsupported_value".to_owned());
    failure
}

/// A warning for each of these members that the request has.
pub(super) fn dropped(conversation: &Conversation<'_>, members: &[&str]) -> Vec<Cow<'static, str>> {
    let given = members.iter().filter(|member| conversation.has(member));
    given.map(|member| Cow::Owned(format!("parameter_dropped:{member}"))).collect()
}

/// Warnings for members of OpenAI's own that change the answer and that this dialect lacks.
fn openai_only(conversation: &Conversation<'_>, kept: &[&str]) -> Vec<Cow<'static, str>> {
    let mut members = vec!["audio", "prediction", "web_search_options", "verbosity", "moderation"];
    members.retain(|member| !kept.contains(member));
    dropped(conversation, &members)
}

/// Adds one warning for each search member of another vendor, and for each hint to another gateway.
fn searches(guarded: &[GuardedMember], kept: &[&str], warnings: &mut Vec<Cow<'static, str>>) {
    let is_lost = |member: &&GuardedMember| {
        matches!(member.rule, Rule::Search | Rule::Hint) && !kept.contains(&&*member.name)
    };
    for member in guarded.iter().filter(is_lost) {
        let warning = format!("parameter_dropped:{}", member.name);
        if !warnings.iter().any(|known| **known == *warning) {
            warnings.push(warning.into());
        }
    }
}
