//! The signature of Standard Webhooks: HMAC-SHA256 over the id, the time and the body.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The beginning of a secret.
const PREFIX: &str = "whsec_";

/// The key of signatures.
pub(crate) struct SigningKey(hmac::Key);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").finish_non_exhaustive()
    }
}

/// The bytes of a secret. None: it is not `whsec_` and base64.
fn decode(secret: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()?;
    (!bytes.is_empty()).then_some(bytes)
}

/// Whether a secret is `whsec_` and base64.
#[must_use]
pub fn is_signing_secret(secret: &str) -> bool {
    decode(secret).is_some()
}

impl SigningKey {
    /// The key of a secret. None: it is not `whsec_` and base64.
    pub(crate) fn of_secret(secret: &str) -> Option<Self> {
        decode(secret).map(|bytes| Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// The value of the header `webhook-signature`. `at` is the unix second of `webhook-timestamp`.
    pub(crate) fn sign(&self, id: &str, at: i64, body: &str) -> String {
        let tag = hmac::sign(&self.0, format!("{id}.{at}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(tag))
    }
}

#[cfg(test)]
mod tests {
    use super::{SigningKey, decode};

    /// The example that Standard Webhooks publish.
    #[test]
    fn the_published_example_has_its_signature() {
        let key = SigningKey::of_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_is_base64_behind_its_prefix() {
        for wrong in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_?", "WHSEC_MfKQ"] {
            assert!(decode(wrong).is_none(), "{wrong}");
        }
    }
}
