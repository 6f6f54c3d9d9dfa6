//! Embedding vectors: read from what an upstream sent, written as the client wants them.

mod packed;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use serde_json::value::RawValue;

pub use packed::{Packed, most_bytes};

use crate::json::{Kind, View, number_end, write_str};
use crate::reply::{EmbeddingsReply, Vector};
use crate::request::EncodingFormat;
use crate::usage::Usage;

/// Padding is written by some upstreams and left out by others.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Integers of so many digits are below `f32::MAX` whatever the digits.
const SAFE_DIGITS: usize = 38;

/// What an upstream sent is no vector of finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAVector {
    /// Neither an array of numbers nor a base64 string.
    #[error("an embedding is neither an array of numbers nor base64")]
    Type,
    /// No number in it.
    #[error("an embedding is empty")]
    Empty,
    /// A number that no 32-bit float can hold.
    #[error("an embedding holds a number that is not finite")]
    NotFinite,
    /// A string that is not base64 of whole 32-bit floats.
    #[error("an embedding is not base64 of 32-bit floats")]
    Base64,
}

/// Reads the JSON text of one vector: an array of numbers, kept as text, or base64 of little-endian 32-bit floats.
///
/// # Errors
/// When the text is anything else, is empty, or holds a number that is not finite as a 32-bit float.
pub fn read_vector(text: &str) -> Result<Vector<'_>, NotAVector> {
    let view = View::new(text);
    match view.kind() {
        Kind::Array => {
            let text = view.text();
            let mut len = 0;
            each_number(text, |number| {
                len += 1;
                if surely_finite(number) || number.parse().is_ok_and(f32::is_finite) {
                    return Ok(());
                }
                Err(NotAVector::NotFinite)
            })?;
            if len == 0 { Err(NotAVector::Empty) } else { Ok(Vector::Json { text, len }) }
        }
        Kind::String => {
            let encoded = view.string().ok_or(NotAVector::Base64)?;
            let bytes = LENIENT.decode(&*encoded).map_err(|_| NotAVector::Base64)?;
            let (numbers, []) = bytes.as_chunks::<4>() else { return Err(NotAVector::Base64) };
            finite(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
        }
        Kind::Null | Kind::Boolean | Kind::Integer | Kind::Decimal | Kind::Object => Err(NotAVector::Type),
    }
}

/// The same of a text that a JSON parser has found to be one value, which spares most of the checks.
///
/// # Errors
/// As [`read_vector`].
pub fn read_parsed_vector(raw: &RawValue) -> Result<Vector<'_>, NotAVector> {
    let text = raw.get();
    plain_numbers(text).map_or_else(|| read_vector(text), |len| Ok(Vector::Json { text, len }))
}

/// How many numbers a JSON array of nothing but plain decimals holds; None when it takes a closer look. The text is
/// known to be JSON, so it suffices to look for what only other values have: strings, containers, the letters of null,
/// true, false and of exponents; and for numbers too long to be surely finite.
fn plain_numbers(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?.as_bytes();
    let other = memchr::memchr3(b'"', b'[', b'{', inner).or_else(|| memchr::memchr3(b'e', b'E', b'n', inner));
    if other.is_some() {
        return None;
    }
    let (mut count, mut from, mut longest) = (1, 0, 0);
    for comma in memchr::memchr_iter(b',', inner) {
        longest = longest.max(comma - from);
        from = comma + 1;
        count += 1;
    }
    longest = longest.max(inner.len() - from);
    // An empty array has one empty element.
    (longest <= SAFE_DIGITS && !inner.trim_ascii().is_empty()).then_some(count)
}

/// A vector of numbers that an adapter decoded itself.
///
/// # Errors
/// When there is none or one is not finite.
pub fn finite(numbers: Vec<f32>) -> Result<Vector<'static>, NotAVector> {
    match numbers.iter().all(|number| number.is_finite()) {
        true if numbers.is_empty() => Err(NotAVector::Empty),
        true => Ok(Vector::Floats(numbers)),
        false => Err(NotAVector::NotFinite),
    }
}

impl Vector<'_> {
    /// How many numbers it holds.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        match self {
            Self::Json { len, .. } => *len,
            Self::Floats(numbers) => numbers.len(),
            Self::Kept(packed) => packed.dimensions(),
        }
    }

    /// Writes the vector as JSON numbers: text as it came, floats in the fewest digits that read back equal.
    pub fn write_float(&self, out: &mut Vec<u8>) {
        let numbers = match self {
            Self::Json { text, .. } => return out.extend_from_slice(text.as_bytes()),
            Self::Kept(packed) => return packed.write_float(out),
            Self::Floats(numbers) => numbers,
        };
        out.push(b'[');
        for (at, number) in numbers.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            // Writing a float into memory cannot fail; one that is not finite, which `finite` keeps out, would be null.
            let _ = serde_json::to_writer(&mut *out, number);
        }
        out.push(b']');
    }

    /// Writes the vector as a JSON string: standard base64 with padding of its numbers as little-endian 32-bit floats.
    pub fn write_base64(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::with_capacity(self.dimensions() * 4);
        match self {
            Self::Json { text, .. } => write_floats(text, &mut bytes),
            Self::Kept(packed) => packed.write_floats(&mut bytes),
            Self::Floats(numbers) => bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes())),
        }
        out.push(b'"');
        let start = out.len();
        // Four characters stand for three bytes.
        out.resize(start + bytes.len().div_ceil(3) * 4, b'=');
        let written = STANDARD.encode_slice(&bytes, out.get_mut(start..).unwrap_or_default());
        out.truncate(start + written.unwrap_or_default());
        out.push(b'"');
    }
}

/// Writes the answer of SPEC.md's embedding response.
#[must_use]
pub fn write_embeddings(
    reply: &EmbeddingsReply<'_>,
    encoding: EncodingFormat,
    model: &str,
    usage: &Usage,
) -> Vec<u8> {
    let size = reply.vectors.iter().map(|vector| match vector {
        Vector::Json { text, .. } => text.len() + 64,
        Vector::Floats(_) => vector.dimensions() * 12 + 64,
        Vector::Kept(packed) => packed.most_bytes(encoding) + 64,
    });
    let mut out = Vec::with_capacity(size.sum::<usize>() + 128 + model.len());
    out.extend_from_slice(b"{\"object\":\"list\",\"data\":[");
    for (index, vector) in reply.vectors.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"object\":\"embedding\",\"index\":");
        out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
        out.extend_from_slice(b",\"embedding\":");
        match encoding {
            EncodingFormat::Float => vector.write_float(&mut out),
            EncodingFormat::Base64 => vector.write_base64(&mut out),
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"],\"model\":");
    write_str(&mut out, model);
    out.extend_from_slice(b",\"usage\":{\"prompt_tokens\":");
    out.extend_from_slice(itoa::Buffer::new().format(usage.prompt).as_bytes());
    out.extend_from_slice(b",\"total_tokens\":");
    out.extend_from_slice(itoa::Buffer::new().format(usage.total()).as_bytes());
    out.extend_from_slice(b"}}");
    out
}

/// Appends the numbers of an array as little-endian 32-bit floats.
fn write_floats(text: &str, out: &mut Vec<u8>) {
    // The text was checked when the vector was read.
    let _ = each_number(text, |number| {
        out.extend_from_slice(&number.parse::<f32>().unwrap_or_default().to_le_bytes());
        Ok(())
    });
}

/// Calls back with every number of an array that may hold nothing but numbers.
fn each_number(text: &str, mut each: impl FnMut(&str) -> Result<(), NotAVector>) -> Result<(), NotAVector> {
    let bytes = text.as_bytes();
    let skip_space = |at: usize| {
        let rest = bytes.get(at..).unwrap_or_default();
        let is_space = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        at + rest.iter().take_while(is_space).count()
    };
    let mut at = skip_space(1);
    if bytes.get(at) != Some(&b']') {
        loop {
            let end = number_end(bytes, at).ok_or(NotAVector::Type)?;
            each(text.get(at..end).ok_or(NotAVector::Type)?)?;
            at = skip_space(end);
            match bytes.get(at) {
                Some(b',') => at = skip_space(at + 1),
                Some(b']') => break,
                _ => return Err(NotAVector::Type),
            }
        }
    }
    if at + 1 == bytes.len() { Ok(()) } else { Err(NotAVector::Type) }
}

/// Whether the spelling alone rules out an overflow: no positive exponent, few digits before the point.
fn surely_finite(number: &str) -> bool {
    let mut digits = number.trim_start_matches('-').bytes();
    let whole = digits.position(|byte| !byte.is_ascii_digit());
    let exponent =
        memchr::memchr2(b'e', b'E', number.as_bytes()).and_then(|at| number.as_bytes().get(at + 1));
    whole.unwrap_or(number.len()) <= SAFE_DIGITS && matches!(exponent, None | Some(b'-'))
}

#[cfg(test)]
mod tests;
