//! The lines of a charge in the row of a request, as an array without names.

use std::sync::Arc;

use gw_wire::charges::{ChargeLine, Charges};
use gw_wire::money::Money;
use gw_wire::usage::UnitCount;
use serde::Deserialize;

use super::line_text::LineText;

/// Writes the charge at the end of a row: the cost of other calls, the date of the prices, and the lines.
pub(super) fn write(out: &mut LineText, charges: &Charges) {
    out.raw(",[");
    out.raw(&charges.other.femtos().to_string());
    out.next_text_or_null(charges.price_as_of.as_deref());
    out.raw(",[");
    for (n, ChargeLine { unit, count, price, cost }) in charges.lines.iter().enumerate() {
        out.raw(if n == 0 { "[" } else { ",[" });
        out.text(unit);
        out.next_number(count.millionths());
        out.next_amount(price.femtos());
        out.next_amount(cost.femtos());
        out.character(']');
    }
    out.raw("]]");
}

/// The output of [`write()`].
#[derive(Deserialize)]
pub(super) struct EncodedCharges {
    other: i128,
    price_as_of: Option<Arc<str>>,
    lines: Vec<(String, u64, i128, i128)>,
}

impl From<EncodedCharges> for Charges {
    fn from(said: EncodedCharges) -> Self {
        let line = |(unit, count, price, cost): (String, u64, i128, i128)| ChargeLine {
            unit: unit.into(),
            count: UnitCount::from_millionths(count),
            price: Money::from_femtos(price),
            cost: Money::from_femtos(cost),
        };
        Self {
            lines: said.lines.into_iter().map(line).collect(),
            other: Money::from_femtos(said.other),
            price_as_of: said.price_as_of,
        }
    }
}
