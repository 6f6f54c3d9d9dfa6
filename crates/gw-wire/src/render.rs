//! Writes complete answers in the client's shape, and the parts that streams share with them (usage, `gateway`).

use std::ops::Range;

use serde_json::value::RawValue;

use crate::gateway::GatewayMeta;
use crate::json::{write_escaped, write_raw, write_str};
use crate::money::Money;
use crate::reply::{
    ChatChoice, ChatReply, Finish, Image, METADATA, STOP_SEQUENCE, TextReply, ToolCall, is_passed_on,
};
use crate::usage::Usage;

/// The gateway's own members of an answer.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// The answer's id: `chatcmpl-…` or `cmpl-…`.
    pub id: &'a str,
    /// Unix seconds.
    pub created: u64,
    /// The model name if the upstream reports none.
    pub model: &'a str,
    /// The fingerprint if the upstream reports none (chat only).
    pub fingerprint: &'a str,
    /// Usage, reported or estimated.
    pub usage: Usage,
    /// The request's cost; None = a price is unknown.
    pub cost: Option<Money>,
    /// The `gateway` object.
    pub gateway: &'a GatewayMeta,
}

/// The places of the parts of a complete chat in its document.
#[derive(Clone, Debug)]
pub struct DocumentPlaces {
    /// The model's name.
    pub(crate) model: usize,
    /// The usage object.
    pub(crate) usage: Range<usize>,
    /// The end of the members before `gateway`.
    pub(crate) gateway: usize,
}

/// Appends text that needs no escaping. Inlined, so that a literal compiles to a few stores without a call.
#[inline(always)]
pub(crate) fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends a string literal whose text needs no escaping.
pub(crate) fn put_word(out: &mut Vec<u8>, word: &str) {
    put(out, "\"");
    put(out, word);
    put(out, "\"");
}

/// Appends an integer.
pub(crate) fn put_int(out: &mut Vec<u8>, value: u64) {
    put(out, itoa::Buffer::new().format(value));
}

/// The choice of a chat answer that has none, because a filter has taken it.
const FILTERED: &str = r#"{"index":0,"message":{"role":"assistant","content":""},"logprobs":null,"finish_reason":"content_filter"}"#;

/// Writes a chat completion.
#[must_use]
pub fn chat(reply: &ChatReply<'_>, envelope: &Envelope<'_>) -> Vec<u8> {
    chat_document(reply, envelope).0
}

/// Writes a chat completion, and returns the places of its parts.
#[must_use]
pub fn chat_document(reply: &ChatReply<'_>, envelope: &Envelope<'_>) -> (Vec<u8>, DocumentPlaces) {
    let texts = reply.choices.iter().filter_map(|choice| choice.content.as_deref()).map(str::len);
    let images = reply.choices.iter().flat_map(|choice| &choice.images).map(image_bytes);
    let mut out = Vec::with_capacity(1024 + texts.sum::<usize>() + images.sum::<usize>());
    let model = head(&mut out, "chat.completion", envelope, reply.model.as_deref());
    let mut order: Vec<&ChatChoice<'_>> = reply.choices.iter().collect();
    order.sort_by_key(|choice| choice.index);
    for (position, choice) in order.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        chat_choice(&mut out, choice, envelope.id);
    }
    if order.is_empty() {
        put(&mut out, FILTERED);
    }
    put(&mut out, "],\"usage\":");
    // SPEC.md wants a number. An unknown cost is 0, and `gateway.warnings` has `price_unknown`.
    let counts = out.len();
    usage(&mut out, &envelope.usage, Some(envelope.cost.unwrap_or_default()));
    let counts_end = out.len();
    put(&mut out, ",\"system_fingerprint\":");
    write_str(&mut out, reply.fingerprint.as_deref().unwrap_or(envelope.fingerprint));
    members(&mut out, reply, |name| name != STOP_SEQUENCE);
    let places = DocumentPlaces { model, usage: counts..counts_end, gateway: out.len() };
    put(&mut out, ",\"gateway\":");
    gateway(&mut out, envelope.gateway);
    out.push(b'}');
    (out, places)
}

/// Writes a chat answer for the response cache, without the parts that belong to one request. Ids of tool calls that the upstream
/// did not send are made from `id`, the id of the answer that the first client gets.
#[must_use]
pub fn cacheable_chat(
    reply: &ChatReply<'_>,
    id: &str,
    model: &str,
    fingerprint: &str,
    counted: &Usage,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    put(&mut out, "{\"model\":");
    write_str(&mut out, reply.model.as_deref().filter(|name| !name.is_empty()).unwrap_or(model));
    put(&mut out, ",\"choices\":[");
    for (position, choice) in reply.choices.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        chat_choice(&mut out, choice, id);
    }
    if reply.choices.is_empty() {
        put(&mut out, FILTERED);
    }
    put(&mut out, "],\"usage\":");
    usage(&mut out, counted, None);
    put(&mut out, ",\"system_fingerprint\":");
    write_str(&mut out, reply.fingerprint.as_deref().unwrap_or(fingerprint));
    members(&mut out, reply, |name| name != METADATA);
    out.push(b'}');
    // The text stays in the cache, so the buffer's spare capacity is returned.
    out.shrink_to_fit();
    out
}

/// Writes a text completion.
#[must_use]
pub fn text(reply: &TextReply<'_>, envelope: &Envelope<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    head(&mut out, "text_completion", envelope, reply.model.as_deref());
    text_choices(&mut out, reply);
    put(&mut out, "],\"usage\":");
    usage(&mut out, &envelope.usage, envelope.cost);
    put(&mut out, ",\"gateway\":");
    gateway(&mut out, envelope.gateway);
    out.push(b'}');
    out
}

/// Writes a text completion for the response cache, without the parts that belong to one request.
#[must_use]
pub fn cacheable_text(reply: &TextReply<'_>, model: &str, counted: &Usage) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    put(&mut out, "{\"model\":");
    write_str(&mut out, reply.model.as_deref().filter(|name| !name.is_empty()).unwrap_or(model));
    put(&mut out, ",\"choices\":[");
    text_choices(&mut out, reply);
    put(&mut out, "],\"usage\":");
    usage(&mut out, counted, None);
    out.push(b'}');
    // The text stays in the cache, so the buffer's spare capacity is returned.
    out.shrink_to_fit();
    out
}

fn text_choices(out: &mut Vec<u8>, reply: &TextReply<'_>) {
    let mut order: Vec<_> = reply.choices.iter().collect();
    order.sort_by_key(|choice| choice.index);
    for (position, choice) in order.iter().enumerate() {
        put(out, if position > 0 { ",{\"index\":" } else { "{\"index\":" });
        put_int(out, u64::from(choice.index));
        put(out, ",\"text\":");
        write_str(out, &choice.text);
        put(out, ",\"logprobs\":");
        put(out, choice.logprobs.as_deref().map_or("null", RawValue::get));
        put(out, ",\"finish_reason\":\"");
        put(out, text_finish(choice.finish.unwrap_or(Finish::Stop)).as_str());
        put(out, "\"}");
    }
    if order.is_empty() {
        put(out, r#"{"index":0,"text":"","logprobs":null,"finish_reason":"content_filter"}"#);
    }
}

/// The finish reason of a text completion, which knows only stop, length and content_filter.
pub(crate) fn text_finish(reason: Finish) -> Finish {
    match reason {
        Finish::Length | Finish::ContentFilter => reason,
        Finish::Stop | Finish::ToolCalls | Finish::FunctionCall => Finish::Stop,
    }
}

/// Writes the members before the choices. Returns the place of the model's name.
fn head(out: &mut Vec<u8>, object: &str, envelope: &Envelope<'_>, model: Option<&str>) -> usize {
    put(out, "{\"id\":");
    put_word(out, envelope.id);
    put(out, ",\"object\":\"");
    put(out, object);
    put(out, "\",\"created\":");
    put_int(out, envelope.created);
    put(out, ",\"model\":");
    let place = out.len();
    write_str(out, model.filter(|name| !name.is_empty()).unwrap_or(envelope.model));
    put(out, ",\"choices\":[");
    place
}

fn chat_choice(out: &mut Vec<u8>, choice: &ChatChoice<'_>, id: &str) {
    put(out, "{\"index\":");
    put_int(out, u64::from(choice.index));
    put(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
    write_str(out, choice.content.as_deref().unwrap_or(""));
    if let Some(reasoning) = choice.reasoning.as_deref().filter(|text| !text.is_empty()) {
        put(out, ",\"reasoning_content\":");
        write_str(out, reasoning);
    }
    if let Some(refusal) = choice.refusal.as_deref() {
        put(out, ",\"refusal\":");
        write_str(out, refusal);
    }
    for (position, call) in choice.tool_calls.iter().enumerate() {
        put(out, if position == 0 { ",\"tool_calls\":[" } else { "," });
        tool_call(out, call, id, choice.index, position);
    }
    if !choice.tool_calls.is_empty() {
        out.push(b']');
    }
    if let Some((name, arguments)) = &choice.function_call {
        put(out, ",\"function_call\":{\"name\":");
        write_str(out, name);
        put(out, ",\"arguments\":");
        write_str(out, if arguments.is_empty() { "{}" } else { arguments });
        out.push(b'}');
    }
    for (index, picture) in (0_u32..).zip(&choice.images) {
        put(out, if index == 0 { ",\"images\":[" } else { "," });
        image(out, picture, index);
    }
    if !choice.images.is_empty() {
        out.push(b']');
    }
    choice.extras.iter().for_each(|(name, value)| member(out, name, value));
    put(out, "},\"logprobs\":");
    match choice.logprobs.as_deref() {
        Some(value) => write_raw(out, value),
        None => put(out, "null"),
    }
    put(out, ",\"finish_reason\":\"");
    put(out, finish_of(choice).as_str());
    put(out, "\"}");
}

/// The finish reason that a choice is written with.
pub(crate) fn finish_of(choice: &ChatChoice<'_>) -> Finish {
    choice.finish.unwrap_or_else(|| choice.made_finish())
}

/// Upper bound of the bytes of an image in an answer, if nothing in it needs an escape.
pub(crate) fn image_bytes(image: &Image<'_>) -> usize {
    image.base64.len() + image.media_type.len() + 128
}

/// Writes an image. Clients that assemble a stream use the index to find its position.
pub(crate) fn image(out: &mut Vec<u8>, image: &Image<'_>, index: u32) {
    put(out, "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:");
    write_escaped(out, &image.media_type);
    put(out, ";base64,");
    write_escaped(out, &image.base64);
    put(out, "\"},\"index\":");
    put_int(out, u64::from(index));
    out.push(b'}');
}

fn tool_call(out: &mut Vec<u8>, call: &ToolCall<'_>, id: &str, choice: u32, position: usize) {
    put(out, "{\"id\":");
    if call.id.is_empty() {
        write_str(out, &made_tool_id(id, choice, position));
    } else {
        write_str(out, &call.id);
    }
    put(out, tool_kind(call.custom));
    write_str(out, &call.name);
    if call.custom {
        put(out, ",\"input\":");
        write_str(out, &call.arguments);
    } else {
        put(out, ",\"arguments\":");
        write_str(out, if call.arguments.is_empty() { "{}" } else { &call.arguments });
    }
    put(out, "}}");
}

/// The text between a call's id and its name.
pub(crate) fn tool_kind(is_custom: bool) -> &'static str {
    match is_custom {
        true => ",\"type\":\"custom\",\"custom\":{\"name\":",
        false => ",\"type\":\"function\",\"function\":{\"name\":",
    }
}

/// Makes an id for a tool call whose provider sent none. It is unique within the answer and across answers.
pub(crate) fn made_tool_id(answer_id: &str, choice: u32, position: usize) -> String {
    let unique: String = answer_id.chars().filter(char::is_ascii_alphanumeric).rev().take(16).collect();
    format!("call_{unique}{choice}{position}")
}

/// The members of the answer itself that are shown.
fn members(out: &mut Vec<u8>, reply: &ChatReply<'_>, is_shown: impl Fn(&str) -> bool) {
    let passed_on = reply.members.iter().filter(|(name, value)| is_shown(name) && is_passed_on(value));
    passed_on.for_each(|(name, value)| member(out, name, value));
}

/// Appends a member to an object that already has one.
pub(crate) fn member(out: &mut Vec<u8>, name: &str, value: &RawValue) {
    out.push(b',');
    write_str(out, name);
    out.push(b':');
    write_raw(out, value);
}

/// Writes the usage object, without the member `cost_usd` if there is no `cost`.
pub(crate) fn usage(out: &mut Vec<u8>, usage: &Usage, cost: Option<Money>) {
    put(out, "{\"prompt_tokens\":");
    put_int(out, usage.prompt);
    put(out, ",\"completion_tokens\":");
    put_int(out, usage.completion);
    put(out, ",\"total_tokens\":");
    put_int(out, usage.total());
    details(
        out,
        ",\"prompt_tokens_details\":{",
        [
            ("cached_tokens", usage.cached),
            ("cache_write_tokens", usage.cache_write),
            ("audio_tokens", usage.audio_prompt.map(u64::from)),
        ],
    );
    details(
        out,
        ",\"completion_tokens_details\":{",
        [
            ("reasoning_tokens", usage.reasoning),
            ("audio_tokens", usage.audio_completion.map(u64::from)),
            ("image_tokens", usage.image_completion.map(u64::from)),
            ("accepted_prediction_tokens", usage.accepted_prediction.map(u64::from)),
            ("rejected_prediction_tokens", usage.rejected_prediction.map(u64::from)),
        ],
    );
    if let Some(cost) = cost {
        put(out, ",\"cost_usd\":");
        cost.write(out);
    }
    out.push(b'}');
}

/// Writes the known counts as an object; nothing if none is known.
fn details<const N: usize>(out: &mut Vec<u8>, open: &str, parts: [(&str, Option<u64>); N]) {
    let mut is_first = true;
    for (name, count) in parts {
        let Some(count) = count else { continue };
        put(out, if std::mem::take(&mut is_first) { open } else { "," });
        put_word(out, name);
        out.push(b':');
        put_int(out, count);
    }
    if !is_first {
        out.push(b'}');
    }
}

/// Writes the `gateway` object.
pub(crate) fn gateway(out: &mut Vec<u8>, meta: &GatewayMeta) {
    put(out, "{\"request_id\":");
    put_word(out, &meta.request_id);
    put(out, ",\"model_used\":");
    write_str(out, &meta.model_used);
    put(out, ",\"provider\":");
    write_str(out, &meta.provider);
    put(out, if meta.cache_hit { ",\"cache_hit\":true" } else { ",\"cache_hit\":false" });
    put(out, ",\"routing_strategy\":");
    put_word(out, meta.routing_strategy);
    put(out, if meta.fallback_used { ",\"fallback_used\":true" } else { ",\"fallback_used\":false" });
    put(out, ",\"latency_ms\":");
    put_int(out, meta.latency_ms);
    put(out, ",\"attempts\":[");
    for (position, attempt) in meta.attempts.iter().enumerate() {
        put(out, if position > 0 { ",{\"provider\":" } else { "{\"provider\":" });
        write_str(out, &attempt.provider);
        put(out, ",\"model\":");
        write_str(out, &attempt.model);
        put(out, ",\"status\":");
        put_word(out, attempt.status);
        put(out, ",\"latency_ms\":");
        put_int(out, attempt.latency_ms);
        if let Some(cost) = attempt.cost {
            put(out, ",\"cost_usd\":");
            cost.write(out);
        }
        out.push(b'}');
    }
    put(out, "],\"warnings\":[");
    for (position, warning) in meta.warnings.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_str(out, warning);
    }
    out.push(b']');
    if let Some(saved) = meta.saved {
        put(out, ",\"saved_usd\":");
        saved.write(out);
    }
    if let Some(preset) = &meta.preset {
        put(out, ",\"preset\":{\"name\":");
        write_str(out, &preset.name);
        put(out, ",\"version\":");
        write_str(out, &preset.version);
        out.push(b'}');
    }
    if let Some(used) = &meta.prompt_cache {
        put(out, ",\"prompt_cache\":");
        used.write(out);
    }
    if let Some(similar) = &meta.similar {
        put(out, ",\"similarity\":");
        put(out, &similar.shown());
        put(out, ",\"source\":");
        write_str(out, &similar.source);
    }
    out.push(b'}');
}
