//! The tools of a request: functions, custom tools and namespaces. Tools that the provider runs itself have no form in a
//! chat.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::bounds::RequestBounds;
use super::members::{Warnings, members, optional, optional_object, required_name};
use crate::dialects::responses::tool_names::{DeclaredTool, ToolNames};
use crate::json::{Kind, ObjectWriter, View};
use crate::request::Invalid;
use crate::request::fields::{Path, array, clip, wrong_type};

/// The most types of hosted tools that are listed. No vendor has as many.
const MAX_HOSTED: usize = 64;

/// The tools of a request.
#[derive(Debug, Default)]
pub(super) struct ToolList {
    names: ToolNames,
    /// Name and definition of each tool in the chat request.
    tools: Vec<(String, Vec<u8>)>,
    /// The first tool of each name inside its namespace.
    by_own_name: HashMap<String, usize>,
    /// The types of the tools that the provider runs itself.
    hosted: Vec<String>,
}

impl ToolList {
    /// Reads a list of tools. A name that is given again is ignored.
    pub(super) fn read(
        &mut self,
        path: &Path<'_>,
        list: Option<View<'_>>,
        bounds: &mut RequestBounds<'_>,
        warnings: &mut Warnings,
    ) -> Result<(), Invalid> {
        let Some(list) = list else { return Ok(()) };
        for (at, tool) in array(path, list, usize::MAX, "an array of objects")?.enumerate() {
            self.tool(&path.item(at), tool, None, bounds, warnings)?;
        }
        Ok(())
    }

    fn tool(
        &mut self,
        path: &Path<'_>,
        tool: View<'_>,
        namespace: Option<&str>,
        bounds: &mut RequestBounds<'_>,
        warnings: &mut Warnings,
    ) -> Result<(), Invalid> {
        let [kind, name, list] = members(path, tool, ["type", "name", "tools"])?;
        match &*required_name(path, "type", kind)? {
            kind @ ("function" | "custom") => {
                bounds.tool()?;
                let name = required_name(path, "name", name)?.into_owned();
                let is_custom = kind == "custom";
                let declared = DeclaredTool { namespace: namespace.map(str::to_owned), name, is_custom };
                match is_custom {
                    true => self.custom(path, tool, declared),
                    false => self.function(path, tool, declared, bounds),
                }
            }
            "namespace" if namespace.is_none() => {
                let name = required_name(path, "name", name)?;
                let path = path.member("tools");
                let Some(list) = list else { return Ok(()) };
                for (at, tool) in array(&path, list, usize::MAX, "an array of objects")?.enumerate() {
                    self.tool(&path.item(at), tool, Some(&name), bounds, warnings)?;
                }
                Ok(())
            }
            other => {
                let other = clip(other);
                warnings.add(format!("tool_dropped:{other}"));
                if self.hosted.len() < MAX_HOSTED && !self.hosted.iter().any(|known| *known == *other) {
                    self.hosted.push(other.into_owned());
                }
                Ok(())
            }
        }
    }

    fn function(
        &mut self,
        path: &Path<'_>,
        tool: View<'_>,
        declared: DeclaredTool,
        bounds: &mut RequestBounds<'_>,
    ) -> Result<(), Invalid> {
        let [description, parameters, strict] = members(path, tool, ["description", "parameters", "strict"])?;
        let description = optional(path, "description", description)?;
        let parameters = optional_object(path, "parameters", parameters)?;
        bounds.schema(&path.member("parameters"), parameters)?;
        if let Some(strict) = strict.filter(|strict| strict.kind() != Kind::Boolean) {
            return Err(wrong_type(&path.member("strict"), "a boolean", strict));
        }
        let own_name = declared.name.clone();
        let Some(name) = self.names.declare(declared) else { return Ok(()) };
        let mut out = Vec::with_capacity(tool.text().len() + 64);
        let mut object = ObjectWriter::begin(&mut out);
        object.string("type", "function");
        object.object("function", |function| {
            function.string("name", &name);
            function.optional_string("description", description.as_deref());
            if let Some(parameters) = parameters {
                function.raw("parameters", parameters.text());
            }
            if let Some(strict) = strict {
                function.raw("strict", strict.text());
            }
        });
        object.finish();
        self.push(own_name, name, out);
        Ok(())
    }

    /// Offers a custom tool as a function whose argument `input` is the tool's free text, because few chat upstreams know
    /// custom tools.
    fn custom(&mut self, path: &Path<'_>, tool: View<'_>, declared: DeclaredTool) -> Result<(), Invalid> {
        let [description, format] = members(path, tool, ["description", "format"])?;
        let description = optional(path, "description", description)?;
        let format = optional_object(path, "format", format)?;
        let format = format.map(|format| grammar_text(&path.member("format"), format)).transpose()?.flatten();
        let own_name = declared.name.clone();
        let Some(name) = self.names.declare(declared) else { return Ok(()) };
        let description = match (description.map(Cow::into_owned), format) {
            (Some(text), Some(grammar)) => Some(format!("{text}\n\n{grammar}")),
            (text, grammar) => text.or(grammar),
        };
        let mut out = Vec::with_capacity(tool.text().len() + 192);
        let mut object = ObjectWriter::begin(&mut out);
        object.string("type", "function");
        object.object("function", |function| {
            function.string("name", &name);
            function.optional_string("description", description.as_deref());
            function.raw("parameters", WRAPPED_INPUT);
        });
        object.finish();
        self.push(own_name, name, out);
        Ok(())
    }

    fn push(&mut self, own_name: String, name: String, definition: Vec<u8>) {
        self.by_own_name.entry(own_name).or_insert(self.tools.len());
        self.tools.push((name, definition));
    }

    /// Whether no tool can be called in a chat.
    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Whether the provider runs some of the tools itself.
    pub(super) fn has_hosted(&self) -> bool {
        !self.hosted.is_empty()
    }

    /// The name in the chat request of a tool that a `tool_choice` names.
    pub(super) fn find(&self, namespace: Option<&str>, name: &str) -> Option<Cow<'_, str>> {
        if let Some(flat) = self.names.find(namespace, name) {
            return Some(Cow::Owned(flat));
        }
        let first = self.by_own_name.get(name).and_then(|at| self.tools.get(*at));
        first.map(|(flat, _)| Cow::Borrowed(&**flat))
    }

    /// The name in the chat request of a tool that a call of the history names.
    pub(super) fn past_name<'n>(&self, namespace: Option<&str>, name: Cow<'n, str>) -> Cow<'n, str> {
        self.names.past_name(namespace, name)
    }

    /// Writes `tools`. With `allowed`, only the tools of these names.
    pub(super) fn write(&self, allowed: Option<&[String]>, chat: &mut ObjectWriter<'_>) {
        let allowed: Option<HashSet<&String>> = allowed.map(|allowed| allowed.iter().collect());
        let is_allowed = |name: &String| allowed.as_ref().is_none_or(|allowed| allowed.contains(name));
        let mut written = self.tools.iter().filter(|(name, _)| is_allowed(name)).peekable();
        if written.peek().is_some() {
            chat.array("tools", written, |out, (_, tool)| out.extend_from_slice(tool));
        }
    }

    /// The names, taken out of the list.
    pub(super) fn take_names(&mut self) -> ToolNames {
        std::mem::take(&mut self.names)
    }

    /// The types of the tools that the provider runs itself.
    pub(super) fn into_hosted(self) -> Vec<String> {
        self.hosted
    }
}

/// The parameters of a function that stands for a custom tool.
const WRAPPED_INPUT: &str = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#;

/// The grammar of a custom tool's input, as a sentence of the function's description; None for free text.
fn grammar_text(path: &Path<'_>, format: View<'_>) -> Result<Option<String>, Invalid> {
    let [kind, syntax, definition] = members(path, format, ["type", "syntax", "definition"])?;
    if required_name(path, "type", kind)? != "grammar" {
        return Ok(None);
    }
    let syntax = required_name(path, "syntax", syntax)?;
    let definition = required_name(path, "definition", definition)?;
    Ok(Some(format!("The argument `input` must match this {syntax} grammar:\n{definition}")))
}
