//! The lines of a charge. The same code computes a charge with its lines and without them, so that they add up to it.

use gw_wire::charges::ChargeLine;
use gw_wire::hosted_tools::HostedTool;
use gw_wire::money::{Money, Price, UnitPrice};
use gw_wire::usage::{Unit, UnitCount, Usage};

use super::prices::{Charge, MILLION, Prices};

/// Receives the lines of a charge. `()` discards them: a charge without lines costs nothing more.
pub(super) trait ChargeLines {
    /// Adds a line.
    fn add(&mut self, line: impl FnOnce() -> ChargeLine);
    /// Removes all lines.
    fn clear(&mut self);
}

impl ChargeLines for () {
    #[inline]
    fn add(&mut self, _line: impl FnOnce() -> ChargeLine) {}

    #[inline]
    fn clear(&mut self) {}
}

impl ChargeLines for Vec<ChargeLine> {
    fn add(&mut self, line: impl FnOnce() -> ChargeLine) {
        self.push(line());
    }

    fn clear(&mut self) {
        Self::clear(self);
    }
}

/// The line of tokens.
pub(super) fn of_tokens(kind: &'static str, tokens: u64, price: Price, cost: Money) -> ChargeLine {
    ChargeLine { unit: kind.into(), count: UnitCount::whole(tokens), price: price.cost(1), cost }
}

/// The line of units.
pub(super) fn of_units(unit: Unit, count: UnitCount, price: UnitPrice, cost: Money) -> ChargeLine {
    ChargeLine { unit: unit.name().into(), count, price: price.whole(), cost }
}

/// The line of the calls of a hosted tool.
pub(super) fn of_calls(tool: HostedTool, calls: u32, price: Price, cost: Money) -> ChargeLine {
    let count = UnitCount::whole(calls.into());
    ChargeLine { unit: tool.price_name().into(), count, price: price.cost(MILLION), cost }
}

impl Prices {
    /// The charge for a call in USD with its lines, which add up to its known part.
    #[must_use]
    pub fn itemised(&self, usage: &Usage) -> (Charge, Vec<ChargeLine>) {
        let mut lines = Vec::new();
        let charge = self.charge_with(usage, &mut lines);
        (charge, lines)
    }
}
