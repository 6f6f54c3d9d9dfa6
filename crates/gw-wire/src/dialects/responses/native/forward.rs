//! The request to an upstream that speaks this dialect.

use super::splice::{ObjectSplice, TextSplice, range};
use crate::dialects::NativeBody;
use crate::dialects::responses::item_index::{ItemIndex, is_reference};
use crate::dialects::responses::request::is_compaction;
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
    /// An item with this JSON text takes the place of the whole item.
    ReplaceItem(Vec<u8>),
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
/// `open` decides about an item by its opaque string. It gets None for reasoning without one, which is empty to an
/// upstream that stores nothing. `call_id` returns the id that takes the place of a call's id, or None if the id stays. The
/// body was checked by the translation.
pub fn for_upstream(
    body: &NativeBody,
    forwarding: &Forwarding<'_>,
    mut open: impl FnMut(Option<&str>) -> EncryptedContent,
    mut call_id: impl FnMut(&str) -> Option<String>,
) -> Vec<u8> {
    let text = std::str::from_utf8(&body.bytes).unwrap_or("{}");
    let root = View::new(text);
    let mut splice = ObjectSplice::new(text, root);
    let previous = splice.get("previous_response_id").is_some_and(|id| id.kind() == Kind::String);
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
    };
    match splice.get("input") {
        Some(input) => {
            if let Some(changed) = items.rewrite(input, &mut open, &mut call_id) {
                splice.set("input", changed);
            }
        }
        None if previous => splice.set("input", items.prefix(None, &mut open, &mut call_id)),
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
}

impl ForwardedItems<'_> {
    /// The changed input; None if nothing changes.
    fn rewrite(
        &self,
        input: View<'_>,
        open: &mut impl FnMut(Option<&str>) -> EncryptedContent,
        call_id: &mut impl FnMut(&str) -> Option<String>,
    ) -> Option<Vec<u8>> {
        if self.is_prefixed {
            return Some(self.prefix(Some(input), open, call_id));
        }
        if input.kind() != Kind::Array {
            return None;
        }
        let changed = self.items(input, open, call_id);
        (changed != input.text().as_bytes()).then_some(changed)
    }

    /// The items that come before the input.
    fn conversation(&self) -> &[&str] {
        self.history.get(self.candidates..).unwrap_or_default()
    }

    /// The history and the input behind it.
    fn prefix(
        &self,
        input: Option<View<'_>>,
        open: &mut impl FnMut(Option<&str>) -> EncryptedContent,
        call_id: &mut impl FnMut(&str) -> Option<String>,
    ) -> Vec<u8> {
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
        self.items(View::new(&all), open, call_id)
    }

    fn items(
        &self,
        input: View<'_>,
        open: &mut impl FnMut(Option<&str>) -> EncryptedContent,
        call_id: &mut impl FnMut(&str) -> Option<String>,
    ) -> Vec<u8> {
        let text = input.text();
        let mut splice = TextSplice::default();
        let mut entries = Vec::new();
        let mut index = ItemIndex::new(self.history);
        // An item that followed a dropped thought loses its id: the upstream would ask for the thought.
        let mut is_orphan = false;
        for item in input.elements() {
            let stored = if self.history.is_empty() { None } else { referred(item, &mut index) };
            let shown = stored.map_or(item, View::new);
            let [kind, encrypted, id, call] = shown.pick(["type", "encrypted_content", "id", "call_id"]);
            let kind = kind.and_then(View::string).unwrap_or_default();
            let is_reasoning = kind == "reasoning";
            let sealed = encrypted.and_then(View::string).filter(|sealed| !sealed.is_empty());
            let fate = match &sealed {
                // Without its summary the conversation would be another one. The upstream judges a summary that is not known here.
                Some(sealed) if is_compaction(&kind) => match open(Some(sealed)) {
                    EncryptedContent::DropItem => EncryptedContent::Keep,
                    fate => fate,
                },
                Some(sealed) => open(Some(sealed)),
                None if is_reasoning => open(None),
                None => EncryptedContent::Keep,
            };
            let is_dropped = fate == EncryptedContent::DropItem;
            is_orphan = if is_reasoning { is_dropped } else { is_orphan };
            let place = range(text, item);
            let changed = match fate {
                EncryptedContent::Replace(with) => {
                    let mut object = ObjectSplice::new(shown.text(), shown);
                    object.set("encrypted_content", literal(&with));
                    Some(object.apply())
                }
                EncryptedContent::Keep => {
                    let call = call.and_then(View::string).and_then(|given| call_id(&given));
                    kept(shown, is_orphan && id.is_some(), call)
                        .or_else(|| stored.map(|stored| stored.as_bytes().to_vec()))
                }
                EncryptedContent::ReplaceItem(with) => Some(with),
                EncryptedContent::DropItem => None,
            };
            changed.into_iter().for_each(|changed| splice.replace(place.clone(), changed));
            entries.push((place, is_dropped));
        }
        splice.remove(&entries);
        splice.apply(text)
    }
}

/// The text of an item that stays, with another id of its call, and without its own id if it has no use. None: nothing changes.
fn kept(item: View<'_>, loses_id: bool, call_id: Option<String>) -> Option<Vec<u8>> {
    if !loses_id && call_id.is_none() {
        return None;
    }
    let mut object = ObjectSplice::new(item.text(), item);
    if loses_id {
        object.remove("id");
    }
    if let Some(id) = call_id {
        object.set("call_id", literal(&id));
    }
    Some(object.apply())
}

/// The stored item that this item refers to; None for an item of its own, and for one that is unknown.
fn referred<'h>(item: View<'_>, index: &mut ItemIndex<'h>) -> Option<&'h str> {
    let [id] = item.pick(["id"]);
    let id = id.filter(|_| is_reference(item)).and_then(View::string)?;
    index.get(&id)
}
