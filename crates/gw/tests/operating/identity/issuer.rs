//! An issuer of tokens for tests: its keys, its discovery document, and tokens that it or a forger signs.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaEncoding, RsaKeyPair,
};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

pub(crate) const AUDIENCE: &str = "model-gateway";

/// A private key.
pub(crate) enum SigningKey {
    Rsa(RsaKeyPair, &'static dyn RsaEncoding, &'static str),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    pub(crate) fn rs256() -> Self {
        Self::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"), &RSA_PKCS1_SHA256, "RS256")
    }

    pub(crate) fn ps256() -> Self {
        Self::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"), &RSA_PSS_SHA256, "PS256")
    }

    pub(crate) fn es256() -> Self {
        Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
    }

    pub(crate) fn eddsa() -> Self {
        Self::Ed25519(Ed25519KeyPair::generate().expect("a key"))
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_, _, name) => name,
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key, encoding, _) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(*encoding, &random, message, &mut signature).expect("a signature");
                signature
            }
            Self::P256(key) => key.sign(&random, message).expect("a signature").as_ref().to_vec(),
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// The public bytes: of an RSA key the DER of RFC 8017.
    pub(crate) fn public(&self) -> Vec<u8> {
        match self {
            Self::Rsa(key, ..) => key.public_key().as_ref().to_vec(),
            Self::P256(key) => key.public_key().as_ref().to_vec(),
            Self::Ed25519(key) => key.public_key().as_ref().to_vec(),
        }
    }

    /// The public key as a JWK.
    pub(crate) fn jwk(&self, id: &str) -> Value {
        let public = self.public();
        match self {
            Self::Rsa(..) => {
                let (n, e) = rsa_numbers(&public);
                json!({ "kty": "RSA", "kid": id, "use": "sig", "n": BASE64.encode(n), "e": BASE64.encode(e) })
            }
            Self::P256(_) => {
                json!({ "kty": "EC", "crv": "P-256", "kid": id, "x": BASE64.encode(&public[1..33]),
                "y": BASE64.encode(&public[33..]) })
            }
            Self::Ed25519(_) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": BASE64.encode(&public) })
            }
        }
    }
}

/// The modulus and the exponent of an RSA public key in DER.
fn rsa_numbers(der: &[u8]) -> (Vec<u8>, Vec<u8>) {
    fn field(bytes: &[u8]) -> (&[u8], &[u8]) {
        let (size, start) = match bytes[1] {
            short if short < 0x80 => (usize::from(short), 2),
            long => {
                let count = usize::from(long & 0x7f);
                (bytes[2..2 + count].iter().fold(0, |size, byte| size << 8 | usize::from(*byte)), 2 + count)
            }
        };
        (&bytes[start..start + size], &bytes[start + size..])
    }
    let (sequence, _) = field(der);
    let (modulus, rest) = field(sequence);
    let (exponent, _) = field(rest);
    (modulus.strip_prefix(&[0]).unwrap_or(modulus).to_vec(), exponent.to_vec())
}

pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    i64::try_from(since).expect("a time")
}

fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()))
}

/// A token with these claims, signed with this key.
pub(crate) fn token(key: &SigningKey, id: &str, claims: &Value) -> String {
    token_with(key, &json!({ "alg": key.algorithm(), "kid": id, "typ": "JWT" }), claims)
}

/// A token with this header.
pub(crate) fn token_with(key: &SigningKey, header: &Value, claims: &Value) -> String {
    let message = unsigned(header, claims);
    let signature = key.sign(message.as_bytes());
    format!("{message}.{}", BASE64.encode(signature))
}

/// A token without a signature.
pub(crate) fn unsigned_token(algorithm: &str, claims: &Value) -> String {
    format!("{}.", unsigned(&json!({ "alg": algorithm }), claims))
}

/// A token with a symmetric signature whose secret is the public key.
pub(crate) fn symmetric_token(secret: &[u8], id: &str, claims: &Value) -> String {
    let message = unsigned(&json!({ "alg": "HS256", "kid": id }), claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", BASE64.encode(tag))
}

/// An issuer with a discovery document and a changing set of keys.
pub(crate) struct TestIssuer {
    server: FakeUpstream,
    pub(crate) url: String,
    /// None: the issuer is down.
    keys: Arc<Mutex<Option<Value>>>,
    /// The ID token that the token endpoint gives.
    id_token: Arc<Mutex<String>>,
}

impl TestIssuer {
    pub(crate) async fn start(keys: &[Value]) -> Self {
        let server = FakeUpstream::start().await;
        let url = server.base_url().trim_end_matches("/v1").to_owned();
        let issuer = Self { server, url: url.clone(), keys: Arc::default(), id_token: Arc::default() };
        issuer.publish(keys);
        let (keys, id_token) = (Arc::clone(&issuer.keys), Arc::clone(&issuer.id_token));
        issuer.server.respond_with(move |request| match keys.lock().expect("keys").clone() {
            None => Answer::error(503, "down", "down"),
            Some(_) if request.path.ends_with("/.well-known/openid-configuration") => {
                let document = json!({ "issuer": url, "jwks_uri": format!("{url}/jwks"),
                    "authorization_endpoint": format!("{url}/authorize"), "token_endpoint": format!("{url}/token") });
                Answer::json(200, &document)
            }
            Some(_) if request.path.ends_with("/token") => {
                let id_token = id_token.lock().expect("a token").clone();
                Answer::json(200, &json!({ "token_type": "Bearer", "access_token": "x", "id_token": id_token }))
            }
            Some(keys) => Answer::json(200, &keys),
        });
        issuer
    }

    /// Replaces the issuer's keys.
    pub(crate) fn publish(&self, keys: &[Value]) {
        *self.keys.lock().expect("keys") = Some(json!({ "keys": keys }));
    }

    /// The issuer answers with errors from now on.
    pub(crate) fn go_down(&self) {
        *self.keys.lock().expect("keys") = None;
    }

    /// The token endpoint gives this ID token from now on.
    pub(crate) fn give(&self, id_token: String) {
        *self.id_token.lock().expect("a token") = id_token;
    }

    /// The form of the last request to the token endpoint, and its header `Authorization`.
    pub(crate) fn token_request(&self) -> (String, Option<String>) {
        let requests = self.server.requests();
        let request =
            requests.iter().rev().find(|request| request.path.ends_with("/token")).expect("a request");
        let form = String::from_utf8_lossy(&request.body).into_owned();
        (form, request.header("authorization").map(str::to_owned))
    }

    pub(crate) fn hits(&self) -> usize {
        self.server.hits()
    }

    /// The lines of the configuration, with these lines for the issuer.
    pub(crate) fn config(&self, more: &str) -> String {
        let url = &self.url;
        format!("[[identity.issuers]]\nissuer = \"{url}\"\naudiences = [\"{AUDIENCE}\"]\n{more}\n")
    }

    /// The claims of a valid token, with these members set.
    pub(crate) fn claims(&self, more: Value) -> Value {
        let claims =
            json!({ "iss": self.url, "aud": AUDIENCE, "sub": "user-1", "exp": now() + 600, "iat": now() });
        crate::harness::with(claims, more)
    }
}
