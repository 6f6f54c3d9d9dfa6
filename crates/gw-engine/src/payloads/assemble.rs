//! Assembles a streamed answer into one document. A secret that arrived in several pieces is whole in it, and can be
//! masked.

use gw_wire::json::{self, View};
use gw_wire::sse::SseDecoder;
use serde_json::{Map, Value};

use super::redact::whole_words;

/// Strings that arrive whole; all others arrive in pieces.
const GIVEN_ONCE: [&str; 6] = ["id", "type", "role", "name", "object", "finish_reason"];

/// The bytes of a list element beside its texts.
const PER_ITEM: usize = 8;

/// Marks the place where a text was cut.
pub(super) const CUT: char = '…';

/// A streamed answer that grows within a bound.
pub(super) struct Assembly {
    decoder: SseDecoder,
    /// The other members of the chunks, each with its last value, in the order of their first arrival.
    members: Vec<(String, String)>,
    choices: Vec<Map<String, Value>>,
    place: RemainingBytes,
}

/// The bytes that may still be kept.
struct RemainingBytes {
    left: usize,
    is_cut: bool,
}

impl RemainingBytes {
    /// Takes `bytes` bytes. Returns false if fewer are left, and then takes no more.
    fn take(&mut self, bytes: usize) -> bool {
        let fits = !self.is_cut && bytes <= self.left;
        self.left = if fits { self.left - bytes } else { 0 };
        self.is_cut |= !fits;
        fits
    }
}

impl Assembly {
    /// An empty answer with this bound in bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            decoder: SseDecoder::default(),
            members: Vec::new(),
            choices: Vec::new(),
            place: RemainingBytes { left: most, is_cut: false },
        }
    }

    /// Adds the next event.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let Self { decoder, members, choices, place } = self;
        let too_large = decoder.feed(bytes, &mut |event| {
            let Ok(text) = std::str::from_utf8(event.data) else { return };
            if json::check(text).is_ok() {
                chunk(text, members, choices, place);
            }
        });
        self.place.is_cut |= too_large.is_err();
    }

    /// The document so far, and whether a part is missing.
    pub(super) fn end(self) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        if self.members.is_empty() && self.choices.is_empty() {
            return (out, self.place.is_cut);
        }
        out.push(b'{');
        for (name, value) in &self.members {
            json::write_str(&mut out, name);
            out.push(b':');
            let value = if name == "object" { value.replace(".chunk\"", "\"") } else { value.clone() };
            out.extend_from_slice(value.as_bytes());
            out.push(b',');
        }
        if self.choices.is_empty() {
            // The stream had an error and no choices.
            out.pop();
        } else {
            out.extend_from_slice(b"\"choices\":");
            let choices = self.choices.into_iter().map(Value::Object).collect::<Vec<_>>();
            // A tree of JSON values can always be written.
            out.extend(serde_json::to_vec(&choices).unwrap_or_default());
        }
        out.push(b'}');
        (out, self.place.is_cut)
    }
}

fn chunk(
    text: &str,
    members: &mut Vec<(String, String)>,
    choices: &mut Vec<Map<String, Value>>,
    place: &mut RemainingBytes,
) {
    let event = View::new(text);
    let [kind] = event.pick(["type"]);
    if kind.and_then(View::string).is_some_and(|kind| kind.starts_with("content_block_")) {
        if let Ok(Value::Object(block)) = serde_json::from_str(text) {
            add_block(choices, block, place);
        }
        return;
    }
    for (name, value) in event.members() {
        let Some(name) = name.string() else { continue };
        if name == "choices" {
            for choice in value.elements() {
                // serde_json refuses deeper values, and the gateway writes none.
                let Ok(Value::Object(choice)) = serde_json::from_str(choice.text()) else { continue };
                add_choice(choices, choice, place);
            }
            continue;
        }
        match members.iter_mut().find(|(known, _)| *known == name) {
            Some(_) if value.text() == "null" => {}
            // The snapshots of a response hold the whole answer. All other members are short.
            Some((known, last))
                if known != "response" || place.take(value.text().len().saturating_sub(last.len())) =>
            {
                value.text().clone_into(last);
            }
            Some(_) => {}
            None if place.take(name.len() + value.text().len()) => {
                members.push((name.into_owned(), value.text().to_owned()));
            }
            // The end of an answer is short, and tells the most.
            None if matches!(&*name, "usage" | "gateway" | "error") => {
                members.push((name.into_owned(), value.text().to_owned()));
            }
            None => {}
        }
    }
}

/// Adds a piece of a block of the Messages API. The blocks of an answer are kept like the choices of a chat.
fn add_block(
    choices: &mut Vec<Map<String, Value>>,
    mut block: Map<String, Value>,
    place: &mut RemainingBytes,
) {
    block.remove("type");
    if let Some(opened) = block.remove("content_block") {
        block.insert("delta".to_owned(), opened);
    }
    add_choice(choices, block, place);
}

fn add_choice(
    choices: &mut Vec<Map<String, Value>>,
    mut choice: Map<String, Value>,
    place: &mut RemainingBytes,
) {
    if let Some(delta) = choice.remove("delta") {
        choice.insert("message".to_owned(), delta);
    }
    match choices.iter_mut().find(|known| known.get("index") == choice.get("index")) {
        Some(known) => merge(known, choice, place),
        None => {
            let mut known = Map::new();
            merge(&mut known, choice, place);
            choices.push(known);
        }
    }
}

/// Merges a new value. serde_json bounds the depth.
fn merge(known: &mut Map<String, Value>, more: Map<String, Value>, place: &mut RemainingBytes) {
    for (name, value) in more {
        let once = GIVEN_ONCE.contains(&name.as_str());
        match (known.get_mut(&name), value) {
            (Some(_), Value::Null) => {}
            (Some(Value::Null) | None, value) => {
                if name == "finish_reason" || name == "index" {
                    known.insert(name, value);
                } else if place.take(name.len()) {
                    known.insert(name, fresh(value, place));
                }
            }
            (Some(Value::String(text)), Value::String(piece)) if !once => append(text, &piece, place),
            (Some(Value::Object(known)), Value::Object(more)) => merge(known, more, place),
            (Some(Value::Array(known)), Value::Array(more)) => merge_lists(known, more, place),
            // About as large as the value that it replaces.
            (Some(Value::Bool(_) | Value::Number(_)), value @ (Value::Bool(_) | Value::Number(_))) => {
                known.insert(name, value);
            }
            _ => {}
        }
    }
}

/// Tool calls have an index; pieces of logprobs have none.
fn merge_lists(known: &mut Vec<Value>, more: Vec<Value>, place: &mut RemainingBytes) {
    for item in more {
        let same = known.iter_mut().find_map(|old| match (old, &item) {
            (Value::Object(old), Value::Object(new)) => {
                (new.contains_key("index") && old.get("index") == new.get("index")).then_some(old)
            }
            _ => None,
        });
        match (same, item) {
            (Some(old), Value::Object(new)) => merge(old, new, place),
            (_, item) if place.take(PER_ITEM) => known.push(fresh(item, place)),
            _ => {}
        }
    }
}

/// A new value, as much of it as the bound allows.
fn fresh(value: Value, place: &mut RemainingBytes) -> Value {
    match value {
        Value::String(text) => {
            let mut kept = String::new();
            append(&mut kept, &text, place);
            Value::String(kept)
        }
        Value::Array(items) => {
            let mut kept = Vec::new();
            merge_lists(&mut kept, items, place);
            Value::Array(kept)
        }
        Value::Object(members) => {
            let mut kept = Map::new();
            merge(&mut kept, members, place);
            Value::Object(kept)
        }
        other => other,
    }
}

fn append(text: &mut String, piece: &str, place: &mut RemainingBytes) {
    let left = place.left;
    if piece.is_empty() || place.take(piece.len()) {
        text.push_str(piece);
    } else if !text.ends_with(CUT) {
        text.push_str(piece.get(..piece.floor_char_boundary(left)).unwrap_or_default());
        text.truncate(whole_words(text).len());
        text.push(CUT);
    }
}

#[cfg(test)]
mod tests;
