//! A budget in process: what was spent in its period, and what is set aside for requests under way.

use std::time::Duration;

use gw_store::{Budget, Period};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::gate::Gate;
use crate::spending::{Spending, spent};
use crate::subject::Subject;

/// A nano-USD.
const NANO: i128 = 1_000_000;

/// The money of one key or one team. All amounts are femto-USD.
#[derive(Debug, Default)]
pub(crate) struct Purse {
    money: Mutex<Money>,
    /// For those who ask the ledger.
    pub(crate) gate: Gate,
}

#[derive(Debug, Default)]
struct Money {
    period: Period,
    /// The period's begin and end, unix seconds.
    start: i64,
    end: i64,
    /// The latest end of all periods that it was in: something may have been spent until then.
    latest: i64,
    /// Whether `spent` holds what the ledger knows of the period. Until then it is what was spent since it was asked.
    known: bool,
    spent: i128,
    reserved: i128,
}

/// Why a purse gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum No {
    /// Not enough is left; until the next period.
    Left(Option<Duration>),
    /// The ledger must be asked first: the period turned just now.
    Unknown,
}

impl Purse {
    /// Whether the ledger need not be asked.
    pub(crate) fn is_known(&self, budget: Budget, unix: i64) -> bool {
        let money = &mut *self.money.lock();
        money.turn(budget.period, unix);
        money.known
    }

    /// Whether there is anything left.
    pub(crate) fn has_any(&self, budget: Budget, unix: i64) -> Result<(), No> {
        let money = &mut *self.money.lock();
        if money.left(budget, unix)? > 0 { Ok(()) } else { Err(money.no(unix)) }
    }

    /// Sets an amount aside: `most`, or what is left, down to `least`. Less than `most` is whole nano-USD.
    pub(crate) fn reserve(&self, budget: Budget, unix: i64, most: i128, least: i128) -> Result<i128, No> {
        let money = &mut *self.money.lock();
        let left = money.left(budget, unix)?;
        let granted = if left < most { left.div_euclid(NANO).saturating_mul(NANO) } else { most };
        if granted < least {
            return Err(money.no(unix));
        }
        money.reserved = money.reserved.saturating_add(granted);
        Ok(granted)
    }

    /// Gives back a part of what was set aside.
    pub(crate) fn give_back(&self, part: i128) {
        let money = &mut *self.money.lock();
        money.reserved = money.reserved.saturating_sub(part);
    }

    /// Puts what was spent in the place of what was set aside, in the period that the purse is of now, if the request
    /// began in it. It may have begun with a budget of another kind, or with none.
    pub(crate) fn settle(&self, unix: i64, begun: i64, reserved: i128, spent: i128) {
        let money = &mut *self.money.lock();
        money.turn(money.period, unix);
        money.reserved = money.reserved.saturating_sub(reserved);
        if begun >= money.start {
            money.spent = money.spent.saturating_add(spent);
        }
    }

    /// Counts what was spent without a reservation. A purse that knows nothing yet hears of it from the ledger.
    pub(crate) fn charge(&self, budget: Budget, unix: i64, begun: i64, spent: i128) {
        let money = &mut *self.money.lock();
        money.turn(budget.period, unix);
        if money.known && begun >= money.start {
            money.spent = money.spent.saturating_add(spent);
        }
    }

    /// A budget is given to who had none: not all was counted meanwhile, so the ledger is asked. What is set aside stays.
    pub(crate) fn forget(&self) {
        self.money.lock().known = false;
    }

    /// Asks the ledger what was spent in this period, unless somebody else did meanwhile. A period that turns just then
    /// leaves it unknown.
    ///
    /// # Errors
    /// The ledger could not tell.
    pub(crate) async fn learn(
        &self,
        subject: &Subject,
        budget: Budget,
        clock: &dyn Clock,
        spending: &dyn Spending,
    ) -> Result<(), ()> {
        let question = async {
            let Some((from, until)) = self.unknown(budget, clock.unix()) else { return Ok(()) };
            let spent = spent(spending, subject, (from, until)).await?;
            let money = &mut *self.money.lock();
            money.turn(budget.period, clock.unix());
            if money.start == from && !money.known {
                money.spent = money.spent.saturating_add(spent);
                money.known = true;
            }
            Ok(())
        };
        self.gate.ask(question).await
    }

    /// The period, when nothing is known of it. The ledger is asked then: what was spent before is its to say, what is
    /// spent while it is asked is counted here, sooner twice than not at all.
    fn unknown(&self, budget: Budget, unix: i64) -> Option<(i64, i64)> {
        let money = &mut *self.money.lock();
        money.turn(budget.period, unix);
        if money.known {
            return None;
        }
        money.spent = 0;
        Some((money.start, money.end))
    }

    /// Whether the figures are of the period of this moment.
    #[cfg(test)]
    pub(crate) fn is_current(&self, budget: Budget, unix: i64) -> bool {
        let money = self.money.lock();
        money.known && money.period == budget.period && money.start <= unix && unix < money.end
    }

    /// Spent and set aside.
    #[cfg(test)]
    pub(crate) fn figures(&self) -> (i128, i128) {
        let money = self.money.lock();
        (money.spent, money.reserved)
    }
}

impl Money {
    /// Comes into the period of this moment.
    fn turn(&mut self, period: Period, unix: i64) {
        if self.period == period && self.start <= unix && unix < self.end {
            return;
        }
        let (start, end) = period.around(unix);
        // In a period that it was never in nothing is spent yet. Of another kind of period, or of one that a clock went
        // back into, or forth again, only the ledger knows.
        self.known &= self.period == period && start >= self.latest;
        self.latest = self.latest.max(end);
        (self.period, self.start, self.end) = (period, start, end);
        self.spent = 0;
    }

    /// What is neither spent nor set aside.
    fn left(&mut self, budget: Budget, unix: i64) -> Result<i128, No> {
        self.turn(budget.period, unix);
        if !self.known {
            return Err(No::Unknown);
        }
        Ok(budget.femtos().saturating_sub(self.spent.saturating_add(self.reserved)))
    }

    fn no(&self, unix: i64) -> No {
        No::Left(resets_in(self.end, unix))
    }
}

/// The time until a period ends; None when it never does.
pub(crate) fn resets_in(end: i64, unix: i64) -> Option<Duration> {
    if end == i64::MAX {
        return None;
    }
    Some(Duration::from_secs(u64::try_from(end.saturating_sub(unix)).unwrap_or_default()))
}
