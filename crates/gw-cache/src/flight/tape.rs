//! The pieces that a flight keeps, how many readers stand before each, and the bytes of them, counted among those of all
//! flights. What nobody stands before is found without a look at every reader: a thousand of them may read at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// Bytes that one tape holds, as part of what all hold together. Given back when dropped.
#[derive(Debug)]
struct Held {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Held {
    fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.all.fetch_add(bytes, Ordering::Relaxed);
    }

    fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    /// Readers that read it next.
    readers: usize,
}

#[derive(Debug)]
pub(super) struct Tape {
    pieces: VecDeque<Piece>,
    /// The number of the first piece that is kept.
    first: u64,
    /// Readers that have read all there is.
    at_end: usize,
    held: Held,
    /// Bytes that there ever were.
    total: u64,
}

impl Tape {
    /// An empty one; `all` is what all of them hold.
    pub(super) fn new(all: Arc<AtomicUsize>) -> Self {
        Self { pieces: VecDeque::new(), first: 0, at_end: 0, held: Held { bytes: 0, all }, total: 0 }
    }

    /// The number of the first piece that is kept.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Bytes that are kept.
    pub(super) fn kept(&self) -> usize {
        self.held.bytes
    }

    /// Bytes that are kept behind the first piece: who stands before that is so far behind.
    pub(super) fn behind_first(&self) -> usize {
        self.held.bytes - self.pieces.front().map_or(0, |piece| piece.bytes.len())
    }

    /// Bytes that are kept by all tapes.
    pub(super) fn kept_by_all(&self) -> usize {
        self.held.all.load(Ordering::Relaxed)
    }

    /// Bytes that there ever were.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn append(&mut self, bytes: Bytes) {
        self.held.grow(bytes.len());
        self.total += bytes.len() as u64;
        self.pieces.push_back(Piece { bytes, readers: std::mem::take(&mut self.at_end) });
    }

    /// The piece of this number, for one reader that goes on to the next.
    pub(super) fn read(&mut self, number: u64) -> Option<Bytes> {
        let at = self.place(number);
        let piece = self.pieces.get_mut(at)?;
        piece.readers = piece.readers.saturating_sub(1);
        let bytes = piece.bytes.clone();
        *self.before(number + 1) += 1;
        Some(bytes)
    }

    /// Another reader, that reads this piece next.
    pub(super) fn enter(&mut self, number: u64) {
        *self.before(number) += 1;
    }

    /// One that would have read this piece next does not any more.
    pub(super) fn leave(&mut self, number: u64) {
        let readers = self.before(number);
        *readers = readers.saturating_sub(1);
    }

    /// Forgets what everybody has read.
    pub(super) fn forget(&mut self) {
        while let Some(piece) = self.pieces.pop_front_if(|piece| piece.readers == 0) {
            self.held.shrink(piece.bytes.len());
            self.first += 1;
        }
    }

    fn place(&self, number: u64) -> usize {
        number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX)
    }

    fn before(&mut self, number: u64) -> &mut usize {
        let at = self.place(number);
        self.pieces.get_mut(at).map_or(&mut self.at_end, |piece| &mut piece.readers)
    }
}
