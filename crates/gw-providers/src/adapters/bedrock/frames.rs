//! Frames of `application/vnd.amazon.eventstream`, put together from however the network cut them.
//!
//! The format is that of "Amazon Event Stream" in the Smithy specification: total length, length of the headers, CRC of
//! these two, headers, payload, CRC of everything. The frame itself is read by AWS's own crate.

use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::Message;
use bytes::BytesMut;

/// The largest frame that is put together; AWS itself refuses larger ones.
pub(super) const LARGEST: usize = 16 << 20;

/// Two lengths and two checksums.
const SMALLEST: usize = 16;

/// Kept at once at the begin; a frame of a few words of text fits.
const BEGIN: usize = 4 << 10;

/// Room that is kept between two frames.
const KEPT: usize = 64 << 10;

/// The bytes of a frame that is not complete.
#[derive(Debug, Default)]
pub(super) struct Frames {
    buffer: BytesMut,
}

impl Frames {
    /// Adds what came.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.buffer.capacity() == 0 {
            self.buffer.reserve(BEGIN);
        }
        let (room, needed) = (self.buffer.capacity(), self.buffer.len() + bytes.len());
        if needed > room && needed > KEPT {
            // It doubles like any buffer, but not beyond the largest frame.
            let mut larger = BytesMut::with_capacity(needed.max(room.saturating_mul(2).min(LARGEST)));
            larger.extend_from_slice(&self.buffer);
            self.buffer = larger;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete frame.
    ///
    /// # Errors
    /// What is wrong with it; there is no way to go on after that.
    pub(super) fn next(&mut self) -> Result<Option<Message>, &'static str> {
        let Some(length) = self.buffer.first_chunk::<4>().map(|length| u32::from_be_bytes(*length)) else {
            return Ok(None);
        };
        let length = length as usize;
        if length > LARGEST {
            return Err("a frame of the stream is larger than 16 MiB, or there are none");
        }
        if length < SMALLEST {
            return Err("a frame of the stream is shorter than its own head");
        }
        if self.buffer.len() < length {
            return Ok(None);
        }
        let frame = self.buffer.split_to(length).freeze();
        if self.buffer.len() <= KEPT && self.buffer.capacity() > KEPT {
            // The room of a large frame is not kept for the small ones behind it.
            self.buffer = BytesMut::from(self.buffer.as_ref());
        }
        read_message_from(frame).map(Some).map_err(|_| "a frame of the stream is damaged")
    }

    /// Bytes that are kept of a frame that is not complete.
    pub(super) fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// The frame that is under way, as far as it came.
    pub(super) fn pending(&self) -> &[u8] {
        &self.buffer
    }

    /// Bytes that are read when this chunk comes; 0 when it does not complete the frame under way.
    pub(super) fn work_bytes(&self, chunk: &[u8]) -> usize {
        let head = self.buffer.iter().chain(chunk).take(4);
        let length = head.fold(0, |length: usize, byte| (length << 8) | usize::from(*byte));
        let bytes = self.buffer.len().saturating_add(chunk.len());
        if bytes >= length.max(SMALLEST) { bytes } else { 0 }
    }

    /// Whether the begin of a frame waits for its end.
    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}
