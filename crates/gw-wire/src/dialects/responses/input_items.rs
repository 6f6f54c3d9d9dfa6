//! The items of a request as the API lists them, and as the store keeps them: each with an id, a type and a status.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::item_index::ItemIndex;
use super::json_text::{put_one_line, text};
use crate::json::{Kind, ObjectWriter, View, check, write_str};

/// The items of a request's body, in order. A body that is no JSON object has none. `item_reference` is replaced by the
/// item of `history` that it names.
#[must_use]
pub fn input_items(body: &[u8], history: &[&str]) -> Vec<String> {
    let Ok(body) = std::str::from_utf8(body) else { return Vec::new() };
    if check(body).is_err() {
        return Vec::new();
    }
    let [input] = View::new(body).pick(["input"]);
    let Some(input) = input else { return Vec::new() };
    let mut index = ItemIndex::new(history);
    if input.kind() == Kind::String {
        let item = format!("{{\"role\":\"user\",\"content\":{}}}", input.text());
        return vec![listed(0, View::new(&item), &mut index)];
    }
    input.elements().enumerate().map(|(at, item)| listed(at, item, &mut index)).collect()
}

/// One item. Its id is derived from its place and its content, so that a request always has the same ids.
fn listed(at: usize, item: View<'_>, index: &mut ItemIndex<'_>) -> String {
    let [id, kind, role, content, status] = item.pick(["id", "type", "role", "content", "status"]);
    let kind = text(kind).unwrap_or_else(|| if role.is_some() { "message" } else { "item_reference" }.into());
    if kind == "item_reference"
        && let Some(stored) = text(id).and_then(|id| index.get(&id))
    {
        return stored.to_owned();
    }
    let is_message = kind == "message";
    let mut out = Vec::with_capacity(item.text().len() + 96);
    let mut object = ObjectWriter::begin(&mut out);
    match text(id) {
        Some(id) => object.string("id", &id),
        None => object.string("id", &made_id(&kind, at, item)),
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
    // The writer makes UTF-8.
    String::from_utf8(out).unwrap_or_default()
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

fn made_id(kind: &str, at: usize, item: View<'_>) -> String {
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
        (salt, at, item.text()).hash(&mut hasher);
        hasher.finish()
    };
    format!("{prefix}_{:016x}{:016x}", half(0), half(1))
}

/// The items of a response object (`output`), as the store keeps them.
#[must_use]
pub fn output_items(response: &str) -> Vec<String> {
    if check(response).is_err() {
        return Vec::new();
    }
    let [output] = View::new(response).pick(["output"]);
    output.into_iter().flat_map(View::elements).map(|item| item.text().to_owned()).collect()
}

/// A page of the list of input items.
#[derive(Clone, Copy, Debug)]
pub struct ItemPage<'p> {
    /// The most items, 1..=100.
    pub limit: usize,
    /// Whether the newest item comes first, which is the default.
    pub is_descending: bool,
    /// The id of the last item of the page before.
    pub after: Option<&'p str>,
}

/// Writes a page of `GET /v1/responses/{id}/input_items`. `items` are in their order of time.
#[must_use]
pub fn write_page(items: &[String], page: &ItemPage<'_>) -> Vec<u8> {
    let mut ordered: Vec<&str> = items.iter().map(String::as_str).collect();
    if page.is_descending {
        ordered.reverse();
    }
    let id_of = |item: &str| {
        let [id] = View::new(item).pick(["id"]);
        text(id).map(std::borrow::Cow::into_owned)
    };
    if let Some(after) = page.after {
        let at = ordered.iter().position(|item| id_of(item).as_deref() == Some(after));
        ordered.drain(..at.map_or(0, |at| at + 1));
    }
    let has_more = ordered.len() > page.limit;
    ordered.truncate(page.limit);
    let mut out = Vec::new();
    let mut list = ObjectWriter::begin(&mut out);
    list.string("object", "list");
    list.array("data", &ordered, |out, item| put_one_line(out, item));
    for (name, item) in [("first_id", ordered.first()), ("last_id", ordered.last())] {
        match item.and_then(|item| id_of(item)) {
            Some(id) => write_str(list.member(name), &id),
            None => list.raw(name, "null"),
        }
    }
    list.raw("has_more", if has_more { "true" } else { "false" });
    list.finish();
    out
}
