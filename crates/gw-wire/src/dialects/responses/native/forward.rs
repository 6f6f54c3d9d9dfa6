//! The request to an upstream that speaks this dialect.

use super::splice::{ObjectSplice, TextSplice, range};
use crate::dialects::NativeBody;
use crate::dialects::responses::item_index::{ItemIndex, is_reference};
use crate::json::{Kind, View, check, write_str};

/// The gateway's own members, which no upstream may see.
const OWN_MEMBERS: [&str; 7] =
    ["routing", "cache", "models", "fallbacks", "fallback_model", "background", "previous_response_id"];

/// The fate of an item's opaque string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncryptedContent {
    /// The string goes to the upstream as it is.
    Keep,
    /// Another string takes its place.
    Replace(String),
    /// The whole item is left out, because another upstream made it.
    DropItem,
}

/// The changes of a request on its way to the upstream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forwarding<'f> {
    /// The name of the model at the upstream.
    pub model: &'f str,
    /// `store` at the upstream.
    pub store: bool,
    /// Whether `include` must ask for `reasoning.encrypted_content`, so that the answer can be continued later.
    pub wants_encrypted: bool,
    /// Whether the upstream streams, although the client may not have asked for it.
    pub streams: bool,
    /// The JSON text of each earlier item, in order.
    pub history: &'f [&'f str],
    /// The number of earlier items at the beginning that only an `item_reference` brings in.
    pub candidates: usize,
}

/// Writes the request for an upstream that speaks this dialect. The client's body stays as it is, but for the model, the
/// gateway's members, `store`, the items of `previous_response_id` and the strings that `open` replaces.
///
/// The body was checked by the translation.
pub fn for_upstream(
    body: &NativeBody,
    forwarding: &Forwarding<'_>,
    mut open: impl FnMut(&str) -> EncryptedContent,
) -> Vec<u8> {
    let text = std::str::from_utf8(&body.bytes).unwrap_or("{}");
    let root = View::new(text);
    let mut splice = ObjectSplice::new(text, root);
    let previous = splice.get("previous_response_id").is_some_and(|id| id.kind() == Kind::String);
    let asked_store = splice.get("store").is_none_or(|store| store.text() != "false");
    OWN_MEMBERS.iter().for_each(|name| splice.remove(name));
    splice.set("model", literal(forwarding.model));
    splice.set("store", if forwarding.store { "true" } else { "false" });
    if forwarding.streams {
        splice.set("stream", "true");
    }
    if forwarding.wants_encrypted {
        include_encrypted(&mut splice);
    }
    let items = ForwardedItems {
        history: forwarding.history,
        candidates: forwarding.candidates,
        is_prefixed: previous,
        needs_content: !forwarding.store && (asked_store || !forwarding.history.is_empty()),
    };
    match splice.get("input") {
        Some(input) => {
            if let Some(changed) = items.rewrite(input, &mut open) {
                splice.set("input", changed);
            }
        }
        None if previous => splice.set("input", items.prefix(&mut open, None)),
        None => {}
    }
    splice.apply()
}

fn literal(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_str(&mut out, text);
    out
}

fn include_encrypted(splice: &mut ObjectSplice<'_>) {
    const ENCRYPTED: &str = "\"reasoning.encrypted_content\"";
    let include = splice.get("include").filter(|include| include.kind() == Kind::Array);
    let parts: Vec<&str> = include.into_iter().flat_map(View::elements).map(View::text).collect();
    if !parts.contains(&ENCRYPTED) {
        let all = [parts.as_slice(), &[ENCRYPTED]].concat().join(",");
        splice.set("include", format!("[{all}]"));
    }
}

/// The items of a request on their way to the upstream.
struct ForwardedItems<'h> {
    history: &'h [&'h str],
    candidates: usize,
    /// Whether the history comes before the input.
    is_prefixed: bool,
    /// The upstream stores nothing, so that it cannot look up reasoning by its id.
    needs_content: bool,
}

impl ForwardedItems<'_> {
    /// The changed input; None if nothing changes.
    fn rewrite(&self, input: View<'_>, open: &mut impl FnMut(&str) -> EncryptedContent) -> Option<Vec<u8>> {
        if self.is_prefixed {
            return Some(self.prefix(open, Some(input)));
        }
        if input.kind() != Kind::Array {
            return None;
        }
        let changed = self.items(input, open);
        (changed != input.text().as_bytes()).then_some(changed)
    }

    /// The items that come before the input.
    fn conversation(&self) -> &[&str] {
        self.history.get(self.candidates..).unwrap_or_default()
    }

    /// The history and the input behind it.
    fn prefix(&self, open: &mut impl FnMut(&str) -> EncryptedContent, input: Option<View<'_>>) -> Vec<u8> {
        let is_item = |item: &&str| check(item).is_ok() && !is_reference(View::new(item));
        let valid: Vec<&str> = self.conversation().iter().copied().filter(is_item).collect();
        let mut all = format!("[{}", valid.join(","));
        let own = match input {
            Some(text) if text.kind() == Kind::String => {
                format!("{{\"role\":\"user\",\"content\":{}}}", text.text())
            }
            Some(items) => items.elements().map(View::text).collect::<Vec<_>>().join(","),
            None => String::new(),
        };
        if !valid.is_empty() && !own.is_empty() {
            all.push(',');
        }
        all.push_str(&own);
        all.push(']');
        self.items(View::new(&all), open)
    }

    fn items(&self, input: View<'_>, open: &mut impl FnMut(&str) -> EncryptedContent) -> Vec<u8> {
        let text = input.text();
        let mut splice = TextSplice::default();
        let mut entries = Vec::new();
        let mut index = ItemIndex::new(self.history);
        // An item that followed a dropped thought loses its id: the upstream would ask for the thought.
        let mut is_orphan = false;
        for item in input.elements() {
            let [kind, encrypted, id] = item.pick(["type", "encrypted_content", "id"]);
            let kind = kind.and_then(View::string);
            let kind = kind.as_deref().unwrap_or_default();
            let sealed = encrypted.and_then(View::string).filter(|sealed| !sealed.is_empty());
            let is_lost = kind == "reasoning" && sealed.is_none() && self.needs_content;
            let fate = match &sealed {
                Some(sealed) => open(sealed),
                None if is_lost => EncryptedContent::DropItem,
                None => EncryptedContent::Keep,
            };
            let is_dropped = fate == EncryptedContent::DropItem;
            is_orphan = if kind == "reasoning" { is_dropped } else { is_orphan };
            match (fate, encrypted) {
                (EncryptedContent::Replace(with), Some(old)) => {
                    splice.replace(range(text, old), literal(&with))
                }
                (EncryptedContent::Keep, _) if is_reference(item) => {
                    let id = id.and_then(View::string);
                    if let Some(stored) = id.and_then(|id| index.get(&id)) {
                        splice.replace(range(text, item), stored);
                    }
                }
                (EncryptedContent::Keep, _) if is_orphan && id.is_some() => {
                    let mut object = ObjectSplice::new(item.text(), item);
                    object.remove("id");
                    splice.replace(range(text, item), object.apply());
                }
                _ => {}
            }
            entries.push((range(text, item), is_dropped));
        }
        splice.remove(&entries);
        splice.apply(text)
    }
}
