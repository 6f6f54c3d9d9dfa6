//! The choice of a tool.

use super::members::{Warnings, members, required_name};
use super::tools::ToolList;
use crate::json::{Kind, ObjectWriter, View};
use crate::request::Invalid;
use crate::request::fields::{Path, array, invalid_value, not_one_of, wrong_type};

/// The choice of a tool, translated.
#[derive(Debug, Default)]
pub(super) struct ChatToolChoice {
    /// `tool_choice` of the chat request as JSON text.
    pub(super) chat: Option<Vec<u8>>,
    /// The names of the only tools that may be called. A chat request has only these.
    pub(super) allowed: Option<Vec<String>>,
    /// The choice demands a tool that the provider runs itself.
    pub(super) requires_native: bool,
}

/// Reads `tool_choice`.
pub(super) fn read(
    value: Option<View<'_>>,
    tools: &ToolList,
    warnings: &mut Warnings,
) -> Result<ChatToolChoice, Invalid> {
    let Some(value) = value else { return Ok(ChatToolChoice::default()) };
    let path = Path::Top("tool_choice");
    if let Some(word) = value.string() {
        return match &*word {
            "none" | "auto" => Ok(if tools.is_empty() { ChatToolChoice::default() } else { word_of(&word) }),
            "required" => required(&path, tools),
            other => Err(not_one_of(&path, &["none", "auto", "required"], other)),
        };
    }
    if value.kind() != Kind::Object {
        return Err(wrong_type(&path, "one of a string or an object", value));
    }
    let [kind, name, namespace, mode, list] =
        members(&path, value, ["type", "name", "namespace", "mode", "tools"])?;
    match &*required_name(&path, "type", kind)? {
        "function" | "custom" => {
            let name = required_name(&path, "name", name)?;
            let namespace = namespace.and_then(View::string);
            let Some(flat) = tools.find(namespace.as_deref(), &name) else {
                return Err(invalid_value(&path, "the named tool is not among the 'tools'."));
            };
            let mut out = Vec::new();
            let mut choice = ObjectWriter::begin(&mut out);
            choice.string("type", "function");
            choice.object("function", |named| named.string("name", &flat));
            choice.finish();
            Ok(ChatToolChoice { chat: Some(out), ..ChatToolChoice::default() })
        }
        "allowed_tools" => {
            let mode = required_name(&path, "mode", mode)?;
            if mode != "auto" && mode != "required" {
                return Err(not_one_of(&path.member("mode"), &["auto", "required"], &mode));
            }
            let names = allowed(&path.member("tools"), list, tools)?;
            if names.is_empty() {
                return Ok(ChatToolChoice {
                    allowed: Some(names),
                    requires_native: mode == "required",
                    chat: None,
                });
            }
            Ok(ChatToolChoice { allowed: Some(names), ..word_of(&mode) })
        }
        _ => {
            warnings.add("parameter_dropped:tool_choice");
            Ok(ChatToolChoice { requires_native: true, ..ChatToolChoice::default() })
        }
    }
}

fn word_of(word: &str) -> ChatToolChoice {
    ChatToolChoice { chat: Some(format!("\"{word}\"").into_bytes()), ..ChatToolChoice::default() }
}

fn required(path: &Path<'_>, tools: &ToolList) -> Result<ChatToolChoice, Invalid> {
    if !tools.is_empty() {
        return Ok(word_of("required"));
    }
    if tools.has_hosted() {
        return Ok(ChatToolChoice { requires_native: true, ..ChatToolChoice::default() });
    }
    Err(invalid_value(path, "a tool can only be required when 'tools' are given."))
}

/// The names in the chat request of the tools that may be called. Tools that the provider runs itself are left out.
fn allowed(path: &Path<'_>, list: Option<View<'_>>, tools: &ToolList) -> Result<Vec<String>, Invalid> {
    let list = list.ok_or_else(|| crate::request::fields::missing(path))?;
    let mut names = Vec::new();
    for (at, entry) in array(path, list, usize::MAX, "an array of objects")?.enumerate() {
        let path = path.item(at);
        let [kind, name, namespace] = members(&path, entry, ["type", "name", "namespace"])?;
        let kind = required_name(&path, "type", kind)?;
        if kind != "function" && kind != "custom" {
            continue;
        }
        let name = required_name(&path, "name", name)?;
        let namespace = namespace.and_then(View::string);
        match tools.find(namespace.as_deref(), &name) {
            Some(flat) => names.push(flat.into_owned()),
            None => return Err(invalid_value(&path, "the named tool is not among the 'tools'.")),
        }
    }
    Ok(names)
}
