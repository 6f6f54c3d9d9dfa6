//! JSON text without a tree: checked once, walked in place, and written as strings that stay on one line in every
//! reader.

mod scan;
mod view;

pub use scan::{Checked, Fault, MAX_DEPTH, check, number_end};
pub use view::{Elements, Kind, Members, View};

/// Writes a JSON string literal. Besides what JSON demands, U+0085, U+2028 and U+2029 are escaped, because some
/// readers of event streams split lines at them.
pub fn write_str(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut clean_from = 0;
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.first_chunk::<LONG>().is_some_and(is_clean) {
            at += LONG;
            continue;
        }
        if rest.first_chunk::<SHORT>().is_some_and(is_clean) {
            at += SHORT;
            continue;
        }
        let end = (at + SHORT).min(bytes.len());
        while let Some((byte, true)) = bytes.get(at).map(|byte| (*byte, at < end)) {
            if !is_suspicious(byte) {
                at += 1;
                continue;
            }
            let (escape, width) = escape(byte, bytes.get(at + 1..).unwrap_or_default());
            if width > 0 {
                out.extend_from_slice(bytes.get(clean_from..at).unwrap_or_default());
                out.extend_from_slice(escape.0.get(..escape.1).unwrap_or_default());
                clean_from = at + width;
            }
            at += width.max(1);
        }
    }
    out.extend_from_slice(bytes.get(clean_from..).unwrap_or_default());
    out.push(b'"');
}

/// Bytes that are looked at together: of a text, and of a name or an id.
const LONG: usize = 32;
const SHORT: usize = 8;

/// Whether a byte may begin something that is escaped. Without a branch, so that a block of them is a few vector
/// instructions.
const fn is_suspicious(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\') | (byte == 0xc2) | (byte == 0xe2)
}

fn is_clean<const N: usize>(block: &[u8; N]) -> bool {
    let mut found = 0;
    for byte in block {
        found |= u8::from(is_suspicious(*byte));
    }
    found == 0
}

/// The escape (its bytes and how many of them) of the character that begins with `byte`, and how wide that character
/// is; a width of 0 when it needs none.
fn escape(byte: u8, rest: &[u8]) -> (([u8; 6], usize), usize) {
    let short = |letter| (([b'\\', letter, 0, 0, 0, 0], 2), 1);
    match (byte, rest) {
        (b'"' | b'\\', _) => short(byte),
        (b'\n', _) => short(b'n'),
        (b'\r', _) => short(b'r'),
        (b'\t', _) => short(b't'),
        (0x00..=0x1f, _) => {
            let low = byte & 15;
            let letter = if low < 10 { b'0' + low } else { b'a' + low - 10 };
            (([b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), letter], 6), 1)
        }
        (0xc2, [0x85, ..]) => ((*b"\\u0085", 6), 2),
        (0xe2, [0x80, 0xa8, ..]) => ((*b"\\u2028", 6), 3),
        (0xe2, [0x80, 0xa9, ..]) => ((*b"\\u2029", 6), 3),
        _ => (([0; 6], 0), 0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        super::write_str(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn line_breaks_of_any_reader_are_escaped() {
        assert_eq!(
            written("a\u{85}b\u{2028}c\u{2029}\n\0\"\\"),
            "\"a\\u0085b\\u2028c\\u2029\\n\\u0000\\\"\\\\\""
        );
    }

    proptest! {
        #[test]
        fn reads_back_and_stays_on_one_line(text in any::<String>()) {
            let line = written(&text);
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
            let breaks = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
            prop_assert!(!line.contains(&breaks[..]));
        }
    }
}
