//! Cuts a stream without `alt=sse` into its objects. The stream is one JSON array, `[{…},\r\n{…}]`, and arrives in
//! chunks of any size.

use gw_wire::sse::{MAX_EVENT_BYTES, hold};

/// The capacity that the buffer keeps after an object was completed.
const MAX_KEPT_BUFFER_BYTES: usize = 16 << 10;

/// Finds the objects of an array, or a single object.
#[derive(Debug, Default)]
pub(super) struct ObjectSplitter {
    /// The received bytes of an incomplete object.
    held: Vec<u8>,
    depth: usize,
    is_string: bool,
    is_escaped: bool,
}

/// An object is larger than [`MAX_EVENT_BYTES`].
#[derive(Debug)]
pub(super) struct ObjectTooLarge;

impl ObjectSplitter {
    /// Returns the capacity that is held for an incomplete object, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Returns the received bytes of an incomplete object.
    pub(super) fn pending_bytes(&self) -> usize {
        self.held.len()
    }

    /// Takes a chunk and passes every object that it completes to `sink`.
    pub(super) fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<(), ObjectTooLarge> {
        let mut rest = chunk;
        while !rest.is_empty() {
            if self.depth == 0 {
                // Only white space, commas and the array's brackets lie between objects.
                let Some(start) = memchr::memchr(b'{', rest) else { return Ok(()) };
                rest = rest.get(start..).unwrap_or_default();
            }
            let Some(end) = self.end(rest) else {
                if self.held.len() + rest.len() > MAX_EVENT_BYTES {
                    return Err(ObjectTooLarge);
                }
                hold(&mut self.held, rest, MAX_EVENT_BYTES);
                return Ok(());
            };
            let (object, after) = rest.split_at(end);
            if self.held.len() + object.len() > MAX_EVENT_BYTES {
                return Err(ObjectTooLarge);
            }
            if self.held.is_empty() {
                sink(object);
            } else {
                hold(&mut self.held, object, MAX_EVENT_BYTES);
                sink(&self.held);
                self.held.clear();
                if self.held.capacity() > MAX_KEPT_BUFFER_BYTES {
                    self.held = Vec::new();
                }
            }
            rest = after;
        }
        Ok(())
    }

    /// Whether the bytes so far end inside an object.
    pub(super) fn is_inside(&self) -> bool {
        self.depth > 0
    }

    /// Returns the position behind the brace that ends the object.
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
