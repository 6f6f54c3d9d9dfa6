//! The body of a chat and of a text completion with a suffix: docs.ollama.com/api/chat and `/api/generate`. The options
//! are named at docs.ollama.com/modelfile.

use std::borrow::Cow;

use gw_wire::conversation::{Conversation, Format, Tool, ToolChoice};
use gw_wire::failure::Failure;
use gw_wire::json::{Kind, ObjectWriter, write_object};

use super::{messages, post};
use crate::adapter::{Encoded, Target};
use crate::adapters::function_tool::write_function;
use crate::adapters::native::dropped;
use crate::adapters::warnings::Warnings;
use crate::model_rules::{Effort, ModelRules, Off, Thinks};

/// Ollama's own options, which clients may send beside OpenAI's members. Their values are numbers.
const OWN_OPTIONS: [&str; 5] = ["top_k", "min_p", "typical_p", "repeat_penalty", "repeat_last_n"];
/// OpenAI's members that are options with the same name.
const SAME_OPTIONS: [&str; 4] = ["temperature", "top_p", "frequency_penalty", "presence_penalty"];

/// Encodes a conversation. `num_ctx` is the context to ask for. `allows_keep_alive`: the client's `keep_alive` is forwarded.
pub(super) fn encode(
    conversation: &Conversation<'_>,
    target: &Target<'_>,
    num_ctx: Option<u64>,
    allows_keep_alive: bool,
) -> Result<Encoded, Failure> {
    let rules = target.rules;
    let mut warnings = dropped(conversation, &["logit_bias"]);
    let mut out = Vec::with_capacity(1024);
    let mut body = ObjectWriter::begin(&mut out);
    body.string("model", target.upstream_model);
    let path = if let Some(suffix) = &conversation.suffix {
        let prompt = conversation.messages.first().map(|message| message.text()).unwrap_or_default();
        body.string("prompt", &prompt);
        body.string("suffix", suffix);
        "/api/generate"
    } else {
        body.raw("messages", messages::write(conversation)?);
        tools(&mut body, conversation, &mut warnings);
        "/api/chat"
    };
    // Without this member the answer is a stream.
    body.boolean("stream", conversation.stream);
    // A prompt that exceeds the context is an error. Otherwise its beginning would be lost silently. Servers before
    // 0.12.6 ignore both members.
    body.boolean("truncate", false);
    body.boolean("shift", false);
    format(&mut body, &conversation.format);
    think(&mut body, conversation, rules, &mut warnings);
    // ollama/ollama-python#601. Older servers ignore the members.
    if let Some(alternatives) = conversation.logprobs {
        body.boolean("logprobs", true);
        if alternatives > 0 {
            body.integer("top_logprobs", u64::from(alternatives));
        }
    }
    match conversation.body.get("keep_alive") {
        Some(time) if allows_keep_alive => body.raw("keep_alive", time),
        // The member fills the server's memory or removes the models of others from it.
        _ => warnings.extend(dropped(conversation, &["keep_alive"])),
    }
    options(&mut body, conversation, target, num_ctx, &mut warnings);
    body.finish();
    Ok(Encoded { warnings, ..Encoded::plain(post(path, out, conversation.stream)) })
}

/// Writes the offered tools. Ollama cannot force a call. If a tool is named, only this tool is offered, and a warning
/// says that the model may answer without a call.
fn tools(body: &mut ObjectWriter<'_>, conversation: &Conversation<'_>, warnings: &mut Warnings) {
    let named = match &conversation.tool_choice {
        ToolChoice::Never => return,
        ToolChoice::Named(name) => Some(name),
        ToolChoice::Unset | ToolChoice::Auto | ToolChoice::Required => None,
    };
    if named.is_some() || conversation.tool_choice == ToolChoice::Required {
        let member = if conversation.legacy_functions { "function_call" } else { "tool_choice" };
        warnings.extend(dropped(conversation, &[member]));
    }
    if conversation.parallel_tool_calls == Some(false) {
        warnings.extend(dropped(conversation, &["parallel_tool_calls"]));
    }
    let offered: Vec<&Tool<'_>> =
        conversation.tools.iter().filter(|tool| named.is_none_or(|name| tool.name == *name)).collect();
    if !offered.is_empty() {
        body.array("tools", offered, |out, tool| {
            write_object(out, |entry| write_function(entry, tool, None))
        });
    }
}

fn format(body: &mut ObjectWriter<'_>, format: &Format<'_>) {
    match format {
        Format::Text => {}
        Format::Schema { schema: Some(schema), .. } => body.raw("format", schema.text()),
        // Without a schema any JSON object fits.
        Format::Json | Format::Schema { .. } => body.string("format", "json"),
    }
}

/// Writes the thinking level. Most models only switch thinking on and off, and some have levels
/// (docs.ollama.com/capabilities/thinking). A model without thinking refuses the member.
fn think(
    body: &mut ObjectWriter<'_>,
    conversation: &Conversation<'_>,
    rules: ModelRules,
    warnings: &mut Warnings,
) {
    let Some(word) = conversation.reasoning_effort.as_deref() else { return };
    let wanted = Effort::read(word);
    if wanted == Some(Effort::None) && rules.thinking_off == Off::Disabled {
        return body.boolean("think", false);
    }
    let thinks = rules.is_declared_to_reason() || !matches!(rules.thinks, Thinks::Never | Thinks::Unknown);
    let Some(wanted) = wanted.filter(|_| thinks) else {
        // `none` has no effect on a model that never reasons.
        if wanted != Some(Effort::None) {
            warnings.push(Cow::Borrowed("parameter_dropped:reasoning_effort"));
        }
        return;
    };
    let Some(level) = rules.effort(wanted) else { return body.boolean("think", true) };
    if level != wanted {
        warnings.push(Cow::Borrowed("parameter_clamped:reasoning_effort"));
    }
    body.string("think", level.as_str());
}

fn options(
    body: &mut ObjectWriter<'_>,
    conversation: &Conversation<'_>,
    target: &Target<'_>,
    num_ctx: Option<u64>,
    warnings: &mut Warnings,
) {
    body.object("options", |options| {
        if let Some(num_ctx) = num_ctx {
            options.integer("num_ctx", num_ctx);
        }
        if let Some(limit) = target.max_tokens(conversation.max_tokens) {
            // 0 means no limit here, which is the opposite of the client's limit.
            if limit == 0 {
                warnings.push(Cow::Borrowed("parameter_clamped:max_tokens"));
            }
            options.integer("num_predict", limit.max(1));
        }
        for name in SAME_OPTIONS {
            if let Some(text) = conversation.body.get(name) {
                options.raw(name, text);
            }
        }
        if let Some(seed) = conversation.seed {
            options.raw("seed", seed.to_string());
        }
        if !conversation.stop.is_empty() {
            options.strings("stop", &conversation.stop);
        }
        for name in OWN_OPTIONS {
            let given = conversation.body.view(name);
            if let Some(value) = given.filter(|value| matches!(value.kind(), Kind::Integer | Kind::Decimal)) {
                options.raw(name, value.text());
            }
        }
    });
}
