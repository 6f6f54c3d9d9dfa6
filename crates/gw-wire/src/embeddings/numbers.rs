//! Reads an array of numbers in one pass over its bytes: the numbers are checked, counted and not decoded.
//!
//! Nearly every number of a vector is a decimal below one (`-0.0123`), so such numbers are read eight digits at a time.
//! All others are read byte by byte.

use super::decimal::{any_number, small_decimal};
use crate::json::Reader;
use crate::reply::Vector;

/// Reads the next value, if it is an array of at least one number and every number is finite as a 32-bit float. None for
/// any other value. What it accepts is JSON.
pub fn read_numbers<'a>(reader: &mut Reader<'a>) -> Option<Vector<'a>> {
    let (len, view) = reader.with(finite_numbers)?;
    Some(Vector::Json { text: view.text(), len })
}

/// The number of elements of the array at the start of the text, and its size in bytes.
pub(super) fn finite_numbers(text: &[u8]) -> Option<(usize, usize)> {
    let mut rest = text.strip_prefix(b"[")?;
    let mut count = 0_usize;
    loop {
        // Cannot overflow: every element takes a byte of the text, and every offset is one of the text.
        count = count.wrapping_add(1);
        if let Some((end, b',')) = small_decimal(rest) {
            rest = rest.get(end.wrapping_add(1)..)?;
            continue;
        }
        let (end, after) = any_number(rest)?;
        rest = rest.get(end.wrapping_add(1)..)?;
        if after != b',' {
            return Some((count, text.len() - rest.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::finite_numbers;
    use crate::embeddings::read_vector;
    use crate::json::Reader;
    use crate::reply::Vector;

    /// The result of serde_json: the number of elements, if each one is a finite number.
    fn by_serde(text: &[u8]) -> Option<usize> {
        let elements: Vec<&RawValue> = serde_json::from_slice(text).ok()?;
        let is_number =
            |raw: &&RawValue| raw.get().starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let is_finite = |raw: &&RawValue| is_number(raw) && raw.get().parse().is_ok_and(f32::is_finite);
        (!elements.is_empty() && elements.iter().all(is_finite)).then_some(elements.len())
    }

    /// The result of the scanner, for a text without whitespace around it.
    fn by_scanner(text: &[u8]) -> Option<usize> {
        finite_numbers(text).filter(|(_, bytes)| *bytes == text.len()).map(|(count, _)| count)
    }

    fn number() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => any::<f64>().prop_map(|number| serde_json::to_string(&number).unwrap()),
            4 => (-1.0..1.0_f64).prop_map(|number| number.to_string()),
            2 => any::<f32>().prop_map(|number| serde_json::to_string(&number).unwrap()),
            2 => "-?0\\.[0-9]{0,30}",
            1 => "-?[0-9]{1,45}(\\.[0-9]{0,9})?([eE][+-]?[0-9]{0,3})?",
            1 => "[-+0-9.eE nul\"\\[\\]{}]{0,6}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn the_scanner_and_serde_agree_on_arrays(
            numbers in prop::collection::vec(number(), 0..6),
            separators in prop::collection::vec("[ \n\t]{0,2}", 12),
            tail in "[\\], 0]{0,2}",
        ) {
            let padded = numbers.iter().zip(separators.chunks(2)).map(|(number, space)| format!("{}{number}{}", space[0], space[1]));
            let text = format!("[{}]{tail}", padded.collect::<Vec<_>>().join(","));
            let text = text.trim_end();
            prop_assert_eq!(by_scanner(text.as_bytes()), by_serde(text.as_bytes()), "{}", text);
        }

        #[test]
        fn the_scanner_and_serde_agree_on_arrays_with_changed_bytes(
            numbers in prop::collection::vec(number(), 1..6), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let mut text = format!("[{}]", numbers.join(",")).into_bytes();
            let at = at.index(text.len());
            text[at] = byte;
            if !byte.is_ascii_whitespace() {
                prop_assert_eq!(by_scanner(&text), by_serde(&text), "{:?}", String::from_utf8_lossy(&text));
            }
        }

        #[test]
        fn the_scanner_and_serde_agree_on_any_bytes(
            bytes in prop::collection::vec(prop_oneof![8 => prop::sample::select(b"[],.-+0123456789eE".to_vec()), 1 => any::<u8>()], 0..40),
        ) {
            let text = [b"[".as_slice(), &bytes].concat();
            if !text.last().is_some_and(u8::is_ascii_whitespace) {
                prop_assert_eq!(by_scanner(&text), by_serde(&text));
            }
        }

        #[test]
        fn the_one_pass_reader_gives_what_the_reader_with_errors_gives(
            numbers in prop::collection::vec(number(), 0..6), tail in "[ ,}\\]]{0,2}",
        ) {
            let array = format!("[{}]", numbers.join(","));
            let text = format!(" {array}{tail}");
            let mut reader = Reader::new(&text);
            match (super::read_numbers(&mut reader), read_vector(&array)) {
                (Some(Vector::Json { text, len }), Ok(Vector::Json { text: known, len: count })) => {
                    prop_assert_eq!((text, len), (known, count));
                    prop_assert_eq!(reader.offset(), array.len() + 1);
                }
                // An element may close the array early.
                (Some(Vector::Json { text, len }), _) => prop_assert_eq!(Some(len), by_serde(text.as_bytes())),
                (None, read) => prop_assert!(read.is_err(), "{}", text),
                (Some(_), _) => prop_assert!(false),
            }
        }
    }

    #[test]
    fn long_and_short_numbers_at_the_edges_of_words_are_read() {
        for digits in 0..40 {
            for (before, after) in [("", ""), ("-", ""), ("", "e-5"), ("-", "E+2"), ("", " ")] {
                for close in [")", "]", ",1]", ",-0.5]"] {
                    let text = format!("[{before}0.{}{after}{close}", "7".repeat(digits));
                    assert_eq!(by_scanner(text.as_bytes()), by_serde(text.as_bytes()), "{text}");
                }
            }
        }
    }
}
