//! The items of a conversation.

use std::borrow::Cow;

use super::content::{MessageContent, content};
use super::members::{Warnings, members, optional, required, required_name};
use super::reasoning::PastReasoning;
use super::tools::ToolList;
use crate::json::{Kind, ObjectWriter, View};
use crate::request::Invalid;
use crate::request::fields::{Path, clip, invalid_value, missing, not_one_of};

/// The roles of a message.
const ROLES: [&str; 4] = ["user", "assistant", "system", "developer"];

/// An item of the conversation.
#[derive(Debug)]
pub(super) enum InputItem<'a> {
    Message {
        role: Cow<'a, str>,
        content: MessageContent<'a>,
    },
    Call(PastItemCall<'a>),
    Output(CallOutput<'a>),
    Reasoning(PastReasoning<'a>),
    /// A generated image as a data URL.
    Image(String),
}

/// A tool call of an earlier answer.
#[derive(Debug)]
pub(super) struct PastItemCall<'a> {
    pub(super) id: Cow<'a, str>,
    /// The name in the chat request.
    pub(super) name: Cow<'a, str>,
    /// The arguments, or the input of a custom tool.
    pub(super) arguments: Cow<'a, str>,
    pub(super) is_custom: bool,
    /// The type of a call of a tool that has no form in a chat: without its output the call is left out.
    pub(super) hosted: Option<Cow<'a, str>>,
}

/// The output of a call.
#[derive(Debug)]
pub(super) struct CallOutput<'a> {
    pub(super) call_id: Cow<'a, str>,
    pub(super) content: MessageContent<'a>,
    pub(super) hosted: Option<Cow<'a, str>>,
    /// The item's list and its index there.
    pub(super) place: (&'static str, usize),
}

/// Reads a message.
pub(super) fn message<'a>(
    path: &Path<'_>,
    item: View<'a>,
    warnings: &mut Warnings,
) -> Result<InputItem<'a>, Invalid> {
    let [role, value] = members(path, item, ["role", "content"])?;
    let role = required(path, "role", role)?;
    if !ROLES.contains(&&*role) {
        return Err(not_one_of(&path.member("role"), &ROLES, &role));
    }
    let content_path = path.member("content");
    let content = match value {
        Some(value) => content(&content_path, value, warnings)?,
        None if role == "assistant" => MessageContent::default(),
        None => return Err(missing(&content_path)),
    };
    Ok(InputItem::Message { role, content })
}

/// Reads a call of a function or of a custom tool.
pub(super) fn call<'a>(
    path: &Path<'_>,
    item: View<'a>,
    is_custom: bool,
    tools: &ToolList,
) -> Result<InputItem<'a>, Invalid> {
    let [call_id, name, namespace, arguments, input] =
        members(path, item, ["call_id", "name", "namespace", "arguments", "input"])?;
    let id = required_name(path, "call_id", call_id)?;
    let name = required_name(path, "name", name)?;
    let namespace = optional(path, "namespace", namespace)?;
    let arguments =
        if is_custom { required(path, "input", input)? } else { required(path, "arguments", arguments)? };
    let name = tools.past_name(namespace.as_deref(), name);
    Ok(InputItem::Call(PastItemCall { id, name, arguments, is_custom, hosted: None }))
}

/// Reads the output of a call. `hosted` is the item's type, if its tool has no form in a chat.
pub(super) fn output<'a>(
    path: &Path<'_>,
    place: (&'static str, usize),
    item: View<'a>,
    hosted: Option<Cow<'a, str>>,
    warnings: &mut Warnings,
) -> Result<CallOutput<'a>, Invalid> {
    let [call_id, id, value] = members(path, item, ["call_id", "id", "output"])?;
    let call_id = required_name(path, "call_id", call_id.or(id.filter(|_| hosted.is_some())))?;
    let path = path.member("output");
    let content = content_of_output(&path, value.ok_or_else(|| missing(&path))?, warnings)?;
    Ok(CallOutput { call_id, content, hosted, place })
}

/// The content of an output. A value that is neither text nor a list of parts is given as its JSON text.
pub(super) fn content_of_output<'a>(
    path: &Path<'_>,
    value: View<'a>,
    warnings: &mut Warnings,
) -> Result<MessageContent<'a>, Invalid> {
    let is_list = value.kind() == Kind::Array
        && value.elements().all(|part| {
            let [kind] = part.pick(["type"]);
            kind.is_some()
        });
    match value.kind() {
        Kind::String => content(path, value, warnings),
        Kind::Array if is_list => {
            let before = content(path, value, warnings)?;
            let is_lost = before.parts.is_empty() && before.refusal.is_none() && !value.is_empty_array();
            Ok(if is_lost { MessageContent::of_text(value.text()) } else { before })
        }
        _ => Ok(MessageContent::of_text(value.text())),
    }
}

/// A call of a tool that has no form in a chat. Its members are the arguments.
pub(super) fn hosted_call<'a>(
    item: View<'a>,
    id: Cow<'a, str>,
    kind: &str,
    hosted: Option<Cow<'a, str>>,
) -> PastItemCall<'a> {
    let mut out = Vec::with_capacity(item.text().len());
    let mut arguments = ObjectWriter::begin(&mut out);
    for (name, value) in item.members() {
        let Some(name) = name.string() else { continue };
        if !["type", "id", "call_id", "status", "output", "encrypted_content"].contains(&&*name) {
            arguments.raw(&name, value.text());
        }
    }
    arguments.finish();
    // The writer makes UTF-8.
    let arguments = String::from_utf8(out).unwrap_or_default();
    let name = kind.strip_suffix("_call").unwrap_or(kind).to_owned();
    PastItemCall { id, name: name.into(), arguments: arguments.into(), is_custom: false, hosted }
}

/// Refuses an output whose call is unknown.
pub(super) fn unknown_call(output: &CallOutput<'_>) -> Invalid {
    let (list, at) = output.place;
    let path = Path::Top(list);
    let item = path.item(at);
    let message = format!("no tool call with the id '{}' comes with this output.", clip(&output.call_id));
    invalid_value(&item.member("call_id"), &message)
}
