//! Reads a catalogue and its signature from files or over HTTPS, within bounds.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use gw_config::catalogue_update::{
    MAX_BYTES, MAX_SIGNATURE_BYTES, SignedFile, SignedFileError, read_bounded,
};
use gw_providers::adapter::HttpCall;
use gw_providers::client::{Client, ClientError};
use gw_providers::settings::Timeouts;
use gw_wire::failure::Failure;
use http::{HeaderMap, Method};
use tokio::time::Instant;

/// The longest time for one of them.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error(transparent)]
    File(#[from] SignedFileError),
    #[error("{url} is not an address: {error}")]
    Address { url: String, error: ClientError },
    #[error("{url} does not answer ({})", .failure.detail.as_deref().unwrap_or(&failure.message))]
    Unreachable { url: String, failure: Box<Failure> },
    #[error("{url} answers with status {status}; redirects are not followed")]
    Status { url: String, status: u16 },
    #[error("{0}: only https:// addresses are read")]
    Plain(String),
}

/// Reads both, each from a file or an address.
pub(super) async fn signed(source: &str, signature: &str) -> Result<SignedFile, FetchError> {
    let bytes = read(source, MAX_BYTES).await?;
    let signature = read(signature, MAX_SIGNATURE_BYTES).await?;
    Ok(SignedFile::new(bytes, &signature))
}

async fn read(source: &str, limit: usize) -> Result<Bytes, FetchError> {
    match source.split_once("://") {
        None => Ok(read_bounded(Path::new(source), limit)?),
        Some(("https", rest)) => of_address(source, rest, limit).await,
        // The signature protects the content. Plain HTTP would show a listener which catalogue is used.
        Some(("http", rest)) if is_loopback(rest) => of_address(source, rest, limit).await,
        Some(_) => Err(FetchError::Plain(source.to_owned())),
    }
}

fn is_loopback(rest: &str) -> bool {
    ["127.0.0.1:", "127.0.0.1/", "localhost:", "localhost/", "[::1]"]
        .iter()
        .any(|start| rest.starts_with(start))
}

async fn of_address(url: &str, rest: &str, limit: usize) -> Result<Bytes, FetchError> {
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let scheme = url.split_once("://").map_or("https", |(scheme, _)| scheme);
    let client = Client::new(&format!("{scheme}://{host}"), true, None)
        .map_err(|error| FetchError::Address { url: url.to_owned(), error })?;
    let timeouts =
        Timeouts { connect: Duration::from_secs(10), first_token: TIMEOUT, idle: TIMEOUT, total: TIMEOUT };
    let unreachable = |failure| FetchError::Unreachable { url: url.to_owned(), failure: Box::new(failure) };
    let path = format!("/{path}");
    let call =
        HttpCall { method: Method::GET, path, headers: HeaderMap::new(), body: Bytes::new(), upload: None };
    let answer = client.send(call, &timeouts).await.map_err(unreachable)?;
    if answer.status != 200 {
        return Err(FetchError::Status { url: url.to_owned(), status: answer.status });
    }
    answer.body.collect(limit, TIMEOUT, Instant::now() + TIMEOUT).await.map_err(unreachable)
}
