//! The memory bound of a stream's decoder.
//!
//! Besides the current event, a decoder keeps reasoning until its signature arrives, images that arrive in pieces,
//! sources that are reported at the end, and the ids of tool calls. A faulty upstream could send these without end.

use gw_wire::event::Event;

use super::failure::invalid;
use crate::adapter::StreamDecoder;

/// The most bytes that the decoder of one stream keeps: an event (at most 16 MiB) and an image of the same size.
pub(super) const MAX_HELD_BYTES: usize = 32 << 20;

/// The most bytes that are decoded between two checks of the bound. Chunks from the network are smaller.
const MAX_PIECE_BYTES: usize = 1 << 20;

/// A decoder that ends its stream with an error when it keeps more than [`MAX_HELD_BYTES`].
pub(super) struct Bounded<D> {
    /// None after the bound was exceeded.
    inner: Option<D>,
}

impl<D: StreamDecoder> Bounded<D> {
    pub(super) fn new(inner: D) -> Self {
        Self { inner: Some(inner) }
    }
}

impl<D: StreamDecoder> StreamDecoder for Bounded<D> {
    fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
        for piece in chunk.chunks(MAX_PIECE_BYTES) {
            let Some(inner) = &mut self.inner else { return };
            inner.feed(piece, sink);
            if inner.held_bytes() > MAX_HELD_BYTES {
                self.inner = None;
                sink(Event::Error(invalid("the gateway would have to keep more than 32 MiB of the stream")));
            }
        }
    }

    fn eof(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        if let Some(inner) = &mut self.inner {
            inner.eof(sink);
        }
    }

    fn held_bytes(&self) -> usize {
        self.inner.as_ref().map_or(0, StreamDecoder::held_bytes)
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.work_bytes(chunk))
    }
}
