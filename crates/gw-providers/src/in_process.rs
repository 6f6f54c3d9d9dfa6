//! An upstream inside this process: it gets the calls of a provider in place of the network. Only tests use it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use gw_wire::failure::Failure;
use http::HeaderMap;

use crate::adapter::HttpCall;
use crate::client::body::BodyChunk;

/// An upstream that answers calls without a socket. Dropping a response ends its call, as closing a connection does.
pub trait InProcess: fmt::Debug + Send + Sync {
    /// Answers a call with a response head. `call.headers` hold the provider's credentials.
    fn send(&self, call: HttpCall) -> PendingHead<'_>;
}

/// A response head to come, or the failure in place of it ([`Failure::sent`] tells whether the call may have been served).
pub type PendingHead<'u> = Pin<Box<dyn Future<Output = Result<InProcessResponse, Failure>> + Send + 'u>>;

/// The answer of an [`InProcess`] upstream.
pub struct InProcessResponse {
    /// HTTP status, 200 to 599.
    pub status: u16,
    /// Response headers.
    pub headers: HeaderMap,
    /// The body that follows the head.
    pub body: Box<dyn InProcessBody>,
}

impl fmt::Debug for InProcessResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

/// A response body that is made in this process.
pub trait InProcessBody: Send + Sync {
    /// The next piece, never empty; None = the body ended well. A failure is the last item.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<BodyChunk>;
}
