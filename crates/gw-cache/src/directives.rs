//! How a request uses the cache: whether it reads and writes, and how old an answer may be. The sources are
//! `cache.mode` and `cache.ttl` of the body, and the header `Cache-Control`.
//!
//! The header (RFC 9111, section 5.2.1, and RFC 5861) may contain `no-cache`, `no-store`, `max-age` and
//! `stale-if-error`. It can only restrict what the body allows. Malformed and unknown directives are ignored, because
//! an HTTP library may add a header that the user does not know of.

use std::time::Duration;

use crate::freshness::{Freshness, Lifetime, millis};

/// `cache.mode` of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Answered from the cache. A new answer is stored.
    #[default]
    ReadWrite,
    /// Answered from the cache. A new answer is not stored.
    Read,
    /// Answered by an upstream. The answer replaces the stored one.
    Write,
}

impl Mode {
    /// The names of all modes in requests.
    pub const NAMES: [&str; 3] = ["read_write", "read", "write"];

    /// The mode of a name in a request.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "read_write" => Some(Self::ReadWrite),
            "read" => Some(Self::Read),
            "write" => Some(Self::Write),
            _ => None,
        }
    }
}

/// How a request uses the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheDirectives {
    /// Whether a stored answer may be used.
    pub can_read: bool,
    /// Whether the answer may be stored.
    pub can_write: bool,
    /// The greatest age of a stored answer.
    pub max_age: Duration,
    /// How long after its time an answer may stand in for an error. None: as long as it is kept.
    pub stale_if_error: Option<Duration>,
}

impl CacheDirectives {
    /// The directives of a body.
    #[must_use]
    pub fn new(mode: Mode, ttl: Duration) -> Self {
        Self {
            can_read: mode != Mode::Write,
            can_write: mode != Mode::Read,
            max_age: ttl,
            stale_if_error: None,
        }
    }

    /// Adds the directives of a `Cache-Control` line. A request may have several lines.
    #[must_use]
    pub fn with_cache_control(mut self, value: &[u8]) -> Self {
        for (name, argument) in HeaderDirectives(value) {
            let seconds = || argument.and_then(delta_seconds);
            if name.eq_ignore_ascii_case(b"no-cache") {
                self.can_read = false;
            } else if name.eq_ignore_ascii_case(b"no-store") {
                self.can_read = false;
                self.can_write = false;
            } else if name.eq_ignore_ascii_case(b"max-age")
                && let Some(age) = seconds()
            {
                // The smaller age satisfies both. A request with age zero skips the lookup.
                self.max_age = self.max_age.min(age);
                self.can_read &= !age.is_zero();
            } else if name.eq_ignore_ascii_case(b"stale-if-error")
                && let Some(time) = seconds()
            {
                self.stale_if_error = Some(self.stale_if_error.map_or(time, |other| other.min(time)));
            }
        }
        self
    }

    /// Whether the request does not use the cache at all.
    #[must_use]
    pub fn is_bypass(&self) -> bool {
        !self.can_read && !self.can_write
    }

    /// Whether a stale answer may stand in for an error. The operator's window is part of the answer's lifetime, and
    /// the request can only narrow it.
    #[must_use]
    pub fn can_use_stale(&self, lifetime: &Lifetime, now_ms: u64) -> bool {
        if !self.can_read || lifetime.at(now_ms, self.max_age) == Freshness::Expired {
            return false;
        }
        let Some(window) = self.stale_if_error else { return true };
        let beyond_ms = lifetime.age_ms(now_ms).saturating_sub(lifetime.fresh_ms.min(millis(self.max_age)));
        beyond_ms <= millis(window)
    }
}

/// Parses whole seconds. A number that is too large counts as the largest one (RFC 9111, section 1.2.2).
fn delta_seconds(argument: &[u8]) -> Option<Duration> {
    if argument.is_empty() || !argument.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let seconds = argument
        .iter()
        .fold(0_u32, |sum, digit| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0')));
    Some(Duration::from_secs(u64::from(seconds)))
}

/// The directives of a header line: `name`, `name=token` and `name="quoted"`, separated by commas.
struct HeaderDirectives<'a>(&'a [u8]);

impl<'a> Iterator for HeaderDirectives<'a> {
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

/// The position of the comma that ends the first item, or the length of the line. A comma in quotes does not end an
/// item.
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
