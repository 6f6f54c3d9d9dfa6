//! `thoughtSignature` of a part: bytes that a client sends back as they are.
//!
//! The gateway puts opaque strings into it, one a line: the signatures and encrypted thoughts that stand before the part,
//! and the signature of the part's own call. Clients decode and encode the base64 text, so only its bytes are sure to come
//! back.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// The first line of every signature that the gateway writes.
const MARK: &str = "gw";
/// The beginning of a line with a signature or with encrypted thoughts.
const DETAIL: char = 'd';
/// The beginning of the line with the signature of the part's call.
const CALL: char = 'c';

/// The longest `thoughtSignature` that is read, which is above the longest that is written.
const MAX_BYTES: usize = 32 << 20;

/// The opaque strings of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PartSeals {
    /// The signatures and encrypted thoughts that stand before the part.
    pub(super) details: Vec<String>,
    /// The signature of the part's call.
    pub(super) call: Option<String>,
}

impl PartSeals {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.details.is_empty() && self.call.is_none()
    }

    /// Bytes that the strings take.
    pub(super) fn held_bytes(&self) -> usize {
        self.details.iter().map(String::len).sum::<usize>() + self.call.as_ref().map_or(0, String::len)
    }

    /// The base64 text.
    pub(super) fn write(&self) -> String {
        let mut text = String::with_capacity(self.held_bytes() + 16);
        text.push_str(MARK);
        let lines = self.details.iter().map(|line| (DETAIL, line));
        for (kind, line) in lines.chain(self.call.iter().map(|line| (CALL, line))) {
            text.push('\n');
            text.push(kind);
            text.push_str(line);
        }
        STANDARD.encode(text)
    }

    /// Reads a `thoughtSignature`. One that the gateway did not write has no strings: it belongs to an account that the
    /// gateway does not know.
    pub(super) fn read(signature: &str) -> Self {
        Self::decode(signature).unwrap_or_default()
    }

    fn decode(signature: &str) -> Option<Self> {
        if signature.len() > MAX_BYTES {
            return None;
        }
        // Python's client writes the alphabet for URLs.
        let usual = |letter| match letter {
            b'-' => b'+',
            b'_' => b'/',
            other => other,
        };
        let letters: Vec<u8> = signature.trim_end_matches('=').bytes().map(usual).collect();
        let text = String::from_utf8(STANDARD_NO_PAD.decode(letters).ok()?).ok()?;
        let mut lines = text.split('\n');
        lines.next().filter(|mark| *mark == MARK)?;
        let mut seals = Self::default();
        for line in lines {
            let mut letters = line.chars();
            match letters.next() {
                Some(DETAIL) => seals.details.push(letters.as_str().to_owned()),
                Some(CALL) => seals.call = Some(letters.as_str().to_owned()),
                _ => {}
            }
        }
        Some(seals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_encode_the_bytes_in_either_alphabet() {
        let seals =
            PartSeals { details: vec!["gw1.ÿ>>>???".into(), "x".into()], call: Some("gw1-y".into()) };
        let written = seals.write();
        assert_eq!(PartSeals::read(&written), seals);
        let for_urls = written.replace('+', "-").replace('/', "_");
        assert_ne!(for_urls, written);
        assert_eq!(PartSeals::read(&for_urls), seals);
        assert_eq!(PartSeals::read(written.trim_end_matches('=')), seals);
    }

    #[test]
    fn a_signature_of_another_maker_has_no_strings() {
        for other in ["", "skip_thought_signature_validator", "CoMB", "Z3c", "%%%", "////"] {
            assert!(PartSeals::read(other).is_empty(), "{other}");
        }
    }
}
