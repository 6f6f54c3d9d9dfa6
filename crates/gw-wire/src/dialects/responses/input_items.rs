//! The items of a request as the API lists them, and as the store keeps them: each with an id, a type and a status.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::item_index::{ItemIndex, is_reference};
use super::json_text::{put_one_line, text};
use crate::json::{Kind, ObjectWriter, View, check};

/// The items of a request's body in their order, as the text of one JSON array. A body that is no JSON object has none. An
/// `item_reference` is replaced by the item of `history` that it names. `place` is that of the first item in the
/// conversation, so that words that are said again in a later turn are another item.
#[must_use]
pub fn input_items(body: &[u8], history: &[&str], place: usize) -> Vec<u8> {
    let body = std::str::from_utf8(body).ok().filter(|body| check(body).is_ok()).unwrap_or("null");
    let [input] = View::new(body).pick(["input"]);
    let mut index = ItemIndex::new(history);
    let mut out = vec![b'['];
    match input.filter(|input| input.kind() == Kind::String) {
        Some(words) => listed_text(place, words, &mut out),
        None => {
            for (at, item) in input.into_iter().flat_map(View::elements).enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                listed(place.saturating_add(at), item, &mut index, &mut out);
            }
        }
    }
    out.push(b']');
    out
}

/// Writes the item of an input that is a text, without a copy of the text on the way. Its id is that of the same item in a
/// list.
fn listed_text(at: usize, words: View<'_>, out: &mut Vec<u8>) {
    out.reserve_exact(words.text().len() + 192);
    let mut object = ObjectWriter::begin(out);
    object.string("id", &made_id("message", at, &[TEXT_ITEM.0, words.text(), TEXT_ITEM.1]));
    object.string("type", "message");
    object.string("status", "completed");
    object.string("role", "user");
    parts_of_text(object.member("content"), words, false);
    object.finish();
}

/// The item of a text as a client would write it: the parts before and behind the text.
const TEXT_ITEM: (&str, &str) = ("{\"role\":\"user\",\"content\":", "}");

/// Writes one item. Its id is derived from its place and its content, so that a request always has the same ids.
fn listed(at: usize, item: View<'_>, index: &mut ItemIndex<'_>, out: &mut Vec<u8>) {
    let [id, kind, role, content, status] = item.pick(["id", "type", "role", "content", "status"]);
    let kind = text(kind).unwrap_or_else(|| if role.is_some() { "message" } else { "item_reference" }.into());
    if is_reference(item)
        && let Some(stored) = text(id).and_then(|id| index.get(&id))
    {
        return put_one_line(out, stored);
    }
    let is_message = kind == "message";
    out.reserve(item.text().len() + 96);
    let mut object = ObjectWriter::begin(out);
    match text(id) {
        Some(id) => object.string("id", &id),
        None => object.string("id", &made_id(&kind, at, &[item.text()])),
    }
    object.string("type", &kind);
    if status.is_none() && (is_message || kind.ends_with("_call") || kind.ends_with("_output")) {
        object.string("status", "completed");
    }
    for (name, value) in item.members() {
        let Some(name) = name.string().filter(|name| name != "id" && name != "type") else { continue };
        let is_text = is_message && name == "content" && value.kind() == Kind::String;
        match content {
            Some(content) if is_text => {
                let is_answer = text(role).is_some_and(|role| role == "assistant");
                parts_of_text(object.member("content"), content, is_answer);
            }
            _ if value.kind() == Kind::Null && name == "status" => {}
            _ => put_one_line(object.member(&name), value.text()),
        }
    }
    object.finish();
}

/// A text as a list of one part.
fn parts_of_text(out: &mut Vec<u8>, content: View<'_>, is_answer: bool) {
    out.push(b'[');
    let mut part = ObjectWriter::begin(out);
    part.string("type", if is_answer { "output_text" } else { "input_text" });
    put_one_line(part.member("text"), content.text());
    if is_answer {
        part.raw("annotations", "[]");
        part.raw("logprobs", "[]");
    }
    part.finish();
    out.push(b']');
}

/// The id of an item, whose JSON text is given in parts.
fn made_id(kind: &str, at: usize, item: &[&str]) -> String {
    let prefix = match kind {
        "message" => "msg",
        "function_call" => "fc",
        "function_call_output" => "fco",
        "custom_tool_call" => "ctc",
        "custom_tool_call_output" => "ctco",
        "reasoning" => "rs",
        "compaction" => "cmp",
        "image_generation_call" => "ig",
        _ => "item",
    };
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, at).hash(&mut hasher);
        item.iter().for_each(|part| hasher.write(part.as_bytes()));
        // The end of a text, as the standard library marks it.
        hasher.write_u8(0xff);
        hasher.finish()
    };
    format!("{prefix}_{:016x}{:016x}", half(0), half(1))
}

/// The items of a response object (`output`).
pub fn output_items(response: &str) -> impl Iterator<Item = View<'_>> {
    let [output] = View::new(response).pick(["output"]);
    output.into_iter().flat_map(View::elements)
}

/// The items of a list that [`input_items`] wrote.
pub fn listed_items(list: &[u8]) -> impl Iterator<Item = View<'_>> {
    View::new(std::str::from_utf8(list).unwrap_or("[]")).elements()
}
