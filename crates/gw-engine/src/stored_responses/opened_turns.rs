//! Items of turns that were opened from a database. The next request of a conversation opens only the turns that are new.
//!
//! The rows of all turns are still read for each request, and a copy is found only by the version in its row. So a turn that
//! another replica deleted or wrote anew is never read from here.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;

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
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// The keys whose last deletions are known.
const MAX_DELETING_KEYS: usize = 10_000;

/// The copies of all keys.
#[derive(Debug)]
pub(super) struct OpenedTurns {
    pool: Arc<SharedPool>,
    all: Arc<Mutex<AllTurns>>,
}

/// The number of deletions so far. A turn that was read before a later deletion of its key may be the deleted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deletions(u64);

#[derive(Debug, Default)]
struct AllTurns {
    by_key: HashMap<Arc<str>, KeyTurns>,
    deletions: u64,
    /// The number of each key's last deletion.
    last_deletions: HashMap<String, u64>,
    /// A deletion that is not older than those of the keys without an entry.
    forgotten_deletion: u64,
    /// Whether a task searches for copies that are not used any more.
    is_swept: bool,
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
        Self { pool: SharedPool::new(LIMIT_BYTES), all: Arc::default() }
    }
}

impl OpenedTurns {
    /// The items of the turn that this row describes.
    pub(super) fn get(&self, owner: &str, row: &ResponseFacts) -> Option<Arc<TurnItems>> {
        let mut all = self.all.lock();
        let turns = all.by_key.get_mut(owner)?;
        let turn = turns.by_id.get(&row.id)?;
        if turn.version != row.version || clock::now().duration_since(turn.used.1) >= KEPT_FOR {
            turns.remove(&row.id);
            return None;
        }
        turns.use_again(&row.id)
    }

    /// The deletions before the rows of a conversation are read.
    pub(super) fn deletions(&self) -> Deletions {
        Deletions(self.all.lock().deletions)
    }

    /// Keeps the items of a turn for the next request, unless its key deleted a response since its row was read. Beyond its
    /// share the key's own copies leave, the one first that was not used for the longest time.
    pub(super) fn keep(&self, owner: &str, row: &ResponseFacts, items: TurnItems, before: Deletions) {
        let bytes = (items.bytes() + row.id.len()) as u64 + ENTRY_BYTES;
        if bytes > MAX_TURN_BYTES {
            return;
        }
        let mut all = self.all.lock();
        if all.last_deletion(owner) > before.0 {
            return;
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
        let used = (turns.uses, clock::now());
        turns.by_use.insert(turns.uses, row.id.clone());
        let kept = KeptTurn { version: row.version, items: Arc::new(items), used, _held: held };
        turns.by_id.insert(row.id.clone(), kept);
        if !std::mem::replace(&mut all.is_swept, true) {
            drop(all);
            self.start_sweeping();
        }
    }

    /// Drops the copy of a response whose row is deleted. A request that read the row before does not bring it back.
    pub(super) fn forget(&self, owner: &str, id: &str) {
        let mut all = self.all.lock();
        all.count_deletion(owner);
        if let Some(turns) = all.by_key.get_mut(owner) {
            turns.remove(id);
        }
    }

    /// Starts the task that drops the copies that are not used any more. It ends when none is left.
    fn start_sweeping(&self) {
        let Ok(runtime) = Handle::try_current() else {
            self.all.lock().is_swept = false;
            return;
        };
        let all = Arc::downgrade(&self.all);
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_EVERY).await;
                match all.upgrade() {
                    Some(all) if all.lock().sweep(clock::now()) => {}
                    _ => return,
                }
            }
        });
    }
}

impl AllTurns {
    /// The number of this key's last deletion, or one that is not older.
    fn last_deletion(&self, owner: &str) -> u64 {
        self.last_deletions.get(owner).copied().unwrap_or(self.forgotten_deletion)
    }

    fn count_deletion(&mut self, owner: &str) {
        self.deletions += 1;
        if let Some(last) = self.last_deletions.get_mut(owner) {
            *last = self.deletions;
            return;
        }
        if self.last_deletions.len() >= MAX_DELETING_KEYS {
            self.last_deletions.clear();
            self.forgotten_deletion = self.deletions;
        }
        self.last_deletions.insert(owner.to_owned(), self.deletions);
    }

    /// Drops the copies that were not used recently. Returns whether any is left.
    fn sweep(&mut self, now: Instant) -> bool {
        self.by_key.retain(|_, turns| turns.drop_unused(now));
        self.is_swept = !self.by_key.is_empty();
        self.is_swept
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

    /// Drops the copies that were not used recently. Returns whether any is left.
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
        TurnItems { text: "x".repeat(bytes), ends: vec![bytes], ..TurnItems::default() }
    }

    #[test]
    fn a_turn_is_found_by_the_version_of_its_row_until_it_is_deleted() {
        let turns = OpenedTurns::default();
        turns.keep("key", &row("a", 1), items(1000), turns.deletions());
        assert_eq!(turns.get("key", &row("a", 1)).unwrap().bytes(), 1000 + size_of::<usize>());
        assert!(turns.get("other", &row("a", 1)).is_none());
        assert!(turns.get("key", &row("a", 2)).is_none(), "the row was written anew");
        assert!(turns.get("key", &row("a", 1)).is_none() && turns.pool.gauge().get() == 0);
        turns.keep("key", &row("a", 2), items(1000), turns.deletions());
        turns.forget("key", "a");
        assert!(turns.get("key", &row("a", 2)).is_none());
        turns.keep("key", &row("a", 2), items(2 << 20), turns.deletions());
        assert!(turns.get("key", &row("a", 2)).is_none(), "it is too large");
        assert_eq!(turns.pool.gauge().get(), 0);
    }

    #[test]
    fn a_turn_that_was_read_before_it_was_deleted_does_not_come_back() {
        let turns = OpenedTurns::default();
        let before = turns.deletions();
        turns.keep("key", &row("a", 1), items(1000), before);
        turns.forget("key", "a");
        turns.keep("key", &row("a", 1), items(1000), before);
        assert!(turns.get("key", &row("a", 1)).is_none() && turns.pool.gauge().get() == 0);
        turns.keep("key", &row("b", 1), items(1000), turns.deletions());
        assert!(turns.get("key", &row("b", 1)).is_some());
    }

    #[test]
    fn deletions_of_a_key_forget_no_turn_that_another_one_reads() {
        let turns = OpenedTurns::default();
        let before = turns.deletions();
        turns.forget("other", "a");
        turns.keep("key", &row("a", 1), items(1000), before);
        assert!(turns.get("key", &row("a", 1)).is_some());
        // Beyond a number of keys, only the time of the deletion is known.
        turns.forget("key", "b");
        (0..=MAX_DELETING_KEYS).for_each(|at| turns.forget(&format!("key {at}"), "a"));
        turns.keep("key", &row("b", 1), items(1000), before);
        assert!(turns.get("key", &row("b", 1)).is_none());
        assert!(turns.all.lock().last_deletions.len() <= MAX_DELETING_KEYS);
        turns.keep("key", &row("b", 1), items(1000), turns.deletions());
        assert!(turns.get("key", &row("b", 1)).is_some());
    }

    #[test]
    fn beyond_its_share_a_key_loses_its_own_turns_by_their_last_use() {
        let turns = OpenedTurns::default();
        turns.keep("other", &row("b", 1), items(500_000), turns.deletions());
        for at in 0..100 {
            turns.keep("key", &row(&format!("a{at}"), 1), items(1_000_000), turns.deletions());
            assert!(turns.get("key", &row("a0", 1)).is_some(), "{at}: it is always used");
        }
        assert!(turns.get("key", &row("a1", 1)).is_none());
        assert!(turns.get("key", &row("a99", 1)).is_some());
        assert!(turns.get("other", &row("b", 1)).is_some());
        let held = turns.pool.gauge().get();
        assert!(held <= (LIMIT_BYTES as i64) / 2 + 1_000_000, "{held}");
    }

    #[tokio::test(start_paused = true)]
    async fn turns_of_conversations_that_ended_leave_without_another_request() {
        let turns = OpenedTurns::default();
        let keep = |id: &str| turns.keep("key", &row(id, 1), items(1000), turns.deletions());
        let second = Duration::from_secs(1);
        keep("a");
        tokio::time::sleep(second).await;
        keep("b");
        keep("c");
        tokio::time::sleep(KEPT_FOR / 2).await;
        assert!(turns.get("key", &row("b", 1)).is_some());
        let counted = turns.pool.gauge().get();
        tokio::time::sleep(KEPT_FOR / 2).await;
        // The last search was a second ago. It found one turn, and another one is too old since then.
        assert_eq!(turns.pool.gauge().get(), counted / 3 * 2);
        assert!(turns.get("key", &row("c", 1)).is_none(), "no search has found it");
        assert_eq!(turns.pool.gauge().get(), counted / 3);
        tokio::time::sleep(KEPT_FOR / 2 + SWEEP_EVERY).await;
        assert_eq!(turns.pool.gauge().get(), 0, "nobody asked for it");
        keep("a");
        tokio::time::sleep(KEPT_FOR + SWEEP_EVERY).await;
        assert_eq!(turns.pool.gauge().get(), 0, "the task begins again");
    }
}
