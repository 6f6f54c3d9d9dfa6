//! What is set aside for a request, here or in Redis, until it is settled.

use std::sync::Arc;

use gw_store::Limits;

use crate::clock::Clock;
use crate::few::Few;
use crate::rate::Pace;
use crate::shared::{Meanwhile, Owed};
use crate::subject::State;

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) tokens: u64,
    /// Femto-USD.
    pub(crate) most: i128,
    /// Femto-USD that will do when `most` is not left.
    pub(crate) least: i128,
}

/// Tokens and money that are set aside for a request. Dropped unsettled, all of it goes back.
#[derive(Debug, Default)]
pub struct Reservation {
    pub(crate) pieces: Few<Piece>,
    /// What Redis is told in the end.
    pub(crate) owed: Option<Owed>,
    /// Who had no budget in Redis when it began.
    pub(crate) meanwhile: Option<Meanwhile>,
}

impl Reservation {
    /// When the request began, unix seconds: what it spends counts in that period of a budget. The moment of the
    /// reservation unless told otherwise.
    pub fn begun_at(&mut self, unix: i64) {
        self.pieces.iter_mut().for_each(|piece| piece.begun = unix);
        if let Some(owed) = &mut self.owed {
            owed.begun_at(unix);
        }
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile.begun_at(unix);
        }
    }

    /// Puts what was really used in the place of what was set aside; more than that is counted, too. Only the first
    /// call counts. It never waits: Redis hears of it from a task of its own.
    pub fn settle(&mut self, tokens: u64, cost_femtos: i128) {
        let cost = cost_femtos.max(0);
        self.pieces.iter_mut().for_each(|piece| piece.settle(tokens, cost));
        if let Some(owed) = self.owed.take() {
            owed.settle(tokens, cost);
        }
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile.settle(cost);
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
    /// When the request began, unix seconds.
    begun: i64,
    open: bool,
}

impl Piece {
    pub(crate) fn new(state: &Arc<State>, limits: &Limits, clock: &Arc<dyn Clock>, tokens: u64) -> Self {
        let (state, clock) = (Arc::clone(state), Arc::clone(clock));
        let begun = clock.unix();
        Self { state, tpm: limits.tpm, clock, tokens, cost: 0, begun, open: true }
    }

    /// Keeps no more money than this.
    pub(crate) fn shrink(&mut self, most: i128) {
        if self.cost > most {
            self.state.purse.give_back(self.cost.saturating_sub(most));
            self.cost = most;
        }
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
            self.state.purse.settle(self.clock.unix(), self.begun, self.cost, cost);
        }
    }

    /// Holds this much money, too.
    pub(crate) fn hold(&mut self, cost: i128) {
        self.cost = cost;
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.settle(0, 0);
    }
}
