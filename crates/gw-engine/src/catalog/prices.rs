//! The prices of one model: official and gateway prices, tiers by prompt length, the cost of a call.

use gw_wire::hosted_tools::{HostedCalls, HostedTool};
use gw_wire::money::{Money, Price, UnitPrice};
use gw_wire::usage::{ImageForm, Unit, UnitCount, Units, Usage, small};

use super::charge_lines::{self, ChargeLines};
pub use super::unit_prices::{ImagePrice, UnitPrices};

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
    /// Image tokens of the prompt.
    pub image_input: Option<Price>,
    /// Image tokens of the answer.
    pub image_output: Option<Price>,
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
    fn add(
        &mut self,
        lines: &mut impl ChargeLines,
        (kind, tokens): (&'static str, u64),
        price: impl FnOnce() -> Option<Price>,
        least: Option<Price>,
    ) {
        if tokens > 0 {
            let price = price();
            self.is_complete &= price.is_some();
            if let Some(price) = price.or(least) {
                let cost = price.cost(tokens);
                self.known += cost;
                lines.add(|| charge_lines::of_tokens(kind, tokens, price, cost));
            }
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
            image_input: one(self.image_input, other.image_input),
            image_output: one(self.image_output, other.image_output),
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

    fn charge(&self, usage: &Usage, lines: &mut impl ChargeLines) -> Charge {
        let prompt = usage.prompt.min(MAX_TOKENS);
        let cached = usage.cached.unwrap_or(0).min(prompt);
        let written = usage.cache_write.unwrap_or(0).min(prompt - cached);
        let hour = u64::from(usage.cache_write_1h.unwrap_or(0)).min(written);
        let audio_input = u64::from(usage.audio_prompt.unwrap_or(0)).min(prompt - cached - written);
        let text_input = prompt - cached - written - audio_input;
        let image_input = u64::from(usage.image_prompt.unwrap_or(0)).min(text_input);
        let completion = usage.completion.min(MAX_TOKENS);
        let audio_output = u64::from(usage.audio_completion.unwrap_or(0)).min(completion);
        let image_output = u64::from(usage.image_completion.unwrap_or(0)).min(completion - audio_output);
        let (input, output) = (self.input, self.output);
        // A call without tokens needs a price of the input, because the tokens are unknown then.
        let mut charge = Charge { known: Money::ZERO, is_complete: input.is_some() || usage.total() > 0 };
        // Tokens of another kind are rarely cheaper than text, so the price of text gives the least cost.
        charge.add(lines, ("prompt", text_input - image_input), || input, None);
        charge.add(lines, ("cached", cached), || self.cached_input.or(input), None);
        charge.add(lines, ("cache_write", written - hour), || self.cache_write.or(input), None);
        charge.add(lines, ("cache_write_1h", hour), || self.hour_write(), None);
        charge.add(lines, ("audio_prompt", audio_input), || self.audio_input, input);
        charge.add(lines, ("image_prompt", image_input), || self.image_input, input);
        charge.add(lines, ("completion", completion - audio_output - image_output), || output, None);
        charge.add(lines, ("audio_completion", audio_output), || self.audio_output, output);
        charge.add(lines, ("image_completion", image_output), || self.image_output, output);
        charge
    }

    /// Whether text and images have no price by the token.
    fn lacks_token_prices(&self) -> bool {
        self.input.is_none() && self.output.is_none() && self.image_output.is_none()
    }

    /// Whether the tokens that the upstream reported tell the cost of the work that the units measure.
    fn measures(&self, unit: Unit, usage: &Usage) -> bool {
        match unit {
            Unit::Image => self.image_output.is_some() && usage.image_completion.is_some_and(|made| made > 0),
            Unit::Second => !usage.estimated && usage.total() > 0,
            Unit::Character => !usage.estimated && usage.completion > 0,
            Unit::Query | Unit::Search | Unit::Page | Unit::Pixel => false,
        }
    }
}

/// Prices of one call of each hosted tool; None = unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolPrices([Option<Price>; HostedTool::ALL.len()]);

/// A [`Price`] is that of a million.
pub(super) const MILLION: u64 = 1_000_000;

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
    fn charge(&self, calls: &HostedCalls, lines: &mut impl ChargeLines) -> Charge {
        let none = Charge { known: Money::ZERO, is_complete: true };
        let is_counted = |tool: HostedTool| calls.of(tool) > 0;
        let is_charged = |tool: &HostedTool| is_counted(*tool) && self.of(*tool).is_some();
        let is_billed_otherwise =
            |tool: HostedTool| self.of(tool).is_none() && tool.billed_as().iter().any(is_charged);
        let counted = HostedTool::ALL.into_iter().filter(|tool| is_counted(*tool));
        counted.filter(|tool| !is_billed_otherwise(*tool)).fold(none, |sum, tool| {
            let price = self.of(tool);
            let known = price.unwrap_or_default().cost(u64::from(calls.of(tool)) * MILLION);
            if let Some(price) = price {
                lines.add(|| charge_lines::of_calls(tool, calls.of(tool), price, known));
            }
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
    /// The provider's own prices of units other than tokens.
    pub official_units: UnitPrices,
    /// The prices of units that are shown and charged.
    pub units: UnitPrices,
    /// The prices of images by size and quality.
    pub images: Vec<ImagePrice>,
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
        self.charge_with(usage, &mut ())
    }

    /// As [`Prices::charge`], with its lines.
    pub(super) fn charge_with(&self, usage: &Usage, lines: &mut impl ChargeLines) -> Charge {
        if !self.is_usd() {
            return Charge::default();
        }
        let rates = self.rates(usage.prompt);
        let mut charge = rates.charge(usage, lines);
        if !usage.units.is_none() || self.units.of(Unit::Query).is_some() || rates.input.is_none() {
            charge = self.with_units(charge, usage, lines);
        }
        charge.is_complete &= !usage.has_unpriced;
        if usage.hosted.is_none() { charge } else { charge.plus(self.tools.charge(&usage.hosted, lines)) }
    }

    /// The cost that reading so many tokens of a prompt from the cache saves; None = a price is unknown.
    #[must_use]
    pub fn saved_by_reads(&self, prompt_tokens: u64, read: u64) -> Option<Money> {
        let rates = self.rates(prompt_tokens);
        let input = rates.input.filter(|_| self.is_usd())?;
        Some(input.cost(read) - rates.cached_input.unwrap_or(input).cost(read))
    }

    /// The cost of the cache writes of a call above the price of plain input; None = a price is unknown.
    #[must_use]
    pub fn surcharge_of_writes(&self, usage: &Usage) -> Option<Money> {
        let rates = self.rates(usage.prompt);
        let input = rates.input.filter(|_| self.is_usd())?;
        let written = usage.cache_write.unwrap_or(0);
        let hour = u64::from(usage.cache_write_1h.unwrap_or(0)).min(written);
        let minutes = rates.cache_write.unwrap_or(input).cost(written - hour);
        Some(minutes + rates.hour_write()?.cost(hour) - input.cost(written))
    }

    /// The charge of a call with a fee or with units other than tokens. The work that the units measure is charged once: by the tokens
    /// that the upstream reported, or else by the units. A rerank is charged by its units, its tokens or its fee, whichever have a price.
    fn with_units(&self, tokens: Charge, usage: &Usage, lines: &mut impl ChargeLines) -> Charge {
        let rates = self.rates(usage.prompt);
        let fee = self.units.of(Unit::Query);
        let is_fee_only = fee.is_some() && rates.lacks_token_prices();
        let mut charge = match usage.units.get() {
            None => {
                // A call that made no image costs nothing at a model that is priced by the image.
                let is_empty = usage.completion == 0 && rates.lacks_token_prices() && self.has_image_prices();
                Charge { is_complete: tokens.is_complete || is_fee_only || is_empty, ..tokens }
            }
            Some((unit, _)) if tokens.is_complete && rates.measures(unit, usage) => tokens,
            Some((Unit::Search, _)) => {
                let cost = self.cost_of_units(usage.units, lines);
                let is_complete = cost.is_some() || rates.input.is_some() || fee.is_some();
                Charge { known: tokens.known + cost.unwrap_or_default(), is_complete }
            }
            Some((unit, _)) => match self.cost_of_units(usage.units, &mut ()) {
                Some(cost) => {
                    lines.clear();
                    let text = rates.charge(&text_beside(unit, usage), lines);
                    self.cost_of_units(usage.units, lines);
                    Charge { known: text.known + cost, is_complete: true }
                }
                None => {
                    // Sound that is charged by tokens alone, whose upstream reports none: they are estimated.
                    let is_estimated = matches!(unit, Unit::Second | Unit::Character)
                        && tokens.is_complete
                        && usage.total() > 0;
                    Charge { is_complete: is_fee_only || is_estimated, ..tokens }
                }
            },
        };
        if let Some(fee) = fee {
            charge.known += fee.whole();
            lines.add(|| charge_lines::of_units(Unit::Query, UnitCount::whole(1), fee, fee.whole()));
        }
        charge
    }

    fn has_image_prices(&self) -> bool {
        let has = |unit| self.units.of(unit).is_some();
        !self.images.is_empty() || has(Unit::Image) || has(Unit::Pixel)
    }

    /// The cost of units by their price; None if it is unknown.
    fn cost_of_units(&self, units: Units, lines: &mut impl ChargeLines) -> Option<Money> {
        let (unit, count) = units.get()?;
        let (unit, count, price) = match self.unit_price(units) {
            Some(price) => (unit, count, price),
            None if unit == Unit::Image => {
                let (price, size) = (self.units.of(Unit::Pixel)?, units.form().size?);
                (Unit::Pixel, UnitCount::whole(count.floor().saturating_mul(size.pixels()?)), price)
            }
            None => return None,
        };
        let cost = count.cost(price);
        lines.add(|| charge_lines::of_units(unit, count, price, cost));
        Some(cost)
    }

    /// The price of one of these units. An image has that of the row with the most of its size and quality.
    #[must_use]
    pub fn unit_price(&self, units: Units) -> Option<UnitPrice> {
        let (unit, _) = units.get()?;
        let fitting = self.images.iter().filter(|row| unit == Unit::Image && row.form.covers(units.form()));
        // Of equally precise rows, the first one counts.
        let row = fitting.rev().max_by_key(|row| row.form.precision());
        row.and_then(|row| row.gateway).or_else(|| self.units.of(unit))
    }

    /// The forms that images may have of which this much is known before they are made.
    pub fn possible_forms(&self, known: ImageForm) -> impl Iterator<Item = ImageForm> + '_ {
        let may_be = self.images.iter().filter(move |row| row.form.may_be(known));
        may_be.map(move |row| row.form.or(known))
    }

    /// These images with a form that has a price: the form that is known, else the dearest that it may mean. None: no such price is known.
    #[must_use]
    pub fn priced_images(&self, images: Units) -> Option<Units> {
        let cost = |units: &Units| self.cost_of_units(*units, &mut ());
        if cost(&images).is_some() {
            return Some(images);
        }
        let possible = self.possible_forms(images.form()).map(|form| images.with_form(form));
        possible.filter(|units| cost(units).is_some()).max_by_key(cost)
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

/// The text of a prompt, whose tokens are charged beside units that measure all other work.
fn text_beside(unit: Unit, usage: &Usage) -> Usage {
    let audio = u64::from(usage.audio_prompt.unwrap_or(0));
    let images = if unit == Unit::Image { usage.image_prompt } else { None };
    let prompt = usage.prompt.saturating_sub(audio);
    Usage {
        prompt,
        cached: usage.cached,
        image_prompt: images.map(|images| images.min(small(prompt))),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests;
