//! A reasoning item of the answer while it is written.

use super::frames::{DeltaFrames, Frames, ITEM_ADDED, ITEM_DONE, end};
use crate::dialects::responses::snapshot::ItemPlace;
use crate::json::write_str;
use crate::render::put;

/// The wire names of the two forms of reasoning.
#[derive(Debug)]
struct ReasoningForm {
    part_added: &'static str,
    delta: &'static str,
    done: &'static str,
    part_done: &'static str,
    /// The index of the only part.
    index: &'static str,
    /// The part up to its text.
    part: &'static str,
}

static SUMMARY: ReasoningForm = ReasoningForm {
    part_added: "response.reasoning_summary_part.added",
    delta: "response.reasoning_summary_text.delta",
    done: "response.reasoning_summary_text.done",
    part_done: "response.reasoning_summary_part.done",
    index: ",\"summary_index\":0",
    part: "{\"type\":\"summary_text\",\"text\":\"",
};

static RAW: ReasoningForm = ReasoningForm {
    part_added: "response.content_part.added",
    delta: "response.reasoning_text.delta",
    done: "response.reasoning_text.done",
    part_done: "response.content_part.done",
    index: ",\"content_index\":0",
    part: "{\"type\":\"reasoning_text\",\"text\":\"",
};

/// A reasoning item.
#[derive(Clone, Debug)]
pub(super) struct ReasoningItem {
    place: ItemPlace,
    deltas: DeltaFrames,
    form: &'static ReasoningForm,
    /// The text so far, escaped; None = the item has no text.
    text: Option<Vec<u8>>,
    /// The opaque string for the next request, as a JSON literal.
    encrypted: Option<Vec<u8>>,
}

impl ReasoningItem {
    /// Opens an item; `encrypted` is its opaque string, where it is known.
    pub(super) fn open(
        place: ItemPlace,
        is_raw: bool,
        encrypted: Option<Vec<u8>>,
        frames: &mut Frames,
        out: &mut Vec<u8>,
    ) -> Self {
        let form = if is_raw { &RAW } else { &SUMMARY };
        let deltas = DeltaFrames::new(form.delta, &place, form.index);
        let item = Self { place, deltas, form, text: None, encrypted };
        frames.item(ITEM_ADDED, &item.place, &item.json("in_progress"), out);
        item
    }

    /// Bytes that the item keeps.
    pub(super) fn held_bytes(&self) -> usize {
        let text = self.text.as_ref().map_or(0, Vec::capacity);
        text + self.encrypted.as_ref().map_or(0, Vec::capacity) + self.deltas.held_bytes()
    }

    /// Whether the item has its opaque string, so that more reasoning belongs to another item.
    pub(super) fn is_signed(&self) -> bool {
        self.encrypted.is_some()
    }

    /// Takes the opaque string.
    pub(super) fn sign(&mut self, encrypted: Vec<u8>) {
        self.encrypted = Some(encrypted);
    }

    /// Writes a piece of text.
    pub(super) fn text(&mut self, text: &str, frames: &mut Frames, out: &mut Vec<u8>) {
        let Self { place, deltas, form, text: kept, .. } = self;
        let kept = kept.get_or_insert_with(|| {
            frames.begin_item(form.part_added, place, out);
            put(out, form.index);
            put(out, ",\"part\":");
            put(out, form.part);
            put(out, "\"}");
            end(out);
            Vec::new()
        });
        let escaped = deltas.write(text, frames, out);
        kept.extend_from_slice(out.get(escaped).unwrap_or_default());
    }

    /// Ends the item and returns it.
    pub(super) fn close(self, status: &str, frames: &mut Frames, out: &mut Vec<u8>) -> Vec<u8> {
        if let Some(text) = &self.text {
            frames.begin_item(self.form.done, &self.place, out);
            put(out, self.form.index);
            put(out, ",\"text\":\"");
            out.extend_from_slice(text);
            out.push(b'"');
            end(out);
            frames.begin_item(self.form.part_done, &self.place, out);
            put(out, self.form.index);
            put(out, ",\"part\":");
            self.part(text, out);
            end(out);
        }
        let item = self.json(status);
        frames.item(ITEM_DONE, &self.place, &item, out);
        item
    }

    /// The item as it is, for a response that failed.
    pub(super) fn partial(&self) -> Vec<u8> {
        self.json("incomplete")
    }

    fn part(&self, text: &[u8], out: &mut Vec<u8>) {
        put(out, self.form.part);
        out.extend_from_slice(text);
        put(out, "\"}");
    }

    fn json(&self, status: &str) -> Vec<u8> {
        let is_raw = std::ptr::eq(self.form, &RAW);
        let mut item = Vec::with_capacity(160 + self.held_bytes());
        put(&mut item, "{\"id\":");
        write_str(&mut item, &self.place.id);
        put(&mut item, ",\"type\":\"reasoning\",\"status\":");
        write_str(&mut item, status);
        put(&mut item, ",\"summary\":[");
        if let Some(text) = self.text.as_ref().filter(|_| !is_raw) {
            self.part(text, &mut item);
        }
        item.push(b']');
        if is_raw {
            put(&mut item, ",\"content\":[");
            if let Some(text) = &self.text {
                self.part(text, &mut item);
            }
            item.push(b']');
        }
        put(&mut item, ",\"encrypted_content\":");
        item.extend_from_slice(self.encrypted.as_deref().unwrap_or(b"null"));
        item.push(b'}');
        item
    }
}
