//! Combines the prices of the catalogue and the configuration.

use gw_wire::money::{Price, PriceError};

use super::prices::{ImagePrice, Prices, Rates, Tier, ToolPrices, UnitPrices};
use super::shipped::ShippedPricing;
use crate::settings::{PricingSettings, TierSettings};

/// Prices before they are final.
#[derive(Debug, Default)]
pub(super) struct PriceDraft {
    official: Rates,
    /// Gateway prices that the operator set. The multiplier does not change them.
    outright: Rates,
    tiers: Vec<TierDraft>,
    official_units: UnitPrices,
    outright_units: UnitPrices,
    images: Vec<ImagePrice>,
    /// The provider's own prices of hosted tools.
    tools: ToolPrices,
    currency: Option<String>,
}

#[derive(Debug)]
struct TierDraft {
    above: u64,
    official: Rates,
    outright: Rates,
}

impl PriceDraft {
    /// The shipped prices, which are the provider's own.
    pub(super) fn shipped(pricing: &ShippedPricing<'_>) -> Result<Self, PriceError> {
        let tier = |tier: &super::shipped::ShippedTier<'_>| {
            let above = tier.above_input_tokens;
            Ok(TierDraft { above, official: tier.rates()?, outright: Rates::default() })
        };
        Ok(Self {
            official: pricing.rates()?,
            outright: Rates::default(),
            tiers: pricing.tiers.iter().map(tier).collect::<Result<_, PriceError>>()?,
            official_units: pricing.units()?,
            outright_units: UnitPrices::default(),
            images: pricing
                .images
                .iter()
                .map(super::shipped::ShippedImage::price)
                .collect::<Result<_, _>>()?,
            tools: pricing.tools.prices()?,
            currency: pricing.currency.as_deref().map(str::to_owned),
        })
    }

    /// Overrides prices with those of a `[[models]]` entry, field by field. `tiers` are one field.
    pub(super) fn apply(&mut self, set: &PricingSettings) {
        let official = Rates {
            input: set.official_input_per_m,
            output: set.official_output_per_m,
            cached_input: set.cached_input_per_m,
            cache_write: set.cache_write_per_m,
            cache_write_1h: set.cache_write_1h_per_m,
            audio_input: set.official_audio_input_per_m,
            audio_output: set.official_audio_output_per_m,
            image_input: set.official_image_input_per_m,
            image_output: set.official_image_output_per_m,
        };
        self.official = official.or(self.official);
        // `cached_input_per_m` and the prices of cache writes are the provider's, as in the shipped catalogue.
        let outright = Rates {
            input: set.gateway_input_per_m,
            output: set.gateway_output_per_m,
            audio_input: set.gateway_audio_input_per_m,
            audio_output: set.gateway_audio_output_per_m,
            image_input: set.gateway_image_input_per_m,
            image_output: set.gateway_image_output_per_m,
            ..Rates::default()
        };
        self.outright = outright.or(self.outright);
        self.official_units = set.official_units.or(self.official_units);
        self.outright_units = set.gateway_units.or(self.outright_units);
        if let Some(images) = &set.images {
            self.images = images.clone();
        }
        if let Some(tiers) = &set.tiers {
            self.tiers = tiers.iter().map(TierDraft::from).collect();
        }
        self.tools = set.tools.or(self.tools);
        if set.currency.is_some() {
            self.currency.clone_from(&set.currency);
        }
    }

    /// The final prices with a provider's multiplier; None if no price is known.
    pub(super) fn finish(mut self, multiplier: Price) -> Result<Option<Prices>, String> {
        let currency = self.currency.as_deref().unwrap_or("USD");
        if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Err("pricing.currency is not a three-letter code".to_owned());
        }
        let currency = currency.to_ascii_uppercase().into();
        self.tiers.sort_by_key(|tier| tier.above);
        if self.tiers.windows(2).any(|pair| matches!(pair, [a, b] if a.above == b.above)) {
            return Err("pricing.tiers has two tiers above the same number of tokens".to_owned());
        }
        let gateway = self.outright.or(self.official.times(multiplier));
        let mut below = (self.official, gateway);
        let mut tiers = Vec::with_capacity(self.tiers.len());
        for tier in &self.tiers {
            // A tier takes the prices that it does not state from below its bound.
            below =
                (tier.official.or(below.0), tier.outright.or(tier.official.times(multiplier)).or(below.1));
            tiers.push(Tier { above_input_tokens: tier.above, official: below.0, gateway: below.1 });
        }
        let tools = self.tools.times(multiplier);
        let units = self.outright_units.or(self.official_units.times(multiplier));
        for row in &mut self.images {
            row.gateway = row.gateway.or_else(|| row.official.map(|price| price.times(multiplier)));
        }
        let has_tokens = !gateway.is_empty() || !tiers.is_empty() || !tools.is_empty();
        if !has_tokens && units.is_empty() && self.images.is_empty() {
            return Ok(None);
        }
        let Self { official, official_units, images, .. } = self;
        Ok(Some(Prices { official, gateway, tiers, official_units, units, images, tools, currency }))
    }
}

impl Prices {
    /// Prices that stand in the configuration alone; None if no price is stated.
    ///
    /// # Errors
    /// The currency or the tiers cannot be used.
    pub(crate) fn of_settings(set: &PricingSettings, multiplier: Price) -> Result<Option<Self>, String> {
        let mut draft = PriceDraft::default();
        draft.apply(set);
        draft.finish(multiplier)
    }
}

impl From<&TierSettings> for TierDraft {
    fn from(set: &TierSettings) -> Self {
        let official = Rates {
            input: set.official_input_per_m,
            output: set.official_output_per_m,
            cached_input: set.cached_input_per_m,
            cache_write: set.cache_write_per_m,
            cache_write_1h: set.cache_write_1h_per_m,
            audio_input: set.official_audio_input_per_m,
            audio_output: set.official_audio_output_per_m,
            image_input: None,
            image_output: set.official_image_output_per_m,
        };
        let outright =
            Rates { input: set.gateway_input_per_m, output: set.gateway_output_per_m, ..Rates::default() };
        Self { above: set.above_input_tokens, official, outright }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(text: &str) -> Option<Price> {
        Some(Price::parse(text).unwrap())
    }

    fn shipped() -> PriceDraft {
        let text = r#"{"official_input_per_m":2.0,"official_output_per_m":10,"cached_input_per_m":0.1,
            "tiers":[{"above_input_tokens":100,"official_input_per_m":4.0,"cached_input_per_m":0.3}]}"#;
        PriceDraft::shipped(&serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn the_multiplier_touches_official_prices_only() {
        let mut draft = shipped();
        draft.apply(&PricingSettings {
            official_output_per_m: price("20"),
            gateway_input_per_m: price("1.25"),
            cache_write_per_m: price("3"),
            ..PricingSettings::default()
        });
        let prices = draft.finish(Price::parse("1.5").unwrap()).unwrap().unwrap();
        assert_eq!((prices.official.input, prices.official.output), (price("2"), price("20")));
        let gateway = prices.gateway;
        assert_eq!((gateway.input, gateway.output), (price("1.25"), price("30")));
        assert_eq!((gateway.cached_input, gateway.cache_write), (price("0.15"), price("4.5")));
        assert_eq!(&*prices.currency, "USD");
    }

    #[test]
    fn a_tier_inherits_what_it_does_not_state() {
        let prices = shipped().finish(Price::parse("2").unwrap()).unwrap().unwrap();
        let above = prices.rates(101);
        assert_eq!((above.input, above.output, above.cached_input), (price("8"), price("20"), price("0.6")));
        assert_eq!(prices.rates(100).input, price("4"));
    }

    #[test]
    fn configured_tiers_replace_the_shipped_ones() {
        let mut draft = shipped();
        let tier = |above_input_tokens, gateway| TierSettings {
            above_input_tokens,
            gateway_input_per_m: gateway,
            ..TierSettings::default()
        };
        draft.apply(&PricingSettings {
            tiers: Some(vec![tier(500, price("9")), tier(200, price("7"))]),
            ..PricingSettings::default()
        });
        let prices = draft.finish(Price::parse("1").unwrap()).unwrap().unwrap();
        let inputs = [100, 200, 201, 500, 501].map(|prompt| prices.rates(prompt).input);
        assert_eq!(inputs, [price("2"), price("2"), price("7"), price("7"), price("9")]);
    }

    #[test]
    fn nonsense_is_refused_and_nothing_is_nothing() {
        let finish = |set: &PricingSettings| {
            let mut draft = PriceDraft::default();
            draft.apply(set);
            draft.finish(Price::parse("1").unwrap())
        };
        assert_eq!(finish(&PricingSettings::default()), Ok(None));
        for currency in ["", "US", "DOLLAR", "12$"] {
            let set = PricingSettings { currency: Some(currency.into()), ..PricingSettings::default() };
            assert!(finish(&set).is_err(), "{currency}");
        }
        let twice = vec![TierSettings::default(), TierSettings::default()];
        assert!(finish(&PricingSettings { tiers: Some(twice), ..PricingSettings::default() }).is_err());
    }
}
