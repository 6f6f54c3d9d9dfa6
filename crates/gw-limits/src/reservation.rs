//! What is set aside for a request, here or in Redis, until it is settled.

use std::sync::Arc;

use gw_store::Limits;

use crate::clock::Clock;
use crate::few::Few;
use crate::rate::Pace;
use crate::shared::Owed;
use crate::subject::State;

/// Tokens and money that are set aside for a request. Dropped unsettled, all of it goes back.
#[derive(Debug, Default)]
pub struct Reservation {
    pub(crate) pieces: Few<Piece>,
    /// What Redis is told in the end.
    pub(crate) owed: Option<Owed>,
}

impl Reservation {
    /// Puts what was really used in the place of what was set aside; more than that is counted, too. Only the first
    /// call counts. It never waits: Redis hears of it from a task of its own.
    pub fn settle(&mut self, tokens: u64, cost_femtos: i128) {
        let cost = cost_femtos.max(0);
        self.pieces.iter_mut().for_each(|piece| piece.settle(tokens, cost));
        if let Some(owed) = self.owed.take() {
            owed.settle(tokens, cost);
        }
    }
}

/// What one subject set aside in this process.
#[derive(Debug)]
pub(crate) struct Piece {
    state: Arc<State>,
    tpm: Option<u64>,
    clock: Arc<dyn Clock>,
    tokens: u64,
    cost: i128,
    open: bool,
}

impl Piece {
    pub(crate) fn new(
        state: &Arc<State>,
        limits: &Limits,
        clock: &Arc<dyn Clock>,
        tokens: u64,
        cost: i128,
    ) -> Self {
        let (state, clock) = (Arc::clone(state), Arc::clone(clock));
        Self { state, tpm: limits.tpm, clock, tokens, cost, open: true }
    }

    fn settle(&mut self, tokens: u64, cost: i128) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        if let Some(limit) = self.tpm {
            self.state.tokens.settle(Pace::new(limit), self.clock.micros(), self.tokens, tokens);
        }
        // Who had no budget when the request began may have one now.
        if self.cost != 0 || cost != 0 {
            self.state.purse.settle(self.clock.unix(), self.cost, cost);
        }
    }

    /// For a purse that set nothing aside.
    pub(crate) fn give_back_tokens(&mut self) {
        self.cost = 0;
        self.settle(0, 0);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.settle(0, 0);
    }
}
