//! Reads the parts of a validated body. Parts that validation would have refused are skipped.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::custom;
use super::message::{Content, Message, Part, PastToolCall, Role, Source};
use super::tool::{Tool, ToolChoice};
use super::{Conversation, Format};
use crate::json::View;
use crate::percent;
use crate::request::Body;
use crate::request::references::is_stored;

/// The member of this name unless it is null.
fn member<'a>(object: View<'a>, name: &str) -> Option<View<'a>> {
    let [found] = object.pick([name]);
    found
}

/// The text of a member, if it is there and a string.
fn text(value: Option<View<'_>>) -> Option<Cow<'_, str>> {
    value?.string()
}

fn flag(value: Option<View<'_>>) -> Option<bool> {
    value.map(|value| value.text() == "true")
}

pub(super) fn string<'a>(body: &'a Body, name: &str) -> Option<Cow<'a, str>> {
    body.view(name)?.string()
}

pub(super) fn number(body: &Body, name: &str) -> Option<f64> {
    body.get(name)?.parse().ok()
}

pub(super) fn stop(body: &Body) -> Vec<Cow<'_, str>> {
    let Some(stop) = body.view("stop") else { return Vec::new() };
    match stop.string() {
        Some(one) => vec![one],
        None => stop.elements().filter_map(View::string).collect(),
    }
}

/// `top_logprobs` where `logprobs` is true.
pub(super) fn logprobs(body: &Body) -> Option<u32> {
    (body.get("logprobs")? == "true")
        .then(|| body.get("top_logprobs").and_then(|top| top.parse().ok()).unwrap_or(0))
}

pub(super) fn format(body: &Body) -> Format<'_> {
    let Some(format) = body.view("response_format") else { return Format::Text };
    let [kind, wanted] = format.pick(["type", "json_schema"]);
    match text(kind).as_deref() {
        Some("json_object") => Format::Json,
        Some("json_schema") => {
            let Some(wanted) = wanted else { return Format::Json };
            let [name, description, schema, strict] =
                wanted.pick(["name", "description", "schema", "strict"]);
            Format::Schema {
                name: text(name).unwrap_or(Cow::Borrowed("response")),
                description: text(description),
                schema,
                strict: flag(strict),
            }
        }
        _ => Format::Text,
    }
}

/// Reads `tools` and `tool_choice`, or the legacy `functions` and `function_call`.
pub(super) fn tools(conversation: &mut Conversation<'_>) {
    let body = conversation.body;
    conversation.tools = list(body, "tools").filter_map(offered).collect();
    if !conversation.tools.is_empty() {
        conversation.parallel_tool_calls = body.get("parallel_tool_calls").map(|wanted| wanted == "true");
        conversation.tool_choice = body.view("tool_choice").map_or(ToolChoice::Unset, |choice| {
            let [function, custom] = choice.pick(["function", "custom"]);
            tool_choice(choice, function.or(custom))
        });
        if let Some(choice) = body.view("tool_choice") {
            allowed(choice, conversation);
        }
        return;
    }
    conversation.tools = list(body, "functions").filter_map(tool).collect();
    if !conversation.tools.is_empty() {
        conversation.legacy_functions = true;
        // The legacy API returns at most one function call.
        conversation.parallel_tool_calls = Some(false);
        conversation.tool_choice =
            body.view("function_call").map_or(ToolChoice::Unset, |choice| tool_choice(choice, Some(choice)));
    }
}

fn list<'a>(body: &'a Body, name: &str) -> impl Iterator<Item = View<'a>> {
    body.view(name).into_iter().flat_map(View::elements)
}

/// An entry of `tools`. `cache_control` may be a member of the entry or of its function.
fn offered(entry: View<'_>) -> Option<Tool<'_>> {
    let [function, custom, cache_control] = entry.pick(["function", "custom", "cache_control"]);
    let tool = match function {
        Some(function) => tool(function)?,
        None => custom::tool(custom?)?,
    };
    Some(Tool { cache_control: cache_control.or(tool.cache_control), ..tool })
}

fn tool(function: View<'_>) -> Option<Tool<'_>> {
    let [name, description, parameters, strict, cache_control] =
        function.pick(["name", "description", "parameters", "strict", "cache_control"]);
    Some(Tool {
        name: text(name)?,
        description: text(description),
        parameters,
        strict: flag(strict),
        custom: false,
        cache_control,
    })
}

fn tool_choice<'a>(choice: View<'a>, function: Option<View<'a>>) -> ToolChoice<'a> {
    match choice.string().as_deref() {
        Some("none") => ToolChoice::Never,
        Some("required") => ToolChoice::Required,
        Some(_) => ToolChoice::Auto,
        None => {
            let name = function.and_then(|function| text(member(function, "name")));
            name.map_or(ToolChoice::Auto, ToolChoice::Named)
        }
    }
}

/// Reads a `tool_choice` such as
/// `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}}`.
fn allowed<'a>(choice: View<'a>, conversation: &mut Conversation<'a>) {
    let [kind, allowed] = choice.pick(["type", "allowed_tools"]);
    let Some(allowed) = allowed.filter(|_| text(kind).as_deref() == Some("allowed_tools")) else { return };
    let [mode, tools] = allowed.pick(["mode", "tools"]);
    if text(mode).as_deref() == Some("required") {
        conversation.tool_choice = ToolChoice::Required;
    }
    let names = tools.into_iter().flat_map(View::elements).filter_map(|entry| {
        let [function, custom] = entry.pick(["function", "custom"]);
        text(member(function.or(custom)?, "name"))
    });
    conversation.allowed_tools = Some(names.collect());
}

pub(super) fn messages(body: &Body) -> Vec<Message<'_>> {
    let mut names: HashMap<String, Cow<'_, str>> = HashMap::new();
    let mut messages: Vec<Message<'_>> = list(body, "messages").map(message).collect();
    let mut legacy = 0_usize;
    for message in &mut messages {
        for call in &mut message.tool_calls {
            if call.id.is_empty() {
                legacy += 1;
                call.id = Cow::Owned(format!("call_function_{legacy}"));
            }
            names.insert(call.id.clone().into_owned(), call.name.clone());
        }
        if message.role == Role::Tool {
            if message.tool_call_id.is_empty() {
                // A legacy `function` message has no id: it answers the call right before it.
                message.tool_call_id = Cow::Owned(format!("call_function_{legacy}"));
            }
            if message.name.is_none() {
                message.name = names.get(&*message.tool_call_id).cloned();
            }
        }
    }
    messages
}

fn message(value: View<'_>) -> Message<'_> {
    const MEMBERS: [&str; 12] = [
        "role",
        "content",
        "refusal",
        "cache_control",
        "tool_calls",
        "function_call",
        "reasoning_details",
        "tool_call_id",
        "name",
        "reasoning_content",
        "reasoning",
        "images",
    ];
    let [
        role,
        said,
        refusal,
        marker,
        calls,
        function_call,
        details,
        tool_call_id,
        name,
        reasoning_content,
        reasoning,
        images,
    ] = value.pick(MEMBERS);
    let role = match text(role).as_deref() {
        Some("system" | "developer") => Role::System,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => Role::User,
    };
    let mut parts = said.map(content).unwrap_or_default();
    let refusal = text(refusal).filter(|refusal| !refusal.is_empty());
    parts.extend(refusal.map(|refusal| Part { content: Content::Refusal(refusal), cache_control: None }));
    // `cache_control` on the message applies to its last part.
    if let (Some(marker), Some(last)) = (marker, parts.last_mut()) {
        last.cache_control.get_or_insert(marker);
    }
    let calls = calls.into_iter().flat_map(View::elements);
    let mut tool_calls: Vec<PastToolCall<'_>> = calls.filter_map(tool_call).collect();
    if let Some(call) = function_call {
        tool_calls.extend(called(Cow::Borrowed(""), call));
    }
    let images = images.filter(|_| role == Role::Assistant).into_iter().flat_map(View::elements);
    Message {
        role,
        images: images.filter_map(image).collect(),
        parts,
        tool_calls,
        tool_call_id: text(tool_call_id).unwrap_or_default(),
        name: text(name),
        reasoning: text(reasoning_content).or_else(|| text(reasoning)),
        reasoning_details: details.into_iter().flat_map(View::elements).collect(),
    }
}

/// An image that the assistant generated: `{"type": "image_url", "image_url": {"url": …}}`.
fn image(value: View<'_>) -> Option<Source<'_>> {
    text(member(member(value, "image_url")?, "url")).map(source)
}

fn tool_call(value: View<'_>) -> Option<PastToolCall<'_>> {
    let [id, function, custom] = value.pick(["id", "function", "custom"]);
    match function {
        Some(function) => called(text(id)?, function),
        None => custom::called(text(id)?, custom?),
    }
}

fn called<'a>(id: Cow<'a, str>, function: View<'a>) -> Option<PastToolCall<'a>> {
    let [name, arguments] = function.pick(["name", "arguments"]);
    Some(PastToolCall { id, name: text(name)?, arguments: text(arguments).unwrap_or_default() })
}

fn content(value: View<'_>) -> Vec<Part<'_>> {
    match value.string() {
        Some(text) => vec![Part { content: Content::Text(text), cache_control: None }],
        None => value.elements().filter_map(part).collect(),
    }
}

fn part(value: View<'_>) -> Option<Part<'_>> {
    const MEMBERS: [&str; 7] =
        ["type", "text", "refusal", "image_url", "input_audio", "file", "cache_control"];
    let [kind, words, refusal, image, audio, file, cache_control] = value.pick(MEMBERS);
    let content = match &*text(kind)? {
        "text" => Content::Text(text(words)?),
        "refusal" => Content::Refusal(text(refusal)?),
        "image_url" => Content::Image(source(text(member(image?, "url"))?)),
        "input_audio" => {
            let [data, format] = audio?.pick(["data", "format"]);
            Content::Audio { data: text(data)?, format: text(format)? }
        }
        "file" => {
            let [data, id, name] = file?.pick(["file_data", "file_id", "filename"]);
            let source = match text(data) {
                Some(data) => source(data),
                None => Source::Id(text(id).unwrap_or_default()),
            };
            Content::File { source, name: text(name) }
        }
        _ => return None,
    };
    Some(Part { content, cache_control })
}

/// The source that a URL, a stored file's name or bare base64 describes. Some clients send bare base64 as `file_data`.
fn source(url: Cow<'_, str>) -> Source<'_> {
    let begins =
        |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if begins("http://") || begins("https://") {
        return Source::Url(url);
    }
    if is_stored(&url) {
        return Source::Id(url);
    }
    if !begins("data:") {
        return Source::Data { media_type: String::new(), base64: url };
    }
    let (head, base64) = match &url {
        Cow::Borrowed(url) => {
            let (head, data) = url.split_once(',').unwrap_or((url, ""));
            (head.to_owned(), Cow::Borrowed(data))
        }
        Cow::Owned(url) => {
            let (head, data) = url.split_once(',').unwrap_or((url, ""));
            (head.to_owned(), Cow::Owned(data.to_owned()))
        }
    };
    let declared = head.get("data:".len()..).unwrap_or_default();
    let media_type = declared.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_base64 =
        declared.rsplit(';').next().is_some_and(|last| last.trim().eq_ignore_ascii_case("base64"));
    if is_base64 {
        return Source::Data { media_type, base64 };
    }
    // RFC 2397: the data is percent-encoded.
    let bytes = percent::decode_bytes(&base64).unwrap_or_else(|| base64.as_bytes().to_vec());
    Source::Data { media_type, base64: Cow::Owned(STANDARD.encode(bytes)) }
}
