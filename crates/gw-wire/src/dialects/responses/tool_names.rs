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
    Cow::Owned(with_digest(&whole, &whole))
}

/// The name with a digest of `key` at its end, in at most 64 bytes.
fn with_digest(name: &str, key: &str) -> String {
    let digest = short_id(key);
    let kept = name.floor_char_boundary(MAX_NAME_BYTES - digest.len() - 1);
    format!("{}_{digest}", name.get(..kept).unwrap_or_default())
}

/// The names in the chat request that a tool may have, in order. Another tool may have the first ones.
fn chat_names(namespace: Option<&str>, name: &str) -> impl Iterator<Item = String> + use<> {
    let flat = flat_name(namespace, name).into_owned();
    // The line break keeps the keys of tools apart whose flat names are equal.
    let key = format!("{}\n{name}", namespace.unwrap_or_default());
    let first = flat.clone();
    let others = std::iter::successors(Some(key), |key| Some(format!("{key}\n")));
    std::iter::once(first).chain(others.map(move |key| with_digest(&flat, &key)))
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

impl DeclaredTool {
    fn is_named(&self, namespace: Option<&str>, name: &str) -> bool {
        self.name == name && self.namespace.as_deref().unwrap_or_default() == namespace.unwrap_or_default()
    }
}

/// The tools of a request by their names in the chat request.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolNames {
    tools: HashMap<String, DeclaredTool>,
    /// Two tools have the same flat name, so that one of them has a digest at its end.
    has_digests: bool,
}

impl ToolNames {
    /// Adds a tool and returns its name in the chat request; None if the tool is there already.
    pub(super) fn declare(&mut self, tool: DeclaredTool) -> Option<String> {
        let namespace = tool.namespace.as_deref();
        let flat = flat_name(namespace, &tool.name).into_owned();
        let chat_name = match self.tools.get(&flat) {
            None => flat,
            Some(known) if known.is_named(namespace, &tool.name) => return None,
            Some(_) => {
                self.has_digests = true;
                self.free_name(namespace, &tool.name)?
            }
        };
        self.tools.insert(chat_name.clone(), tool);
        Some(chat_name)
    }

    /// The first name that no other tool has; None if the tool has one already.
    fn free_name(&self, namespace: Option<&str>, name: &str) -> Option<String> {
        for chat_name in chat_names(namespace, name) {
            match self.tools.get(&chat_name) {
                None => return Some(chat_name),
                Some(known) if known.is_named(namespace, name) => return None,
                Some(_) => {}
            }
        }
        None
    }

    /// The name in the chat request of a tool that a call of the history names.
    pub(super) fn past_name<'n>(&self, namespace: Option<&str>, name: Cow<'n, str>) -> Cow<'n, str> {
        if self.has_digests
            && let Some(own) = self.own_name(namespace, &name)
        {
            return Cow::Owned(own);
        }
        match namespace {
            Some(_) => Cow::Owned(flat_name(namespace, &name).into_owned()),
            None => name,
        }
    }

    /// The name in the chat request of exactly this tool.
    fn own_name(&self, namespace: Option<&str>, name: &str) -> Option<String> {
        // The names of one tool are tried until one is free, so the first free one ends the search.
        chat_names(namespace, name)
            .map_while(|chat_name| Some((self.tools.get(&chat_name)?, chat_name)))
            .find_map(|(known, chat_name)| known.is_named(namespace, name).then_some(chat_name))
    }

    /// The tool of this name in the chat request.
    pub(super) fn get(&self, flat: &str) -> Option<&DeclaredTool> {
        self.tools.get(flat)
    }

    /// The name in the chat request of a tool that a `tool_choice` names.
    pub(super) fn find(&self, namespace: Option<&str>, name: &str) -> Option<String> {
        if self.has_digests
            && let Some(own) = self.own_name(namespace, name)
        {
            return Some(own);
        }
        let flat = flat_name(namespace, name);
        self.tools.contains_key(&*flat).then(|| flat.into_owned())
    }
}

#[cfg(test)]
mod unit_tests {
    use super::{Cow, DeclaredTool, ToolNames, flat_name};

    #[test]
    fn two_tools_of_one_flat_name_have_names_of_their_own() {
        let tool = |namespace: Option<&str>, name: &str| DeclaredTool {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            is_custom: false,
        };
        let mut names = ToolNames::default();
        let flat = names.declare(tool(None, "ns__g")).unwrap();
        let other = names.declare(tool(Some("ns"), "g")).unwrap();
        assert_eq!(flat, "ns__g");
        assert!(other.starts_with("ns__g_") && other.len() == "ns__g_".len() + 8, "{other}");
        // A tool that is given again is the same tool.
        assert_eq!((names.declare(tool(None, "ns__g")), names.declare(tool(Some("ns"), "g"))), (None, None));
        assert_eq!(names.get(&other), Some(&tool(Some("ns"), "g")));
        assert_eq!(names.get(&flat), Some(&tool(None, "ns__g")));
        assert_eq!(names.find(Some("ns"), "g").as_deref(), Some(&*other));
        assert_eq!(names.find(None, "ns__g").as_deref(), Some("ns__g"));
        assert_eq!(names.past_name(Some("ns"), Cow::Borrowed("g")), other);
        assert_eq!(names.past_name(None, Cow::Borrowed("ns__g")), "ns__g");
        // A tool that is not declared keeps its flat name.
        assert_eq!(names.past_name(Some("ns"), Cow::Borrowed("h")), "ns__h");
    }

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
