//! The routing state that calls share, beside each model's own measurements.

use std::sync::atomic::{AtomicU64, Ordering};

use gw_routing::affinity::Affinity;
use gw_routing::retry_budget::RetryBudget;

use crate::clock;
use crate::event_memory::EventMemory;
use crate::plan::threads::MessageThreads;

/// Conversations whose provider is remembered.
const MAX_CONVERSATIONS: usize = 65_536;

/// The state of one process. It outlives a configuration.
#[derive(Debug)]
pub(crate) struct RoutingState {
    turn: AtomicU64,
    /// Bounds the attempts beyond each request's first.
    pub(crate) retry_budget: RetryBudget,
    /// The provider that has each conversation's prompt in its cache.
    pub(crate) affinity: Affinity,
    /// Counts the large events that wait for their clients.
    pub(crate) event_memory: EventMemory,
    /// The messages of the threads that providers keep.
    pub(crate) threads: MessageThreads,
}

impl RoutingState {
    pub(crate) fn new() -> Self {
        Self {
            turn: AtomicU64::new(0),
            retry_budget: RetryBudget::new(clock::now()),
            affinity: Affinity::new(MAX_CONVERSATIONS),
            event_memory: EventMemory::default(),
            threads: MessageThreads::default(),
        }
    }

    /// The round-robin turn.
    pub(crate) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    /// Takes the round-robin turn: the next request gets the next one.
    pub(crate) fn next_turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }
}
