//! Reads the pages of a provider's report, within bounds.

use std::time::Duration;

use bytes::Bytes;
use gw_providers::adapter::HttpCall;
use gw_providers::client::{Client, ClientError};
use gw_providers::settings::Timeouts;
use gw_wire::failure::Failure;
use gw_wire::percent;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::time::Instant;

/// The longest time for one page.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The largest page.
const MAX_PAGE_BYTES: usize = 32 * 1024 * 1024;
/// The most pages of a report.
const MAX_PAGES: usize = 1_000;

/// The reason why a report cannot be read. None of the messages shows the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    /// The address is none.
    #[error("the address of the reports is not one: {0}")]
    Address(#[from] ClientError),
    /// The admin key is no header.
    #[error("admin_key has characters that no header has")]
    Key,
    /// The provider does not answer.
    #[error("{path}: the provider does not answer ({})", .failure.detail.as_deref().unwrap_or(&failure.message))]
    Unreachable {
        /// The report.
        path: String,
        /// The reason.
        failure: Box<Failure>,
    },
    /// The provider refuses.
    #[error("{path}: the provider answers with status {status}")]
    Status {
        /// The report.
        path: String,
        /// The status.
        status: u16,
    },
    /// The answer is not the report.
    #[error("{path}: the answer is not the report: {error}")]
    Malformed {
        /// The report.
        path: String,
        /// The fault.
        error: serde_json::Error,
    },
    /// An entry has no day or no amount that can be read.
    #[error("{path}: '{text}' is no {kind}")]
    Value {
        /// The report.
        path: String,
        /// The kind of the value.
        kind: &'static str,
        /// The text.
        text: String,
    },
    /// The report does not end.
    #[error("{0}: the report does not end: it names a page again, or has more than 1,000")]
    Endless(String),
}

/// The server of the reports.
#[derive(Debug)]
pub(crate) struct ReportServer {
    client: Client,
    headers: HeaderMap,
}

impl ReportServer {
    /// A server with these headers, the key among them.
    ///
    /// # Errors
    /// The address or a header cannot be used.
    pub(crate) fn new(base_url: &str, headers: &[(&'static str, &str)]) -> Result<Self, ReportError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let mut value = HeaderValue::from_str(value).map_err(|_| ReportError::Key)?;
            value.set_sensitive(true);
            map.insert(HeaderName::from_static(name), value);
        }
        map.insert(http::header::ACCEPT, HeaderValue::from_static("application/json"));
        // The operator wrote the address, so a report may come from a private network.
        Ok(Self { client: Client::new(base_url, true, None)?, headers: map })
    }

    async fn get(&self, path: &str, query: &str) -> Result<Bytes, ReportError> {
        let timeouts = Timeouts {
            connect: Duration::from_secs(10),
            first_token: TIMEOUT,
            idle: TIMEOUT,
            total: TIMEOUT,
        };
        let failed = |failure| ReportError::Unreachable { path: path.to_owned(), failure: Box::new(failure) };
        let call = HttpCall {
            method: Method::GET,
            path: format!("{path}?{query}"),
            headers: self.headers.clone(),
            body: Bytes::new(),
            upload: None,
        };
        let answer = self.client.send(call, &timeouts).await.map_err(failed)?;
        if answer.status != 200 {
            return Err(ReportError::Status { path: path.to_owned(), status: answer.status });
        }
        answer.body.collect(MAX_PAGE_BYTES, TIMEOUT, Instant::now() + TIMEOUT).await.map_err(failed)
    }

    /// Reads all pages of a report. `read` takes a page, and returns the name of the next one.
    ///
    /// # Errors
    /// A page cannot be read, or the report does not end.
    pub(crate) async fn pages(
        &self,
        path: &str,
        query: &str,
        mut read: impl FnMut(&Bytes) -> Result<Option<String>, ReportError>,
    ) -> Result<(), ReportError> {
        let mut page: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let query = match &page {
                Some(page) => format!("{query}&page={}", percent::encode(page)),
                None => query.to_owned(),
            };
            let next = read(&self.get(path, &query).await?)?;
            match next {
                Some(next) if Some(&next) == page.as_ref() => break,
                Some(next) => page = Some(next),
                None => return Ok(()),
            }
        }
        Err(ReportError::Endless(path.to_owned()))
    }
}
