//! JSON text without a tree: checked once, read in place, and written so that every string stays on one line in every
//! reader.

mod object_writer;
mod reader;
mod scan;
mod swar;
mod tree;
mod view;

pub use object_writer::{ObjectWriter, write_array, write_object};
pub use reader::Reader;
pub use scan::{Bounds, Checked, Extent, MAX_DEPTH, RawMember, ScanError, check, check_members, number_end};
use serde_json::value::RawValue;
pub(crate) use swar::line_prefix;
pub use tree::{Node, Tree};
pub use view::{Elements, Kind, View, ViewMembers};
pub(crate) use view::{string_end, value_end};

/// Bytes of a text up to which looking at all of it takes less than a search for the first byte that needs an escape.
const SHORT: usize = 64;

/// Writes a JSON string literal. U+0085, U+2028 and U+2029 are escaped too, because some readers of event streams split
/// lines at them.
pub fn write_str(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    // Most texts are names and ids.
    if bytes.len() <= SHORT && swar::is_printable(bytes) {
        out.extend_from_slice(bytes);
        return out.push(b'"');
    }
    // Nearly every text needs no escape.
    let (clean, rest) = bytes.split_at_checked(swar::clean_prefix(bytes)).unwrap_or((bytes, &[]));
    out.extend_from_slice(clean);
    if !rest.is_empty() {
        write_escaped_bytes(out, rest);
    }
    out.push(b'"');
}

/// Whether a text is printable ASCII that a JSON string literal holds without an escape.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    swar::is_printable(text.as_bytes())
}

/// Writes the content of a JSON string literal without its quotes, escaped as in [`write_str`].
pub(crate) fn write_escaped(out: &mut Vec<u8>, text: &str) {
    write_escaped_bytes(out, text.as_bytes());
}

/// Forwards an upstream's JSON value on one line: a raw value may be pretty-printed or hold U+2028.
pub(crate) fn write_raw(out: &mut Vec<u8>, value: &RawValue) {
    let text = value.get();
    if text.is_ascii() && !text.bytes().any(|byte| byte == b'\n' || byte == b'\r') {
        return out.extend_from_slice(text.as_bytes());
    }
    for c in text.chars() {
        match c {
            '\n' | '\r' => {}
            '\u{85}' => out.extend_from_slice(b"\\u0085"),
            '\u{2028}' => out.extend_from_slice(b"\\u2028"),
            '\u{2029}' => out.extend_from_slice(b"\\u2029"),
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

fn write_escaped_bytes(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    loop {
        let (clean, from) = rest.split_at_checked(swar::clean_prefix(rest)).unwrap_or((rest, &[]));
        out.extend_from_slice(clean);
        let Some((byte, after)) = from.split_first() else { break };
        let (escape, width) = escape(*byte, after);
        if width > 0 {
            out.extend_from_slice(escape.0.get(..escape.1).unwrap_or_default());
            rest = from.get(width..).unwrap_or_default();
        } else {
            out.push(*byte);
            rest = after;
        }
    }
}

/// The escape of the character that begins with `byte` (its bytes and their number), and the width of the character. The
/// width is 0 if the character needs no escape.
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
