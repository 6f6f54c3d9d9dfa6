//! Percent-decoding of a part of a path.

use std::borrow::Cow;

/// Decodes each `%XX` once. None: an escape is broken, or the result is not UTF-8.
pub(crate) fn decode(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.contains('%') {
        return Some(Cow::Borrowed(raw));
    }
    let mut bytes = raw.bytes();
    let mut out = Vec::with_capacity(raw.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            other => other,
        });
    }
    String::from_utf8(out).ok().map(Cow::Owned)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decodes_once_and_only_whole_utf8() {
        for (raw, read) in [
            ("acme/fast", Some("acme/fast")),
            ("acme%2Ffast", Some("acme/fast")),
            ("acme%2ffast", Some("acme/fast")),
            ("acme%252Ffast", Some("acme%2Ffast")),
            ("%E2%82%AC", Some("€")),
            ("%00", Some("\0")),
            ("a+b", Some("a+b")),
            ("%ff", None),
            ("%", None),
            ("%4", None),
            ("%zz", None),
            ("%+1", None),
        ] {
            assert_eq!(decode(raw).as_deref(), read, "{raw}");
        }
    }

    proptest! {
        #[test]
        fn any_text_survives_being_encoded(text in any::<String>()) {
            let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            prop_assert_eq!(decode(&encoded).unwrap(), text);
        }
    }
}
