//! The encryption key of a gateway. No output shows it.

use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use gw_wire::hex;
use secrecy::{ExposeSecret, ExposeSecretMut, SecretBox, SecretString};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A text that is not an encryption key. It does not hold the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a key: write 32 bytes as base64 (44 characters) or as 64 hexadecimal digits")]
pub struct KeyFormatError;

/// 32 random bytes, from which the gateway derives its keys.
#[derive(Debug)]
pub struct EncryptionKey(SecretBox<[u8; KEY_BYTES]>);

impl EncryptionKey {
    /// A key of these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; KEY_BYTES]) -> Self {
        Self(SecretBox::init_with_mut(|key: &mut [u8; KEY_BYTES]| key.copy_from_slice(bytes)))
    }

    /// A new random key. None if the system gives no random numbers.
    #[must_use]
    pub fn generate() -> Option<Self> {
        let mut bytes = SecretBox::new(Box::new([0; KEY_BYTES]));
        rand::fill(bytes.expose_secret_mut()).ok()?;
        Some(Self(bytes))
    }

    /// Reads a key from base64 or from hexadecimal digits. Blanks around it do not count.
    ///
    /// # Errors
    /// The text is neither of them, or not 32 bytes.
    pub fn parse(text: &str) -> Result<Self, KeyFormatError> {
        let text = text.trim();
        let bytes = match hex::decode(text).filter(|bytes| bytes.len() == KEY_BYTES) {
            Some(bytes) => bytes,
            None => BASE64.decode(text).map_err(|_| KeyFormatError)?,
        };
        let bytes = <&[u8; KEY_BYTES]>::try_from(bytes.as_slice()).map_err(|_| KeyFormatError)?;
        Ok(Self::from_bytes(bytes))
    }

    /// The key as base64, for the place that keeps it.
    #[must_use]
    pub fn to_base64(&self) -> SecretString {
        BASE64.encode(self.0.expose_secret()).into()
    }

    /// A key for one purpose. It says nothing about the keys of other purposes.
    pub(super) fn derived(&self, purpose: &str) -> [u8; KEY_BYTES] {
        // This is HKDF-Expand (RFC 5869) for one block. The key is random, so it needs no extraction.
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.expose_secret());
        let info = [b"model-gateway ", purpose.as_bytes(), &[1]].concat();
        let tag = hmac::sign(&key, &info);
        let mut derived = [0; KEY_BYTES];
        derived.iter_mut().zip(tag.as_ref()).for_each(|(byte, of_tag)| *byte = *of_tag);
        derived
    }
}
