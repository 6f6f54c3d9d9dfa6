//! How an upstream call failed, in one closed vocabulary shared by adapters, stream decoders and the attempt loop.

use std::fmt;
use std::time::Duration;

/// What kind of failure an upstream call met. The verdict (retry, next candidate, stop) is made from this alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// Connect refused, DNS, TLS: nothing was sent or the connection broke before the head.
    Unreachable,
    /// One of the clocks ran out (connect, first token, idle, total), or the upstream says so (408, 504).
    Timeout,
    /// 429 that is not an exhausted quota.
    RateLimited,
    /// 503 or 529.
    Overloaded,
    /// Any other 5xx, 409.
    Server,
    /// 401 or 403: our key there is wrong (the operator's fault).
    Auth,
    /// 402, or a 429 that says the account's quota is used up (the operator's fault).
    Billing,
    /// Nothing was sent: every key we have there is dead or resting.
    NoKey,
    /// 404: the upstream does not know the model (the operator's fault).
    ModelMissing,
    /// The prompt is longer than the model's context.
    ContextLength,
    /// The prompt was refused by the provider's filter.
    ContentFilter,
    /// Nothing was sent: the request cannot be said in the provider's dialect. Another provider may be able to.
    Unsupported,
    /// Any other 400 or 422, 413: the same request would fail again.
    BadRequest,
    /// 2xx that cannot be understood.
    InvalidResponse,
    /// An answer that broke off: a stream that broke, ended without a finish reason or carried an error event, or a model that
    /// gave up.
    StreamBroken,
}

/// One failed upstream call. `message` may be shown to the client: it never holds keys, URLs or upstream headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind, for control flow.
    pub kind: FailureKind,
    /// The upstream's HTTP status, if a head arrived.
    pub status: Option<u16>,
    /// The upstream's own error code as a string (numbers are stringified), for `BadRequest`.
    pub code: Option<String>,
    /// A sentence that is safe for the client.
    pub message: String,
    /// The upstream's Retry-After, already clamped to 1..=300 s.
    pub retry_after: Option<Duration>,
    /// Details for the operator's log only (connect error text, …). Never sent to clients.
    pub detail: Option<String>,
    /// The upstream's own words, for the operator only: one line of at most 2 KiB without secrets. They may quote the prompt; the log and the ledger get them without.
    pub reason: Option<String>,
    /// The request may have reached the upstream, which gave no answer: it may have served it all the same.
    pub sent: bool,
}

impl Failure {
    /// A failure of this kind with a client-safe message.
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

    /// The same, of a request that was written when it failed.
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
