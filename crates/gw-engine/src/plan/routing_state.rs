//! What calls tell each other about routes, beside each model's own figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gw_routing::affinity::Affinity;
use gw_routing::hedge::{HedgePurse, HedgeSettings};
use gw_routing::retry_budget::RetryBudget;

use crate::clock;
use crate::event_memory::EventMemory;

/// Conversations whose provider is remembered.
const CONVERSATIONS: usize = 65_536;

/// Shared by all calls of the process; outlives a configuration.
#[derive(Debug)]
pub(crate) struct RoutingState {
    turn: AtomicU64,
    /// How many extra attempts may be made.
    pub(crate) retry_budget: RetryBudget,
    /// What hedges may cost; None = there are none.
    pub(crate) hedges: Option<Arc<HedgePurse>>,
    /// Who holds which conversation's prompt cache.
    pub(crate) affinity: Affinity,
    /// The large events that wait for their clients.
    pub(crate) event_memory: EventMemory,
}

impl RoutingState {
    pub(crate) fn new(hedge: Option<&HedgeSettings>) -> Self {
        Self {
            turn: AtomicU64::new(0),
            retry_budget: RetryBudget::new(clock::now()),
            hedges: hedge.map(|settings| Arc::new(HedgePurse::new(settings))),
            affinity: Affinity::new(CONVERSATIONS),
            event_memory: EventMemory::default(),
        }
    }

    /// Whose turn it is.
    pub(crate) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    /// The same, and the next request has the next turn.
    pub(crate) fn next_turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }
}
