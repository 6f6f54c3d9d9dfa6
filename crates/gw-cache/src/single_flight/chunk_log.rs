//! The chunks that a flight keeps, and the number of readers before each. The counts make it cheap to find chunks that
//! no reader needs any more, even with a thousand readers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// The bytes of one log, counted in the total of all flights until this is dropped.
#[derive(Debug)]
struct CountedBytes {
    bytes: usize,
    total: Arc<AtomicUsize>,
}

impl CountedBytes {
    fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[derive(Debug)]
struct Chunk {
    bytes: Bytes,
    /// The number of readers that read this chunk next.
    readers: usize,
}

/// Chunks with consecutive numbers, counted from 0.
#[derive(Debug)]
pub(super) struct ChunkLog {
    chunks: VecDeque<Chunk>,
    /// The number of the first chunk that is kept.
    first: u64,
    /// The number of readers that have read everything.
    readers_at_end: usize,
    kept: CountedBytes,
    appended_bytes: u64,
}

impl ChunkLog {
    /// An empty log. `total` counts the bytes of all logs.
    pub(super) fn new(total: Arc<AtomicUsize>) -> Self {
        Self {
            chunks: VecDeque::new(),
            first: 0,
            readers_at_end: 0,
            kept: CountedBytes { bytes: 0, total },
            appended_bytes: 0,
        }
    }

    /// The number of the first chunk that is kept.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The bytes that are kept.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept.bytes
    }

    /// The bytes after the first chunk. A reader before the first chunk is that far behind.
    pub(super) fn bytes_after_first(&self) -> usize {
        self.kept.bytes - self.chunks.front().map_or(0, |chunk| chunk.bytes.len())
    }

    /// The bytes that all logs keep.
    pub(super) fn total_kept_bytes(&self) -> usize {
        self.kept.total.load(Ordering::Relaxed)
    }

    /// The bytes that were ever appended.
    pub(super) fn appended_bytes(&self) -> u64 {
        self.appended_bytes
    }

    pub(super) fn append(&mut self, bytes: Bytes) {
        self.kept.grow(bytes.len());
        self.appended_bytes += bytes.len() as u64;
        self.chunks.push_back(Chunk { bytes, readers: std::mem::take(&mut self.readers_at_end) });
    }

    /// Reads a chunk. The reader goes on to the next one.
    pub(super) fn read(&mut self, number: u64) -> Option<Bytes> {
        let index = self.index(number);
        let chunk = self.chunks.get_mut(index)?;
        chunk.readers = chunk.readers.saturating_sub(1);
        let bytes = chunk.bytes.clone();
        *self.readers_before(number + 1) += 1;
        Some(bytes)
    }

    /// Adds a reader that reads this chunk next.
    pub(super) fn add_reader(&mut self, number: u64) {
        *self.readers_before(number) += 1;
    }

    /// Removes a reader that would have read this chunk next.
    pub(super) fn remove_reader(&mut self, number: u64) {
        let readers = self.readers_before(number);
        *readers = readers.saturating_sub(1);
    }

    /// Drops the chunks that all readers have read.
    pub(super) fn drop_read_chunks(&mut self) {
        while let Some(chunk) = self.chunks.pop_front_if(|chunk| chunk.readers == 0) {
            self.kept.shrink(chunk.bytes.len());
            self.first += 1;
        }
    }

    fn index(&self, number: u64) -> usize {
        number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok()).unwrap_or(usize::MAX)
    }

    fn readers_before(&mut self, number: u64) -> &mut usize {
        let index = self.index(number);
        self.chunks.get_mut(index).map_or(&mut self.readers_at_end, |chunk| &mut chunk.readers)
    }
}
