//! The body of a chat and of a fill-in-the-middle completion, member by member.

use std::borrow::Cow;

use gw_wire::conversation::{Conversation, Format, Tool, ToolChoice};
use gw_wire::failure::Failure;
use gw_wire::json::{Kind, View};

use super::messages;
use crate::adapter::{Encoded, Target};
use crate::adapters::native::{dropped, unsupported};
use crate::adapters::openai::post;
use crate::adapters::write::{Object, object};

/// The highest `temperature` of the specification; OpenAI's goes to 2.
const HOTTEST: f64 = 1.5;
/// What a function without parameters takes; Mistral wants to be told.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;
/// Mistral's own members of a chat, for clients that know them, and those that it shares with OpenAI as they are.
const AS_THEY_ARE: [&str; 9] = [
    "top_p",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "metadata",
    "prompt_cache_key",
    "prompt_mode",
    "safe_prompt",
    "guardrails",
];
/// The same of a fill-in-the-middle completion.
const AS_THEY_ARE_FIM: [&str; 5] = ["top_p", "stop", "metadata", "prompt_cache_key", "min_tokens"];

/// What models make of `reasoning_effort`.
enum Effort {
    /// They know OpenAI's words.
    Words,
    /// `none` and `high`.
    Switch,
    /// They always reason, and are not asked how much.
    Always,
}

impl Effort {
    /// By the model's name, after docs.mistral.ai/capabilities/reasoning: Small 4 and Medium 3.5 can be switched, Large 4
    /// has `low` and `medium` between, Magistral reasons by nature.
    fn of(model: &str) -> Self {
        let name = model.strip_prefix("ft:").unwrap_or(model);
        if name.starts_with("magistral") {
            Self::Always
        } else if name.starts_with("mistral-large") {
            Self::Words
        } else {
            Self::Switch
        }
    }
}

/// A conversation, or the one prompt of a text completion, as Mistral wants it.
pub(super) fn encode(conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
    let is_completion = conversation.body.get("messages").is_none();
    if is_completion && (conversation.suffix.is_some() || fills_in(target.upstream_model)) {
        return fim(conversation, target);
    }
    chat(conversation, target)
}

/// Codestral completes text as text; the others answer.
fn fills_in(model: &str) -> bool {
    let name = model.strip_prefix("ft:").unwrap_or(model);
    name.starts_with("codestral") && !name.starts_with("codestral-embed")
}

fn chat(conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
    let mut warnings = dropped(conversation, &["logit_bias", "top_logprobs"]);
    if conversation.logprobs.is_some() {
        warnings.push(Cow::Borrowed("parameter_dropped:logprobs"));
    }
    let reasons = matches!(Effort::of(target.upstream_model), Effort::Always)
        || conversation.reasoning_effort.as_deref().is_some_and(|effort| effort != "none");
    let messages = messages::prepare(conversation, reasons)?;
    warnings.extend(messages.warnings);
    let mut body = Object::begin(Vec::with_capacity(1024));
    body.text("model", target.upstream_model);
    body.raw("messages", &messages.json);
    common(&mut body, conversation, target, &AS_THEY_ARE, &mut warnings);
    tools(&mut body, conversation);
    response_format(&mut body, &conversation.format);
    if conversation.n > 1 {
        body.number("n", u64::from(conversation.n));
    }
    prediction(&mut body, conversation);
    reasoning(&mut body, conversation, target, &mut warnings);
    let call = post("/chat/completions", body.end(), conversation.stream);
    Ok(Encoded { warnings, ..Encoded::plain(call) })
}

/// A text completion by a model that fills in what stands between `prompt` and `suffix`, or goes on from the prompt.
fn fim(conversation: &Conversation<'_>, target: &Target<'_>) -> Result<Encoded, Failure> {
    if conversation.n > 1 {
        return Err(unsupported("Invalid 'n': this provider gives one completion of a text at a time."));
    }
    let mut warnings = dropped(conversation, &["presence_penalty", "frequency_penalty", "logit_bias"]);
    let mut body = Object::begin(Vec::with_capacity(1024));
    body.text("model", target.upstream_model);
    let prompt = conversation.messages.first().map(|message| message.text()).unwrap_or_default();
    body.text("prompt", &prompt);
    if let Some(suffix) = &conversation.suffix {
        body.text("suffix", suffix);
    }
    common(&mut body, conversation, target, &AS_THEY_ARE_FIM, &mut warnings);
    let call = post("/fim/completions", body.end(), conversation.stream);
    Ok(Encoded { warnings, ..Encoded::plain(call) })
}

/// What chats and completions have alike.
fn common(
    body: &mut Object,
    conversation: &Conversation<'_>,
    target: &Target<'_>,
    as_they_are: &[&str],
    warnings: &mut Vec<Cow<'static, str>>,
) {
    match (conversation.temperature, conversation.body.get("temperature")) {
        (Some(temperature), _) if temperature > HOTTEST => {
            body.raw("temperature", "1.5");
            warnings.push(Cow::Borrowed("parameter_clamped:temperature"));
        }
        (_, Some(text)) => body.raw("temperature", text),
        (_, None) => {}
    }
    if let Some(limit) = target.max_tokens(conversation.max_tokens) {
        body.number("max_tokens", limit);
    }
    // A seed is not below 0 there. Which one it is means nothing; that it is the same each time does.
    match (conversation.seed, conversation.body.get("random_seed")) {
        (Some(seed), _) => body.number("random_seed", seed.unsigned_abs() & i64::MAX.unsigned_abs()),
        (None, Some(own)) => body.raw("random_seed", own),
        (None, None) => {}
    }
    for name in as_they_are {
        let given = conversation.body.view(name).filter(|value| !value.is_empty_array());
        if let Some(value) = given {
            body.raw(name, value.text());
        }
    }
    if conversation.stream {
        body.raw("stream", "true");
    }
}

fn tools(body: &mut Object, conversation: &Conversation<'_>) {
    if conversation.tools.is_empty() {
        return;
    }
    body.list("tools", &conversation.tools, |out, tool| object(out, |entry| function(entry, tool)));
    match &conversation.tool_choice {
        ToolChoice::Unset => {}
        ToolChoice::Auto => body.text("tool_choice", "auto"),
        ToolChoice::Never => body.text("tool_choice", "none"),
        ToolChoice::Required => body.text("tool_choice", "any"),
        ToolChoice::Named(name) => body.object("tool_choice", |choice| {
            choice.text("type", "function");
            choice.object("function", |function| function.text("name", name));
        }),
    }
    if let Some(parallel) = conversation.parallel_tool_calls {
        body.raw("parallel_tool_calls", if parallel { "true" } else { "false" });
    }
}

fn function(entry: &mut Object, tool: &Tool<'_>) {
    entry.text("type", "function");
    entry.object("function", |function| {
        function.text("name", &tool.name);
        if let Some(description) = &tool.description {
            function.text("description", description);
        }
        function.raw("parameters", tool.parameters.map_or(NO_PARAMETERS, View::text));
        flag(function, "strict", tool.strict);
    });
}

fn flag(object: &mut Object, name: &str, value: Option<bool>) {
    if let Some(value) = value {
        object.raw(name, if value { "true" } else { "false" });
    }
}

fn response_format(body: &mut Object, format: &Format<'_>) {
    match format {
        Format::Text => {}
        Format::Schema { name, description, schema: Some(schema), strict } => {
            body.object("response_format", |format| {
                format.text("type", "json_schema");
                format.object("json_schema", |wanted| {
                    wanted.text("name", name);
                    if let Some(description) = description {
                        wanted.text("description", description);
                    }
                    wanted.raw("schema", schema.text());
                    flag(wanted, "strict", *strict);
                });
            });
        }
        // A schema that was not given: any object will do.
        Format::Json | Format::Schema { .. } => {
            body.object("response_format", |format| format.text("type", "json_object"));
        }
    }
}

/// `prediction` has OpenAI's shape but for its content, which is one text.
fn prediction(body: &mut Object, conversation: &Conversation<'_>) {
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
        prediction.text("type", "content");
        prediction.text("content", &text);
    });
}

fn reasoning(
    body: &mut Object,
    conversation: &Conversation<'_>,
    target: &Target<'_>,
    warnings: &mut Vec<Cow<'static, str>>,
) {
    let Some(asked) = conversation.reasoning_effort.as_deref() else { return };
    let said = match (Effort::of(target.upstream_model), asked) {
        (Effort::Always, _) => {
            warnings.push(Cow::Borrowed("parameter_dropped:reasoning_effort"));
            return;
        }
        (Effort::Words, asked) => asked,
        (Effort::Switch, "none" | "minimal") => "none",
        (Effort::Switch, _) => "high",
    };
    if said != asked {
        warnings.push(Cow::Borrowed("parameter_clamped:reasoning_effort"));
    }
    body.text("reasoning_effort", said);
}
