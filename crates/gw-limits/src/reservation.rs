//! The tokens and the money that are set aside for a request, in this process or in Redis, until it settles.

use std::sync::Arc;

use gw_store::Limits;
use smallvec::SmallVec;

use crate::clock::Clock;
use crate::gcra::Gcra;
use crate::redis::late_budget::UnbudgetedRequest;
use crate::redis::outbox::SendOnDrop;
use crate::subject::State;

/// The amounts that a request asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReservationRequest {
    pub(crate) tokens: u64,
    /// The amount to reserve if it is left, in femto-USD.
    pub(crate) max_femtos: i128,
    /// The least amount that the request can do with, in femto-USD.
    pub(crate) min_femtos: i128,
}

/// Tokens and money that are set aside for a request. Dropping it without a settlement releases everything.
#[derive(Debug, Default)]
pub struct Reservation {
    /// One part for the key, one for the team.
    pub(crate) local: SmallVec<[LocalReservation; 2]>,
    /// The settlement for Redis.
    pub(crate) redis: Option<SendOnDrop>,
    /// The subjects that had no budget in Redis when the request began.
    pub(crate) unbudgeted: Option<Box<UnbudgetedRequest>>,
}

impl Reservation {
    /// Sets when the request began, in unix seconds. Its cost counts in that period of a budget. Without this call it
    /// is the moment of the reservation.
    pub fn set_begin(&mut self, unix: i64) {
        self.local.iter_mut().for_each(|local| local.begun = unix);
        if let Some(redis) = &mut self.redis {
            redis.set_begin_unix(unix);
        }
        if let Some(unbudgeted) = &mut self.unbudgeted {
            unbudgeted.set_begin_unix(unix);
        }
    }

    /// Replaces the reservation by the real usage, which may be higher. Only the first call counts. It never waits: a
    /// background task tells Redis. `request_id` is the id of the request's row, which the caller hands to the ledger before.
    pub fn settle(&mut self, request_id: &str, tokens: u64, cost_femtos: i128) {
        let cost = cost_femtos.max(0);
        self.local.iter_mut().for_each(|local| local.settle(request_id, tokens, cost));
        if let Some(redis) = self.redis.take() {
            redis.settle(tokens, cost);
        }
        if let Some(unbudgeted) = self.unbudgeted.take() {
            unbudgeted.settle(cost);
        }
    }
}

/// The reservation of one subject in this process.
#[derive(Debug)]
pub(crate) struct LocalReservation {
    state: Arc<State>,
    tpm: Option<u64>,
    clock: Arc<dyn Clock>,
    tokens: u64,
    cost_femtos: i128,
    /// When the request began, in unix seconds.
    begun: i64,
    is_open: bool,
}

impl LocalReservation {
    /// A reservation of tokens that were taken before, for a request that began in this unix second.
    pub(crate) fn of_tokens(
        state: &Arc<State>,
        limits: &Limits,
        (clock, begun): (&Arc<dyn Clock>, i64),
        tokens: u64,
    ) -> Self {
        let (state, clock) = (Arc::clone(state), Arc::clone(clock));
        Self { state, tpm: limits.tpm, clock, tokens, cost_femtos: 0, begun, is_open: true }
    }

    /// Takes charge of money that was reserved before.
    pub(crate) fn set_cost(&mut self, cost_femtos: i128) {
        self.cost_femtos = cost_femtos;
    }

    /// Releases money beyond `max_femtos`.
    pub(crate) fn shrink(&mut self, max_femtos: i128) {
        if self.cost_femtos > max_femtos {
            self.state.budget.release(self.cost_femtos.saturating_sub(max_femtos));
            self.cost_femtos = max_femtos;
        }
    }

    fn settle(&mut self, request_id: &str, tokens: u64, cost_femtos: i128) {
        if !std::mem::replace(&mut self.is_open, false) {
            return;
        }
        if let Some(limit) = self.tpm {
            let now = self.clock.monotonic_micros();
            self.state.token_gcra.settle(Gcra::new(limit), now, self.tokens, tokens);
        }
        // A subject that had no budget when the request began may have one now.
        if self.cost_femtos != 0 || cost_femtos != 0 {
            let now = self.clock.unix_seconds();
            self.state.budget.settle(now, (request_id, self.begun), self.cost_femtos, cost_femtos);
        }
    }
}

impl Drop for LocalReservation {
    fn drop(&mut self) {
        self.settle("", 0, 0);
    }
}
