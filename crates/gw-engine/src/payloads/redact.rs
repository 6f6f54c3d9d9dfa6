//! Masks a body: its strings wherever they stand in the JSON, cut to a length.
//!
//! JSON is not parsed into a tree: the unmasked parts stay byte for byte.

use std::borrow::Cow;
use std::sync::Arc;

use gw_store::payloads::PayloadBody;
use gw_wire::json::{self, View};

use super::patterns::{Masks, Patterns, bytes_of, is_card_number};

/// The depth of JSON inside JSON strings, such as the arguments of a tool call.
const MAX_JSON_DEPTH: u32 = 3;
/// Bytes that are read beyond the kept length, so that no secret is cut in half.
const SLACK: usize = 4 << 10;

/// Masks bodies.
#[derive(Debug)]
pub struct Redactor {
    patterns: Arc<Patterns>,
    /// The kept bytes of a body.
    most: usize,
}

/// The state of a walk.
struct Walk {
    out: Vec<u8>,
    is_cut: bool,
    depth: u32,
}

impl Redactor {
    /// A masker that keeps at most this many bytes of a body.
    ///
    /// # Errors
    /// None: the patterns are constants that a test compiles.
    pub fn new(masks: Masks, most: usize) -> Result<Self, regex::Error> {
        Ok(Self { patterns: Arc::new(Patterns::new(masks)?), most })
    }

    /// Masks a body.
    #[must_use]
    pub fn body(&self, body: &[u8], was_cut: bool) -> PayloadBody {
        let body = String::from_utf8_lossy(body);
        let mut walk = Walk { out: Vec::with_capacity(body.len().min(self.most)), is_cut: was_cut, depth: 0 };
        if json::check(&body).is_ok() {
            self.walk(&body, &mut walk);
        } else {
            let text = self.bounded(&body, 0, &mut walk.is_cut);
            walk.out.extend_from_slice(self.patterns.text(text).as_bytes());
        }
        let mut text = String::from_utf8_lossy(&walk.out).into_owned();
        if text.len() > self.most {
            text.truncate(text.floor_char_boundary(self.most));
            walk.is_cut = true;
        }
        PayloadBody { text, is_cut: walk.is_cut }
    }

    /// Copies a JSON text, masking its strings and its numbers.
    fn walk(&self, text: &str, walk: &mut Walk) {
        let mut rest = text;
        let mut name = Cow::Borrowed("");
        while !rest.is_empty() && walk.out.len() <= self.most {
            let Some(quote) = rest.find('"') else {
                self.numbers(rest, &mut walk.out);
                return;
            };
            let (between, from) = rest.split_at(quote);
            self.numbers(between, &mut walk.out);
            let (literal, after) = from.split_at(literal_end(from));
            rest = after;
            let written = decoded(literal);
            if after.trim_start().starts_with(':') {
                put(literal, &written, &self.patterns.text(&written), &mut walk.out);
                name = written;
            } else if !self.value(&name, literal, &written, walk) {
                return;
            }
        }
        walk.is_cut |= !rest.is_empty();
    }

    /// Copies a string value; false = the bound is reached.
    fn value(&self, name: &str, literal: &str, written: &str, walk: &mut Walk) -> bool {
        let is_nested = walk.depth < MAX_JSON_DEPTH && written.trim_start().starts_with(['{', '[']);
        if is_nested && json::check(written).is_ok() {
            let mut inner = Walk { out: Vec::new(), is_cut: false, depth: walk.depth + 1 };
            self.walk(written, &mut inner);
            let masked = String::from_utf8_lossy(&inner.out);
            put(literal, written, &masked, &mut walk.out);
            walk.is_cut |= inner.is_cut;
            return !inner.is_cut;
        }
        if let Some(note) = bytes_of(name, written) {
            put(literal, written, &note, &mut walk.out);
            return true;
        }
        if written.len() <= self.most + SLACK {
            put(literal, written, &self.patterns.member(name, written), &mut walk.out);
            return true;
        }
        let mut is_cut = false;
        let start = self.bounded(written, walk.out.len(), &mut is_cut);
        put(literal, written, &self.patterns.member(name, start), &mut walk.out);
        walk.is_cut = true;
        false
    }

    /// The beginning of a text within the bound, without the rest of a cut secret.
    fn bounded<'t>(&self, text: &'t str, used: usize, is_cut: &mut bool) -> &'t str {
        let place = self.most.saturating_sub(used) + SLACK;
        if text.len() <= place {
            return text;
        }
        *is_cut = true;
        whole_words(text.get(..text.floor_char_boundary(place)).unwrap_or_default())
    }

    /// Copies the text between two strings, which may hold a card number without quotes.
    fn numbers(&self, between: &str, out: &mut Vec<u8>) {
        // A long list of numbers is a vector, so the search stops early.
        let between = between.get(..between.floor_char_boundary(self.most + 1)).unwrap_or(between);
        if !self.patterns.masks_cards() {
            out.extend_from_slice(between.as_bytes());
            return;
        }
        for piece in between.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)) {
            let number = piece.trim_end_matches(|c: char| !c.is_ascii_digit());
            if is_card_number(number) {
                out.extend_from_slice(b"\"[card]\"");
                out.extend_from_slice(piece.get(number.len()..).unwrap_or_default().as_bytes());
            } else {
                out.extend_from_slice(piece.as_bytes());
            }
        }
    }
}

/// A text that was cut, without a possible beginning of a secret, an address or a number at its end.
pub(super) fn whole_words(text: &str) -> &str {
    let tail = text.floor_char_boundary(text.len().saturating_sub(SLACK));
    let end = text.rfind(char::is_whitespace).filter(|at| *at >= tail).unwrap_or(tail);
    let text = text.get(..end).unwrap_or_default();
    text.trim_end_matches(|c: char| c.is_ascii_digit() || c.is_whitespace() || "+-()./".contains(c))
}

/// Writes a string, masked where needed.
fn put(literal: &str, written: &str, masked: &str, out: &mut Vec<u8>) {
    if masked == written {
        out.extend_from_slice(literal.as_bytes());
    } else {
        json::write_str(out, masked);
    }
}

/// The bytes of the string literal at the beginning of the text.
fn literal_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        match bytes.get(at) {
            None => return text.len(),
            Some(b'"') => return at + 1,
            // The character after a backslash is ASCII.
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// The text of a literal. Half a surrogate pair becomes U+FFFD.
fn decoded(literal: &str) -> Cow<'_, str> {
    let view = View::new(literal);
    view.string().unwrap_or_else(|| {
        let whole = without_lone_surrogates(literal);
        Cow::Owned(View::new(&whole).string().unwrap_or_default().into_owned())
    })
}

fn without_lone_surrogates(literal: &str) -> String {
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let (mut out, mut rest) = (String::with_capacity(literal.len()), literal);
    while let Some(at) = rest.find('\\') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let first = unit(from);
        let second = from.get(6..).and_then(unit);
        let (escape, width) = match (first, second) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (from.get(..12), 12),
            (Some(0xd800..=0xdfff), _) => (Some("\\ufffd"), 6),
            (Some(_), _) => (from.get(..6), 6),
            (None, _) => (from.get(..2), 2),
        };
        out.push_str(escape.unwrap_or_default());
        rest = from.get(width..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
