//! The last key of a connection. A client sends one key with all its requests, so its digest is computed once.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};

/// The longest key that is kept. A token of an issuer is never kept, because no digest of a key accepts it.
const MAX_BYTES: usize = 256;

/// The last accepted key of a connection, with its digest. The digest alone decides nothing: each request looks it up again, so a
/// revoked key is refused at once. That refusal computes no digest: it tells the client only that the connection has sent this very key before.
#[derive(Default)]
pub struct LastKey(Mutex<Option<(SecretString, [u8; 32])>>);

impl fmt::Debug for LastKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastKey").finish_non_exhaustive()
    }
}

impl LastKey {
    /// The digest of this key, if it is the last one. A proxy may send the requests of several clients on one connection, so the
    /// comparison takes as long for any text of the key's length.
    #[must_use]
    pub fn digest_of(&self, key: &str) -> Option<[u8; 32]> {
        let last = self.0.lock();
        let (last, digest) = last.as_ref()?;
        verify_slices_are_equal(last.expose_secret().as_bytes(), key.as_bytes()).ok()?;
        Some(*digest)
    }

    /// Keeps an accepted key in the place of the one before.
    pub fn keep(&self, key: &str, digest: [u8; 32]) {
        if key.len() <= MAX_BYTES {
            *self.0.lock() = Some((key.into(), digest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LastKey, MAX_BYTES};

    #[test]
    fn only_the_last_key_has_its_digest() {
        let last = LastKey::default();
        assert_eq!(last.digest_of(""), None);
        last.keep("sk-one", [1; 32]);
        for other in ["", "sk-on", "sk-one ", "sk-two", "SK-ONE"] {
            assert_eq!(last.digest_of(other), None, "{other}");
        }
        assert_eq!(last.digest_of("sk-one"), Some([1; 32]));
        last.keep("sk-two", [2; 32]);
        assert_eq!((last.digest_of("sk-one"), last.digest_of("sk-two")), (None, Some([2; 32])));
        let long = "k".repeat(MAX_BYTES + 1);
        last.keep(&long, [3; 32]);
        assert_eq!((last.digest_of(&long), last.digest_of("sk-two")), (None, Some([2; 32])));
    }

    #[test]
    fn it_prints_neither_the_key_nor_its_digest() {
        let last = LastKey::default();
        last.keep("sk-secret", [1; 32]);
        assert_eq!(format!("{last:?}"), "LastKey { .. }");
    }
}
