//! The sign-in of a browser: the authorization code flow with PKCE (RFC 6749, RFC 7636, OpenID Connect Core).

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD as BASE64};
use gw_wire::percent::encode;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::claims::Identity;
use crate::fetch::{FetchError, FetchRequest};
use crate::issuers::Issuers;
use crate::random::random_text;
use crate::token::TokenError;

/// How long a person may take to sign in, in seconds.
pub const LOGIN_SECONDS: i64 = 600;

/// A sign-in that has begun. Only the browser that began it keeps it, sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingLogin {
    issuer: usize,
    /// Comes back with the code, so that no other page can end the sign-in.
    pub state: String,
    nonce: String,
    verifier: String,
    /// The unix second at which the sign-in has taken too long.
    expires_at: i64,
}

/// The reason why a sign-in failed.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// No issuer has a client id.
    #[error("no issuer is configured for the sign-in")]
    NotConfigured,
    /// The issuer has not answered yet.
    #[error("the issuer does not answer")]
    IssuerUnknown,
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Randomness,
    /// The sign-in took too long, or the answer belongs to another one.
    #[error("this sign-in has expired or belongs to another window; begin again")]
    State,
    /// The issuer refused the code, or its answer has no ID token.
    #[error("the issuer refused the sign-in: {0}")]
    Exchange(String),
    /// The ID token is refused.
    #[error("the identity token is refused: {0}")]
    Token(#[from] TokenError),
}

/// A sign-in and the address to which the browser goes.
#[derive(Debug)]
pub struct LoginStart {
    /// The sign-in.
    pub pending: PendingLogin,
    /// The issuer's page.
    pub url: String,
}

/// Begins a sign-in. `redirect_uri` is the gateway's own URL to which the browser returns.
///
/// # Errors
/// No issuer can be used now.
pub fn begin(issuers: &Issuers, redirect_uri: &str, now: i64) -> Result<LoginStart, LoginError> {
    let (issuer, settings) = issuers.login_issuer().ok_or(LoginError::NotConfigured)?;
    let login = settings.login.as_ref().ok_or(LoginError::NotConfigured)?;
    let endpoints = issuers.endpoints(issuer).ok_or(LoginError::IssuerUnknown)?;
    let endpoint = endpoints.authorization_endpoint.as_deref().ok_or(LoginError::IssuerUnknown)?;
    let random = || random_text().ok_or(LoginError::Randomness);
    let pending = PendingLogin {
        issuer,
        state: random()?,
        nonce: random()?,
        verifier: random()?,
        expires_at: now.saturating_add(LOGIN_SECONDS),
    };
    let scopes = std::iter::once("openid").chain(login.scopes.iter().map(String::as_str));
    let scope = scopes.collect::<Vec<_>>().join(" ");
    let challenge = BASE64.encode(Sha256::digest(&pending.verifier));
    let query = form(&[
        ("response_type", "code"),
        ("client_id", &login.client_id),
        ("redirect_uri", redirect_uri),
        ("scope", &scope),
        ("state", &pending.state),
        ("nonce", &pending.nonce),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    let joint = if endpoint.contains('?') { '&' } else { '?' };
    Ok(LoginStart { url: format!("{endpoint}{joint}{query}"), pending })
}

/// Ends a sign-in: exchanges the code for an ID token and identifies the person.
///
/// # Errors
/// The reason why the sign-in failed.
pub async fn finish(
    issuers: &Issuers,
    pending: &PendingLogin,
    redirect_uri: &str,
    code: &str,
    now: i64,
) -> Result<Identity, LoginError> {
    if pending.expires_at <= now {
        return Err(LoginError::State);
    }
    let settings = issuers.settings(pending.issuer).ok_or(LoginError::NotConfigured)?;
    let login = settings.login.as_ref().ok_or(LoginError::NotConfigured)?;
    let endpoints = issuers.endpoints(pending.issuer).ok_or(LoginError::IssuerUnknown)?;
    let endpoint = endpoints.token_endpoint.as_deref().ok_or(LoginError::IssuerUnknown)?;
    let mut fields = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", redirect_uri),
        ("code_verifier", pending.verifier.as_str()),
    ];
    let authorization = login.client_secret.as_ref().map(|secret| basic(&login.client_id, secret));
    if authorization.is_none() {
        fields.push(("client_id", &login.client_id));
    }
    let request = FetchRequest { url: endpoint.to_owned(), form: Some(form(&fields)), authorization };
    let answer = issuers.fetch().fetch(request).await.map_err(|error| match error {
        FetchError::Unreachable(_) | FetchError::Url(_) => LoginError::IssuerUnknown,
        error @ FetchError::Status(_) => LoginError::Exchange(error.to_string()),
    })?;
    #[derive(Deserialize)]
    struct TokenAnswer {
        id_token: String,
    }
    let answer: TokenAnswer = serde_json::from_slice(&answer)
        .map_err(|_| LoginError::Exchange("its answer has no ID token".to_owned()))?;
    Ok(issuers.identify_at_login(pending.issuer, &answer.id_token, &pending.nonce, now)?)
}

/// The header of a client with a secret (RFC 6749, 2.3.1).
fn basic(client_id: &str, secret: &SecretString) -> SecretString {
    let pair = format!("{}:{}", encode(client_id), encode(secret.expose_secret()));
    format!("Basic {}", BASE64_STANDARD.encode(pair)).into()
}

/// A form or a query.
fn form(fields: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_credentials_are_encoded() {
        assert_eq!(form(&[("a", "x y&z"), ("b", "é=")]), "a=x%20y%26z&b=%C3%A9%3D");
        let header = basic("my client", &"p:w".into());
        assert_eq!(header.expose_secret(), "Basic bXklMjBjbGllbnQ6cCUzQXc=");
    }
}
