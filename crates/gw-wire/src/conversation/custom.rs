//! Custom tools, whose input is free text, as functions with one parameter. Other dialects have only functions.

use std::borrow::Cow;

use super::message::PastToolCall;
use super::tool::Tool;
use crate::json::{ObjectWriter, View};

/// The parameter that holds the input of a custom tool.
pub const CUSTOM_INPUT: &str = "input";

const PARAMETERS: &str = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#;

/// Reads a definition of `tools[].custom`. A grammar becomes a part of the description, because other providers cannot
/// enforce one.
pub(super) fn tool(custom: View<'_>) -> Option<Tool<'_>> {
    let [name, description, format, cache_control] =
        custom.pick(["name", "description", "format", "cache_control"]);
    let description = match (description.and_then(View::string), format.and_then(grammar)) {
        (Some(words), Some(grammar)) => Some(Cow::Owned(format!("{words}\n\n{grammar}"))),
        (None, Some(grammar)) => Some(Cow::Owned(grammar)),
        (words, None) => words,
    };
    Some(Tool {
        name: name.and_then(View::string)?,
        description,
        parameters: Some(View::new(PARAMETERS)),
        strict: None,
        custom: true,
        cache_control,
    })
}

fn grammar(format: View<'_>) -> Option<String> {
    let [grammar] = format.pick(["grammar"]);
    let [syntax, definition] = grammar?.pick(["syntax", "definition"]);
    let syntax = syntax.and_then(View::string).unwrap_or_default();
    Some(format!("The input must match this {syntax} grammar:\n{}", definition.and_then(View::string)?))
}

/// Reads a call of a custom tool in the history.
pub(super) fn called<'a>(id: Cow<'a, str>, custom: View<'a>) -> Option<PastToolCall<'a>> {
    let [name, input] = custom.pick(["name", "input"]);
    let arguments = input_object(&input.and_then(View::string).unwrap_or_default());
    Some(PastToolCall { id, name: name.and_then(View::string)?, arguments: Cow::Owned(arguments) })
}

/// A JSON object with a text as its only member, `input`.
pub(super) fn input_object(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut object = ObjectWriter::begin(&mut out);
    object.string(CUSTOM_INPUT, text);
    object.finish();
    // The writer makes UTF-8.
    String::from_utf8(out).unwrap_or_default()
}
