//! A text without the escapes of JSON, of URLs and of HTML, for a search that finds a value in any of them.

use std::ops::Range;

use gw_wire::hex;

/// The bytes of the longest HTML escape that is read: `&#x0000002f;`.
const MAX_HTML_BYTES: usize = 12;

/// A text with one byte in the place of each escape.
pub(super) struct Unescaped {
    pub(super) bytes: Vec<u8>,
    /// The place in the text where each byte begins, and where the last one ends.
    places: Vec<usize>,
}

impl Unescaped {
    /// None: the text has no escape.
    pub(super) fn of(text: &[u8]) -> Option<Self> {
        memchr::memchr3(b'%', b'\\', b'&', text)?;
        let (mut bytes, mut places) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len() + 1));
        let mut at = 0;
        while let Some((first, rest)) = text.get(at..).and_then(<[u8]>::split_first) {
            let (byte, length) = escape(*first, rest).unwrap_or((*first, 1));
            bytes.push(byte);
            places.push(at);
            at += length;
        }
        places.push(at);
        (bytes.len() < text.len()).then_some(Self { bytes, places })
    }

    /// The place of these bytes in the text.
    pub(super) fn place(&self, Range { start, end }: Range<usize>) -> Option<Range<usize>> {
        Some(*self.places.get(start)?..*self.places.get(end)?)
    }
}

/// The byte of an escape that begins with `first`, and the escape's length.
fn escape(first: u8, rest: &[u8]) -> Option<(u8, usize)> {
    match (first, rest) {
        (b'%', [high, low, ..]) => Some((hex::digit(*high)? << 4 | hex::digit(*low)?, 3)),
        (b'\\', [b'u', digits @ ..]) => Some((ascii(digits.get(..4)?, 16)?, 6)),
        (b'\\', [byte @ (b'/' | b'"' | b'\\'), ..]) => Some((*byte, 2)),
        (b'&', name) => {
            let length = name.iter().take(MAX_HTML_BYTES - 1).position(|byte| *byte == b';')?;
            let byte = match name.get(..length)? {
                b"amp" => b'&',
                b"lt" => b'<',
                b"gt" => b'>',
                b"quot" => b'"',
                b"apos" => b'\'',
                [b'#', b'x' | b'X', digits @ ..] => ascii(digits, 16)?,
                [b'#', digits @ ..] => ascii(digits, 10)?,
                _ => return None,
            };
            Some((byte, length + 2))
        }
        _ => None,
    }
}

/// The character of ASCII with this number.
fn ascii(digits: &[u8], radix: u32) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok()?;
    u8::from_str_radix(digits, radix).ok().filter(u8::is_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unescaped(text: &str) -> String {
        let unescaped = Unescaped::of(text.as_bytes()).expect("an escape");
        String::from_utf8_lossy(&unescaped.bytes).into_owned()
    }

    #[test]
    fn escapes_of_json_of_urls_and_of_html_are_read_once() {
        for (text, read) in [
            ("a%2fb%2Fc%2B", "a/b/c+"),
            ("a\\/b\\u002fc\\u002B\\\"\\\\", "a/b/c+\"\\"),
            ("a&#x2F;b&#47;c&#043;&#X3d;", "a/b/c+="),
            ("&amp;&lt;&gt;&quot;&apos;", "&<>\"'"),
            ("%252F &amp;#47; \\\\/", "%2F &#47; \\/"),
            // The end stays as it is.
            ("%2F%", "/%"),
            ("%2F%2", "/%2"),
            ("%2F\\", "/\\"),
            ("%2F\\u00", "/\\u00"),
            ("%2F&", "/&"),
            ("%2F&amp", "/&amp"),
        ] {
            assert_eq!(unescaped(text), read, "{text}");
        }
    }

    #[test]
    fn other_texts_have_no_escape() {
        for text in ["", "a", "100% \\n &nbsp; &#; &#x; &#8364; \\u20ac %zz &toolongforanescape;"] {
            assert!(Unescaped::of(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn the_place_of_some_bytes_has_their_escapes() {
        let text = "a&amp;b%2fc";
        let unescaped = Unescaped::of(text.as_bytes()).expect("escapes");
        let place = |range| unescaped.place(range).and_then(|place| text.get(place));
        assert_eq!(place(0..5), Some(text));
        assert_eq!(place(1..2), Some("&amp;"));
        assert_eq!(place(2..4), Some("b%2f"));
        assert_eq!(place(4..5), Some("c"));
        assert_eq!(place(4..6), None);
    }
}
