//! The words of OpenAI's `reasoning_effort`, and those of them that a model takes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How much a model is to think.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Not at all.
    None,
    /// As little as it can.
    Minimal,
    /// A little.
    Low,
    /// Somewhat.
    Medium,
    /// Much.
    High,
    /// More than much.
    Xhigh,
    /// All it can.
    Max,
}

impl Effort {
    /// Of a client's word; None for words that nobody knows.
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

    /// The word in capitals, as Gemini's thinking levels are written.
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

/// The efforts that a model takes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Efforts(Vec<Effort>);

impl Efforts {
    /// Whether no effort is taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Effort> {
        self.0.iter().copied()
    }

    /// Whether each is greater than the one before it.
    pub(super) fn is_sorted(&self) -> bool {
        self.0.is_sorted_by(|one, next| one < next)
    }

    /// The effort that is sent for a wanted one: itself, what the row says `instead`, else the greatest that is less,
    /// else the least of all. None where the model takes no effort.
    #[must_use]
    pub fn fit(&self, wanted: Effort, instead: &BTreeMap<Effort, Effort>) -> Option<Effort> {
        if self.0.contains(&wanted) {
            return Some(wanted);
        }
        let told = instead.get(&wanted).copied();
        told.or_else(|| self.iter().filter(|effort| *effort < wanted).last()).or_else(|| self.iter().next())
    }
}
