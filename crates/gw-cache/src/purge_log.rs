//! The purges so far. Each purge adds one number, however many answers it concerns.
//!
//! A call takes a [`Stamp`] before its first lookup, and its answer carries the stamp. An answer is void if its scope,
//! its model or everything was purged after the stamp. So a purge also voids the answers of calls in flight.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::entry::Stored;
use crate::key::Scope;
use crate::stamp::Stamp;

/// The most scopes and models whose purges the log distinguishes. One more counts as a purge of everything.
pub(crate) const MAX_PURGED_NAMES: usize = 4096;

/// The answers to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// The answers of a scope.
    Scope(Scope),
    /// The answers to requests for a model of this name, and the answers of the model with this id.
    Model(Arc<str>),
}

impl Purge {
    /// The name under which the purge is noted, here and in Redis.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::All => ALL.to_owned(),
            Self::Scope(scope) => scope_name(scope),
            Self::Model(model) => model_name(model),
        }
    }
}

/// The name of a purge of everything.
pub(crate) const ALL: &str = "all";

fn scope_name(scope: &Scope) -> String {
    format!("scope:{}:{}", scope.kind(), scope.id())
}

fn model_name(model: &str) -> String {
    format!("model:{model}")
}

/// Redis did not confirm a purge, so the purge may have no effect on any replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Redis did not confirm the purge")]
pub struct PurgeError;

/// The purges that this process knows.
#[derive(Debug, Default)]
pub(crate) struct PurgeLog {
    /// The number of the last purge.
    last: AtomicU64,
    numbers: Mutex<PurgeNumbers>,
}

/// The number of the last purge of everything, and of each name.
#[derive(Debug, Default)]
struct PurgeNumbers {
    all: u64,
    by_name: HashMap<String, u64>,
}

impl PurgeLog {
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp(self.last.load(Ordering::Acquire))
    }

    /// Adds a purge.
    pub(crate) fn add(&self, purge: &Purge) {
        let mut numbers = self.numbers.lock();
        let number = self.last.load(Ordering::Acquire).saturating_add(1);
        numbers.set(purge.name(), number);
        self.last.store(number, Ordering::Release);
    }

    /// Adds purges from Redis: the number of the last one, and the number of each name.
    pub(crate) fn merge(&self, last: u64, names: impl IntoIterator<Item = (String, u64)>) {
        let mut numbers = self.numbers.lock();
        for (name, number) in names {
            numbers.set(name, number);
        }
        self.last.fetch_max(last, Ordering::AcqRel);
    }

    /// Forgets all purges.
    pub(crate) fn clear(&self) {
        let mut numbers = self.numbers.lock();
        *numbers = PurgeNumbers::default();
        self.last.store(0, Ordering::Release);
    }

    /// Whether an answer was not purged since its stamp.
    pub(crate) fn is_valid(&self, stored: &Stored, stamp: Stamp) -> bool {
        self.is_valid_at(stored, stamp, self.stamp())
    }

    /// Whether an answer was not purged between its stamp and `last`.
    pub(crate) fn is_valid_at(&self, stored: &Stored, stamp: Stamp, last: Stamp) -> bool {
        if stamp >= last {
            return true;
        }
        let numbers = self.numbers.lock();
        let is_purged = |name: String| numbers.by_name.get(&name).is_some_and(|number| *number > stamp.0);
        numbers.all <= stamp.0
            && !is_purged(model_name(&stored.model))
            && !is_purged(model_name(&stored.model_used))
            && !is_purged(scope_name(&stored.scope))
    }
}

impl PurgeNumbers {
    fn set(&mut self, name: String, number: u64) {
        if name == ALL || (self.by_name.len() >= MAX_PURGED_NAMES && !self.by_name.contains_key(&name)) {
            self.all = self.all.max(number);
            // A purge of everything includes all earlier purges.
            let all = self.all;
            self.by_name.retain(|_, number| *number > all);
            return;
        }
        let known = self.by_name.entry(name).or_default();
        *known = number.max(*known);
    }
}
