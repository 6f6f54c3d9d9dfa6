//! Requests to an issuer. The program sends them, so that this crate makes no connection.

use std::fmt::Debug;
use std::pin::Pin;

use bytes::Bytes;
use secrecy::SecretString;

/// A request to an issuer.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// The whole URL.
    pub url: String,
    /// The form of a POST; None = GET.
    pub form: Option<String>,
    /// The value of the header `Authorization`.
    pub authorization: Option<SecretString>,
}

impl FetchRequest {
    /// A GET.
    #[must_use]
    pub fn get(url: impl Into<String>) -> Self {
        Self { url: url.into(), form: None, authorization: None }
    }
}

/// The reason why an issuer gave no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The URL cannot be used.
    #[error("the URL cannot be used: {0}")]
    Url(String),
    /// No answer came in time.
    #[error("the issuer does not answer: {0}")]
    Unreachable(String),
    /// The answer has another status than 200.
    #[error("the issuer answers with status {0}")]
    Status(u16),
}

/// The answer, later: the body of a 200.
pub type FetchFuture<'a> = Pin<Box<dyn Future<Output = Result<Bytes, FetchError>> + Send + 'a>>;

/// Sends requests to issuers, each in bounded time and with a bounded answer.
pub trait Fetch: Debug + Send + Sync {
    /// Sends a request.
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_>;
}
