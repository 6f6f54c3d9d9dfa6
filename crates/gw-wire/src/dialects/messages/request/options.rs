//! The parameters of a request: sampling, stop sequences, thinking, the answer's format, metadata.

use std::borrow::Cow;
use std::sync::Arc;

use super::tools::check_schema;
use super::warnings::Losses;
use crate::conversation::short_id;
use crate::dialects::messages::context::{MessagesContext, ThinkingDisplay};
use crate::dialects::messages::faults::{
    MessagesPath, fraction, integer, invalid, list, missing, not_one_of, object, optional_string,
    required_string, string,
};
use crate::json::{Kind, ObjectWriter, View};
use crate::request::{Body, Invalid, RequestLimits};

/// The most stop sequences of a chat request. The gateway applies the others itself.
const MAX_CHAT_STOPS: usize = 4;

/// The most stop sequences that the gateway applies, and the most bytes of each. They bound the work for each piece of an
/// answer.
const MAX_OWN_STOPS: usize = 64;
const MAX_OWN_STOP_BYTES: usize = 256;

/// The most characters of `user` that OpenAI takes (maximhq/bifrost#1000, December 2025). Claude Code sends more.
const MAX_USER_CHARS: usize = 64;

/// The least budget of tokens for thinking.
const MIN_BUDGET: u64 = 1024;

const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// The name of the answer's schema.
const SCHEMA_NAME: &str = "structured_output";

/// Writes `temperature`, `top_p` and `top_k`.
pub(super) fn sampling(body: &Body, chat: &mut ObjectWriter<'_>) -> Result<(), Invalid> {
    for name in ["temperature", "top_p"] {
        if let Some(value) = body.view(name) {
            fraction(&MessagesPath::Top(name), value)?;
            chat.raw(name, value.text());
        }
    }
    if let Some(top_k) = body.view("top_k") {
        integer(&MessagesPath::Top("top_k"), top_k, 0)?;
        // Adapters whose providers do not take it leave it out.
        chat.raw("top_k", top_k.text());
    }
    Ok(())
}

/// Writes the first stop sequences and keeps the others.
pub(super) fn stops(
    body: &Body,
    chat: &mut ObjectWriter<'_>,
    context: &mut MessagesContext,
    losses: &mut Losses,
) -> Result<(), Invalid> {
    let Some(value) = body.view("stop_sequences") else { return Ok(()) };
    let path = MessagesPath::Top("stop_sequences");
    let mut stops = Vec::new();
    for (at, stop) in list(&path, value)?.enumerate() {
        let path = path.item(at);
        let stop = string(&path, stop)?;
        if stop.trim().is_empty() {
            return Err(invalid(&path, "each stop sequence must contain non-whitespace"));
        }
        stops.push(stop);
    }
    let extra = stops.split_off(stops.len().min(MAX_CHAT_STOPS));
    if !stops.is_empty() {
        chat.strings("stop", stops.iter().map(|stop| &**stop));
        context.sent_stops = stops.into_iter().map(Cow::into_owned).collect();
    }
    let fits = |stop: &Cow<'_, str>| stop.len() <= MAX_OWN_STOP_BYTES;
    if extra.len() > MAX_OWN_STOPS || !extra.iter().all(fits) {
        losses.parameter("stop_sequences", true);
    }
    let kept = extra.into_iter().take(MAX_OWN_STOPS).filter(fits);
    context.extra_stops = kept.map(|stop| stop.into_owned()).collect::<Arc<[String]>>();
    Ok(())
}

/// Writes `reasoning_effort` and `response_format`.
pub(super) fn thinking(
    body: &Body,
    chat: &mut ObjectWriter<'_>,
    context: &mut MessagesContext,
    losses: &mut Losses,
) -> Result<(), Invalid> {
    let config_path = MessagesPath::Top("output_config");
    let [effort, format] = match body.view("output_config") {
        Some(config) => object(&config_path, config, ["effort", "format"])?,
        None => [None, None],
    };
    let effort_path = config_path.member("effort");
    let effort = match effort {
        Some(effort) => {
            let word = string(&effort_path, effort)?;
            let known = EFFORTS.into_iter().find(|known| *known == word);
            Some(known.ok_or_else(|| not_one_of(&effort_path, &EFFORTS, &word))?)
        }
        None => None,
    };
    let wanted = match body.view("thinking") {
        Some(thinking) => thinking_effort(thinking, effort, context, losses)?,
        None => effort,
    };
    chat.optional_string("reasoning_effort", wanted);
    match (format, body.view("output_format")) {
        (Some(format), _) => answer_format(&config_path.member("format"), format, chat),
        (None, Some(format)) => answer_format(&MessagesPath::Top("output_format"), format, chat),
        (None, None) => Ok(()),
    }
}

/// The effort that a `thinking` asks for. The thresholds of a budget are LiteLLM's
/// (`litellm_core_utils/reasoning_effort_utils.py`, November 2026).
fn thinking_effort(
    thinking: View<'_>,
    effort: Option<&'static str>,
    context: &mut MessagesContext,
    losses: &mut Losses,
) -> Result<Option<&'static str>, Invalid> {
    let path = MessagesPath::Top("thinking");
    let [kind, budget, display] = object(&path, thinking, ["type", "budget_tokens", "display"])?;
    let kind = required_string(&path.member("type"), kind)?;
    let display = optional_string(&path.member("display"), display)?;
    if display.as_deref() == Some("omitted") {
        context.thinking = ThinkingDisplay::Omitted;
    }
    match &*kind {
        "enabled" => {
            let path = path.member("enabled");
            let path = path.member("budget_tokens");
            let budget = integer(&path, budget.ok_or_else(|| missing(&path))?, MIN_BUDGET)?;
            Ok(effort.or(Some(match budget {
                4096.. => "high",
                2048.. => "medium",
                _ => "low",
            })))
        }
        "adaptive" => Ok(effort.or(Some("high"))),
        "disabled" => {
            context.thinking = ThinkingDisplay::Hidden;
            Ok(Some("none"))
        }
        // Thinking between calls only, or a type of a later version of the API.
        _ => {
            losses.parameter("thinking", true);
            Ok(effort)
        }
    }
}

fn answer_format(
    path: &MessagesPath<'_>,
    format: View<'_>,
    chat: &mut ObjectWriter<'_>,
) -> Result<(), Invalid> {
    let [kind, schema] = object(path, format, ["type", "schema"])?;
    let kind_path = path.member("type");
    match &*required_string(&kind_path, kind)? {
        "json_schema" => {}
        other => return Err(not_one_of(&kind_path, &["json_schema"], other)),
    }
    let schema_path = path.member("schema");
    let schema = schema.ok_or_else(|| missing(&schema_path))?;
    check_schema(&schema_path, schema, &RequestLimits::default(), &mut 0)?;
    chat.object("response_format", |format| {
        format.string("type", "json_schema");
        format.object("json_schema", |json_schema| {
            json_schema.string("name", SCHEMA_NAME);
            json_schema.raw("schema", schema.text());
        });
    });
    Ok(())
}

/// Writes `user` from `metadata.user_id`. A long one is replaced by a digest of it.
pub(super) fn metadata(
    body: &Body,
    chat: &mut ObjectWriter<'_>,
    context: &mut MessagesContext,
) -> Result<(), Invalid> {
    let Some(metadata) = body.view("metadata") else { return Ok(()) };
    let path = MessagesPath::Top("metadata");
    if metadata.kind() != Kind::Object {
        return object(&path, metadata, [""]).map(drop);
    }
    let [user] = metadata.pick(["user_id"]);
    let Some(user) = optional_string(&path.member("user_id"), user)?.filter(|user| !user.is_empty()) else {
        return Ok(());
    };
    if user.chars().count() > MAX_USER_CHARS {
        chat.string("user", &format!("user_{}", short_id(&user)));
    } else {
        chat.string("user", &user);
    }
    context.user_id = Some(user.into_owned());
    Ok(())
}

/// Writes `fallbacks`, which has objects that name a model in this API, and names elsewhere; or `fallback_model`. A word
/// such as `default` leaves the choice to the provider, so it names no model that the gateway could check.
pub(super) fn fallbacks(
    body: &Body,
    chat: &mut ObjectWriter<'_>,
    losses: &mut Losses,
) -> Result<(), Invalid> {
    let Some(value) = body.view("fallbacks") else {
        if let Some(value) = body.get("fallback_model") {
            chat.raw("fallback_model", value);
        }
        return Ok(());
    };
    if value.kind() == Kind::String {
        losses.parameter("fallbacks", true);
        return Ok(());
    }
    let path = MessagesPath::Top("fallbacks");
    let mut models = Vec::new();
    for (at, entry) in list(&path, value)?.enumerate() {
        let path = path.item(at);
        if entry.kind() == Kind::String {
            models.push(string(&path, entry)?);
            continue;
        }
        let [model] = object(&path, entry, ["model"])?;
        models.push(required_string(&path.member("model"), model)?);
    }
    chat.strings("fallbacks", models.iter().map(|model| &**model));
    Ok(())
}
