//! The secrets of a provider, and their removal from what its upstream says.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use gw_wire::failure::Failure;
use http::HeaderMap;

use super::Provider;
use super::secret_patterns::SecretPatterns;

/// The shortest secret that is removed from an error. Shorter values (`none`, the name of a team) are ordinary words.
pub(super) const MIN_SECRET_BYTES: usize = 8;
/// The shortest secret that is masked in an answer. A shorter one may be a word of the answer (`not-needed`, `lm-studio`).
const MIN_MASKED_BYTES: usize = 16;
/// Parts of the names of headers and parameters whose values are secrets.
const SECRET_NAMES: [&str; 11] =
    ["access", "auth", "cookie", "credential", "hook", "key", "pass", "secret", "session", "sig", "token"];
/// The mark in the place of a secret in an error.
pub(super) const REDACTED: &str = "[redacted]";
/// A mask is as long as the secret, so that the length of the body stays.
const MASK: u8 = b'*';

/// Masks secrets in the pieces of one body. It finds one that two pieces share, so it may hold the end of a piece back.
pub struct SecretMask {
    patterns: Arc<SecretPatterns>,
    /// The end of the last piece: the beginning of a secret.
    held: Bytes,
    /// The bytes at the beginning of `held` that end a secret.
    masked: usize,
}

impl SecretMask {
    /// The next bytes of the body that may pass, for this piece of it.
    #[must_use]
    pub fn pass(&mut self, piece: Bytes) -> Bytes {
        let text = if self.held.is_empty() { piece } else { [self.take_unmasked(), piece].concat().into() };
        let until = self.patterns.begun(&text).unwrap_or(text.len());
        self.split(text, until)
    }

    /// The bytes that are held back.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// The bytes that were held back, at the end of the body.
    #[must_use]
    pub fn take_held(&mut self) -> Bytes {
        let text = self.take_unmasked();
        let until = text.len();
        self.split(text, until)
    }

    fn take_unmasked(&mut self) -> Bytes {
        std::mem::take(&mut self.held)
    }

    /// Holds the text back from `until` on. Returns the text before it, with masks.
    fn split(&mut self, mut text: Bytes, until: usize) -> Bytes {
        let mut found = self.patterns.find(&text);
        if self.masked > 0 {
            found.push(0..self.masked);
        }
        // A secret that begins before the held text ends in it.
        let end = found.iter().filter(|range| range.start < until).map(|range| range.end).max();
        self.masked = end.unwrap_or(0).saturating_sub(until);
        if until < text.len() {
            // A copy, because a few bytes would keep the memory of the piece.
            self.held = Bytes::copy_from_slice(text.get(until..).unwrap_or_default());
            text.truncate(until);
        }
        if found.is_empty() {
            return text;
        }
        let mut masked = BytesMut::from(text);
        for range in found {
            let range = range.start.min(until)..range.end.min(until);
            if let Some(secret) = masked.get_mut(range) {
                secret.fill(MASK);
            }
        }
        masked.freeze()
    }
}

impl fmt::Debug for SecretMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretMask").field("held_bytes", &self.held.len()).finish_non_exhaustive()
    }
}

impl Provider {
    /// Reads the failure of an answer with an error status, as the dialect does, without this provider's secrets.
    #[must_use]
    pub fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        // A guess of what looks like a key may replace a part of a secret, and leave the other part.
        self.censor(self.adapter().classify(status, headers, &self.censored(body)))
    }

    /// Removes this provider's secrets from an upstream's message. Some upstreams repeat the key of the call, and not
    /// every key looks like one.
    #[must_use]
    pub fn censor(&self, mut failure: Failure) -> Failure {
        let Failure { message, detail, code, reason, .. } = &mut failure;
        for text in [Some(message), detail.as_mut(), code.as_mut(), reason.as_mut()].into_iter().flatten() {
            self.censor_text(text);
        }
        failure
    }

    /// Removes this provider's secrets from a text.
    pub fn censor_text(&self, text: &mut String) {
        if let Cow::Owned(censored) = self.censored(text.as_bytes()) {
            *text = String::from_utf8_lossy(&censored).into_owned();
        }
    }

    /// The bytes without this provider's secrets.
    #[must_use]
    pub fn censored<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let patterns = match &self.signer {
            // Its credentials change. No form of a secret is shorter than the secret, so most texts need no pattern of a long token.
            Some(_) => self.error_patterns(bytes.len()),
            None => self.error_secrets.get_or_init(|| self.error_patterns(usize::MAX)).clone(),
        };
        let censored = patterns.and_then(|patterns| patterns.replaced(bytes, REDACTED));
        censored.map_or(Cow::Borrowed(bytes), Cow::Owned)
    }

    /// A mask for a body that answers a call with this provider's credentials. None: it has none.
    #[must_use]
    pub fn secret_mask(&self) -> Option<SecretMask> {
        let patterns = match &self.signer {
            Some(_) => self.body_patterns(),
            None => self.body_secrets.get_or_init(|| self.body_patterns()).clone(),
        };
        patterns.map(|patterns| SecretMask { patterns, held: Bytes::new(), masked: 0 })
    }

    /// The patterns of all that may not stand in an error of so many bytes.
    fn error_patterns(&self, most_bytes: usize) -> Option<Arc<SecretPatterns>> {
        let headers = self.headers.iter().filter_map(|(_, value)| value.to_str().ok()).map(str::to_owned);
        let secrets = self.secrets().chain(headers);
        let may_hold = |secret: &String| (MIN_SECRET_BYTES..=most_bytes).contains(&secret.len());
        SecretPatterns::new(secrets.filter(may_hold)).map(Arc::new)
    }

    /// The patterns of all that is masked in an answer.
    fn body_patterns(&self) -> Option<Arc<SecretPatterns>> {
        SecretPatterns::new(self.secrets().filter(|secret| secret.len() >= MIN_MASKED_BYTES)).map(Arc::new)
    }

    /// The keys, the current secrets of the signer, and the values of headers that are secrets by their names.
    fn secrets(&self) -> impl Iterator<Item = String> {
        let headers = self.headers.iter().filter(|(name, _)| is_secret_name(name.as_str()));
        let of_headers = headers.filter_map(|(_, value)| value.to_str().ok()).flat_map(parts_of);
        let signed = self.signer.iter().flat_map(|signer| signer.secrets());
        self.credentials.bare().map(str::to_owned).chain(of_headers).chain(signed)
    }
}

/// Whether the value of a header or of a parameter with this name is a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// The value of a header, and its parts: the token behind a scheme, the values of cookies, the name and the password of `Basic`.
pub(super) fn parts_of(value: &str) -> Vec<String> {
    let mut parts = vec![value.to_owned()];
    for word in value.split([' ', ',', ';']).filter(|word| !word.is_empty()) {
        parts.push(word.to_owned());
        parts.extend(word.split_once('=').map(|(_, value)| value.trim_matches('"').to_owned()));
        let pair = STANDARD.decode(word).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        parts.extend(
            pair.as_deref().and_then(|pair| pair.split_once(':')).map(|(_, password)| password.to_owned()),
        );
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "sk-upstream/secret+1";
    const LONGER: &str = "sk-upstream/secret+1-and-more";
    const REPEATING: &str = "abababababababab";
    /// Each digit of its hexadecimal form once; an escape has six bytes.
    const MOST_HELD: usize = 6 * 2 * LONGER.len();

    fn mask() -> SecretMask {
        let secrets = [SECRET, LONGER, REPEATING].map(str::to_owned).into_iter();
        let patterns = SecretPatterns::new(secrets).expect("secrets");
        SecretMask { patterns: Arc::new(patterns), held: Bytes::new(), masked: 0 }
    }

    fn passed<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<u8> {
        let mut mask = mask();
        let mut out: Vec<u8> = Vec::new();
        for piece in pieces {
            out.extend(mask.pass(Bytes::copy_from_slice(piece)));
            assert!(mask.held_bytes() <= MOST_HELD, "{}", mask.held_bytes());
        }
        out.extend(mask.take_held());
        out
    }

    #[test]
    fn a_secret_is_masked_with_its_length_wherever_two_pieces_meet() {
        for form in [
            SECRET.to_owned(),
            LONGER.to_owned(),
            LONGER.replace('/', "\\/"),
            SECRET.replace('/', "%2f").replace('+', "%2B"),
            STANDARD.encode(SECRET),
        ] {
            let form = form.trim_end_matches('=');
            let text = format!("{{\"a\":\"s{form}\",\"b\":\"sk-up\",\"c\":\"{form}\"}}");
            let expected = text.replace(form, &"*".repeat(form.len()));
            for cut in 0..text.len() {
                let (start, end) = text.as_bytes().split_at(cut);
                assert_eq!(String::from_utf8_lossy(&passed([start, end])), expected, "{cut}");
            }
            let bytes = text.as_bytes().chunks(1);
            assert_eq!(String::from_utf8_lossy(&passed(bytes)), expected);
        }
        let repeating = REPEATING.repeat(9);
        assert_eq!(passed(repeating.as_bytes().chunks(3)), "*".repeat(repeating.len()).into_bytes());
    }

    #[test]
    fn only_the_beginning_of_a_secret_is_held_back() {
        let mut mask = mask();
        let event = Bytes::from_static(b"data: {\"text\":\"sk-\"}\n\n");
        assert_eq!((mask.pass(event.clone()), mask.held_bytes()), (event, 0));
        let begun = mask.pass(Bytes::from_static(b"a key: sk-up"));
        assert_eq!((&begun[..], mask.held_bytes()), (&b"a key: "[..], 5));
        assert_eq!(&mask.pass(Bytes::from_static(b"per"))[..], b"sk-upper");
        assert_eq!(format!("{mask:?}"), "SecretMask { held_bytes: 0, .. }");
    }

    #[test]
    fn the_parts_of_a_header_are_known() {
        let parts = parts_of("session=abc; other=\"d\"");
        assert!(
            ["abc", "d", "session=abc"].iter().all(|part| parts.iter().any(|known| known == part)),
            "{parts:?}"
        );
        let basic = parts_of(&format!("Basic {}", STANDARD.encode("user:pass:word")));
        assert!(basic.iter().any(|part| part == "pass:word"), "{basic:?}");
        assert!(parts_of("Bearer token").contains(&"token".to_owned()));
    }

    proptest! {
        #[test]
        fn no_cut_of_a_body_shows_a_secret_or_changes_another_byte(
            parts in proptest::collection::vec(
                prop_oneof!["[a-z\\-]{0,6}", Just(SECRET.to_owned()), Just(LONGER.to_owned()), "sk-u[pq]s?", "(ab){1,12}"], 0..8,
            ),
            sizes in proptest::collection::vec(1usize..9, 1..20),
        ) {
            let text = parts.concat();
            let mut rest = text.as_bytes();
            let mut pieces = Vec::new();
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, next) = rest.split_at((*size).min(rest.len()));
                pieces.push(piece);
                rest = next;
            }
            let whole = passed([text.as_bytes()]);
            let shown = String::from_utf8_lossy(&whole);
            prop_assert!(!shown.contains(SECRET) && !shown.contains(REPEATING), "{}", shown);
            let in_pieces = passed(pieces);
            prop_assert_eq!(shown, String::from_utf8_lossy(&in_pieces));
        }
    }
}
