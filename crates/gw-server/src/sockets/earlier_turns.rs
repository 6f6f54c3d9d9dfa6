//! The turns that a socket remembers, because nothing stores them: a later turn of the same socket continues them by
//! `previous_response_id`.

use std::collections::VecDeque;

use bytes::Bytes;
use gw_engine::shared_pool::{PoolHolding, UNCOUNTED_BYTES};

/// The most turns that a socket remembers.
const MAX_TURNS: usize = 16;

/// The conversation up to the end of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EarlierTurn {
    /// The id of its response.
    pub(super) id: String,
    /// The stored response that the first of these turns continues.
    pub(super) root: Option<String>,
    /// Pieces of a JSON array: items with commas between them. Later turns share them.
    pub(super) items: Vec<Bytes>,
}

impl EarlierTurn {
    fn bytes(&self) -> u64 {
        self.items.iter().map(|items| items.len() as u64).sum()
    }
}

/// The turns of one socket, in bounded memory.
#[derive(Debug)]
pub(super) struct EarlierTurns {
    turns: VecDeque<EarlierTurn>,
    most_bytes: u64,
    holding: PoolHolding,
}

impl EarlierTurns {
    pub(super) fn new(most_bytes: u64, holding: PoolHolding) -> Self {
        Self { turns: VecDeque::new(), most_bytes, holding }
    }

    /// The turn of a response.
    pub(super) fn of(&self, id: &str) -> Option<EarlierTurn> {
        self.turns.iter().rev().find(|turn| turn.id == id).cloned()
    }

    /// Remembers a turn. Older ones go, if there is no memory for all of them.
    pub(super) fn remember(&mut self, turn: EarlierTurn) {
        self.turns.push_back(turn);
        loop {
            let bytes: u64 = self.turns.iter().map(EarlierTurn::bytes).sum();
            // What turns share counts with each of them, so this is no less than what they take.
            let counted = if bytes <= UNCOUNTED_BYTES as u64 { 0 } else { bytes };
            let has_room = self.turns.len() <= MAX_TURNS && bytes <= self.most_bytes;
            if has_room && self.holding.set(counted).is_ok() || self.turns.is_empty() {
                return;
            }
            self.turns.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gw_engine::shared_pool::SharedPool;

    use super::*;

    fn turn(number: usize, bytes: usize) -> EarlierTurn {
        EarlierTurn { id: number.to_string(), root: None, items: vec![Bytes::from(vec![b' '; bytes])] }
    }

    #[test]
    fn the_last_turns_are_remembered_within_all_bounds() {
        let pool = SharedPool::new(4 << 20);
        let key: Arc<str> = "key".into();
        let mut turns = EarlierTurns::new(1 << 20, pool.holding(&key));
        for number in 0..40 {
            turns.remember(turn(number, 8));
        }
        assert!(turns.of("39").is_some() && turns.of("24").is_some() && turns.of("23").is_none());
        turns.remember(turn(40, 1 << 20));
        assert!(turns.of("40").is_some() && turns.of("39").is_none());
        turns.remember(turn(41, (1 << 20) + 1));
        assert!(turns.of("41").is_none() && turns.of("40").is_none());
        // Another socket of the key holds its share.
        let mut other = pool.holding(&key);
        assert!(other.set(2 << 20).is_ok());
        turns.remember(turn(42, 100 << 10));
        assert!(turns.of("42").is_none());
        turns.remember(turn(43, 100));
        assert!(turns.of("43").is_some());
    }
}
