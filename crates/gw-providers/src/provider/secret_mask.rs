//! Masks the credentials of a provider in an answer that passes through as it comes.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;

use super::Provider;
use super::secret_forms::secret_forms;

/// The shortest secret that is masked. A shorter one may be an ordinary word of an answer (`not-needed`, `lm-studio`).
const MIN_SECRET_BYTES: usize = 16;
/// Parts of the names of headers whose configured values are secrets.
const SECRET_NAMES: [&str; 7] = ["auth", "cookie", "credential", "key", "password", "secret", "token"];
/// A mask is as long as the secret, so that the length of the body stays.
const MASK: u8 = b'*';

/// The forms of a provider's credentials.
pub(super) struct SecretFinders {
    forms: Vec<Finder<'static>>,
    longest: usize,
    /// The bytes with which a form begins.
    first: [bool; 256],
}

/// Masks credentials in the pieces of one body. It finds one that two pieces share, so it may hold the end of a piece back.
pub struct SecretMask {
    finders: Arc<SecretFinders>,
    /// The end of the last piece: the beginning of a form.
    held: Bytes,
}

impl SecretFinders {
    /// The finders for these secrets. None: there is none.
    fn new(secrets: impl Iterator<Item = String>) -> Option<Self> {
        let long_enough = secrets.filter(|secret| secret.len() >= MIN_SECRET_BYTES);
        let mut forms: Vec<String> = long_enough.flat_map(secret_forms).collect();
        // The padding alone tells nothing.
        forms.iter_mut().for_each(|form| form.truncate(form.trim_end_matches('=').len()));
        forms.sort_unstable();
        forms.dedup();
        let longest = forms.iter().map(String::len).max()?;
        let mut first = [false; 256];
        for byte in forms.iter().filter_map(|form| form.bytes().next()) {
            if let Some(known) = first.get_mut(usize::from(byte)) {
                *known = true;
            }
        }
        let forms = forms.iter().map(|form| Finder::new(form).into_owned()).collect();
        Some(Self { forms, longest, first })
    }

    /// The text with masks, and the end of the last one. None: it holds no form.
    fn masked(&self, text: &[u8]) -> Option<(BytesMut, usize)> {
        let mut masked: Option<BytesMut> = None;
        let mut end = 0;
        for form in &self.forms {
            for at in form.find_iter(text) {
                let range = at..at + form.needle().len();
                end = end.max(range.end);
                let masked = masked.get_or_insert_with(|| BytesMut::from(text));
                if let Some(secret) = masked.get_mut(range) {
                    secret.fill(MASK);
                }
            }
        }
        Some((masked?, end))
    }

    /// The place at which the text may begin a form that it does not end.
    fn begun(&self, text: &[u8]) -> Option<usize> {
        let from = text.len().saturating_sub(self.longest - 1);
        (from..text.len()).find(|&at| {
            let rest = text.get(at..).unwrap_or_default();
            let is_first = rest.first().is_some_and(|byte| self.first.get(usize::from(*byte)) == Some(&true));
            is_first && self.forms.iter().any(|form| form.needle().starts_with(rest))
        })
    }
}

impl SecretMask {
    /// The next bytes of the body that may pass, for this piece of it.
    #[must_use]
    pub fn pass(&mut self, piece: Bytes) -> Bytes {
        let mut text = if self.held.is_empty() {
            piece
        } else {
            Bytes::from([std::mem::take(&mut self.held), piece].concat())
        };
        let begun = self.finders.begun(&text);
        let masked = self.finders.masked(&text);
        let masked_end = masked.as_ref().map_or(0, |(_, end)| *end);
        if let Some((masked, _)) = masked {
            text = masked.freeze();
        }
        if let Some(begun) = begun.map(|at| at.max(masked_end)) {
            // A copy, because a few bytes would keep the memory of the piece.
            self.held = Bytes::copy_from_slice(text.get(begun..).unwrap_or_default());
            text.truncate(begun);
        }
        text
    }

    /// The bytes that are held back.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// The bytes that were held back, at the end of the body.
    #[must_use]
    pub fn take_held(&mut self) -> Bytes {
        std::mem::take(&mut self.held)
    }
}

impl fmt::Debug for SecretMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretMask").field("held_bytes", &self.held.len()).finish_non_exhaustive()
    }
}

impl Provider {
    /// A mask for a body that answers a call with this provider's credentials. None: it has none.
    #[must_use]
    pub fn secret_mask(&self) -> Option<SecretMask> {
        let finders = match &self.signer {
            // Its credentials change.
            Some(signer) => self.finders(signer.secrets()).map(Arc::new),
            None => self.secret_finders.get_or_init(|| self.finders(Vec::new()).map(Arc::new)).clone(),
        };
        finders.map(|finders| SecretMask { finders, held: Bytes::new() })
    }

    fn finders(&self, signed: Vec<String>) -> Option<SecretFinders> {
        let is_secret = |name: &str| SECRET_NAMES.iter().any(|part| name.contains(part));
        let headers = self.headers.iter().filter(|(name, _)| is_secret(name.as_str()));
        // A scheme may stand before the secret.
        let headers = headers.filter_map(|(_, value)| value.to_str().ok()?.rsplit(' ').next());
        let known = self.credentials.bare().chain(headers).map(str::to_owned);
        SecretFinders::new(known.chain(signed))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "sk-upstream-secret-1";

    fn mask() -> SecretMask {
        let finders =
            SecretFinders::new([SECRET, "abababababababab", "too-short"].map(str::to_owned).into_iter());
        SecretMask { finders: Arc::new(finders.expect("secrets")), held: Bytes::new() }
    }

    fn passed<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<u8> {
        let mut mask = mask();
        let mut out: Vec<u8> = Vec::new();
        for piece in pieces {
            out.extend(mask.pass(Bytes::copy_from_slice(piece)));
        }
        out.extend(mask.take_held());
        out
    }

    #[test]
    fn every_form_is_masked_with_its_length_wherever_two_pieces_meet() {
        for form in secret_forms(SECRET.to_owned()) {
            let form = form.trim_end_matches('=');
            let text = format!("{{\"a\":\"s{form}\",\"b\":\"sk-up\",\"c\":\"{form}{form}\"}}");
            let expected = text.replace(form, &"*".repeat(form.len()));
            for cut in 0..text.len() {
                let (start, end) = text.as_bytes().split_at(cut);
                assert_eq!(String::from_utf8_lossy(&passed([start, end])), expected, "{cut}");
            }
            let bytes = text.as_bytes().chunks(1);
            assert_eq!(String::from_utf8_lossy(&passed(bytes)), expected);
        }
    }

    #[test]
    fn only_the_beginning_of_a_form_is_held_back() {
        let mut mask = mask();
        let event = Bytes::from_static(b"data: {\"text\":\"sk-\"}\n\n");
        assert_eq!((mask.pass(event.clone()), mask.held_bytes()), (event, 0));
        assert_eq!(
            (&mask.pass(Bytes::from_static(b"a key: sk-up"))[..], mask.held_bytes()),
            (&b"a key: "[..], 5)
        );
        assert_eq!(&mask.pass(Bytes::from_static(b"per"))[..], b"sk-upper");
        assert_eq!(format!("{mask:?}"), "SecretMask { held_bytes: 0, .. }");
    }

    proptest! {
        #[test]
        fn no_cut_of_a_body_shows_a_secret_or_changes_another_byte(
            parts in proptest::collection::vec(prop_oneof!["[a-z\\-]{0,6}", Just(SECRET.to_owned()), "sk-u[pq]s?"], 0..8),
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
            let out = passed(pieces);
            prop_assert_eq!(String::from_utf8_lossy(&out), text.replace(SECRET, &"*".repeat(SECRET.len())));
        }
    }
}
