//! Hedging: when the first token is late, a second candidate is asked as well, within a bound on the cost.

use std::sync::Arc;
use std::time::Duration;

use gw_wire::money::Money;
use parking_lot::Mutex;

use crate::measured::Measured;

/// After how long without a first token a second candidate is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The model's own 95th percentile of times to the first token; never, while fewer than 20 are known.
    P95,
    /// This long.
    Fixed(Duration),
}

/// `[routing.hedge]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HedgeSettings {
    /// When.
    pub after: After,
    /// What hedges may cost, in percent of what was served.
    pub max_extra_cost_percent: f64,
}

/// When to ask a second candidate for what was asked of this one; None = not at all.
#[must_use]
pub fn hedge_after(settings: &HedgeSettings, measured: &Measured) -> Option<Duration> {
    match settings.after {
        After::P95 => measured.p95_ttft(),
        After::Fixed(after) => Some(after),
    }
}

/// Served calls after which an unused saving is down to 37 %: what was saved up in a quiet week cannot be spent in one
/// bad hour.
const MEMORY: i128 = 1_000;

/// What a purse begins with: one US cent, in femto-USD. A gateway that has just started has served nothing yet, and its
/// first slow request is as slow as any later one.
const GRANT: i128 = 10_000_000_000_000;

/// What may be spent on hedges: each served call pays in its share, each hedge takes out its cost. It begins with a grant
/// of one US cent and never goes below zero, so at any time all hedges together have cost at most the share of all that
/// was served, and that cent. A share of 0 % is no purse at all: nothing is granted, and not even a hedge that costs
/// nothing (a model without a price) is allowed.
#[derive(Debug)]
pub struct HedgePurse {
    /// Millionths of a served call's cost that are paid in.
    share: i128,
    /// Femto-USD.
    left: Mutex<i128>,
}

impl HedgePurse {
    /// A purse with nothing but the grant. The percentage is held to 0 to 100.
    #[must_use]
    pub fn new(settings: &HedgeSettings) -> Self {
        let percent = settings.max_extra_cost_percent;
        let percent = if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 };
        let share = (percent * 10_000.0).round() as i128;
        Self { share, left: Mutex::new(if share > 0 { GRANT } else { 0 }) }
    }

    /// A call was served at this cost; the cost of a hedge is not part of it.
    pub fn served(&self, cost: Money) {
        let paid_in = cost.femtos().max(0).saturating_mul(self.share) / 1_000_000;
        let mut left = self.left.lock();
        *left = left.saturating_sub(*left / MEMORY).saturating_add(paid_in);
    }

    /// Sets aside the worst that a hedge can cost; None when there is not so much in the purse.
    #[must_use]
    pub fn allow(self: &Arc<Self>, worst_extra: Money) -> Option<Hedge> {
        let worst = worst_extra.femtos().max(0);
        let mut left = self.left.lock();
        if self.share == 0 || *left < worst {
            return None;
        }
        *left -= worst;
        drop(left);
        Some(Hedge { purse: Arc::clone(self), worst })
    }

    /// What is left to spend.
    #[must_use]
    pub fn left(&self) -> Money {
        Money::from_femtos(*self.left.lock())
    }
}

/// Money set aside for one hedge. Dropped without a word it counts as spent.
#[derive(Debug)]
#[must_use = "dropped at once, it counts as spent"]
pub struct Hedge {
    purse: Arc<HedgePurse>,
    worst: i128,
}

impl Hedge {
    /// What the hedge has cost in the end (the attempt that lost): the rest goes back.
    pub fn spent(self, extra: Money) {
        let back = self.worst.saturating_sub(extra.femtos().max(0)).max(0);
        let mut left = self.purse.left.lock();
        *left = left.saturating_add(back);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fresh(percent: f64) -> Arc<HedgePurse> {
        let settings = HedgeSettings { after: After::P95, max_extra_cost_percent: percent };
        Arc::new(HedgePurse::new(&settings))
    }

    /// One whose grant is spent.
    fn purse(percent: f64) -> Arc<HedgePurse> {
        let purse = fresh(percent);
        drop(purse.allow(money(GRANT)));
        assert_eq!(purse.left(), Money::ZERO);
        purse
    }

    fn money(femtos: i128) -> Money {
        Money::from_femtos(femtos)
    }

    #[test]
    fn a_hedge_waits_for_the_95th_percentile_or_as_long_as_it_is_told() {
        let measured = Measured::default();
        let now = std::time::Instant::now();
        let fixed = Duration::from_millis(300);
        let settings = |after| HedgeSettings { after, max_extra_cost_percent: 5.0 };
        assert_eq!(hedge_after(&settings(After::P95), &measured), None);
        assert_eq!(hedge_after(&settings(After::Fixed(fixed)), &measured), Some(fixed));
        for millis in 1..=100 {
            measured.first_token(Duration::from_millis(millis), now);
        }
        assert_eq!(hedge_after(&settings(After::P95), &measured), Some(Duration::from_millis(95)));
    }

    #[test]
    fn nothing_served_nothing_spent_and_what_was_not_needed_goes_back() {
        let purse = purse(5.0);
        assert!(purse.allow(money(1)).is_none());
        purse.served(money(1_000));
        assert_eq!(purse.left(), money(50));
        let hedge = purse.allow(money(40)).unwrap();
        assert!(purse.allow(money(20)).is_none(), "set aside is gone for others");
        hedge.spent(money(10));
        assert_eq!(purse.left(), money(40));
        drop(purse.allow(money(40)));
        assert_eq!(purse.left(), money(0), "without a word it was spent");
        assert!(purse.allow(money(0)).is_some(), "what costs nothing is always allowed");
    }

    #[test]
    fn a_fresh_purse_holds_one_cent_and_one_without_a_share_nothing() {
        let purse = fresh(5.0);
        assert_eq!(purse.left().approx_usd(), 0.01);
        assert!(purse.allow(money(GRANT + 1)).is_none());
        assert!(purse.allow(money(GRANT)).is_some());
        assert!(purse.allow(money(1)).is_none(), "it is granted once");
        let none = fresh(0.0);
        none.served(money(1_000));
        assert!(none.allow(money(0)).is_none(), "0 % is never");
    }

    #[test]
    fn a_quiet_week_is_not_spent_in_one_hour() {
        let purse = purse(5.0);
        for _ in 0..1_000_000 {
            purse.served(money(1_000_000));
        }
        assert!(
            purse.left() <= money(50_000 * (MEMORY + 1)),
            "some thousand calls' worth: {:?}",
            purse.left()
        );
    }

    #[test]
    fn a_percentage_out_of_its_mind_is_held_to_0_to_100() {
        for (percent, left) in [(f64::NAN, 0), (-3.0, 0), (f64::INFINITY, 0), (1e9, 1_000), (2.5, 25)] {
            let purse = purse(percent);
            purse.served(money(1_000));
            assert_eq!(purse.left(), money(left), "{percent}");
        }
    }

    proptest! {
        /// Hedges never cost more than their share of what was served, in whatever order.
        #[test]
        fn the_cap_holds_at_every_moment(
            steps in prop::collection::vec((0_i128..1_000_000, prop::option::of((0_i128..50_000, 0.0..1.0))), 1..200),
            percent in 0.0..50.0,
        ) {
            let purse = purse(percent);
            let (mut served, mut extra) = (0, 0);
            for (cost, hedge) in steps {
                purse.served(money(cost));
                served += cost;
                if let Some((worst, share)) = hedge
                    && let Some(hedge) = purse.allow(money(worst))
                {
                    let spent = (worst as f64 * share) as i128;
                    hedge.spent(money(spent));
                    extra += spent;
                }
                prop_assert!(extra as f64 <= served as f64 * (percent + 0.0001) / 100.0 + 1.0);
            }
        }
    }
}
