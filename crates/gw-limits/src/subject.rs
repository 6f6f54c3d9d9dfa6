//! Who is limited, and by what.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use gw_store::Limits;

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

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }
}

/// What a key or a team uses now, in this process. It outlives a change of limits.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) whose: Whose,
    pub(crate) id: Box<str>,
    pub(crate) requests: Rate,
    pub(crate) tokens: Rate,
    /// Requests under way.
    pub(crate) running: AtomicU32,
    pub(crate) purse: Purse,
    /// Whether the newest limits have a budget.
    has_budget: AtomicBool,
}

impl State {
    pub(crate) fn new(whose: Whose, id: &str) -> Self {
        Self {
            whose,
            id: id.into(),
            requests: Rate::default(),
            tokens: Rate::default(),
            running: AtomicU32::new(0),
            purse: Purse::default(),
            has_budget: AtomicBool::new(false),
        }
    }

    /// Hears of new limits. A purse counts reliably only while there is a budget: when one is given to who had none, it
    /// begins anew.
    pub(crate) fn limit(&self, limits: &Limits) {
        let has = limits.budget.is_some();
        if !self.has_budget.swap(has, Ordering::AcqRel) && has {
            self.purse.forget();
        }
    }
}
