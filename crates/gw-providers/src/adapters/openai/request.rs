//! Requests: the client's own bodies with small edits.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use gw_wire::dialects::ClientDialect;
use gw_wire::json::View;
use gw_wire::request::encode::{
    EmbeddingsOptions, EncodeOptions, MaxTokensName, encode_chat, encode_completion, encode_embeddings,
};
use gw_wire::request::{Body, ChatRequest, CompletionRequest, EmbeddingsRequest, GuardedMember};

use super::{OpenAi, joined_texts, rewrite};
use crate::adapter::{ChoiceRange, Encoded, HttpCall, Target};
use crate::adapters::http_call::post_streamable;
use crate::adapters::replay;
use crate::model_rules::{Effort, EffortBesideTools, LimitName, ModelRules, Sampling, Thinks};
use crate::presets::Quirks;

/// The name of a model's token limit.
pub(in crate::adapters) fn limit_name(rules: ModelRules) -> MaxTokensName {
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

/// The reasoning effort of a request to a model.
#[derive(Clone, Copy)]
struct SentEffort<'a> {
    /// The value of the member; None leaves it out.
    sent: Option<&'a str>,
    /// The value differs from the client's.
    is_changed: bool,
}

impl OpenAi {
    /// The edits of a request for this model. `choices` is the number of choices of the whole request.
    pub(in crate::adapters) fn options<'a>(
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
            from: range.from,
            ..EncodeOptions::plain(target.upstream_model, self.quirks.max_tokens.unwrap_or_else(by_name))
        }
    }

    /// Encodes a chat for this path.
    pub(in crate::adapters) fn chat_to(
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
        // A client of these APIs means a parameter of Anthropic or Google. OpenAI and others refuse it.
        let has_top_k = [ClientDialect::Messages, ClientDialect::Gemini];
        if request.client.as_ref().is_some_and(|client| has_top_k.contains(&client.form.dialect())) {
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
        let call = post_streamable(path, encode_chat(request, &options), request.stream);
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
    pub(in crate::adapters) fn completion_to(
        &self,
        path: String,
        request: &CompletionRequest,
        options: &EncodeOptions<'_>,
    ) -> Encoded {
        let withheld = self.allowed.withheld(&request.guarded);
        let options = EncodeOptions { withheld: &withheld, ..*options };
        let call = post_streamable(path, encode_completion(request, &options), request.stream);
        self.encoded(call, &request.body, &request.guarded, options.unsupported)
    }

    /// Encodes embeddings of these inputs for this path. `upstream_model` is None when the path names the model.
    pub(in crate::adapters) fn embeddings_to(
        &self,
        path: String,
        request: &EmbeddingsRequest,
        inputs: Range<usize>,
        upstream_model: Option<&str>,
    ) -> HttpCall {
        let Quirks { dimensions, encoding_format, .. } = self.quirks;
        let withheld = self.allowed.withheld(&request.guarded);
        let options = EmbeddingsOptions { upstream_model, dimensions, encoding_format, withheld: &withheld };
        post_streamable(path, encode_embeddings(request, inputs, &options), false)
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
