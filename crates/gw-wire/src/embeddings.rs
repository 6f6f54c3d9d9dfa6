//! Embedding vectors: reads an upstream's vectors and writes them as the client wants them.

mod decimal;
mod floats;
mod in_place;
mod numbers;
mod packed;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use serde_json::value::RawValue;

pub use in_place::NumbersInPlace;
pub use numbers::read_numbers;
pub use packed::{Packed, max_encoded_bytes};

use self::decimal::{SAFE_DIGITS, surely_finite};
use crate::json::{Kind, ObjectWriter, View, number_end};
use crate::reply::{EmbeddingsReply, Vector};
use crate::request::EncodingFormat;
use crate::usage::Usage;

/// Accepts base64 with and without padding: upstreams differ.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why an upstream's value is not a vector of finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// Neither an array of numbers nor a base64 string.
    #[error("an embedding is neither an array of numbers nor base64")]
    Type,
    /// A vector without numbers.
    #[error("an embedding is empty")]
    Empty,
    /// A number beyond the range of 32-bit floats.
    #[error("an embedding holds a number that is not finite")]
    NotFinite,
    /// A string that is not base64 of whole 32-bit floats.
    #[error("an embedding is not base64 of 32-bit floats")]
    Base64,
}

/// Reads the JSON text of one vector: an array of numbers, kept as text, or base64 of little-endian 32-bit floats.
///
/// # Errors
/// If the text is anything else, is empty, or holds a number that is not finite as a 32-bit float.
pub fn read_vector(text: &str) -> Result<Vector<'_>, VectorError> {
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
                Err(VectorError::NotFinite)
            })?;
            if len == 0 { Err(VectorError::Empty) } else { Ok(Vector::Json { text, len }) }
        }
        Kind::String => {
            let encoded = view.string().ok_or(VectorError::Base64)?;
            let bytes = LENIENT.decode(&*encoded).map_err(|_| VectorError::Base64)?;
            let (numbers, []) = bytes.as_chunks::<4>() else { return Err(VectorError::Base64) };
            finite(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
        }
        Kind::Null | Kind::Boolean | Kind::Integer | Kind::Decimal | Kind::Object => Err(VectorError::Type),
    }
}

/// Reads a vector from a text that a JSON parser has already accepted, which makes most checks unnecessary.
///
/// # Errors
/// As [`read_vector`].
pub fn read_parsed_vector(raw: &RawValue) -> Result<Vector<'_>, VectorError> {
    let text = raw.get();
    plain_numbers(text).map_or_else(|| read_vector(text), |len| Ok(Vector::Json { text, len }))
}

/// The number of elements of a JSON array of plain decimals; None when the array needs the full checks. The text is known
/// to be JSON, so it is enough to look for bytes of other values (strings, containers, null, true, false, exponents) and
/// for numbers with so many digits that they may not be finite.
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
    // An empty array would count as one empty element.
    (longest <= SAFE_DIGITS && !inner.trim_ascii().is_empty()).then_some(count)
}

/// A vector of decoded numbers.
///
/// # Errors
/// If there are no numbers, or one is not finite.
pub fn finite(numbers: Vec<f32>) -> Result<Vector<'static>, VectorError> {
    match numbers.iter().all(|number| number.is_finite()) {
        true if numbers.is_empty() => Err(VectorError::Empty),
        true => Ok(Vector::Floats(numbers)),
        false => Err(VectorError::NotFinite),
    }
}

impl Vector<'_> {
    /// The number of values.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        match self {
            Self::Json { len, .. } => *len,
            Self::Floats(numbers) => numbers.len(),
            Self::Packed(packed) => packed.dimensions(),
        }
    }

    /// Writes the vector as JSON numbers: text unchanged, floats in the fewest digits that read back equal.
    pub fn write_float(&self, out: &mut Vec<u8>) {
        let numbers = match self {
            Self::Json { text, .. } => return out.extend_from_slice(text.as_bytes()),
            Self::Packed(packed) => return packed.write_float(out),
            Self::Floats(numbers) => numbers,
        };
        out.push(b'[');
        for (at, number) in numbers.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            // Writing into memory cannot fail. A number that is not finite would become null, but `finite` excludes those.
            let _ = serde_json::to_writer(&mut *out, number);
        }
        out.push(b']');
    }

    /// Writes the vector as a JSON string: its little-endian 32-bit floats in padded standard base64.
    pub fn write_base64(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::with_capacity(self.dimensions() * 4);
        match self {
            Self::Json { text, .. } => floats::write_floats(text, &mut bytes),
            Self::Packed(packed) => packed.write_floats(&mut bytes),
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

/// Writes the body of an embeddings answer.
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
        Vector::Packed(packed) => packed.max_encoded_bytes(encoding) + 64,
    });
    let mut out = Vec::with_capacity(size.sum::<usize>() + 128 + model.len());
    let mut list = ObjectWriter::begin(&mut out);
    list.raw("object", "\"list\"");
    list.array("data", (0_u64..).zip(&reply.vectors), |out, (index, vector)| {
        let mut object = ObjectWriter::begin(out);
        object.raw("object", "\"embedding\"");
        object.integer("index", index);
        match encoding {
            EncodingFormat::Float => vector.write_float(object.member("embedding")),
            EncodingFormat::Base64 => vector.write_base64(object.member("embedding")),
        }
        object.finish();
    });
    write_end(&mut out, model, usage);
    out
}

/// Writes the members behind the vectors.
fn write_end(out: &mut Vec<u8>, model: &str, usage: &Usage) {
    let mut list = ObjectWriter::resume(out);
    list.string("model", model);
    list.object("usage", |counts| {
        counts.integer("prompt_tokens", usage.prompt);
        counts.integer("total_tokens", usage.total());
    });
    list.finish();
}

/// Calls `each` with every number of an array that must hold only numbers.
fn each_number(text: &str, mut each: impl FnMut(&str) -> Result<(), VectorError>) -> Result<(), VectorError> {
    let bytes = text.as_bytes();
    let skip_space = |at: usize| {
        let rest = bytes.get(at..).unwrap_or_default();
        let is_space = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        at + rest.iter().take_while(is_space).count()
    };
    let mut at = skip_space(1);
    if bytes.get(at) != Some(&b']') {
        loop {
            let end = number_end(bytes, at).ok_or(VectorError::Type)?;
            each(text.get(at..end).ok_or(VectorError::Type)?)?;
            at = skip_space(end);
            match bytes.get(at) {
                Some(b',') => at = skip_space(at + 1),
                Some(b']') => break,
                _ => return Err(VectorError::Type),
            }
        }
    }
    if at + 1 == bytes.len() { Ok(()) } else { Err(VectorError::Type) }
}

#[cfg(test)]
mod tests;
