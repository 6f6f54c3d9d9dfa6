//! What the edge hands to the engine beside a request's body, and the record for the access log.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_wire::money::Money;
use parking_lot::Mutex;

use crate::auth::Caller;

/// What is known of a request besides its body.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// `req_…`.
    pub request_id: Arc<str>,
    /// Who asks.
    pub caller: Caller,
    /// When the request was accepted: the zero of every latency.
    pub accepted: Instant,
    /// Where the outcome is noted for the log line.
    pub log: Arc<CallLog>,
    /// The client's address, for the ledger.
    pub client: Option<IpAddr>,
    /// The lines of its `Cache-Control` header, joined; None = there is none.
    pub cache_control: Option<Box<[u8]>>,
    /// Silence before a keep-alive comment; None = never.
    pub keepalive: Option<Duration>,
}

/// The outcome of a call, filled exactly once when the call is over, however it ended.
#[derive(Debug, Default)]
pub struct CallLog(Mutex<CallRecord>);

/// What the log line says of a generation request.
#[derive(Clone, Debug, Default)]
pub struct CallRecord {
    /// Catalogue id that served, else the requested one.
    pub model: Option<Arc<str>>,
    /// Its provider.
    pub provider: Option<Arc<str>>,
    /// `"ok"` or a code of CONTRACT 1.3.
    pub status: Option<&'static str>,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub completion_tokens: u64,
    /// True when the tokens are our own estimate.
    pub estimated: bool,
    /// Cost of the successful attempt.
    pub cost: Money,
    /// Upstream calls.
    pub attempts: u32,
    /// Milliseconds from acceptance to the first content (streams).
    pub ttft_ms: Option<u64>,
    /// A stream was asked for.
    pub stream: bool,
    /// A fallback model served.
    pub fallback: bool,
    /// The answer came from the response cache, or from another request's call.
    pub cache_hit: bool,
    /// The reason that the last failed upstream gave: one line of at most 2 KiB, without secrets and quotations of the prompt.
    pub upstream_error: Option<Arc<str>>,
}

impl CallLog {
    /// A copy of the record as it stands.
    #[must_use]
    pub fn record(&self) -> CallRecord {
        self.0.lock().clone()
    }

    /// The status that is noted so far.
    pub(crate) fn status(&self) -> Option<&'static str> {
        self.0.lock().status
    }

    /// Notes this status, unless the call has one.
    pub fn ended(&self, status: &'static str) {
        self.note(|record| record.status = record.status.or(Some(status)));
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut CallRecord)) {
        change(&mut self.0.lock());
    }
}
