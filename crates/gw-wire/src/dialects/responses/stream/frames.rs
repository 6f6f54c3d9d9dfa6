//! The frames of a stream: an event's name, its JSON on one line, and a sequence number that counts from 0 without gaps.

use std::ops::Range;

use crate::dialects::responses::snapshot::ItemPlace;
use crate::json::write_str;
use crate::render::{put, put_int};

/// Numbers and writes frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frames {
    next: u64,
}

impl Frames {
    /// Begins a frame: the caller appends further members, each with a comma before it, and ends it with [`end`].
    pub(super) fn begin(&mut self, kind: &str, out: &mut Vec<u8>) {
        put_head(kind, out);
        put_int(out, self.take());
    }

    /// Begins the frame of an item's event.
    pub(super) fn begin_item(&mut self, kind: &str, place: &ItemPlace, out: &mut Vec<u8>) {
        self.begin(kind, out);
        place.write(out);
    }

    /// Begins a frame whose text up to the sequence number is known.
    #[inline]
    pub(super) fn begin_known(&mut self, head: &str, out: &mut Vec<u8>) {
        put(out, head);
        put_int(out, self.take());
    }

    /// Writes the frame that adds or ends an item.
    pub(super) fn item(&mut self, kind: &str, place: &ItemPlace, item: &[u8], out: &mut Vec<u8>) {
        self.begin(kind, out);
        place.write_index(out);
        put(out, ",\"item\":");
        out.extend_from_slice(item);
        end(out);
    }

    /// Takes the next number.
    pub(super) fn take(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }
}

/// Writes a frame up to its sequence number.
fn put_head(kind: &str, out: &mut Vec<u8>) {
    put(out, "event: ");
    put(out, kind);
    put(out, "\ndata: {\"type\":\"");
    put(out, kind);
    put(out, "\",\"sequence_number\":");
}

/// The delta frames of one item. Only their numbers and their texts differ.
#[derive(Clone, Debug)]
pub(super) struct DeltaFrames {
    /// The frame up to its sequence number.
    head: Vec<u8>,
    /// The members between the sequence number and the text.
    middle: Vec<u8>,
}

impl DeltaFrames {
    /// The frames of this kind of event. `more` are members between the item's place and the text.
    pub(super) fn new(kind: &str, place: &ItemPlace, more: &str) -> Self {
        let mut head = Vec::with_capacity(2 * kind.len() + 48);
        put_head(kind, &mut head);
        let mut middle = Vec::with_capacity(place.id.len() + more.len() + 48);
        place.write(&mut middle);
        put(&mut middle, more);
        put(&mut middle, ",\"delta\":");
        Self { head, middle }
    }

    /// Writes a frame. Returns the range of its escaped text in the output.
    #[inline]
    pub(super) fn write(&self, text: &str, frames: &mut Frames, out: &mut Vec<u8>) -> Range<usize> {
        out.extend_from_slice(&self.head);
        put_int(out, frames.take());
        out.extend_from_slice(&self.middle);
        let start = out.len() + 1;
        write_str(out, text);
        let end_of_text = out.len() - 1;
        end(out);
        start..end_of_text
    }

    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        self.head.capacity() + self.middle.capacity()
    }
}

/// Ends a frame.
#[inline]
pub(super) fn end(out: &mut Vec<u8>) {
    put(out, "}\n\n");
}

/// The frame that adds an item.
pub(super) const ITEM_ADDED: &str = "response.output_item.added";

/// The frame that ends an item.
pub(super) const ITEM_DONE: &str = "response.output_item.done";
