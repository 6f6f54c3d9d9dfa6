//! The receiver of an alert's messages.

use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_providers::adapter::HttpCall;
use gw_providers::client::Client;
use gw_providers::settings::Timeouts;
use gw_wire::failure::Failure;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use secrecy::ExposeSecret;

use crate::message;
use crate::settings::{AlertFormat, AlertSettings, origin, path};
use crate::signature::SigningKey;

/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// The longest error that is kept.
const MAX_ERROR_CHARS: usize = 200;

/// Why the receiver of an alert cannot be called. The text does not show the URL.
#[derive(Debug, thiserror::Error)]
#[error("alerts '{name}': {reason}")]
pub struct AlertError {
    name: String,
    reason: String,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The status of the answer; None = no answer came.
    pub(crate) status: Option<u16>,
    /// Why the message was not taken; None = it was.
    pub(crate) error: Option<String>,
    pub(crate) latency: Duration,
}

/// A receiver, ready to be called.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) settings: AlertSettings,
    client: Client,
    signing_key: Option<SigningKey>,
}

impl Destination {
    /// Checks the settings. Opens no connection.
    ///
    /// # Errors
    /// The URL or the secret cannot be used.
    pub(crate) fn new(settings: AlertSettings) -> Result<Self, AlertError> {
        let error = |reason: String| AlertError { name: settings.name.clone(), reason };
        let client = Client::new(origin(settings.target()), settings.allow_private_network, None)
            .map_err(|problem| error(problem.to_string().replace("base_url", "url")))?
            .without_public_plain_http();
        let signing_key = match &settings.secret {
            Some(secret) => Some(
                SigningKey::of_secret(secret.expose_secret())
                    .ok_or_else(|| error("the secret is not whsec_ and base64".to_owned()))?,
            ),
            None => None,
        };
        Ok(Self { settings, client, signing_key })
    }

    /// The scheme and the host of the URL.
    pub(crate) fn shown_url(&self) -> &str {
        origin(self.settings.target())
    }

    /// Sends a message once. `now` is the unix second.
    pub(crate) async fn send(&self, id: &str, event: &str, now: i64) -> Attempt {
        let began = Instant::now();
        let sent = tokio::time::timeout(self.settings.timeout, self.call(id, event, now)).await;
        let (status, error) = match sent {
            Ok(Ok(status)) => {
                (Some(status), (!(200..300).contains(&status)).then(|| format!("status {status}")))
            }
            Ok(Err(reason)) => (None, Some(reason.chars().take(MAX_ERROR_CHARS).collect())),
            Err(_) => {
                let reason = format!("no answer within {} ms", self.settings.timeout.as_millis());
                (None, Some(reason))
            }
        };
        Attempt { status, error, latency: began.elapsed() }
    }

    async fn call(&self, id: &str, event: &str, now: i64) -> Result<u16, String> {
        let settings = &self.settings;
        let routing_key = settings.routing_key.as_ref().map_or("", |key| key.expose_secret());
        let body = message::render(settings.format, id, routing_key, event);
        let headers = self.headers(id, &body, now).ok_or("the message has a header that cannot be sent")?;
        let path = path(settings.target());
        let call = HttpCall { method: Method::POST, path, headers, body: Bytes::from(body), upload: None };
        let timeout = settings.timeout;
        let clocks = Timeouts { connect: timeout, first_token: timeout, idle: timeout, total: timeout };
        let reason = |failure: Failure| failure.detail.unwrap_or(failure.message);
        let response = self.client.send(call, &clocks).await.map_err(reason)?;
        let status = response.status;
        // The connection can be used again once the answer is read. Its content says nothing.
        let by = tokio::time::Instant::now() + timeout;
        let _ = response.body.collect(MAX_ANSWER_BYTES, timeout, by).await;
        Ok(status)
    }

    fn headers(&self, id: &str, body: &str, now: i64) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let agent = concat!("model-gateway/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert("webhook-id", HeaderValue::from_str(id).ok()?);
        headers.insert("webhook-timestamp", HeaderValue::from(now));
        let is_signed = self.settings.format == AlertFormat::Json;
        if let Some(key) = self.signing_key.as_ref().filter(|_| is_signed) {
            headers.insert("webhook-signature", HeaderValue::from_str(&key.sign(id, now, body)).ok()?);
        }
        Some(headers)
    }
}
