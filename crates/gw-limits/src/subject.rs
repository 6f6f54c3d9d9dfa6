//! Who is limited, and by what.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gw_store::{Limits, OnBudget};

use crate::minute::Minute;
use crate::purse::Purse;
use crate::rate::Rate;

/// Whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whose {
    /// A gateway key's.
    Key,
    /// The key's team's.
    Team,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "key",
            Self::Team => "team",
        })
    }
}

/// A key or a team with its limits. Made by [`crate::Limiter::subject`], held by whoever holds the key.
#[derive(Debug)]
pub struct Subject {
    limits: Limits,
    state: Arc<State>,
}

impl Subject {
    pub(crate) fn new(limits: Limits, state: Arc<State>) -> Self {
        Self { limits, state }
    }

    /// A key or a team.
    #[must_use]
    pub fn whose(&self) -> Whose {
        self.state.whose
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.state.id
    }

    /// Its limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether its budget cuts answers that it does not hold.
    #[must_use]
    pub fn is_cut_by_budget(&self) -> bool {
        self.limits.budget.is_some() && self.limits.on_budget == OnBudget::Cut
    }

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }
}

/// What a key or a team uses now, in this process. It outlives a change of limits.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) whose: Whose,
    pub(crate) id: Box<str>,
    /// Requests of a limit without a burst.
    pub(crate) minute: Minute,
    /// Requests of one with a burst.
    pub(crate) requests: Rate,
    pub(crate) tokens: Rate,
    /// Requests under way.
    pub(crate) running: AtomicU32,
    pub(crate) purse: Purse,
    pub(crate) given: Given,
}

impl State {
    pub(crate) fn new(whose: Whose, id: &str, limits: &Limits) -> Self {
        Self {
            whose,
            id: id.into(),
            minute: Minute::default(),
            requests: Rate::default(),
            tokens: Rate::default(),
            running: AtomicU32::new(0),
            purse: Purse::default(),
            given: Given::new(limits),
        }
    }

    /// Hears of new limits. A purse counts reliably only while there is a budget: when one is given to who had none, it
    /// begins anew.
    pub(crate) fn limit(&self, limits: &Limits) {
        if self.given.limit(limits) {
            self.purse.forget();
        }
    }
}

/// Whether there is a budget, and how often one was given to who had none.
#[derive(Debug)]
pub(crate) struct Given {
    /// Twice that number, and one more while there is none.
    count: AtomicU64,
    /// The same when Redis was told last.
    told: AtomicU64,
}

impl Given {
    /// A budget that is there from the beginning is none that was given: Redis may know it.
    fn new(limits: &Limits) -> Self {
        Self { count: u64::from(limits.budget.is_none()).into(), told: 0.into() }
    }

    /// Whether new limits give a budget.
    fn limit(&self, limits: &Limits) -> bool {
        let has = limits.budget.is_some();
        let step = |count: u64| (count.is_multiple_of(2) != has).then(|| count.wrapping_add(1));
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).is_ok() && has
    }

    /// Whether there is a budget now.
    pub(crate) fn is_there(&self) -> bool {
        self.count.load(Ordering::Acquire).is_multiple_of(2)
    }

    /// The count that Redis is to be told of, when there is a budget.
    pub(crate) fn untold(&self) -> Option<u64> {
        let count = self.count.load(Ordering::Acquire);
        (count.is_multiple_of(2) && count != self.told.load(Ordering::Acquire)).then_some(count)
    }

    /// Redis was told of this count.
    pub(crate) fn told(&self, count: u64) {
        self.told.store(count, Ordering::Release);
    }
}
