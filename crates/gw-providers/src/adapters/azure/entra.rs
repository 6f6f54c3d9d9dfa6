//! Tokens of Microsoft Entra ID by the client credentials flow.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::percent;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::time::Instant;

use super::options::EntraApplication;
use crate::adapter::{HttpCall, Signer};
use crate::adapters::oauth::{FetchedToken, TokenCache, TokenSource, TokenTiming};
use crate::client::Client;
use crate::settings::{SettingsError, Timeouts};

/// The scope of a token: everything that the application may do with Azure's AI services.
const SCOPE: &str = "https://cognitiveservices.azure.com/.default";
/// The lifetimes of a token that are believed, in seconds.
const PLAUSIBLE_LIFETIMES: std::ops::RangeInclusive<u64> = 1..=86_400;
/// The lifetime of a token, in seconds, when the response gives no plausible one.
const DEFAULT_LIFETIME: u64 = 3_600;
/// The largest response of the token service that is read.
const MAX_RESPONSE_BYTES: usize = 64 << 10;
const CLOCKS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_token: Duration::from_secs(10),
    idle: Duration::from_secs(10),
    total: Duration::from_secs(15),
};

/// Signs calls with a token of one application.
pub(super) struct Entra {
    cache: TokenCache<EntraTokens>,
}

/// The token endpoint of one application.
struct EntraTokens {
    client: Client,
    path: String,
    /// The form that is sent, client secret included.
    form: SecretString,
    client_secret: SecretString,
}

#[derive(Deserialize)]
struct EntraResponse {
    access_token: String,
    /// Seconds. The older endpoint writes them as a string.
    expires_in: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct EntraError {
    error: Option<String>,
}

impl Entra {
    /// Fetches nothing yet.
    ///
    /// # Errors
    /// The authority is not a valid address.
    pub(super) fn new(
        application: &EntraApplication,
        allow_private_network: bool,
    ) -> Result<Self, SettingsError> {
        let form = format!(
            "grant_type=client_credentials&client_id={}&client_secret={}&scope={}",
            percent::encode(&application.id),
            percent::encode(application.secret.expose_secret()),
            percent::encode(SCOPE)
        );
        let client = Client::new(&application.authority, allow_private_network, None)
            .map_err(|fault| SettingsError::Authority(fault.to_string().replace("base_url", "it")))?;
        Ok(Self {
            cache: TokenCache::new(EntraTokens {
                client,
                path: format!("/{}/oauth2/v2.0/token", percent::encode(&application.tenant)),
                form: SecretString::from(form),
                client_secret: application.secret.clone(),
            }),
        })
    }
}

impl TokenSource for EntraTokens {
    const PROVIDER: &'static str = "Azure";

    const TIMING: TokenTiming = TokenTiming {
        renew_before_expiry: Duration::from_secs(300),
        renew_divisor: 10,
        discard_before_expiry: Duration::ZERO,
        fetch_limit: CLOCKS.total,
        renewal_limit: CLOCKS.total,
        failure_pause: Duration::from_secs(5),
    };

    async fn fetch(&self) -> Result<FetchedToken, Failure> {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let body = Bytes::copy_from_slice(self.form.expose_secret().as_bytes());
        let call = HttpCall { method: Method::POST, path: self.path.clone(), headers, body, upload: None };
        let deadline = Instant::now() + CLOCKS.total;
        let response = self.client.send(call, &CLOCKS).await?;
        let status = response.status;
        let body = response.body.collect(MAX_RESPONSE_BYTES, CLOCKS.idle, deadline).await?;
        if status != 200 {
            return Err(refused(status, &body));
        }
        read_token(&body).ok_or_else(|| self.unusable_token())
    }

    fn timed_out(&self) -> Failure {
        Failure::new(FailureKind::Timeout, "The provider's token service timed out.")
    }

    fn unusable_token(&self) -> Failure {
        let message = "The provider's token service gave an answer that cannot be understood.";
        Failure::new(FailureKind::InvalidResponse, message)
    }
}

/// Reads `{"access_token": …, "expires_in": seconds}`.
fn read_token(body: &[u8]) -> Option<FetchedToken> {
    let response: EntraResponse = serde_json::from_slice(body).ok()?;
    if response.access_token.is_empty() {
        return None;
    }
    let seconds = response.expires_in.and_then(|value| match value {
        serde_json::Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    });
    let seconds = seconds.filter(|seconds| PLAUSIBLE_LIFETIMES.contains(seconds)).unwrap_or(DEFAULT_LIFETIME);
    Some(FetchedToken { token: response.access_token.into(), lifetime: Duration::from_secs(seconds) })
}

/// The failure of a response that is not a token. Its detail holds the error's short name only, because the description names
/// the application.
fn refused(status: u16, body: &[u8]) -> Failure {
    let name = serde_json::from_slice::<EntraError>(body).ok().and_then(|error| error.error);
    let is_plain = |name: &String| {
        name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let (kind, message) = match status {
        400..=403 => (FailureKind::Auth, "The upstream provider refused the gateway's credentials."),
        429 | 503 => (FailureKind::Overloaded, "The provider's token service is overloaded."),
        _ => (FailureKind::Server, "The provider's token service failed."),
    };
    let mut failure = Failure::new(kind, message);
    failure.detail = Some(match name.filter(is_plain) {
        Some(name) => format!("token service: {status} {name}"),
        None => format!("token service: {status}"),
    });
    failure
}

impl Signer for Entra {
    fn sign<'a>(
        &'a self,
        call: &'a mut HttpCall,
        _: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        Box::pin(async {
            call.headers.insert(AUTHORIZATION, self.cache.authorization().await?);
            Ok(())
        })
    }

    fn refused(&self) {
        self.cache.refuse();
    }

    fn secrets(&self) -> Vec<String> {
        let client_secret = self.cache.source().client_secret.expose_secret().to_owned();
        self.cache.secret().into_iter().chain([client_secret]).collect()
    }
}

impl fmt::Debug for Entra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entra").finish_non_exhaustive()
    }
}
