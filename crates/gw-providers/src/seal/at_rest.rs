//! Seals secrets that a store keeps, such as the keys of providers. A sealed secret belongs to its row: the id of the row is
//! authenticated, so a secret that stands in another row does not open.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gw_wire::hex;
use secrecy::{ExposeSecret, SecretString};

use super::EncryptionKey;

/// The beginning of every sealed secret, with the version of the format.
const PREFIX: &str = "gws1.";

/// The most characters of a sealed secret that is opened.
const MAX_SEALED_BYTES: usize = 128 << 10;

/// The reason why a secret cannot be sealed or opened. It does not hold the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The system gives no random numbers, or the cipher refuses its key.
    #[error("the secret cannot be encrypted")]
    Unsealable,
    /// The text is damaged, belongs to another row, or is encrypted with another key.
    #[error("the secret does not open: it is damaged, stands in another row, or has another encryption key")]
    Unopenable,
}

/// Seals and opens secrets with AES-256-GCM and random nonces. The keys before rotations open what they sealed.
pub struct SecretSealer {
    current: Option<LessSafeKey>,
    previous: Vec<LessSafeKey>,
}

impl fmt::Debug for SecretSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretSealer").finish_non_exhaustive()
    }
}

impl SecretSealer {
    /// A sealer for this key. `previous` are the keys before rotations.
    #[must_use]
    pub fn new(key: &EncryptionKey, previous: &[EncryptionKey]) -> Self {
        let cipher = |key: &EncryptionKey| {
            let key = UnboundKey::new(&AES_256_GCM, &key.derived("gws1 cipher"));
            key.ok().map(LessSafeKey::new)
        };
        Self { current: cipher(key), previous: previous.iter().filter_map(cipher).collect() }
    }

    /// A random id for a new row: 32 hexadecimal digits.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new_row() -> Result<String, SecretError> {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes).map_err(|_| SecretError::Unsealable)?;
        Ok(hex::encode(&bytes))
    }

    /// Seals the secret of a row.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn seal(&self, row: &str, secret: &SecretString) -> Result<String, SecretError> {
        let cipher = self.current.as_ref().ok_or(SecretError::Unsealable)?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| SecretError::Unsealable)?;
        let mut content = secret.expose_secret().as_bytes().to_vec();
        cipher
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad(row), &mut content)
            .map_err(|_| SecretError::Unsealable)?;
        let mut sealed = PREFIX.to_owned();
        // Twelve bytes are sixteen characters without a rest, so the two parts can be encoded one after the other.
        URL_SAFE_NO_PAD.encode_string(nonce, &mut sealed);
        URL_SAFE_NO_PAD.encode_string(&content, &mut sealed);
        Ok(sealed)
    }

    /// Opens the secret of a row. The flag says whether a previous key opened it, so that it should be sealed again.
    ///
    /// # Errors
    /// The text is damaged, belongs to another row or has another key.
    pub fn open(&self, row: &str, sealed: &str) -> Result<(SecretString, bool), SecretError> {
        let encoded = sealed.strip_prefix(PREFIX).filter(|text| text.len() <= MAX_SEALED_BYTES);
        let bytes = encoded.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
        let bytes = bytes.ok_or(SecretError::Unopenable)?;
        let (nonce, content) = bytes.split_first_chunk::<NONCE_LEN>().ok_or(SecretError::Unopenable)?;
        let current = self.current.iter().map(|cipher| (cipher, false));
        for (cipher, is_old) in current.chain(self.previous.iter().map(|cipher| (cipher, true))) {
            let mut content = content.to_vec();
            let opened = cipher.open_in_place(Nonce::assume_unique_for_key(*nonce), aad(row), &mut content);
            if let Some(text) = opened.ok().and_then(|bytes| std::str::from_utf8(bytes).ok()) {
                return Ok((SecretString::from(text), is_old));
            }
        }
        Err(SecretError::Unopenable)
    }
}

/// The authenticated data: the format and the row.
fn aad(row: &str) -> Aad<Vec<u8>> {
    Aad::from([PREFIX.as_bytes(), row.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use secrecy::{ExposeSecret, SecretString};

    use super::{SecretError, SecretSealer};
    use crate::seal::{EncryptionKey, KEY_BYTES};

    fn key(byte: u8) -> EncryptionKey {
        EncryptionKey::from_bytes(&[byte; KEY_BYTES])
    }

    #[test]
    fn k03_a_secret_opens_only_in_its_row_and_with_its_key() {
        let sealer = SecretSealer::new(&key(1), &[]);
        let secret = SecretString::from("sk-provider-canary");
        let (one, two) = (sealer.seal("row-1", &secret).unwrap(), sealer.seal("row-2", &secret).unwrap());
        assert_ne!(one, sealer.seal("row-1", &secret).unwrap(), "nonces are random");
        assert!(!one.contains("canary"));
        let (opened, is_old) = sealer.open("row-1", &one).unwrap();
        assert_eq!((opened.expose_secret(), is_old), ("sk-provider-canary", false));
        // Two rows whose ciphertexts are swapped do not open.
        for (row, sealed) in [("row-1", &two), ("row-2", &one)] {
            assert_eq!(sealer.open(row, sealed).unwrap_err(), SecretError::Unopenable, "{row}");
        }
        assert_eq!(SecretSealer::new(&key(2), &[]).open("row-1", &one).unwrap_err(), SecretError::Unopenable);
        for damaged in ["", "gws1.", "gws1.AAAA", &one[..one.len() - 2], &one.replacen("gws1", "gws2", 1)] {
            assert_eq!(sealer.open("row-1", damaged).unwrap_err(), SecretError::Unopenable, "{damaged}");
        }
    }

    #[test]
    fn k03_the_previous_key_opens_what_it_sealed() {
        let sealed = SecretSealer::new(&key(1), &[]).seal("row", &"s".into()).unwrap();
        let rotated = SecretSealer::new(&key(2), &[key(3), key(1)]);
        let (secret, is_old) = rotated.open("row", &sealed).unwrap();
        assert_eq!((secret.expose_secret(), is_old), ("s", true));
        let again = rotated.seal("row", &secret).unwrap();
        assert!(!SecretSealer::new(&key(2), &[]).open("row", &again).unwrap().1);
        assert_eq!(SecretSealer::new(&key(1), &[]).open("row", &again).unwrap_err(), SecretError::Unopenable);
    }
}
