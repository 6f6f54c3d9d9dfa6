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

/// What may be spent on hedges: each served call pays in its share, each hedge takes out its cost. It begins empty and
/// never goes below zero, so at any time all hedges together have cost at most the share of all that was served.
#[derive(Debug)]
pub struct HedgePurse {
    /// Millionths of a served call's cost that are paid in.
    share: i128,
    /// Femto-USD.
    left: Mutex<i128>,
}

impl HedgePurse {
    /// An empty purse. The percentage is held to 0 to 100.
    #[must_use]
    pub fn new(settings: &HedgeSettings) -> Self {
        let percent = settings.max_extra_cost_percent;
        let percent = if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 };
        Self { share: (percent * 10_000.0).round() as i128, left: Mutex::new(0) }
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
        if *left < worst {
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
