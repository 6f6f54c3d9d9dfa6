//! The names of tools. A chat has one flat list of names; a Responses request has namespaces too.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::conversation::short_id;

/// The most characters of a tool's name that every provider accepts.
const MAX_NAME_BYTES: usize = 64;

/// Separates a namespace from the tool's name.
const SEPARATOR: &str = "__";

/// The name of a tool in the chat request. The name of a tool in a namespace is `<namespace>__<tool>`. A longer name than
/// 64 bytes is cut and ends with a digest of the whole name.
pub(super) fn flat_name<'a>(namespace: Option<&str>, name: &'a str) -> Cow<'a, str> {
    let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) else {
        return Cow::Borrowed(name);
    };
    let whole = format!("{namespace}{SEPARATOR}{name}");
    if whole.len() <= MAX_NAME_BYTES {
        return Cow::Owned(whole);
    }
    let digest = short_id(&whole);
    let kept = whole.floor_char_boundary(MAX_NAME_BYTES - digest.len() - 1);
    Cow::Owned(format!("{}_{digest}", whole.get(..kept).unwrap_or_default()))
}

/// A tool as the client named it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeclaredTool {
    /// The namespace; None = the tool has none.
    pub(super) namespace: Option<String>,
    /// The name inside the namespace.
    pub(super) name: String,
    /// Whether the tool is a custom tool, whose input is free text.
    pub(super) is_custom: bool,
}

/// The tools of a request by their names in the chat request.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolNames {
    tools: HashMap<String, DeclaredTool>,
}

impl ToolNames {
    /// Adds a tool and returns its name in the chat request; None if the name is taken.
    pub(super) fn declare(&mut self, tool: DeclaredTool) -> Option<String> {
        let flat = flat_name(tool.namespace.as_deref(), &tool.name).into_owned();
        if self.tools.contains_key(&flat) {
            return None;
        }
        self.tools.insert(flat.clone(), tool);
        Some(flat)
    }

    /// The tool of this name in the chat request.
    pub(super) fn get(&self, flat: &str) -> Option<&DeclaredTool> {
        self.tools.get(flat)
    }

    /// The name in the chat request of a tool that a `tool_choice` names.
    pub(super) fn find(&self, namespace: Option<&str>, name: &str) -> Option<String> {
        let flat = flat_name(namespace, name);
        self.tools.contains_key(&*flat).then(|| flat.into_owned())
    }
}

#[cfg(test)]
mod unit_tests {
    use super::flat_name;

    #[test]
    fn a_long_name_is_cut_and_stays_distinct() {
        assert_eq!(flat_name(None, "f"), "f");
        assert_eq!(flat_name(Some("mcp__git"), "log"), "mcp__git__log");
        let long = "x".repeat(70);
        let (one, other) = (flat_name(Some("n"), &long), flat_name(Some("m"), &long));
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
        assert_eq!(one, flat_name(Some("n"), &long));
        assert_eq!(flat_name(Some("ä"), &"ß".repeat(40)).len(), 63);
    }
}
