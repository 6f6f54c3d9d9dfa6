//! What is known of one candidate at the moment of the decision.

use crate::health::Standing;
use crate::measured::Seen;

/// One candidate, in figures. None is "nobody knows"; a figure that is not finite counts as None.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// 0 for the requested name's models, k for the k-th fallback, in the client's order. A strategy orders within a
    /// group, never across.
    pub group: u32,
    /// Not named by the client (`allow_upgrade`): after everything else, also after open circuits.
    pub upgrade: bool,
    /// USD of this request at this candidate: estimated input and expected output.
    pub cost: Option<f64>,
    /// USD, gateway input and output price per million tokens added: for requests of unknown size, and between equals.
    pub per_million: Option<f64>,
    /// Overall benchmark score, 0 to 100, higher is better.
    pub quality: Option<f64>,
    /// `round_robin`'s weight, 1 unless configured. 0 is never first in turn.
    pub weight: u32,
    /// What the catalogue says before there was traffic.
    pub prior: Prior,
    /// What was seen: `Measured::seen`.
    pub seen: Seen,
    /// Whether it can be asked: `Health::standing`.
    pub standing: Standing,
    /// It holds this conversation's prompt cache.
    pub warm: Option<Warm>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            group: 0,
            upgrade: false,
            cost: None,
            per_million: None,
            quality: None,
            weight: 1,
            prior: Prior::default(),
            seen: Seen::default(),
            standing: Standing::Able,
            warm: None,
        }
    }
}

/// Configured speed and reliability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prior {
    /// Milliseconds to the first token: `latency_p50_ms` of the catalogue.
    pub ttft_ms: Option<f64>,
    /// Percent of requests that succeed.
    pub availability: Option<f64>,
}

/// A prompt cache that a candidate holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Warm {
    /// USD that the cached part of the prompt is cheaper there.
    pub saved_usd: f64,
    /// Tokens of the prompt that need not be read again.
    pub prompt_tokens: u64,
}
