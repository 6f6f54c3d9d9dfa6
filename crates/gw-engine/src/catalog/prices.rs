//! The prices of one model: official and gateway prices, tiers by prompt length, the cost of a call.

use gw_wire::hosted_tools::{HostedCalls, HostedTool};
use gw_wire::money::{Money, Price};
use gw_wire::usage::{Unit, Usage};

/// The prices of a model's units; None = unknown.
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
    /// Prompt tokens written to the provider's cache for an hour; None = twice `input`.
    pub cache_write_1h: Option<Price>,
    /// Audio tokens of the prompt.
    pub audio_input: Option<Price>,
    /// Audio tokens of the answer.
    pub audio_output: Option<Price>,
    /// Image tokens of the answer.
    pub image_output: Option<Price>,
    /// The fee of one request, in the currency itself; None = no fee.
    pub per_query: Option<Price>,
    /// One search unit of a rerank, in the currency itself.
    pub per_search_unit: Option<Price>,
}

/// The charge for the usage of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// The part of the cost that the known prices give: the cost is at least so high.
    pub known: Money,
    /// Whether every unit of the usage has a price.
    pub is_complete: bool,
}

impl Charge {
    /// Adds tokens of one kind. Most kinds are absent, so their price is only looked up if there are some. `least` is the price
    /// of tokens whose own price is unknown.
    #[inline]
    fn add(&mut self, tokens: u64, price: impl FnOnce() -> Option<Price>, least: Option<Price>) {
        if tokens > 0 {
            let price = price();
            self.is_complete &= price.is_some();
            self.known += price.or(least).unwrap_or_default().cost(tokens);
        }
    }

    /// Both charges together.
    fn plus(self, other: Self) -> Self {
        Self { known: self.known + other.known, is_complete: self.is_complete && other.is_complete }
    }
}

impl Rates {
    /// These prices, with those of `below` where one is missing.
    #[must_use]
    pub fn or(self, below: Self) -> Self {
        self.merge(below, Option::or)
    }

    /// The prices times the multiplier of a provider.
    #[must_use]
    pub fn times(self, multiplier: Price) -> Self {
        self.merge(self, |price, _| price.map(|price| price.times(multiplier)))
    }

    /// Combines each price with the one of another list.
    fn merge(self, other: Self, one: impl Fn(Option<Price>, Option<Price>) -> Option<Price>) -> Self {
        Self {
            input: one(self.input, other.input),
            output: one(self.output, other.output),
            cached_input: one(self.cached_input, other.cached_input),
            cache_write: one(self.cache_write, other.cache_write),
            cache_write_1h: one(self.cache_write_1h, other.cache_write_1h),
            audio_input: one(self.audio_input, other.audio_input),
            audio_output: one(self.audio_output, other.audio_output),
            image_output: one(self.image_output, other.image_output),
            per_query: one(self.per_query, other.per_query),
            per_search_unit: one(self.per_search_unit, other.per_search_unit),
        }
    }

    /// Whether no price is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The price of a cache write for an hour. Only Claude has such writes, and Anthropic charges twice the input price
    /// ("Prompt caching", section "Pricing", at platform.claude.com; Bedrock and Vertex AI do the same).
    #[must_use]
    pub fn hour_write(&self) -> Option<Price> {
        let derived = || self.input.map(|input| input.doubled().max(self.cache_write.unwrap_or_default()));
        self.cache_write_1h.or_else(derived)
    }

    fn charge(&self, usage: &Usage) -> Charge {
        let prompt = usage.prompt.min(MAX_TOKENS);
        let cached = usage.cached.unwrap_or(0).min(prompt);
        let written = usage.cache_write.unwrap_or(0).min(prompt - cached);
        let hour = u64::from(usage.cache_write_1h.unwrap_or(0)).min(written);
        let audio_input = u64::from(usage.audio_prompt.unwrap_or(0)).min(prompt - cached - written);
        let completion = usage.completion.min(MAX_TOKENS);
        let audio_output = u64::from(usage.audio_completion.unwrap_or(0)).min(completion);
        let image_output = u64::from(usage.image_completion.unwrap_or(0)).min(completion - audio_output);
        let (input, output) = (self.input, self.output);
        // An embedding model generates no tokens, so it needs no price for them. Its input has a price even if it is empty.
        let mut charge = Charge { known: Money::ZERO, is_complete: input.is_some() };
        // Tokens of another kind are rarely cheaper than text, so the price of text gives the least cost.
        charge.add(prompt - cached - written - audio_input, || input, None);
        charge.add(cached, || self.cached_input.or(input), None);
        charge.add(written - hour, || self.cache_write.or(input), None);
        charge.add(hour, || self.hour_write(), None);
        charge.add(audio_input, || self.audio_input, input);
        charge.add(completion - audio_output - image_output, || output, None);
        charge.add(audio_output, || self.audio_output, output);
        charge.add(image_output, || self.image_output, output);
        if let Some(fee) = self.per_query {
            charge.known += fee.whole();
        }
        if let Some((unit, count)) = usage.units.get() {
            self.charge_units(&mut charge, unit, count);
        }
        charge
    }

    /// Adds units other than tokens. Such a call is charged by its units, its tokens or its fee, whichever have a price.
    fn charge_units(&self, charge: &mut Charge, unit: Unit, count: u32) {
        let price = self.per_unit(unit);
        charge.known += price.unwrap_or_default().cost(u64::from(count) * MILLION);
        charge.is_complete = price.or(self.input).or(self.per_query).is_some();
    }

    /// The price of one unit.
    #[must_use]
    pub fn per_unit(&self, unit: Unit) -> Option<Price> {
        match unit {
            Unit::Search => self.per_search_unit,
        }
    }
}

/// Prices of one call of each hosted tool; None = unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolPrices([Option<Price>; HostedTool::ALL.len()]);

/// A [`Price`] is that of a million.
const MILLION: u64 = 1_000_000;

impl ToolPrices {
    /// The prices that `price` returns for each tool.
    pub fn of_each(price: impl FnMut(HostedTool) -> Option<Price>) -> Self {
        Self(HostedTool::ALL.map(price))
    }

    /// The price of one call of a tool.
    #[must_use]
    pub fn of(&self, tool: HostedTool) -> Option<Price> {
        let at = HostedTool::ALL.iter().position(|known| *known == tool)?;
        self.0.get(at).copied().flatten()
    }

    /// Sets the price of one call of a tool.
    pub fn set(&mut self, tool: HostedTool, price: Price) {
        let rows = HostedTool::ALL.into_iter().zip(&mut self.0);
        for (_, row) in rows.filter(|(known, _)| *known == tool) {
            *row = Some(price);
        }
    }

    /// These prices, with those of `below` where one is missing.
    #[must_use]
    pub fn or(self, below: Self) -> Self {
        Self::of_each(|tool| self.of(tool).or(below.of(tool)))
    }

    /// The prices times the multiplier of a provider.
    #[must_use]
    pub fn times(self, multiplier: Price) -> Self {
        Self(self.0.map(|price| price.map(|price| price.times(multiplier))))
    }

    /// Whether the model searches the web for every request, which its provider bills by the request.
    #[must_use]
    pub fn always_search(&self) -> bool {
        HostedTool::SEARCH_REQUESTS.into_iter().any(|tool| self.of(tool).is_some())
    }

    /// Whether no price is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The charge for these calls. A call without a price, which only the operator can let pass, makes it incomplete,
    /// unless another count of the same work has a price.
    fn charge(&self, calls: &HostedCalls) -> Charge {
        let none = Charge { known: Money::ZERO, is_complete: true };
        let is_counted = |tool: HostedTool| calls.of(tool) > 0;
        let is_charged = |tool: &HostedTool| is_counted(*tool) && self.of(*tool).is_some();
        let is_billed_otherwise =
            |tool: HostedTool| self.of(tool).is_none() && tool.billed_as().iter().any(is_charged);
        let counted = HostedTool::ALL.into_iter().filter(|tool| is_counted(*tool));
        counted.filter(|tool| !is_billed_otherwise(*tool)).fold(none, |sum, tool| {
            let price = self.of(tool);
            let known = price.unwrap_or_default().cost(u64::from(calls.of(tool)) * MILLION);
            sum.plus(Charge { known, is_complete: price.is_some() })
        })
    }
}

/// A bound on token counts, so that no cost can overflow.
const MAX_TOKENS: u64 = 1 << 60;

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

    /// The charge for a call in USD. Prices in another currency are unknown prices.
    #[must_use]
    pub fn charge(&self, usage: &Usage) -> Charge {
        if !self.is_usd() {
            return Charge::default();
        }
        let mut charge = self.rates(usage.prompt).charge(usage);
        charge.is_complete &= !usage.has_unpriced;
        if usage.hosted.is_none() { charge } else { charge.plus(self.tools.charge(&usage.hosted)) }
    }

    /// The cost of a call in USD; None if a needed price is unknown or not in USD.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<Money> {
        let charge = self.charge(usage);
        charge.is_complete.then_some(charge.known)
    }

    /// Whether calls of this hosted tool can be charged, in any of the ways in which providers bill them.
    #[must_use]
    pub fn has_tool(&self, tool: HostedTool) -> bool {
        self.is_usd() && tool.billed_as().iter().any(|billed| self.tools.of(*billed).is_some())
    }

    /// Gateway input plus output price in nano-units.
    #[must_use]
    pub fn sum(&self) -> Option<u128> {
        Some(u128::from(self.gateway.input?.nanos()) + u128::from(self.gateway.output?.nanos()))
    }
}

#[cfg(test)]
mod tests;
