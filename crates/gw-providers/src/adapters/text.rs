//! A JSON string that is borrowed unless it holds an escape.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A string of an answer. `Option<Cow<str>>` would always copy. A lone surrogate becomes U+FFFD instead of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::adapters) struct Text<'a>(pub(in crate::adapters) Cow<'a, str>);

/// The text of bytes, with U+FFFD for invalid UTF-8. serde_json passes on a lone surrogate as three bytes of
/// generalised UTF-8.
pub(in crate::adapters) fn repaired(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Err(fault) = std::str::from_utf8(rest) {
        let (valid, broken) = rest.split_at(fault.valid_up_to());
        out.push_str(&String::from_utf8_lossy(valid));
        out.push(char::REPLACEMENT_CHARACTER);
        let width = match broken {
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
            _ => fault.error_len().unwrap_or(broken.len()).max(1),
        };
        rest = broken.get(width..).unwrap_or_default();
    }
    out.push_str(&String::from_utf8_lossy(rest));
    out
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StringVisitor;

        impl<'de> Visitor<'de> for StringVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Text(
                    std::str::from_utf8(bytes).map_or_else(|_| Cow::Owned(repaired(bytes)), Cow::Borrowed),
                ))
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(repaired(bytes))))
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        // serde_json accepts a lone surrogate only when it reads bytes.
        deserializer.deserialize_bytes(StringVisitor)
    }
}

impl Text<'_> {
    /// The text of an optional member; "" when it is absent.
    pub(in crate::adapters) fn of<'t>(text: &'t Option<Text<'_>>) -> &'t str {
        text.as_ref().map_or("", |text| &*text.0)
    }
}

/// The text of an optional member; None when it is absent or empty.
pub(in crate::adapters) fn filled(text: Option<Text<'_>>) -> Option<Cow<'_, str>> {
    text.map(|text| text.0).filter(|text| !text.is_empty())
}
