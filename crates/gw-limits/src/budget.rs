//! A budget in process: the money spent in its period, and the money reserved for requests in flight.
//! `redis/prelude.lua` has the same rules.

use std::collections::HashSet;
use std::time::Duration;

use gw_store::{Budget, Period};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::single_flight::{LookupFailed, SingleFlight};
use crate::spending_ledger::{
    LedgerUnavailable, MAX_QUESTIONS, Spending, SpendingLedger, SpendingQuestion, ask,
};
use crate::subject_kind::SubjectKind;

/// Femto-USD of a nano-USD.
const NANO_USD: i128 = 1_000_000;

/// The money of one key or one team.
#[derive(Debug, Default)]
pub(crate) struct BudgetState {
    money: Mutex<Money>,
    /// Keeps requests from asking the ledger several times at once.
    pub(crate) lookup: SingleFlight,
}

/// The amounts of the periods in use. After a change of a budget's period, requests of the former configuration still ask for the
/// former period, and each kind keeps its spending.
#[derive(Debug, Default)]
struct Money {
    /// Femto-USD of the requests in flight, which every kind of period counts.
    reserved: i128,
    newest: Amounts,
    former: Option<Box<Amounts>>,
}

/// The spending of one kind of period. Amounts are femto-USD, moments unix seconds.
#[derive(Debug, Default)]
struct Amounts {
    period: Period,
    /// The start of the period.
    start: i64,
    /// The first moment of which this is the period: the start, or the begin of the last step of a rolling period.
    valid_from: i64,
    /// The end of the period, which does not belong to it.
    end: i64,
    /// The latest end of all periods so far. Nothing can have been spent in a period that begins at or after it.
    latest_end: i64,
    /// Whether `spent` includes what the ledger knows of the period. While it does not, `spent` means nothing.
    is_known: bool,
    spent: i128,
    /// `spent` of a rolling period by the steps in which the requests began.
    steps: Vec<(i64, i128)>,
    /// The requests that ended since the ledger was asked first, until it answers. It may or may not have counted them.
    /// None: it is not asked.
    ended_meanwhile: Option<Vec<EndedRequest>>,
}

/// A request that ended while the ledger was asked.
#[derive(Debug)]
struct EndedRequest {
    id: String,
    /// The unix second in which it began.
    begun: i64,
    femtos: i128,
}

/// The most requests that are kept while the ledger is asked. After one more, the ledger is asked anew: it waits for the rows of all.
pub(crate) const MAX_ENDED_MEANWHILE: usize = 4_096;

/// A budget's answer to a question: what it grants, or why it grants nothing.
pub(crate) type Decision<T> = Result<T, BudgetDenial>;

/// The reason for which a budget grants nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BudgetDenial {
    /// The budget has too little left.
    #[error("the budget is used up")]
    Exhausted {
        /// The time until the next period. None for a budget of all time.
        resets_in: Option<Duration>,
        /// The money that is left, in nano-USD, rounded down.
        left_nano: u64,
    },
    /// The ledger has to be asked first. The period began a moment ago.
    #[error("the spending is not known")]
    Unknown,
}

impl BudgetState {
    /// Whether the spending of the current period is known without the ledger.
    pub(crate) fn is_known(&self, budget: Budget, unix: i64) -> bool {
        self.money.lock().around(budget.period, unix).is_known
    }

    /// The spent and the reserved amount of the current period. None while the spending is unknown.
    pub(crate) fn look(&self, budget: Budget, unix: i64) -> Option<(i128, i128)> {
        let money = &mut *self.money.lock();
        let amounts = money.around(budget.period, unix);
        amounts.is_known.then_some(amounts.spent).map(|spent| (spent, money.reserved))
    }

    /// Checks that anything is left.
    pub(crate) fn check(&self, budget: Budget, unix: i64) -> Decision<()> {
        let money = &mut *self.money.lock();
        let remaining = money.remaining(budget, unix)?;
        if remaining > 0 { Ok(()) } else { Err(money.newest.exhausted(unix, remaining)) }
    }

    /// Reserves `max_femtos`, or what is left, but at least `min_femtos`. An amount below `max_femtos` is a whole
    /// number of nano-USD. Returns the amount.
    pub(crate) fn reserve(
        &self,
        budget: Budget,
        unix: i64,
        max_femtos: i128,
        min_femtos: i128,
    ) -> Decision<i128> {
        let money = &mut *self.money.lock();
        let remaining = money.remaining(budget, unix)?;
        let granted = if remaining < max_femtos {
            remaining.div_euclid(NANO_USD).saturating_mul(NANO_USD)
        } else {
            max_femtos
        };
        if granted < min_femtos {
            return Err(money.newest.exhausted(unix, remaining));
        }
        money.reserved = money.reserved.saturating_add(granted);
        Ok(granted)
    }

    /// Releases a part of a reservation.
    pub(crate) fn release(&self, femtos: i128) {
        let money = &mut *self.money.lock();
        money.reserved = money.reserved.saturating_sub(femtos);
    }

    /// Replaces a reservation by the real cost of a request, which is in the ledger or on its way there. The cost counts if the request
    /// began in the current period. The request may have begun under a budget with another kind of period, or without a budget.
    pub(crate) fn settle(
        &self,
        unix: i64,
        (request_id, begun): (&str, i64),
        reserved_femtos: i128,
        cost_femtos: i128,
    ) {
        let money = &mut *self.money.lock();
        money.reserved = money.reserved.saturating_sub(reserved_femtos);
        for amounts in money.kinds() {
            amounts.enter_period(unix);
            amounts.end_request(request_id, begun, cost_femtos);
        }
    }

    /// Forgets the spending, but not the reservations. A subject without a budget does not count everything, so the
    /// ledger has to be asked when a budget is added.
    pub(crate) fn forget_spending(&self) {
        self.money.lock().kinds().for_each(|amounts| amounts.is_known = false);
    }

    /// Asks the ledger for the spending of the current period, unless another request does. If the next period begins meanwhile,
    /// the spending moves on with it. A settlement that moves it on first makes the answer useless, and the ledger is asked again.
    ///
    /// # Errors
    /// The ledger did not answer.
    pub(crate) async fn learn_spending(
        &self,
        subject: (SubjectKind, &str),
        budget: Budget,
        clock: &dyn Clock,
        ledger: &dyn SpendingLedger,
    ) -> Result<(), LookupFailed> {
        let asking = async {
            for number in 1..=MAX_QUESTIONS {
                let asked = self.begin_lookup(budget, clock.unix_seconds(), number == 1);
                let Some((start, requests)) = asked else { break };
                let time = budget.period.counted_from(start);
                let question = SpendingQuestion { time, before: None, requests: &requests };
                let spending = ask(ledger, subject, question).await?;
                let money = &mut *self.money.lock();
                let amounts = money.of(budget.period);
                let Some(ended) = &amounts.ended_meanwhile else { continue };
                // The answer may lack the requests that ended during this question, so the ledger is asked about them. After the last
                // question they count beside the answer: to count a request twice is safer than to lose it.
                let is_of_all = ended.len() == requests.len() || number == MAX_QUESTIONS;
                if amounts.start == start && !amounts.is_known && is_of_all {
                    amounts.learn(&spending);
                }
            }
            Ok::<_, LedgerUnavailable>(())
        };
        self.lookup.run(asking).await
    }

    /// The start of the period to ask the ledger about, and the requests that have ended since the first question. None if the spending
    /// is known. The ledger waits for the rows of the requests that ended before the first question.
    fn begin_lookup(&self, budget: Budget, unix: i64, is_first: bool) -> Option<(i64, Vec<String>)> {
        let money = &mut *self.money.lock();
        let amounts = money.around(budget.period, unix);
        if amounts.is_known {
            return None;
        }
        if is_first {
            amounts.ended_meanwhile = None;
        }
        let ended = amounts.ended_meanwhile.get_or_insert_default();
        let requests = ended.iter().map(|request| request.id.clone()).collect();
        Some((amounts.start, requests))
    }

    /// Whether the amounts are those of the period around this moment.
    #[cfg(test)]
    pub(crate) fn is_current(&self, budget: Budget, unix: i64) -> bool {
        let amounts = &self.money.lock().newest;
        amounts.is_known
            && amounts.period == budget.period
            && amounts.valid_from <= unix
            && unix < amounts.end
    }

    /// The spent and the reserved amount.
    #[cfg(test)]
    pub(crate) fn figures(&self) -> (i128, i128) {
        let money = self.money.lock();
        (money.newest.spent, money.reserved)
    }
}

impl Money {
    /// All kinds of period in use.
    fn kinds(&mut self) -> impl Iterator<Item = &mut Amounts> {
        std::iter::once(&mut self.newest).chain(self.former.as_deref_mut())
    }

    /// The amounts of this kind of period, which become the newest ones. A third kind takes the place of the former one.
    fn of(&mut self, period: Period) -> &mut Amounts {
        if self.newest.period != period {
            let is_used = self.newest.end != 0;
            match &mut self.former {
                Some(former) if former.period == period => std::mem::swap(&mut self.newest, former),
                former => {
                    let newest =
                        std::mem::replace(&mut self.newest, Amounts { period, ..Amounts::default() });
                    if is_used {
                        *former = Some(Box::new(newest));
                    }
                }
            }
        }
        &mut self.newest
    }

    /// The amounts of the period of this kind around this moment.
    fn around(&mut self, period: Period, unix: i64) -> &mut Amounts {
        let amounts = self.of(period);
        amounts.enter_period(unix);
        amounts
    }

    /// The amount that is neither spent nor reserved.
    fn remaining(&mut self, budget: Budget, unix: i64) -> Decision<i128> {
        let reserved = self.reserved;
        let amounts = self.around(budget.period, unix);
        if !amounts.is_known {
            return Err(BudgetDenial::Unknown);
        }
        Ok(budget.femtos().saturating_sub(amounts.spent.saturating_add(reserved)))
    }
}

impl Amounts {
    /// Changes to the period around this moment.
    fn enter_period(&mut self, unix: i64) {
        if self.valid_from <= unix && unix < self.end {
            return;
        }
        let (start, end) = self.period.around(unix);
        if self.is_known && start > self.start && self.period.step().is_some() {
            self.is_known = self.drop_steps_before(start);
        } else {
            // Nothing is spent yet in a period that begins after all others. The spending of an earlier period is known to the
            // ledger alone.
            self.is_known &= start >= self.latest_end;
            self.clear();
        }
        self.latest_end = self.latest_end.max(end);
        (self.start, self.end) = (start, end);
        self.valid_from = self.period.step().map_or(start, |step| end - step);
    }

    /// Takes the steps that leave a rolling period out of its spending. Returns false if it has spending from after its end: the
    /// clock went back, and only the ledger knows when that was spent.
    fn drop_steps_before(&mut self, start: i64) -> bool {
        let is_ahead = self.steps.iter().any(|(begin, _)| *begin >= self.end);
        self.steps.retain(|(begin, _)| *begin >= start);
        self.spent = self.steps.iter().fold(0, |sum: i128, (_, spent)| sum.saturating_add(*spent));
        !is_ahead
    }

    fn clear(&mut self) {
        self.spent = 0;
        self.steps.clear();
    }

    /// Counts the cost of a request that is over. While the spending is unknown, the ledger tells it later: it has all requests that end
    /// before it is asked, and is asked about those that end meanwhile.
    fn end_request(&mut self, id: &str, begun: i64, femtos: i128) {
        if self.is_known {
            return self.count(begun, femtos);
        }
        match &mut self.ended_meanwhile {
            Some(ended) if ended.len() == MAX_ENDED_MEANWHILE => self.ended_meanwhile = None,
            Some(ended) if femtos != 0 => ended.push(EndedRequest { id: id.to_owned(), begun, femtos }),
            _ => {}
        }
    }

    /// Counts the cost of a request that began at this moment, if it began in the period. After a clock went back, a request may
    /// have begun in a later period, and counts there.
    fn count(&mut self, begun: i64, femtos: i128) {
        let step = self.period.step();
        // A request that cost nothing leaves no step, as in Redis: a step ahead of the period has the ledger asked.
        if femtos == 0 || begun < self.start || (begun >= self.end && step.is_none()) {
            return;
        }
        self.spent = self.spent.saturating_add(femtos);
        let Some(step) = step else { return };
        let begin = begun - begun.rem_euclid(step);
        match self.steps.iter_mut().find(|(other, _)| *other == begin) {
            Some((_, spent)) => *spent = spent.saturating_add(femtos),
            None => self.steps.push((begin, femtos)),
        }
    }

    /// Takes what the ledger knows, and adds the requests that it does not know yet.
    fn learn(&mut self, spending: &Spending) {
        self.clear();
        spending.steps.iter().for_each(|(begin, femtos)| self.count(*begin, *femtos));
        let counted: HashSet<&str> = spending.counted_requests.iter().map(|request| &*request.id).collect();
        for ended in self.ended_meanwhile.take().unwrap_or_default() {
            if !counted.contains(&*ended.id) {
                self.count(ended.begun, ended.femtos);
            }
        }
        self.is_known = true;
    }

    /// The denial with this amount left, in femto-USD.
    fn exhausted(&self, unix: i64, remaining: i128) -> BudgetDenial {
        let left_nano = u64::try_from(remaining.div_euclid(NANO_USD)).unwrap_or(0);
        BudgetDenial::Exhausted { resets_in: time_until(self.end, unix), left_nano }
    }
}

/// The time until the end of a period. None for a period without an end.
fn time_until(end: i64, unix: i64) -> Option<Duration> {
    if end == i64::MAX {
        return None;
    }
    Some(Duration::from_secs(u64::try_from(end.saturating_sub(unix)).unwrap_or_default()))
}
