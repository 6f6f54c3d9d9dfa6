//! The cost that an upstream states in its answer.

use std::num::NonZeroU64;

use crate::money::Money;

/// The largest cost of one answer that is believed, in femto-USD: 10,000 USD.
const MAX_FEMTOS: u64 = 10_000_000_000_000_000_000;
/// xAI counts in ticks of 10^-10 USD (docs.x.ai/developers/cost-tracking).
const TICK_POWER: i32 = -10;

/// A cost as its provider states it. It is small because every usage has room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatedCost(NonZeroU64);

impl StatedCost {
    /// The names of the members of a usage that state a cost.
    pub const MEMBERS: [&'static str; 2] = ["cost", "cost_in_usd_ticks"];

    /// Reads the JSON text of a member of [`Self::MEMBERS`]. None: it is another member, no number, negative, or above 10,000 USD. Digits
    /// beyond a femto-USD are rounded.
    #[must_use]
    pub fn read(member: &str, number: &str) -> Option<Self> {
        let power = match member {
            // OpenRouter states USD ("Usage accounting" at openrouter.ai/docs).
            "cost" => 0,
            "cost_in_usd_ticks" => TICK_POWER,
            _ => return None,
        };
        let femtos = Money::parse_rounded(number, power).ok()?.femtos();
        let femtos = u64::try_from(femtos).ok().filter(|femtos| *femtos <= MAX_FEMTOS)?;
        Self::of_femtos(femtos)
    }

    /// From femto-USD. None for the largest number of 64 bits.
    pub(crate) fn of_femtos(femtos: u64) -> Option<Self> {
        femtos.checked_add(1).and_then(NonZeroU64::new).map(Self)
    }

    /// In femto-USD.
    pub(crate) fn femtos(self) -> u64 {
        self.0.get() - 1
    }

    /// The amount.
    #[must_use]
    pub fn amount(self) -> Money {
        Money::from_femtos(self.femtos().into())
    }

    /// The sum of two costs; None if neither is stated.
    #[must_use]
    pub fn plus(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => {
                Self::of_femtos(one.femtos().saturating_add(other.femtos()).min(u64::MAX - 1))
            }
            (one, other) => one.or(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(member: &str, number: &str) -> Option<String> {
        StatedCost::read(member, number).map(|cost| {
            let mut out = Vec::new();
            cost.amount().write(&mut out);
            String::from_utf8(out).unwrap()
        })
    }

    #[test]
    fn a_stated_cost_is_exact() {
        for (member, number, expected) in [
            ("cost", "0.00014", "0.00014"),
            ("cost", "0", "0"),
            ("cost", "1.25e-6", "0.00000125"),
            ("cost", "0.0009834499999999999", "0.00098345"),
            ("cost", "10000", "10000"),
            ("cost_in_usd_ticks", "37756000", "0.0037756"),
            ("cost_in_usd_ticks", "1", "0.0000000001"),
        ] {
            assert_eq!(usd(member, number).as_deref(), Some(expected), "{member} {number}");
        }
    }

    #[test]
    fn a_cost_that_cannot_be_true_is_ignored() {
        for number in
            ["-0.1", "10000.01", "1e99", "1e999999999999", "\"0.1\"", "null", "true", "{}", "[1]", ""]
        {
            assert_eq!(StatedCost::read("cost", number), None, "{number}");
        }
        assert_eq!(StatedCost::read("cost_usd", "1"), None);
    }

    #[test]
    fn costs_add_up_as_far_as_they_are_stated() {
        let one = StatedCost::read("cost", "0.1");
        assert_eq!(StatedCost::plus(one, None), one);
        assert_eq!(StatedCost::plus(None, None), None);
        assert_eq!(StatedCost::plus(one, one), StatedCost::read("cost", "0.2"));
        assert_eq!(size_of::<Option<StatedCost>>(), 8);
    }
}
