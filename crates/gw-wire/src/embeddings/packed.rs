//! A vector to be kept: 32-bit floats, and how its numbers were spelled wherever that is not how we would. So the same text can be
//! shown again, out of a fraction of its room.
//!
//! Upstreams spell a 32-bit float in its own fewest digits or in those of the 64-bit float that it is; the form says which. A few
//! numbers of a vector are odd in nearly all of them (`1e-05`, `0`): they are kept as text, with their place. A vector
//! of other numbers, or with too many odd ones, is kept as the text that it is.

use super::each_number;
use crate::embeddings::NotAVector;
use crate::reply::Vector;
use crate::request::EncodingFormat;

/// The form, and how many numbers there are.
const HEADER: usize = 5;
/// The longest number of each form, with a comma.
const LONGEST: (usize, usize) = (17, 25);
/// Numbers by which the form is chosen.
const SAMPLE: usize = 16;

/// How numbers are spelled that are not odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The fewest digits that read back as the same 32-bit float.
    Single,
    /// As the 64-bit float that it is.
    Double,
    /// As the text that follows in place of floats.
    Text,
}

impl Form {
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

/// A vector that was kept.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    form: Form,
    len: usize,
    /// Little-endian floats, or the text.
    numbers: &'a [u8],
    /// Place, length and text of each odd number.
    odd: &'a [u8],
}

impl Vector<'_> {
    /// The vector to be kept.
    #[must_use]
    pub fn pack(&self) -> Vec<u8> {
        match self {
            Self::Json { text, len } => pack_text(text, *len),
            Self::Floats(numbers) => {
                let mut out = header(Form::Single, numbers.len(), numbers.len() * 4);
                out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                out
            }
            Self::Kept(packed) => {
                let mut out = header(packed.form, packed.len, packed.numbers.len() + packed.odd.len());
                out.extend_from_slice(packed.numbers);
                out.extend_from_slice(packed.odd);
                out
            }
        }
    }
}

fn header(form: Form, len: usize, room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + room);
    out.push(form.byte());
    // A vector of more numbers than that cannot be had in an answer of bounded size.
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    out
}

fn pack_text(text: &str, len: usize) -> Vec<u8> {
    let form = likely(text);
    let mut out = header(form, len, len * 4);
    let (mut odd, mut spelled) = (Vec::new(), Vec::new());
    let mut place = 0_u32;
    let packed = each_number(text, |number| {
        let value: f32 = number.parse().unwrap_or_default();
        out.extend_from_slice(&value.to_le_bytes());
        spelled.clear();
        form.spell(value, &mut spelled);
        if spelled != number.as_bytes() {
            odd.extend_from_slice(&place.to_le_bytes());
            odd.push(u8::try_from(number.len()).map_err(|_| NotAVector::Type)?);
            odd.extend_from_slice(number.as_bytes());
        }
        place += 1;
        // No gain in it.
        if out.len() + odd.len() > text.len() { Err(NotAVector::Type) } else { Ok(()) }
    });
    if packed.is_ok() {
        out.extend_from_slice(&odd);
        return out;
    }
    let mut out = header(Form::Text, len, text.len());
    out.extend_from_slice(text.as_bytes());
    out
}

/// The form in which most of the first numbers are spelled.
fn likely(text: &str) -> Form {
    let (mut singles, mut doubles, mut seen) = (0_u32, 0_u32, 0);
    let mut spelled = Vec::new();
    let _ = each_number(text, |number| {
        let value: f32 = number.parse().unwrap_or_default();
        for (form, count) in [(Form::Single, &mut singles), (Form::Double, &mut doubles)] {
            spelled.clear();
            form.spell(value, &mut spelled);
            *count += u32::from(spelled == number.as_bytes());
        }
        seen += 1;
        if seen < SAMPLE { Ok(()) } else { Err(NotAVector::Type) }
    });
    if doubles > singles { Form::Double } else { Form::Single }
}

impl<'a> Packed<'a> {
    /// Reads what [`Vector::pack`] has made; None for anything else.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
        let [form, a, b, c, d] = *header;
        let len = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()?;
        let form = [Form::Single, Form::Double, Form::Text].into_iter().find(|known| known.byte() == form)?;
        // A number in a text takes a digit and what stands behind it, at least.
        let least = len.checked_mul(if form == Form::Text { 2 } else { 4 })?;
        let room = if form == Form::Text { rest.len().max(least) } else { least };
        let (numbers, odd) = rest.split_at_checked(room)?;
        let packed = Self { form, len, numbers, odd };
        let mut left = odd;
        while !left.is_empty() {
            (_, left) = next_odd(left)?;
        }
        (len > 0).then_some(packed)
    }

    /// How many numbers it holds.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.len
    }

    /// No more bytes than that are written for it in this encoding.
    #[must_use]
    pub fn most_bytes(&self, encoding: EncodingFormat) -> usize {
        let (single, double) = LONGEST;
        let of_one = match (encoding, self.form) {
            (EncodingFormat::Base64, _) => return base64_bytes(self.len),
            (EncodingFormat::Float, Form::Text) => return self.numbers.len(),
            (EncodingFormat::Float, Form::Single) => single,
            (EncodingFormat::Float, Form::Double) => double,
        };
        self.len.saturating_mul(of_one).saturating_add(self.odd.len() + 2)
    }

    fn text(&self) -> Option<&'a str> {
        std::str::from_utf8(self.numbers).ok().filter(|_| self.form == Form::Text)
    }

    fn floats(&self) -> impl Iterator<Item = f32> + use<'a> {
        let (floats, _) = self.numbers.as_chunks::<4>();
        floats.iter().map(|bytes| f32::from_le_bytes(*bytes))
    }

    /// Writes it as JSON numbers, spelled as they were.
    pub(super) fn write_float(&self, out: &mut Vec<u8>) {
        if let Some(text) = self.text() {
            return out.extend_from_slice(text.as_bytes());
        }
        let mut odd = next_odd(self.odd);
        out.push(b'[');
        for (place, number) in (0_u32..).zip(self.floats()) {
            if place > 0 {
                out.push(b',');
            }
            match odd {
                Some(((at, text), left)) if at == place => {
                    out.extend_from_slice(text);
                    odd = next_odd(left);
                }
                _ => self.form.spell(number, out),
            }
        }
        out.push(b']');
    }

    /// Its numbers as little-endian 32-bit floats.
    pub(super) fn write_floats(&self, out: &mut Vec<u8>) {
        match self.text() {
            Some(text) => super::write_floats(text, out),
            None => out.extend_from_slice(self.numbers),
        }
    }
}

/// The same for a vector of so many numbers that nobody has seen yet, however they are spelled by those who spell 64-bit floats.
#[must_use]
pub fn most_bytes(dimensions: usize, encoding: EncodingFormat) -> usize {
    match encoding {
        EncodingFormat::Float => dimensions.saturating_mul(LONGEST.1),
        EncodingFormat::Base64 => base64_bytes(dimensions),
    }
}

/// With its quotes.
fn base64_bytes(dimensions: usize) -> usize {
    dimensions.saturating_mul(4).div_ceil(3).saturating_mul(4).saturating_add(2)
}

type Odd<'a> = (u32, &'a [u8]);

fn next_odd(bytes: &[u8]) -> Option<(Odd<'_>, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    let [a, b, c, d, length] = *header;
    let (text, rest) = rest.split_at_checked(usize::from(length))?;
    Some(((u32::from_le_bytes([a, b, c, d]), text), rest))
}

#[cfg(test)]
mod tests;
