//! Reading the parts of a validated body. What does not fit cannot be there; if it is, it is left out.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Called, Content, Conversation, Format, Message, Part, Role, Source, Tool, ToolChoice};
use crate::json::{Kind, View};
use crate::request::Body;

/// A member that is not null.
fn member<'a>(object: View<'a>, name: &str) -> Option<View<'a>> {
    let found = object.members().filter(|(known, _)| known.string().is_some_and(|known| known == name));
    found.map(|(_, value)| value).last().filter(|value| value.kind() != Kind::Null)
}

fn text<'a>(object: View<'a>, name: &str) -> Option<Cow<'a, str>> {
    member(object, name)?.string()
}

fn flag(object: View<'_>, name: &str) -> Option<bool> {
    member(object, name).map(|value| value.text() == "true")
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

/// `logprobs: true` with its `top_logprobs`.
pub(super) fn logprobs(body: &Body) -> Option<u32> {
    (body.get("logprobs")? == "true")
        .then(|| body.get("top_logprobs").and_then(|top| top.parse().ok()).unwrap_or(0))
}

pub(super) fn format(body: &Body) -> Format<'_> {
    let Some(format) = body.view("response_format") else { return Format::Text };
    match text(format, "type").as_deref() {
        Some("json_object") => Format::Json,
        Some("json_schema") => {
            let Some(wanted) = member(format, "json_schema") else { return Format::Json };
            Format::Schema {
                name: text(wanted, "name").unwrap_or(Cow::Borrowed("response")),
                description: text(wanted, "description"),
                schema: member(wanted, "schema"),
                strict: flag(wanted, "strict"),
            }
        }
        _ => Format::Text,
    }
}

/// `tools` and `tool_choice`, else `functions` and `function_call`.
pub(super) fn tools(conversation: &mut Conversation<'_>) {
    let body = conversation.body;
    conversation.tools =
        list(body, "tools").filter_map(|entry| tool(entry, member(entry, "function")?)).collect();
    if !conversation.tools.is_empty() {
        conversation.parallel_tool_calls = body.get("parallel_tool_calls").map(|wanted| wanted == "true");
        conversation.tool_choice = body
            .view("tool_choice")
            .map_or(ToolChoice::Unset, |choice| tool_choice(choice, member(choice, "function")));
        return;
    }
    conversation.tools = list(body, "functions").filter_map(|entry| tool(entry, entry)).collect();
    if !conversation.tools.is_empty() {
        conversation.legacy_functions = true;
        // A function call is a single one.
        conversation.parallel_tool_calls = Some(false);
        conversation.tool_choice =
            body.view("function_call").map_or(ToolChoice::Unset, |choice| tool_choice(choice, Some(choice)));
    }
}

fn list<'a>(body: &'a Body, name: &str) -> impl Iterator<Item = View<'a>> {
    body.view(name).into_iter().flat_map(View::elements)
}

fn tool<'a>(entry: View<'a>, function: View<'a>) -> Option<Tool<'a>> {
    Some(Tool {
        name: text(function, "name")?,
        description: text(function, "description"),
        parameters: member(function, "parameters"),
        strict: flag(function, "strict"),
        cache_control: member(entry, "cache_control").or_else(|| member(function, "cache_control")),
    })
}

fn tool_choice<'a>(choice: View<'a>, function: Option<View<'a>>) -> ToolChoice<'a> {
    match choice.string().as_deref() {
        Some("none") => ToolChoice::Never,
        Some("required") => ToolChoice::Required,
        Some(_) => ToolChoice::Auto,
        None => {
            let name = function.and_then(|function| text(function, "name"));
            name.map_or(ToolChoice::Auto, ToolChoice::Named)
        }
    }
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
                // The legacy `function` message answers the call right before it.
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
    let role = match text(value, "role").as_deref() {
        Some("system" | "developer") => Role::System,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => Role::User,
    };
    let mut parts = member(value, "content").map(content).unwrap_or_default();
    let refusal = text(value, "refusal").filter(|refusal| !refusal.is_empty());
    parts.extend(refusal.map(|refusal| Part { content: Content::Refusal(refusal), cache_control: None }));
    // The marker may stand on the message: it then holds for its last part.
    if let (Some(marker), Some(last)) = (member(value, "cache_control"), parts.last_mut()) {
        last.cache_control.get_or_insert(marker);
    }
    let calls = member(value, "tool_calls").into_iter().flat_map(View::elements);
    let mut tool_calls: Vec<Called<'_>> = calls.filter_map(tool_call).collect();
    if let Some(call) = member(value, "function_call") {
        tool_calls.extend(called(Cow::Borrowed(""), call));
    }
    let details = member(value, "reasoning_details");
    Message {
        role,
        parts,
        tool_calls,
        tool_call_id: text(value, "tool_call_id").unwrap_or_default(),
        name: text(value, "name"),
        reasoning: text(value, "reasoning_content").or_else(|| text(value, "reasoning")),
        reasoning_details: details.into_iter().flat_map(View::elements).collect(),
    }
}

fn tool_call(value: View<'_>) -> Option<Called<'_>> {
    called(text(value, "id")?, member(value, "function")?)
}

fn called<'a>(id: Cow<'a, str>, function: View<'a>) -> Option<Called<'a>> {
    Some(Called {
        id,
        name: text(function, "name")?,
        arguments: text(function, "arguments").unwrap_or_default(),
    })
}

fn content(value: View<'_>) -> Vec<Part<'_>> {
    match value.string() {
        Some(text) => vec![Part { content: Content::Text(text), cache_control: None }],
        None => value.elements().filter_map(part).collect(),
    }
}

fn part(value: View<'_>) -> Option<Part<'_>> {
    let content = match &*text(value, "type")? {
        "text" => Content::Text(text(value, "text")?),
        "refusal" => Content::Refusal(text(value, "refusal")?),
        "image_url" => Content::Image(source(text(member(value, "image_url")?, "url")?)),
        "input_audio" => {
            let audio = member(value, "input_audio")?;
            Content::Audio { data: text(audio, "data")?, format: text(audio, "format")? }
        }
        "file" => {
            let file = member(value, "file")?;
            let source = match text(file, "file_data") {
                Some(data) => source(data),
                None => Source::Id(text(file, "file_id").unwrap_or_default()),
            };
            Content::File { source, name: text(file, "filename") }
        }
        _ => return None,
    };
    Some(Part { content, cache_control: member(value, "cache_control") })
}

/// A URL, or bare base64, which some clients send as `file_data`.
fn source(url: Cow<'_, str>) -> Source<'_> {
    let begins =
        |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if begins("http://") || begins("https://") {
        return Source::Url(url);
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
    let media_type = head.get("data:".len()..).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Source::Data { media_type, base64 }
}
