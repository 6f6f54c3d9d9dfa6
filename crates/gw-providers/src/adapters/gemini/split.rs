//! Without `alt=sse` a stream is one JSON list, `[{…},\r\n{…}]`, sent piece by piece. This cuts it into its objects,
//! however the network cut the bytes.

use gw_wire::sse::{MAX_EVENT_BYTES, hold};

/// A carry-over buffer above this many bytes is given back after the object that needed it.
const KEPT_CAPACITY: usize = 16 << 10;

/// Finds the objects of a list, or a lone one.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    /// What came of an unfinished object.
    held: Vec<u8>,
    depth: usize,
    is_string: bool,
    is_escaped: bool,
}

/// An object outgrew [`MAX_EVENT_BYTES`].
#[derive(Debug)]
pub(super) struct TooLarge;

impl Splitter {
    /// Bytes that are kept of an object that is not complete.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Bytes of an object that is not complete.
    pub(super) fn pending_bytes(&self) -> usize {
        self.held.len()
    }

    /// Takes the next bytes; every object that they complete goes to `sink`.
    pub(super) fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<(), TooLarge> {
        let mut rest = chunk;
        while !rest.is_empty() {
            if self.depth == 0 {
                // Between objects there are only blanks, commas and the list's brackets.
                let Some(start) = memchr::memchr(b'{', rest) else { return Ok(()) };
                rest = rest.get(start..).unwrap_or_default();
            }
            let Some(end) = self.end(rest) else {
                if self.held.len() + rest.len() > MAX_EVENT_BYTES {
                    return Err(TooLarge);
                }
                hold(&mut self.held, rest, MAX_EVENT_BYTES);
                return Ok(());
            };
            let (object, after) = rest.split_at(end);
            if self.held.len() + object.len() > MAX_EVENT_BYTES {
                return Err(TooLarge);
            }
            if self.held.is_empty() {
                sink(object);
            } else {
                hold(&mut self.held, object, MAX_EVENT_BYTES);
                sink(&self.held);
                self.held.clear();
                if self.held.capacity() > KEPT_CAPACITY {
                    self.held = Vec::new();
                }
            }
            rest = after;
        }
        Ok(())
    }

    /// Whether the bytes ended inside an object.
    pub(super) fn is_inside(&self) -> bool {
        self.depth > 0
    }

    /// Behind the brace that ends the object.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.is_string {
                self.is_string = *byte != b'"' || self.is_escaped;
                self.is_escaped = *byte == b'\\' && !self.is_escaped;
                continue;
            }
            match byte {
                b'"' => self.is_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}
