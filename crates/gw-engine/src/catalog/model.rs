//! One model of the catalogue with all its facts.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gw_providers::model_rules::ModelRules;
use gw_providers::settings::{PromptCacheSettings, TimeoutOverrides};
use gw_routing::health::Health;
use gw_routing::metrics::CallMetrics;
use gw_wire::money::Money;
use gw_wire::operation::{ModelCategory, PlainOperation};
use gw_wire::usage::Usage;
use http::HeaderValue;

use super::prices::{Charge, Prices};
use crate::error::{Error, Kind, Result};

/// The category of embedding models.
const EMBEDDING: &str = "embedding";

/// The kinds of content that a model reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modalities {
    /// Kinds of content it reads.
    pub input: Vec<Box<str>>,
    /// Kinds of content it writes.
    pub output: Vec<Box<str>>,
}

/// The configured figures of speed and availability.
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

/// The vector lengths of an embedding model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimensions {
    /// The full length. Only the provider knows whether it can shorten a vector.
    Native(u32),
    /// One of these lengths.
    Set(Vec<u32>),
    /// Any length between the two.
    Range(u32, u32),
}

/// A catalogue entry. None means "unknown", never "no".
#[derive(Clone, Debug)]
pub struct Model {
    /// `<provider>/<model_name>`.
    pub id: Arc<str>,
    /// The part before the first slash.
    pub provider: Arc<str>,
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// The model's rules for requests, looked up once when the catalogue is built.
    pub rules: Option<ModelRules>,
    /// The model reasons about a request that says nothing about it.
    pub reasons_unasked: bool,
    /// Display name.
    pub name: Box<str>,
    /// A description; empty if unknown.
    pub description: Box<str>,
    /// chat, embedding, vision, …
    pub category: Option<Vec<Box<str>>>,
    /// Tokens of prompt and answer together.
    pub context_length: Option<u64>,
    /// Tokens of an answer.
    pub max_output_tokens: Option<u64>,
    /// Tools of a request; None: the provider's limit holds.
    pub max_tools: Option<usize>,
    /// Kinds of content.
    pub modalities: Option<Modalities>,
    /// The features, by the names of the API.
    pub features: Option<Vec<Box<str>>>,
    /// The licence of the model.
    pub license: Option<Box<str>>,
    /// The prices; None if no price is known.
    pub prices: Option<Prices>,
    /// The date of the prices, if the shipped catalogue has them.
    pub priced_as_of: Option<Arc<str>>,
    /// The configured figures of speed and availability.
    pub performance: Performance,
    /// The measured figures, which replace the configured ones.
    pub measured: Arc<CallMetrics>,
    /// The circuit breaker and the rest of the model.
    pub health: Arc<Health>,
    /// Its weight in `round_robin`.
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
    /// It fails on purpose, for drills and tests. Lists show it only with `include=faults`.
    pub is_fault: bool,
    /// The timeouts of this model.
    pub timeouts: TimeoutOverrides,
    /// Breakpoints of prompt caches.
    pub prompt_cache: Option<PromptCacheSettings>,
    /// The other names of the model: its bare name and its aliases. Set once all are known.
    pub(super) names: OnceLock<Box<[Box<str>]>>,
    /// The values of the headers that name the model and its provider. Made with the first answer, and shared by all.
    pub(super) answer_names: OnceLock<[Option<HeaderValue>; 2]>,
    /// The entry as JSON, without its closing brace and its `sources`.
    pub(super) entry: Bytes,
    /// The place in `entry` behind its member `id`.
    pub(super) id_end: usize,
    /// The place of the configured figures in `entry`, with their comma and name.
    pub(super) performance_at: Range<usize>,
    /// The rest of the full entry, closing brace included.
    pub(super) entry_end: Bytes,
    /// A digest of what the configuration and the catalogue say of the model. Replicas with equal configurations have equal ones.
    pub(crate) revision: u64,
}

impl Model {
    /// The part of the id after its first slash, for bare names.
    #[must_use]
    pub fn bare_name(&self) -> &str {
        self.id.split_once('/').map_or(&*self.id, |(_, name)| name)
    }

    /// The values of the headers that name the model and its provider. None: a name cannot stand in a header.
    pub(crate) fn answer_names(&self) -> &[Option<HeaderValue>; 2] {
        let value = |name: &Arc<str>| HeaderValue::from_str(name).ok();
        self.answer_names.get_or_init(|| [value(&self.id), value(&self.provider)])
    }

    /// Whether the name is the model's id, its bare name or an alias of it.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        let names = self.names.get().map(AsRef::as_ref).unwrap_or_default();
        *self.id == *name || names.iter().any(|known| **known == *name)
    }

    /// The figures of speed and availability: measured after the first traffic, configured before.
    #[must_use]
    pub fn performance(&self) -> Performance {
        super::measured::over(&self.measured, self.performance)
    }

    /// The cost of a call in USD. None = no price in USD: the answer says 0 with a warning.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<Money> {
        self.prices.as_ref()?.cost(usage)
    }

    /// The charge for a call. Without prices nothing of it is known.
    #[must_use]
    pub fn charge(&self, usage: &Usage) -> Charge {
        self.prices.as_ref().map(|prices| prices.charge(usage)).unwrap_or_default()
    }

    /// Gateway input plus output price in nano-USD per million tokens; None sorts last.
    #[must_use]
    pub fn price_sum(&self) -> Option<u128> {
        self.prices.as_ref().filter(|prices| prices.is_usd())?.sum()
    }

    /// The price in USD, for scores.
    #[must_use]
    pub fn price_per_million(&self) -> Option<f64> {
        // The amount is far below 2^53 nano-USD, so the conversion is exact.
        #[expect(clippy::cast_precision_loss, reason = "a score is a guide")]
        self.price_sum().map(|nano| nano as f64 / 1e9)
    }

    /// Whether its feature list names the feature. An unknown list names none.
    #[must_use]
    pub fn lists_feature(&self, feature: &str) -> bool {
        self.features.is_some() && self.supports(feature)
    }

    /// Whether it has the feature. An entry without a feature list allows all.
    #[must_use]
    pub fn supports(&self, feature: &str) -> bool {
        self.features.as_ref().is_none_or(|known| has(known, feature))
    }

    /// Whether it reads this kind of content. An entry without modalities allows all.
    #[must_use]
    pub fn accepts_input(&self, modality: &str) -> bool {
        self.modalities.as_ref().is_none_or(|known| has(&known.input, modality))
    }

    /// Whether it writes this kind of content. An entry without modalities allows all.
    #[must_use]
    pub fn gives_output(&self, modality: &str) -> bool {
        self.modalities.as_ref().is_none_or(|known| has(&known.output, modality))
    }

    /// The category of a model that writes no text; None for a model that can chat or complete text.
    #[must_use]
    pub fn only_category(&self) -> Option<ModelCategory> {
        let mut categories = PlainOperation::ALL.into_iter().filter_map(|operation| operation.row().category);
        match (self.known_category(), &self.modalities) {
            (Some(known), _) if has(known, "chat") => None,
            (Some(known), _) => categories.find(|category| has(known, category.name)),
            (None, Some(modalities)) => match &*modalities.output {
                [only] => categories.find(|category| **only == *category.name),
                _ => None,
            },
            (None, None) => None,
        }
    }

    /// Whether it can only embed.
    #[must_use]
    pub fn is_embedding_only(&self) -> bool {
        self.only_category().is_some_and(|category| category.name == EMBEDDING)
    }

    /// Whether it can chat or complete text.
    #[must_use]
    pub fn is_chat(&self) -> bool {
        self.only_category().is_none()
    }

    /// Whether it can embed. An entry without category and modalities allows all.
    #[must_use]
    pub fn is_embedding(&self) -> bool {
        self.is_of(EMBEDDING)
    }

    /// Whether it belongs to the category. An entry without category and modalities belongs to all.
    #[must_use]
    pub fn is_of(&self, category: &str) -> bool {
        match (self.known_category(), &self.modalities) {
            (Some(known), _) => has(known, category),
            (None, Some(modalities)) => modalities.output.is_empty() || has(&modalities.output, category),
            (None, None) => true,
        }
    }

    /// Checks whether its vectors can have this length.
    ///
    /// # Errors
    /// `unsupported_parameter` if the model has no choice of lengths, `unsupported_value` if the length is not one of
    /// them. An entry without facts (discovered, or a bare id in `[[models]]`) allows all.
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
