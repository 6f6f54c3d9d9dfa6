//! The frames of a stream: an event's name, its JSON on one line, and a sequence number that counts from 0 without gaps.

use crate::dialects::responses::snapshot::ItemPlace;
use crate::render::{put, put_int};

/// Numbers and writes frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frames {
    next: u64,
}

impl Frames {
    /// Begins a frame: the caller appends further members, each with a comma before it, and ends it with [`end`].
    pub(super) fn begin(&mut self, kind: &str, out: &mut Vec<u8>) {
        put(out, "event: ");
        put(out, kind);
        put(out, "\ndata: {\"type\":\"");
        put(out, kind);
        put(out, "\",\"sequence_number\":");
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

    /// The number of the next frame.
    pub(super) fn upcoming(self) -> u64 {
        self.next
    }

    /// Takes the next number.
    pub(super) fn take(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
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
