//! The frames of an upstream that speaks the Messages API. They go to the client as they come, but for two things: each
//! signature waits for its sealed form, and the last frames wait for the gateway's own members.
//!
//! The events of a frame follow it, and a sealed signature comes no later than the next text or call. Until then the
//! frames wait.

use std::collections::VecDeque;

use memchr::memmem;

use super::super::frame::put_frame;
use super::calls::NativeCalls;
use super::document::with_seal;
use crate::json::View;

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

/// A frame that waits.
#[derive(Clone, Debug)]
struct WaitingFrame {
    name: String,
    data: String,
    seal: WantedSeal,
}

/// The sealed signature that a frame wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedSeal {
    /// None: it only waits for the frame before it.
    None,
    /// In a `signature_delta`.
    Signature,
    /// In the `signature_delta` before it, of which this is a further piece.
    Earlier,
    /// In the beginning of a block of encrypted thinking.
    Redacted,
}

impl WaitingFrame {
    fn write(&self, seal: Option<&str>, out: &mut Vec<u8>) {
        let sealed = match (self.seal, seal) {
            (WantedSeal::Signature, Some(seal)) => with_seal(&self.data, "delta", "signature", seal),
            (WantedSeal::Redacted, Some(seal)) => with_seal(&self.data, "content_block", "data", seal),
            _ => return put_frame(out, &self.name, &self.data),
        };
        put_frame(out, &self.name, &sealed);
    }
}

/// The state of native frames.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct MessagesFrames {
    mode: FrameMode,
    /// `message_start`, which is written with the first content.
    start: Option<String>,
    /// The beginning of the first block, which is written with the first content.
    block: Option<String>,
    /// `message_delta`, which is written at the end.
    end: Option<String>,
    /// Frames from the first on that wants a seal.
    waiting: VecDeque<WaitingFrame>,
    position: Option<FramePosition>,
    pub(in super::super) calls: NativeCalls,
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

    /// Whether the beginning of the first block is kept.
    pub(in super::super) fn has_block(&self) -> bool {
        self.block.is_some()
    }

    /// Keeps the beginning of the first block.
    pub(in super::super) fn keep_block(&mut self, data: &str) {
        self.block = Some(data.to_owned());
    }

    /// Takes the kept beginning of the first block.
    pub(in super::super) fn take_block(&mut self) -> Option<String> {
        self.block.take()
    }

    /// Keeps `message_delta`. An earlier one is written.
    pub(in super::super) fn message_delta(&mut self, data: &str, out: &mut Vec<u8>) {
        if let Some(former) = self.end.replace(data.to_owned()) {
            self.flush(out);
            put_frame(out, "message_delta", &former);
        }
    }

    /// Takes the last `message_delta`.
    pub(in super::super) fn take_end(&mut self) -> Option<String> {
        self.end.take()
    }

    /// Bytes that are kept.
    pub(in super::super) fn held_bytes(&self) -> usize {
        let kept: usize = [&self.start, &self.block, &self.end].into_iter().flatten().map(String::len).sum();
        let waiting = self.waiting.iter().map(|frame| frame.data.len() + size_of::<WaitingFrame>());
        kept + waiting.sum::<usize>() + self.calls.held_bytes()
    }

    /// Takes a frame of a block, or one of an unknown kind.
    pub(in super::super) fn block_frame(&mut self, name: &str, data: &str, out: &mut Vec<u8>) {
        let seal = match name {
            "content_block_start" => self.block_start(data),
            "content_block_delta" if is_signature(data) => match self.waiting.back().map(|last| last.seal) {
                Some(WantedSeal::Signature | WantedSeal::Earlier) => WantedSeal::Earlier,
                _ => WantedSeal::Signature,
            },
            "content_block_stop" => {
                if let Some(position) = &mut self.position {
                    position.is_text = false;
                }
                WantedSeal::None
            }
            _ => WantedSeal::None,
        };
        if seal == WantedSeal::None && self.waiting.is_empty() {
            return put_frame(out, name, data);
        }
        self.waiting.push_back(WaitingFrame { name: name.to_owned(), data: data.to_owned(), seal });
    }

    fn block_start(&mut self, data: &str) -> WantedSeal {
        let [index, block] = View::new(data).pick(["index", "content_block"]);
        let [kind] = block.map_or([None], |block| block.pick(["type"]));
        let kind = kind.and_then(View::string).unwrap_or_default();
        let index = index.and_then(|index| index.text().parse().ok()).unwrap_or(0);
        self.position = Some(FramePosition { index, is_text: kind == "text" });
        if kind == "redacted_thinking" { WantedSeal::Redacted } else { WantedSeal::None }
    }

    /// Takes a sealed signature, for the first frame that wants one.
    pub(in super::super) fn seal(&mut self, seal: &str, out: &mut Vec<u8>) {
        let mut seal = Some(seal);
        while let Some(frame) = self.waiting.front() {
            match frame.seal {
                WantedSeal::None => frame.write(None, out),
                // The sealed string holds the whole signature.
                WantedSeal::Earlier if seal.is_none() => {}
                WantedSeal::Earlier => frame.write(None, out),
                WantedSeal::Signature | WantedSeal::Redacted if seal.is_none() => return,
                WantedSeal::Signature | WantedSeal::Redacted => frame.write(seal.take(), out),
            }
            self.waiting.pop_front();
        }
    }

    /// Writes the frames that wait, with the upstream's own signatures.
    pub(in super::super) fn flush(&mut self, out: &mut Vec<u8>) {
        for frame in self.waiting.drain(..) {
            frame.write(None, out);
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
