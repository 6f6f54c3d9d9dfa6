//! The open call or reasoning of an upstream that speaks this dialect. If the stream breaks, the failed response has the item
//! as far as it came.

use crate::dialects::responses::json_text::{put_one_line, separate, text};
use crate::dialects::responses::native::splice::ObjectSplice;
use crate::json::View;
use crate::render::put;

/// A call or a reasoning whose end has not come.
#[derive(Clone, Debug)]
pub(super) struct NativePartial {
    /// The item as it was added.
    item: String,
    /// The place in the output.
    index: u32,
    content: PartialContent,
}

/// The content so far. Texts are escaped.
#[derive(Clone, Debug)]
enum PartialContent {
    /// The text of a member, `arguments` or `input`.
    Call { member: &'static str, text: Vec<u8> },
    /// The texts of the summary's parts and of the reasoning's own parts.
    Reasoning { summary: Vec<Vec<u8>>, texts: Vec<Vec<u8>> },
}

impl NativePartial {
    /// The item that a frame opens; None for an item of another type.
    pub(super) fn opened(data: &str) -> Option<Self> {
        let [item, index] = View::new(data).pick(["item", "output_index"]);
        let item = item?;
        let [kind] = item.pick(["type"]);
        let call = |member: &'static str| {
            let mut begun = Vec::new();
            put_one_line(&mut begun, escaped(item.text(), member).unwrap_or_default());
            PartialContent::Call { member, text: begun }
        };
        let content = match &*text(kind)? {
            "function_call" => call("arguments"),
            "custom_tool_call" => call("input"),
            "reasoning" => PartialContent::Reasoning { summary: Vec::new(), texts: Vec::new() },
            _ => return None,
        };
        Some(Self { item: item.text().to_owned(), index: index?.text().parse().ok()?, content })
    }

    /// The place in the output.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Follows a frame. Frames of other items are ignored.
    pub(super) fn follow(&mut self, name: &str, data: &str) {
        let [index] = View::new(data).pick(["output_index"]);
        if index.and_then(|index| index.text().parse::<u32>().ok()) != Some(self.index) {
            return;
        }
        match (&mut self.content, name) {
            (
                PartialContent::Call { text, .. },
                "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta",
            ) => put_one_line(text, escaped(data, "delta").unwrap_or_default()),
            (
                PartialContent::Call { member, text },
                "response.function_call_arguments.done" | "response.custom_tool_call_input.done",
            ) => {
                if let Some(whole) = escaped(data, member) {
                    text.clear();
                    put_one_line(text, whole);
                }
            }
            (PartialContent::Reasoning { summary, .. }, "response.reasoning_summary_part.added") => {
                summary.push(Vec::new());
            }
            (PartialContent::Reasoning { summary, .. }, "response.reasoning_summary_text.delta") => {
                append(summary, data);
            }
            (PartialContent::Reasoning { texts, .. }, "response.content_part.added") => {
                texts.push(Vec::new());
            }
            (PartialContent::Reasoning { texts, .. }, "response.reasoning_text.delta") => append(texts, data),
            _ => {}
        }
    }

    /// The item as far as it came, as JSON text.
    pub(super) fn into_json(self) -> String {
        let mut splice = ObjectSplice::new(&self.item, View::new(&self.item));
        splice.set("status", "\"incomplete\"");
        match &self.content {
            PartialContent::Call { member, text } => {
                let literal = [b"\"".as_slice(), text.as_slice(), b"\"".as_slice()].concat();
                splice.set(member, literal);
            }
            PartialContent::Reasoning { summary, texts } => {
                if !summary.is_empty() {
                    splice.set("summary", parts("summary_text", summary));
                }
                if !texts.is_empty() {
                    splice.set("content", parts("reasoning_text", texts));
                }
            }
        }
        String::from_utf8(splice.apply()).unwrap_or_default()
    }

    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        let content = match &self.content {
            PartialContent::Call { text, .. } => text.capacity(),
            PartialContent::Reasoning { summary, texts } => {
                let parts = summary.capacity() + texts.capacity();
                let bytes: usize = summary.iter().chain(texts).map(Vec::capacity).sum();
                bytes + parts * size_of::<Vec<u8>>()
            }
        };
        self.item.capacity() + content
    }
}

/// The escaped text of a member; None if it is no string.
fn escaped<'d>(data: &'d str, member: &str) -> Option<&'d str> {
    let [value] = View::new(data).pick([member]);
    value?.text().strip_prefix('"')?.strip_suffix('"')
}

/// Appends the delta of a frame to the last part.
fn append(parts: &mut Vec<Vec<u8>>, data: &str) {
    if parts.is_empty() {
        parts.push(Vec::new());
    }
    if let Some(last) = parts.last_mut() {
        put_one_line(last, escaped(data, "delta").unwrap_or_default());
    }
}

/// The list of parts of this type.
fn parts(kind: &str, texts: &[Vec<u8>]) -> Vec<u8> {
    let mut list = Vec::new();
    for text in texts {
        separate(&mut list);
        put(&mut list, "{\"type\":\"");
        put(&mut list, kind);
        put(&mut list, "\",\"text\":\"");
        list.extend_from_slice(text);
        put(&mut list, "\"}");
    }
    [b"[".as_slice(), list.as_slice(), b"]".as_slice()].concat()
}
