//! Normalised token usage: `prompt` includes cached and cache-write tokens, `completion` includes reasoning.

mod image_form;
mod stated_cost;
mod units;

pub use image_form::{ImageForm, ImageQuality, ImageSize};
pub use stated_cost::StatedCost;
pub use units::{Unit, UnitCount, Units};

use crate::hosted_tools::HostedCalls;

/// Tokens of one call. `total` is always `prompt + completion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens, cached and cache-write tokens included.
    pub prompt: u64,
    /// Generated tokens, reasoning included.
    pub completion: u64,
    /// Prompt tokens read from the provider's cache, when known. Never above `prompt`.
    pub cached: Option<u64>,
    /// Prompt tokens written to the provider's cache, when known.
    pub cache_write: Option<u64>,
    /// The part of `cache_write` that the cache keeps for an hour, when known. The rest is kept for five minutes.
    pub cache_write_1h: Option<u32>,
    /// Reasoning tokens, when known.
    pub reasoning: Option<u64>,
    /// Audio tokens of the prompt, when known.
    pub audio_prompt: Option<u32>,
    /// Image tokens of the prompt, when known.
    pub image_prompt: Option<u32>,
    /// Audio tokens of the answer, when known.
    pub audio_completion: Option<u32>,
    /// Image tokens of the answer, when known.
    pub image_completion: Option<u32>,
    /// Tokens of a `prediction` that are part of the answer, when known.
    pub accepted_prediction: Option<u32>,
    /// Tokens of a `prediction` that are billed but not part of the answer, when known.
    pub rejected_prediction: Option<u32>,
    /// Calls of tools that the provider ran and charges by the call.
    pub hosted: HostedCalls,
    /// Calls of tools that the provider ran, priced or not, after each of which the model read a prompt that no count above
    /// has yet. A complete usage has none.
    pub unread_calls: u32,
    /// Whether the call used something whose price the catalogue cannot hold: another service tier than the usual one, such
    /// as `priority` or `flex`, or a member or a tool with a price of its own that the operator opened.
    pub has_unpriced: bool,
    /// Whether the gateway estimated the counts, because the upstream reported none or impossible ones.
    pub estimated: bool,
    /// Whether `prompt` is the sum of both, because the upstream reported the total alone.
    pub is_total: bool,
    /// Units other than tokens.
    pub units: Units,
    /// The cost that the upstream states, if it states one.
    pub stated_cost: Option<StatedCost>,
}

/// Values of `service_tier` that mean the usual price: the usual tier, or the tier of the operator's account.
pub const USUAL_TIERS: [&str; 5] = ["auto", "default", "on_demand", "standard", "standard_only"];

/// Whether an upstream's `service_tier` names a tier with a price of its own.
#[must_use]
pub fn is_other_tier(tier: &str) -> bool {
    !tier.is_empty() && !USUAL_TIERS.iter().any(|usual| tier.eq_ignore_ascii_case(usual))
}

/// A count as one of the 32-bit fields of [`Usage`]. They are small because the cache keeps one usage per answer.
#[must_use]
pub fn small(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Bytes of text that count as one token: English has about four bytes per token, code and most other scripts about three.
pub const BYTES_PER_TOKEN: u64 = 3;

/// Bytes of a second of the smallest usual recording: 8 kbit/s.
pub const LEAST_BYTES_PER_SECOND: u64 = 1_000;

/// The bytes of a text for an estimate of its tokens. A character of four bytes (emoji) is up to three tokens, so it counts as nine bytes.
#[must_use]
pub fn text_bytes(text: &str) -> u64 {
    if text.is_ascii() {
        return text.len() as u64;
    }
    // Cannot overflow: a text has fewer bytes than `usize::MAX`. A checked addition would keep the loop from vector
    // instructions.
    let long = text.bytes().fold(0_usize, |long, byte| long.wrapping_add(usize::from(byte >= 0xF0)));
    (text.len() + 5 * long) as u64
}

/// Tokens of a generated image of which neither the size nor the usage is known: those of Gemini 2.5 Flash Image
/// (ai.google.dev/gemini-api/docs/pricing, November 2026).
pub const IMAGE_TOKENS: u64 = 1290;

/// The largest token count that is accepted from an upstream; larger ones are wrong and are clamped.
pub const MAX_BELIEVABLE: u64 = 1 << 32;

/// The part of a usage that does not follow from the answer's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptWork {
    /// Prompt tokens. Those that were written to the provider's cache count twice, and for an hour three times, because they
    /// cost more.
    pub tokens: u64,
    /// Calls of the provider's tools.
    pub calls: u32,
}

impl PromptWork {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let tokens = self.tokens.saturating_add(other.tokens);
        Self { tokens, calls: self.calls.saturating_add(other.calls) }
    }
}

impl Usage {
    /// The reading of prompts and the calls of tools.
    #[must_use]
    pub fn prompt_work(&self) -> PromptWork {
        let written = self.cache_write.unwrap_or(0).saturating_add(self.cache_write_1h.unwrap_or(0).into());
        PromptWork {
            tokens: self.prompt.saturating_add(written),
            calls: self.unread_calls.saturating_add(self.hosted.count()),
        }
    }

    /// Prompt plus completion.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }

    /// The sum of both; a count that neither knows stays unknown.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let add = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
        };
        let add_small = |one: Option<u32>, other: Option<u32>| match (one, other) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
        };
        Self {
            prompt: self.prompt.saturating_add(other.prompt),
            completion: self.completion.saturating_add(other.completion),
            cached: add(self.cached, other.cached),
            cache_write: add(self.cache_write, other.cache_write),
            cache_write_1h: add_small(self.cache_write_1h, other.cache_write_1h),
            reasoning: add(self.reasoning, other.reasoning),
            audio_prompt: add_small(self.audio_prompt, other.audio_prompt),
            image_prompt: add_small(self.image_prompt, other.image_prompt),
            audio_completion: add_small(self.audio_completion, other.audio_completion),
            image_completion: add_small(self.image_completion, other.image_completion),
            accepted_prediction: add_small(self.accepted_prediction, other.accepted_prediction),
            rejected_prediction: add_small(self.rejected_prediction, other.rejected_prediction),
            hosted: self.hosted.plus(&other.hosted),
            unread_calls: self.unread_calls.saturating_add(other.unread_calls),
            has_unpriced: self.has_unpriced || other.has_unpriced,
            estimated: self.estimated || other.estimated,
            is_total: self.is_total || other.is_total,
            units: self.units.plus(other.units),
            stated_cost: StatedCost::plus(self.stated_cost, other.stated_cost),
        }
    }

    /// This report of a stream, which follows an earlier one. A zero tells nothing, so it does not replace what the stream has told before.
    #[must_use]
    pub fn after(self, earlier: Option<Self>) -> Self {
        let Some(earlier) = earlier.filter(|earlier| earlier.total() > 0) else { return self };
        if self.total() > 0
            && (self.prompt > 0 || earlier.prompt == 0)
            && (self.completion > 0 || earlier.completion == 0)
        {
            return self;
        }
        let (of_prompt, of_answer) = (
            if self.prompt > 0 { &self } else { &earlier },
            if self.completion > 0 { &self } else { &earlier },
        );
        Self {
            prompt: of_prompt.prompt,
            cached: of_prompt.cached,
            cache_write: of_prompt.cache_write,
            cache_write_1h: of_prompt.cache_write_1h,
            audio_prompt: of_prompt.audio_prompt,
            image_prompt: of_prompt.image_prompt,
            completion: of_answer.completion,
            reasoning: of_answer.reasoning,
            audio_completion: of_answer.audio_completion,
            image_completion: of_answer.image_completion,
            accepted_prediction: of_answer.accepted_prediction,
            rejected_prediction: of_answer.rejected_prediction,
            hosted: if self.hosted.is_none() { earlier.hosted } else { self.hosted },
            unread_calls: self.unread_calls,
            has_unpriced: self.has_unpriced || earlier.has_unpriced,
            estimated: of_prompt.estimated || of_answer.estimated,
            is_total: of_prompt.is_total && of_answer.completion == 0,
            units: if self.units.is_none() { earlier.units } else { self.units },
            stated_cost: self.stated_cost.or(earlier.stated_cost),
        }
    }

    /// An estimate from the measured prompt and the bytes of the answer.
    #[must_use]
    pub fn estimate(prompt_tokens: u64, answer_bytes: u64) -> Self {
        Self {
            prompt: prompt_tokens,
            completion: answer_bytes.div_ceil(BYTES_PER_TOKEN),
            estimated: true,
            ..Self::default()
        }
    }
}
