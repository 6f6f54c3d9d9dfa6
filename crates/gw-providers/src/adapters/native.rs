//! The common part of all dialects other than OpenAI's. They read a [`Conversation`], answer with a chat, and have no
//! text completions, legacy functions or `echo`. A dialect implements [`Dialect`], and [`Native`] makes it an
//! [`Adapter`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gw_wire::conversation::{Conversation, Message, Role, Source, ToolChoice};
use gw_wire::dialects::{ClientDialect, ClientRequest};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::View;
use gw_wire::reply::{ChatReply, EmbeddingsReply, STOP_SEQUENCE, TextChoice, TextReply};
use gw_wire::request::{ChatRequest, CompletionRequest, EmbeddingsRequest, GuardedMember, Inputs, Rule};
use gw_wire::usage::Usage;
use gw_wire::utf8;
use serde_json::value::RawValue;

use super::{breakpoints, failure, replay, shaping, tool_names};
use crate::adapter::{
    Adapter, Capabilities, ChoiceRange, CountCall, DialectTraits, Encoded, HttpCall, Reading, Scheme,
    StreamDecoder, Target,
};
use crate::media_sizes::MediaSizes;
use crate::model_rules::ModelRules;

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

/// The parts of a dialect that are the same for every request, as data.
#[derive(Debug)]
pub(super) struct Policy {
    /// The parts that the rest of the gateway sees. `openai_fields` and `token_prompts` are false, `prompts` is 1.
    pub(super) traits: DialectTraits,
    /// Members of OpenAI's own that change the answer and that this dialect also has. They cause no warning.
    pub(super) keeps: &'static [&'static str],
    /// Whether an image of an earlier answer, which the client sends back, can be sent to the model.
    pub(super) takes_back: fn(&Source<'_>) -> bool,
    /// The value of `format` in signed entries of `reasoning_details`; "" when the dialect has none.
    pub(super) reasoning_format: &'static str,
    /// Whether the text of an earlier answer's reasoning, without a signature, is sent to a model with these rules. A dialect that
    /// warns by itself of reasoning it leaves out says yes.
    pub(super) sends_reasoning: fn(&Message<'_>, ModelRules) -> bool,
    /// Whether the provider accepts this name of a tool. Other names are changed in the request and restored in the
    /// answer.
    pub(super) takes_tool_name: fn(&str) -> bool,
    /// Whether the request can name the allowed tools beside the offered ones, with this tool choice.
    pub(super) names_allowed_tools: fn(&ToolChoice<'_>) -> bool,
    /// The provider takes messages in the client's order, and refuses a call without a result behind it.
    pub(super) demands_results: bool,
    /// The provider counts the tokens of a body that the client wrote. Otherwise it counts those of a translated chat.
    pub(super) counts_native: bool,
}

/// The policy that most of these dialects begin with.
pub(super) const POLICY: Policy = Policy {
    traits: DialectTraits {
        capabilities: CAPABILITIES,
        scheme: Scheme::Bearer,
        media_sizes: MediaSizes::ANY,
        models: None,
        classify: failure::classify,
    },
    keeps: &[],
    takes_back: |_| false,
    reasoning_format: "",
    sends_reasoning: |_, _| false,
    takes_tool_name: tool_names::is_word,
    names_allowed_tools: |_| false,
    demands_results: false,
    counts_native: true,
};

/// The part of an adapter that differs between these dialects.
pub(super) trait Dialect: Send + Sync + fmt::Debug {
    /// The parts that are the same for every request.
    const POLICY: &'static Policy;

    /// Whether requests of this dialect are sent as the client wrote them.
    fn speaks(&self, _: ClientDialect, _: &Target<'_>) -> bool {
        false
    }

    /// The request that counts the tokens of an encoded chat. None: the provider has no counter for it.
    fn count(&self, _: &Encoded, _: &Target<'_>) -> Option<CountCall> {
        None
    }

    /// Encodes a request in the client's own dialect. None = it is sent as a translated chat.
    fn forward(&self, _: &ChatRequest, _: &ClientRequest, _: &Target<'_>) -> Option<Encoded> {
        None
    }

    /// Encodes a conversation.
    fn encode(&self, conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure>;

    /// Reads a complete answer, which is in the client's own dialect if `reading.is_native`. The caller converts
    /// structured-output tools and code fences.
    fn decode<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure>;

    /// The usage in an answer that [`Dialect::decode`] refuses.
    fn failed_usage(&self, body: &[u8], reading: &Reading) -> Option<Usage>;

    /// A new stream decoder. The client gets the stream as it is if `reading.is_native`.
    fn stream(&self, reading: &Reading) -> Box<dyn StreamDecoder>;

    /// Encodes embeddings of these texts. `request` gives the members that only this dialect knows.
    fn embed(&self, _: &[Cow<'_, str>], _: &EmbeddingsRequest, _: &Target<'_>) -> Result<HttpCall, Failure> {
        Err(no_embeddings())
    }

    /// Reads the answer to [`Dialect::embed`]: exactly `expected` vectors in order.
    fn decode_embed<'a>(&self, _: &'a [u8], _: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        Err(no_embeddings())
    }
}

/// The failure for a request for embeddings at a provider that makes none.
fn no_embeddings() -> Failure {
    let failure = unsupported("Invalid 'model': this provider has no embeddings.");
    Failure { code: Some("unsupported_model".to_owned()), ..failure }
}

/// A dialect as an adapter.
#[derive(Debug)]
pub(super) struct Native<D>(pub(super) D);

impl<D: Dialect> Adapter for Native<D> {
    fn traits(&self) -> &DialectTraits {
        &D::POLICY.traits
    }

    fn speaks(&self, dialect: ClientDialect, target: &Target<'_>) -> bool {
        self.0.speaks(dialect, target)
    }

    fn count(&self, request: &ChatRequest, target: &Target<'_>) -> Option<CountCall> {
        let whole = ChoiceRange { n: request.n, prompts: 0..1, from: 0 };
        let encoded = if D::POLICY.counts_native || request.client.is_none() {
            self.chat(request, &whole, target)
        } else {
            self.chat(&ChatRequest { client: None, ..request.clone() }, &whole, target)
        };
        self.0.count(&encoded.ok()?, target)
    }

    fn chat(
        &self,
        request: &ChatRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        let target = &breakpoints::own_or_none(request, target);
        let forward = |client: &ClientRequest| self.0.forward(request, client, target);
        if let Some(mut encoded) = request.client.as_deref().and_then(forward) {
            encoded.reading.is_native = true;
            encoded.reading.replay = Some(Arc::new(target.replay_target()));
            return Ok(encoded);
        }
        let replay_target = Arc::new(target.replay_target());
        let mut conversation = Conversation::of_chat(request, range.n);
        conversation.begin_at(range.from);
        if !D::POLICY.traits.capabilities.image_urls
            && let Some(images) = &request.images
        {
            conversation.put_images(images);
        }
        let opened = replay::opened_entries(&conversation, &replay_target, D::POLICY.reasoning_format);
        let sends = |message: &Message<'_>| (D::POLICY.sends_reasoning)(message, target.rules);
        let lost = replay::keep_own(&mut conversation, &opened, &replay_target, sends);
        let names = tool_names::rename_refused(&mut conversation, D::POLICY.takes_tool_name);
        if D::POLICY.demands_results {
            conversation.answer_calls();
        }
        let names_allowed = (D::POLICY.names_allowed_tools)(&conversation.tool_choice);
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
        if lost && !encoded.warnings.iter().any(|warning| warning == replay::DROPPED) {
            encoded.warnings.push(Cow::Borrowed(replay::DROPPED));
        }
        encoded.reading.replay = Some(replay_target);
        encoded.reading.function_call = conversation.legacy_functions;
        encoded.warnings.extend(openai_only(&conversation, D::POLICY.keeps));
        let mut images = conversation.messages.iter().flat_map(|message| &message.images);
        if images.any(|image| !(D::POLICY.takes_back)(image)) {
            encoded.warnings.push(Cow::Borrowed("parameter_dropped:images"));
        }
        if conversation.messages.iter().any(has_lost_name) {
            encoded.warnings.push(Cow::Borrowed("parameter_dropped:messages.name"));
        }
        searches(&request.guarded, D::POLICY.keeps, &mut encoded.warnings);
        encoded.warnings.extend(target.rules.warning());
        Ok(encoded)
    }

    fn completion(
        &self,
        request: &CompletionRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        let mut conversation = Conversation::of_prompt(request, range.prompts.start, range.n);
        conversation.begin_at(range.from);
        let mut encoded = self.0.encode(&conversation, target)?;
        if request.echo {
            let prompt = conversation.messages.first().map(|message| message.text());
            encoded.reading.echo = prompt.filter(|prompt| !prompt.is_empty());
        }
        encoded.warnings.extend(dropped(&conversation, &["best_of", "logprobs"]));
        encoded.warnings.extend(openai_only(&conversation, D::POLICY.keeps));
        searches(&request.guarded, D::POLICY.keeps, &mut encoded.warnings);
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

    fn failed_usage(&self, body: &[u8], reading: &Reading) -> Option<Usage> {
        self.0.failed_usage(body, reading)
    }

    fn decode_chat<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure> {
        let mut reply = self.0.decode(body, reading)?;
        shaping::reply(&mut reply, reading);
        if reading.is_native {
            reply.native = utf8::text(body).ok().map(Cow::Borrowed);
        }
        Ok(reply)
    }

    fn decode_completion<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<TextReply<'a>, Failure> {
        let mut reply = self.0.decode(body, reading)?;
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

    fn stream(&self, reading: &Reading) -> Box<dyn StreamDecoder> {
        shaping::stream(self.0.stream(reading), reading)
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

/// Whether the message names its speaker. None of these dialects has a place for that.
fn has_lost_name(message: &Message<'_>) -> bool {
    let is_speaker = matches!(message.role, Role::User | Role::Assistant);
    is_speaker && message.name.as_deref().is_some_and(|name| !name.is_empty())
}

/// The stop sequence of a request that has exactly one.
pub(super) fn only_stop(sequences: &[impl AsRef<str>]) -> Option<String> {
    match sequences {
        [only] => Some(only.as_ref().to_owned()),
        _ => None,
    }
}

/// The member of an answer with the stop sequence that ended it.
pub(super) fn stop_member(sequence: Option<&str>) -> Option<(Cow<'static, str>, Cow<'static, RawValue>)> {
    let value = serde_json::value::to_raw_value(sequence?).ok()?;
    Some((Cow::Borrowed(STOP_SEQUENCE), Cow::Owned(value)))
}

/// A 400 `unsupported_value` for a request that the provider cannot serve. The message begins with the field.
pub(super) fn unsupported(message: impl Into<String>) -> Failure {
    let mut failure = Failure::new(FailureKind::Unsupported, message);
    failure.code = Some("unsupported_value".to_owned());
    failure
}

/// As [`unsupported`], for an image at an http(s) address: the request may be sent with the bytes of the image.
pub(super) fn image_address(message: impl Into<String>) -> Failure {
    Failure { kind: FailureKind::ImageAddress, ..unsupported(message) }
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
