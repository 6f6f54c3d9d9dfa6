//! A compact form of a vector for the cache: 32-bit floats, plus the original spelling of every number that would be
//! spelled differently. So the same text can be written again from a fraction of its size.
//!
//! An upstream spells a 32-bit float either in the fewest digits of that float or in those of the equal 64-bit float; the
//! format says which. Nearly all vectors hold a few numbers in another spelling (`1e-05`, `0`): they are kept as text with
//! their position. A vector with too many such numbers is kept as its original text.

use super::each_number;
use super::floats::write_floats;
use crate::embeddings::VectorError;
use crate::reply::Vector;
use crate::request::EncodingFormat;

/// Bytes of the header: the format and the number of values.
const HEADER: usize = 5;
/// Maximum bytes of a number of each format, with a comma: of 32-bit and of 64-bit floats.
const MAX_NUMBER_BYTES: (usize, usize) = (17, 25);
/// Number of values that decide the format.
const SAMPLE: usize = 16;

/// The spelling of the regular numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberFormat {
    /// The fewest digits that read back as the same 32-bit float.
    Single,
    /// The digits of the equal 64-bit float.
    Double,
    /// The original text, in place of floats.
    Text,
}

impl NumberFormat {
    fn byte(self) -> u8 {
        match self {
            Self::Single => b's',
            Self::Double => b'd',
            Self::Text => b't',
        }
    }

    fn spell(self, number: f32, out: &mut Vec<u8>) {
        // Writing a finite float into memory cannot fail.
        let _ = match self {
            Self::Double => serde_json::to_writer(out, &f64::from(number)),
            Self::Single | Self::Text => serde_json::to_writer(out, &number),
        };
    }
}

/// A vector in its compact form.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    format: NumberFormat,
    len: usize,
    /// Little-endian floats, or the text.
    numbers: &'a [u8],
    /// Position, length and text of each number with an irregular spelling.
    odd: &'a [u8],
}

impl Vector<'_> {
    /// The vector in its compact form; [`Packed::read`] reads it again.
    #[must_use]
    pub fn pack(&self) -> Vec<u8> {
        match self {
            Self::Json { text, len } => pack_text(text, *len),
            Self::Floats(numbers) => {
                let mut out = header(NumberFormat::Single, numbers.len(), numbers.len() * 4);
                out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                out
            }
            Self::Packed(packed) => {
                let mut out = header(packed.format, packed.len, packed.numbers.len() + packed.odd.len());
                out.extend_from_slice(packed.numbers);
                out.extend_from_slice(packed.odd);
                out
            }
        }
    }
}

fn header(format: NumberFormat, len: usize, room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + room);
    out.push(format.byte());
    // An answer of bounded size cannot hold more numbers than that.
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    out
}

fn pack_text(text: &str, len: usize) -> Vec<u8> {
    let format = likely_format(text);
    let mut out = header(format, len, len * 4);
    let (mut odd, mut spelled) = (Vec::new(), Vec::new());
    let mut position = 0_u32;
    let packed = each_number(text, |number| {
        let value: f32 = number.parse().unwrap_or_default();
        out.extend_from_slice(&value.to_le_bytes());
        spelled.clear();
        format.spell(value, &mut spelled);
        if spelled != number.as_bytes() {
            odd.extend_from_slice(&position.to_le_bytes());
            odd.push(u8::try_from(number.len()).map_err(|_| VectorError::Type)?);
            odd.extend_from_slice(number.as_bytes());
        }
        position += 1;
        // Larger than the text: stop.
        if out.len() + odd.len() > text.len() { Err(VectorError::Type) } else { Ok(()) }
    });
    if packed.is_ok() {
        out.extend_from_slice(&odd);
        return out;
    }
    let mut out = header(NumberFormat::Text, len, text.len());
    out.extend_from_slice(text.as_bytes());
    out
}

/// The format of most of the first numbers.
fn likely_format(text: &str) -> NumberFormat {
    let (mut singles, mut doubles, mut seen) = (0_u32, 0_u32, 0);
    let mut spelled = Vec::new();
    let _ = each_number(text, |number| {
        let value: f32 = number.parse().unwrap_or_default();
        for (format, count) in [(NumberFormat::Single, &mut singles), (NumberFormat::Double, &mut doubles)] {
            spelled.clear();
            format.spell(value, &mut spelled);
            *count += u32::from(spelled == number.as_bytes());
        }
        seen += 1;
        if seen < SAMPLE { Ok(()) } else { Err(VectorError::Type) }
    });
    if doubles > singles { NumberFormat::Double } else { NumberFormat::Single }
}

impl<'a> Packed<'a> {
    /// Reads the output of [`Vector::pack`]; None for anything else.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
        let [byte, a, b, c, d] = *header;
        let len = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()?;
        let formats = [NumberFormat::Single, NumberFormat::Double, NumberFormat::Text];
        let format = formats.into_iter().find(|known| known.byte() == byte)?;
        // In a text, a number takes at least a digit and a separator.
        let min_bytes = len.checked_mul(if format == NumberFormat::Text { 2 } else { 4 })?;
        let room = if format == NumberFormat::Text { rest.len().max(min_bytes) } else { min_bytes };
        let (numbers, odd) = rest.split_at_checked(room)?;
        let packed = Self { format, len, numbers, odd };
        let mut left = odd;
        while !left.is_empty() {
            (_, left) = next_odd(left)?;
        }
        (len > 0).then_some(packed)
    }

    /// The number of values.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.len
    }

    /// Upper bound of the bytes that it takes in this encoding.
    #[must_use]
    pub fn max_encoded_bytes(&self, encoding: EncodingFormat) -> usize {
        let (single, double) = MAX_NUMBER_BYTES;
        let number_bytes = match (encoding, self.format) {
            (EncodingFormat::Base64, _) => return base64_bytes(self.len),
            (EncodingFormat::Float, NumberFormat::Text) => return self.numbers.len(),
            (EncodingFormat::Float, NumberFormat::Single) => single,
            (EncodingFormat::Float, NumberFormat::Double) => double,
        };
        self.len.saturating_mul(number_bytes).saturating_add(self.odd.len() + 2)
    }

    fn text(&self) -> Option<&'a str> {
        std::str::from_utf8(self.numbers).ok().filter(|_| self.format == NumberFormat::Text)
    }

    fn floats(&self) -> impl Iterator<Item = f32> + use<'a> {
        let (floats, _) = self.numbers.as_chunks::<4>();
        floats.iter().map(|bytes| f32::from_le_bytes(*bytes))
    }

    /// Writes the vector as JSON numbers in their original spelling.
    pub(super) fn write_float(&self, out: &mut Vec<u8>) {
        if let Some(text) = self.text() {
            return out.extend_from_slice(text.as_bytes());
        }
        let mut odd = next_odd(self.odd);
        out.push(b'[');
        for (position, number) in (0_u32..).zip(self.floats()) {
            if position > 0 {
                out.push(b',');
            }
            match odd {
                Some(((at, text), left)) if at == position => {
                    out.extend_from_slice(text);
                    odd = next_odd(left);
                }
                _ => self.format.spell(number, out),
            }
        }
        out.push(b']');
    }

    /// Writes the vector as little-endian 32-bit floats.
    pub(super) fn write_floats(&self, out: &mut Vec<u8>) {
        match self.text() {
            Some(text) => write_floats(text, out),
            None => out.extend_from_slice(self.numbers),
        }
    }
}

/// Upper bound of the encoded bytes of a vector with this many dimensions, whatever the spelling of its numbers.
#[must_use]
pub fn max_encoded_bytes(dimensions: usize, encoding: EncodingFormat) -> usize {
    match encoding {
        EncodingFormat::Float => dimensions.saturating_mul(MAX_NUMBER_BYTES.1),
        EncodingFormat::Base64 => base64_bytes(dimensions),
    }
}

/// The bytes of the base64 text with its quotes.
fn base64_bytes(dimensions: usize) -> usize {
    dimensions.saturating_mul(4).div_ceil(3).saturating_mul(4).saturating_add(2)
}

type OddNumber<'a> = (u32, &'a [u8]);

fn next_odd(bytes: &[u8]) -> Option<(OddNumber<'_>, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    let [a, b, c, d, length] = *header;
    let (text, rest) = rest.split_at_checked(usize::from(length))?;
    Some(((u32::from_le_bytes([a, b, c, d]), text), rest))
}

#[cfg(test)]
mod tests;
