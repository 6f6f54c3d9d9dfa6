//! The prices of one model: official and gateway prices, tiers by prompt length, the cost of a call.

use gw_wire::money::{Money, Price};
use gw_wire::usage::Usage;

/// Prices per million tokens; None = unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Prompt tokens.
    pub input: Option<Price>,
    /// Generated tokens.
    pub output: Option<Price>,
    /// Prompt tokens read from the provider's cache; None = as `input`.
    pub cached_input: Option<Price>,
    /// Prompt tokens written to the provider's cache; None = as `input`.
    pub cache_write: Option<Price>,
}

impl Rates {
    /// These prices, with those of `below` where one is missing.
    #[must_use]
    pub fn or(self, below: Self) -> Self {
        Self {
            input: self.input.or(below.input),
            output: self.output.or(below.output),
            cached_input: self.cached_input.or(below.cached_input),
            cache_write: self.cache_write.or(below.cache_write),
        }
    }

    /// The prices times the multiplier of a provider.
    #[must_use]
    pub fn times(self, multiplier: Price) -> Self {
        let times = |price: Option<Price>| price.map(|price| price.times(multiplier));
        Self {
            input: times(self.input),
            output: times(self.output),
            cached_input: times(self.cached_input),
            cache_write: times(self.cache_write),
        }
    }

    /// Whether no price is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn cost(&self, usage: &Usage) -> Option<Money> {
        let prompt = usage.prompt.min(MAX_TOKENS);
        let cached = usage.cached.unwrap_or(0).min(prompt);
        let written = usage.cache_write.unwrap_or(0).min(prompt - cached);
        let input = self.input?;
        let output = match self.output {
            Some(price) => price.cost(usage.completion.min(MAX_TOKENS)),
            // An embedding model generates no tokens, so it needs no price for them.
            None if usage.completion == 0 => Money::ZERO,
            None => return None,
        };
        Some(
            input.cost(prompt - cached - written)
                + self.cached_input.unwrap_or(input).cost(cached)
                + self.cache_write.unwrap_or(input).cost(written)
                + output,
        )
    }
}

/// A bound on token counts, so that no cost can overflow.
const MAX_TOKENS: u64 = 1 << 62;

/// The prices of requests whose prompt exceeds a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    /// The tier applies to prompts with more tokens.
    pub above_input_tokens: u64,
    /// The provider's own prices.
    pub official: Rates,
    /// The prices that are shown and charged.
    pub gateway: Rates,
}

/// All prices of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// The provider's own prices.
    pub official: Rates,
    /// The prices that are shown and charged: official × `price_multiplier`, or set directly.
    pub gateway: Rates,
    /// In the order of their bounds.
    pub tiers: Vec<Tier>,
    /// Three-letter code.
    pub currency: Box<str>,
}

impl Prices {
    /// Whether the prices are in USD.
    #[must_use]
    pub fn is_usd(&self) -> bool {
        &*self.currency == "USD"
    }

    /// The rates for a prompt of this length.
    #[must_use]
    pub fn rates(&self, prompt_tokens: u64) -> &Rates {
        let reached = self.tiers.iter().rev().find(|tier| prompt_tokens > tier.above_input_tokens);
        reached.map_or(&self.gateway, |tier| &tier.gateway)
    }

    /// The cost of a call in USD; None if a needed price is unknown or not in USD.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<Money> {
        if self.is_usd() { self.rates(usage.prompt).cost(usage) } else { None }
    }

    /// Gateway input plus output price in nano-units.
    #[must_use]
    pub fn sum(&self) -> Option<u128> {
        Some(u128::from(self.gateway.input?.nanos()) + u128::from(self.gateway.output?.nanos()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn price(text: &str) -> Option<Price> {
        Some(Price::parse(text).unwrap())
    }

    fn usage(prompt: u64, cached: u64, cache_write: u64, completion: u64) -> Usage {
        Usage { prompt, completion, cached: Some(cached), cache_write: Some(cache_write), ..Usage::default() }
    }

    fn sample() -> Prices {
        let gateway = Rates {
            input: price("2"),
            output: price("10"),
            cached_input: price("0.1"),
            cache_write: price("2.5"),
        };
        let above = Rates {
            input: price("4"),
            output: price("15"),
            cached_input: price("0.2"),
            cache_write: price("5"),
        };
        Prices {
            official: gateway,
            gateway,
            tiers: vec![Tier { above_input_tokens: 272_000, official: above, gateway: above }],
            currency: "USD".into(),
        }
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        for (usage, shown) in [
            (usage(0, 0, 0, 0), "0"),
            (usage(1_000_000, 1_000_000, 0, 0), "0.2"),
            (usage(100_000, 0, 0, 0), "0.2"),
            (usage(1000, 400, 100, 50), "0.00179"),
            (usage(272_000, 0, 0, 1_000_000), "10.544"),
            (usage(272_001, 0, 0, 1_000_000), "16.088004"),
            // More tokens are cached than the prompt has, so the prompt is the bound.
            (usage(10, 25, 30, 0), "0.000001"),
            (usage(10, 4, 30, 0), "0.0000154"),
        ] {
            assert_eq!(sample().cost(&usage).unwrap().to_string(), shown, "{usage:?}");
        }
    }

    #[test]
    fn unstated_cache_prices_are_the_input_price() {
        let gateway = Rates { input: price("2"), output: price("10"), ..Rates::default() };
        let prices = Prices { gateway, currency: "USD".into(), ..Prices::default() };
        assert_eq!(prices.cost(&usage(1000, 400, 100, 0)), prices.cost(&usage(1000, 0, 0, 0)));
    }

    #[test]
    fn a_needed_price_that_is_unknown_makes_the_cost_unknown() {
        let input_only = Rates { input: price("2"), ..Rates::default() };
        let prices = Prices { gateway: input_only, currency: "USD".into(), ..Prices::default() };
        assert_eq!(prices.cost(&usage(5, 0, 0, 0)).unwrap().to_string(), "0.00001");
        assert_eq!(prices.cost(&usage(5, 0, 0, 1)), None);
        assert_eq!(Prices { currency: "EUR".into(), ..sample() }.cost(&usage(5, 0, 0, 1)), None);
        assert_eq!(prices.sum(), None);
    }

    proptest! {
        #[test]
        fn the_cost_is_the_formula(
            nanos in proptest::array::uniform4(0u64..1_000_000_000_000),
            tokens in proptest::array::uniform4(0u64..10_000_000),
        ) {
            let [input, output, cached_input, cache_write] = nanos.map(|n| Some(Price::from_nanos(n)));
            let prices = Prices {
                gateway: Rates { input, output, cached_input, cache_write },
                currency: "USD".into(),
                ..Prices::default()
            };
            let [prompt, cached, written, completion] = tokens;
            let cached_paid = i128::from(cached.min(prompt));
            let written_paid = i128::from(written).min(i128::from(prompt) - cached_paid);
            let [i, o, c, w] = nanos.map(i128::from);
            let expected = (i128::from(prompt) - cached_paid - written_paid) * i
                + cached_paid * c + written_paid * w + i128::from(completion) * o;
            let cost = prices.cost(&usage(prompt, cached, written, completion)).unwrap();
            prop_assert_eq!(cost.femtos(), expected);
        }

        #[test]
        fn no_usage_and_no_price_overflows_or_goes_below_zero(
            nanos in any::<[u64; 4]>(), tokens in any::<[u64; 4]>(),
        ) {
            let [input, output, cached_input, cache_write] = nanos.map(|n| Some(Price::from_nanos(n)));
            let rates = Rates { input, output, cached_input, cache_write };
            let [prompt, cached, written, completion] = tokens;
            let cost = rates.cost(&usage(prompt, cached, written, completion)).unwrap();
            prop_assert!(cost >= Money::ZERO);
        }
    }
}
