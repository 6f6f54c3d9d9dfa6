//! Divides an answer into its documents: one document, the data of server-sent events, or the payloads of Amazon's frames.

/// The bytes before the headers of a frame: two lengths and a checksum.
const PRELUDE_BYTES: usize = 12;
/// The checksum at the end of a frame.
const CHECKSUM_BYTES: usize = 4;
/// The name of the field with the data of an event.
const DATA: &[u8] = b"data:";

/// A part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'p> {
    /// The next bytes of a document.
    Data(&'p [u8]),
    /// The document is over.
    End,
}

/// How documents stand in an answer.
#[derive(Debug)]
pub(super) enum AnswerFraming {
    /// The answer is one document.
    Document,
    /// Server-sent events.
    Events(Line),
    /// `application/vnd.amazon.eventstream`.
    Frames(Frame),
}

/// The line of an event stream that is being read.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The bytes of the line so far, at most as many as the name of a field has.
    read: usize,
    /// The line does not begin with `data:`.
    is_other: bool,
}

/// The frame that is being read.
#[derive(Debug, Default)]
pub(super) struct Frame {
    prelude: Vec<u8>,
    /// The bytes to the end of the headers, of the payload and of the checksum.
    headers: usize,
    payload: usize,
    checksum: usize,
    /// The lengths cannot be true, so nothing more is read.
    is_damaged: bool,
}

impl AnswerFraming {
    /// The framing of an answer of this media type, in lower case.
    pub(super) fn of(media_type: &[u8]) -> Self {
        if media_type.starts_with(b"text/event-stream") {
            Self::Events(Line::default())
        } else if media_type.starts_with(b"application/vnd.amazon.eventstream") {
            Self::Frames(Frame::default())
        } else {
            Self::Document
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        !matches!(self, Self::Document)
    }

    /// Divides the next bytes.
    pub(super) fn feed(&mut self, piece: &[u8], sink: &mut dyn FnMut(Piece<'_>)) {
        match self {
            Self::Document => sink(Piece::Data(piece)),
            Self::Events(line) => line.feed(piece, sink),
            Self::Frames(frame) => frame.feed(piece, sink),
        }
    }
}

impl Line {
    fn feed(&mut self, mut piece: &[u8], sink: &mut dyn FnMut(Piece<'_>)) {
        while let Some((&byte, rest)) = piece.split_first() {
            if matches!(byte, b'\n' | b'\r') {
                // A blank line ends the event. The second byte of CRLF makes one more blank line, which ends nothing.
                if self.read == 0 {
                    sink(Piece::End);
                }
                *self = Self::default();
                piece = rest;
            } else if self.is_other || self.read == DATA.len() {
                let end = memchr::memchr2(b'\n', b'\r', piece).unwrap_or(piece.len());
                let (line, rest) = piece.split_at(end);
                if !self.is_other {
                    sink(Piece::Data(line));
                }
                piece = rest;
            } else {
                self.is_other = DATA.get(self.read) != Some(&byte);
                self.read += 1;
                piece = rest;
            }
        }
    }
}

impl Frame {
    fn feed(&mut self, mut piece: &[u8], sink: &mut dyn FnMut(Piece<'_>)) {
        while !piece.is_empty() && !self.is_damaged {
            if self.prelude.len() < PRELUDE_BYTES {
                let (taken, rest) = piece.split_at(piece.len().min(PRELUDE_BYTES - self.prelude.len()));
                self.prelude.extend_from_slice(taken);
                piece = rest;
                if self.prelude.len() == PRELUDE_BYTES {
                    self.read_prelude();
                }
                continue;
            }
            let (taken, rest) = if self.headers > 0 {
                let taken = piece.split_at(piece.len().min(self.headers));
                self.headers -= taken.0.len();
                taken
            } else if self.payload > 0 {
                let taken = piece.split_at(piece.len().min(self.payload));
                self.payload -= taken.0.len();
                sink(Piece::Data(taken.0));
                taken
            } else {
                let taken = piece.split_at(piece.len().min(self.checksum));
                self.checksum -= taken.0.len();
                taken
            };
            // A prelude is followed by a checksum at least.
            debug_assert!(!taken.is_empty(), "every step reads something");
            piece = rest;
            if self.headers + self.payload + self.checksum == 0 {
                sink(Piece::End);
                self.prelude.clear();
            }
        }
    }

    fn read_prelude(&mut self) {
        let number = |from: usize| {
            let bytes = self.prelude.get(from..).and_then(<[u8]>::first_chunk::<4>).copied();
            u32::from_be_bytes(bytes.unwrap_or_default()) as usize
        };
        let (total, headers) = (number(0), number(4));
        match total.checked_sub(PRELUDE_BYTES + CHECKSUM_BYTES + headers) {
            Some(payload) => (self.headers, self.payload, self.checksum) = (headers, payload, CHECKSUM_BYTES),
            None => self.is_damaged = true,
        }
    }
}
