//! What was thrown away, and when: a purge is one number more, however much it concerns.
//!
//! Every call takes a [`Stamp`] before it looks, and what it stores carries it. An answer is void when something that it
//! is part of was purged after its stamp: also an answer that was under way when the purge came.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::entry::Stored;
use crate::key::Scope;

/// Models and scopes whose purges are told apart. One more, and everything before it counts as purged.
pub(crate) const MOST: usize = 4096;

/// How many purges a call knew of when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub(crate) u64);

/// What is to be thrown away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// What a key, or a team, was answered.
    Scope(Scope),
    /// What was asked of a model by this name, or answered by the model of this id.
    Model(Arc<str>),
}

impl Purge {
    /// What it concerns, as one name.
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

/// The purges that are known.
#[derive(Debug, Default)]
pub(crate) struct Purges {
    /// The number of the last one.
    last: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    all: u64,
    by_name: HashMap<String, u64>,
}

impl Purges {
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp(self.last.load(Ordering::Acquire))
    }

    /// Notes a purge as the next one.
    pub(crate) fn add(&self, purge: &Purge) {
        let mut table = self.table.lock();
        let number = self.last.load(Ordering::Acquire).saturating_add(1);
        table.note(purge.name(), number);
        self.last.store(number, Ordering::Release);
    }

    /// Takes over what another place knows: the last number and every name's.
    pub(crate) fn learn(&self, last: u64, names: impl IntoIterator<Item = (String, u64)>) {
        let mut table = self.table.lock();
        for (name, number) in names {
            table.note(name, number);
        }
        self.last.fetch_max(last, Ordering::AcqRel);
    }

    /// Knows of nothing any more.
    pub(crate) fn forget(&self) {
        let mut table = self.table.lock();
        *table = Table::default();
        self.last.store(0, Ordering::Release);
    }

    /// Whether nothing of it was purged since its stamp.
    pub(crate) fn allow(&self, stored: &Stored, stamp: Stamp) -> bool {
        self.allow_at(stored, stamp, self.stamp())
    }

    /// The same, when `last` was the last purge.
    pub(crate) fn allow_at(&self, stored: &Stored, stamp: Stamp, last: Stamp) -> bool {
        if stamp >= last {
            return true;
        }
        let table = self.table.lock();
        let purged = |name: String| table.by_name.get(&name).is_some_and(|number| *number > stamp.0);
        table.all <= stamp.0
            && !purged(model_name(&stored.model))
            && !purged(model_name(&stored.model_used))
            && !purged(scope_name(&stored.scope))
    }
}

impl Table {
    fn note(&mut self, name: String, number: u64) {
        if name == ALL || (self.by_name.len() >= MOST && !self.by_name.contains_key(&name)) {
            self.all = self.all.max(number);
            // What was purged before everything was purged need not be known.
            let all = self.all;
            self.by_name.retain(|_, number| *number > all);
            return;
        }
        let known = self.by_name.entry(name).or_default();
        *known = number.max(*known);
    }
}
