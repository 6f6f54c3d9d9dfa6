//! Reassembles frames of `application/vnd.amazon.eventstream` from network chunks of any size.
//!
//! The format is "Amazon Event Stream" in the Smithy specification: total length, length of the headers, CRC of these
//! two, headers, payload, CRC of everything. AWS's own crate parses the complete frame.

use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::Message;
use bytes::BytesMut;

/// The largest frame. AWS refuses larger ones, too.
pub(super) const MAX_FRAME_BYTES: usize = 16 << 20;

/// The smallest frame: two lengths and two checksums.
const MIN_FRAME_BYTES: usize = 16;

/// The initial size of the buffer; a frame with a few words of text fits.
const INITIAL_BUFFER_BYTES: usize = 4 << 10;

/// The buffer's capacity that is kept from one frame to the next.
const MAX_KEPT_BUFFER_BYTES: usize = 64 << 10;

/// The bytes of incomplete frames.
#[derive(Debug, Default)]
pub(super) struct FrameBuffer {
    buffer: BytesMut,
}

impl FrameBuffer {
    /// Appends a chunk.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.buffer.capacity() == 0 {
            self.buffer.reserve(INITIAL_BUFFER_BYTES);
        }
        let (room, needed) = (self.buffer.capacity(), self.buffer.len() + bytes.len());
        if needed > room && needed > MAX_KEPT_BUFFER_BYTES {
            // The capacity doubles, up to the largest frame.
            let mut larger = BytesMut::with_capacity(needed.max(room.saturating_mul(2).min(MAX_FRAME_BYTES)));
            larger.extend_from_slice(&self.buffer);
            self.buffer = larger;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next complete frame.
    ///
    /// # Errors
    /// A description of the damage. The stream cannot continue after it.
    pub(super) fn next(&mut self) -> Result<Option<Message>, &'static str> {
        let Some(length) = self.buffer.first_chunk::<4>().map(|length| u32::from_be_bytes(*length)) else {
            return Ok(None);
        };
        let length = length as usize;
        if length > MAX_FRAME_BYTES {
            return Err("a frame of the stream is larger than 16 MiB, or the body is not an event stream");
        }
        if length < MIN_FRAME_BYTES {
            return Err("a frame of the stream is shorter than its header");
        }
        if self.buffer.len() < length {
            return Ok(None);
        }
        let frame = self.buffer.split_to(length).freeze();
        if self.buffer.len() <= MAX_KEPT_BUFFER_BYTES && self.buffer.capacity() > MAX_KEPT_BUFFER_BYTES {
            // A large frame's capacity is released before the small frames after it.
            self.buffer = BytesMut::from(self.buffer.as_ref());
        }
        read_message_from(frame).map(Some).map_err(|_| "a frame of the stream is damaged")
    }

    /// Returns the capacity of the buffer in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Returns the received bytes of the incomplete frame.
    pub(super) fn pending(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns the bytes that are parsed when this chunk arrives; 0 if the chunk completes no frame.
    pub(super) fn work_bytes(&self, chunk: &[u8]) -> usize {
        let head = self.buffer.iter().chain(chunk).take(4);
        let length = head.fold(0, |length: usize, byte| (length << 8) | usize::from(*byte));
        let bytes = self.buffer.len().saturating_add(chunk.len());
        if bytes >= length.max(MIN_FRAME_BYTES) { bytes } else { 0 }
    }

    /// Whether no bytes of an incomplete frame are held.
    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}
