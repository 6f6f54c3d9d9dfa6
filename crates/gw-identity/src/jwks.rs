//! The public keys of an issuer: a JWK set (RFC 7517), and the check of a signature with one of its keys.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use serde::Deserialize;

use crate::settings::SigningAlgorithm;

/// The most keys of a set. Further keys are left out.
const MAX_KEYS: usize = 100;

/// A JWK set that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeySetError {
    /// The document is not a JWK set.
    #[error("the document is not a JWK set")]
    Malformed,
    /// The set has no key that can verify a signature.
    #[error("the JWK set has no key for signatures")]
    Empty,
}

/// The keys of an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySet(Vec<PublicKey>);

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PublicKey {
    id: Option<String>,
    /// The only algorithm of the key, if the set names one.
    algorithm: Option<String>,
    material: KeyMaterial,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyMaterial {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Jwk>,
}

/// The members of a JWK that matter. Private and symmetric members are not read.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads a JWK set. Keys for encryption and keys of unknown or symmetric kinds are left out.
    pub(crate) fn parse(document: &[u8]) -> Result<Self, KeySetError> {
        let set: JwkSet = serde_json::from_slice(document).map_err(|_| KeySetError::Malformed)?;
        let keys: Vec<PublicKey> = set.keys.into_iter().filter_map(public_key).take(MAX_KEYS).collect();
        if keys.is_empty() { Err(KeySetError::Empty) } else { Ok(Self(keys)) }
    }

    /// Whether the set has a key with this id. A token without a key id may be of any key.
    pub(crate) fn has(&self, id: Option<&str>) -> bool {
        self.0.iter().any(|key| key.is_called(id))
    }

    /// Whether one of the keys with this id made the signature with this algorithm.
    pub(crate) fn verify(
        &self,
        id: Option<&str>,
        algorithm: SigningAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let fits = |key: &&PublicKey| {
            key.is_called(id) && key.algorithm.as_deref().is_none_or(|only| only == algorithm.as_str())
        };
        self.0.iter().filter(fits).any(|key| key.material.verify(algorithm, message, signature))
    }
}

impl PublicKey {
    fn is_called(&self, id: Option<&str>) -> bool {
        id.is_none_or(|id| self.id.as_deref() == Some(id))
    }
}

fn public_key(jwk: Jwk) -> Option<PublicKey> {
    if jwk.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let bytes = |text: &Option<String>| BASE64.decode(text.as_deref()?.trim_end_matches('=')).ok();
    let point = |size: usize| {
        let (x, y) = (bytes(&jwk.x)?, bytes(&jwk.y)?);
        (x.len() == size && y.len() == size).then(|| [&[4][..], &x, &y].concat())
    };
    let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => KeyMaterial::Rsa { modulus: bytes(&jwk.n)?, exponent: bytes(&jwk.e)? },
        ("EC", Some("P-256")) => KeyMaterial::P256(point(32)?),
        ("EC", Some("P-384")) => KeyMaterial::P384(point(48)?),
        ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(bytes(&jwk.x).filter(|x| x.len() == 32)?),
        _ => return None,
    };
    Some(PublicKey { id: jwk.kid, algorithm: jwk.alg, material })
}

impl KeyMaterial {
    fn verify(&self, algorithm: SigningAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        let parsed = |known: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(known, key).verify(message, signature).is_ok()
        };
        match (self, algorithm) {
            (Self::Rsa { modulus, exponent }, algorithm) => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                rsa(algorithm).is_some_and(|known| key.verify(known, message, signature).is_ok())
            }
            (Self::P256(point), SigningAlgorithm::Es256) => parsed(&ECDSA_P256_SHA256_FIXED, point),
            (Self::P384(point), SigningAlgorithm::Es384) => parsed(&ECDSA_P384_SHA384_FIXED, point),
            (Self::Ed25519(key), SigningAlgorithm::EdDsa) => parsed(&ED25519, key),
            _ => false,
        }
    }
}

/// The RSA algorithm; None for an algorithm of other keys. Keys below 2,048 bits are refused.
fn rsa(algorithm: SigningAlgorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        SigningAlgorithm::Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
        SigningAlgorithm::Rs384 => Some(&RSA_PKCS1_2048_8192_SHA384),
        SigningAlgorithm::Rs512 => Some(&RSA_PKCS1_2048_8192_SHA512),
        SigningAlgorithm::Ps256 => Some(&RSA_PSS_2048_8192_SHA256),
        SigningAlgorithm::Ps384 => Some(&RSA_PSS_2048_8192_SHA384),
        SigningAlgorithm::Ps512 => Some(&RSA_PSS_2048_8192_SHA512),
        SigningAlgorithm::Es256 | SigningAlgorithm::Es384 | SigningAlgorithm::EdDsa => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and the signature of RFC 7515, appendix A.3 (ES256).
    const ES256_KEY: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","kid":"rfc"}"#;
    const ES256_INPUT: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    const ES256_SIGNATURE: &str =
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    /// The key and the signature of RFC 8037, appendix A (EdDSA).
    const ED25519_KEY: &str =
        r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","use":"sig"}"#;
    const ED25519_INPUT: &str = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
    const ED25519_SIGNATURE: &str =
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";

    fn set(keys: &[&str]) -> Result<KeySet, KeySetError> {
        KeySet::parse(format!("{{\"keys\":[{}]}}", keys.join(",")).as_bytes())
    }

    #[test]
    fn signatures_of_the_standards_are_verified() {
        let keys = set(&[ES256_KEY, ED25519_KEY]).unwrap();
        let ok = |id: Option<&str>, algorithm, input: &str, signature: &str| {
            keys.verify(id, algorithm, input.as_bytes(), &BASE64.decode(signature).unwrap())
        };
        assert!(ok(Some("rfc"), SigningAlgorithm::Es256, ES256_INPUT, ES256_SIGNATURE));
        assert!(ok(None, SigningAlgorithm::Es256, ES256_INPUT, ES256_SIGNATURE));
        assert!(ok(None, SigningAlgorithm::EdDsa, ED25519_INPUT, ED25519_SIGNATURE));
        assert!(!ok(Some("other"), SigningAlgorithm::Es256, ES256_INPUT, ES256_SIGNATURE));
        assert!(!ok(None, SigningAlgorithm::Es256, &ES256_INPUT.replace("joe", "jim"), ED25519_SIGNATURE));
        for wrong in SigningAlgorithm::ALL {
            if wrong != SigningAlgorithm::Es256 {
                assert!(!ok(None, wrong, ES256_INPUT, ES256_SIGNATURE), "{wrong:?}");
            }
        }
        let mut changed = BASE64.decode(ES256_SIGNATURE).unwrap();
        changed[7] ^= 1;
        assert!(!keys.verify(None, SigningAlgorithm::Es256, ES256_INPUT.as_bytes(), &changed));
        assert!(!keys.verify(None, SigningAlgorithm::Es256, ES256_INPUT.as_bytes(), b""));
    }

    #[test]
    fn keys_for_other_purposes_are_left_out() {
        for key in [
            r#"{"kty":"oct","k":"AAAA","kid":"a"}"#,
            r#"{"kty":"RSA","n":"AQAB"}"#,
            r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
            r#"{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}"#,
            r#"{"kty":"RSA","n":"AQAB","e":"AQAB","use":"enc"}"#,
        ] {
            assert_eq!(set(&[key]), Err(KeySetError::Empty), "{key}");
            assert!(set(&[key, ES256_KEY]).unwrap().has(Some("rfc")));
        }
        for document in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[{"kid":"x"}]}"#] {
            assert_eq!(KeySet::parse(document.as_bytes()), Err(KeySetError::Malformed), "{document}");
        }
    }

    #[test]
    fn a_key_with_one_algorithm_verifies_no_other() {
        let only = ES256_KEY.replace("\"kid\"", "\"alg\":\"ES384\",\"kid\"");
        let keys = set(&[&only]).unwrap();
        let signature = BASE64.decode(ES256_SIGNATURE).unwrap();
        assert!(!keys.verify(None, SigningAlgorithm::Es256, ES256_INPUT.as_bytes(), &signature));
    }
}
