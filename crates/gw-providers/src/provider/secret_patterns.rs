//! Finds the secrets of a provider in bytes, in the forms in which an upstream may repeat them.

use std::ops::Range;

use base64::Engine as _;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use gw_wire::hex;
use memchr::memmem::Finder;

/// The bits of one base64 digit.
const DIGIT_BITS: usize = 6;

/// The forms of a provider's secrets.
pub(super) struct SecretPatterns {
    patterns: Vec<SecretPattern>,
    /// The bytes of the longest text that a pattern may stand for.
    longest: usize,
    /// The bytes with which such a text may begin.
    first: Box<[bool; 256]>,
}

/// One form of a secret. A JSON escape or a percent code may stand in the place of each of its signs.
struct SecretPattern {
    bytes: Vec<u8>,
    /// The letters and digits at its beginning. No writer encodes them.
    head: Finder<'static>,
}

/// The comparison of a pattern with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    /// The pattern ends here.
    Ends(usize),
    /// The text ends within the pattern.
    Torn,
    Differs,
}

impl SecretPatterns {
    /// The patterns for these secrets: as they are, as base64 of both alphabets beside any other bytes, and as hexadecimal digits. None:
    /// there is no secret.
    pub(super) fn new(secrets: impl Iterator<Item = String>) -> Option<Self> {
        let mut forms: Vec<Vec<u8>> = secrets.filter(|secret| !secret.is_empty()).flat_map(forms).collect();
        forms.sort_unstable();
        forms.dedup();
        let patterns: Vec<_> = forms.into_iter().map(SecretPattern::new).collect();
        let longest = patterns.iter().map(SecretPattern::longest).max()?;
        let mut first = Box::new([false; 256]);
        for byte in patterns.iter().flat_map(SecretPattern::first) {
            if let Some(known) = first.get_mut(usize::from(byte)) {
                *known = true;
            }
        }
        Some(Self { patterns, longest, first })
    }

    /// The places of secrets, in their order; none touches the next.
    pub(super) fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        joined(self.patterns.iter().flat_map(|pattern| pattern.find(text)).collect())
    }

    /// The text with `mark` in the place of each secret. None: it has no secret.
    pub(super) fn replaced(&self, text: &[u8], mark: &str) -> Option<Vec<u8>> {
        marked(text, &self.find(text), mark)
    }

    /// The place at which the text may begin a secret that it does not end.
    pub(super) fn begun(&self, text: &[u8]) -> Option<usize> {
        let from = text.len().saturating_sub(self.longest);
        let tail = text.iter().enumerate().skip(from);
        let mut places = tail.filter(|(_, byte)| self.first.get(usize::from(**byte)) == Some(&true));
        places.find_map(|(at, _)| {
            let is_torn = |pattern: &SecretPattern| compare(text, at, &pattern.bytes) == Comparison::Torn;
            self.patterns.iter().any(is_torn).then_some(at)
        })
    }
}

impl SecretPattern {
    fn new(bytes: Vec<u8>) -> Self {
        let end = bytes.iter().position(|byte| !is_plain(*byte)).unwrap_or(bytes.len());
        let head = Finder::new(bytes.get(..end).unwrap_or_default()).into_owned();
        Self { bytes, head }
    }

    /// The bytes of the longest text that it stands for: an escape such as `\u002F` has six.
    fn longest(&self) -> usize {
        self.bytes.iter().map(|byte| if is_plain(*byte) { 1 } else { 6 }).sum()
    }

    /// The bytes with which a text that it stands for may begin.
    fn first(&self) -> impl Iterator<Item = u8> {
        let byte = self.bytes.first().copied();
        let escapes = byte.filter(|byte| !is_plain(*byte)).map(|_| *b"\\%");
        byte.into_iter().chain(escapes.into_iter().flatten())
    }

    fn find<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = Range<usize>> + 't {
        let mut from = 0;
        std::iter::from_fn(move || {
            loop {
                let at = from + self.next_head(text.get(from..)?)?;
                // A secret may begin within itself.
                from = at + 1;
                if let Comparison::Ends(end) = compare(text, at, &self.bytes) {
                    return Some(at..end);
                }
            }
        })
    }

    /// The next place at which it may begin.
    fn next_head(&self, text: &[u8]) -> Option<usize> {
        if self.head.needle().is_empty() {
            return memchr::memchr3(*self.bytes.first()?, b'\\', b'%', text);
        }
        self.head.find(text)
    }
}

/// These places in their order; none touches the next.
pub(super) fn joined(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_unstable_by_key(|range| range.start);
    found.dedup_by(|next, range| {
        let touches = next.start <= range.end;
        if touches {
            range.end = range.end.max(next.end);
        }
        touches
    });
    found
}

/// The text with `mark` in each of these places, which [`joined`] has put in order. None: there is no place.
pub(super) fn marked(text: &[u8], found: &[Range<usize>], mark: &str) -> Option<Vec<u8>> {
    if found.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for range in found {
        out.extend_from_slice(text.get(at..range.start).unwrap_or_default());
        out.extend_from_slice(mark.as_bytes());
        at = range.end;
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    Some(out)
}

/// Letters, digits and signs that no writer of JSON or of URLs encodes.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Compares the text from here on with a pattern.
fn compare(text: &[u8], mut at: usize, mut pattern: &[u8]) -> Comparison {
    while let Some((wanted, rest)) = pattern.split_first() {
        let Some(byte) = text.get(at) else { return Comparison::Torn };
        let is_itself = byte == wanted;
        if is_plain(*wanted) || !matches!(byte, b'\\' | b'%') {
            if !is_itself {
                return Comparison::Differs;
            }
            (at, pattern) = (at + 1, rest);
            continue;
        }
        if is_itself {
            // A backslash or a percent sign may also begin the code of itself.
            match compare(text, at + 1, rest) {
                Comparison::Differs => {}
                other => return other,
            }
        }
        match compare_code(text.get(at..).unwrap_or_default(), *wanted) {
            Comparison::Ends(length) => (at, pattern) = (at + length, rest),
            other => return other,
        }
    }
    Comparison::Ends(at)
}

/// Compares the JSON escape or the percent code at the beginning of the text with a byte. A percent code may be encoded again.
fn compare_code(text: &[u8], wanted: u8) -> Comparison {
    let code = |prefix: &[u8]| {
        let known = prefix.len().min(text.len());
        if text.get(..known) != prefix.get(..known) {
            return Comparison::Differs;
        }
        let digits = text.get(known..).unwrap_or_default().iter().take(2);
        let written = hex::encode(&[wanted]);
        let is_same =
            digits.clone().zip(written.bytes()).all(|(digit, wanted)| digit.to_ascii_lowercase() == wanted);
        match (is_same, digits.len()) {
            (false, _) => Comparison::Differs,
            (true, 2) => Comparison::Ends(known + 2),
            (true, _) => Comparison::Torn,
        }
    };
    let short = || match (text, wanted) {
        ([b'\\'], _) => Comparison::Torn,
        ([b'\\', byte, ..], b'/' | b'"' | b'\\') if *byte == wanted => Comparison::Ends(2),
        _ => Comparison::Differs,
    };
    let forms = [short(), code(b"\\u00"), code(b"%"), code(b"%25")];
    let ends = forms.into_iter().find(|form| matches!(form, Comparison::Ends(_)));
    ends.unwrap_or(if forms.contains(&Comparison::Torn) { Comparison::Torn } else { Comparison::Differs })
}

/// The secret as it is, as base64 and as hexadecimal digits.
fn forms(secret: String) -> Vec<Vec<u8>> {
    let digits = hex::encode(secret.as_bytes());
    let mut forms = vec![digits.to_ascii_uppercase().into_bytes(), digits.into_bytes()];
    for alphabet in [&STANDARD, &URL_SAFE] {
        let engine = GeneralPurpose::new(alphabet, NO_PAD);
        forms.push(engine.encode(&secret).into_bytes());
        forms.extend((0..3).map(|before| inner_digits(&secret, before, alphabet)));
    }
    forms.push(secret.into_bytes());
    forms
}

/// The base64 digits that depend on the secret alone, where so many bytes (of each three) stand before it. The user's name stands before a
/// password in the header `Authorization: Basic`.
fn inner_digits(secret: &str, before: usize, alphabet: &Alphabet) -> Vec<u8> {
    let bytes = [&vec![0; before][..], secret.as_bytes()].concat();
    let digits = GeneralPurpose::new(alphabet, NO_PAD).encode(&bytes).into_bytes();
    let start = (before * 8).div_ceil(DIGIT_BITS);
    let end = bytes.len() * 8 / DIGIT_BITS;
    digits.get(start..end).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "sk-acme/canary+one=7QyT";

    fn patterns(secrets: &[&str]) -> SecretPatterns {
        SecretPatterns::new(secrets.iter().map(ToString::to_string)).expect("secrets")
    }

    fn redacted(text: &str) -> String {
        let replaced = patterns(&[SECRET]).replaced(text.as_bytes(), "#");
        replaced.map_or_else(|| text.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    #[test]
    fn a_secret_is_found_in_each_form() {
        let base64 = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
        for form in [
            SECRET.to_owned(),
            SECRET.replace('/', "\\/"),
            SECRET.replace('+', "\\u002B").replace('=', "\\u003d"),
            SECRET.replace('/', "%2F").replace('+', "%2B").replace('=', "%3D"),
            SECRET.replace('/', "%2f").replace('+', "%2b").replace('=', "%3d"),
            SECRET.replace('/', "%252f"),
            hex::encode(SECRET.as_bytes()),
            hex::encode(SECRET.as_bytes()).to_ascii_uppercase(),
        ] {
            assert_eq!(redacted(&format!("<{form}>{form}")), "<#>#", "{form}");
        }
        for around in [("", ""), ("api:", ""), ("ab:", ":x"), ("abc:", ":xy"), ("", ":")] {
            let text = base64(format!("{}{SECRET}{}", around.0, around.1));
            let left: String = redacted(&text).chars().filter(char::is_ascii_alphanumeric).collect();
            assert!(redacted(&text).contains('#') && left.len() <= 14, "{around:?}: {}", redacted(&text));
        }
        for other in ["sk-acme/canary+one=7Qy", "sk-acme\\\\/canary+one=7QyT", "sk-acme\\u00", "%", "\\", ""]
        {
            assert_eq!(redacted(other), other);
        }
    }

    #[test]
    fn secrets_with_percent_signs_and_backslashes_are_found_too() {
        let found = |secret: &str, text: &str| {
            patterns(&[secret]).find(text.as_bytes()).first() == Some(&(0..text.len()))
        };
        for (secret, text) in [
            ("50%25off", "50%25off"),
            ("50%off!", "50%25off%21"),
            ("a\\b", "a\\b"),
            ("a\\b", "a\\\\b"),
            ("/x", "%2Fx"),
        ] {
            assert!(found(secret, text), "{secret} {text}");
        }
    }

    #[test]
    fn a_secret_that_begins_another_does_not_hide_its_end() {
        let two = patterns(&["acct-prod-key-77", "acct-prod-key-77-second-0d9f"]);
        assert_eq!(two.find(b"x acct-prod-key-77-second-0d9f acct-prod-key-77"), [2..30, 31..47]);
        assert_eq!(two.begun(b"x acct-prod-key-77-sec"), Some(2));
        assert_eq!(two.begun(b"x acct-prod-key-77 "), None);
        assert_eq!(patterns(&["aa/b"]).find(b"aaaa/b").first(), Some(&(2..6)));
    }
}
