//! The body of a chat: docs.cohere.com/reference/chat.

use std::borrow::Cow;

use gw_wire::conversation::{Conversation, Format, Tool, ToolChoice};
use gw_wire::failure::Failure;
use gw_wire::json::{ObjectWriter, View, write_object, write_str};

use super::messages;
use crate::adapter::{Encoded, Reading, Target};
use crate::adapters::function_tool::write_function;
use crate::adapters::http_call::post_streamable;
use crate::adapters::native::{dropped, only_stop, unsupported};
use crate::model_rules::{Effort, ForcedTools, ModelRules, Thinks};

/// Cohere's own members of a chat, which are copied from the client's request.
const COPIED_MEMBERS: [&str; 3] = ["k", "citation_options", "safety_mode"];

/// Encodes a conversation.
pub(super) fn encode(conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
    if conversation.suffix.is_some() {
        return Err(unsupported("Invalid 'suffix': this provider has no completion with a suffix."));
    }
    let mut warnings = dropped(conversation, &["logit_bias"]);
    if conversation.logprobs.is_some_and(|alternatives| alternatives > 0) {
        warnings.push(Cow::Borrowed("parameter_dropped:top_logprobs"));
    }
    if conversation.parallel_tool_calls == Some(false) {
        warnings.extend(dropped(conversation, &["parallel_tool_calls"]));
    }
    let rules = target.rules;
    let mut written = messages::write(conversation, rules)?;
    // Cohere refuses some members beside tools. Tools that may not be called are left out for them.
    let never = conversation.tool_choice == ToolChoice::Never;
    let has_choice = rules.forced_tools != ForcedTools::Refused;
    let is_forced = matches!(conversation.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
    if !has_choice && is_forced && !conversation.tools.is_empty() {
        warnings.push(Cow::Borrowed("parameter_dropped:tool_choice"));
    }
    let wants_json = !matches!(conversation.format, Format::Text);
    let in_words = wants_json && rules.schema_without_tools && !never && !conversation.tools.is_empty();
    if in_words {
        ask_in_words(&mut written.json, &conversation.format, &mut warnings);
    }
    let mut out = Vec::with_capacity(1024 + written.json.len());
    let mut body = ObjectWriter::begin(&mut out);
    body.string("model", target.upstream_model);
    body.raw("messages", &written.json);
    body.boolean("stream", conversation.stream);
    documents(&mut body, conversation, &written.documents);
    if !(never && (wants_json || !has_choice)) {
        tools(&mut body, conversation, has_choice);
    }
    if !in_words {
        response_format(&mut body, &conversation.format);
    }
    sampling(&mut body, conversation, (target, rules), &mut warnings);
    thinking(&mut body, conversation, rules, &mut warnings);
    for name in COPIED_MEMBERS {
        if let Some(text) = conversation.body.get(name) {
            body.raw(name, text);
        }
    }
    body.finish();
    let call = post_streamable("/v2/chat", out, conversation.stream);
    let only_stop = only_stop(&conversation.stop);
    let reading = Reading { fenced: in_words, only_stop, ..Reading::default() };
    Ok(Encoded { call, reading, warnings })
}

/// Puts an instruction to answer in JSON before the messages.
fn ask_in_words(messages: &mut Vec<u8>, format: &Format<'_>, warnings: &mut Vec<Cow<'static, str>>) {
    let mut words =
        "Answer with a single JSON object and nothing else: no other text and no code fence.".to_owned();
    if let Format::Schema { schema: Some(schema), .. } = format {
        words.push_str(" It must match this JSON Schema: ");
        words.push_str(schema.text());
        warnings.push(Cow::Borrowed("parameter_weakened:response_format"));
    }
    let mut first = br#"[{"role":"system","content":"#.to_vec();
    write_str(&mut first, &words);
    first.extend_from_slice(b"},");
    // The new message replaces the opening bracket. The list is never empty.
    messages.splice(..1.min(messages.len()), first);
}

/// Writes the client's own `documents` and the text files.
fn documents(body: &mut ObjectWriter<'_>, conversation: &Conversation<'_>, files: &[Vec<u8>]) {
    let own = conversation.body.view("documents").into_iter().flat_map(View::elements);
    let all: Vec<&[u8]> =
        own.map(|document| document.text().as_bytes()).chain(files.iter().map(Vec::as_slice)).collect();
    if !all.is_empty() {
        body.array("documents", all, |out, document| out.extend_from_slice(document));
    }
}

/// Writes the tools and the tool choice. `has_choice`: the model accepts `tool_choice`.
fn tools(body: &mut ObjectWriter<'_>, conversation: &Conversation<'_>, has_choice: bool) {
    let named = match &conversation.tool_choice {
        ToolChoice::Named(name) => Some(name),
        _ => None,
    };
    // The API cannot name a tool, so only the named tool is offered.
    let offered: Vec<&Tool<'_>> =
        conversation.tools.iter().filter(|tool| named.is_none_or(|name| tool.name == *name)).collect();
    if offered.is_empty() {
        return;
    }
    // The member applies to all tools together.
    if offered.iter().all(|tool| tool.strict == Some(true)) {
        body.boolean("strict_tools", true);
    }
    body.array("tools", offered, |out, tool| write_object(out, |entry| write_function(entry, tool, None)));
    match &conversation.tool_choice {
        _ if !has_choice => {}
        ToolChoice::Unset | ToolChoice::Auto => {}
        ToolChoice::Never => body.string("tool_choice", "NONE"),
        ToolChoice::Required | ToolChoice::Named(_) => body.string("tool_choice", "REQUIRED"),
    }
}

/// Writes the response format. Cohere puts the schema into the JSON format.
fn response_format(body: &mut ObjectWriter<'_>, format: &Format<'_>) {
    if matches!(format, Format::Text) {
        return;
    }
    body.object("response_format", |wanted| {
        wanted.string("type", "json_object");
        if let Format::Schema { schema: Some(schema), .. } = format {
            wanted.raw("json_schema", schema.text());
        }
    });
}

/// The most tokens that Cohere chooses from.
const MAX_K: u64 = 500;

fn sampling(
    body: &mut ObjectWriter<'_>,
    conversation: &Conversation<'_>,
    (target, rules): (&Target<'_>, ModelRules),
    warnings: &mut Vec<Cow<'static, str>>,
) {
    if let Some(limit) = target.max_tokens(conversation.max_tokens) {
        body.integer("max_tokens", limit);
    }
    let numbers = [
        ("temperature", "temperature", conversation.temperature, [0.0, rules.temperature_most]),
        ("top_p", "p", conversation.top_p, rules.top_p),
        ("frequency_penalty", "frequency_penalty", conversation.frequency_penalty, rules.penalties),
        ("presence_penalty", "presence_penalty", conversation.presence_penalty, rules.penalties),
    ];
    for (member, name, value, [least, most]) in numbers {
        let (Some(value), Some(text)) = (value, conversation.body.get(member)) else { continue };
        let bound = value.clamp(least, most);
        if (least..=most).contains(&value) {
            body.raw(name, text);
        } else {
            body.raw(name, bound.to_string());
            warnings.push(Cow::Owned(format!("parameter_clamped:{member}")));
        }
    }
    // `k` of docs.cohere.com/reference/chat: 0 to 500, and 0 takes all tokens.
    if let Some(top_k) = conversation.top_k() {
        body.integer("k", top_k.min(MAX_K));
        if top_k > MAX_K {
            warnings.push(Cow::Borrowed("parameter_clamped:top_k"));
        }
    }
    if !conversation.stop.is_empty() {
        body.strings("stop_sequences", &conversation.stop);
    }
    // Cohere's seed is not negative. Equal seeds stay equal, which is all that a seed must do.
    if let Some(seed) = conversation.seed {
        body.integer("seed", seed.unsigned_abs());
    }
    if conversation.logprobs.is_some() {
        body.boolean("logprobs", true);
    }
}

/// Writes the thinking budget. Reasoning models think by default, without a limit. Lower efforts are token budgets.
fn thinking(
    body: &mut ObjectWriter<'_>,
    conversation: &Conversation<'_>,
    rules: ModelRules,
    warnings: &mut Vec<Cow<'static, str>>,
) {
    let Some(word) = conversation.reasoning_effort.as_deref() else { return };
    let effort = Effort::read(word);
    let thinks = rules.thinks == Thinks::Usually || rules.is_declared_to_reason();
    if !thinks || effort.is_none() {
        // `none` has no effect on a model that never reasons.
        if effort != Some(Effort::None) {
            warnings.push(Cow::Borrowed("parameter_dropped:reasoning_effort"));
        }
        return;
    }
    let budget = effort.and_then(|effort| rules.budgets.get(&effort).copied());
    let kind = if effort == Some(Effort::None) { "disabled" } else { "enabled" };
    body.object("thinking", |thinking| {
        thinking.string("type", kind);
        if let Some(budget) = budget {
            thinking.integer("token_budget", budget);
        }
    });
}
