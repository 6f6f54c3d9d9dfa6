//! The numbers of vectors, read as text: where they end, and whether they are finite as 32-bit floats.

use crate::json::number_end;

/// Integers of up to this many digits are below `f32::MAX` whatever the digits.
pub(super) const SAFE_DIGITS: usize = 38;
/// Bytes of a word.
pub(super) const WIDTH: usize = 8;
/// The first bytes of a small decimal.
pub(super) const START: [u8; 2] = *b"0.";
/// Most digits behind the point of a number that is read by words, rounded up: 64-bit floats of this size have up to 20.
pub(super) const DIGITS: usize = 3 * WIDTH;
const ONES: u64 = u64::from_ne_bytes([1; WIDTH]);
/// The highest bit of each byte: a mark.
const HIGHEST: u64 = ONES << 7;

/// The size of the number at the start of the text and the byte behind it, if the number begins with a zero and a point and
/// has up to 23 digits behind the point. Other numbers at the end of the text are left out, too.
#[inline(always)]
pub(super) fn small_decimal(text: &[u8]) -> Option<(usize, u8)> {
    let text = text.first_chunk::<{ 1 + START.len() + DIGITS }>()?;
    let minus = usize::from(text.first() == Some(&b'-'));
    let (start, digits) = text.get(minus..)?.split_first_chunk::<{ START.len() }>()?;
    if u16::from_le_bytes(*start) != u16::from_le_bytes(START) {
        return None;
    }
    let digits = digits.first_chunk::<DIGITS>()?;
    let (words, []) = digits.as_chunks::<WIDTH>() else { return None };
    let mut len = 0_usize;
    for word in words {
        let marks = others(*word);
        if marks != 0 {
            len = len.wrapping_add((marks.trailing_zeros() / 8) as usize);
            let behind = *digits.get(len)?;
            return (len > 0).then_some((len.wrapping_add(minus + START.len()), behind));
        }
        len = len.wrapping_add(WIDTH);
    }
    None
}

/// Marks the bytes that are no digits. The lowest mark is right; a higher one may come from a carry.
#[inline(always)]
fn others(word: [u8; WIDTH]) -> u64 {
    // Digits become 0 to 9, which stay below 0x80 after the addition, and all other values come above it.
    let values = u64::from_le_bytes(word) ^ (ONES * b'0' as u64);
    (values.wrapping_add(ONES * (0x80 - 10)) | values) & HIGHEST
}

/// The offset of the byte behind the element at the start of the text, and that byte: a comma or the end of the array.
/// Whitespace may stand on both sides of the number.
#[inline(never)]
pub(super) fn any_number(text: &[u8]) -> Option<(usize, u8)> {
    let skip_space = |at: usize| {
        let is_space = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        at + text.get(at..).unwrap_or_default().iter().take_while(is_space).count()
    };
    let start = skip_space(0);
    let end = number_end(text, start)?;
    let number = std::str::from_utf8(text.get(start..end)?).ok()?;
    if !surely_finite(number) && !number.parse().is_ok_and(f32::is_finite) {
        return None;
    }
    let behind = skip_space(end);
    text.get(behind).copied().filter(|byte| matches!(byte, b',' | b']')).map(|byte| (behind, byte))
}

/// Whether the spelling alone excludes an overflow: no positive exponent and few digits before the point.
pub(super) fn surely_finite(number: &str) -> bool {
    let mut digits = number.trim_start_matches('-').bytes();
    let whole = digits.position(|byte| !byte.is_ascii_digit());
    let exponent =
        memchr::memchr2(b'e', b'E', number.as_bytes()).and_then(|at| number.as_bytes().get(at + 1));
    whole.unwrap_or(number.len()) <= SAFE_DIGITS && matches!(exponent, None | Some(b'-'))
}
