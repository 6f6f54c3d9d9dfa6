//! The prices of one model: official and gateway prices, tiers by prompt length, the cost of a call.

use gw_wire::hosted_tools::{HostedCalls, HostedTool};
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

/// Prices of one call of each hosted tool; None = unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolPrices {
    /// A search of the web.
    pub web_search: Option<Price>,
    /// A web page that is read.
    pub web_fetch: Option<Price>,
    /// A search in stored files.
    pub file_search: Option<Price>,
    /// A container in which the model runs code.
    pub code_interpreter: Option<Price>,
}

/// A [`Price`] is that of a million.
const MILLION: u64 = 1_000_000;

impl ToolPrices {
    /// The price of one call of a tool.
    #[must_use]
    pub fn of(&self, tool: HostedTool) -> Option<Price> {
        match tool {
            HostedTool::WebSearch => self.web_search,
            HostedTool::WebFetch => self.web_fetch,
            HostedTool::FileSearch => self.file_search,
            HostedTool::CodeInterpreter => self.code_interpreter,
        }
    }

    /// These prices, with those of `below` where one is missing.
    #[must_use]
    pub fn or(self, below: Self) -> Self {
        Self {
            web_search: self.web_search.or(below.web_search),
            web_fetch: self.web_fetch.or(below.web_fetch),
            file_search: self.file_search.or(below.file_search),
            code_interpreter: self.code_interpreter.or(below.code_interpreter),
        }
    }

    /// The prices times the multiplier of a provider.
    #[must_use]
    pub fn times(self, multiplier: Price) -> Self {
        let times = |price: Option<Price>| price.map(|price| price.times(multiplier));
        Self {
            web_search: times(self.web_search),
            web_fetch: times(self.web_fetch),
            file_search: times(self.file_search),
            code_interpreter: times(self.code_interpreter),
        }
    }

    /// Whether no price is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The cost of these calls. A call without a price, which only the operator can let pass, adds nothing.
    fn cost(&self, calls: &HostedCalls) -> Money {
        let one = |tool| {
            let price: Option<Price> = self.of(tool);
            price.map_or(Money::ZERO, |price| price.cost(u64::from(calls.of(tool)) * MILLION))
        };
        HostedTool::ALL.into_iter().map(one).sum()
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
    /// The prices of hosted tools that are shown and charged.
    pub tools: ToolPrices,
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
        if !self.is_usd() {
            return None;
        }
        let tokens = self.rates(usage.prompt).cost(usage)?;
        Some(if usage.hosted.is_none() { tokens } else { tokens + self.tools.cost(&usage.hosted) })
    }

    /// Whether calls of this hosted tool can be charged.
    #[must_use]
    pub fn has_tool(&self, tool: HostedTool) -> bool {
        self.is_usd() && self.tools.of(tool).is_some()
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
            tools: ToolPrices {
                web_search: price("0.01"),
                code_interpreter: price("0.03"),
                ..ToolPrices::default()
            },
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

    #[test]
    fn hosted_tools_are_charged_by_the_call() {
        let hosted = |web_search, file_search, code_interpreter| HostedCalls {
            web_search,
            file_search,
            code_interpreter,
            ..HostedCalls::default()
        };
        for (calls, shown) in [
            (hosted(3, 0, 0), "0.032"),
            (hosted(3, 0, 2), "0.092"),
            // A tool without a price adds nothing.
            (hosted(0, 9, 0), "0.002"),
            (hosted(u32::MAX, 0, 0), "42949672.952"),
        ] {
            let used = Usage { hosted: calls, ..usage(1000, 0, 0, 0) };
            assert_eq!(sample().cost(&used).unwrap().to_string(), shown, "{calls:?}");
        }
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
