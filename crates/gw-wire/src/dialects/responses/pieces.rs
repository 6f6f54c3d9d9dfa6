//! Long answers about a stored response, made of slices of its one shared text. They come in pieces of a bounded size, so a
//! slow reader holds one piece and no copy.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use memchr::{memchr2, memmem};

use super::json_text::put_one_line;

/// The largest piece.
pub const MAX_PIECE_BYTES: usize = 64 << 10;
/// Slices up to this size are copied into the piece around them.
const MAX_COPIED_BYTES: usize = 4 << 10;
/// A piece of this size waits for nothing more.
const FULL_BYTES: usize = 16 << 10;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PieceSource {
    Own(Vec<u8>),
    /// A range of the shared text.
    Shared(Range<usize>),
}

/// The parts of an answer that are not sent yet.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    segments: VecDeque<PieceSource>,
}

impl Pieces {
    /// Whether a slice of the shared text is next, which needs no more work.
    pub(super) fn has_slice(&self) -> bool {
        matches!(self.segments.front(), Some(PieceSource::Shared(_)))
    }

    /// Appends text of the gateway's own.
    pub(super) fn put(&mut self, text: &str) {
        match self.segments.back_mut() {
            Some(PieceSource::Own(last)) if last.len() < MAX_PIECE_BYTES => {
                last.extend_from_slice(text.as_bytes())
            }
            _ => self.segments.push_back(PieceSource::Own(text.as_bytes().to_vec())),
        }
    }

    /// Appends a range of the shared text.
    pub(super) fn share(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.segments.push_back(PieceSource::Shared(range));
        }
    }

    /// Moves parts into `piece` until it is full, or a large slice follows. Returns true if it is full.
    pub(super) fn fill(&mut self, document: &Bytes, piece: &mut Vec<u8>) -> bool {
        while piece.len() < FULL_BYTES {
            match self.segments.pop_front() {
                None => return false,
                Some(PieceSource::Own(text)) => piece.extend_from_slice(&text),
                Some(PieceSource::Shared(range)) if range.len() <= MAX_COPIED_BYTES => {
                    put_clean(document.get(range).unwrap_or_default(), piece);
                }
                Some(slice) => {
                    self.segments.push_front(slice);
                    return true;
                }
            }
        }
        true
    }

    /// The next piece of all that waits.
    pub(super) fn next(&mut self, document: &Bytes) -> Option<Bytes> {
        let mut piece = Vec::new();
        self.fill(document, &mut piece);
        if piece.is_empty() { self.slice(document) } else { Some(piece.into()) }
    }

    /// The next piece of a large slice; None if none is next.
    pub(super) fn slice(&mut self, document: &Bytes) -> Option<Bytes> {
        let Some(PieceSource::Shared(range)) = self.segments.front_mut() else { return None };
        let end = piece_end(document, range);
        let piece = range.start..end;
        range.start = end;
        if range.start >= range.end {
            self.segments.pop_front();
        }
        let bytes = document.get(piece.clone())?;
        if is_clean(bytes) {
            return Some(document.slice(piece));
        }
        let mut out = Vec::with_capacity(bytes.len() + 64);
        put_clean(bytes, &mut out);
        Some(out.into())
    }
}

/// The end of the next piece of a range. No character is cut.
fn piece_end(document: &[u8], range: &Range<usize>) -> usize {
    let whole = range.end.min(document.len()).max(range.start);
    let most = range.start.saturating_add(MAX_PIECE_BYTES);
    if whole <= most {
        return whole;
    }
    let is_inside = |at: &usize| document.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (range.start + 1..=most).rev().find(|at| !is_inside(at)).unwrap_or(most)
}

/// Whether a text is one line for every reader.
fn is_clean(text: &[u8]) -> bool {
    memchr2(b'\n', b'\r', text).is_none()
        && (text.is_ascii()
            || [&b"\xC2\x85"[..], b"\xE2\x80\xA8", b"\xE2\x80\xA9"]
                .iter()
                .all(|separator| memmem::find(text, separator).is_none()))
}

fn put_clean(text: &[u8], out: &mut Vec<u8>) {
    if is_clean(text) {
        out.extend_from_slice(text);
    } else {
        put_one_line(out, std::str::from_utf8(text).unwrap_or_default());
    }
}

/// The elements of an array inside a text, by their ranges. The text was checked.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrayCursor {
    at: usize,
    end: usize,
}

impl ArrayCursor {
    /// The elements of the array at this range; none if the value is no array.
    pub(super) fn new(document: &[u8], range: &Range<usize>) -> Self {
        match document.get(range.start) {
            Some(b'[') => Self { at: range.start + 1, end: range.end.saturating_sub(1) },
            _ => Self::default(),
        }
    }

    /// The range of the next element.
    pub(super) fn next(&mut self, document: &[u8]) -> Option<Range<usize>> {
        while self.at < self.end && matches!(document.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t' | b','))
        {
            self.at += 1;
        }
        if self.at >= self.end {
            return None;
        }
        let start = self.at;
        self.at = crate::json::value_end(document, start).max(start + 1);
        Some(start..self.at.min(self.end))
    }
}
