//! The frames of content blocks.

use super::super::blocks::BlockWriter;
use crate::json::{write_escaped, write_str};
use crate::render::{put, put_int};

/// The position in the stream of blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockFrames {
    /// The index of the next block.
    next: u64,
    /// A delta frame of the open block up to its text.
    head: Vec<u8>,
}

impl BlockFrames {
    /// The position after the blocks of another encoder, of which the last has this index and may be an open text.
    pub(super) fn after(index: u64, is_text: bool) -> Self {
        let mut frames = Self { next: index + 1, head: Vec::new() };
        if is_text {
            frames.begin_deltas(TEXT_DELTA);
        }
        frames
    }

    /// Makes the head of the open block's delta frames.
    fn begin_deltas(&mut self, delta: &str) {
        self.head.clear();
        put_delta(&mut self.head, self.next.saturating_sub(1));
        put(&mut self.head, delta);
    }
}

const TEXT_DELTA: &str = "{\"type\":\"text_delta\",\"text\":";
const THINKING_DELTA: &str = "{\"type\":\"thinking_delta\",\"thinking\":";
const JSON_DELTA: &str = "{\"type\":\"input_json_delta\",\"partial_json\":";

fn put_delta(out: &mut Vec<u8>, index: u64) {
    put(out, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":");
    put_int(out, index);
    put(out, ",\"delta\":");
}

/// Writes the frames of blocks.
pub(super) struct FrameWriter<'o> {
    pub(super) out: &'o mut Vec<u8>,
    pub(super) frames: &'o mut BlockFrames,
}

impl FrameWriter<'_> {
    /// Begins a block. The caller appends the block's object.
    fn start(&mut self) {
        put(self.out, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":");
        put_int(self.out, self.frames.next);
        put(self.out, ",\"content_block\":");
        self.frames.next += 1;
    }

    fn delta(&mut self, text: &str) {
        self.out.extend_from_slice(&self.frames.head);
        write_str(self.out, text);
        put(self.out, "}}\n\n");
    }

    fn index(&self) -> u64 {
        self.frames.next.saturating_sub(1)
    }
}

impl BlockWriter for FrameWriter<'_> {
    fn start_thinking(&mut self) {
        self.start();
        put(self.out, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n");
        self.frames.begin_deltas(THINKING_DELTA);
    }

    fn thinking(&mut self, text: &str) {
        self.delta(text);
    }

    fn signature(&mut self, signature: &str) {
        put_delta(self.out, self.index());
        put(self.out, "{\"type\":\"signature_delta\",\"signature\":");
        write_str(self.out, signature);
        put(self.out, "}}\n\n");
    }

    fn start_text(&mut self) {
        self.start();
        put(self.out, "{\"type\":\"text\",\"text\":\"\"}}\n\n");
        self.frames.begin_deltas(TEXT_DELTA);
    }

    fn text(&mut self, text: &str) {
        self.delta(text);
    }

    fn citation(&mut self, citation: &[u8]) {
        put_delta(self.out, self.index());
        put(self.out, "{\"type\":\"citations_delta\",\"citation\":");
        self.out.extend_from_slice(citation);
        put(self.out, "}}\n\n");
    }

    fn start_tool(&mut self, id: &str, name: &str) {
        self.start();
        put(self.out, "{\"type\":\"tool_use\",\"id\":");
        write_str(self.out, id);
        put(self.out, ",\"name\":");
        write_str(self.out, name);
        put(self.out, ",\"input\":{}}}\n\n");
        self.frames.begin_deltas(JSON_DELTA);
    }

    fn arguments(&mut self, fragment: &str) {
        self.delta(fragment);
    }

    fn stop(&mut self) {
        put(self.out, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":");
        put_int(self.out, self.index());
        put(self.out, "}\n\n");
    }

    fn redacted(&mut self, data: &str) {
        self.start();
        put(self.out, "{\"type\":\"redacted_thinking\",\"data\":");
        write_str(self.out, data);
        put(self.out, "}}\n\n");
        self.stop();
    }

    fn image(&mut self, media_type: &str, base64: &str) {
        self.out.reserve(base64.len() + 512);
        self.start();
        put(self.out, "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"");
        write_escaped(self.out, media_type);
        put(self.out, "\",\"data\":\"");
        write_escaped(self.out, base64);
        put(self.out, "\"}}}\n\n");
        self.stop();
    }
}
