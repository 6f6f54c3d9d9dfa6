//! The two doors, in process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gw_store::Limits;

use crate::clock::Clock;
use crate::few::Few;
use crate::purse::Says;
use crate::rate::Pace;
use crate::spending::Spending;
use crate::subject::{State, Subject};
use crate::verdict::{Entered, RateState, Refusal, Refused, TokenState};

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
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Local {
    pub(crate) async fn enter(&self, subjects: &[Arc<Subject>]) -> Result<Entered, Box<Refused>> {
        let mut entered = Entered::default();
        for subject in subjects {
            let passed = self.pass(subject.state(), subject.limits(), &mut entered);
            let paid = match passed {
                Ok(()) => self.has_money(subject).await,
                refused @ Err(_) => refused,
            };
            if let Err(refusal) = paid {
                entered.places = Few::default();
                return Err(Box::new(Refused { entered, refusal }));
            }
        }
        Ok(entered)
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
            match state.requests.take(Pace::new(limit.into()), now, 1) {
                Ok(next) => entered.see_requests(RateState::new(limit, next, now)),
                Err((next, retry_after)) => {
                    entered.see_requests(RateState::new(limit, next, now));
                    return Err(Refusal::Requests { whose, limit, retry_after });
                }
            }
        }
        if let Some(limit) = limits.max_in_flight {
            let place = Place::take(state, limit).ok_or(Refusal::InFlight { whose, limit })?;
            entered.places.push(place);
        }
        Ok(())
    }

    async fn has_money(&self, subject: &Subject) -> Result<(), Refusal> {
        let Some(budget) = subject.limits().budget else { return Ok(()) };
        let ask = || subject.state().purse.has_any(budget, self.clock.unix());
        let says = match ask() {
            Says::Unknown => {
                self.learn(subject).await?;
                ask()
            }
            says => says,
        };
        judge(says, subject)
    }

    async fn learn(&self, subject: &Subject) -> Result<(), Refusal> {
        let Some(budget) = subject.limits().budget else { return Ok(()) };
        let purse = &subject.state().purse;
        purse.learn(subject, budget, &*self.clock, &*self.spending).await.map_err(|()| Refusal::StoreAway)
    }

    pub(crate) async fn reserve(
        &self,
        subjects: &[Arc<Subject>],
        tokens: u64,
        cost: i128,
    ) -> Result<Reservation, Refusal> {
        let mut reservation = Reservation::default();
        for subject in subjects {
            // Whatever was set aside so far goes back when a later one refuses.
            let piece = match self.set_aside(subject, tokens, cost) {
                Ok(piece) => piece,
                Err(None) => {
                    self.learn(subject).await?;
                    self.set_aside(subject, tokens, cost).map_err(|why| why.unwrap_or(Refusal::StoreAway))?
                }
                Err(Some(refusal)) => return Err(refusal),
            };
            if let Some(piece) = piece {
                reservation.0.push(piece);
            }
        }
        Ok(reservation)
    }

    /// Tokens and money of one subject; `Err(None)` when the ledger must be asked first.
    fn set_aside(
        &self,
        subject: &Arc<Subject>,
        tokens: u64,
        cost: i128,
    ) -> Result<Option<Piece>, Option<Refusal>> {
        let (limits, state) = (subject.limits(), subject.state());
        if limits.tpm.is_none() && limits.budget.is_none() {
            return Ok(None);
        }
        if let Some(limit) = limits.tpm {
            let refuse = |retry_after| {
                Some(Refusal::Tokens { whose: state.whose, limit, wanted: tokens, retry_after })
            };
            if tokens > limit {
                return Err(refuse(None));
            }
            let taken = state.tokens.take(Pace::new(limit), self.clock.micros(), tokens);
            taken.map_err(|(_, wait)| refuse(Some(wait)))?;
        }
        let mut piece =
            Piece { subject: Arc::clone(subject), clock: Arc::clone(&self.clock), tokens, cost, open: true };
        if let Some(budget) = limits.budget {
            let says = state.purse.reserve(budget, self.clock.unix(), cost);
            if says != Says::Yes {
                piece.give_back_tokens();
            }
            match says {
                Says::Unknown => return Err(None),
                says => judge(says, subject).map_err(Some)?,
            }
        }
        Ok(Some(piece))
    }

    pub(crate) fn charge(&self, subjects: &[Arc<Subject>], cost: i128) {
        for subject in subjects {
            if let Some(budget) = subject.limits().budget {
                subject.state().purse.charge(budget, self.clock.unix(), cost);
            }
        }
    }
}

fn judge(says: Says, subject: &Subject) -> Result<(), Refusal> {
    match says {
        Says::Yes => Ok(()),
        Says::No(resets_in) => Err(Refusal::Budget { whose: subject.whose(), resets_in }),
        Says::Unknown => Err(Refusal::StoreAway),
    }
}

/// Tokens and money that are set aside for a request. Dropped unsettled, all of it goes back.
#[derive(Debug, Default)]
pub struct Reservation(Few<Piece>);

impl Reservation {
    /// Puts what was really used in the place of what was set aside; more than that is counted, too. Only the first
    /// call counts.
    pub fn settle(&mut self, tokens: u64, cost_femtos: i128) {
        self.0.iter_mut().for_each(|piece| piece.settle(tokens, cost_femtos.max(0)));
    }
}

/// What one subject set aside.
#[derive(Debug)]
struct Piece {
    subject: Arc<Subject>,
    clock: Arc<dyn Clock>,
    tokens: u64,
    cost: i128,
    open: bool,
}

impl Piece {
    fn settle(&mut self, tokens: u64, cost: i128) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        let (limits, state) = (self.subject.limits(), self.subject.state());
        if let Some(limit) = limits.tpm {
            state.tokens.settle(Pace::new(limit), self.clock.micros(), self.tokens, tokens);
        }
        if let Some(budget) = limits.budget {
            state.purse.settle(budget, self.clock.unix(), self.cost, cost);
        }
    }

    /// For a purse that set nothing aside.
    fn give_back_tokens(&mut self) {
        self.cost = 0;
        self.settle(0, 0);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.settle(0, 0);
    }
}

#[cfg(test)]
mod tests;
