//! The `gateway` object: what was really done to answer a request.

use std::borrow::Cow;
use std::sync::Arc;

use crate::money::Money;

/// One upstream call, as reported in `gateway.attempts`.
#[derive(Clone, Debug)]
pub struct AttemptRecord {
    /// Provider name.
    pub provider: Arc<str>,
    /// Catalogue id of the model.
    pub model: Arc<str>,
    /// `"ok"` or an error code of CONTRACT 1.3.
    pub status: &'static str,
    /// Milliseconds from the call's start to its answer or failure.
    pub latency_ms: u64,
    /// What the provider charges for it, all its upstream calls together; None = no price is known.
    pub cost: Option<Money>,
}

/// What the `gateway` object of an answer says.
#[derive(Clone, Debug)]
pub struct GatewayMeta {
    /// `req_…`, equal to the `x-request-id` header.
    pub request_id: Arc<str>,
    /// Catalogue id of the model that served.
    pub model_used: Arc<str>,
    /// Its provider.
    pub provider: Arc<str>,
    /// True when the answer came from the response cache.
    pub cache_hit: bool,
    /// Canonical strategy name.
    pub routing_strategy: &'static str,
    /// True iff the serving model is not the requested one.
    pub fallback_used: bool,
    /// Request accepted to answer complete.
    pub latency_ms: u64,
    /// Every upstream call in order.
    pub attempts: Vec<AttemptRecord>,
    /// Things the caller should know (`price_unknown`, `parameter_dropped:seed`, …).
    pub warnings: Vec<Cow<'static, str>>,
    /// What an answer out of the cache would have cost; None = it is not out of the cache.
    pub saved: Option<Money>,
    /// Whose answer it is when a similar question was answered with it, and not the same one.
    pub similar: Option<Similar>,
}

/// An answer to a similar question.
#[derive(Clone, Debug, PartialEq)]
pub struct Similar {
    /// The cosine of the two questions' vectors.
    pub similarity: f32,
    /// The request that the answer was made for: `req_…`.
    pub source: Arc<str>,
}

impl Similar {
    /// The similarity as it is shown: four digits, never rounded up to what it is not.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{:.4}", (f64::from(self.similarity) * 1e4).floor() / 1e4)
    }
}
