//! What a request wants of the cache: to read from it, to write to it, and how old an answer may be. From `cache.mode` and
//! `cache.ttl` of the body and from the header `Cache-Control`.
//!
//! Of the header (RFC 9111, 5.2.1, and RFC 5861) `no-cache`, `no-store`, `max-age` and `stale-if-error` are heard. It only ever
//! asks for less than the body does. What is not well-formed is passed over, and so are directives that we do not know: a header
//! that some HTTP library added must not fail a request.

use std::time::Duration;

use crate::life::{Freshness, Life, millis};

/// `cache.mode` of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Answered from the cache, and kept in it.
    #[default]
    ReadWrite,
    /// Answered from the cache; a new answer is not kept.
    Read,
    /// Answered anew, and kept in place of what was there.
    Write,
}

impl Mode {
    /// All spellings.
    pub const NAMES: [&str; 3] = ["read_write", "read", "write"];

    /// From its spelling in a request.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        match name {
            "read_write" => Some(Self::ReadWrite),
            "read" => Some(Self::Read),
            "write" => Some(Self::Write),
            _ => None,
        }
    }
}

/// What a request wants of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// A kept answer will do.
    pub reads: bool,
    /// The answer may be kept.
    pub writes: bool,
    /// How old a kept answer may be.
    pub max_age: Duration,
    /// How long beyond its time an answer may be used in place of an error; None: as long as it is kept.
    pub stale_if_error: Option<Duration>,
}

impl Wish {
    /// Of a request whose body says this.
    #[must_use]
    pub fn new(mode: Mode, ttl: Duration) -> Self {
        Self { reads: mode != Mode::Write, writes: mode != Mode::Read, max_age: ttl, stale_if_error: None }
    }

    /// With what a header line `Cache-Control` asks for besides. There may be several lines.
    #[must_use]
    pub fn with_cache_control(mut self, value: &[u8]) -> Self {
        for (name, argument) in Directives(value) {
            let seconds = || argument.and_then(delta_seconds);
            if name.eq_ignore_ascii_case(b"no-cache") {
                self.reads = false;
            } else if name.eq_ignore_ascii_case(b"no-store") {
                self.reads = false;
                self.writes = false;
            } else if name.eq_ignore_ascii_case(b"max-age")
                && let Some(age) = seconds()
            {
                // Of two ages the smaller is what both allow. What takes no age at all is not looked for.
                self.max_age = self.max_age.min(age);
                self.reads &= !age.is_zero();
            } else if name.eq_ignore_ascii_case(b"stale-if-error")
                && let Some(time) = seconds()
            {
                self.stale_if_error = Some(self.stale_if_error.map_or(time, |other| other.min(time)));
            }
        }
        self
    }

    /// Neither reads nor writes: as if it had not asked.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        !self.reads && !self.writes
    }

    /// Whether an answer that is too old may be used, now that no upstream answers. The operator's window is in the answer's
    /// own life; the request can narrow it.
    #[must_use]
    pub fn takes_stale(&self, life: &Life, now_ms: u64) -> bool {
        if !self.reads || life.at(now_ms, self.max_age) == Freshness::Dead {
            return false;
        }
        let Some(window) = self.stale_if_error else { return true };
        let beyond_ms = life.age_ms(now_ms).saturating_sub(life.fresh_ms.min(millis(self.max_age)));
        beyond_ms <= millis(window)
    }
}

/// Whole seconds; more than there can be are as many as there can be (RFC 9111, 1.2.2).
fn delta_seconds(argument: &[u8]) -> Option<Duration> {
    if argument.is_empty() || !argument.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let seconds = argument
        .iter()
        .fold(0_u32, |sum, digit| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0')));
    Some(Duration::from_secs(u64::from(seconds)))
}

/// `name`, `name=token` and `name="quoted"` between commas.
struct Directives<'a>(&'a [u8]);

impl<'a> Iterator for Directives<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.0.is_empty() {
            let end = end_of_item(self.0);
            let item = self.0.get(..end).unwrap_or_default().trim_ascii();
            self.0 = self.0.get(end + 1..).unwrap_or_default();
            if item.is_empty() {
                continue;
            }
            let Some(equals) = item.iter().position(|byte| *byte == b'=') else { return Some((item, None)) };
            let (name, argument) = item.split_at(equals);
            let argument = argument.get(1..).unwrap_or_default();
            let unquoted = argument.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
            return Some((name, Some(unquoted.unwrap_or(argument))));
        }
        None
    }
}

/// Where the comma stands that ends the first item, or the end: commas in quotes end nothing.
fn end_of_item(bytes: &[u8]) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => return at,
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests;
