//! The parameters of a request beside its input and its tools.

use std::borrow::Cow;

use super::bounds::RequestBounds;
use super::members::{Warnings, members, optional, optional_object, required_name, text_of};
use crate::json::{Kind, ObjectWriter, View};
use crate::request::fields::{Path, integer, missing, not_one_of, wrong_type};
use crate::request::{Body, Invalid};

/// Members that mean the same in a chat request. The chat's reader checks them.
const COPIED: [&str; 17] = [
    "model",
    "models",
    "fallbacks",
    "fallback_model",
    "routing",
    "cache",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "parallel_tool_calls",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "user",
];

/// Members that are read elsewhere, have no meaning for a chat, or would change the shape of a chat.
const NOT_COPIED: [&str; 43] = [
    "audio",
    "background",
    "best_of",
    "context_management",
    "conversation",
    "echo",
    "function_call",
    "functions",
    "include",
    "input",
    "instructions",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "max_tool_calls",
    "messages",
    "metadata",
    "modalities",
    "moderation",
    "n",
    "prediction",
    "previous_response_id",
    "prompt",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "store",
    "stream",
    "stream_options",
    "suffix",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "truncation",
    "verbosity",
    "web_search_options",
    "access_programs",
    "client_metadata",
    "completed_at",
    "encoding_format",
    "dimensions",
];

/// The bounds of `metadata`.
const MAX_METADATA_PAIRS: usize = 16;
const MAX_METADATA_NAME_CHARS: usize = 64;
const MAX_METADATA_VALUE_CHARS: usize = 512;

/// Checks the size of `metadata`. Values that are no strings are the members of other gateways.
pub(super) fn check_metadata(body: &Body) -> Result<(), Invalid> {
    let path = Path::Top("metadata");
    let Some(metadata) = body.view("metadata") else { return Ok(()) };
    if metadata.kind() != Kind::Object {
        return Err(wrong_type(&path, "an object", metadata));
    }
    let pairs = metadata.members().count();
    if pairs > MAX_METADATA_PAIRS {
        let message = format!(
            "Invalid 'metadata': too many properties. Expected an object with at most {MAX_METADATA_PAIRS} properties, but \
             got an object with {pairs} properties instead."
        );
        return Err(Invalid { code: "object_above_max_properties", message });
    }
    let too_long = |what: &str, most: usize, chars: usize| {
        let message = format!(
            "Invalid 'metadata': {what} too long. Expected a string with at most {most} characters, but got a string with \
             {chars} characters instead."
        );
        Err(Invalid { code: "string_above_max_length", message })
    };
    for (name, value) in metadata.members() {
        let name = name.string().unwrap_or_default().chars().count();
        if name > MAX_METADATA_NAME_CHARS {
            return too_long("a name", MAX_METADATA_NAME_CHARS, name);
        }
        let chars = value.string().unwrap_or_default().chars().count();
        if chars > MAX_METADATA_VALUE_CHARS {
            return too_long("a value", MAX_METADATA_VALUE_CHARS, chars);
        }
    }
    Ok(())
}

/// Copies the members that mean the same in a chat request.
pub(super) fn copied(body: &Body, chat: &mut ObjectWriter<'_>) {
    for (name, value) in COPIED.iter().filter_map(|name| Some((name, body.get(name)?))) {
        chat.raw(name, value);
    }
    // A response in the background is made as a stream, so that its client can follow it.
    if ["stream", "background"].iter().any(|name| body.get(name) == Some("true")) {
        chat.raw("stream", "true");
        chat.raw("stream_options", r#"{"include_usage":true}"#);
    }
}

/// Copies members that neither dialect defines, such as `top_k`: the operator's rules for members apply to them.
pub(super) fn extras(body: &Body, chat: &mut ObjectWriter<'_>) {
    let known = |name: &str| COPIED.contains(&name) || NOT_COPIED.contains(&name);
    for (name, value) in body.members().filter(|(name, _)| !known(name)) {
        chat.raw(name, value);
    }
}

/// Writes the members with another name or shape in a chat request.
pub(super) fn translated(
    body: &Body,
    chat: &mut ObjectWriter<'_>,
    bounds: &mut RequestBounds<'_>,
    warnings: &mut Warnings,
) -> Result<(), Invalid> {
    if let Some(limit) = body.view("max_output_tokens") {
        integer(&Path::Top("max_output_tokens"), limit, &(0..=i64::MAX))?;
        chat.raw("max_completion_tokens", limit.text());
    }
    let top = body.view("top_logprobs");
    if let Some(top) = top {
        integer(&Path::Top("top_logprobs"), top, &(0..=20))?;
    }
    if wants_logprobs(body) {
        chat.raw("logprobs", "true");
        if let Some(top) = top {
            chat.raw("top_logprobs", top.text());
        }
    }
    text(body, chat, bounds)?;
    reasoning(body, chat)?;
    check_include(body)?;
    check_kinds(body)?;
    for name in ["context_management", "moderation"] {
        if body.get(name).is_some() {
            warnings.add(format!("parameter_dropped:{name}"));
        }
    }
    Ok(())
}

/// The shortest answer that OpenAI lets a request ask for, in tokens.
const MIN_OUTPUT_TOKENS: i64 = 16;

/// Checks `max_output_tokens` of the body that the client sent. A preset may ask for a shorter answer.
pub(super) fn check_length(own: &Body) -> Result<(), Invalid> {
    let Some(limit) = own.view("max_output_tokens") else { return Ok(()) };
    integer(&Path::Top("max_output_tokens"), limit, &(MIN_OUTPUT_TOKENS..=i64::MAX)).map(drop)
}

/// The values of `truncation`.
const TRUNCATIONS: [&str; 2] = ["auto", "disabled"];
/// The values of `reasoning.effort`.
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
/// The values of `reasoning.summary`, and of its former name.
const SUMMARIES: [&str; 3] = ["auto", "concise", "detailed"];
/// The values of `text.verbosity`.
const VERBOSITIES: [&str; 3] = ["low", "medium", "high"];

/// An optional text that must be one of these.
fn word<'v>(
    path: &Path<'_>,
    name: &str,
    value: Option<View<'v>>,
    allowed: &[&str],
) -> Result<Option<Cow<'v, str>>, Invalid> {
    let found = optional(path, name, value)?;
    match found.as_deref().filter(|found| !allowed.contains(found)) {
        Some(other) => Err(not_one_of(&path.member(name), allowed, other)),
        None => Ok(found),
    }
}

/// Checks members that the answer repeats.
fn check_kinds(body: &Body) -> Result<(), Invalid> {
    for name in ["instructions", "previous_response_id", "truncation", "service_tier", "prompt_cache_key"] {
        if let Some(value) = body.view(name).filter(|value| value.kind() != Kind::String) {
            return Err(wrong_type(&Path::Top(name), "a string", value));
        }
    }
    if let Some(other) = text_of(body, "truncation").filter(|found| !TRUNCATIONS.contains(&&**found)) {
        return Err(not_one_of(&Path::Top("truncation"), &TRUNCATIONS, &other));
    }
    if let Some(metadata) = body.view("metadata").filter(|value| value.kind() != Kind::Object) {
        return Err(wrong_type(&Path::Top("metadata"), "an object", metadata));
    }
    if let Some(calls) = body.view("max_tool_calls") {
        integer(&Path::Top("max_tool_calls"), calls, &(0..=i64::MAX))?;
    }
    Ok(())
}

fn check_include(body: &Body) -> Result<(), Invalid> {
    let Some(include) = body.view("include") else { return Ok(()) };
    let path = Path::Top("include");
    for (at, value) in
        crate::request::fields::array(&path, include, usize::MAX, "an array of strings")?.enumerate()
    {
        crate::request::fields::string(&path.item(at), value)?;
    }
    Ok(())
}

/// Whether `include` names this part of an answer.
pub(super) fn includes(body: &Body, part: &str) -> bool {
    let mut included = body.view("include").into_iter().flat_map(View::elements);
    included.any(|value| value.string().is_some_and(|value| value == part))
}

/// Whether the request asks for log probabilities.
pub(super) fn wants_logprobs(body: &Body) -> bool {
    let is_positive = body.get("top_logprobs").is_some_and(|top| top.parse().is_ok_and(|top: u32| top > 0));
    is_positive || includes(body, "message.output_text.logprobs")
}

/// `text`: the format and the verbosity.
fn text(body: &Body, chat: &mut ObjectWriter<'_>, bounds: &mut RequestBounds<'_>) -> Result<(), Invalid> {
    let Some(text) = body.view("text") else { return Ok(()) };
    let path = Path::Top("text");
    let [format, verbosity] = members(&path, text, ["format", "verbosity"])?;
    if let Some(verbosity) = word(&path, "verbosity", verbosity, &VERBOSITIES)? {
        chat.string("verbosity", &verbosity);
    }
    let Some(format) = format else { return Ok(()) };
    let path = path.member("format");
    let [kind, name, schema, strict, description] =
        members(&path, format, ["type", "name", "schema", "strict", "description"])?;
    match &*required_name(&path, "type", kind)? {
        "text" => {}
        "json_object" => chat.raw("response_format", r#"{"type":"json_object"}"#),
        "json_schema" => {
            let name = required_name(&path, "name", name)?;
            let schema = optional_object(&path, "schema", schema)?;
            let schema = schema.ok_or_else(|| missing(&path.member("schema")))?;
            bounds.schema(&path.member("schema"), Some(schema))?;
            let description = optional(&path, "description", description)?;
            if let Some(strict) = strict.filter(|strict| strict.kind() != Kind::Boolean) {
                return Err(wrong_type(&path.member("strict"), "a boolean", strict));
            }
            chat.object("response_format", |format| {
                format.string("type", "json_schema");
                format.object("json_schema", |inner| {
                    inner.string("name", &name);
                    inner.optional_string("description", description.as_deref());
                    inner.raw("schema", schema.text());
                    if let Some(strict) = strict {
                        inner.raw("strict", strict.text());
                    }
                });
            });
        }
        other => {
            let allowed = ["text", "json_object", "json_schema"];
            return Err(not_one_of(&path.member("type"), &allowed, other));
        }
    }
    Ok(())
}

/// `reasoning`: the effort, and the form in which the client reads the reasoning.
fn reasoning(body: &Body, chat: &mut ObjectWriter<'_>) -> Result<(), Invalid> {
    let Some(reasoning) = body.view("reasoning") else { return Ok(()) };
    let path = Path::Top("reasoning");
    let [effort, summary, former] = members(&path, reasoning, ["effort", "summary", "generate_summary"])?;
    word(&path, "summary", summary, &SUMMARIES)?;
    word(&path, "generate_summary", former, &SUMMARIES)?;
    if let Some(effort) = word(&path, "effort", effort, &EFFORTS)? {
        chat.string("reasoning_effort", &effort);
    }
    Ok(())
}
