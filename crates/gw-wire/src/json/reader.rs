//! A forward-only reader that visits each byte of a text once, for documents that nearly always have the expected shape.
//!
//! A step returns `None` if the text is not JSON, does not have the requested shape, or has an unusual spelling. The
//! caller then reads the text with a slower reader that can report the error.

use std::borrow::Cow;

use super::scan::Scanner;
use super::view::View;

/// Levels of objects in a value that are read as objects of plain values: a usage has two.
const FLAT_LEVELS: u32 = 1;

/// Digits of the longest number that [`Reader::count`] reads.
const MAX_COUNT_DIGITS: usize = 18;

/// A position in a JSON text.
pub struct Reader<'a> {
    text: &'a str,
    scan: Scanner<'a>,
}

impl<'a> Reader<'a> {
    /// A reader at the start of the text.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text, scan: Scanner::new(text.as_bytes(), 0) }
    }

    /// A reader at the start of a text that was checked before. It passes over long strings faster.
    #[must_use]
    pub fn checked(text: &'a str) -> Self {
        let mut reader = Self::new(text);
        reader.scan.is_checked = true;
        reader
    }

    /// Reads an object. `each` is called before the value of every member and must read it.
    pub fn object(&mut self, mut each: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        let mut is_first = true;
        self.step(b'{')?;
        while !self.ends(b'}', &mut is_first)? {
            let name = self.plain_string()?;
            self.step(b':')?;
            each(self, name)?;
        }
        Some(())
    }

    /// As [`Reader::object`], for names that may hold escapes: `each` gets them decoded.
    pub fn members(&mut self, mut each: impl FnMut(&mut Self, Cow<'a, str>) -> Option<()>) -> Option<()> {
        let mut is_first = true;
        self.step(b'{')?;
        while !self.ends(b'}', &mut is_first)? {
            let name = self.string()?;
            self.step(b':')?;
            each(self, name)?;
        }
        Some(())
    }

    /// Reads an array. `each` is called before every element and must read it.
    pub fn array(&mut self, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let mut is_first = true;
        self.step(b'[')?;
        while !self.ends(b']', &mut is_first)? {
            each(self)?;
        }
        Some(())
    }

    /// Reads a string and decodes it.
    pub fn string(&mut self) -> Option<Cow<'a, str>> {
        let (start, escaped) = self.step_over_string()?;
        if escaped {
            return self.since(start)?.string();
        }
        self.text.get(start + 1..self.scan.at - 1).map(Cow::Borrowed)
    }

    /// Reads any value.
    pub fn value(&mut self) -> Option<View<'a>> {
        self.scan.space();
        let start = self.scan.at;
        match self.scan.peek() {
            Some(b'"') => {
                self.scan.string().ok()?;
            }
            Some(b'0'..=b'9') => self.scan.number().ok()?,
            Some(b'{') => self.scan.object(FLAT_LEVELS).ok()?,
            Some(first @ (b't' | b'f' | b'n')) => self.scan.scalar(Some(first)).ok()?,
            _ => self.scan.value(&mut |_, _, _| {}).ok()?,
        }
        self.since(start)
    }

    /// Reads a number of at most 18 digits and nothing else.
    pub fn count(&mut self) -> Option<u64> {
        self.scan.space();
        let rest = self.scan.rest();
        let digits = rest.iter().take(MAX_COUNT_DIGITS + 1).take_while(|byte| byte.is_ascii_digit());
        let (count, digits) = digits.fold((0_u64, 0), |(count, digits), digit| {
            // As many digits never exceed a `u64`.
            (count.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')), digits + 1)
        });
        let is_usual = match (digits, rest.first()) {
            (0, _) => false,
            (1, _) => true,
            (_, first) => digits <= MAX_COUNT_DIGITS && first != Some(&b'0'),
        };
        if !is_usual || matches!(rest.get(digits), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        self.scan.at += digits;
        Some(count)
    }

    /// Reads a null, if one comes next.
    #[inline]
    pub fn null(&mut self) -> bool {
        self.scan.space();
        self.scan.peek() == Some(b'n') && self.scan.literal(b"null").is_ok()
    }

    /// Whether a string comes next.
    pub fn is_at_string(&mut self) -> bool {
        self.scan.space();
        self.scan.peek() == Some(b'"')
    }

    /// The first byte of the next value.
    pub fn peek(&mut self) -> Option<u8> {
        self.scan.space();
        self.scan.peek()
    }

    /// Reads a string and returns its literal, and whether it holds an escape.
    pub(crate) fn string_literal(&mut self) -> Option<(View<'a>, bool)> {
        let (start, escaped) = self.step_over_string()?;
        Some((self.since(start)?, escaped))
    }

    /// Reads a value with a scanner of its own: `read` gets the text from the value on and returns what it found and the
    /// number of bytes of the value.
    pub(crate) fn with<T>(
        &mut self,
        read: impl FnOnce(&'a [u8]) -> Option<(T, usize)>,
    ) -> Option<(T, View<'a>)> {
        self.scan.space();
        let start = self.scan.at;
        let (found, len) = read(self.scan.rest())?;
        self.scan.at += len;
        Some((found, self.since(start)?))
    }

    /// The offset of the next byte.
    pub(crate) fn offset(&self) -> usize {
        self.scan.at
    }

    /// Whether only whitespace is left.
    #[must_use]
    pub fn is_at_end(&mut self) -> bool {
        self.scan.space();
        self.scan.at == self.text.len()
    }

    /// Reads a string without escapes.
    fn plain_string(&mut self) -> Option<&'a str> {
        match self.step_over_string()? {
            (start, false) => self.text.get(start + 1..self.scan.at - 1),
            (_, true) => None,
        }
    }

    /// Skips a string; returns its start and whether it holds an escape. Inlined, because an answer has a string for each of its
    /// members.
    #[inline(always)]
    fn step_over_string(&mut self) -> Option<(usize, bool)> {
        if !self.is_at_string() {
            return None;
        }
        let start = self.scan.at;
        self.scan.string().ok().map(|escaped| (start, escaped))
    }

    fn since(&self, start: usize) -> Option<View<'a>> {
        self.text.get(start..self.scan.at).map(View::exact)
    }

    #[inline]
    fn step(&mut self, byte: u8) -> Option<()> {
        self.scan.space();
        self.scan.byte(byte).then_some(())
    }

    /// Whether the container closes here. If not, skips the comma before its next element.
    #[inline]
    fn ends(&mut self, close: u8, is_first: &mut bool) -> Option<bool> {
        self.scan.space();
        if self.scan.byte(close) {
            return Some(true);
        }
        if !std::mem::replace(is_first, false) {
            self.step(b',')?;
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::Reader;

    /// Reads any value with all its members and elements.
    fn walk(reader: &mut Reader<'_>) -> Option<()> {
        if reader.null() {
            return Some(());
        }
        if reader.is_at_string() {
            return reader.string().map(drop);
        }
        match reader.scan.peek()? {
            b'{' => reader.object(|reader, _| walk(reader)),
            b'[' => reader.array(walk),
            _ => reader.value().map(drop),
        }
    }

    fn is_read(text: &str) -> bool {
        let mut reader = Reader::new(text);
        walk(&mut reader).is_some() && reader.is_at_end()
    }

    #[test]
    fn members_and_elements_come_in_order() {
        let mut reader =
            Reader::new(" { \"a\" : [ \"x\" , \"\\n\" ] , \"b\" : { } , \"c\" :-1.5 , \"d\": null } ");
        let mut seen = Vec::new();
        let read = reader.object(|reader, name| {
            seen.push(name.to_owned());
            match name {
                "a" => reader.array(|reader| reader.string().map(|text| seen.push(text.into_owned()))),
                "d" => reader.null().then_some(()),
                _ => reader.value().map(|value| seen.push(value.text().to_owned())),
            }
        });
        assert!(read.is_some() && reader.is_at_end());
        assert_eq!(seen, ["a", "x", "\n", "b", "{ }", "c", "-1.5", "d"]);
    }

    #[test]
    fn names_are_decoded_by_members() {
        let mut reader = Reader::new(r#" {"\u0061\n": 1, "b": [2]}"#);
        let mut seen = Vec::new();
        let read = reader.members(|reader, name| {
            seen.push((name.into_owned(), reader.peek()));
            reader.value().map(drop)
        });
        assert!(read.is_some() && reader.is_at_end());
        assert_eq!(seen, [("a\n".to_owned(), Some(b'1')), ("b".to_owned(), Some(b'['))]);
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
        for text in [
            "",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{,}",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{}x",
            "{a:1}",
            "nul",
        ] {
            assert!(!is_read(text), "{text}");
        }
    }

    #[test]
    fn a_count_is_a_number_of_digits_alone() {
        for (text, count) in [
            ("0", Some(0)),
            (" 10 ", Some(10)),
            ("999999999999999999", Some(999_999_999_999_999_999)),
            ("1000000000000000000", None),
            ("01", None),
            ("00", None),
            ("1.0", None),
            ("1e2", None),
            ("1E2", None),
            ("-1", None),
            ("\"1\"", None),
            ("null", None),
            ("", None),
        ] {
            let mut reader = Reader::new(text);
            assert_eq!(reader.count().filter(|_| reader.is_at_end()), count, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_count_is_what_a_number_parses_to(text in "[0-9.eE+-]{1,20}") {
            let mut reader = Reader::new(&text);
            let count = reader.count().filter(|_| reader.is_at_end());
            let mut scanned = Reader::new(&text);
            let parsed = scanned.value().filter(|_| scanned.is_at_end()).and_then(|value| value.text().parse().ok());
            prop_assert_eq!(count, parsed.filter(|count: &u64| *count < 10_u64.pow(18)));
        }

        #[test]
        fn a_checked_text_is_read_alike(text in any::<String>(), name in "[a-z\"\\\\]{0,40}") {
            let json = serde_json::json!({ name: [&text, &text], "x": text }).to_string();
            let mut reader = Reader::checked(&json);
            let mut read = Vec::new();
            let is_read = reader.members(|reader, name| {
                read.push(name);
                match reader.peek()? {
                    b'[' => reader.array(|reader| reader.string().map(|text| read.push(text))),
                    _ => reader.string().map(|text| read.push(text)),
                }
            });
            prop_assert!(is_read.is_some() && reader.is_at_end());
            let value: Value = serde_json::from_str(&json).unwrap();
            let expected = value.as_object().unwrap().iter().flat_map(|(name, value)| {
                let texts = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                std::iter::once(name.as_str()).chain(texts.iter().filter_map(Value::as_str))
            });
            prop_assert_eq!(read, expected.collect::<Vec<_>>());
        }

        #[test]
        fn the_reader_accepts_only_valid_json(text in "[\\[\\]{}\",:0-9\\\\ ntrue\n-]{0,16}") {
            if is_read(&text) {
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
            }
        }
    }
}
