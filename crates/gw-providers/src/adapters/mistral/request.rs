//! The body of a chat and of a fill-in-the-middle completion.

use std::borrow::Cow;

use gw_wire::conversation::{Conversation, Format, ToolChoice};
use gw_wire::failure::Failure;
use gw_wire::json::{Kind, ObjectWriter, View, write_object};

use super::messages;
use crate::adapter::{Encoded, Target};
use crate::adapters::function_tool::write_function;
use crate::adapters::http_call::post_streamable;
use crate::adapters::native::{dropped, unsupported};
use crate::model_rules::{Effort, ModelRules, Thinks};

/// Members of a chat that are copied from the client's request: Mistral's own, and those that it shares with OpenAI.
const COPIED_MEMBERS: [&str; 8] = [
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "metadata",
    "prompt_cache_key",
    "prompt_mode",
    "safe_prompt",
    "guardrails",
];
/// Members of a fill-in-the-middle completion that are copied from the client's request.
const COPIED_FIM_MEMBERS: [&str; 4] = ["stop", "metadata", "prompt_cache_key", "min_tokens"];

/// Encodes a conversation, or the one prompt of a text completion.
pub(super) fn encode(conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
    let is_completion = conversation.body.get("messages").is_none();
    let rules = target.rules;
    // Codestral continues the text of a prompt. Other models answer it.
    if is_completion && (conversation.suffix.is_some() || rules.fills_in) {
        return fim(conversation, target, rules);
    }
    chat(conversation, target, rules)
}

fn chat(conversation: &Conversation<'_>, target: &Target<'_>, rules: ModelRules) -> Result<Encoded, Failure> {
    let mut warnings = dropped(conversation, &["logit_bias", "top_logprobs", "top_k"]);
    if conversation.logprobs.is_some() {
        warnings.push(Cow::Borrowed("parameter_dropped:logprobs"));
    }
    let reasons = rules.thinks == Thinks::Always
        || rules.thinks == Thinks::WhenAsked
            && conversation.reasoning_effort.as_deref().is_some_and(|effort| effort != "none");
    let messages = messages::prepare(conversation, reasons)?;
    warnings.extend(messages.warnings);
    let mut out = Vec::with_capacity(1024);
    let mut body = ObjectWriter::begin(&mut out);
    body.string("model", target.upstream_model);
    body.raw("messages", &messages.json);
    common(&mut body, conversation, (target, rules), &COPIED_MEMBERS, &mut warnings);
    tools(&mut body, conversation);
    response_format(&mut body, &conversation.format);
    if conversation.n > 1 {
        body.integer("n", u64::from(conversation.n));
    }
    prediction(&mut body, conversation);
    reasoning(&mut body, conversation, rules, &mut warnings);
    body.finish();
    let call = post_streamable("/chat/completions", out, conversation.stream);
    Ok(Encoded { warnings, ..Encoded::plain(call) })
}

/// Encodes a text completion. The model writes the text between `prompt` and `suffix`, or continues the prompt.
fn fim(conversation: &Conversation<'_>, target: &Target<'_>, rules: ModelRules) -> Result<Encoded, Failure> {
    if conversation.n > 1 {
        return Err(unsupported("Invalid 'n': this provider gives one completion of a text at a time."));
    }
    let mut warnings = dropped(conversation, &["presence_penalty", "frequency_penalty", "logit_bias"]);
    let mut out = Vec::with_capacity(1024);
    let mut body = ObjectWriter::begin(&mut out);
    body.string("model", target.upstream_model);
    let prompt = conversation.messages.first().map(|message| message.text()).unwrap_or_default();
    body.string("prompt", &prompt);
    if let Some(suffix) = &conversation.suffix {
        body.string("suffix", suffix);
    }
    common(&mut body, conversation, (target, rules), &COPIED_FIM_MEMBERS, &mut warnings);
    body.finish();
    let call = post_streamable("/fim/completions", out, conversation.stream);
    Ok(Encoded { warnings, ..Encoded::plain(call) })
}

/// Writes the members that chats and completions share.
fn common(
    body: &mut ObjectWriter<'_>,
    conversation: &Conversation<'_>,
    (target, rules): (&Target<'_>, ModelRules),
    as_they_are: &[&str],
    warnings: &mut Vec<Cow<'static, str>>,
) {
    match (conversation.temperature, conversation.body.get("temperature")) {
        (Some(temperature), _) if temperature > rules.temperature_most => {
            body.raw("temperature", rules.temperature_most.to_string());
            warnings.push(Cow::Borrowed("parameter_clamped:temperature"));
        }
        (_, Some(text)) => body.raw("temperature", text),
        (_, None) => {}
    }
    // At temperature 0 Mistral refuses any `top_p` other than 1. It would have no effect there.
    let is_greedy = rules.greedy_top_p && conversation.temperature == Some(0.0);
    match (conversation.top_p, conversation.body.get("top_p")) {
        (Some(top_p), _) if is_greedy && top_p < 1.0 => {
            warnings.push(Cow::Borrowed("parameter_dropped:top_p"));
        }
        (_, Some(text)) => body.raw("top_p", text),
        (_, None) => {}
    }
    if let Some(limit) = target.max_tokens(conversation.max_tokens) {
        body.integer("max_tokens", limit);
    }
    // Mistral's seed is not negative. Equal seeds stay equal, which is all that a seed must do.
    match (conversation.seed, conversation.body.get("random_seed")) {
        (Some(seed), _) => body.integer("random_seed", seed.unsigned_abs() & i64::MAX.unsigned_abs()),
        (None, Some(own)) => body.raw("random_seed", own),
        (None, None) => {}
    }
    for name in as_they_are {
        let given = conversation.body.view(name).filter(|value| !value.is_empty_array());
        // Lists and objects in `metadata` are hints to other gateways.
        let is_structure =
            |(_, value): (View<'_>, View<'_>)| matches!(value.kind(), Kind::Array | Kind::Object);
        let given = given.filter(|value| *name != "metadata" || !value.members().any(is_structure));
        if let Some(value) = given {
            body.raw(name, value.text());
        }
    }
    if conversation.stream {
        body.boolean("stream", true);
    }
}

fn tools(body: &mut ObjectWriter<'_>, conversation: &Conversation<'_>) {
    if conversation.tools.is_empty() {
        return;
    }
    body.array("tools", &conversation.tools, |out, tool| {
        write_object(out, |entry| write_function(entry, tool, tool.strict))
    });
    match &conversation.tool_choice {
        ToolChoice::Unset => {}
        ToolChoice::Auto => body.string("tool_choice", "auto"),
        ToolChoice::Never => body.string("tool_choice", "none"),
        ToolChoice::Required => body.string("tool_choice", "any"),
        ToolChoice::Named(name) => body.object("tool_choice", |choice| {
            choice.string("type", "function");
            choice.object("function", |function| function.string("name", name));
        }),
    }
    if let Some(parallel) = conversation.parallel_tool_calls {
        body.boolean("parallel_tool_calls", parallel);
    }
}

fn flag(object: &mut ObjectWriter<'_>, name: &'static str, value: Option<bool>) {
    if let Some(value) = value {
        object.boolean(name, value);
    }
}

fn response_format(body: &mut ObjectWriter<'_>, format: &Format<'_>) {
    match format {
        Format::Text => {}
        Format::Schema { name, description, schema: Some(schema), strict } => {
            body.object("response_format", |format| {
                format.string("type", "json_schema");
                format.object("json_schema", |wanted| {
                    wanted.string("name", name);
                    if let Some(description) = description {
                        wanted.string("description", description);
                    }
                    wanted.raw("schema", schema.text());
                    flag(wanted, "strict", *strict);
                });
            });
        }
        // Without a schema any JSON object fits.
        Format::Json | Format::Schema { .. } => {
            body.object("response_format", |format| format.string("type", "json_object"));
        }
    }
}

/// Writes `prediction`. It has OpenAI's form, but its content is a single text.
fn prediction(body: &mut ObjectWriter<'_>, conversation: &Conversation<'_>) {
    let Some(given) = conversation.body.view("prediction") else { return };
    let Some(content) = messages::member(given, "content") else { return };
    let text = match content.kind() {
        Kind::String => content.string().unwrap_or_default(),
        _ => {
            let texts = content.elements().filter_map(|part| messages::member(part, "text")?.string());
            Cow::Owned(texts.collect())
        }
    };
    body.object("prediction", |prediction| {
        prediction.string("type", "content");
        prediction.string("content", &text);
    });
}

fn reasoning(
    body: &mut ObjectWriter<'_>,
    conversation: &Conversation<'_>,
    rules: ModelRules,
    warnings: &mut Vec<Cow<'static, str>>,
) {
    let Some(asked) = conversation.reasoning_effort.as_deref() else { return };
    let Some(sent) = Effort::read(asked).and_then(|effort| rules.effort(effort)) else {
        // `none` has no effect on a model that never reasons.
        if !(asked == "none" && rules.thinks == Thinks::Never) {
            warnings.push(Cow::Borrowed("parameter_dropped:reasoning_effort"));
        }
        return;
    };
    if sent.as_str() != asked {
        warnings.push(Cow::Borrowed("parameter_clamped:reasoning_effort"));
    }
    body.string("reasoning_effort", sent.as_str());
}
