//! OpenAI's values of `reasoning_effort`, and the values that a model accepts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The amount of reasoning.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// No reasoning.
    None,
    /// The least reasoning.
    Minimal,
    /// Little reasoning.
    Low,
    /// Moderate reasoning.
    Medium,
    /// Much reasoning.
    High,
    /// More than `high`.
    Xhigh,
    /// The most reasoning.
    Max,
}

impl Effort {
    /// Reads OpenAI's word; None for unknown words.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        Some(match word {
            "none" => Self::None,
            "minimal" => Self::Minimal,
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            "xhigh" => Self::Xhigh,
            "max" => Self::Max,
            _ => return None,
        })
    }

    /// OpenAI's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// Gemini's thinking level.
    #[must_use]
    pub fn as_level(self) -> &'static str {
        match self {
            Self::None | Self::Minimal => "MINIMAL",
            Self::Low => "LOW",
            Self::Medium => "MEDIUM",
            Self::High => "HIGH",
            Self::Xhigh | Self::Max => "XHIGH",
        }
    }
}

/// The efforts that a model accepts.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Efforts(Vec<Effort>);

impl Efforts {
    /// Whether the model accepts no effort.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The efforts in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Effort> {
        self.0.iter().copied()
    }

    /// Whether the efforts are in ascending order without repetition.
    pub(super) fn is_sorted(&self) -> bool {
        self.0.is_sorted_by(|one, next| one < next)
    }

    /// The effort that replaces a requested one: the same effort, or the one that `instead` names, or the next lower
    /// one, or the lowest. None when the model accepts no effort.
    #[must_use]
    pub fn fit(&self, wanted: Effort, instead: &BTreeMap<Effort, Effort>) -> Option<Effort> {
        if self.0.contains(&wanted) {
            return Some(wanted);
        }
        let replacement = instead.get(&wanted).copied();
        replacement
            .or_else(|| self.iter().filter(|effort| *effort < wanted).last())
            .or_else(|| self.iter().next())
    }
}
