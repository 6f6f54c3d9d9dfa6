//! A message of the answer while it is written. Its parts are texts and refusals.

use super::frames::{Frames, ITEM_ADDED, ITEM_DONE, end};
use super::native_message::NativeMessage;
use crate::dialects::responses::json_text::separate;
use crate::dialects::responses::snapshot::ItemPlace;
use crate::json::write_str;
use crate::render::{put, put_int};

/// The text of a delta's frame up to its sequence number.
const TEXT_DELTA: &str = concat!(
    "event: response.output_text.delta\n",
    "data: {\"type\":\"response.output_text.delta\",\"sequence_number\":"
);

/// A message.
#[derive(Clone, Debug)]
pub(super) struct MessageItem {
    place: ItemPlace,
    /// The ended parts as JSON text, separated by commas.
    parts: Vec<u8>,
    /// Number of ended parts.
    count: u32,
    part: Option<OpenTextPart>,
}

/// The part that is written.
#[derive(Clone, Debug)]
struct OpenTextPart {
    is_refusal: bool,
    /// The text so far, escaped.
    text: Vec<u8>,
    /// The log probabilities so far, separated by commas.
    logprobs: Vec<u8>,
    /// The annotations so far, separated by commas.
    annotations: Vec<u8>,
    annotation_count: u32,
    /// The members of a delta between its sequence number and its text.
    middle: Vec<u8>,
}

impl MessageItem {
    /// Opens a message.
    pub(super) fn open(place: ItemPlace, frames: &mut Frames, out: &mut Vec<u8>) -> Self {
        let message = Self { place, parts: Vec::new(), count: 0, part: None };
        frames.item(ITEM_ADDED, &message.place, &message.json("in_progress"), out);
        message
    }

    /// The message of another upstream, whose text goes on.
    pub(super) fn continued(native: NativeMessage) -> Self {
        let NativeMessage { place, parts, count, text } = native;
        let part = text.map(|text| OpenTextPart { text, ..OpenTextPart::new(false, &place, count) });
        Self { place, parts, count, part }
    }

    /// Bytes that the message keeps.
    pub(super) fn held_bytes(&self) -> usize {
        let part = self
            .part
            .as_ref()
            .map_or(0, |part| part.text.capacity() + part.logprobs.capacity() + part.annotations.capacity());
        self.parts.capacity() + part
    }

    /// Bytes of the content so far.
    pub(super) fn len(&self) -> usize {
        let part = self
            .part
            .as_ref()
            .map_or(0, |part| part.text.len() + part.logprobs.len() + part.annotations.len());
        self.parts.len() + part
    }

    /// Writes a piece of text.
    pub(super) fn text(&mut self, text: &str, logprobs: &[u8], frames: &mut Frames, out: &mut Vec<u8>) {
        let part = self.part_of(false, frames, out);
        frames.begin_known(TEXT_DELTA, out);
        part.piece(text, out);
        if logprobs.is_empty() {
            put(out, ",\"logprobs\":[]}\n\n");
        } else {
            put(out, ",\"logprobs\":[");
            out.extend_from_slice(logprobs);
            put(out, "]}\n\n");
            separate(&mut part.logprobs);
            part.logprobs.extend_from_slice(logprobs);
        }
    }

    /// Writes a piece of a refusal.
    pub(super) fn refusal(&mut self, text: &str, frames: &mut Frames, out: &mut Vec<u8>) {
        let part = self.part_of(true, frames, out);
        frames.begin("response.refusal.delta", out);
        part.piece(text, out);
        end(out);
    }

    /// Writes an annotation of the text so far.
    pub(super) fn annotation(&mut self, annotation: &[u8], frames: &mut Frames, out: &mut Vec<u8>) {
        self.part_of(false, frames, out);
        let Self { place, count, part: Some(part), .. } = self else { return };
        frames.begin_item("response.output_text.annotation.added", place, out);
        content_index(*count, out);
        put(out, ",\"annotation_index\":");
        put_int(out, u64::from(part.annotation_count));
        put(out, ",\"annotation\":");
        out.extend_from_slice(annotation);
        end(out);
        separate(&mut part.annotations);
        part.annotations.extend_from_slice(annotation);
        part.annotation_count += 1;
    }

    /// Ends the message and returns it.
    pub(super) fn close(mut self, status: &str, frames: &mut Frames, out: &mut Vec<u8>) -> Vec<u8> {
        self.end_part(frames, out);
        let item = self.json(status);
        self.parts = Vec::new();
        frames.item(ITEM_DONE, &self.place, &item, out);
        item
    }

    /// The message as it is, for a response that failed.
    pub(super) fn partial(mut self) -> Vec<u8> {
        self.keep_part();
        self.json("incomplete")
    }

    fn json(&self, status: &str) -> Vec<u8> {
        let mut item = Vec::with_capacity(128 + self.parts.len());
        put(&mut item, "{\"id\":");
        write_str(&mut item, &self.place.id);
        put(&mut item, ",\"type\":\"message\",\"role\":\"assistant\",\"status\":");
        write_str(&mut item, status);
        put(&mut item, ",\"content\":[");
        item.extend_from_slice(&self.parts);
        put(&mut item, "]}");
        item
    }

    /// The open part of this kind; a part of the other kind is ended first.
    fn part_of(&mut self, is_refusal: bool, frames: &mut Frames, out: &mut Vec<u8>) -> &mut OpenTextPart {
        if self.part.as_ref().is_some_and(|part| part.is_refusal != is_refusal) {
            self.end_part(frames, out);
        }
        let Self { place, count, part, .. } = self;
        part.get_or_insert_with(|| OpenTextPart::open(is_refusal, place, *count, frames, out))
    }

    fn end_part(&mut self, frames: &mut Frames, out: &mut Vec<u8>) {
        let Some(part) = &self.part else { return };
        let kind = if part.is_refusal { "response.refusal.done" } else { "response.output_text.done" };
        frames.begin_item(kind, &self.place, out);
        content_index(self.count, out);
        put(out, if part.is_refusal { ",\"refusal\":\"" } else { ",\"text\":\"" });
        out.extend_from_slice(&part.text);
        out.push(b'"');
        if !part.is_refusal {
            put(out, ",\"logprobs\":[");
            out.extend_from_slice(&part.logprobs);
            out.push(b']');
        }
        end(out);
        frames.begin_item("response.content_part.done", &self.place, out);
        content_index(self.count, out);
        put(out, ",\"part\":");
        part.write(out);
        end(out);
        self.keep_part();
    }

    fn keep_part(&mut self) {
        if let Some(part) = self.part.take() {
            separate(&mut self.parts);
            self.parts.reserve_exact(part.text.len() + part.logprobs.len() + part.annotations.len() + 128);
            part.write(&mut self.parts);
            self.count += 1;
        }
    }
}

impl OpenTextPart {
    fn new(is_refusal: bool, place: &ItemPlace, count: u32) -> Self {
        let mut middle = Vec::with_capacity(128);
        place.write(&mut middle);
        content_index(count, &mut middle);
        put(&mut middle, ",\"delta\":");
        Self {
            is_refusal,
            text: Vec::new(),
            logprobs: Vec::new(),
            annotations: Vec::new(),
            annotation_count: 0,
            middle,
        }
    }

    fn open(is_refusal: bool, place: &ItemPlace, count: u32, frames: &mut Frames, out: &mut Vec<u8>) -> Self {
        let part = Self::new(is_refusal, place, count);
        frames.begin_item("response.content_part.added", place, out);
        content_index(count, out);
        put(out, ",\"part\":");
        part.write(out);
        end(out);
        part
    }

    /// Writes a piece of text and keeps it.
    #[inline]
    fn piece(&mut self, text: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.middle);
        let start = out.len() + 1;
        write_str(out, text);
        self.text.extend_from_slice(out.get(start..out.len() - 1).unwrap_or_default());
    }

    fn write(&self, out: &mut Vec<u8>) {
        let opening = if self.is_refusal { "refusal\",\"refusal\":\"" } else { "output_text\",\"text\":\"" };
        put(out, "{\"type\":\"");
        put(out, opening);
        out.extend_from_slice(&self.text);
        out.push(b'"');
        if !self.is_refusal {
            put(out, ",\"annotations\":[");
            out.extend_from_slice(&self.annotations);
            put(out, "],\"logprobs\":[");
            out.extend_from_slice(&self.logprobs);
            out.push(b']');
        }
        out.push(b'}');
    }
}

/// Appends `,"content_index":…`.
pub(super) fn content_index(index: u32, out: &mut Vec<u8>) {
    put(out, ",\"content_index\":");
    put_int(out, u64::from(index));
}
