//! The `gateway` object of an answer: how the gateway served the request.

use std::borrow::Cow;
use std::sync::Arc;

use crate::money::Money;
use crate::prompt_cache::PromptCacheUse;

/// One attempt as reported in `gateway.attempts`.
#[derive(Clone, Debug)]
pub struct AttemptRecord {
    /// Provider name.
    pub provider: Arc<str>,
    /// Catalogue id of the model.
    pub model: Arc<str>,
    /// `"ok"` or an error code.
    pub status: &'static str,
    /// Milliseconds from the attempt's start to its answer or failure.
    pub latency_ms: u64,
    /// Cost of all upstream calls of the attempt; None = no price is known.
    pub cost: Option<Money>,
}

/// The values of the `gateway` object.
#[derive(Clone, Debug)]
pub struct GatewayMeta {
    /// `req_…`, equal to the `x-request-id` header.
    pub request_id: Arc<str>,
    /// Catalogue id of the model that served the request.
    pub model_used: Arc<str>,
    /// The provider that served the request.
    pub provider: Arc<str>,
    /// Whether the answer came from the response cache.
    pub cache_hit: bool,
    /// Canonical name of the strategy.
    pub routing_strategy: &'static str,
    /// Whether another model than the requested one served the request.
    pub fallback_used: bool,
    /// Milliseconds from the accepted request to the complete answer.
    pub latency_ms: u64,
    /// Every attempt in order.
    pub attempts: Vec<AttemptRecord>,
    /// Warnings for the caller (`price_unknown`, `parameter_dropped:seed`, …).
    pub warnings: Vec<Cow<'static, str>>,
    /// The cost that a cache hit saved; None = not a cache hit.
    pub saved: Option<Money>,
    /// The preset that changed the request; None = none did.
    pub preset: Option<Arc<PresetUse>>,
    /// The use of the provider's prompt cache; None = none was made.
    pub prompt_cache: Option<Arc<PromptCacheUse>>,
    /// The source of a semantic cache hit; None = an exact hit or no hit.
    pub similar: Option<SemanticMatch>,
}

/// The preset that changed a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetUse {
    /// The alias.
    pub name: Arc<str>,
    /// The state of the alias: the number of its last change over the API, else a hash of its entry.
    pub version: Arc<str>,
}

/// A cached answer to a similar request.
#[derive(Clone, Debug, PartialEq)]
pub struct SemanticMatch {
    /// Cosine similarity of the two requests' vectors.
    pub similarity: f32,
    /// Id of the request that the answer was made for: `req_…`.
    pub source: Arc<str>,
}

impl SemanticMatch {
    /// The similarity with four digits, rounded down.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{:.4}", (f64::from(self.similarity) * 1e4).floor() / 1e4)
    }
}

#[cfg(test)]
impl GatewayMeta {
    /// The metadata of an answer that one model gave at once.
    pub(crate) fn example() -> Self {
        Self {
            request_id: "req_1".into(),
            model_used: "acme/m".into(),
            provider: "acme".into(),
            cache_hit: false,
            routing_strategy: "default",
            fallback_used: false,
            latency_ms: 7,
            attempts: Vec::new(),
            warnings: Vec::new(),
            saved: None,
            preset: None,
            prompt_cache: None,
            similar: None,
        }
    }
}
