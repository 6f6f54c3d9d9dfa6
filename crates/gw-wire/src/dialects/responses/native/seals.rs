//! Opaque strings of the items in a document, or in the data of a frame.

use std::collections::HashMap;

use super::splice::{TextSplice, range};
use crate::dialects::responses::details;
use crate::dialects::responses::json_text::text;
use crate::json::{View, check, write_str};
use crate::reply::ChatReply;

/// The gateway's seals by the id of their item, each as a JSON literal.
#[derive(Clone, Debug, Default)]
pub(in crate::dialects::responses) struct ItemSeals {
    by_id: HashMap<String, Vec<u8>>,
    bytes: usize,
}

impl ItemSeals {
    /// The seals of a complete answer.
    pub(in crate::dialects::responses) fn of_reply(reply: &ChatReply<'_>) -> Self {
        let mut seals = Self::default();
        let extras = reply.choices.iter().flat_map(|choice| &choice.extras);
        for (_, value) in extras.filter(|(name, _)| name == details::MEMBER) {
            seals.take(value.get());
        }
        seals
    }

    /// Takes the entries of `reasoning_details` that name their item.
    pub(in crate::dialects::responses) fn take(&mut self, entries: &str) {
        for entry in details::signed(entries) {
            if let Some(id) = entry.id {
                self.bytes += id.len() + entry.encrypted.len();
                self.by_id.insert(id.into_owned(), entry.encrypted);
            }
        }
    }

    /// Bytes that the seals keep.
    pub(in crate::dialects::responses) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the seal of this item is known.
    pub(in crate::dialects::responses) fn has(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// The text with the seals of its items. Without seals it stays as it is.
    pub(in crate::dialects::responses) fn applied(&self, json: &str) -> String {
        if self.by_id.is_empty() {
            return json.to_owned();
        }
        replaced(json, |id, _| self.by_id.get(id).cloned())
    }
}

/// Replaces every `encrypted_content` of the items in a document or in a frame's data: the upstream's opaque strings by
/// the gateway's seals. A text that is no JSON stays as it is.
#[must_use]
pub fn seal_items(json: &str, mut seal: impl FnMut(&str) -> Option<String>) -> String {
    replaced(json, |_, raw| {
        let mut literal = Vec::new();
        write_str(&mut literal, &seal(raw)?);
        Some(literal)
    })
}

/// The text without the opaque strings of its items.
pub(in crate::dialects::responses) fn without_encrypted(json: &str) -> String {
    replaced(json, |_, _| Some(b"null".to_vec()))
}

/// The id of the item in a frame's data, if the item has an opaque string.
pub(in crate::dialects::responses) fn encrypted_item(data: &str) -> Option<String> {
    let [item] = View::new(data).pick(["item"]);
    let [id, encrypted] = item?.pick(["id", "encrypted_content"]);
    encrypted.filter(|encrypted| encrypted.string_len() > 0)?;
    text(id).map(std::borrow::Cow::into_owned)
}

/// Replaces opaque strings. `with` takes the id of the item and the string, and returns JSON text.
fn replaced(json: &str, mut with: impl FnMut(&str, &str) -> Option<Vec<u8>>) -> String {
    if !json.contains("encrypted_content") || check(json).is_err() {
        return json.to_owned();
    }
    let [response, item, output] = View::new(json).pick(["response", "item", "output"]);
    let nested = response.and_then(|response| {
        let [output] = response.pick(["output"]);
        output
    });
    let lists = [output, nested].into_iter().flatten().flat_map(View::elements);
    let mut splice = TextSplice::default();
    for item in item.into_iter().chain(lists) {
        let [id, encrypted] = item.pick(["id", "encrypted_content"]);
        let Some(encrypted) = encrypted else { continue };
        let Some(raw) = encrypted.string().filter(|raw| !raw.is_empty()) else { continue };
        if let Some(literal) = with(&text(id).unwrap_or_default(), &raw) {
            splice.replace(range(json, encrypted), literal);
        }
    }
    String::from_utf8(splice.apply(json)).unwrap_or_else(|_| json.to_owned())
}
