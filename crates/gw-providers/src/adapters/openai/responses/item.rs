//! The output items of a response.

use std::borrow::Cow;
use std::collections::HashSet;

use gw_wire::hosted_tools::{HostedCalls, HostedTool};
use gw_wire::json::{View, write_str};
use gw_wire::usage::Usage;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::adapters::openai::lenient::LenientText;

/// The value of `format` in the entries of `reasoning_details` (OpenRouter's name for this API's reasoning).
const FORMAT: &str = "openai-responses-v1";

/// An output item. Of hosted tools only the members that their price depends on are read, because the client gets the
/// provider's own document.
#[derive(Debug, Default, Deserialize)]
pub(super) struct OutputItem<'a> {
    #[serde(borrow, default, rename = "type", deserialize_with = "text")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub(super) call_id: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub(super) namespace: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub(super) arguments: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub(super) input: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<ItemPart<'a>>>,
    #[serde(borrow, default)]
    pub(super) summary: Option<Vec<ItemPart<'a>>>,
    #[serde(borrow, default, deserialize_with = "text")]
    pub(super) encrypted_content: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    status: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    container_id: Cow<'a, str>,
    /// The kind of a web search call.
    #[serde(borrow, default)]
    action: Option<&'a RawValue>,
    /// The side that runs a search for tools: `client` or `server`.
    #[serde(borrow, default, deserialize_with = "text")]
    execution: Cow<'a, str>,
}

/// The calls of hosted tools in an answer, as the provider bills them: each search, and each container once.
#[derive(Debug, Default)]
pub(super) struct HostedTally {
    calls: HostedCalls,
    /// All calls of the provider's tools, after each of which the model reads the prompt again.
    readings: u32,
    containers: HashSet<String>,
}

/// Containers of one answer whose ids are remembered.
const MAX_CONTAINERS: usize = 64;

impl HostedTally {
    /// Counts the item. Returns whether it is a call of a hosted tool.
    pub(super) fn take(&mut self, item: &OutputItem<'_>) -> bool {
        let is_run = item.is_run_by_provider();
        self.readings = self.readings.saturating_add(u32::from(is_run));
        self.take_priced(item) || is_run
    }

    fn take_priced(&mut self, item: &OutputItem<'_>) -> bool {
        let tool = match &*item.kind {
            // The pages that a model opens after a search cost nothing beside their tokens.
            "web_search_call" if item.is_search() => HostedTool::WebSearch,
            "file_search_call" => HostedTool::FileSearch,
            "code_interpreter_call" => HostedTool::CodeInterpreter,
            _ => return false,
        };
        if item.status == "failed" {
            return false;
        }
        let is_known = tool == HostedTool::CodeInterpreter
            && (self.containers.len() >= MAX_CONTAINERS
                || !self.containers.insert(item.container_id.to_string()));
        if !is_known {
            self.calls.add(tool, 1);
        }
        true
    }

    /// The calls with a price so far.
    pub(super) fn calls(&self) -> HostedCalls {
        self.calls
    }

    /// All calls so far, as part of the usage of an answer that has no other.
    pub(super) fn estimate(&self) -> Option<Usage> {
        (self.readings > 0).then(|| Usage {
            hosted: self.calls,
            unread_calls: self.readings,
            estimated: true,
            ..Usage::default()
        })
    }

    /// Bytes that the tally keeps.
    pub(super) fn held_bytes(&self) -> usize {
        self.containers.iter().map(String::capacity).sum()
    }
}

/// A part of an item.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ItemPart<'a> {
    #[serde(borrow, default, rename = "type", deserialize_with = "text")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    text: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    refusal: Cow<'a, str>,
}

/// Reads a string; null is an empty one, and half a surrogate pair is U+FFFD.
pub(super) fn text<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'a, str>, D::Error> {
    Ok(Option::<LenientText<'de>>::deserialize(deserializer)?.unwrap_or_default().0)
}

impl<'a> ItemPart<'a> {
    pub(super) fn into_text(self) -> Cow<'a, str> {
        if self.kind == "refusal" { self.refusal } else { self.text }
    }
}

impl<'a> OutputItem<'a> {
    fn is_search(&self) -> bool {
        let action = self.action.map(|action| View::new(action.get()));
        let [kind] = action.map_or([None], |action| action.pick(["type"]));
        kind.and_then(View::string).is_none_or(|kind| kind == "search")
    }

    /// Whether the item is a call of a tool that the provider runs itself.
    fn is_run_by_provider(&self) -> bool {
        match &*self.kind {
            "web_search_call"
            | "file_search_call"
            | "code_interpreter_call"
            | "image_generation_call"
            | "mcp_call" => true,
            "tool_search_call" => self.execution != "client",
            // The client of a local shell sends this item itself.
            "shell_call_output" => true,
            _ => false,
        }
    }

    /// Whether the client runs the tool that the item calls.
    pub(super) fn is_call(&self) -> bool {
        matches!(&*self.kind, "function_call" | "custom_tool_call")
    }

    pub(super) fn is_custom_call(&self) -> bool {
        self.kind == "custom_tool_call"
    }

    /// The tool's name in a chat: a name inside a namespace begins with the namespace.
    pub(super) fn tool_name(&self) -> Cow<'a, str> {
        match &*self.namespace {
            "" => self.name.clone(),
            namespace => Cow::Owned(format!("{namespace}__{}", self.name)),
        }
    }

    /// The entry of `reasoning_details` for encrypted reasoning.
    pub(super) fn encrypted_entry(&self) -> Option<String> {
        let data = Some(&self.encrypted_content).filter(|data| !data.is_empty())?;
        let mut entry = b"{\"type\":\"reasoning.encrypted\",\"data\":".to_vec();
        write_str(&mut entry, data);
        entry.extend_from_slice(b",\"id\":");
        write_str(&mut entry, &self.id);
        entry.extend_from_slice(format!(",\"format\":\"{FORMAT}\"}}").as_bytes());
        String::from_utf8(entry).ok()
    }
}
