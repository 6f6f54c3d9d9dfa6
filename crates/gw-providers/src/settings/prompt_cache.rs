//! `prompt_cache` of a provider, a model or an alias.

use std::time::Duration;

/// Whether the gateway puts breakpoints of the provider's prompt cache into requests that have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptCacheMode {
    /// It does, where the prompt is long enough and the cache pays.
    #[default]
    Auto,
    /// It does not.
    Off,
}

/// The time for which the provider keeps a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakpointTtl {
    /// Five minutes.
    #[default]
    FiveMinutes,
    /// An hour.
    Hour,
}

impl BreakpointTtl {
    /// The time.
    #[must_use]
    pub fn lifetime(self) -> Duration {
        match self {
            Self::FiveMinutes => Duration::from_secs(300),
            Self::Hour => Duration::from_secs(3_600),
        }
    }
}

/// `prompt_cache`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptCacheSettings {
    /// Whether breakpoints are put in.
    pub mode: PromptCacheMode,
    /// The fewest tokens of a prompt that gets breakpoints; None: the model's own minimum.
    pub min_tokens: Option<u64>,
    /// The time for which the breakpoints ask.
    pub ttl: BreakpointTtl,
    /// The time for which a prompt is assumed to stay in the cache; None: that of its breakpoints.
    pub lifetime: Option<Duration>,
}
