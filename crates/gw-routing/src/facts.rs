//! The facts about one candidate that a routing decision uses.

use crate::health::HealthStatus;
use crate::metrics::Averages;

/// The figures of one candidate. None means unknown; a figure that is not finite counts as unknown.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// 0 for the models of the requested name, k for the k-th fallback in the client's order. A strategy sorts within
    /// a group and never across groups.
    pub group: u32,
    /// The client did not name this model; `allow_upgrade` added it. Upgrades come last, after open circuits.
    pub is_upgrade: bool,
    /// USD of this request at this candidate: its estimated input and expected output.
    pub cost_usd: Option<f64>,
    /// The gateway's input price plus its output price, in USD per million tokens. Used for requests of unknown size
    /// and between candidates of equal cost.
    pub usd_per_million: Option<f64>,
    /// Overall benchmark score, 0 to 100, higher is better.
    pub quality: Option<f64>,
    /// Weight for `round_robin`, 1 unless configured. A candidate of weight 0 never gets a turn.
    pub weight: u32,
    /// The catalogue's figures, which count until there is traffic.
    pub prior: Prior,
    /// Measured figures, from `CallMetrics::averages`.
    pub averages: Averages,
    /// Whether the candidate can be called, from `Health::status`.
    pub status: HealthStatus,
    /// The prompt cache that the candidate holds for this conversation.
    pub prompt_cache: Option<PromptCache>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            group: 0,
            is_upgrade: false,
            cost_usd: None,
            usd_per_million: None,
            quality: None,
            weight: 1,
            prior: Prior::default(),
            averages: Averages::default(),
            status: HealthStatus::Able,
            prompt_cache: None,
        }
    }
}

/// Speed and reliability as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prior {
    /// Milliseconds to the first token: the catalogue's `latency_p50_ms`.
    pub ttft_ms: Option<f64>,
    /// Percent of requests that succeed.
    pub availability: Option<f64>,
}

/// A prompt cache that a candidate holds for a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PromptCache {
    /// USD by which the cached part of the prompt is cheaper at this candidate.
    pub saved_usd: f64,
    /// Tokens of the prompt that the candidate need not process again.
    pub prompt_tokens: u64,
}
