//! The frames of a replayed stream. Frames up to a number are left out.

use super::frames::{Frames, end};
use crate::dialects::responses::json_text::put_one_line;
use crate::json::write_str;
use crate::render::{put, put_int};

/// Writes the frames above a number.
#[derive(Debug, Default)]
pub(in crate::dialects::responses) struct ReplayFrames {
    frames: Frames,
    out: Vec<u8>,
    starting_after: Option<u64>,
}

impl ReplayFrames {
    pub(in crate::dialects::responses) fn new(starting_after: Option<u64>) -> Self {
        Self { starting_after, ..Self::default() }
    }

    /// Writes a frame. `write` appends members, each with a comma before it.
    pub(in crate::dialects::responses) fn frame(&mut self, kind: &str, write: impl FnOnce(&mut Vec<u8>)) {
        if self.starting_after.is_some_and(|after| self.frames.upcoming() <= after) {
            self.frames.take();
            return;
        }
        self.frames.begin(kind, &mut self.out);
        write(&mut self.out);
        end(&mut self.out);
    }

    /// Writes the frame that adds or ends an item.
    pub(in crate::dialects::responses) fn item(&mut self, kind: &str, index: usize, item: &str) {
        self.frame(kind, |out| {
            output_index(index, out);
            put(out, ",\"item\":");
            put_one_line(out, item);
        });
    }

    /// Writes the frame of an item's event.
    pub(in crate::dialects::responses) fn item_event(
        &mut self,
        kind: &str,
        index: usize,
        id: &str,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.frame(kind, |out| {
            put(out, ",\"item_id\":");
            write_str(out, id);
            output_index(index, out);
            write(out);
        });
    }

    /// All frames.
    pub(in crate::dialects::responses) fn into_bytes(self) -> Vec<u8> {
        self.out
    }
}

fn output_index(index: usize, out: &mut Vec<u8>) {
    put(out, ",\"output_index\":");
    put_int(out, index as u64);
}
