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
    let mut at = clean(bytes);
    while let Some(&byte) = bytes.get(at) {
        let (escape, width): (&[u8], usize) = match byte {
            b'"' => (b"\\\"", 1),
            b'\\' => (b"\\\\", 1),
            b'\n' => (b"\\n", 1),
            b'\r' => (b"\\r", 1),
            b'\t' => (b"\\t", 1),
            0x00..=0x1f => (b"", 1),
            0xc2 if bytes.get(at + 1) == Some(&0x85) => (b"\\u0085", 2),
            0xe2 if bytes.get(at + 1) == Some(&0x80) && bytes.get(at + 2) == Some(&0xa8) => (b"\\u2028", 3),
            0xe2 if bytes.get(at + 1) == Some(&0x80) && bytes.get(at + 2) == Some(&0xa9) => (b"\\u2029", 3),
            _ => {
                at += 1;
                at += clean(bytes.get(at..).unwrap_or_default());
                continue;
            }
        };
        out.extend_from_slice(bytes.get(clean_from..at).unwrap_or_default());
        if escape.is_empty() {
            let hex = b"0123456789abcdef";
            out.extend_from_slice(b"\\u00");
            out.extend([byte >> 4, byte & 15].iter().filter_map(|nibble| hex.get(usize::from(*nibble))));
        } else {
            out.extend_from_slice(escape);
        }
        at += width;
        clean_from = at;
    }
    out.extend_from_slice(bytes.get(clean_from..).unwrap_or_default());
    out.push(b'"');
}

/// How many bytes at the front surely need no escape. Looked at in blocks without a branch inside, which the compiler
/// turns into a few vector instructions.
fn clean(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let suspicious = |block: &[u8; BLOCK]| {
        block
            .iter()
            .fold(false, |found, byte| found | (*byte < 0x20) | matches!(*byte, b'"' | b'\\' | 0xc2 | 0xe2))
    };
    blocks.iter().take_while(|block| !suspicious(block)).count() * BLOCK
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
