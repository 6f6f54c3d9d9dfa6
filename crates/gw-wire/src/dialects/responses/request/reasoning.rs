//! Reasoning items of earlier answers, as `reasoning_content` and `reasoning_details` of a chat message.

use std::borrow::Cow;

use super::members::{members, optional, required};
use crate::dialects::is_sealed;
use crate::dialects::responses::json_text::separate;
use crate::json::{ObjectWriter, View};
use crate::request::Invalid;
use crate::request::fields::{Path, array};

/// A reasoning item.
#[derive(Clone, Debug, Default)]
pub(super) struct PastReasoning<'a> {
    id: Option<Cow<'a, str>>,
    /// The texts of the summary.
    summary: Vec<Cow<'a, str>>,
    /// The texts of the reasoning itself.
    texts: Vec<Cow<'a, str>>,
    /// The opaque string; it is passed on unchanged.
    encrypted: Option<View<'a>>,
}

/// Reads a reasoning item.
pub(super) fn read<'a>(path: &Path<'_>, item: View<'a>) -> Result<PastReasoning<'a>, Invalid> {
    let [id, summary, content, encrypted] =
        members(path, item, ["id", "summary", "content", "encrypted_content"])?;
    optional(path, "encrypted_content", encrypted)?;
    Ok(PastReasoning {
        id: optional(path, "id", id)?,
        summary: texts(&path.member("summary"), summary)?,
        texts: texts(&path.member("content"), content)?,
        encrypted: encrypted.filter(|value| value.string_len() > 0),
    })
}

fn texts<'a>(path: &Path<'_>, list: Option<View<'a>>) -> Result<Vec<Cow<'a, str>>, Invalid> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let read = array(path, list, usize::MAX, "an array of objects")?.enumerate().map(|(at, part)| {
        let path = path.item(at);
        let [text] = members(&path, part, ["text"])?;
        required(&path, "text", text)
    });
    read.collect()
}

impl PastReasoning<'_> {
    /// The text of the reasoning, or else its summary.
    pub(super) fn text(&self) -> String {
        if self.texts.is_empty() { self.summary.join("\n\n") } else { self.texts.join("\n\n") }
    }

    /// Whether the item has an opaque string.
    pub(super) fn is_signed(&self) -> bool {
        self.encrypted.is_some()
    }

    /// Writes the entry of `reasoning_details`, with a comma before it if the list is not empty. Only an item with an opaque
    /// string has an entry: the text is in `reasoning_content`. `index` counts the entries of a message. A sealed string
    /// holds all members of the provider's entry.
    pub(super) fn write_details(&self, index: &mut u64, out: &mut Vec<u8>) {
        let Some(encrypted) = self.encrypted else { return };
        separate(out);
        let mut entry = ObjectWriter::begin(out);
        entry.string("type", "reasoning.encrypted");
        entry.raw("data", encrypted.text());
        if !encrypted.string().is_some_and(|string| is_sealed(&string)) {
            entry.optional_string("id", self.id.as_deref());
            entry.integer("index", *index);
        }
        entry.finish();
        *index += 1;
    }
}
