//! Decodes the event streams of upstreams, however the network splits them.
//!
//! It works on bytes up to the end of an event, so a character that is split between two reads is decoded only when it is
//! complete. Adapters interpret the data of the events.

use memchr::memchr;

use crate::json::line_prefix;

/// Maximum bytes of an upstream's event. It is this large because models send an image in one event.
pub const MAX_EVENT_BYTES: usize = 16 << 20;

/// A carry-over buffer larger than this many bytes is freed after the event that needed it.
const KEPT_CAPACITY_BYTES: usize = 16 << 10;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// One complete event, borrowed from the received chunk or from the decoder's carry-over buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The `event` field, empty when there was none.
    pub name: &'a [u8],
    /// The `data` fields, joined by line feeds.
    pub data: &'a [u8],
}

/// An event exceeds [`MAX_EVENT_BYTES`]. The decoder returns no event after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the upstream's stream is larger than 16 MiB")]
pub struct TooLarge;

/// Decodes one event stream as WHATWG specifies it, with any mixture of the line ends LF, CRLF and CR.
///
/// An event that lies in one chunk and has one data line is returned as a slice of the chunk. Only an incomplete event at
/// the end of a chunk is copied.
#[derive(Debug, Default)]
pub struct SseDecoder {
    /// The data lines of the incomplete event, joined, and from `line_from` on its incomplete last line.
    held: Vec<u8>,
    line_from: usize,
    /// Whether the event has a data line, so that the next blank line completes it.
    has_data: bool,
    name: Vec<u8>,
    /// The last chunk ended with CR, so a line feed that comes next belongs to it.
    skip_line_feed: bool,
    /// The first line has been read: a byte order mark is only removed before it.
    has_begun: bool,
    has_failed: bool,
}

/// The content of one line.
enum Line<'a> {
    Blank,
    Data(&'a [u8]),
    Name(&'a [u8]),
    /// A comment, `id`, `retry` or an unknown field.
    Ignored,
}

impl SseDecoder {
    /// Decodes the next bytes and passes every event that they complete to `sink`.
    ///
    /// # Errors
    /// When an event exceeds the limit, and on every later call.
    pub fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(SseEvent<'_>)) -> Result<(), TooLarge> {
        let result = if self.has_failed { Err(TooLarge) } else { self.decode(chunk, sink) };
        if result.is_err() {
            self.has_failed = true;
            self.held = Vec::new();
            self.name = Vec::new();
        }
        result
    }

    /// The bytes of memory held for an incomplete event.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.capacity() + self.name.capacity()
    }

    /// Bytes of an event that is not complete.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.held.len()
    }

    /// Ends the stream: an event without its final blank line (or even line end) is returned as if it had them. The
    /// adapter decides by the data whether the event is complete.
    pub fn eof(&mut self, sink: &mut dyn FnMut(SseEvent<'_>)) {
        self.skip_line_feed = false;
        // Two line ends complete any open line and event, and they cannot exceed the limit.
        let _ = self.feed(b"\n\n", sink);
    }

    fn decode(&mut self, chunk: &[u8], sink: &mut dyn FnMut(SseEvent<'_>)) -> Result<(), TooLarge> {
        let mut rest = chunk;
        if self.skip_line_feed && !rest.is_empty() {
            self.skip_line_feed = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        // The only data line of the current event so far, if it lies in this chunk.
        let mut lone: Option<&[u8]> = None;
        while let Some((line, from_end)) = rest.split_at_checked(line_prefix(rest))
            && !from_end.is_empty()
        {
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

    /// Skips the line end at the start of `from_end`.
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

    /// The limit applies to the event so far plus the whole line, so it does not depend on how the stream is split.
    fn check_room(&self, lone: Option<&[u8]>, line: usize) -> Result<(), TooLarge> {
        let size = self.held.len() + self.name.len() + lone.map_or(0, <[u8]>::len) + line;
        if size > MAX_EVENT_BYTES { Err(TooLarge) } else { Ok(()) }
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

    /// Completes a line that began in an earlier chunk and lies at the end of `held`: moves its value to the data in
    /// place. The line is never blank, because a blank line leaves nothing in `held`.
    fn held_line(&mut self) {
        let begun = std::mem::replace(&mut self.has_begun, true);
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
        if self.held.capacity() > self.held.len().saturating_mul(2).max(KEPT_CAPACITY_BYTES) {
            self.held.shrink_to(KEPT_CAPACITY_BYTES);
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
            if buffer.capacity() > KEPT_CAPACITY_BYTES {
                *buffer = Vec::new();
            }
        }
    }

    fn without_bom<'c>(&mut self, line: &'c [u8]) -> &'c [u8] {
        if std::mem::replace(&mut self.has_begun, true) {
            line
        } else {
            line.strip_prefix(BOM).unwrap_or(line)
        }
    }

    /// Appends to the carry-over buffer, within the limit that [`Self::check_room`] enforces.
    fn hold(&mut self, bytes: &[u8]) {
        hold(&mut self.held, bytes, MAX_EVENT_BYTES);
    }
}

/// Appends to a carry-over buffer. Its capacity doubles, so that appending takes linear time, but exceeds `max_bytes` only if
/// the bytes need it.
pub fn hold(held: &mut Vec<u8>, bytes: &[u8], max_bytes: usize) {
    let needed = held.len() + bytes.len();
    if needed > held.capacity() {
        let room = needed.max(held.capacity().saturating_mul(2).min(max_bytes));
        held.reserve_exact(room - held.len());
    }
    held.extend_from_slice(bytes);
}

fn parse(line: &[u8]) -> Line<'_> {
    // Nearly all lines that are not blank hold data.
    if let Some(value) = line.strip_prefix(b"data:") {
        return Line::Data(value.strip_prefix(b" ").unwrap_or(value));
    }
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
