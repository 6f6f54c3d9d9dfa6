//! The decoder of upstream event streams: bytes in, events out, however the network cut them.
//!
//! It works on bytes up to the end of an event, so a character that is split between two reads is never decoded in
//! halves. What an event's data means is the adapter's business.

use memchr::{memchr, memchr2};

/// The largest event, in bytes, that is held; a longer one is a fault of the upstream. Models send a picture in one event.
pub const EVENT_CAP: usize = 16 << 20;

/// A carry-over buffer above this many bytes is given back after the event that needed it.
const KEPT_CAPACITY: usize = 16 << 10;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// One complete event, borrowed from the network's chunk or from the decoder's carry-over buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The `event` field, empty when there was none.
    pub name: &'a [u8],
    /// The `data` fields, joined by line feeds.
    pub data: &'a [u8],
}

/// An event outgrew what the decoder takes, [`EVENT_CAP`] for an upstream's. The decoder gives nothing more after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the upstream's stream is larger than 16 MiB")]
pub struct TooLarge;

/// Decodes one event stream as WHATWG describes it, with line ends LF, CRLF and CR in any mixture.
///
/// An event that lies whole in a chunk and has one data line is given as a slice of the chunk. Only what an event
/// leaves behind at the end of a chunk is copied.
#[derive(Debug)]
pub struct SseDecoder {
    /// The largest event.
    cap: usize,
    /// Data lines of the unfinished event, joined, then from `line_from` on its unfinished last line.
    held: Vec<u8>,
    line_from: usize,
    /// At least one data line was seen, so that the next blank line is an event.
    has_data: bool,
    name: Vec<u8>,
    /// The last chunk ended with CR: a line feed that comes next belongs to it.
    skip_line_feed: bool,
    /// The first line is behind us, so that a byte order mark is no longer one.
    begun: bool,
    failed: bool,
}

/// What one line says.
enum Line<'a> {
    Blank,
    Data(&'a [u8]),
    Name(&'a [u8]),
    /// A comment, `id`, `retry` or a field nobody knows.
    Ignored,
}

impl Default for SseDecoder {
    /// Of an upstream's stream.
    fn default() -> Self {
        Self::new(EVENT_CAP)
    }
}

impl SseDecoder {
    /// Of a stream with events of at most so many bytes.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self {
            cap,
            held: Vec::new(),
            line_from: 0,
            has_data: false,
            name: Vec::new(),
            skip_line_feed: false,
            begun: false,
            failed: false,
        }
    }

    /// Takes the next bytes; every event that they complete goes to `sink` at once.
    ///
    /// # Errors
    /// When an event is larger than the cap, from then on always.
    pub fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(SseEvent<'_>)) -> Result<(), TooLarge> {
        let result = if self.failed { Err(TooLarge) } else { self.take(chunk, sink) };
        if result.is_err() {
            self.failed = true;
            self.held = Vec::new();
            self.name = Vec::new();
        }
        result
    }

    /// Bytes of memory that are kept for an event that is not complete.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.capacity() + self.name.capacity()
    }

    /// Bytes of an event that is not complete.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.held.len()
    }

    /// The stream ended: an event whose blank line (or even line end) is missing is given as if it were there.
    /// Whether it is complete can be told only by who understands its data.
    pub fn eof(&mut self, sink: &mut dyn FnMut(SseEvent<'_>)) {
        self.skip_line_feed = false;
        // Two line ends finish whatever line and event are open; they cannot make one too large.
        let _ = self.feed(b"\n\n", sink);
    }

    fn take(&mut self, chunk: &[u8], sink: &mut dyn FnMut(SseEvent<'_>)) -> Result<(), TooLarge> {
        let mut rest = chunk;
        if self.skip_line_feed && !rest.is_empty() {
            self.skip_line_feed = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        // The only data line of the current event so far, when it lies in this chunk.
        let mut lone: Option<&[u8]> = None;
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let (line, from_end) = rest.split_at(end);
            rest = self.after_line_end(from_end);
            self.check_room(lone, line.len())?;
            self.line(line, &mut lone, sink);
        }
        self.check_room(lone, rest.len())?;
        if let Some(data) = lone {
            self.hold(data);
            self.line_from = self.held.len();
        }
        self.hold(rest);
        Ok(())
    }

    /// What follows the line end at the front of `from_end`.
    fn after_line_end<'c>(&mut self, from_end: &'c [u8]) -> &'c [u8] {
        match from_end {
            [b'\r', b'\n', after @ ..] | [b'\n', after @ ..] => after,
            [b'\r'] => {
                self.skip_line_feed = true;
                &[]
            }
            [_, after @ ..] => after,
            [] => &[],
        }
    }

    /// The bound is on what the event has so far plus the whole line, so that it does not depend on the cuts.
    fn check_room(&self, lone: Option<&[u8]>, line: usize) -> Result<(), TooLarge> {
        let size = self.held.len() + self.name.len() + lone.map_or(0, <[u8]>::len) + line;
        if size > self.cap { Err(TooLarge) } else { Ok(()) }
    }

    fn line<'c>(&mut self, line: &'c [u8], lone: &mut Option<&'c [u8]>, sink: &mut dyn FnMut(SseEvent<'_>)) {
        if self.held.len() > self.line_from {
            self.hold(line);
            self.held_line();
            return;
        }
        match parse(self.without_bom(line)) {
            Line::Blank => self.dispatch(lone.take(), sink),
            Line::Data(value) if !self.has_data => {
                self.has_data = true;
                *lone = Some(value);
            }
            Line::Data(value) => {
                if let Some(first) = lone.take() {
                    self.hold(first);
                }
                self.hold(b"\n");
                self.hold(value);
                self.line_from = self.held.len();
            }
            Line::Name(value) => value.clone_into(&mut self.name),
            Line::Ignored => {}
        }
    }

    /// The line that began in an earlier chunk is complete, at the end of `held`: its value moves to the data in
    /// place. It is never blank, because a blank line leaves nothing behind.
    fn held_line(&mut self) {
        let begun = std::mem::replace(&mut self.begun, true);
        let whole = self.held.get(self.line_from..).unwrap_or_default();
        let line = if begun { whole } else { whole.strip_prefix(BOM).unwrap_or(whole) };
        match parse(line) {
            Line::Data(value) => {
                let value_from = self.held.len() - value.len();
                let joint: &[u8] = if self.has_data { b"\n" } else { b"" };
                self.held.splice(self.line_from..value_from, joint.iter().copied());
                self.has_data = true;
                self.line_from = self.held.len();
            }
            Line::Name(value) => {
                value.clone_into(&mut self.name);
                self.drop_line();
            }
            Line::Ignored | Line::Blank => self.drop_line(),
        }
    }

    /// The held line is no data. The room of a large one is given back.
    fn drop_line(&mut self) {
        self.held.truncate(self.line_from);
        // To shrink is to copy what is left, which is less than what is given back.
        if self.held.capacity() > self.held.len().saturating_mul(2).max(KEPT_CAPACITY) {
            self.held.shrink_to(KEPT_CAPACITY);
        }
    }

    fn dispatch(&mut self, lone: Option<&[u8]>, sink: &mut dyn FnMut(SseEvent<'_>)) {
        if std::mem::take(&mut self.has_data) {
            sink(SseEvent { name: &self.name, data: lone.unwrap_or(&self.held) });
        }
        self.name.clear();
        self.held.clear();
        self.line_from = 0;
        for buffer in [&mut self.held, &mut self.name] {
            if buffer.capacity() > KEPT_CAPACITY {
                *buffer = Vec::new();
            }
        }
    }

    fn without_bom<'c>(&mut self, line: &'c [u8]) -> &'c [u8] {
        if std::mem::replace(&mut self.begun, true) { line } else { line.strip_prefix(BOM).unwrap_or(line) }
    }

    /// Appends to the carry-over buffer, within the cap that [`Self::check_room`] keeps.
    fn hold(&mut self, bytes: &[u8]) {
        hold(&mut self.held, bytes, self.cap);
    }
}

/// Appends to a carry-over buffer. It doubles, so that the work is linear, but never beyond the cap unless the bytes need it.
pub fn hold(held: &mut Vec<u8>, bytes: &[u8], cap: usize) {
    let needed = held.len() + bytes.len();
    if needed > held.capacity() {
        let room = needed.max(held.capacity().saturating_mul(2).min(cap));
        held.reserve_exact(room - held.len());
    }
    held.extend_from_slice(bytes);
}

fn parse(line: &[u8]) -> Line<'_> {
    let (field, value) = match memchr(b':', line) {
        _ if line.is_empty() => return Line::Blank,
        Some(colon) => {
            let (field, from_colon) = line.split_at(colon);
            let value = from_colon.get(1..).unwrap_or_default();
            (field, value.strip_prefix(b" ").unwrap_or(value))
        }
        None => (line, &b""[..]),
    };
    match field {
        b"data" => Line::Data(value),
        b"event" => Line::Name(value),
        _ => Line::Ignored,
    }
}

#[cfg(test)]
mod tests;
