//! A value inside a JSON text, read in place: members and elements are found by scanning, and nothing is copied.
//!
//! Views are meant for text that `check` accepted. For any other text the results are unspecified, but a view never panics
//! and never loops for ever.

use std::borrow::Cow;

use super::scan::{Extent, extent};
use super::swar::checked_prefix;

/// One JSON value inside a checked text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    text: &'a str,
}

/// The kind of a value as it is written: `1.0` and `1e2` are decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of JSON")]
pub enum Kind {
    Null,
    Boolean,
    Integer,
    Decimal,
    String,
    Array,
    Object,
}

impl<'a> View<'a> {
    /// The value of this text; surrounding whitespace is trimmed.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text: text.trim_matches([' ', '\n', '\r', '\t']) }
    }

    /// The value of this text, which has no surrounding whitespace.
    pub(crate) fn exact(text: &'a str) -> Self {
        Self { text }
    }

    /// The value's JSON text.
    #[must_use]
    pub fn text(self) -> &'a str {
        self.text
    }

    /// The kind of the value.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self.text.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'0'..=b'9' | b'-') if !self.text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => {
                Kind::Integer
            }
            Some(b'0'..=b'9' | b'-') => Kind::Decimal,
            _ => Kind::Null,
        }
    }

    /// The decoded string; `None` for another kind, or a string that is not Unicode.
    #[must_use]
    pub fn string(self) -> Option<Cow<'a, str>> {
        let [b'"', inner @ .., b'"'] = self.text.as_bytes() else { return None };
        // Every quote inside the string follows a backslash.
        if checked_prefix(inner) == inner.len() {
            return self.text.get(1..=inner.len()).map(Cow::Borrowed);
        }
        serde_json::from_str(self.text).ok().map(Cow::Owned)
    }

    /// The number of bytes of the decoded string, counted without decoding it; 0 for another kind.
    #[must_use]
    pub fn string_len(self) -> usize {
        if self.kind() != Kind::String {
            return 0;
        }
        let mut rest = self.text.as_bytes();
        let mut len = rest.len().saturating_sub(2);
        while let Some(at) = memchr::memchr(b'\\', rest) {
            let tail = rest.get(at..).unwrap_or_default();
            let (written, decoded) = match tail.get(1) {
                Some(b'u') => (6, escaped_width(tail)),
                _ => (2, 1),
            };
            len = (len + decoded).saturating_sub(written);
            rest = tail.get(written..).unwrap_or_default();
        }
        len
    }

    /// The members in order, as name literal and value; none for another kind.
    #[must_use]
    pub fn members(self) -> ViewMembers<'a> {
        ViewMembers { walk: Walk::into_container(self.text, b'{') }
    }

    /// The elements in order; none for another kind.
    #[must_use]
    pub fn elements(self) -> Elements<'a> {
        Elements { walk: Walk::into_container(self.text, b'[') }
    }

    /// The members with these names, all found in one pass. Of members with the same name the last one counts, and null
    /// counts as absent.
    #[must_use]
    pub fn pick<const N: usize>(self, names: [&str; N]) -> [Option<Self>; N] {
        let mut found = [None; N];
        for (literal, value) in self.members() {
            let Some(name) = literal.string() else { continue };
            if let Some((_, place)) = names.iter().zip(&mut found).find(|(known, _)| *name == ***known) {
                *place = Some(value);
            }
        }
        found.map(|value| value.filter(|value: &Self| value.kind() != Kind::Null))
    }

    /// The size of the value.
    #[must_use]
    pub fn extent(self) -> Extent {
        extent(self.text)
    }

    /// Whether the value is an array without elements.
    #[must_use]
    pub fn is_empty_array(self) -> bool {
        self.kind() == Kind::Array && self.elements().next().is_none()
    }
}

/// UTF-8 bytes of a `\uXXXX`. Each half of a surrogate pair counts as two of the pair's four bytes.
fn escaped_width(escape: &[u8]) -> usize {
    let digits = escape.get(2..6).unwrap_or_default();
    let unit = digits.iter().fold(0, |unit, digit| unit << 4 | char::from(*digit).to_digit(16).unwrap_or(0));
    match unit {
        0..=0x7f => 1,
        0x80..=0x7ff | 0xd800..=0xdfff => 2,
        _ => 3,
    }
}

/// Iterates over an object's members.
#[derive(Clone, Debug)]
pub struct ViewMembers<'a> {
    walk: Walk<'a>,
}

impl<'a> Iterator for ViewMembers<'a> {
    type Item = (View<'a>, View<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.walk.value()?;
        let value = self.walk.value()?;
        Some((name, value))
    }
}

/// Iterates over an array's elements.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    walk: Walk<'a>,
}

impl<'a> Elements<'a> {
    /// The text from the next element on, for a reader of its own.
    pub(crate) fn rest(&mut self) -> &'a str {
        self.walk.separators();
        self.walk.text.get(self.walk.at..).unwrap_or_default()
    }

    /// Moves past an element of this many bytes, at which [`Elements::rest`] begins.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.walk.at = self.walk.at.saturating_add(bytes);
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = View<'a>;

    fn next(&mut self) -> Option<View<'a>> {
        self.walk.value()
    }
}

#[derive(Clone, Debug)]
struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    fn into_container(text: &'a str, open: u8) -> Self {
        let at = if text.as_bytes().first() == Some(&open) { 1 } else { text.len() };
        Self { text, at }
    }

    /// Separators were checked before, so they are only skipped.
    fn separators(&mut self) {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t' | b',' | b':')) {
            self.at += 1;
        }
    }

    /// The next value.
    fn value(&mut self) -> Option<View<'a>> {
        self.separators();
        let bytes = self.text.as_bytes();
        let start = self.at;
        let end = value_end(bytes, start);
        if end <= start {
            self.at = bytes.len();
            return None;
        }
        self.at = end;
        self.text.get(start..end).map(|text| View { text })
    }
}

/// The end of the value at `at`; `at` itself if no value begins there.
pub(crate) fn value_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => string_end(bytes, at),
        Some(b'{' | b'[') => container_end(bytes, at),
        _ => {
            let rest = bytes.get(at..).unwrap_or_default();
            let ends = |byte: &u8| matches!(byte, b',' | b':' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
            at + rest.iter().position(ends).unwrap_or(rest.len())
        }
    }
}

/// The end of the string that begins at `at`.
pub(crate) fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    loop {
        at += checked_prefix(bytes.get(at..).unwrap_or_default());
        match bytes.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return bytes.len(),
        }
    }
}

fn container_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at;
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests;
