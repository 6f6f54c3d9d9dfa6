//! Items of turns that were opened from a database. The next request of a conversation opens only the turns that are new.
//!
//! The rows of all turns are still read for each request, and a copy is found only by the version in its row. So a turn that
//! another replica deleted or wrote anew is never read from here.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::stored_conversation::TurnItems;
use super::stored_response::ResponseFacts;
use crate::clock;
use crate::shared_pool::{PoolHolding, SharedPool};

/// The bytes that the copies of all keys may hold together.
const LIMIT_BYTES: u64 = 32 << 20;
/// The largest copy. A turn with large files would push out many others.
pub(super) const MAX_TURN_BYTES: u64 = 1 << 20;
/// The bytes that are counted for a copy beside its text.
const ENTRY_BYTES: u64 = 256;
/// The time after its last use in which a copy is kept.
const KEPT_FOR: Duration = Duration::from_secs(300);
/// The time between two searches for copies that are not used any more.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The copies of all keys.
#[derive(Debug)]
pub(super) struct OpenedTurns {
    pool: Arc<SharedPool>,
    all: Mutex<AllTurns>,
}

#[derive(Debug, Default)]
struct AllTurns {
    by_key: HashMap<Arc<str>, KeyTurns>,
    /// When the copies were last searched for those that are not used any more.
    swept: Option<Instant>,
}

/// The copies of one key.
#[derive(Debug, Default)]
struct KeyTurns {
    by_id: HashMap<String, KeptTurn>,
    /// The ids in the order of their last uses.
    by_use: BTreeMap<u64, String>,
    uses: u64,
}

#[derive(Debug)]
struct KeptTurn {
    /// The version of the row from which it was opened.
    version: i64,
    items: Arc<TurnItems>,
    /// The number of its last use, and its time.
    used: (u64, Instant),
    _held: PoolHolding,
}

impl Default for OpenedTurns {
    fn default() -> Self {
        Self { pool: SharedPool::new(LIMIT_BYTES), all: Mutex::default() }
    }
}

impl OpenedTurns {
    /// The items of the turn that this row describes.
    pub(super) fn get(&self, owner: &str, row: &ResponseFacts) -> Option<Arc<TurnItems>> {
        let mut all = self.all.lock();
        let turns = all.by_key.get_mut(owner)?;
        if turns.by_id.get(&row.id)?.version != row.version {
            turns.remove(&row.id);
            return None;
        }
        turns.use_again(&row.id)
    }

    /// Keeps the items of a turn for the next request. Beyond its share the key's own copies leave, the one first that was
    /// not used for the longest time.
    pub(super) fn keep(&self, owner: &str, row: &ResponseFacts, items: TurnItems) {
        let bytes = (items.bytes() + row.id.len()) as u64 + ENTRY_BYTES;
        if bytes > MAX_TURN_BYTES {
            return;
        }
        let mut all = self.all.lock();
        let now = clock::now();
        if all.swept.is_none_or(|swept| now.duration_since(swept) >= SWEEP_EVERY) {
            all.swept = Some(now);
            all.by_key.retain(|_, turns| turns.drop_unused(now));
        }
        let known = all.by_key.get_key_value(owner).map(|(key, _)| Arc::clone(key));
        let key = known.unwrap_or_else(|| Arc::from(owner));
        let turns = all.by_key.entry(Arc::clone(&key)).or_default();
        turns.remove(&row.id);
        let mut held = self.pool.holding(&key);
        while held.set(bytes).is_err() {
            let Some((_, oldest)) = turns.by_use.pop_first() else { return };
            turns.by_id.remove(&oldest);
        }
        turns.uses += 1;
        let used = (turns.uses, now);
        turns.by_use.insert(turns.uses, row.id.clone());
        let kept = KeptTurn { version: row.version, items: Arc::new(items), used, _held: held };
        turns.by_id.insert(row.id.clone(), kept);
    }

    /// Drops the copy of a response that is deleted.
    pub(super) fn forget(&self, owner: &str, id: &str) {
        if let Some(turns) = self.all.lock().by_key.get_mut(owner) {
            turns.remove(id);
        }
    }
}

impl KeyTurns {
    fn use_again(&mut self, id: &str) -> Option<Arc<TurnItems>> {
        let turn = self.by_id.get_mut(id)?;
        let name = self.by_use.remove(&turn.used.0)?;
        self.uses += 1;
        turn.used = (self.uses, clock::now());
        self.by_use.insert(self.uses, name);
        Some(Arc::clone(&turn.items))
    }

    fn remove(&mut self, id: &str) {
        if let Some(turn) = self.by_id.remove(id) {
            self.by_use.remove(&turn.used.0);
        }
    }

    /// Drops the copies that were not used for long; gives whether any is left.
    fn drop_unused(&mut self, now: Instant) -> bool {
        while let Some((_, id)) = self.by_use.first_key_value()
            && self.by_id.get(id).is_none_or(|turn| now.duration_since(turn.used.1) >= KEPT_FOR)
        {
            let id = id.clone();
            self.by_use.pop_first();
            self.by_id.remove(&id);
        }
        !self.by_id.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, version: i64) -> ResponseFacts {
        ResponseFacts { id: id.to_owned(), version, ..ResponseFacts::default() }
    }

    fn items(bytes: usize) -> TurnItems {
        TurnItems { text: "x".repeat(bytes), ends: vec![bytes] }
    }

    #[test]
    fn a_turn_is_found_by_the_version_of_its_row_until_it_is_deleted() {
        let turns = OpenedTurns::default();
        turns.keep("key", &row("a", 1), items(1000));
        assert_eq!(turns.get("key", &row("a", 1)).unwrap().bytes(), 1000 + size_of::<usize>());
        assert!(turns.get("other", &row("a", 1)).is_none());
        assert!(turns.get("key", &row("a", 2)).is_none(), "the row was written anew");
        assert!(turns.get("key", &row("a", 1)).is_none() && turns.pool.gauge().get() == 0);
        turns.keep("key", &row("a", 2), items(1000));
        turns.forget("key", "a");
        assert!(turns.get("key", &row("a", 2)).is_none());
        turns.keep("key", &row("a", 2), items(2 << 20));
        assert!(turns.get("key", &row("a", 2)).is_none(), "it is too large");
        assert_eq!(turns.pool.gauge().get(), 0);
    }

    #[test]
    fn beyond_its_share_a_key_loses_its_own_turns_by_their_last_use() {
        let turns = OpenedTurns::default();
        turns.keep("other", &row("b", 1), items(500_000));
        for at in 0..100 {
            turns.keep("key", &row(&format!("a{at}"), 1), items(1_000_000));
            assert!(turns.get("key", &row("a0", 1)).is_some(), "{at}: it is always used");
        }
        assert!(turns.get("key", &row("a1", 1)).is_none());
        assert!(turns.get("key", &row("a99", 1)).is_some());
        assert!(turns.get("other", &row("b", 1)).is_some());
        let held = turns.pool.gauge().get();
        assert!(held <= (LIMIT_BYTES as i64) / 2 + 1_000_000, "{held}");
    }

    #[tokio::test(start_paused = true)]
    async fn turns_of_conversations_that_ended_leave() {
        let turns = OpenedTurns::default();
        turns.keep("key", &row("a", 1), items(1000));
        turns.keep("key", &row("b", 1), items(1000));
        tokio::time::advance(KEPT_FOR / 2).await;
        assert!(turns.get("key", &row("b", 1)).is_some());
        tokio::time::advance(KEPT_FOR / 2).await;
        turns.keep("other", &row("c", 1), items(1000));
        assert!(turns.get("key", &row("a", 1)).is_none());
        assert!(turns.get("key", &row("b", 1)).is_some());
    }
}
