//! Searches a text for single bytes, eight bytes at a time (SWAR: SIMD within a register). Most strings of a request or an
//! answer are names and ids, which are too short for vector instructions.
//!
//! A mark is the highest bit of a byte. The lowest mark is always right; a higher one may come from a carry.

/// Bytes of a word.
const WIDTH: usize = 8;
/// Bytes of half a word.
const HALF: usize = WIDTH / 2;
/// Bytes of a vector that every processor has.
const LANE: usize = 16;
/// Bytes of a block of a long text. Checking a block has no branch, so it compiles to a few vector instructions.
const BLOCK: usize = 32;
/// Number of words after which a text counts as long.
const SHORT_WORDS: u32 = 2;
/// Number of words that hold nearly every name: `completion_tokens_details` has 25 bytes.
const NAME_WORDS: usize = 4;
const ONES: u64 = u64::from_ne_bytes([1; WIDTH]);
const HIGHEST: u64 = ONES << 7;

/// Marks the bytes that equal `byte`.
const fn equal(word: u64, byte: u8) -> u64 {
    let zero_where_equal = word ^ (ONES * byte as u64);
    zero_where_equal.wrapping_sub(ONES) & !zero_where_equal
}

/// Marks the bytes that a JSON string cannot hold unescaped: quotes, backslashes, control characters.
const fn special(word: u64) -> u64 {
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (control | equal(word, b'"') | equal(word, b'\\')) & HIGHEST
}

/// Marks special bytes, and 0xc2 and 0xe2, the first bytes of the line breaks outside ASCII.
const fn suspicious(word: u64) -> u64 {
    special(word) | equal(word | (ONES * 0x20), 0xe2) & HIGHEST
}

/// Marks special bytes, DEL, and the bytes of characters outside ASCII.
const fn unprintable(word: u64) -> u64 {
    special(word) | (word | word.wrapping_add(ONES)) & HIGHEST
}

/// The number of leading bytes that a JSON string can hold unescaped.
pub(super) fn plain_prefix(bytes: &[u8]) -> usize {
    prefix(bytes, special, |rest| blocks(rest, plain_rest))
}

/// The number of leading unescaped bytes within the first words, which hold nearly all names; fewer when the text ends within
/// them.
#[inline(always)]
pub(super) fn name_prefix(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    for words in 0..NAME_WORDS {
        let Some((word, after)) = rest.split_first_chunk::<WIDTH>() else { return words * WIDTH };
        let found = special(u64::from_le_bytes(*word));
        if found != 0 {
            return words * WIDTH + first(found);
        }
        rest = after;
    }
    NAME_WORDS * WIDTH
}

/// As [`plain_prefix`], for a checked text, whose strings hold no control characters.
pub(super) fn checked_prefix(bytes: &[u8]) -> usize {
    prefix(bytes, special, |rest| memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len()))
}

/// The number of leading bytes that need no escape and cannot begin a character that needs one.
pub(super) fn clean_prefix(bytes: &[u8]) -> usize {
    prefix(bytes, suspicious, |rest| blocks(rest, |byte| plain_rest(byte).min((byte | 0x20) ^ 0xe2)))
}

/// Whether all bytes are printable ASCII that needs no escape. Nearly all names and ids are, so nothing is decided before the end.
pub(super) fn is_printable(bytes: &[u8]) -> bool {
    let word = |word: &[u8; WIDTH]| unprintable(u64::from_le_bytes(*word));
    // The last bytes are read together with bytes before them.
    if let Some(last) = bytes.last_chunk::<LANE>() {
        let has = |lane: &[u8; LANE]| {
            let rest = |byte: u8| plain_rest(byte).min(0x7f_u8.saturating_sub(byte));
            lane.iter().fold(false, |found, byte| found | (rest(*byte) == 0))
        };
        let (lanes, _) = bytes.as_chunks::<LANE>();
        return !has(last) & !lanes.iter().fold(false, |found, lane| found | has(lane));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<WIDTH>(), bytes.last_chunk::<WIDTH>()) {
        return (word(first) | word(last)) == 0;
    }
    if let (Some(start), Some(end)) = (bytes.first_chunk::<HALF>(), bytes.last_chunk::<HALF>()) {
        let (start, end) = (u32::from_le_bytes(*start), u32::from_le_bytes(*end));
        return unprintable(u64::from(end) << 32 | u64::from(start)) == 0;
    }
    bytes.iter().all(|byte| (0x20..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\'))
}

/// The number of bytes before the first line feed or carriage return. The lines of a stream are long enough for vector instructions.
pub(crate) fn line_prefix(bytes: &[u8]) -> usize {
    prefix(
        bytes,
        |word| (equal(word, b'\n') | equal(word, b'\r')) & HIGHEST,
        |rest| memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()),
    )
}

/// The number of bytes before the first mark of a word.
const fn first(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// The number of bytes before the first mark. `skip` returns how many bytes of a long text can be passed over.
#[inline(always)]
fn prefix(bytes: &[u8], marks: impl Fn(u64) -> u64, skip: impl Fn(&[u8]) -> usize) -> usize {
    let mut rest = bytes;
    let mut words = 0;
    while let Some((word, after)) = rest.split_first_chunk::<WIDTH>() {
        let found = marks(u64::from_le_bytes(*word));
        if found != 0 {
            return bytes.len() - rest.len() + first(found);
        }
        rest = after;
        words += 1;
        if words == SHORT_WORDS {
            rest = rest.get(skip(rest)..).unwrap_or_default();
        }
    }
    if rest.is_empty() {
        return bytes.len();
    }
    // The last bytes are read together with bytes before them, which have no mark.
    if let Some(word) = bytes.last_chunk::<WIDTH>() {
        return bytes.len() - WIDTH + first(marks(u64::from_le_bytes(*word)));
    }
    if let (Some(start), Some(end)) = (bytes.first_chunk::<HALF>(), bytes.last_chunk::<HALF>()) {
        let (start, end) = (u32::from_le_bytes(*start), u32::from_le_bytes(*end));
        let found = first(marks(u64::from(end) << 32 | u64::from(start)));
        return if found < HALF { found } else { bytes.len() + found - WIDTH };
    }
    // Filled up to a word with blanks, which are never marked.
    let mut word = [b' '; WIDTH];
    word.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    first(marks(u64::from_le_bytes(word))).min(bytes.len())
}

/// The number of bytes in the leading blocks that hold no searched byte, which is one whose `rest` is zero. Without
/// comparisons, a block compiles to two thirds of the instructions.
#[inline(always)]
fn blocks(bytes: &[u8], rest: impl Fn(u8) -> u8) -> usize {
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let has = |block: &[u8; BLOCK]| block.iter().fold(false, |found, byte| found | (rest(*byte) == 0));
    blocks.iter().take_while(|block| !has(block)).count() * BLOCK
}

/// Zero for a byte that a JSON string cannot hold unescaped.
fn plain_rest(byte: u8) -> u8 {
    byte.saturating_sub(0x1f).min(byte ^ b'"').min(byte ^ b'\\')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{checked_prefix, clean_prefix, is_printable, line_prefix, plain_prefix};

    proptest! {
        #[test]
        fn the_first_special_byte_is_found_at_every_position(
            bytes in prop::collection::vec(prop_oneof![8 => 0x20..=0x7eu8, 1 => any::<u8>()], 0..120),
        ) {
            let end = bytes.len().min(20);
            let special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
            let suspicious = |byte: &u8| special(byte) || matches!(byte, 0xc2 | 0xe2);
            let first = |found: &dyn Fn(&u8) -> bool| bytes.iter().position(found).unwrap_or(bytes.len());
            prop_assert_eq!(plain_prefix(&bytes), first(&special));
            let checked: Vec<u8> = bytes.iter().map(|byte| byte | 0x20).collect();
            let ends = checked.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(checked.len());
            prop_assert_eq!(checked_prefix(&checked), ends);
            prop_assert_eq!(clean_prefix(&bytes), first(&suspicious));
            prop_assert_eq!(is_printable(&bytes), bytes.iter().all(|byte| !special(byte) && *byte <= 0x7e));
            prop_assert_eq!(is_printable(&bytes[..end]), bytes[..end].iter().all(|byte| !special(byte) && *byte <= 0x7e));
            prop_assert_eq!(line_prefix(&bytes), first(&|byte| matches!(byte, b'\n' | b'\r')));
        }
    }
}
