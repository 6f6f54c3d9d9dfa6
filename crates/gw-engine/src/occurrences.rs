//! Events of requests that operators may want to be told of. A request drops an event into a bounded channel and goes on; with
//! nobody to be told it reads one flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gw_limits::{Refusal, SubjectKind};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::auth::Caller;
use crate::error::Error;

/// The most events that wait. Further events are dropped.
const MAX_WAITING: usize = 1_024;

/// An event of a request.
#[derive(Clone, Debug)]
pub enum Occurrence {
    /// The budgets of this caller were charged.
    Charged(Caller),
    /// The budget of the caller's key or team had too little left for a request.
    OverBudget(Caller, SubjectKind),
    /// The budget of the rule's counter with this id had too little left for a request.
    OverRule(String),
    /// The price of this model is unknown.
    Unpriced(Arc<str>),
    /// A guard stopped this session.
    SessionStopped(Arc<str>),
}

/// The channel of events.
#[derive(Debug)]
pub(crate) struct Occurrences {
    is_watched: AtomicBool,
    sender: mpsc::Sender<Occurrence>,
    receiver: Mutex<Option<mpsc::Receiver<Occurrence>>>,
}

impl Default for Occurrences {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        Self { is_watched: AtomicBool::new(false), sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl Occurrences {
    /// Whether anybody wants to be told.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Sets whether anybody wants to be told.
    pub(crate) fn set_watched(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Ordering::Relaxed);
    }

    /// The reader of the channel. There is one: None if it was taken before.
    pub(crate) fn take_receiver(&self) -> Option<mpsc::Receiver<Occurrence>> {
        self.receiver.lock().take()
    }

    /// Tells of an event, if anybody wants to be told. A full channel drops it.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Occurrence) {
        if self.is_watched() {
            let _ = self.sender.try_send(event());
        }
    }

    /// Tells of the error of a request, if the budget of a rule caused it, or that of the key or the team of this caller.
    pub(crate) fn tell_error(&self, error: &Error, caller: Option<&Caller>) {
        if let Some((subject, caller)) = error.spent_budget.zip(caller) {
            self.tell(|| Occurrence::OverBudget(caller.clone(), subject));
        }
        if let Some(counter) = error.rule.as_ref().and_then(|rule| rule.spent_counter.as_ref()) {
            self.tell(|| Occurrence::OverRule(counter.clone()));
        }
    }

    /// Tells of a refusal, if it is that of a budget.
    pub(crate) fn tell_refusal(&self, caller: &Caller, refusal: &Refusal) {
        if let Refusal::Budget { subject, .. } = *refusal {
            self.tell(|| Occurrence::OverBudget(caller.clone(), subject));
        }
    }
}
