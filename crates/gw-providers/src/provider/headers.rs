//! The headers of a call that do not belong to its dialect.

use std::time::Duration;

use gw_wire::failure::{Failure, FailureKind};
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret;

use super::Provider;
use super::credentials::NoUsableKey;
use crate::settings::{ProviderSettings, SettingsError};

/// Headers of the transport. Configuring them would break the framing or the origin.
const RESERVED: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "proxy-connection",
    "accept-encoding",
];

pub(crate) const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!("model-gateway/", env!("CARGO_PKG_VERSION")));

/// A header that the configuration adds.
pub(super) type Header = (HeaderName, HeaderValue);

impl Provider {
    /// Adds the headers that do not belong to the dialect, and returns the index of the key that was used.
    pub(super) fn complete(&self, headers: &mut HeaderMap) -> Result<Option<usize>, Failure> {
        // Six headers: three here, the credentials, and the transport's `host` and `content-length`.
        headers.reserve(6 + self.headers.len());
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(USER_AGENT, USER_AGENT_VALUE);
        if !headers.contains_key(ACCEPT) {
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        }
        let mut used = None;
        if self.signer.is_none()
            && let Some((key, value)) = self.credentials.next().map_err(|back| no_key(&back))?
        {
            used = Some(key);
            headers.insert(self.credentials.header(), value.clone());
        }
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        Ok(used)
    }
}

fn no_key(NoUsableKey(back): &NoUsableKey) -> Failure {
    let mut failure = Failure::new(FailureKind::NoKey, "Every key of the provider is set aside.");
    failure.retry_after = Some((*back).max(Duration::from_secs(1)));
    failure
}

/// Reads the headers of the configuration.
pub(super) fn configured_headers(settings: &ProviderSettings) -> Result<Vec<Header>, SettingsError> {
    let mut headers = Vec::with_capacity(settings.headers.len());
    for (name, value) in &settings.headers {
        let parsed: HeaderName = name.parse().map_err(|_| SettingsError::HeaderName(name.clone()))?;
        if RESERVED.contains(&parsed.as_str()) {
            return Err(SettingsError::ReservedHeader(name.clone()));
        }
        let mut value = HeaderValue::from_str(value.expose_secret())
            .map_err(|_| SettingsError::HeaderValue(name.clone()))?;
        value.set_sensitive(true);
        headers.push((parsed, value));
    }
    Ok(headers)
}
