//! Admission and reservation within one process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gw_store::Limits;

use crate::admission::AdmissionPermit;
use crate::budget::BudgetDenial;
use crate::clock::Clock;
use crate::gcra::Gcra;
use crate::in_flight::InFlightPermit;
use crate::limit_state::{RateState, TokenState, time_until_expiry};
use crate::refusal::{Refusal, Refused};
use crate::reservation::{LocalReservation, Reservation, ReservationRequest};
use crate::spending_ledger::SpendingLedger;
use crate::subject::{State, Subject};
use crate::subject_kind::SubjectKind;
use crate::subject_use::{BudgetUse, SubjectUse};
use crate::window_takes::{TakenBucket, WindowTake};

/// The most looks of a request at its budgets, each of which may ask the ledger.
const MAX_LOOKS: usize = 8;

/// The limiter of one process.
#[derive(Debug)]
pub(crate) struct InProcess {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ledger: Arc<dyn SpendingLedger>,
}

/// The share of one replica in the limits, if `replicas` count separately: at least one of each. Budgets are not
/// divided.
fn divided(limits: &Limits, replicas: u32) -> Limits {
    if replicas <= 1 {
        return *limits;
    }
    Limits {
        rpm: limits.rpm.map(|limit| (limit / replicas).max(1)),
        burst: limits.burst.map(|limit| (limit / replicas).max(1)),
        tpm: limits.tpm.map(|limit| (limit / u64::from(replicas)).max(1)),
        max_in_flight: limits.max_in_flight.map(|limit| (limit / replicas).max(1)),
        ..*limits
    }
}

impl InProcess {
    /// Admits a request. `replicas` is the number of processes that each count for themselves.
    pub(crate) async fn admit(
        &self,
        subjects: &[Arc<Subject>],
        replicas: u32,
    ) -> Result<AdmissionPermit, Box<Refused>> {
        // Nothing is counted before every budget is known.
        let unix = self.learn_budgets(subjects).await?;
        let mut permit = AdmissionPermit::default();
        for subject in subjects {
            let limits = divided(subject.limits(), replicas);
            let passed = self.pass_rates(subject.state(), &limits, &mut permit);
            if let Err(refusal) = passed.and_then(|()| self.check_budget(subject, unix)) {
                // A refusal uses up no rule.
                permit.takes.iter().for_each(WindowTake::give_back_here);
                return Err(Box::new(Refused { limits: permit.limits, refusal }));
            }
        }
        Ok(permit)
    }

    /// Asks the ledger about every budget with unknown spending, until all are known at one moment. Returns the unix second after
    /// that, if there is a budget.
    async fn learn_budgets(&self, subjects: &[Arc<Subject>]) -> Result<Option<i64>, Refusal> {
        let mut unix = None;
        // A request that waits for the question of another one learns nothing if that question is about another kind of period.
        for _ in 0..MAX_LOOKS {
            let mut has_asked = false;
            for subject in subjects {
                let Some(budget) = subject.limits().budget else { continue };
                let state = &subject.state().budget;
                if !state.is_known(budget, *unix.get_or_insert_with(|| self.clock.unix_seconds())) {
                    has_asked = true;
                    let name = (subject.kind(), subject.id());
                    let learned =
                        Box::pin(state.learn_spending(name, budget, &*self.clock, &*self.ledger)).await;
                    learned.map_err(|_| Refusal::StoreUnavailable)?;
                    unix = Some(self.clock.unix_seconds());
                }
            }
            if !has_asked {
                break;
            }
        }
        Ok(unix)
    }

    /// How far the limits of these subjects are used up.
    pub(crate) async fn inspect(&self, subjects: &[Arc<Subject>]) -> Vec<SubjectUse> {
        // A budget stays unknown if the ledger does not answer.
        let _ = self.learn_budgets(subjects).await;
        let (now, unix) = (self.clock.monotonic_micros(), self.clock.unix_seconds());
        subjects.iter().map(|subject| look(subject, now, unix)).collect()
    }

    /// The least money that a budget of these subjects has left. None within: none has a budget. None: only the ledger knows the
    /// spending of one of the budgets.
    pub(crate) fn least_left(&self, subjects: &[Arc<Subject>]) -> Option<Option<i128>> {
        let unix = self.clock.unix_seconds();
        let mut least: Option<i128> = None;
        for subject in subjects {
            let Some(budget) = subject.limits().budget else { continue };
            let (spent, reserved) = subject.state().budget.look(budget, unix)?;
            let left = (budget.femtos() - spent - reserved).max(0);
            least = Some(least.map_or(left, |least| least.min(left)));
        }
        Some(least)
    }

    /// Takes a request per minute and a place among the requests in flight.
    fn pass_rates(
        &self,
        state: &Arc<State>,
        limits: &Limits,
        permit: &mut AdmissionPermit,
    ) -> Result<(), Refusal> {
        if limits.rpm.is_none() && limits.tpm.is_none() && limits.max_in_flight.is_none() {
            return Ok(());
        }
        let (subject, now) = (state.kind, self.clock.monotonic_micros());
        if let Some(limit) = limits.tpm {
            permit.limits.add_tokens(TokenState::new(limit, state.token_gcra.tat(), now));
        }
        if let Some(limit) = limits.rpm {
            let (seen, taken) = take_request(state, limit, limits.burst, now);
            permit.limits.add_requests(seen);
            let bucket = taken.map_err(|retry_after| Refusal::Requests { subject, limit, retry_after })?;
            if let Some(bucket) = bucket.filter(|_| subject == SubjectKind::Rule) {
                permit.takes.push(WindowTake { state: Arc::clone(state), bucket });
            }
        }
        if let Some(limit) = limits.max_in_flight {
            let acquired = InFlightPermit::acquire(state, limit);
            permit.in_flight.push(acquired.ok_or(Refusal::InFlight { subject, limit })?);
        }
        Ok(())
    }

    /// Checks the budget of a subject at this unix second, or now.
    fn check_budget(&self, subject: &Subject, unix: Option<i64>) -> Result<(), Refusal> {
        let Some(budget) = subject.limits().budget else { return Ok(()) };
        let unix = unix.unwrap_or_else(|| self.clock.unix_seconds());
        let decision = subject.state().budget.check(budget, unix);
        decision.map_err(|denial| budget_refusal(denial, subject))
    }

    /// Reserves with every subject or with none. Returns the granted money in femto-USD.
    pub(crate) async fn reserve(
        &self,
        subjects: &[Arc<Subject>],
        request: &ReservationRequest,
        replicas: u32,
    ) -> Result<(Reservation, i128), Refusal> {
        let unix = self.learn_budgets(subjects).await?.unwrap_or_else(|| self.clock.unix_seconds());
        let mut reservation = Reservation::default();
        let mut granted = request.max_femtos;
        for subject in subjects {
            // If a later subject refuses, dropping `reservation` releases what earlier ones reserved.
            let request = ReservationRequest { max_femtos: granted, ..*request };
            let (local, less) = self.reserve_one(subject, &request, replicas, unix)?;
            reservation.local.push(local);
            granted = less;
        }
        // Each subject holds the amount that the one with the least left has granted.
        reservation.local.iter_mut().for_each(|local| local.shrink(granted));
        Ok((reservation, granted))
    }

    /// Reserves with one subject. A subject without a budget reserves no money, but a budget that is added meanwhile
    /// counts the cost.
    fn reserve_one(
        &self,
        subject: &Arc<Subject>,
        request: &ReservationRequest,
        replicas: u32,
        unix: i64,
    ) -> Result<(LocalReservation, i128), Refusal> {
        let ReservationRequest { tokens, max_femtos, min_femtos } = *request;
        let (limits, state) = (&divided(subject.limits(), replicas), subject.state());
        if let Some(limit) = limits.tpm {
            let refuse =
                |retry_after| Refusal::Tokens { subject: state.kind, limit, wanted: tokens, retry_after };
            if tokens > limit {
                return Err(refuse(None));
            }
            let taken = state.token_gcra.take(Gcra::new(limit), self.clock.monotonic_micros(), tokens);
            // A stream that reserves more money asks for no tokens, so a lack of tokens must not refuse it.
            if let Err((_, wait)) = taken
                && tokens > 0
            {
                return Err(refuse(Some(wait)));
            }
        }
        // Dropping this gives the tokens back if the budget refuses.
        let mut local = LocalReservation::of_tokens(state, limits, (&self.clock, unix), tokens);
        let Some(budget) = limits.budget else { return Ok((local, max_femtos)) };
        let decision = state.budget.reserve(budget, unix, max_femtos, min_femtos);
        let granted = decision.map_err(|denial| budget_refusal(denial, subject))?;
        local.set_cost(granted);
        Ok((local, granted))
    }

    /// Counts the cost of a request without a reservation. `request` is its id, and the unix second in which it began.
    pub(crate) fn charge(
        &self,
        states: impl Iterator<Item = Arc<State>>,
        request: (&str, i64),
        cost_femtos: i128,
    ) {
        states.for_each(|state| state.budget.settle(self.clock.unix_seconds(), request, 0, cost_femtos));
    }
}

/// Takes one request. Returns the state of the limit, and the bucket of a limit without a burst. An error is the time to wait, because
/// the limit is used up.
fn take_request(
    state: &State,
    limit: u32,
    burst: Option<u32>,
    now: f64,
) -> (RateState, Result<Option<TakenBucket>, Duration>) {
    if let Some(burst) = burst {
        let gcra = Gcra::with_burst(limit.into(), burst.into());
        let (tat, taken) = match state.request_gcra.take(gcra, now, 1) {
            Ok(tat) => (tat, Ok(None)),
            Err((tat, wait)) => (tat, Err(wait)),
        };
        return (RateState::of_gcra(limit, burst, tat, now), taken);
    }
    let (window, taken) = match state.request_window.take(limit, now) {
        Ok(window) => (window, Ok(Some(TakenBucket::Here(window.newest)))),
        Err(window) => (window, Err(time_until_expiry(window.blocked_by, now))),
    };
    (RateState::of_window(limit, window, now), taken)
}

fn look(subject: &Subject, now: f64, unix: i64) -> SubjectUse {
    let (limits, state) = (*subject.limits(), subject.state());
    let requests = limits.rpm.map(|limit| match limits.burst {
        Some(burst) => RateState::of_gcra(limit, burst, state.request_gcra.tat(), now),
        None => RateState::of_window(limit, state.request_window.look(now), now),
    });
    SubjectUse {
        kind: subject.kind(),
        id: subject.id().to_owned(),
        limits,
        requests,
        tokens: limits.tpm.map(|limit| TokenState::new(limit, state.token_gcra.tat(), now)),
        in_flight: limits.max_in_flight.map(|_| state.in_flight.load(Ordering::Acquire)),
        budget: limits.budget.and_then(|budget| state.budget.look(budget, unix)).map(BudgetUse::from),
    }
}

fn budget_refusal(denial: BudgetDenial, subject: &Subject) -> Refusal {
    match denial {
        BudgetDenial::Exhausted { resets_in, left_nano } => {
            let period = subject.limits().budget.map(|budget| budget.period).unwrap_or_default();
            Refusal::Budget { subject: subject.kind(), period, resets_in, left_nano }
        }
        BudgetDenial::Unknown => Refusal::StoreUnavailable,
    }
}

#[cfg(test)]
mod tests;
