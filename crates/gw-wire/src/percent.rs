//! Percent-encoding of parts of URLs and of values of forms.

use std::borrow::Cow;

use crate::hex;

/// Encodes every byte that has a meaning in a URL: all but letters, digits and `-._~`.
#[must_use]
pub fn encode(text: &str) -> String {
    encode_except(text, b"")
}

/// As [`encode`], but keeps these bytes, too.
#[must_use]
pub fn encode_except(text: &str, kept: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.extend(hex::digits(byte).map(|digit| digit.to_ascii_uppercase()));
        }
    }
    encoded
}

/// Decodes each `%XX` once. None: an escape is broken, or the result is not UTF-8.
#[must_use]
pub fn decode(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.contains('%') {
        return Some(Cow::Borrowed(raw));
    }
    String::from_utf8(decode_bytes(raw)?).ok().map(Cow::Owned)
}

/// As [`decode`], but the result may be any bytes.
#[must_use]
pub fn decode_bytes(raw: &str) -> Option<Vec<u8>> {
    let mut bytes = raw.bytes();
    let mut out = Vec::with_capacity(raw.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => hex::digit(bytes.next()?)? << 4 | hex::digit(bytes.next()?)?,
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_stays_one_part_of_the_url() {
        assert_eq!(encode("a/../b?c#d é"), "a%2F..%2Fb%3Fc%23d%20%C3%A9");
        assert_eq!(encode("aZ09-._~"), "aZ09-._~");
        assert_eq!(encode_except("a b/c@d%", b"/@"), "a%20b/c@d%25");
    }

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
            let all: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            prop_assert_eq!(decode(&all).unwrap(), text.as_str());
            let some = encode(&text);
            prop_assert_eq!(decode(&some).unwrap(), text.as_str());
        }
    }
}
