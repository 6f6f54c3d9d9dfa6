//! Tokens of Microsoft Entra ID by the client credentials flow: fetched when needed, kept until shortly before they end,
//! by one call at a time.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use gw_wire::failure::{Failure, FailureKind};
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::time::Instant;

use super::escaped;
use super::options;
use crate::adapter::{HttpCall, Signer};
use crate::client::Client;
use crate::settings::Timeouts;

/// What a token is asked for: all that the application may do with Azure's AI services.
const SCOPE: &str = "https://cognitiveservices.azure.com/.default";
/// A token is renewed so long before it ends, or after nine tenths of its life where that is shorter.
const EARLY: Duration = Duration::from_secs(300);
/// What a token's life is taken for when the answer makes no sense.
const LIVES: std::ops::RangeInclusive<u64> = 1..=86_400;
const USUAL_LIFE: u64 = 3_600;
/// After a failure nobody asks again for so long: those who waited get the same answer, and the service gets peace.
const REST: Duration = Duration::from_secs(5);
/// The largest answer that is read.
const MAX_RESPONSE_BYTES: usize = 64 << 10;
const LIMITS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_token: Duration::from_secs(10),
    idle: Duration::from_secs(10),
    total: Duration::from_secs(15),
};

/// Signs calls with a token of one application.
pub(super) struct Entra {
    client: Client,
    path: String,
    /// The form that is sent, secret included.
    form: SecretString,
    secret: SecretString,
    known: Mutex<Known>,
    /// Held by the one who fetches.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    token: Option<EntraToken>,
    failed: Option<(Instant, Failure)>,
}

#[derive(Clone)]
struct EntraToken {
    /// `Bearer …`.
    value: HeaderValue,
    bare: SecretString,
    renew_at: Instant,
    ends_at: Instant,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    expires_in: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct TokenError {
    error: Option<String>,
}

impl Entra {
    /// Opens nothing yet.
    ///
    /// # Errors
    /// The authority is no address.
    pub(super) fn new(
        client: &options::EntraApplication,
        allow_private_network: bool,
    ) -> Result<Self, String> {
        let form = format!(
            "grant_type=client_credentials&client_id={}&client_secret={}&scope={}",
            escaped(&client.id),
            escaped(client.secret.expose_secret()),
            escaped(SCOPE)
        );
        let authority = Client::new(&client.authority, allow_private_network, None)
            .map_err(|fault| format!("authority: {}", fault.replace("base_url", "it")))?;
        Ok(Self {
            client: authority,
            path: format!("/{}/oauth2/v2.0/token", escaped(&client.tenant)),
            form: SecretString::from(form),
            secret: client.secret.clone(),
            known: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
        })
    }

    /// What is known now, without a call: a token, or a fresh failure.
    fn at_hand(&self) -> Option<Result<HeaderValue, Failure>> {
        let known = self.known.lock();
        let now = Instant::now();
        let usable = |token: &&EntraToken| {
            // While the service rests after a failure, a token is used to its end.
            let until = if resting(&known.failed, now) { token.ends_at } else { token.renew_at };
            now < until
        };
        if let Some(token) = known.token.as_ref().filter(usable) {
            return Some(Ok(token.value.clone()));
        }
        known.failed.as_ref().filter(|_| resting(&known.failed, now)).map(|(_, failure)| Err(failure.clone()))
    }

    async fn token(&self) -> Result<HeaderValue, Failure> {
        if let Some(answer) = self.at_hand() {
            return answer;
        }
        let _one_at_a_time = self.fetching.lock().await;
        if let Some(answer) = self.at_hand() {
            return answer;
        }
        let fetched = match tokio::time::timeout(LIMITS.total, self.fetch()).await {
            Ok(fetched) => fetched,
            Err(_) => Err(Failure::new(FailureKind::Timeout, "The provider's token service timed out.")),
        };
        {
            let mut known = self.known.lock();
            match fetched {
                Ok(token) => *known = Known { token: Some(token), failed: None },
                Err(failure) => known.failed = Some((Instant::now(), failure)),
            }
        }
        let nothing = || Err(Failure::new(FailureKind::Server, "The provider's token service failed."));
        self.at_hand().unwrap_or_else(nothing)
    }

    async fn fetch(&self) -> Result<EntraToken, Failure> {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let body = Bytes::copy_from_slice(self.form.expose_secret().as_bytes());
        let call = HttpCall { method: Method::POST, path: self.path.clone(), headers, body };
        let asked_at = Instant::now();
        let response = self.client.send(call, &LIMITS).await?;
        let status = response.status;
        let body = response.body.collect(MAX_RESPONSE_BYTES, LIMITS.idle, asked_at + LIMITS.total).await?;
        if status != 200 {
            return Err(refused(status, &body));
        }
        token(&body, asked_at).ok_or_else(|| {
            let message = "The provider's token service gave an answer that cannot be understood.";
            Failure::new(FailureKind::InvalidResponse, message)
        })
    }
}

fn resting(failed: &Option<(Instant, Failure)>, now: Instant) -> bool {
    failed.as_ref().is_some_and(|(at, _)| now.saturating_duration_since(*at) < REST)
}

/// A refusal. What is wrong with the application is the operator's to put right, so only its short name goes to the log.
fn refused(status: u16, body: &[u8]) -> Failure {
    let name = serde_json::from_slice::<TokenError>(body).ok().and_then(|refusal| refusal.error);
    let plain = |name: &String| {
        name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let (kind, message) = match status {
        400..=403 => (FailureKind::Auth, "The upstream provider refused the gateway's credentials."),
        429 | 503 => (FailureKind::Overloaded, "The provider's token service is overloaded."),
        _ => (FailureKind::Server, "The provider's token service failed."),
    };
    let mut failure = Failure::new(kind, message);
    failure.detail = Some(match name.filter(plain) {
        Some(name) => format!("token service: {status} {name}"),
        None => format!("token service: {status}"),
    });
    failure
}

/// Reads `{"access_token": …, "expires_in": seconds}`; the seconds may be a text in the older endpoint's style.
fn token(body: &[u8], asked_at: Instant) -> Option<EntraToken> {
    let answer: TokenResponse = serde_json::from_slice(body).ok()?;
    let seconds = answer.expires_in.and_then(|value| match value {
        serde_json::Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    });
    let life = Duration::from_secs(seconds.filter(|seconds| LIVES.contains(seconds)).unwrap_or(USUAL_LIFE));
    let mut value = HeaderValue::from_str(&format!("Bearer {}", answer.access_token)).ok()?;
    value.set_sensitive(true);
    if answer.access_token.is_empty() {
        return None;
    }
    Some(EntraToken {
        value,
        bare: SecretString::from(answer.access_token),
        renew_at: asked_at + life - EARLY.min(life / 10),
        ends_at: asked_at + life,
    })
}

impl Signer for Entra {
    fn sign<'a>(
        &'a self,
        call: &'a mut HttpCall,
        _: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        Box::pin(async {
            call.headers.insert(AUTHORIZATION, self.token().await?);
            Ok(())
        })
    }

    fn secrets(&self) -> Vec<String> {
        let token = self.known.lock().token.as_ref().map(|token| token.bare.expose_secret().to_owned());
        token.into_iter().chain([self.secret.expose_secret().to_owned()]).collect()
    }
}

impl fmt::Debug for Entra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entra").finish_non_exhaustive()
    }
}
