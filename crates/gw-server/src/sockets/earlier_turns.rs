//! The turns that a socket remembers, because nothing stores them: a later turn of the same socket continues them by
//! `previous_response_id`.

use std::collections::VecDeque;

use bytes::Bytes;
use gw_engine::shared_pool::{PoolHolding, UNCOUNTED_BYTES};

/// The most turns that a socket remembers.
const MAX_TURNS: usize = 1_024;

/// The conversation up to the end of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EarlierTurn {
    /// The id of its response.
    pub(super) id: String,
    /// The stored response that the first of these turns continues.
    pub(super) root: Option<String>,
    /// Pieces of a JSON array: items with commas between them. Later turns share them.
    pub(super) items: Vec<Bytes>,
    /// The remembered turn that has the first pieces, and their number.
    pub(super) begin: Option<(u64, usize)>,
}

/// A turn as it is kept.
#[derive(Debug)]
struct KeptTurn {
    id: String,
    root: Option<String>,
    /// The remembered turn that it continues.
    continues: Option<u64>,
    /// The pieces that it adds.
    items: Vec<Bytes>,
}

impl KeptTurn {
    fn bytes(&self) -> u64 {
        self.items.iter().map(|items| items.len() as u64).sum()
    }
}

/// The turns of one socket, in bounded memory.
#[derive(Debug)]
pub(super) struct EarlierTurns {
    turns: VecDeque<KeptTurn>,
    /// The number of the oldest turn. Turns are numbered from 0, also those that are forgotten.
    first: u64,
    most_bytes: u64,
    holding: PoolHolding,
}

impl EarlierTurns {
    pub(super) fn new(most_bytes: u64, holding: PoolHolding) -> Self {
        Self { turns: VecDeque::new(), first: 0, most_bytes, holding }
    }

    /// The turn of a response.
    pub(super) fn of(&self, id: &str) -> Option<EarlierTurn> {
        let place = self.turns.iter().rposition(|turn| turn.id == id)?;
        let number = self.first + place as u64;
        let (root, mut parts, mut next) = (self.turns.get(place)?.root.clone(), Vec::new(), Some(number));
        while let Some(turn) = next.and_then(|number| self.get(number)) {
            parts.push(&turn.items);
            next = turn.continues;
        }
        let items: Vec<Bytes> = parts.into_iter().rev().flatten().cloned().collect();
        let begin = Some((number, items.len()));
        Some(EarlierTurn { id: id.to_owned(), root, items, begin })
    }

    fn get(&self, number: u64) -> Option<&KeptTurn> {
        self.turns.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Remembers a turn. Older ones go, if there is no memory for all of them.
    pub(super) fn remember(&mut self, turn: EarlierTurn) {
        let EarlierTurn { id, root, mut items, begin } = turn;
        let begin = begin.filter(|(number, shared)| self.get(*number).is_some() && *shared <= items.len());
        let (continues, items) = match begin {
            Some((number, shared)) => (Some(number), items.split_off(shared)),
            None => (None, items),
        };
        self.turns.push_back(KeptTurn { id, root, continues, items });
        loop {
            let bytes: u64 = self.turns.iter().map(KeptTurn::bytes).sum();
            let counted = if bytes <= UNCOUNTED_BYTES as u64 { 0 } else { bytes };
            let has_room = self.turns.len() <= MAX_TURNS && bytes <= self.most_bytes;
            if has_room && self.holding.set(counted).is_ok() || self.turns.is_empty() {
                return;
            }
            self.forget_oldest();
        }
    }

    /// Forgets the oldest turn. The turns that continue it keep its items.
    fn forget_oldest(&mut self) {
        let Some(oldest) = self.turns.pop_front() else { return };
        let number = self.first;
        self.first += 1;
        for turn in self.turns.iter_mut().filter(|turn| turn.continues == Some(number)) {
            turn.continues = None;
            let own = std::mem::replace(&mut turn.items, oldest.items.clone());
            turn.items.extend(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gw_engine::shared_pool::SharedPool;

    use super::*;

    fn turn(number: usize, bytes: usize) -> EarlierTurn {
        let items = vec![Bytes::from(vec![b' '; bytes])];
        EarlierTurn { id: number.to_string(), items, ..EarlierTurn::default() }
    }

    fn turns_of(most_bytes: u64) -> EarlierTurns {
        EarlierTurns::new(most_bytes, SharedPool::new(4 << 20).holding(&"key".into()))
    }

    /// Continues the turn `number - 1` by one piece.
    fn continue_to(turns: &mut EarlierTurns, number: usize) {
        let mut turn = turns.of(&(number - 1).to_string()).expect("it is remembered");
        turn.id = number.to_string();
        turn.items.push(format!("{number:03}").into());
        turns.remember(turn);
    }

    #[test]
    fn a_conversation_can_be_continued_from_each_of_its_turns_and_its_items_are_kept_once() {
        // At most four bytes a turn: a copy of the whole conversation for each turn would not fit.
        let mut turns = turns_of(4 * MAX_TURNS as u64);
        turns.remember(EarlierTurn { root: Some("stored".into()), ..turn(0, 3) });
        (1..MAX_TURNS).for_each(|number| continue_to(&mut turns, number));
        assert_eq!(turns.of("0").map(|turn| turn.items.len()), Some(1));
        let whole = turns.of(&(MAX_TURNS - 1).to_string()).expect("it is remembered");
        assert_eq!((whole.items.len(), whole.root.as_deref()), (MAX_TURNS, Some("stored")));
        assert_eq!(whole.items[700], "700");
        // A branch begins at the first turn.
        let mut branch = turns.of("0").expect("it is remembered");
        branch.id = "branch".to_owned();
        branch.items.push("b".into());
        turns.remember(branch);
        assert_eq!(turns.of("branch").map(|turn| turn.items.len()), Some(2));
        assert!(turns.of("0").is_none(), "the oldest turn is forgotten");
        assert_eq!(turns.of("1").map(|turn| turn.items.len()), Some(2), "its items are not");
    }

    #[test]
    fn a_turn_whose_begin_is_forgotten_keeps_all_of_its_items() {
        let mut turns = turns_of(100);
        turns.remember(turn(0, 60));
        let mut next = turns.of("0").expect("it is remembered");
        turns.remember(turn(1, 90));
        assert!(turns.of("0").is_none());
        next.id = "2".to_owned();
        next.items.push("more".into());
        turns.remember(next);
        assert_eq!(turns.of("2").map(|turn| turn.items.len()), Some(2));
    }

    #[test]
    fn the_last_turns_are_remembered_within_all_bounds() {
        let pool = SharedPool::new(4 << 20);
        let key: Arc<str> = "key".into();
        let mut turns = EarlierTurns::new(1 << 20, pool.holding(&key));
        for number in 0..MAX_TURNS + 8 {
            turns.remember(turn(number, 8));
        }
        assert!(turns.of("1031").is_some() && turns.of("8").is_some() && turns.of("7").is_none());
        turns.remember(turn(1_032, 1 << 20));
        assert!(turns.of("1032").is_some() && turns.of("1031").is_none());
        turns.remember(turn(1_033, (1 << 20) + 1));
        assert!(turns.of("1033").is_none() && turns.of("1032").is_none());
        // Another socket of the key holds its share.
        let mut other = pool.holding(&key);
        assert!(other.set(2 << 20).is_ok());
        turns.remember(turn(2_000, 100 << 10));
        assert!(turns.of("2000").is_none());
        turns.remember(turn(2_001, 100));
        assert!(turns.of("2001").is_some());
    }
}
