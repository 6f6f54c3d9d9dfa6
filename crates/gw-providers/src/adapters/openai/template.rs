//! A shortcut through the common event: nearly every chunk of a stream is the one before with another text in it.
//!
//! What surrounds the text of a fully parsed chunk is remembered. A chunk that is the same before and after, with a
//! string between that needs no unescaping, can only parse to the same event with that string, so it is not parsed.

use std::ops::Range;

/// Larger surroundings are not worth the comparison.
const MAX_BYTES: usize = 4 << 10;
/// Chunks in a row that did not match until learning is given up: some upstreams pad every chunk with noise.
const PATIENCE: u8 = 16;

/// The surroundings of the text in the last chunk that carried nothing but text.
#[derive(Debug, Default)]
pub(super) struct Template {
    before: Vec<u8>,
    after: Vec<u8>,
    choice: u32,
    misses: u8,
}

impl Template {
    /// The choice and the text of an event that fits.
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

    /// Remembers what surrounds the text at this place of `event`, which was the only thing it carried.
    pub(super) fn learn(&mut self, event: &str, choice: u32, text: Range<usize>) {
        self.misses = self.misses.saturating_add(1);
        let (Some(before), Some(after)) = (event.get(..text.start), event.get(text.end..)) else { return };
        let fits = before.ends_with('"') && after.starts_with('"') && before.len() + after.len() <= MAX_BYTES;
        if !fits || self.misses > PATIENCE {
            self.before.clear();
            return;
        }
        self.before.clear();
        self.before.extend_from_slice(before.as_bytes());
        self.after.clear();
        self.after.extend_from_slice(after.as_bytes());
        self.choice = choice;
    }
}
