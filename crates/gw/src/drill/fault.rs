//! What goes wrong in a drill.

use std::fmt;

/// What a provider does instead of answering well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 429 with `Retry-After`.
    RateLimited,
    /// 500 to every request, and more requests than its circuit takes.
    Storm,
    /// Nobody listens at its address.
    Refused,
    /// It takes the request and says nothing.
    Stall,
    /// The answer breaks off in the middle.
    Cut,
    /// Tool calls with indexes that no client expects. Streams count them from 7 down.
    ToolIndex,
    /// It answers well, and takes its time within the configured clocks.
    Slow,
}

impl Fault {
    /// All, in the order in which they are tried.
    pub const ALL: [Self; 7] =
        [Self::RateLimited, Self::Storm, Self::Refused, Self::Stall, Self::Cut, Self::ToolIndex, Self::Slow];

    /// Its name in URLs and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
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
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.as_str() == name)
    }

    /// Whether a stream has begun when it happens, so that nobody can answer in its place any more.
    #[must_use]
    pub const fn is_mid_stream(self) -> bool {
        matches!(self, Self::Cut)
    }

    /// Whether it can happen to embeddings.
    #[must_use]
    pub const fn fits_embeddings(self) -> bool {
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
