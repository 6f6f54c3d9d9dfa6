//! A JSON string that is borrowed where it holds no escape.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A string of an answer. `Option<Cow<str>>` would always copy. A lone surrogate becomes U+FFFD instead of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::adapters) struct Text<'a>(pub(in crate::adapters) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Text(String::from_utf8_lossy(bytes)))
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(String::from_utf8_lossy(bytes).into_owned())))
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        // As bytes, because only then serde_json lets a lone surrogate pass.
        deserializer.deserialize_bytes(Words)
    }
}

impl Text<'_> {
    /// The text of an optional member, "" when it is absent.
    pub(in crate::adapters) fn of<'t>(text: &'t Option<Text<'_>>) -> &'t str {
        text.as_ref().map_or("", |text| &*text.0)
    }
}

/// The text of an optional member, when it is not empty.
pub(in crate::adapters) fn filled(text: Option<Text<'_>>) -> Option<Cow<'_, str>> {
    text.map(|text| text.0).filter(|text| !text.is_empty())
}
