//! The frames of an upstream that speaks the Messages API. They go to the client as they come, but for two things: each
//! signature waits for its sealed form, and the last frames wait for the gateway's own members.

use std::collections::VecDeque;

use memchr::memmem;

use super::super::frame::put_frame;
use super::document::with_seal;
use crate::json::View;

/// The most sealed signatures that wait for their frames. Each waits for the frame that its event came with.
const MAX_WAITING_SEALS: usize = 64;

/// The position after the frames so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct FramePosition {
    /// The index of the last block.
    pub(in super::super) index: u64,
    /// The last block is an open text.
    pub(in super::super) is_text: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FrameMode {
    /// No frame has arrived.
    #[default]
    Unused,
    /// The stream consists of the upstream's frames.
    Active,
    /// Frames are ignored, because the stream continues another one.
    Refused,
}

/// A frame that waits for a sealed signature.
#[derive(Clone, Debug)]
enum WaitingFrame {
    /// A `signature_delta` and the end of its block.
    Signature { delta: String, stop: String },
    /// The beginning of a block of encrypted thinking.
    Redacted(String),
}

/// The state of native frames.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct MessagesFrames {
    mode: FrameMode,
    /// `message_start`, which is written with the first content.
    start: Option<String>,
    /// `message_delta`, which is written at the end.
    end: Option<String>,
    /// A `signature_delta` whose block is open.
    signature: Option<String>,
    waiting: Option<WaitingFrame>,
    seals: VecDeque<String>,
    position: Option<FramePosition>,
}

impl MessagesFrames {
    /// Frames that are ignored.
    pub(in super::super) fn refused() -> Self {
        Self { mode: FrameMode::Refused, ..Self::default() }
    }

    /// Notes that a frame has arrived. Returns false if frames are ignored.
    pub(in super::super) fn begin(&mut self) -> bool {
        if self.mode == FrameMode::Unused {
            self.mode = FrameMode::Active;
        }
        self.is_active()
    }

    /// Whether the stream consists of the upstream's frames.
    pub(in super::super) fn is_active(&self) -> bool {
        self.mode == FrameMode::Active
    }

    /// The position that another encoder continues from; None if the stream has no native frames.
    pub(in super::super) fn continued(&self) -> Option<FramePosition> {
        self.position.filter(|_| self.is_active())
    }

    /// Keeps `message_start`.
    pub(in super::super) fn keep_start(&mut self, data: &str) {
        self.start = Some(data.to_owned());
    }

    /// Takes the kept `message_start`.
    pub(in super::super) fn take_start(&mut self) -> Option<String> {
        self.start.take()
    }

    /// Keeps `message_delta`. An earlier one is written.
    pub(in super::super) fn message_delta(&mut self, data: &str, out: &mut Vec<u8>) {
        self.flush(out);
        if let Some(former) = self.end.replace(data.to_owned()) {
            put_frame(out, "message_delta", &former);
        }
    }

    /// Takes the last `message_delta`.
    pub(in super::super) fn take_end(&mut self) -> Option<String> {
        self.end.take()
    }

    /// Bytes that are kept.
    pub(in super::super) fn held_bytes(&self) -> usize {
        let kept = [&self.start, &self.end, &self.signature];
        let waiting = match &self.waiting {
            Some(WaitingFrame::Signature { delta, stop }) => delta.len() + stop.len(),
            Some(WaitingFrame::Redacted(start)) => start.len(),
            None => 0,
        };
        let kept: usize = kept.into_iter().flatten().map(String::len).sum();
        kept + waiting + self.seals.iter().map(String::len).sum::<usize>()
    }

    /// Takes a frame of a block, or one of an unknown kind.
    pub(in super::super) fn block_frame(&mut self, name: &str, data: &str, out: &mut Vec<u8>) {
        self.flush(out);
        match name {
            "content_block_start" => self.block_start(data, out),
            "content_block_delta" if is_signature(data) => self.signature = Some(data.to_owned()),
            "content_block_stop" => self.block_stop(data, out),
            _ => put_frame(out, name, data),
        }
    }

    fn block_start(&mut self, data: &str, out: &mut Vec<u8>) {
        let [index, block] = View::new(data).pick(["index", "content_block"]);
        let [kind] = block.map_or([None], |block| block.pick(["type"]));
        let kind = kind.and_then(View::string).unwrap_or_default();
        let index = index.and_then(|index| index.text().parse().ok()).unwrap_or(0);
        self.position = Some(FramePosition { index, is_text: kind == "text" });
        if kind != "redacted_thinking" {
            return put_frame(out, "content_block_start", data);
        }
        match self.seals.pop_front() {
            Some(seal) => put_redacted(data, &seal, out),
            None => self.waiting = Some(WaitingFrame::Redacted(data.to_owned())),
        }
    }

    fn block_stop(&mut self, data: &str, out: &mut Vec<u8>) {
        if let Some(position) = &mut self.position {
            position.is_text = false;
        }
        let Some(delta) = self.signature.take() else { return put_frame(out, "content_block_stop", data) };
        match self.seals.pop_front() {
            Some(seal) => put_signature(&delta, data, &seal, out),
            None => self.waiting = Some(WaitingFrame::Signature { delta, stop: data.to_owned() }),
        }
    }

    /// Takes a sealed signature.
    pub(in super::super) fn seal(&mut self, seal: String, out: &mut Vec<u8>) {
        match self.waiting.take() {
            Some(WaitingFrame::Signature { delta, stop }) => put_signature(&delta, &stop, &seal, out),
            Some(WaitingFrame::Redacted(start)) => put_redacted(&start, &seal, out),
            None if self.seals.len() < MAX_WAITING_SEALS => self.seals.push_back(seal),
            None => {}
        }
    }

    /// Writes the frame that waits, with the upstream's own signature.
    pub(in super::super) fn flush(&mut self, out: &mut Vec<u8>) {
        match self.waiting.take() {
            Some(WaitingFrame::Signature { delta, stop }) => {
                put_frame(out, "content_block_delta", &delta);
                put_frame(out, "content_block_stop", &stop);
            }
            Some(WaitingFrame::Redacted(start)) => put_frame(out, "content_block_start", &start),
            None => {}
        }
    }
}

/// Whether a delta is a signature.
fn is_signature(data: &str) -> bool {
    // Most deltas do not have the word in them.
    memmem::find(data.as_bytes(), b"signature_delta").is_some() && {
        let [delta] = View::new(data).pick(["delta"]);
        let [kind] = delta.map_or([None], |delta| delta.pick(["type"]));
        kind.and_then(View::string).is_some_and(|kind| kind == "signature_delta")
    }
}

fn put_signature(delta: &str, stop: &str, seal: &str, out: &mut Vec<u8>) {
    put_frame(out, "content_block_delta", &with_seal(delta, "delta", "signature", seal));
    put_frame(out, "content_block_stop", stop);
}

fn put_redacted(start: &str, seal: &str, out: &mut Vec<u8>) {
    put_frame(out, "content_block_start", &with_seal(start, "content_block", "data", seal));
}
