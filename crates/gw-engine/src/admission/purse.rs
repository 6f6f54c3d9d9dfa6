//! A budget: what was spent in its period, and what is set aside for requests under way. Never more together than the
//! budget allows at the moment of setting aside.

use std::time::{SystemTime, UNIX_EPOCH};

use gw_store::Budget;
use gw_wire::money::Money;
use parking_lot::Mutex;

/// The money of one key or one team.
#[derive(Debug)]
pub(crate) struct Purse {
    budget: Budget,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The period that `spent` is of, unix seconds.
    period: (i64, i64),
    spent: Money,
    reserved: Money,
}

impl Purse {
    pub(crate) fn new(budget: Budget) -> Self {
        let state = State { period: budget.period.around(now()), spent: Money::ZERO, reserved: Money::ZERO };
        Self { budget, state: Mutex::new(state) }
    }

    /// The begin of the current period, unix seconds: what was spent since then is told by [`Purse::know`].
    pub(crate) fn since(&self) -> i64 {
        self.state.lock().period.0
    }

    /// Takes over what the ledger knows of this period.
    pub(crate) fn know(&self, spent: Money) {
        self.state.lock().spent = spent;
    }

    /// Whether not even the smallest request can be paid.
    pub(crate) fn is_empty(&self) -> bool {
        let state = &mut *self.state.lock();
        state.turn(self.budget, now());
        (state.spent + state.reserved).femtos() >= self.budget.femtos()
    }

    /// Sets an amount aside, if that much is left.
    pub(crate) fn reserve(&self, cost: Money) -> bool {
        let state = &mut *self.state.lock();
        state.turn(self.budget, now());
        let after = state.spent + state.reserved + cost;
        if after.femtos() > self.budget.femtos() {
            return false;
        }
        state.reserved += cost;
        true
    }

    /// Puts what was spent in the place of what was set aside.
    pub(crate) fn settle(&self, reserved: Money, spent: Money) {
        let state = &mut *self.state.lock();
        state.turn(self.budget, now());
        state.reserved = state.reserved - reserved;
        state.spent += spent;
    }

    /// Spent and set aside, for those who look after it.
    #[cfg(test)]
    pub(crate) fn figures(&self) -> (Money, Money) {
        let state = &mut *self.state.lock();
        state.turn(self.budget, now());
        (state.spent, state.reserved)
    }
}

impl State {
    /// A new period begins with nothing spent; what is under way counts when it is over.
    fn turn(&mut self, budget: Budget, at: i64) {
        if at >= self.period.1 || at < self.period.0 {
            self.period = budget.period.around(at);
            self.spent = Money::ZERO;
        }
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
