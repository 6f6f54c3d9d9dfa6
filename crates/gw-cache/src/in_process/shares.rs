//! The share of each scope in the memory of the stored answers.
//!
//! A share is the memory divided by the number of scopes that hold answers, and one more. So a scope that comes later finds
//! room, and no flood of one scope takes what is within the share of another one. While a scope is alone, it has all of the
//! memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use crate::key::{Key, Scope};

/// Names of removed answers that a queue may hold beside a quarter of its answers.
const SPARE_NAMES: usize = 16;

/// The memory that each scope holds.
#[derive(Debug, Default)]
pub(super) struct ScopeShares {
    scopes: BTreeMap<Scope, ScopeHolding>,
    by_size: BTreeSet<(u64, Scope)>,
    all: u64,
    /// The scope that was looked at last, see [`ScopeShares::next_oldest`].
    looked_at: Option<Scope>,
}

/// The answers of one scope.
#[derive(Debug, Default)]
struct ScopeHolding {
    bytes: u64,
    answers: usize,
    /// From the oldest on. Some are gone, because the table removes answers, too.
    queue: VecDeque<Key>,
}

impl ScopeShares {
    /// Counts a new answer.
    pub(super) fn add(&mut self, scope: &Scope, key: Key, bytes: u64) {
        self.change(scope, |holding| {
            holding.bytes = holding.bytes.saturating_add(bytes);
            holding.answers += 1;
            holding.queue.push_back(key);
        });
    }

    /// An answer is gone.
    pub(super) fn remove(&mut self, scope: &Scope, bytes: u64) {
        self.change(scope, |holding| {
            holding.bytes = holding.bytes.saturating_sub(bytes);
            holding.answers = holding.answers.saturating_sub(1);
        });
    }

    fn change(&mut self, scope: &Scope, change: impl FnOnce(&mut ScopeHolding)) {
        let holding = self.scopes.entry(scope.clone()).or_default();
        let before = holding.bytes;
        change(holding);
        let (after, is_empty) = (holding.bytes, holding.answers == 0);
        self.by_size.remove(&(before, scope.clone()));
        self.all = self.all.saturating_sub(before);
        if is_empty {
            self.scopes.remove(scope);
        } else {
            self.by_size.insert((after, scope.clone()));
            self.all = self.all.saturating_add(after);
        }
    }

    /// All answers are gone.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The memory that all answers take.
    #[cfg(test)]
    pub(super) fn all(&self) -> u64 {
        self.all
    }

    /// Whether an answer of this size and scope needs memory that other scopes use, too.
    pub(super) fn is_pressed(&self, scope: &Scope, bytes: u64, room: u64) -> bool {
        let others = self.scopes.len() - usize::from(self.scopes.contains_key(scope));
        others > 0 && self.all.saturating_add(bytes) > room
    }

    /// The scope that makes room for an answer: its own, if that is beyond its share, else the largest one.
    pub(super) fn giver(&self, scope: &Scope, bytes: u64, room: u64) -> Option<Scope> {
        let own = self.scopes.get(scope);
        let holders = self.scopes.len() as u64 + u64::from(own.is_none());
        let share = room / (holders + 1);
        if own.is_some_and(|own| own.bytes.saturating_add(bytes) > share) {
            return Some(scope.clone());
        }
        self.by_size.last().map(|(_, scope)| scope.clone())
    }

    /// The oldest answer of the next scope, in turn.
    pub(super) fn next_oldest(&mut self) -> Option<(Scope, Key)> {
        let after = self.looked_at.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.scopes.range((after, Bound::Unbounded));
        let (scope, holding) = rest.next().or_else(|| self.scopes.first_key_value())?;
        let found = (scope.clone(), *holding.queue.front()?);
        self.looked_at = Some(found.0.clone());
        Some(found)
    }

    /// Takes the oldest answer of a scope out of its queue.
    pub(super) fn take_oldest(&mut self, scope: &Scope) -> Option<Key> {
        self.scopes.get_mut(scope)?.queue.pop_front()
    }

    /// The answer counts as the newest of its scope.
    pub(super) fn renew(&mut self, scope: &Scope, key: Key) {
        if let Some(holding) = self.scopes.get_mut(scope) {
            holding.queue.push_back(key);
        }
    }

    /// Removes the names of answers that are gone, once they are many.
    pub(super) fn tidy(&mut self, scope: &Scope, is_there: impl Fn(&Key) -> bool) {
        let Some(holding) = self.scopes.get_mut(scope) else { return };
        if holding.queue.len() > holding.answers + holding.answers / 4 + SPARE_NAMES {
            holding.queue.retain(is_there);
        }
    }
}
