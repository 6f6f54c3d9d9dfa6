//! The schema of a catalogue file: `data/catalogue.json` and the demo provider's entries.

use std::borrow::Cow;

use gw_wire::hosted_tools::HostedTool;
use gw_wire::money::{Price, PriceError, UnitPrice};
use gw_wire::usage::{ImageForm, Unit};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::prices::{ImagePrice, Rates, ToolPrices, UnitPrices};

/// One entry. Unknown members are skipped.
#[derive(Debug, Deserialize)]
pub(super) struct ShippedEntry<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) upstream_model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) description: Option<Cow<'a, str>>,
    pub(super) category: Option<Vec<Box<str>>>,
    pub(super) context_length: Option<u64>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) max_tools: Option<usize>,
    pub(super) modalities: Option<ShippedModalities>,
    pub(super) features: Option<Vec<Box<str>>>,
    pub(super) license: Option<Box<str>>,
    #[serde(borrow)]
    pub(super) license_source: Option<Cow<'a, str>>,
    pub(super) open_weights: Option<bool>,
    #[serde(borrow, default)]
    pub(super) pricing: ShippedPricing<'a>,
    #[serde(default)]
    pub(super) performance: ShippedPerformance,
    #[serde(borrow, default)]
    pub(super) quality_scores: ShippedScores<'a>,
    pub(super) embedding_dimensions: Option<ShippedDimensions>,
    pub(super) release_date: Option<Box<str>>,
    pub(super) knowledge_cutoff: Option<Box<str>>,
    pub(super) deprecation_date: Option<Box<str>>,
    /// It fails on purpose.
    #[serde(default)]
    pub(super) fault: bool,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ShippedModalities {
    #[serde(default)]
    pub(super) input: Vec<Box<str>>,
    #[serde(default)]
    pub(super) output: Vec<Box<str>>,
}

/// A number as its digits, so that a price is never a binary float.
type Digits<'a> = Option<&'a RawValue>;

#[derive(Debug, Default, Deserialize)]
pub(super) struct ShippedPricing<'a> {
    #[serde(borrow)]
    official_input_per_m: Digits<'a>,
    #[serde(borrow)]
    official_output_per_m: Digits<'a>,
    #[serde(borrow)]
    cached_input_per_m: Digits<'a>,
    #[serde(borrow)]
    cache_write_per_m: Digits<'a>,
    #[serde(borrow)]
    cache_write_1h_per_m: Digits<'a>,
    #[serde(borrow)]
    official_audio_input_per_m: Digits<'a>,
    #[serde(borrow)]
    official_audio_output_per_m: Digits<'a>,
    #[serde(borrow)]
    official_image_input_per_m: Digits<'a>,
    #[serde(borrow, alias = "image_output_per_m")]
    official_image_output_per_m: Digits<'a>,
    #[serde(borrow)]
    official_per_query: Digits<'a>,
    #[serde(borrow)]
    official_per_search_unit: Digits<'a>,
    #[serde(borrow)]
    official_per_image: Digits<'a>,
    #[serde(borrow)]
    official_per_second: Digits<'a>,
    #[serde(borrow)]
    official_per_character: Digits<'a>,
    #[serde(borrow)]
    official_per_page: Digits<'a>,
    #[serde(borrow)]
    official_per_pixel: Digits<'a>,
    #[serde(borrow, default)]
    pub(super) images: Vec<ShippedImage<'a>>,
    #[serde(borrow, default)]
    pub(super) tiers: Vec<ShippedTier<'a>>,
    #[serde(borrow, default)]
    pub(super) tools: ShippedTools<'a>,
    #[serde(borrow)]
    pub(super) currency: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) source: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) as_of: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) note: Option<Cow<'a, str>>,
}

/// The price of images of one size and quality; a missing one is any.
#[derive(Debug, Deserialize)]
pub(super) struct ShippedImage<'a> {
    #[serde(borrow)]
    size: Option<Cow<'a, str>>,
    #[serde(borrow)]
    quality: Option<Cow<'a, str>>,
    #[serde(borrow)]
    official_per_image: Digits<'a>,
}

impl ShippedImage<'_> {
    /// The provider's own price.
    pub(super) fn price(&self) -> Result<ImagePrice, PriceError> {
        let form = ImageForm::of(self.size.as_deref(), self.quality.as_deref());
        let is_known =
            self.size.is_some() == form.size.is_some() && self.quality.is_some() == form.quality.is_some();
        let official = unit_price(self.official_per_image)?.filter(|_| is_known);
        Ok(ImagePrice { form, official: Some(official.ok_or(PriceError::Malformed)?), gateway: None })
    }
}

/// Prices of one call of each hosted tool.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ShippedTools<'a> {
    #[serde(borrow)]
    web_search_per_call: Digits<'a>,
    #[serde(borrow)]
    web_fetch_per_call: Digits<'a>,
    #[serde(borrow)]
    file_search_per_call: Digits<'a>,
    #[serde(borrow)]
    code_interpreter_per_container: Digits<'a>,
    #[serde(borrow)]
    code_interpreter_per_call: Digits<'a>,
    #[serde(borrow)]
    web_search_per_answer: Digits<'a>,
    #[serde(borrow)]
    search_request_low: Digits<'a>,
    #[serde(borrow)]
    search_request_medium: Digits<'a>,
    #[serde(borrow)]
    search_request_high: Digits<'a>,
}

impl ShippedTools<'_> {
    fn digits(&self, tool: HostedTool) -> Digits<'_> {
        match tool {
            HostedTool::WebSearch => self.web_search_per_call,
            HostedTool::WebFetch => self.web_fetch_per_call,
            HostedTool::FileSearch => self.file_search_per_call,
            HostedTool::CodeInterpreter => self.code_interpreter_per_container,
            HostedTool::CodeRun => self.code_interpreter_per_call,
            HostedTool::SearchAnswer => self.web_search_per_answer,
            HostedTool::SearchLow => self.search_request_low,
            HostedTool::SearchMedium => self.search_request_medium,
            HostedTool::SearchHigh => self.search_request_high,
        }
    }

    /// The provider's own prices.
    pub(super) fn prices(&self) -> Result<ToolPrices, PriceError> {
        for tool in HostedTool::ALL {
            price(self.digits(tool))?;
        }
        Ok(ToolPrices::of_each(|tool| price(self.digits(tool)).ok().flatten()))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ShippedTier<'a> {
    pub(super) above_input_tokens: u64,
    #[serde(borrow)]
    official_input_per_m: Digits<'a>,
    #[serde(borrow)]
    official_output_per_m: Digits<'a>,
    #[serde(borrow)]
    cached_input_per_m: Digits<'a>,
    #[serde(borrow)]
    cache_write_per_m: Digits<'a>,
    #[serde(borrow)]
    cache_write_1h_per_m: Digits<'a>,
    #[serde(borrow)]
    image_output_per_m: Digits<'a>,
}

impl ShippedPricing<'_> {
    /// The provider's own prices.
    pub(super) fn rates(&self) -> Result<Rates, PriceError> {
        Ok(Rates {
            input: price(self.official_input_per_m)?,
            output: price(self.official_output_per_m)?,
            cached_input: price(self.cached_input_per_m)?,
            cache_write: price(self.cache_write_per_m)?,
            cache_write_1h: price(self.cache_write_1h_per_m)?,
            audio_input: price(self.official_audio_input_per_m)?,
            audio_output: price(self.official_audio_output_per_m)?,
            image_input: price(self.official_image_input_per_m)?,
            image_output: price(self.official_image_output_per_m)?,
        })
    }

    fn unit_digits(&self, unit: Unit) -> Digits<'_> {
        match unit {
            Unit::Query => self.official_per_query,
            Unit::Search => self.official_per_search_unit,
            Unit::Image => self.official_per_image,
            Unit::Second => self.official_per_second,
            Unit::Character => self.official_per_character,
            Unit::Page => self.official_per_page,
            Unit::Pixel => self.official_per_pixel,
        }
    }

    /// The provider's own prices of units other than tokens.
    pub(super) fn units(&self) -> Result<UnitPrices, PriceError> {
        for unit in Unit::ALL {
            unit_price(self.unit_digits(unit))?;
        }
        Ok(UnitPrices::of_each(|unit| unit_price(self.unit_digits(unit)).ok().flatten()))
    }
}

impl ShippedTier<'_> {
    /// The provider's own prices above the bound.
    pub(super) fn rates(&self) -> Result<Rates, PriceError> {
        Ok(Rates {
            input: price(self.official_input_per_m)?,
            output: price(self.official_output_per_m)?,
            cached_input: price(self.cached_input_per_m)?,
            cache_write: price(self.cache_write_per_m)?,
            cache_write_1h: price(self.cache_write_1h_per_m)?,
            image_output: price(self.image_output_per_m)?,
            ..Rates::default()
        })
    }
}

fn price(digits: Digits<'_>) -> Result<Option<Price>, PriceError> {
    digits.map(|digits| Price::parse(digits.get())).transpose()
}

fn unit_price(digits: Digits<'_>) -> Result<Option<UnitPrice>, PriceError> {
    digits.map(|digits| UnitPrice::parse(digits.get())).transpose()
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct ShippedPerformance {
    pub(super) availability: Option<f64>,
    pub(super) latency_p50_ms: Option<f64>,
    pub(super) latency_p99_ms: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ShippedScores<'a> {
    pub(super) overall: Option<f64>,
    pub(super) code: Option<f64>,
    pub(super) math: Option<f64>,
    pub(super) reasoning: Option<f64>,
    #[serde(borrow)]
    pub(super) benchmark: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) release: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) variant: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) source: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) as_of: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) note: Option<Cow<'a, str>>,
}

/// One number is the only length; a list has the possible lengths.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ShippedDimensions {
    Native(u32),
    Choice(Vec<u32>),
}
