//! W3C Trace Context: the header `traceparent`, and the ids of traces and spans.

use std::fmt;

/// The length of a `traceparent` of version 00.
const LENGTH: usize = 55;
/// The longest `tracestate` that is passed on. The specification asks for at least 512 characters.
const MAX_STATE_BYTES: usize = 512;

/// The id of a trace: 16 bytes, not all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

/// The id of a span: 8 bytes, not all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(u64);

/// The content of a `traceparent` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace: TraceId,
    /// The span that the receiver's spans have as their parent.
    pub span: SpanId,
    /// The sender records the trace.
    pub is_sampled: bool,
}

impl TraceId {
    /// The id made of these random bits. Zero is no id, so it becomes one.
    #[must_use]
    pub fn new(bits: u128) -> Self {
        Self(bits.max(1))
    }

    /// The 16 bytes, as OTLP has them.
    #[must_use]
    pub fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The lower 56 bits as a fraction from 0 to 1. The specification asks that they be random.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio needs fewer than 53 bits")]
    pub fn fraction(self) -> f64 {
        let bits = u64::try_from(self.0 & ((1 << 56) - 1)).unwrap_or(u64::MAX);
        bits as f64 / (1_u64 << 56) as f64
    }
}

impl SpanId {
    /// The id made of these random bits. Zero is no id, so it becomes one.
    #[must_use]
    pub fn new(bits: u64) -> Self {
        Self(bits.max(1))
    }

    /// The 8 bytes, as OTLP has them.
    #[must_use]
    pub fn bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// The id of this span's child with this number: a mixture of both, so it needs no storage and looks random.
    #[must_use]
    pub fn child(self, number: usize) -> Self {
        let mut bits = self.0 ^ (number as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self::new(bits ^ (bits >> 31))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl TraceParent {
    /// Reads a header's value. None: it is malformed, so the specification asks for a new trace.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let version = text.get(..2)?;
        let rest = text.get(LENGTH..)?;
        // Later versions may add members after another hyphen; version ff is none.
        let is_known = match version {
            "00" => rest.is_empty(),
            "ff" => false,
            _ => hex(version).is_some() && (rest.is_empty() || rest.starts_with('-')),
        };
        let hyphens = [2, 35, 52].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
        if !(is_lower && is_known && hyphens) {
            return None;
        }
        let trace = hex(text.get(3..35)?).filter(|id| *id != 0)?;
        let span = hex(text.get(36..52)?).and_then(|id| u64::try_from(id).ok()).filter(|id| *id != 0)?;
        let flags = hex(text.get(53..55)?)?;
        Some(Self { trace: TraceId(trace), span: SpanId(span), is_sampled: flags & 1 == 1 })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

/// A `tracestate` that may be passed on: at most 512 printable ASCII characters. A longer one is left out whole, because a part of
/// it may be misread.
#[must_use]
pub fn trace_state(value: &[u8]) -> Option<&str> {
    let is_plain = value.iter().all(|byte| (b' '..=b'~').contains(byte) || *byte == b'\t');
    let is_short = !value.is_empty() && value.len() <= MAX_STATE_BYTES;
    std::str::from_utf8(value).ok().filter(|_| is_plain && is_short)
}

/// Reads hexadecimal digits. A sign is not one.
fn hex(digits: &str) -> Option<u128> {
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_read_and_written() {
        let parent = TraceParent::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(parent.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parent.span.to_string(), "00f067aa0ba902b7");
        assert!(parent.is_sampled);
        assert_eq!(parent.to_string(), GOOD);
        let unsampled = GOOD.replace("-01", "-00");
        assert!(!TraceParent::parse(unsampled.as_bytes()).unwrap().is_sampled);
        // Other flags are ignored; a later version may be longer.
        assert!(TraceParent::parse(GOOD.replace("-01", "-03").as_bytes()).unwrap().is_sampled);
        assert!(TraceParent::parse(format!("cc{}-what", &GOOD[2..]).as_bytes()).is_some());
    }

    #[test]
    fn a_malformed_header_begins_a_new_trace() {
        for bad in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-001",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
            "\u{e9}0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        ] {
            assert_eq!(TraceParent::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn the_state_is_passed_on_whole_or_not_at_all() {
        assert_eq!(trace_state(b"congo=t61rcWkgMzE"), Some("congo=t61rcWkgMzE"));
        assert_eq!(trace_state(b""), None);
        assert_eq!(trace_state(b"a=\n"), None);
        assert_eq!(trace_state(&[b'a'; 513]), None);
    }

    #[test]
    fn the_children_of_a_span_differ() {
        let span = SpanId::new(7);
        let children: std::collections::HashSet<_> = (0..1000).map(|number| span.child(number)).collect();
        assert_eq!(children.len(), 1000);
        assert!(!children.contains(&span));
        assert_eq!(SpanId::new(0).to_string(), "0000000000000001");
        assert_eq!(TraceId::new(0).to_string(), "00000000000000000000000000000001");
        assert!(TraceId::new(u128::MAX).fraction() <= 1.0 && TraceId::new(1 << 56).fraction() == 0.0);
    }
}
