//! The catalogue's price of one token of each kind.

use gw_engine::catalog::Model;
use gw_wire::money::Money;
use gw_wire::usage::Usage;

use super::bill::BilledTokens;

/// Femto-USD for a token. Prices that depend on the length of a prompt have their lowest step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenRates {
    pub uncached: i128,
    pub cached: i128,
    pub write_5m: i128,
    pub write_1h: i128,
    pub completion: i128,
}

impl TokenRates {
    /// The prices of a model. None: the catalogue does not know them.
    pub(crate) fn of(model: &Model) -> Option<Self> {
        let one = |usage: Usage| model.cost(&usage).map(Money::femtos);
        let prompt = Usage { prompt: 1, ..Usage::default() };
        let uncached = one(prompt)?;
        let write = Usage { cache_write: Some(1), ..prompt };
        Some(Self {
            uncached,
            cached: one(Usage { cached: Some(1), ..prompt }).unwrap_or(uncached),
            write_5m: one(write).unwrap_or(uncached),
            write_1h: one(Usage { cache_write_1h: Some(1), ..write }).unwrap_or(uncached),
            completion: one(Usage { completion: 1, ..Usage::default() })?,
        })
    }

    /// The cost of these tokens.
    pub(crate) fn cost(&self, tokens: &BilledTokens) -> Money {
        let parts = [
            (self.uncached, tokens.uncached),
            (self.cached, tokens.cached),
            (self.write_5m, tokens.write_5m),
            (self.write_1h, tokens.write_1h),
            (self.completion, tokens.completion),
        ];
        parts.into_iter().map(|(rate, count)| Money::from_femtos(rate.saturating_mul(count.into()))).sum()
    }
}
