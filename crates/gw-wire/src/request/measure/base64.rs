//! Decodes base64 text byte by byte, without a copy of the whole.

/// The value of each character; [`NONE`] for a character outside the alphabet.
const VALUES: [u8; 256] = values();

/// Larger than all six bits.
const NONE: u8 = 0x80;

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time")]
const fn values() -> [u8; 256] {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < 64 {
        values[letters[value as usize] as usize] = value;
        value += 1;
    }
    // The URL-safe alphabet.
    values[b'-' as usize] = 62;
    values[b'_' as usize] = 63;
    values
}

fn value(letter: u8) -> u8 {
    VALUES.get(usize::from(letter)).copied().unwrap_or(NONE)
}

/// Approximate number of decoded bytes: padding and line breaks count too.
pub(super) fn decoded_len(data: &str) -> u64 {
    (data.len() as u64).saturating_mul(3).div_ceil(4)
}

/// Iterates over the decoded bytes. Characters outside the alphabet are skipped.
#[derive(Clone, Debug)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
    bits: u32,
    /// Number of bits not returned yet: 0, 2, 4 or 6.
    held: u32,
}

impl<'a> Bytes<'a> {
    pub(super) fn of(data: &'a str) -> Self {
        Self { rest: data.as_bytes(), bits: 0, held: 0 }
    }

    /// Fills the space and returns how much was filled: less than the whole space only at the end.
    pub(super) fn fill(&mut self, space: &mut [u8]) -> usize {
        let mut filled = 0;
        loop {
            filled += self.threes(space.get_mut(filled..).unwrap_or_default());
            let Some(place) = space.get_mut(filled) else { return filled };
            let Some(byte) = self.next() else { return filled };
            *place = byte;
            filled += 1;
        }
    }

    /// Decodes four characters to three bytes as long as all of them are in the alphabet.
    fn threes(&mut self, space: &mut [u8]) -> usize {
        let mut filled = 0;
        if self.held != 0 {
            return filled;
        }
        for place in space.chunks_exact_mut(3) {
            let Some((four, rest)) = self.rest.split_first_chunk::<4>() else { break };
            let [a, b, c, d] = four.map(value);
            if (a | b | c | d) & NONE != 0 {
                break;
            }
            let [a, b, c, d] = [a, b, c, d].map(u32::from);
            let [_, bytes @ ..] = (a << 18 | b << 12 | c << 6 | d).to_be_bytes();
            place.copy_from_slice(&bytes);
            self.rest = rest;
            filled += 3;
        }
        filled
    }
}

impl Iterator for Bytes<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        loop {
            let (letter, rest) = self.rest.split_first()?;
            self.rest = rest;
            let value = value(*letter);
            if value == NONE {
                continue;
            }
            self.bits = (self.bits & 0x3f) << 6 | u32::from(value);
            self.held += 6;
            if self.held >= 8 {
                self.held -= 8;
                return u8::try_from(self.bits >> self.held & 0xff).ok();
            }
        }
    }
}
