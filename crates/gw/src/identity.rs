//! The connection to issuers of identities, and the task that keeps their public keys up to date.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_config::IdentitySettings;
use gw_identity::{Fetch, FetchError, FetchFuture, FetchRequest, Issuers};
use gw_providers::adapter::HttpCall;
use gw_providers::client::Client;
use gw_providers::settings::Timeouts;
use gw_wire::failure::Failure;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use secrecy::ExposeSecret;
use tokio::time::Instant;

/// The largest answer of an issuer.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The timeouts of a request to an issuer.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(3),
    first_token: Duration::from_secs(5),
    idle: Duration::from_secs(5),
    total: Duration::from_secs(8),
};
/// The longest wait of a start for the keys of the issuers.
const START_TIMEOUT: Duration = Duration::from_secs(2);

/// Builds the issuers and starts the task that fetches their keys. A start waits a moment for the keys; an issuer that does not
/// answer does not stop it.
pub async fn start(settings: &IdentitySettings) -> Option<Issuers> {
    if settings.issuers.is_empty() {
        return None;
    }
    let issuers = Issuers::new(settings.issuers.clone(), Arc::new(IssuerClient));
    let mut keeping = tokio::spawn(issuers.clone().keep_up_to_date());
    let first = async {
        while issuers.generation() < settings.issuers.len() as u64 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        _ = &mut keeping => {}
        _ = tokio::time::timeout(START_TIMEOUT, first) => {}
    }
    Some(issuers)
}

/// Sends requests to issuers, without redirects.
#[derive(Debug)]
struct IssuerClient;

impl Fetch for IssuerClient {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        Box::pin(send(request))
    }
}

async fn send(request: FetchRequest) -> Result<Bytes, FetchError> {
    let (origin, path) = split(&request.url).ok_or_else(|| FetchError::Url("no path".to_owned()))?;
    let client = Client::new(origin, true, None).map_err(|error| FetchError::Url(error.to_string()))?;
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if request.form.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    }
    if let Some(authorization) = &request.authorization {
        let mut value = HeaderValue::from_str(authorization.expose_secret())
            .map_err(|_| FetchError::Url("the client secret cannot be sent".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let method = if request.form.is_some() { Method::POST } else { Method::GET };
    let body = Bytes::from(request.form.unwrap_or_default());
    let unreachable = |failure: Failure| FetchError::Unreachable(failure.detail.unwrap_or(failure.message));
    let call = HttpCall { method, path: path.to_owned(), headers, body, upload: None };
    let response = client.send(call, &TIMEOUTS).await.map_err(unreachable)?;
    let status = response.status;
    let deadline = Instant::now() + TIMEOUTS.total;
    let body = response.body.collect(MAX_ANSWER_BYTES, TIMEOUTS.idle, deadline).await.map_err(unreachable)?;
    if status == 200 { Ok(body) } else { Err(FetchError::Status(status)) }
}

/// The origin of a URL, and its path with the query.
fn split(url: &str) -> Option<(&str, &str)> {
    let start = url.find("://")? + 3;
    let end = url.get(start..)?.find('/')? + start;
    Some((url.get(..end)?, url.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_url_is_an_origin_and_a_path() {
        assert_eq!(split("https://i.example/a/b?c=d"), Some(("https://i.example", "/a/b?c=d")));
        assert_eq!(split("http://[::1]:9/"), Some(("http://[::1]:9", "/")));
        assert_eq!((split("https://i.example"), split("x/y")), (None, None));
    }
}
