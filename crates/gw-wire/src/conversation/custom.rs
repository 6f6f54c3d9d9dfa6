//! Custom tools, whose input is any text, as functions with one parameter: other dialects have only functions.

use std::borrow::Cow;

use super::read::text;
use super::{Called, Tool};
use crate::json::{View, write_str};

/// The parameter that holds the input.
pub const CUSTOM_INPUT: &str = "input";

const PARAMETERS: &str = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#;

/// A definition of `tools[].custom`. A grammar, which nobody else can enforce, becomes a part of the description.
pub(super) fn tool(custom: View<'_>) -> Option<Tool<'_>> {
    let [name, description, format, cache_control] =
        custom.pick(["name", "description", "format", "cache_control"]);
    let description = match (text(description), format.and_then(grammar)) {
        (Some(words), Some(grammar)) => Some(Cow::Owned(format!("{words}\n\n{grammar}"))),
        (None, Some(grammar)) => Some(Cow::Owned(grammar)),
        (words, None) => words,
    };
    Some(Tool {
        name: text(name)?,
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
    let syntax = text(syntax).unwrap_or_default();
    Some(format!("The input must match this {syntax} grammar:\n{}", text(definition)?))
}

/// A call of a custom tool in the history.
pub(super) fn called<'a>(id: Cow<'a, str>, custom: View<'a>) -> Option<Called<'a>> {
    let [name, input] = custom.pick(["name", "input"]);
    let mut arguments = br#"{"input":"#.to_vec();
    write_str(&mut arguments, &text(input).unwrap_or_default());
    arguments.push(b'}');
    // A literal of ours inside a text of ours.
    let arguments = String::from_utf8(arguments).unwrap_or_default();
    Some(Called { id, name: text(name)?, arguments: Cow::Owned(arguments) })
}
