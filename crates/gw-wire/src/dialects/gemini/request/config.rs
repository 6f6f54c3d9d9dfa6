//! `generationConfig`: sampling, stop sequences, thinking, the answer's format.

use std::sync::Arc;

use super::schema;
use crate::dialects::gemini::context::GeminiContext;
use crate::dialects::gemini::members::{Losses, flag, members, members_and, optional, whole};
use crate::dialects::messages::ThinkingDisplay;
use crate::json::{Kind, ObjectWriter, View};
use crate::request::Invalid;
use crate::request::fields::{Path, array, invalid_value, not_one_of, number, string, wrong_type};

/// The most stop sequences of a chat request. The gateway applies the others itself.
const MAX_CHAT_STOPS: usize = 4;

/// The most stop sequences of this API.
const MAX_STOPS: usize = 16;

/// The most bytes of a stop sequence that the gateway applies itself. They bound the work for each piece of an answer.
const MAX_OWN_STOP_BYTES: usize = 256;

/// The most candidates of an answer (`candidateCount`, ai.google.dev/api/generate-content, November 2026).
const MAX_CANDIDATES: i64 = 8;

/// The name of the answer's schema.
const SCHEMA_NAME: &str = "response";

/// The members that are read.
const NAMES: [&str; 18] = [
    "temperature",
    "topP",
    "topK",
    "maxOutputTokens",
    "candidateCount",
    "stopSequences",
    "seed",
    "presencePenalty",
    "frequencyPenalty",
    "responseLogprobs",
    "logprobs",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "_responseJsonSchema",
    "responseModalities",
    "thinkingConfig",
    "speechConfig",
];

/// Writes the parameters of a `generationConfig`.
pub(super) fn write(
    value: View<'_>,
    chat: &mut ObjectWriter<'_>,
    context: &mut GeminiContext,
    losses: &mut Losses,
) -> Result<(), Invalid> {
    let path = Path::Top("generationConfig");
    let found = members_and(&path, value, NAMES, |name, value| {
        if value.kind() != Kind::Null {
            losses.parameter(name);
        }
    })?;
    let [temperature, top_p, top_k, max_tokens, candidates, stops, seed, presence, frequency, ..] = found;
    let [
        ..,
        has_logprobs,
        logprobs,
        mime_type,
        schema,
        json_schema,
        old_json_schema,
        modalities,
        thinking,
        speech,
    ] = found;
    for (name, own, value, most) in [
        ("temperature", "temperature", temperature, 2.0),
        ("topP", "top_p", top_p, 1.0),
        ("presencePenalty", "presence_penalty", presence, 2.0),
        ("frequencyPenalty", "frequency_penalty", frequency, 2.0),
    ] {
        let least = if name.ends_with("Penalty") { -2.0 } else { 0.0 };
        if let Some(value) = value {
            number(&path.member(name), value, &(least..=most))?;
            chat.raw(own, value.text());
        }
    }
    for (name, own, value, range) in [
        // Adapters whose providers do not take it leave it out.
        ("topK", "top_k", top_k, 0..=i64::from(i32::MAX)),
        ("maxOutputTokens", "max_completion_tokens", max_tokens, 1..=i64::from(i32::MAX)),
        ("candidateCount", "n", candidates, 1..=MAX_CANDIDATES),
        ("seed", "seed", seed, i64::MIN..=i64::MAX),
    ] {
        if let Some(value) = value {
            chat.raw(own, whole(&path.member(name), value, &range)?.to_string());
        }
    }
    if let Some(stops) = stops {
        write_stops(&path.member("stopSequences"), stops, chat, context, losses)?;
    }
    write_logprobs(&path, has_logprobs, logprobs, chat)?;
    let schema = json_schema.or(old_json_schema).map(AnswerSchema::Json).or(schema.map(AnswerSchema::Google));
    write_format(&path, mime_type, schema, chat, losses)?;
    if let Some(modalities) = modalities {
        write_modalities(&path.member("responseModalities"), modalities, chat)?;
    }
    if speech.is_some() {
        losses.parameter("speechConfig");
    }
    match thinking {
        Some(thinking) => write_thinking(&path.member("thinkingConfig"), thinking, chat, context),
        None => Ok(()),
    }
}

/// Writes the first stop sequences and keeps the others.
fn write_stops(
    path: &Path<'_>,
    value: View<'_>,
    chat: &mut ObjectWriter<'_>,
    context: &mut GeminiContext,
    losses: &mut Losses,
) -> Result<(), Invalid> {
    let mut stops = Vec::new();
    for (at, stop) in array(path, value, MAX_STOPS, "an array of strings")?.enumerate() {
        stops.push(string(&path.item(at), stop)?);
    }
    stops.retain(|stop| !stop.is_empty());
    let extra = stops.split_off(stops.len().min(MAX_CHAT_STOPS));
    if !stops.is_empty() {
        chat.strings("stop", stops.iter().map(|stop| &**stop));
    }
    if extra.iter().any(|stop| stop.len() > MAX_OWN_STOP_BYTES) {
        losses.parameter("stopSequences");
    }
    let kept = extra.into_iter().filter(|stop| stop.len() <= MAX_OWN_STOP_BYTES);
    context.content.extra_stops = kept.map(std::borrow::Cow::into_owned).collect::<Arc<[String]>>();
    Ok(())
}

fn write_logprobs(
    path: &Path<'_>,
    has_logprobs: Option<View<'_>>,
    logprobs: Option<View<'_>>,
    chat: &mut ObjectWriter<'_>,
) -> Result<(), Invalid> {
    let is_wanted = flag(path, "responseLogprobs", has_logprobs)?;
    let path = path.member("logprobs");
    let count = logprobs.map(|value| whole(&path, value, &(0..=20))).transpose()?;
    if !is_wanted {
        return match count.filter(|count| *count > 0) {
            Some(_) => Err(invalid_value(&path, "it needs 'responseLogprobs: true'.")),
            None => Ok(()),
        };
    }
    chat.raw("logprobs", "true");
    if let Some(count) = count {
        chat.raw("top_logprobs", count.to_string());
    }
    Ok(())
}

/// The schema of the answer.
enum AnswerSchema<'a> {
    Json(View<'a>),
    Google(View<'a>),
}

fn write_format(
    path: &Path<'_>,
    mime_type: Option<View<'_>>,
    answer_schema: Option<AnswerSchema<'_>>,
    chat: &mut ObjectWriter<'_>,
    losses: &mut Losses,
) -> Result<(), Invalid> {
    let mime_type = optional(path, "responseMimeType", mime_type)?;
    let type_path = path.member("responseMimeType");
    match mime_type.as_deref() {
        None | Some("" | "text/plain") => {
            return match answer_schema {
                Some(_) => Err(invalid_value(&type_path, "a schema needs 'application/json'.")),
                None => Ok(()),
            };
        }
        Some("application/json") => {}
        // The answer is one of the words, and no JSON. Chats have no such format.
        Some("text/x.enum") => {
            losses.parameter("responseMimeType");
            return Ok(());
        }
        Some(other) => {
            return Err(not_one_of(&type_path, &["text/plain", "application/json", "text/x.enum"], other));
        }
    }
    let Some(answer_schema) = answer_schema else {
        chat.object("response_format", |format| format.string("type", "json_object"));
        return Ok(());
    };
    let (name, value) = match answer_schema {
        AnswerSchema::Json(value) => ("responseJsonSchema", value),
        AnswerSchema::Google(value) => ("responseSchema", value),
    };
    if value.kind() != Kind::Object {
        return Err(wrong_type(&path.member(name), "an object", value));
    }
    chat.object("response_format", |format| {
        format.string("type", "json_schema");
        format.object("json_schema", |json_schema| {
            json_schema.string("name", SCHEMA_NAME);
            match answer_schema {
                AnswerSchema::Json(value) => json_schema.raw("schema", value.text()),
                AnswerSchema::Google(value) => schema::write(json_schema.member("schema"), value),
            }
        });
    });
    Ok(())
}

fn write_modalities(path: &Path<'_>, value: View<'_>, chat: &mut ObjectWriter<'_>) -> Result<(), Invalid> {
    let mut has_image = false;
    for (at, modality) in array(path, value, usize::MAX, "an array of strings")?.enumerate() {
        let path = path.item(at);
        match &*string(&path, modality)?.to_ascii_uppercase() {
            "TEXT" | "MODALITY_UNSPECIFIED" => {}
            "IMAGE" => has_image = true,
            "AUDIO" => {
                let message = format!("Unsupported value: '{path}' does not support 'AUDIO' here.");
                return Err(Invalid { code: "unsupported_value", message });
            }
            other => return Err(not_one_of(&path, &["TEXT", "IMAGE", "AUDIO"], other)),
        }
    }
    if has_image {
        chat.strings("modalities", ["text", "image"]);
    }
    Ok(())
}

/// Writes `reasoning_effort`. The thresholds of a budget are LiteLLM's
/// (`litellm_core_utils/reasoning_effort_utils.py`, November 2026).
fn write_thinking(
    path: &Path<'_>,
    value: View<'_>,
    chat: &mut ObjectWriter<'_>,
    context: &mut GeminiContext,
) -> Result<(), Invalid> {
    let [includes, budget, level] =
        members(path, value, ["includeThoughts", "thinkingBudget", "thinkingLevel"])?;
    let is_shown = flag(path, "includeThoughts", includes)?;
    if is_shown {
        context.content.thinking = ThinkingDisplay::Shown;
    }
    let budget =
        budget.map(|value| whole(&path.member("thinkingBudget"), value, &(-1..=i64::from(i32::MAX))));
    let level = optional(path, "thinkingLevel", level)?;
    let effort = match level.map(|level| level.to_ascii_uppercase()).as_deref() {
        Some("MINIMAL") => Some("minimal"),
        Some("LOW") => Some("low"),
        Some("MEDIUM") => Some("medium"),
        Some("HIGH") => Some("high"),
        None | Some("THINKING_LEVEL_UNSPECIFIED") => match budget.transpose()? {
            Some(0) => Some("none"),
            Some(4096..) => Some("high"),
            Some(1..2048) => Some("low"),
            // -1: the model decides how much it thinks.
            Some(_) => Some("medium"),
            // Thoughts can only be shown if the model thinks.
            None => is_shown.then_some("medium"),
        },
        Some(other) => {
            let known = ["MINIMAL", "LOW", "MEDIUM", "HIGH"];
            return Err(not_one_of(&path.member("thinkingLevel"), &known, other));
        }
    };
    chat.optional_string("reasoning_effort", effort);
    Ok(())
}
