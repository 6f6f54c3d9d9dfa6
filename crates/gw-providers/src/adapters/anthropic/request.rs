//! A conversation as the body of `POST /v1/messages` ("Create a Message" at platform.claude.com), or of `rawPredict` on
//! Vertex AI.

use std::borrow::Cow;

use gw_wire::conversation::{Content, Conversation, Part, Source};
use gw_wire::failure::Failure;
use gw_wire::json::ObjectWriter;

use super::content::AnthropicBlockParam;
use super::messages::{self, AnthropicMessageParam, has_unsigned_calls, messages};
use super::thinking::{ThinkingContext, ThinkingPlan};
use super::tools::{AnswerFormat, Tooling};
use crate::adapter::{Reading, Target};
use crate::adapters::native::{dropped, image_address, unsupported};
use crate::adapters::warnings::Warnings;
use crate::model_rules::Sampling;

/// `max_tokens` when neither the client nor the catalogue gives a value. Every model supports it.
const DEFAULT_MAX_TOKENS: u64 = 4096;

/// The most characters of `metadata.user_id`.
const MAX_USER_ID_CHARS: usize = 256;

/// The service that hosts the Messages API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::adapters) enum MessagesHost {
    /// Anthropic, and servers that are compatible with it.
    Anthropic,
    /// Google's Vertex AI.
    Vertex,
}

/// The API version on Vertex AI. It goes into the body, and the model into the URL
/// (platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai, November 2026). Version 2026-10-21 exists, too,
/// but it has no sampling parameters, which Claude up to 4.6 takes.
pub(in crate::adapters) const VERTEX_VERSION: &str = "vertex-2023-10-16";

/// An encoded body, how to read its answer, and the warnings.
#[derive(Debug)]
pub(in crate::adapters) struct AnthropicBody {
    pub(in crate::adapters) body: Vec<u8>,
    pub(in crate::adapters) reading: Reading,
    pub(in crate::adapters) warnings: Warnings,
}

/// Encodes the body.
pub(in crate::adapters) fn encode(
    conversation: &Conversation<'_>,
    target: &Target<'_>,
    host: MessagesHost,
) -> Result<AnthropicBody, Failure> {
    let rules = target.rules;
    host.check(conversation)?;
    let mut warnings = unsupported_members(conversation);
    let max_tokens =
        target.max_tokens(conversation.max_tokens.or(target.max_output_tokens)).unwrap_or(DEFAULT_MAX_TOKENS);
    let turns = conversation.turns();
    let tooling = Tooling::new(conversation, rules, &mut warnings);
    let context = ThinkingContext {
        max_tokens,
        is_tool_forced: tooling.is_call_forced(),
        has_unsigned_calls: has_unsigned_calls(&turns),
    };
    let effort = conversation.reasoning_effort.as_deref();
    let plan = ThinkingPlan::new(rules, effort, context, &mut warnings);
    let mut messages = messages(&turns, plan.is_replayed)?;
    if plan.forbids_prefill(rules) && messages::append_user_turn(&mut messages) {
        warnings.push(Cow::Borrowed("message_added:user"));
    }
    append_instruction(&mut messages, tooling.call_instruction.as_deref());

    let mut out = Vec::with_capacity(4096 + conversation.body.get("messages").map_or(0, str::len));
    let mut body = ObjectWriter::begin(&mut out);
    match host {
        MessagesHost::Anthropic => body.string("model", target.upstream_model),
        MessagesHost::Vertex => body.string("anthropic_version", VERTEX_VERSION),
    }
    body.integer("max_tokens", max_tokens);
    if conversation.stream {
        body.boolean("stream", true);
    }
    write_system(conversation, &tooling.format, &mut body);
    tooling.write(&mut body);
    if let Some(thinking) = plan.thinking {
        thinking.write(body.member("thinking"));
    }
    write_output_config(&plan, &tooling.format, &mut body);
    let is_sampling_taken = rules.sampling != Sampling::Fixed && !plan.is_on();
    write_sampling(conversation, is_sampling_taken, &mut body, &mut warnings);
    write_top_k(conversation, is_sampling_taken, &mut body, &mut warnings);
    write_stop_sequences(conversation, &mut body, &mut warnings);
    write_user(conversation, &mut body, &mut warnings);
    body.array("messages", &messages, write_message);
    body.finish();
    Ok(AnthropicBody { body: out, reading: reading(tooling.format), warnings })
}

impl MessagesHost {
    /// Refuses images and files by URL on Vertex AI, which takes bytes only: "Vision" at platform.claude.com, November
    /// 2026 ("Claude Models on Google Cloud (Google managed)").
    fn check(self, conversation: &Conversation<'_>) -> Result<(), Failure> {
        const BY_ADDRESS: &str = "Invalid 'messages': this model takes images and files as data, not by URL.";
        if self == Self::Anthropic {
            return Ok(());
        }
        let parts = || conversation.messages.iter().flat_map(|message| &message.parts);
        let is_file = |part: &Part<'_>| matches!(&part.content, Content::File { source: Source::Url(_), .. });
        if parts().any(is_file) {
            return Err(unsupported(BY_ADDRESS));
        }
        let is_image = |part: &Part<'_>| matches!(part.content, Content::Image(Source::Url(_)));
        if parts().any(is_image) { Err(image_address(BY_ADDRESS)) } else { Ok(()) }
    }
}

/// Returns warnings for members that the API has no equivalent of.
fn unsupported_members(conversation: &Conversation<'_>) -> Warnings {
    let mut warnings = dropped(conversation, &["seed"]);
    let penalties = [
        ("frequency_penalty", conversation.frequency_penalty),
        ("presence_penalty", conversation.presence_penalty),
    ];
    for (name, value) in penalties {
        if value.is_some_and(|value| value != 0.0) {
            warnings.extend(dropped(conversation, &[name]));
        }
    }
    if conversation.body.view("logit_bias").is_some_and(|bias| bias.members().next().is_some()) {
        warnings.extend(dropped(conversation, &["logit_bias"]));
    }
    if conversation.logprobs.is_some() {
        warnings.extend(dropped(conversation, &["logprobs"]));
    }
    warnings
}

/// Appends an instruction for this answer only. It goes last, so that the messages before it stay the same from request
/// to request, as caches and signed thoughts require.
fn append_instruction<'c>(messages: &mut [AnthropicMessageParam<'c>], call_instruction: Option<&'c str>) {
    let last = messages.last_mut().filter(|last| !last.is_assistant);
    if let (Some(last), Some(text)) = (last, call_instruction) {
        last.blocks.push(AnthropicBlockParam::Text { text, marker: None });
    }
}

fn write_message(out: &mut Vec<u8>, message: &AnthropicMessageParam<'_>) {
    let mut object = ObjectWriter::begin(out);
    object.string("role", if message.is_assistant { "assistant" } else { "user" });
    object.array("content", &message.blocks, |out, block| block.write(out));
    object.finish();
}

fn write_system(conversation: &Conversation<'_>, format: &AnswerFormat<'_>, body: &mut ObjectWriter<'_>) {
    let instruction = match format {
        AnswerFormat::Instruction(instruction) => Some((instruction.as_str(), None)),
        AnswerFormat::Free | AnswerFormat::Schema(_) | AnswerFormat::Tool { .. } => None,
    };
    let mut blocks =
        conversation.system().filter(|(text, _)| !text.trim().is_empty()).chain(instruction).peekable();
    if blocks.peek().is_some() {
        body.array("system", blocks, |out, (text, marker)| {
            AnthropicBlockParam::Text { text, marker }.write(out)
        });
    }
}

fn write_output_config(plan: &ThinkingPlan, format: &AnswerFormat<'_>, body: &mut ObjectWriter<'_>) {
    let schema = match format {
        AnswerFormat::Schema(schema) => Some(schema),
        AnswerFormat::Free | AnswerFormat::Tool { .. } | AnswerFormat::Instruction(_) => None,
    };
    if plan.effort.is_none() && schema.is_none() {
        return;
    }
    let mut config = ObjectWriter::begin(body.member("output_config"));
    if let Some(effort) = plan.effort {
        config.string("effort", effort);
    }
    if let Some(schema) = schema {
        let mut format = ObjectWriter::begin_typed(config.member("format"), "json_schema");
        format.raw("schema", schema);
        format.finish();
    }
    config.finish();
}

/// Writes `temperature` or `top_p`, if the model takes either. Both default to 1.
fn write_sampling(
    conversation: &Conversation<'_>,
    is_taken: bool,
    body: &mut ObjectWriter<'_>,
    warnings: &mut Warnings,
) {
    let (temperature, top_p) = (conversation.temperature, conversation.top_p);
    if is_taken {
        let number = |name| conversation.body.get(name).unwrap_or("1");
        match (temperature, top_p) {
            (Some(temperature), _) if temperature > 1.0 => {
                body.raw("temperature", "1");
                warnings.push(Cow::Borrowed("parameter_clamped:temperature"));
            }
            (Some(_), _) => body.raw("temperature", number("temperature")),
            (None, Some(_)) => body.raw("top_p", number("top_p")),
            (None, None) => {}
        }
    }
    let is_lost = |value: Option<f64>, is_sent: bool| !is_sent && value.is_some_and(|value| value != 1.0);
    if is_lost(temperature, is_taken) {
        warnings.push(Cow::Borrowed("parameter_dropped:temperature"));
    }
    if is_lost(top_p, is_taken && temperature.is_none()) {
        warnings.push(Cow::Borrowed("parameter_dropped:top_p"));
    }
}

/// Writes `top_k`, if the model takes it. A 0 keeps all tokens, which is the default.
fn write_top_k(
    conversation: &Conversation<'_>,
    is_taken: bool,
    body: &mut ObjectWriter<'_>,
    warnings: &mut Warnings,
) {
    match conversation.top_k() {
        Some(0) => {}
        Some(top_k) if is_taken => body.integer("top_k", top_k),
        _ => warnings.extend(dropped(conversation, &["top_k"])),
    }
}

/// Writes the stop sequences. The API refuses blank ones.
fn write_stop_sequences(
    conversation: &Conversation<'_>,
    body: &mut ObjectWriter<'_>,
    warnings: &mut Warnings,
) {
    let (kept, blank): (Vec<_>, Vec<_>) = conversation.stop.iter().partition(|stop| !stop.trim().is_empty());
    if !kept.is_empty() {
        body.strings("stop_sequences", kept);
    }
    if blank.iter().any(|stop| !stop.is_empty()) {
        warnings.push(Cow::Borrowed("parameter_dropped:stop"));
    }
}

/// Writes `user` as `metadata.user_id`. The API refuses values that look like an e-mail address or a telephone number.
fn write_user(conversation: &Conversation<'_>, body: &mut ObjectWriter<'_>, warnings: &mut Warnings) {
    let Some(user) = conversation.user.as_deref().filter(|user| !user.is_empty()) else { return };
    if user.chars().count() > MAX_USER_ID_CHARS || is_personal(user) {
        warnings.push(Cow::Borrowed("parameter_dropped:user"));
        return;
    }
    let mut metadata = ObjectWriter::begin(body.member("metadata"));
    metadata.string("user_id", user);
    metadata.finish();
}

fn is_personal(user: &str) -> bool {
    let address = user.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
    let digits = user.chars().filter(char::is_ascii_digit).count();
    let telephone =
        digits >= 7 && user.trim_start_matches('+').chars().all(|c| c.is_ascii_digit() || " ()-".contains(c));
    address || telephone
}

fn reading(format: AnswerFormat<'_>) -> Reading {
    match format {
        AnswerFormat::Free | AnswerFormat::Schema(_) => Reading::default(),
        AnswerFormat::Tool { name, .. } => Reading { json_tool: Some(name), ..Reading::default() },
        AnswerFormat::Instruction(_) => Reading { fenced: true, ..Reading::default() },
    }
}
