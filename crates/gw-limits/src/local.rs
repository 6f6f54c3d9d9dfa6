//! The two doors, in process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gw_store::Limits;

use crate::clock::Clock;
use crate::few::Few;
use crate::purse::No;
use crate::rate::Pace;
use crate::reservation::{Piece, Reservation, Wish};
use crate::spending::Spending;
use crate::subject::{State, Subject};
use crate::verdict::{Entered, RateState, Refusal, Refused, TokenState, leaves};

/// The limiter of one process.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spending: Arc<dyn Spending>,
}

/// A place among the requests at one time, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<State>);

impl Place {
    /// Takes a place when fewer than `most` are taken.
    fn take(state: &Arc<State>, most: u32) -> Option<Self> {
        let step = |running: u32| (running < most).then(|| running + 1);
        state.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).ok()?;
        Some(Self(Arc::clone(state)))
    }

    /// Takes a place that Redis has counted: should it go away, this process knows its own.
    pub(crate) fn noted(state: &Arc<State>) -> Self {
        state.running.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(state))
    }
}

/// The part of the limits that one of so many replicas may use for itself: at least one of each.
fn divided(limits: &Limits, share: u32) -> Limits {
    if share <= 1 {
        return *limits;
    }
    Limits {
        rpm: limits.rpm.map(|limit| (limit / share).max(1)),
        burst: limits.burst.map(|limit| (limit / share).max(1)),
        tpm: limits.tpm.map(|limit| (limit / u64::from(share)).max(1)),
        max_in_flight: limits.max_in_flight.map(|limit| (limit / share).max(1)),
        ..*limits
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Local {
    /// The first door. `share` is by how many the limits are divided: the replicas that each count for themselves.
    pub(crate) async fn enter(&self, subjects: &[Arc<Subject>], share: u32) -> Result<Entered, Box<Refused>> {
        let mut entered = Entered::default();
        // Nothing is counted before everything is known.
        if let Err(refusal) = self.know(subjects).await {
            return Err(Box::new(Refused { entered, refusal }));
        }
        for subject in subjects {
            let limits = divided(subject.limits(), share);
            let passed = self.pass(subject.state(), &limits, &mut entered);
            if let Err(refusal) = passed.and_then(|()| self.has_money(subject)) {
                entered.places = Few::default();
                return Err(Box::new(Refused { entered, refusal }));
            }
        }
        Ok(entered)
    }

    /// Asks the ledger about every budget that nothing is known of.
    async fn know(&self, subjects: &[Arc<Subject>]) -> Result<(), Refusal> {
        for subject in subjects {
            let Some(budget) = subject.limits().budget else { continue };
            let purse = &subject.state().purse;
            if !purse.is_known(budget, self.clock.unix()) {
                let learned = purse.learn(subject, budget, &*self.clock, &*self.spending).await;
                learned.map_err(|()| Refusal::StoreAway)?;
            }
        }
        Ok(())
    }

    /// Requests per minute, and a place.
    fn pass(&self, state: &Arc<State>, limits: &Limits, entered: &mut Entered) -> Result<(), Refusal> {
        if limits.rpm.is_none() && limits.tpm.is_none() && limits.max_in_flight.is_none() {
            return Ok(());
        }
        let (whose, now) = (state.whose, self.clock.micros());
        if let Some(limit) = limits.tpm {
            entered.see_tokens(TokenState::new(limit, state.tokens.next(), now));
        }
        if let Some(limit) = limits.rpm {
            let (seen, wait) = requests(state, limit, limits.burst, now);
            entered.see_requests(seen);
            if let Some(retry_after) = wait {
                return Err(Refusal::Requests { whose, limit, retry_after });
            }
        }
        if let Some(limit) = limits.max_in_flight {
            let place = Place::take(state, limit).ok_or(Refusal::InFlight { whose, limit })?;
            entered.places.push(place);
        }
        Ok(())
    }

    fn has_money(&self, subject: &Subject) -> Result<(), Refusal> {
        let Some(budget) = subject.limits().budget else { return Ok(()) };
        let says = subject.state().purse.has_any(budget, self.clock.unix());
        says.map_err(|no| judge(no, subject))
    }

    /// The second door; with what is granted.
    pub(crate) async fn reserve(
        &self,
        subjects: &[Arc<Subject>],
        wish: &Wish,
        share: u32,
    ) -> Result<(Reservation, i128), Refusal> {
        self.know(subjects).await?;
        let mut reservation = Reservation::default();
        let mut granted = wish.most;
        for subject in subjects {
            // Whatever was set aside so far goes back when a later one refuses.
            let (piece, less) = self.set_aside(subject, &Wish { most: granted, ..*wish }, share)?;
            reservation.pieces.push(piece);
            granted = less;
        }
        // All hold what the one with the least left grants.
        reservation.pieces.iter_mut().for_each(|piece| piece.shrink(granted));
        Ok((reservation, granted))
    }

    /// Tokens and money of one subject; of one without a budget nothing, but what it spends is counted in the end.
    fn set_aside(&self, subject: &Arc<Subject>, wish: &Wish, share: u32) -> Result<(Piece, i128), Refusal> {
        let Wish { tokens, most, least } = *wish;
        let (limits, state) = (&divided(subject.limits(), share), subject.state());
        if let Some(limit) = limits.tpm {
            let refuse =
                |retry_after| Refusal::Tokens { whose: state.whose, limit, wanted: tokens, retry_after };
            if tokens > limit {
                return Err(refuse(None));
            }
            let taken = state.tokens.take(Pace::new(limit), self.clock.micros(), tokens);
            // A stream that sets more money aside asks for no tokens, and is not refused any.
            taken.map(drop).or_else(|(_, wait)| if tokens > 0 { Err(refuse(Some(wait))) } else { Ok(()) })?;
        }
        // The tokens go back when there is not enough money.
        let mut piece = Piece::new(state, limits, &self.clock, tokens);
        let Some(budget) = limits.budget else { return Ok((piece, most)) };
        let says = state.purse.reserve(budget, self.clock.unix(), most, least);
        let granted = says.map_err(|no| judge(no, subject))?;
        piece.hold(granted);
        Ok((piece, granted))
    }

    pub(crate) fn charge(&self, subjects: &[Arc<Subject>], cost: i128, begun: i64) {
        for subject in subjects {
            if let Some(budget) = subject.limits().budget {
                subject.state().purse.charge(budget, self.clock.unix(), begun, cost);
            }
        }
    }
}

/// Takes one of the requests per minute; how they stand then, and how long to wait when there is none.
fn requests(state: &State, limit: u32, burst: Option<u32>, now: f64) -> (RateState, Option<Duration>) {
    if let Some(burst) = burst {
        let (next, wait) = match state.requests.take(Pace::with_burst(limit.into(), burst.into()), now, 1) {
            Ok(next) => (next, None),
            Err((next, wait)) => (next, Some(wait)),
        };
        return (RateState::new(limit, burst, next, now), wait);
    }
    let (past, wait) = match state.minute.take(limit, now) {
        Ok(past) => (past, None),
        Err(past) => (past, Some(leaves(past.oldest, now))),
    };
    (RateState::of_minute(limit, past, now), wait)
}

fn judge(no: No, subject: &Subject) -> Refusal {
    match no {
        No::Left(resets_in) => Refusal::Budget { whose: subject.whose(), resets_in },
        No::Unknown => Refusal::StoreAway,
    }
}

#[cfg(test)]
mod tests;
