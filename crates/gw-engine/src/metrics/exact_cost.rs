//! A counter of money that adds integers, so the sum has no rounding errors however many amounts it has.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use gw_wire::money::Money;
use prometheus_client::encoding::{CounterValueEncoder, EncodeCounterValue};
use prometheus_client::metrics::counter::Atomic;

/// Femto-USD of a nano-USD.
const FEMTOS_PER_NANO: u128 = 1_000_000;

/// An amount as the value of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CostUsd(pub(super) Money);

/// The sum of amounts that are not negative: its nano-USD, and the femto-USD that are left of each amount.
#[derive(Debug, Default)]
pub(super) struct ExactCost {
    nanos: AtomicU64,
    femtos: AtomicU64,
}

impl Atomic<CostUsd> for ExactCost {
    fn inc(&self) -> CostUsd {
        self.inc_by(CostUsd(Money::from_femtos(1_000_000_000_000_000)))
    }

    fn inc_by(&self, CostUsd(cost): CostUsd) -> CostUsd {
        let femtos = u128::try_from(cost.femtos()).unwrap_or(0);
        let part = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
        self.nanos.fetch_add(part(femtos / FEMTOS_PER_NANO), Ordering::Relaxed);
        self.femtos.fetch_add(part(femtos % FEMTOS_PER_NANO), Ordering::Relaxed);
        self.get()
    }

    fn get(&self) -> CostUsd {
        let [nanos, femtos] =
            [&self.nanos, &self.femtos].map(|part| u128::from(part.load(Ordering::Relaxed)));
        CostUsd(Money::from_femtos(i128::try_from(nanos * FEMTOS_PER_NANO + femtos).unwrap_or(i128::MAX)))
    }
}

impl EncodeCounterValue for CostUsd {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> fmt::Result {
        // The nearest float of the exact decimal: it is written as that decimal up to fifteen digits.
        self.0.to_string().parse::<f64>().map_err(|_| fmt::Error)?.encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use gw_wire::money::Price;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ten_thousand_amounts_of_a_tenth_of_a_cent_are_ten_dollars() {
        let sum = ExactCost::default();
        let amount = Price::parse("0.1").unwrap().cost(10_000);
        for _ in 0..10_000 {
            sum.inc_by(CostUsd(amount));
        }
        assert_eq!(sum.get().0.to_string(), "10");
    }

    proptest! {
        #[test]
        fn the_sum_is_exact(amounts in proptest::collection::vec(0_i128..1_000_000_000_000_000_000, 0..100)) {
            let sum = ExactCost::default();
            for femtos in &amounts {
                sum.inc_by(CostUsd(Money::from_femtos(*femtos)));
            }
            prop_assert_eq!(sum.get().0.femtos(), amounts.iter().sum::<i128>());
        }
    }
}
