//! One model of the catalogue: every fact about it, and the questions the engine asks.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gw_providers::model_rules::ModelRules;
use gw_providers::settings::TimeoutOverrides;
use gw_routing::health::Health;
use gw_routing::metrics::CallMetrics;
use gw_wire::money::Money;
use gw_wire::usage::Usage;

use super::prices::Prices;
use crate::error::{Error, Kind, Result};

/// What goes in and what comes out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modalities {
    /// Kinds of content it reads.
    pub input: Vec<Box<str>>,
    /// Kinds of content it writes.
    pub output: Vec<Box<str>>,
}

/// What was configured about speed and reliability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Performance {
    /// Percent.
    pub availability: Option<f64>,
    /// Milliseconds.
    pub latency_p50_ms: Option<f64>,
    /// Milliseconds.
    pub latency_p99_ms: Option<f64>,
}

/// Benchmark scores, 0 to 100, higher is better.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scores {
    /// Mean of all categories.
    pub overall: Option<f64>,
    /// Coding.
    pub code: Option<f64>,
    /// Mathematics.
    pub math: Option<f64>,
    /// Reasoning.
    pub reasoning: Option<f64>,
}

/// What is known about the length of an embedding model's vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimensions {
    /// Its full size. A shorter vector may be asked for; whether it can, the provider knows.
    Native(u32),
    /// Exactly these.
    Set(Vec<u32>),
    /// Anything from the first to the second.
    Range(u32, u32),
}

/// A catalogue entry. None is always "nobody told us", never "no".
#[derive(Clone, Debug)]
pub struct Model {
    /// `<provider>/<model_name>`.
    pub id: Arc<str>,
    /// The part before the first slash.
    pub provider: Arc<str>,
    /// What the provider calls it.
    pub upstream_model: Arc<str>,
    /// The model's demands on a request, looked up once when the catalogue is built.
    pub rules: Option<ModelRules>,
    /// Display name.
    pub name: Box<str>,
    /// For people; empty when unknown.
    pub description: Box<str>,
    /// chat, embedding, vision, …
    pub category: Option<Vec<Box<str>>>,
    /// Tokens of prompt and answer together.
    pub context_length: Option<u64>,
    /// Tokens of an answer.
    pub max_output_tokens: Option<u64>,
    /// Kinds of content.
    pub modalities: Option<Modalities>,
    /// Feature names of the contract.
    pub features: Option<Vec<Box<str>>>,
    /// Under which the model is available.
    pub license: Option<Box<str>>,
    /// Prices; None when not a single one is known.
    pub prices: Option<Prices>,
    /// The configured prior.
    pub performance: Performance,
    /// What was seen of it: this replaces the prior.
    pub measured: Arc<CallMetrics>,
    /// Whether it may be asked at the moment.
    pub health: Arc<Health>,
    /// Its share of the turns in `round_robin`.
    pub weight: u32,
    /// Benchmark scores.
    pub scores: Scores,
    /// Vector lengths of an embedding model.
    pub dimensions: Option<Dimensions>,
    /// Whether the weights can be downloaded.
    pub open_weights: Option<bool>,
    /// `YYYY-MM-DD` or `YYYY-MM`.
    pub release_date: Option<Box<str>>,
    /// `YYYY-MM-DD` or `YYYY-MM`.
    pub knowledge_cutoff: Option<Box<str>>,
    /// `YYYY-MM-DD`: the provider stops serving it.
    pub deprecation_date: Option<Box<str>>,
    /// It misbehaves on purpose, for drills and tests: lists show it only where they are asked for faults.
    pub is_fault: bool,
    /// Clocks set again for this model.
    pub timeouts: TimeoutOverrides,
    /// The names beside its id that stand for it in this catalogue: its bare name and aliases. Set once all are known.
    pub(super) names: OnceLock<Box<[Box<str>]>>,
    /// The entry as the API shows it, without its closing brace and its `sources`.
    pub(super) entry: Bytes,
    /// Where in `entry` the prior stands, its comma and name included.
    pub(super) performance_at: Range<usize>,
    /// The rest of the full entry, closing brace included.
    pub(super) entry_end: Bytes,
}

impl Model {
    /// The part of the id after its first slash: what a bare name is compared with.
    #[must_use]
    pub fn bare_name(&self) -> &str {
        self.id.split_once('/').map_or(&*self.id, |(_, name)| name)
    }

    /// Whether a request for this name may be served by this model: the name is its id, its bare name or an alias of it.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        let names = self.names.get().map(AsRef::as_ref).unwrap_or_default();
        *self.id == *name || names.iter().any(|known| **known == *name)
    }

    /// Speed and reliability: measured once there was traffic, the prior before.
    #[must_use]
    pub fn performance(&self) -> Performance {
        super::measured::over(&self.measured, self.performance)
    }

    /// What a call costs in USD. None = no price (or not in USD): reported as 0 with a warning, never silently.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<Money> {
        self.prices.as_ref()?.cost(usage)
    }

    /// Gateway input plus output price in nano-USD per million tokens, to order models by; None sorts last.
    #[must_use]
    pub fn price_sum(&self) -> Option<u128> {
        self.prices.as_ref().filter(|prices| prices.is_usd())?.sum()
    }

    /// The same in USD, for scores.
    #[must_use]
    pub fn price_per_million(&self) -> Option<f64> {
        // Far below 2^53 nano-USD: nothing is lost.
        #[expect(clippy::cast_precision_loss, reason = "a score is a guide")]
        self.price_sum().map(|nano| nano as f64 / 1e9)
    }

    /// Whether it has the feature. An entry without a feature list refuses nothing.
    #[must_use]
    pub fn supports(&self, feature: &str) -> bool {
        self.features.as_ref().is_none_or(|known| has(known, feature))
    }

    /// Whether it reads this kind of content. An entry without modalities refuses nothing.
    #[must_use]
    pub fn accepts_input(&self, modality: &str) -> bool {
        self.modalities.as_ref().is_none_or(|known| has(&known.input, modality))
    }

    /// Whether it writes this kind of content. An entry without modalities refuses nothing.
    #[must_use]
    pub fn gives_output(&self, modality: &str) -> bool {
        self.modalities.as_ref().is_none_or(|known| has(&known.output, modality))
    }

    /// Whether all it does is embed, so that a chat with it is the client's mistake.
    #[must_use]
    pub fn is_embedding_only(&self) -> bool {
        match self.known_category() {
            Some(category) => has(category, "embedding") && !has(category, "chat"),
            None => self.modalities.as_ref().is_some_and(writes_only_embeddings),
        }
    }

    /// Whether it may be asked to chat or to complete a text.
    #[must_use]
    pub fn is_chat(&self) -> bool {
        !self.is_embedding_only()
    }

    /// Whether it may be asked for embeddings. An entry without category and modalities refuses nothing.
    #[must_use]
    pub fn is_embedding(&self) -> bool {
        match (self.known_category(), &self.modalities) {
            (Some(category), _) => has(category, "embedding"),
            (None, Some(modalities)) => modalities.output.is_empty() || has(&modalities.output, "embedding"),
            (None, None) => true,
        }
    }

    /// Whether vectors of this length may be asked for.
    ///
    /// # Errors
    /// `unsupported_parameter` when the model is not marked as having a choice, `unsupported_value` when the
    /// length is outside its set or range. A model of which nothing is known (discovered, or a bare id in
    /// `[[models]]`) refuses nothing.
    pub fn check_dimensions(&self, wanted: u32) -> Result<()> {
        let (fits, expected) = match &self.dimensions {
            None if self.category.is_none() && self.features.is_none() && self.modalities.is_none() => {
                return Ok(());
            }
            None => {
                let message =
                    format!("Unsupported parameter: 'dimensions' is not supported with model '{}'.", self.id);
                return Err(Error::new(Kind::UnsupportedParameter, message));
            }
            Some(Dimensions::Native(size)) => (wanted <= *size, format!("at most {size}")),
            Some(Dimensions::Range(least, most)) => {
                ((*least..=*most).contains(&wanted), format!("{least} to {most}"))
            }
            Some(Dimensions::Set(set)) => {
                let shown: Vec<String> = set.iter().map(ToString::to_string).collect();
                (set.contains(&wanted), format!("one of {}", shown.join(", ")))
            }
        };
        if fits {
            return Ok(());
        }
        let message = format!(
            "Unsupported value: 'dimensions' does not support {wanted} with model '{}'. Expected {expected}.",
            self.id
        );
        Err(Error::new(Kind::UnsupportedValue, message))
    }

    fn known_category(&self) -> Option<&[Box<str>]> {
        self.category.as_deref().filter(|category| !category.is_empty())
    }
}

fn has(list: &[Box<str>], wanted: &str) -> bool {
    list.iter().any(|item| &**item == wanted)
}

fn writes_only_embeddings(modalities: &Modalities) -> bool {
    matches!(&*modalities.output, [only] if &**only == "embedding")
}
