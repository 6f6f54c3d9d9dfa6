//! The charge of a request, line by line: each unit with its count, its price and its cost.

use std::borrow::Cow;
use std::sync::Arc;

use crate::money::Money;
use crate::usage::UnitCount;

/// The units of one kind at one price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeLine {
    /// `prompt`, `completion`, `audio_prompt`, …: a kind of token. Or `image`, `second`, …, or the price of a hosted tool.
    pub unit: Cow<'static, str>,
    /// How many.
    pub count: UnitCount,
    /// The price of one.
    pub price: Money,
    /// The price of all.
    pub cost: Money,
}

/// The charge of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charges {
    /// The lines of the calls that the answer consists of, or else of the last attempt.
    pub lines: Vec<ChargeLine>,
    /// The cost of all other calls.
    pub other: Money,
    /// The date of the prices, if the catalogue has it.
    pub price_as_of: Option<Arc<str>>,
}

/// The most lines of a request. A divided request may have calls in several tiers, and images of several forms.
const MAX_LINES: usize = 64;

impl Charges {
    /// Adds a line. Units of one kind at one price are one line. Beyond the bound only the cost is kept.
    pub fn add(&mut self, line: ChargeLine) {
        let same = |known: &&mut ChargeLine| known.unit == line.unit && known.price == line.price;
        if let Some(known) = self.lines.iter_mut().find(same) {
            known.count = known.count.plus(line.count);
            known.cost += line.cost;
        } else if self.lines.len() < MAX_LINES {
            self.lines.push(line);
        } else {
            self.other += line.cost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::UnitPrice;

    #[test]
    fn units_of_one_price_are_one_line_and_the_cost_beyond_the_bound_is_kept() {
        let line = |unit: &str, price: &str| {
            let price = UnitPrice::parse(price).unwrap();
            let count = UnitCount::whole(2);
            ChargeLine { unit: unit.to_owned().into(), count, price: price.whole(), cost: count.cost(price) }
        };
        let mut charges = Charges::default();
        for (unit, price) in [("image", "0.5"), ("second", "0.5"), ("image", "0.25"), ("image", "0.5")] {
            charges.add(line(unit, price));
        }
        let shown: Vec<_> = charges.lines.iter().map(|line| (&*line.unit, line.cost.to_string())).collect();
        assert_eq!(
            shown,
            [("image", "2".to_owned()), ("second", "1".to_owned()), ("image", "0.5".to_owned())]
        );
        (0..MAX_LINES).for_each(|number| charges.add(line(&number.to_string(), "0.5")));
        assert_eq!((charges.lines.len(), charges.other.to_string()), (MAX_LINES, "3".to_owned()));
    }
}
