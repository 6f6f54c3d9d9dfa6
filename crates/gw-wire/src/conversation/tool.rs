//! The tools of a conversation, and the one that the model must call.

use std::borrow::Cow;

use crate::json::View;

/// A function that the model may call.
#[derive(Clone, Debug)]
pub struct Tool<'a> {
    /// The function's name.
    pub name: Cow<'a, str>,
    /// The function's description.
    pub description: Option<Cow<'a, str>>,
    /// JSON Schema of the arguments, as the client wrote it.
    pub parameters: Option<View<'a>>,
    /// Whether the arguments must match the schema exactly.
    pub strict: Option<bool>,
    /// Whether this is a custom tool, expressed as a function whose one parameter is the input.
    pub custom: bool,
    /// `cache_control`, from the tool or from its function.
    pub cache_control: Option<View<'a>>,
}

/// The tool that the model must call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice<'a> {
    /// Not given: the same as `auto`.
    #[default]
    Unset,
    /// The model decides.
    Auto,
    /// No tool.
    Never,
    /// At least one tool.
    Required,
    /// The tool of this name.
    Named(Cow<'a, str>),
}
