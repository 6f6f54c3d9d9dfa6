//! The output items of a response.

use std::borrow::Cow;

use gw_wire::json::write_str;
use serde::{Deserialize, Deserializer};

use crate::adapters::openai::lenient::LenientText;

/// The value of `format` in the entries of `reasoning_details` (OpenRouter's name for this API's reasoning).
const FORMAT: &str = "openai-responses-v1";

/// An output item. Members of hosted tools are not read, because the client gets the provider's own document.
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
