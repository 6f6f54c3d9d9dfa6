//! A signed token (JWS compact serialization, RFC 7515) and its registered claims (RFC 7519).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::jwks::KeySet;
use crate::settings::SigningAlgorithm;

/// The longest token, in bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// How far the clocks of an issuer and of the gateway may differ, in seconds.
const LEEWAY_SECONDS: i64 = 30;

/// The reason why a token is refused. No reason quotes the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text is not a signed token.
    #[error("it is not a signed JSON Web Token")]
    Malformed,
    /// The issuer is not configured.
    #[error("its issuer is not known here")]
    UnknownIssuer,
    /// The algorithm is not accepted.
    #[error("its algorithm is not accepted")]
    Algorithm,
    /// The issuer has no key with the token's key id.
    #[error("its issuer has no such key")]
    UnknownKey,
    /// The signature is wrong.
    #[error("its signature is wrong")]
    Signature,
    /// The token is for another audience.
    #[error("it is meant for another audience")]
    Audience,
    /// The token has expired, or never expires.
    #[error("it has expired")]
    Expired,
    /// The token is not valid yet.
    #[error("it is not valid yet")]
    NotYetValid,
    /// The token belongs to another sign-in.
    #[error("it belongs to another sign-in")]
    Nonce,
    /// A claim is missing or cannot be read.
    #[error("a claim is missing or has a wrong form")]
    Claims,
    /// The claims give no role.
    #[error("its holder has no role here")]
    NoRole,
    /// The keys of the issuer are not known yet.
    #[error("the keys of its issuer are not known yet")]
    KeysUnknown,
}

/// Whether a text has the shape of a signed token: three parts, of which the first is a JSON object.
#[must_use]
pub fn looks_like_token(text: &str) -> bool {
    text.len() <= MAX_TOKEN_BYTES
        && text.starts_with("eyJ")
        && text.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// The claims of a token.
pub(crate) type Claims = Map<String, Value>;

/// A token whose signature is not checked yet.
#[derive(Debug)]
pub(crate) struct UnverifiedToken<'t> {
    /// The header and the claims as they were signed.
    message: &'t str,
    signature: Vec<u8>,
    header: Header,
    claims: Claims,
}

#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that a reader must understand. The gateway understands none.
    crit: Option<Value>,
}

/// The requirements for a token of one issuer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requirements<'r> {
    pub(crate) issuer: &'r str,
    pub(crate) audiences: &'r [String],
    pub(crate) algorithms: &'r [SigningAlgorithm],
    /// Unix seconds.
    pub(crate) now: i64,
}

impl<'t> UnverifiedToken<'t> {
    /// Reads a token.
    pub(crate) fn parse(token: &'t str) -> Result<Self, TokenError> {
        if !looks_like_token(token) {
            return Err(TokenError::Malformed);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(TokenError::Malformed)?;
        let decode = |part: &str| BASE64.decode(part).map_err(|_| TokenError::Malformed);
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::Malformed)?;
        if header.crit.is_some() {
            return Err(TokenError::Malformed);
        }
        let claims = serde_json::from_slice(&decode(claims)?).map_err(|_| TokenError::Malformed)?;
        Ok(Self { message, signature: decode(signature)?, header, claims })
    }

    /// The issuer that the token names. Nothing proves it yet.
    pub(crate) fn claimed_issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    /// Checks the signature first, then the claims.
    pub(crate) fn verify(self, keys: &KeySet, required: &Requirements<'_>) -> Result<Claims, TokenError> {
        let algorithm =
            SigningAlgorithm::parse(&self.header.alg).filter(|known| required.algorithms.contains(known));
        let algorithm = algorithm.ok_or(TokenError::Algorithm)?;
        let id = self.header.kid.as_deref();
        if !keys.has(id) {
            return Err(TokenError::UnknownKey);
        }
        if !keys.verify(id, algorithm, self.message.as_bytes(), &self.signature) {
            return Err(TokenError::Signature);
        }
        check_claims(&self.claims, required)?;
        Ok(self.claims)
    }
}

fn check_claims(claims: &Claims, required: &Requirements<'_>) -> Result<(), TokenError> {
    if claims.get("iss").and_then(Value::as_str) != Some(required.issuer) {
        return Err(TokenError::UnknownIssuer);
    }
    let is_meant = |audience: &Value| {
        audience.as_str().is_some_and(|name| required.audiences.iter().any(|known| known == name))
    };
    let is_for_us = match claims.get("aud") {
        Some(Value::Array(audiences)) => audiences.iter().any(is_meant),
        Some(audience) => is_meant(audience),
        None => false,
    };
    if !is_for_us {
        return Err(TokenError::Audience);
    }
    if expires_at(claims).is_none_or(|at| at.saturating_add(LEEWAY_SECONDS) <= required.now) {
        return Err(TokenError::Expired);
    }
    let early = |name: &str| match claims.get(name) {
        None => Ok(false),
        Some(at) => Ok(seconds(at).ok_or(TokenError::Claims)? > required.now.saturating_add(LEEWAY_SECONDS)),
    };
    if early("nbf")? || early("iat")? {
        return Err(TokenError::NotYetValid);
    }
    Ok(())
}

/// The unix second at which the token expires.
pub(crate) fn expires_at(claims: &Claims) -> Option<i64> {
    claims.get("exp").and_then(seconds)
}

/// A time of a token: unix seconds, perhaps with a fraction.
fn seconds(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().filter(|at| at.abs() < 1e15).map(|at| at as i64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "a test writes values")]
    fn claims(more: Value) -> Claims {
        let mut claims = json!({ "iss": "https://i", "aud": "gw", "exp": 1_000, "sub": "a" });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        claims.as_object().unwrap().clone()
    }

    fn checked(more: Value, now: i64) -> Result<(), TokenError> {
        let audiences = ["gw".to_owned(), "other".to_owned()];
        let required = Requirements { issuer: "https://i", audiences: &audiences, algorithms: &[], now };
        check_claims(&claims(more), &required)
    }

    #[test]
    fn claims_are_checked_with_a_small_leeway() {
        assert_eq!(checked(json!({}), 999), Ok(()));
        assert_eq!(checked(json!({ "aud": ["x", "other"], "nbf": 990, "iat": 980.5 }), 999), Ok(()));
        assert_eq!(checked(json!({}), 1_029), Ok(()));
        for (more, fault) in [
            (json!({ "iss": "https://i/" }), TokenError::UnknownIssuer),
            (json!({ "iss": ["https://i"] }), TokenError::UnknownIssuer),
            (json!({ "aud": "x" }), TokenError::Audience),
            (json!({ "aud": [] }), TokenError::Audience),
            (json!({ "aud": null }), TokenError::Audience),
            (json!({ "exp": 900 }), TokenError::Expired),
            (json!({ "exp": "2000" }), TokenError::Expired),
            (json!({ "exp": null }), TokenError::Expired),
            (json!({ "nbf": 1_030 }), TokenError::NotYetValid),
            (json!({ "iat": 1_030 }), TokenError::NotYetValid),
            (json!({ "nbf": "x" }), TokenError::Claims),
        ] {
            assert_eq!(checked(more.clone(), 999), Err(fault), "{more}");
        }
        assert_eq!(checked(json!({}), 1_030), Err(TokenError::Expired));
    }

    #[test]
    fn a_text_that_is_no_signed_token_is_refused() {
        let token = |header: &str| format!("{}.{}.AAAA", BASE64.encode(header), BASE64.encode("{}"));
        assert!(UnverifiedToken::parse(&token(r#"{"alg":"RS256"}"#)).is_ok());
        for text in [
            "",
            "sk-gw-x",
            "eyJ",
            "eyJ.e.f.g",
            "eyJhbGciOiJub25lIn0.e30",
            &token(r#"{"alg":"RS256","crit":["b64"],"b64":false}"#),
            &token(r#"{"alg":7}"#),
            &token("{}"),
            &format!("eyJ{}..", "A".repeat(MAX_TOKEN_BYTES)),
        ] {
            assert_eq!(UnverifiedToken::parse(text).unwrap_err(), TokenError::Malformed, "{text}");
        }
    }
}
