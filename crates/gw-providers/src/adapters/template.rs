//! A shortcut for common events: most chunks of a stream differ from the previous chunk in their text only.
//!
//! The template remembers the bytes before and after the text of a parsed chunk. A chunk with the same bytes around a
//! string without escapes has the same meaning with the new text, so it need not be parsed.

use std::ops::Range;

/// Longer surroundings are not compared.
const MAX_BYTES: usize = 4 << 10;
/// After this many mismatches in a row the template is no longer learned. Some upstreams pad every chunk with random
/// text.
const PATIENCE: u8 = 16;

/// The position of `piece`, a slice of `event`, in it.
pub(super) fn place_of(event: &[u8], piece: &str) -> Range<usize> {
    let start = (piece.as_ptr() as usize).wrapping_sub(event.as_ptr() as usize);
    start..start.saturating_add(piece.len())
}

/// The bytes around the text of the last chunk that held nothing but text.
#[derive(Debug, Default)]
pub(super) struct Template {
    before: Vec<u8>,
    after: Vec<u8>,
    choice: u32,
    misses: u8,
}

impl Template {
    /// The choice and the text of an event that matches.
    pub(super) fn read<'a>(&mut self, event: &'a [u8]) -> Option<(u32, &'a str)> {
        if self.before.is_empty() {
            return None;
        }
        let text = event.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        let plain =
            !text.iter().fold(false, |odd, byte| odd | (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\'));
        let text = std::str::from_utf8(text).ok().filter(|_| plain)?;
        self.misses = 0;
        Some((self.choice, text))
    }

    /// Learns the bytes around the text at this position of `event`. The event held nothing else.
    pub(super) fn learn(&mut self, event: &[u8], choice: u32, text: Range<usize>) {
        self.misses = self.misses.saturating_add(1);
        let (Some(before), Some(after)) = (event.get(..text.start), event.get(text.end..)) else { return };
        let fits =
            before.ends_with(b"\"") && after.starts_with(b"\"") && before.len() + after.len() <= MAX_BYTES;
        if !fits || self.misses > PATIENCE {
            self.before.clear();
            return;
        }
        self.before.clear();
        self.before.extend_from_slice(before);
        self.after.clear();
        self.after.extend_from_slice(after);
        self.choice = choice;
    }
}
