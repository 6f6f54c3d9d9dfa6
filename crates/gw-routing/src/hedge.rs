//! Hedging: when the first token is late, a second candidate is called as well, within a bound on the cost.

use std::sync::Arc;
use std::time::Duration;

use gw_wire::money::Money;
use parking_lot::Mutex;

use crate::metrics::CallMetrics;

/// How long to wait for a first token before a second candidate is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeDelay {
    /// The model's own 95th percentile of times to the first token. No hedge while fewer than 20 are known.
    P95,
    /// A fixed time.
    Fixed(Duration),
}

/// `[routing.hedge]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HedgeSettings {
    /// How long to wait before the hedge.
    pub after: HedgeDelay,
    /// Maximum cost of hedges in percent of the cost of served calls.
    pub max_extra_cost_percent: f64,
}

impl HedgeSettings {
    /// Whether hedges may cost anything. A share of 0 % disables them.
    #[must_use]
    pub fn has_budget(&self) -> bool {
        self.share() > 0
    }

    /// The share in millionths. The percentage is clamped to 0 to 100.
    fn share(&self) -> i128 {
        let percent = self.max_extra_cost_percent;
        let percent = if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 };
        (percent * 10_000.0).round() as i128
    }
}

/// How long to wait for this candidate before a second one is called; None = no hedge.
#[must_use]
pub fn hedge_after(settings: &HedgeSettings, metrics: &CallMetrics) -> Option<Duration> {
    match settings.after {
        HedgeDelay::P95 => metrics.p95_ttft(),
        HedgeDelay::Fixed(after) => Some(after),
    }
}

/// Number of served calls after which an unused balance has decayed to 37 %: a balance saved up over a quiet week
/// cannot be spent in one bad hour.
const DECAY_CALLS: i128 = 1_000;

/// The initial balance in femto-USD: one US cent. A gateway that has just started has served nothing yet, and its first
/// slow request may be hedged too.
const GRANT_FEMTOS: i128 = 10_000_000_000_000;

/// The budget for hedges: each served call adds a share of its cost, each hedge takes out its own cost. The balance
/// starts with one US cent and never falls below zero. So at any time all hedges together have cost at most the share of
/// everything served, plus that cent. A share of 0 % disables hedging: there is no initial balance, and even a hedge
/// without a cost (a model without a price) is refused.
#[derive(Debug)]
pub struct HedgeBudget {
    /// Millionths of a served call's cost that are added to the balance.
    share: i128,
    /// The balance in femto-USD.
    left: Mutex<i128>,
}

impl HedgeBudget {
    /// A budget with the initial balance. The percentage is clamped to 0 to 100.
    #[must_use]
    pub fn new(settings: &HedgeSettings) -> Self {
        let share = settings.share();
        Self { share, left: Mutex::new(if share > 0 { GRANT_FEMTOS } else { 0 }) }
    }

    /// Records a served call of this cost. The cost does not include the hedge.
    pub fn record_served_cost(&self, cost: Money) {
        let paid_in = cost.femtos().max(0).saturating_mul(self.share) / 1_000_000;
        let mut left = self.left.lock();
        *left = left.saturating_sub(*left / DECAY_CALLS).saturating_add(paid_in);
    }

    /// Reserves the highest possible cost of a hedge; None when the balance is too low.
    #[must_use]
    pub fn allow(self: &Arc<Self>, max_cost: Money) -> Option<Hedge> {
        let reserved = max_cost.femtos().max(0);
        let mut left = self.left.lock();
        if self.share == 0 || *left < reserved {
            return None;
        }
        *left -= reserved;
        drop(left);
        Some(Hedge { budget: Arc::clone(self), reserved })
    }

    /// The current balance.
    #[must_use]
    pub fn left(&self) -> Money {
        Money::from_femtos(*self.left.lock())
    }
}

/// Money reserved for one hedge. Dropping it without [`Hedge::settle`] counts the whole reservation as spent.
#[derive(Debug)]
#[must_use = "dropping it spends the reservation"]
pub struct Hedge {
    budget: Arc<HedgeBudget>,
    reserved: i128,
}

impl Hedge {
    /// Charges the actual cost of the attempt that lost and returns the rest to the budget.
    pub fn settle(self, cost: Money) {
        let back = self.reserved.saturating_sub(cost.femtos().max(0)).max(0);
        let mut left = self.budget.left.lock();
        *left = left.saturating_add(back);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fresh(percent: f64) -> Arc<HedgeBudget> {
        let settings = HedgeSettings { after: HedgeDelay::P95, max_extra_cost_percent: percent };
        Arc::new(HedgeBudget::new(&settings))
    }

    /// A budget whose initial balance is spent.
    fn budget(percent: f64) -> Arc<HedgeBudget> {
        let budget = fresh(percent);
        drop(budget.allow(money(GRANT_FEMTOS)));
        assert_eq!(budget.left(), Money::ZERO);
        budget
    }

    fn money(femtos: i128) -> Money {
        Money::from_femtos(femtos)
    }

    #[test]
    fn a_hedge_waits_for_the_95th_percentile_or_for_the_configured_time() {
        let metrics = CallMetrics::default();
        let now = std::time::Instant::now();
        let fixed = Duration::from_millis(300);
        let settings = |after| HedgeSettings { after, max_extra_cost_percent: 5.0 };
        assert_eq!(hedge_after(&settings(HedgeDelay::P95), &metrics), None);
        assert_eq!(hedge_after(&settings(HedgeDelay::Fixed(fixed)), &metrics), Some(fixed));
        for millis in 1..=100 {
            metrics.record_first_token(Duration::from_millis(millis), now);
        }
        assert_eq!(hedge_after(&settings(HedgeDelay::P95), &metrics), Some(Duration::from_millis(95)));
    }

    #[test]
    fn an_empty_budget_allows_no_hedge_and_an_unused_reservation_goes_back() {
        let budget = budget(5.0);
        assert!(budget.allow(money(1)).is_none());
        budget.record_served_cost(money(1_000));
        assert_eq!(budget.left(), money(50));
        let hedge = budget.allow(money(40)).unwrap();
        assert!(budget.allow(money(20)).is_none(), "the reserved amount is not available to others");
        hedge.settle(money(10));
        assert_eq!(budget.left(), money(40));
        drop(budget.allow(money(40)));
        assert_eq!(budget.left(), money(0), "a dropped hedge is spent");
        assert!(budget.allow(money(0)).is_some(), "a hedge without a cost is allowed");
    }

    #[test]
    fn a_new_budget_holds_one_cent_and_a_budget_without_a_share_nothing() {
        let budget = fresh(5.0);
        assert_eq!(budget.left().approx_usd(), 0.01);
        assert!(budget.allow(money(GRANT_FEMTOS + 1)).is_none());
        assert!(budget.allow(money(GRANT_FEMTOS)).is_some());
        assert!(budget.allow(money(1)).is_none(), "the cent is granted once");
        let none = fresh(0.0);
        none.record_served_cost(money(1_000));
        assert!(none.allow(money(0)).is_none(), "0 % disables hedging");
    }

    #[test]
    fn the_savings_of_a_quiet_week_are_not_spent_in_one_hour() {
        let budget = budget(5.0);
        for _ in 0..1_000_000 {
            budget.record_served_cost(money(1_000_000));
        }
        assert!(
            budget.left() <= money(50_000 * (DECAY_CALLS + 1)),
            "about a thousand calls' worth: {:?}",
            budget.left()
        );
    }

    #[test]
    fn a_percentage_outside_0_to_100_is_clamped() {
        for (percent, left) in [(f64::NAN, 0), (-3.0, 0), (f64::INFINITY, 0), (1e9, 1_000), (2.5, 25)] {
            let budget = budget(percent);
            budget.record_served_cost(money(1_000));
            assert_eq!(budget.left(), money(left), "{percent}");
        }
    }

    proptest! {
        /// Hedges never cost more than their share of the served calls, in any order of the calls.
        #[test]
        fn the_cap_holds_at_every_moment(
            steps in prop::collection::vec((0_i128..1_000_000, prop::option::of((0_i128..50_000, 0.0..1.0))), 1..200),
            percent in 0.0..50.0,
        ) {
            let budget = budget(percent);
            let (mut served, mut extra) = (0, 0);
            for (cost, hedge) in steps {
                budget.record_served_cost(money(cost));
                served += cost;
                if let Some((worst, share)) = hedge
                    && let Some(hedge) = budget.allow(money(worst))
                {
                    let spent = (worst as f64 * share) as i128;
                    hedge.settle(money(spent));
                    extra += spent;
                }
                prop_assert!(extra as f64 <= served as f64 * (percent + 0.0001) / 100.0 + 1.0);
            }
        }
    }
}
