//! Seals the reasoning that providers sign or encrypt, so that only the target that gave it receives it back.
//!
//! A sealed string is `gw1.` and the base64url of a nonce of 12 bytes and the output of AES-256-GCM. It holds the
//! provider's name, the upstream model, the account's fingerprint and the payload. Clients keep it as an opaque string.
//!
//! **Sealing is deterministic**: equal content gives equal strings, so a history is the same bytes on each turn and a
//! cached answer equals the first one. The nonce is the beginning of an HMAC-SHA-256 of the content, with a key of its
//! own, as in the SIV modes (RFC 5297, RFC 8452). AES-GCM is unsafe when one nonce serves two contents. Here equal
//! nonces mean equal contents, except for a collision of 96 bits of the HMAC: after 2^32 sealed strings its probability
//! is below 2^-32, the bound of NIST SP 800-38D for random nonces. An observer learns only whether two contents are
//! equal.

mod at_rest;
mod key;
mod target;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub use self::at_rest::{SecretError, SecretSealer};
pub use self::key::{EncryptionKey, KEY_BYTES, KeyFormatError};
pub use self::target::{Issuer, OpenedSeal, ReplayTarget};

pub use gw_wire::event::SEAL_PREFIX;

/// The most bytes of a payload: a thought and a signature of the largest sizes that a stream's decoder keeps.
const MAX_PAYLOAD_BYTES: usize = 8 << 20;

/// The most characters of a sealed string that is opened.
const MAX_SEALED_BYTES: usize = 11 << 20;

/// Bytes of an account's fingerprint.
pub const FINGERPRINT_BYTES: usize = 8;

/// Seals strings with one key, and opens those of this key and of the keys before it. Cheap to clone.
#[derive(Clone)]
pub struct Sealer(Arc<SealKeys>);

struct SealKeys {
    /// None when the cipher refused its key, which a key of 32 bytes rules out. Then nothing is sealed or opened.
    cipher: Option<LessSafeKey>,
    nonces: hmac::Key,
    /// The keys before rotations. They only open.
    previous: Vec<LessSafeKey>,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").finish_non_exhaustive()
    }
}

/// The target that a sealed string belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealOrigin {
    /// The provider's name.
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// The fingerprint of the provider's account.
    pub account: [u8; FINGERPRINT_BYTES],
}

impl Sealer {
    /// A sealer for this key.
    #[must_use]
    pub fn new(key: &EncryptionKey) -> Self {
        Self::rotated(key, &[])
    }

    /// A sealer for this key that also opens what these keys have sealed: the keys before rotations.
    #[must_use]
    pub fn rotated(key: &EncryptionKey, previous: &[EncryptionKey]) -> Self {
        let nonces = hmac::Key::new(hmac::HMAC_SHA256, &key.derived("gw1 nonce"));
        let previous = previous.iter().filter_map(cipher).collect();
        Self(Arc::new(SealKeys { cipher: cipher(key), nonces, previous }))
    }

    /// A sealer whose key ends with the process.
    #[must_use]
    pub fn random() -> Self {
        match EncryptionKey::generate() {
            Some(key) => Self::new(&key),
            None => {
                let nonces = hmac::Key::new(hmac::HMAC_SHA256, &[]);
                Self(Arc::new(SealKeys { cipher: None, nonces, previous: Vec::new() }))
            }
        }
    }

    /// Seals a payload. None if it is larger than 8 MiB.
    #[must_use]
    pub fn seal(&self, origin: &SealOrigin, payload: &[u8]) -> Option<String> {
        let cipher = self.0.cipher.as_ref()?;
        if payload.len() > MAX_PAYLOAD_BYTES {
            return None;
        }
        let mut content = Vec::with_capacity(payload.len() + origin.provider.len() + origin.model.len() + 28);
        content.extend_from_slice(&origin.account);
        for name in [&origin.provider, &origin.model] {
            content.extend_from_slice(&u16::try_from(name.len()).ok()?.to_be_bytes());
            content.extend_from_slice(name.as_bytes());
        }
        content.extend_from_slice(payload);
        let digest = hmac::sign(&self.0.nonces, &content);
        let nonce = *digest.as_ref().first_chunk::<NONCE_LEN>()?;
        let aad = Aad::from(SEAL_PREFIX.as_bytes());
        cipher.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut content).ok()?;
        let mut sealed = String::with_capacity((content.len() + NONCE_LEN) * 4 / 3 + 8);
        sealed.push_str(SEAL_PREFIX);
        // Twelve bytes are sixteen characters without a rest, so the two parts can be encoded one after the other.
        URL_SAFE_NO_PAD.encode_string(nonce, &mut sealed);
        URL_SAFE_NO_PAD.encode_string(&content, &mut sealed);
        Some(sealed)
    }

    /// Opens a sealed string: the target that it belongs to, and the payload. None if this sealer did not make it.
    #[must_use]
    pub fn open(&self, sealed: &str) -> Option<(SealOrigin, Vec<u8>)> {
        let encoded = sealed.strip_prefix(SEAL_PREFIX).filter(|text| text.len() <= MAX_SEALED_BYTES)?;
        let mut bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
        let (nonce, content) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
        let content = self.decrypt(*nonce, content)?;
        let (account, rest) = content.split_first_chunk::<FINGERPRINT_BYTES>()?;
        let (provider, rest) = name(rest)?;
        let (model, payload) = name(rest)?;
        Some((SealOrigin { provider, model, account: *account }, payload.to_vec()))
    }
}

impl Sealer {
    /// Decrypts with the first key that fits. A key that does not fit leaves the content in no defined state, so each
    /// further key needs a copy.
    fn decrypt<'c>(&self, nonce: [u8; NONCE_LEN], content: &'c mut [u8]) -> Option<Cow<'c, [u8]>> {
        let open = |cipher: &LessSafeKey, content: &mut [u8]| {
            let aad = Aad::from(SEAL_PREFIX.as_bytes());
            let opened = cipher.open_in_place(Nonce::assume_unique_for_key(nonce), aad, content);
            opened.ok().map(|plain| plain.len())
        };
        let original = if self.0.previous.is_empty() { Vec::new() } else { content.to_vec() };
        if let Some(len) = open(self.0.cipher.as_ref()?, content) {
            return content.get(..len).map(Cow::Borrowed);
        }
        self.0.previous.iter().find_map(|cipher| {
            let mut copy = original.clone();
            let len = open(cipher, &mut copy)?;
            copy.truncate(len);
            Some(Cow::Owned(copy))
        })
    }
}

fn cipher(key: &EncryptionKey) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, &key.derived("gw1 cipher")).ok().map(LessSafeKey::new)
}

/// Takes a name with its length off the content.
fn name(content: &[u8]) -> Option<(String, &[u8])> {
    let (len, rest) = content.split_first_chunk::<2>()?;
    let (name, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    Some((std::str::from_utf8(name).ok()?.to_owned(), rest))
}

/// Whether a string claims to be sealed by a gateway.
#[must_use]
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(SEAL_PREFIX)
}

#[cfg(test)]
mod tests;
