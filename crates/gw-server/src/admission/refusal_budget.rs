//! The CPU time that refusals may take.

use std::time::Duration;

/// Refusals may use one part in this many of the CPU time.
const SHARE: u32 = 20;
/// The least cost of a refusal, with the accepted connection, the head, and a body of 81 KiB that is read and dropped.
const MIN_COST: Duration = Duration::from_micros(100);
/// The most CPU time that is saved up for later refusals.
const MAX_SAVED: Duration = Duration::from_millis(10);
/// The most refusals at one time.
const MAX_AT_ONCE: usize = 64;

/// The CPU time that refusals may still use.
#[derive(Debug)]
pub(super) struct RefusalBudget {
    left: Duration,
    /// The mean cost of a refusal.
    cost: Duration,
}

impl Default for RefusalBudget {
    fn default() -> Self {
        Self { left: MAX_SAVED, cost: MIN_COST }
    }
}

impl RefusalBudget {
    /// Notes that the worker has used this much CPU time.
    pub(super) fn earn(&mut self, cpu: Duration) {
        self.left = (self.left + cpu / SHARE).min(MAX_SAVED);
    }

    /// The refusals that may be made now.
    pub(super) fn allowed(&self) -> usize {
        let fitting = self.left.as_nanos() / self.cost.as_nanos().max(1);
        usize::try_from(fitting).unwrap_or(MAX_AT_ONCE).min(MAX_AT_ONCE)
    }

    /// Notes refusals, and the CPU time in which their answers were written.
    pub(super) fn spend(&mut self, refusals: usize, cpu: Duration) {
        let refusals = u32::try_from(refusals).unwrap_or(u32::MAX);
        self.left = self.left.saturating_sub(cpu.max(MIN_COST.saturating_mul(refusals)));
        if let Some(mean) = cpu.checked_div(refusals) {
            // A refusal that costs more than can be saved up would never be made.
            self.cost = ((self.cost * 7 + mean) / 8).clamp(MIN_COST, MAX_SAVED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_take_a_small_share_of_the_time() {
        let mut budget = RefusalBudget::default();
        let (turn, cost) = (Duration::from_millis(5), Duration::from_micros(200));
        let (mut worked, mut refused) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..10_000 {
            budget.earn(turn);
            worked += turn;
            let count = budget.allowed();
            let spent = cost * u32::try_from(count).unwrap();
            budget.spend(count, spent);
            refused += spent;
        }
        let share = refused.as_secs_f64() / worked.as_secs_f64();
        assert!((0.04..0.051).contains(&share), "{share}");
    }

    #[test]
    fn a_costly_refusal_is_made_rarely_but_made() {
        let mut budget = RefusalBudget::default();
        for _ in 0..10 {
            budget.spend(1, Duration::from_secs(1));
        }
        assert_eq!(budget.allowed(), 0);
        for _ in 0..100 {
            budget.earn(Duration::from_secs(1));
        }
        assert_eq!((budget.left, budget.allowed()), (MAX_SAVED, 1));
    }
}
