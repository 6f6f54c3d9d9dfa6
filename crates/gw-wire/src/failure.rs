//! The failures of upstream calls: one closed list for adapters, stream decoders and the attempt loop.

use std::fmt;
use std::time::Duration;

/// The kind of a failure. It alone decides whether to retry, to try the next candidate or to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// Connection refused, DNS, TLS: nothing was sent, or the connection broke before the response head.
    Unreachable,
    /// A timeout of the gateway (connect, first token, idle, total) or of the upstream (408, 504).
    Timeout,
    /// A 429 other than an exhausted quota.
    RateLimited,
    /// 503 or 529.
    Overloaded,
    /// Any other 5xx, 409.
    Server,
    /// 401 or 403: the operator's key for the upstream is wrong.
    Auth,
    /// 402, or a 429 that reports an exhausted quota of the operator's account.
    Billing,
    /// Nothing was sent: every configured key of the provider is invalid or paused.
    NoKey,
    /// 404: the upstream does not know the model.
    ModelMissing,
    /// The prompt is longer than the model's context.
    ContextLength,
    /// The provider's content filter refused the prompt.
    ContentFilter,
    /// Nothing was sent: the provider's dialect cannot express the request. Another provider's may.
    Unsupported,
    /// Any other 400 or 422, or a 413: the same request would fail again.
    BadRequest,
    /// A 2xx answer that cannot be read.
    InvalidResponse,
    /// An incomplete answer: the stream broke, ended without a finish reason or carried an error event, or the model gave
    /// up.
    StreamBroken,
    /// The gateway had no memory to read the answer in. The upstream is not at fault.
    NoMemory,
    /// Nothing was sent: the provider takes images as bytes only, and the bytes of an image at an http(s) address are not there.
    ImageAddress,
    /// Nothing was sent: the gateway had no open file for a connection. The upstream is not at fault.
    NoOpenFile,
}

/// A failed upstream call. `message` may be shown to the client: it never holds keys, URLs or upstream headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind, for control flow.
    pub kind: FailureKind,
    /// The upstream's HTTP status, if a response head arrived.
    pub status: Option<u16>,
    /// The upstream's own error code, for `BadRequest`. Numeric codes are converted to text.
    pub code: Option<String>,
    /// A sentence that the client may see.
    pub message: String,
    /// The upstream's Retry-After, clamped to 1..=300 s.
    pub retry_after: Option<Duration>,
    /// Details for the operator's log, such as the text of a connection error. Never sent to clients.
    pub detail: Option<String>,
    /// The upstream's own message for the operator: one line of at most 2 KiB without secrets. It may quote the prompt;
    /// quotations are removed before it is logged or stored.
    pub reason: Option<String>,
    /// Whether the request may have reached the upstream without an answer, so that it may have been served and billed.
    pub sent: bool,
}

impl Failure {
    /// A failure of this kind with a message that the client may see.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            code: None,
            message: message.into(),
            retry_after: None,
            detail: None,
            reason: None,
            sent: false,
        }
    }

    /// Marks the request as written before it failed.
    #[must_use]
    pub fn after_sending(mut self) -> Self {
        self.sent = true;
        self
    }

    /// Adds details for the log.
    #[must_use]
    pub fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    /// Adds the upstream's status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
