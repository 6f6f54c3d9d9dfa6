//! The faults of a drill.

use std::fmt;

/// The fault of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// 429 with `Retry-After`.
    RateLimited,
    /// 500 to every request, for more requests than open its circuit.
    Storm,
    /// No program listens at its address.
    Refused,
    /// The provider takes the request and never answers.
    Stall,
    /// The answer breaks off in the middle.
    Cut,
    /// Tool calls with unexpected indexes, which count from 7 down.
    ToolIndex,
    /// A right answer that is slow, but within the configured timeouts.
    Slow,
}

impl Fault {
    /// All faults, in the order of the report.
    pub(super) const ALL: [Self; 7] =
        [Self::RateLimited, Self::Storm, Self::Refused, Self::Stall, Self::Cut, Self::ToolIndex, Self::Slow];

    /// The name in URLs and JSON.
    #[must_use]
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Storm => "storm_of_500",
            Self::Refused => "refused",
            Self::Stall => "stall",
            Self::Cut => "cut",
            Self::ToolIndex => "bad_tool_index",
            Self::Slow => "slow",
        }
    }

    /// The fault of this name.
    #[must_use]
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.as_str() == name)
    }

    /// Whether the fault happens in mid-stream, when no other provider can take over.
    #[must_use]
    pub(super) const fn is_mid_stream(self) -> bool {
        matches!(self, Self::Cut)
    }

    /// Whether the fault can happen to embeddings.
    #[must_use]
    pub(super) const fn fits_embeddings(self) -> bool {
        !matches!(self, Self::ToolIndex)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::RateLimited => "429 with Retry-After",
            Self::Storm => "storm of 500",
            Self::Refused => "connection refused",
            Self::Stall => "stall before the first token",
            Self::Cut => "cut in mid-answer",
            Self::ToolIndex => "bad tool index",
            Self::Slow => "slow",
        })
    }
}
