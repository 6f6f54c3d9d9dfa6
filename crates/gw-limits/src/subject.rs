//! A key or a team: its limits, and what it uses of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gw_store::{Budget, Limits, OnBudget, UnpricedPolicy};
use parking_lot::Mutex;

use crate::budget::BudgetState;
use crate::gcra::GcraState;
use crate::sliding_window::SlidingWindow;
use crate::subject_kind::SubjectKind;
use crate::window_takes::WindowTakes;

/// A key or a team with its limits. [`crate::Limiter::subject`] makes it. The settings of the key hold it.
#[derive(Debug)]
pub struct Subject {
    limits: Limits,
    state: Arc<State>,
    /// Requests that [`crate::Limiter::take_back`] may take back.
    takes: WindowTakes,
}

impl Subject {
    pub(crate) fn new(limits: Limits, state: Arc<State>) -> Self {
        Self { limits, state, takes: WindowTakes::default() }
    }

    /// A subject of which only the name is known.
    pub(crate) fn named(kind: SubjectKind, id: &str) -> Self {
        let limits = Limits::default();
        Self::new(limits, Arc::new(State::new(kind, id, &limits)))
    }

    /// Whether this is a key or a team.
    #[must_use]
    pub fn kind(&self) -> SubjectKind {
        self.state.kind
    }

    /// The id of the key or the team.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.state.id
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether an answer that exceeds the budget is cut.
    #[must_use]
    pub fn is_cut_by_budget(&self) -> bool {
        self.limits.budget.is_some() && self.limits.on_budget == OnBudget::Cut
    }

    /// Whether it refuses requests whose cost nobody can know.
    #[must_use]
    pub fn refuses_unpriced(&self) -> bool {
        self.limits.unpriced == UnpricedPolicy::Refuse
    }

    pub(crate) fn has_budget(&self) -> bool {
        self.limits.budget.is_some()
    }

    /// The budget with the newest period that this process knows. Redis keeps the spending of one kind of period, so a request of a former
    /// configuration must not ask for its own. The amount belongs to the period: that of a day would refuse what a month has spent.
    pub(crate) fn shared_budget(&self) -> Option<Budget> {
        let budget = self.limits.budget?;
        let newest = (*self.state.newest_budget.lock()).unwrap_or(budget);
        let is_unlimited = budget.nano == u64::MAX;
        let nano = if newest.period == budget.period || is_unlimited { budget.nano } else { newest.nano };
        Some(Budget { nano, period: newest.period })
    }

    /// This key or team with a budget that refuses nothing.
    pub(crate) fn without_budget(&self) -> Self {
        Self::new(Limits { budget: None, ..self.limits }, Arc::clone(&self.state))
    }

    /// This subject with limits that refuse nothing. Its budget counts.
    #[must_use]
    pub fn refusing_nothing(&self) -> Self {
        let budget = self.limits.budget.map(|budget| Budget { nano: u64::MAX, ..budget });
        Self::new(Limits { budget, ..Limits::default() }, Arc::clone(&self.state))
    }

    /// Notes a request that this subject would have refused.
    pub fn note_would_refuse(&self) {
        self.state.would_refuse.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes back a note of [`Subject::note_would_refuse`]: the request is not served.
    pub fn take_back_would_refuse(&self) {
        let less = |count: u64| Some(count.saturating_sub(1));
        let _ = self.state.would_refuse.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// The requests that this subject would have refused, as far as this process knows.
    #[must_use]
    pub fn would_refuse(&self) -> u64 {
        self.state.would_refuse.load(Ordering::Relaxed)
    }

    pub(crate) fn takes(&self) -> &WindowTakes {
        &self.takes
    }

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }
}

/// The current usage of a key or a team in this process. It outlives a change of the limits.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) kind: SubjectKind,
    pub(crate) id: Box<str>,
    /// Requests, under a limit without a burst.
    pub(crate) request_window: SlidingWindow,
    /// Requests, under a limit with a burst.
    pub(crate) request_gcra: GcraState,
    pub(crate) token_gcra: GcraState,
    /// Requests in flight.
    pub(crate) in_flight: AtomicU32,
    pub(crate) budget: BudgetState,
    pub(crate) budget_changes: BudgetChanges,
    /// The newest budget. None: there was none.
    newest_budget: Mutex<Option<Budget>>,
    /// The number of the newest configuration that named the limits.
    configuration: AtomicU64,
    /// Requests that a rule in shadow mode would have refused.
    pub(crate) would_refuse: AtomicU64,
}

impl State {
    pub(crate) fn new(kind: SubjectKind, id: &str, limits: &Limits) -> Self {
        Self {
            kind,
            id: id.into(),
            request_window: SlidingWindow::default(),
            request_gcra: GcraState::default(),
            token_gcra: GcraState::default(),
            in_flight: AtomicU32::new(0),
            budget: BudgetState::default(),
            budget_changes: BudgetChanges::new(limits),
            newest_budget: Mutex::new(limits.budget),
            configuration: AtomicU64::new(0),
            would_refuse: AtomicU64::new(0),
        }
    }

    /// Applies the limits of the configuration with this number, unless a newer one has named others. Spending is counted reliably only
    /// while there is a budget, so a budget that is added starts unknown.
    pub(crate) fn update_limits(&self, limits: &Limits, configuration: u64) {
        if self.configuration.fetch_max(configuration, Ordering::AcqRel) > configuration {
            return;
        }
        if limits.budget.is_some() {
            *self.newest_budget.lock() = limits.budget;
        }
        if self.budget_changes.update(limits) {
            self.budget.forget_spending();
        }
    }
}

/// Whether a subject has a budget, and how often one was added to a subject without one.
#[derive(Debug)]
pub(crate) struct BudgetChanges {
    /// The number of changes between having a budget and having none. Even while there is a budget.
    count: AtomicU64,
    /// The count that was sent to Redis last. `u64::MAX`: none was.
    reported: AtomicU64,
    /// When this process began to count the subject.
    began: Instant,
}

/// A budget that Redis has to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreportedBudget {
    /// To mark it as reported.
    pub(crate) count: u64,
    /// For how long this process has counted a subject that had a budget from its begin. None if the budget was added.
    pub(crate) age: Option<Duration>,
}

impl BudgetChanges {
    /// Before this process had the subject, another configuration may have given it no budget, so that Redis did not count
    /// everything. Redis hears of the budget at its first use.
    fn new(limits: &Limits) -> Self {
        let count = u64::from(limits.budget.is_none());
        Self { count: count.into(), reported: u64::MAX.into(), began: Instant::now() }
    }

    /// Applies new limits. Returns whether they add a budget.
    fn update(&self, limits: &Limits) -> bool {
        let has_budget = limits.budget.is_some();
        let step = |count: u64| (count.is_multiple_of(2) != has_budget).then(|| count.wrapping_add(1));
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).is_ok() && has_budget
    }

    /// Whether there is a budget now.
    pub(crate) fn has_budget(&self) -> bool {
        self.count.load(Ordering::Acquire).is_multiple_of(2)
    }

    /// The news for Redis. None if Redis knows the budget, or if there is no budget.
    pub(crate) fn unreported(&self) -> Option<UnreportedBudget> {
        let count = self.count.load(Ordering::Acquire);
        let is_unreported = count.is_multiple_of(2) && count != self.reported.load(Ordering::Acquire);
        is_unreported.then(|| UnreportedBudget { count, age: (count == 0).then(|| self.began.elapsed()) })
    }

    /// Records that this count was sent to Redis.
    pub(crate) fn mark_reported(&self, count: u64) {
        self.reported.store(count, Ordering::Release);
    }
}
