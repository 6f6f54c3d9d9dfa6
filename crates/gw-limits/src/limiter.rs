//! The limiter that the rest of the gateway sees.

use std::sync::Arc;

use gw_store::Limits;

use crate::clock::{Clock, SystemClock};
use crate::local::{Local, Reservation};
use crate::registry::Registry;
use crate::spending::Spending;
use crate::subject::{Subject, Whose};
use crate::verdict::{Entered, Refusal, Refused};

/// Limits and budgets of all keys and teams. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Limiter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    local: Local,
}

impl Limiter {
    /// One that counts in this process.
    #[must_use]
    pub fn local(spending: Arc<dyn Spending>) -> Self {
        Self::local_by(Arc::new(SystemClock::default()), spending)
    }

    /// One that counts in this process, by a clock of the caller's.
    #[must_use]
    pub fn local_by(clock: Arc<dyn Clock>, spending: Arc<dyn Spending>) -> Self {
        Self(Arc::new(Inner { registry: Registry::default(), local: Local { clock, spending } }))
    }

    /// A key or a team and its limits, with the state that it had with other limits before. For when keys are loaded
    /// or changed; requests use the subject.
    #[must_use]
    pub fn subject(&self, whose: Whose, id: &str, limits: Limits) -> Arc<Subject> {
        self.0.registry.subject(whose, id, limits)
    }

    /// The first door, before the body is read: requests per minute, places at one time, and whether any money is left
    /// at all; the key first, then its team.
    ///
    /// # Errors
    /// One of them refuses, or a budget cannot be looked up. Requests per minute that an earlier one counted stay
    /// counted, places are given back.
    pub async fn enter(&self, request_id: &str, subjects: &[Arc<Subject>]) -> Result<Entered, Box<Refused>> {
        let _ = request_id;
        self.0.local.enter(subjects).await
    }

    /// The second door, before an upstream is called: sets the worst case aside with every subject, or with none.
    ///
    /// # Errors
    /// One of them refuses, or a budget cannot be looked up.
    pub async fn reserve(
        &self,
        request_id: &str,
        subjects: &[Arc<Subject>],
        tokens: u64,
        cost_femtos: i128,
    ) -> Result<Reservation, Refusal> {
        let _ = request_id;
        self.0.local.reserve(subjects, tokens, cost_femtos.max(0)).await
    }

    /// Counts money that was spent outside of a reservation: a journal that is replayed after a crash. Call it when the
    /// ledger knows of it, too: in process, a budget that was not asked for yet will hear of it from there.
    pub async fn charge(&self, request_id: &str, subjects: &[Arc<Subject>], cost_femtos: i128) {
        let _ = request_id;
        self.0.local.charge(subjects, cost_femtos.max(0));
    }
}
