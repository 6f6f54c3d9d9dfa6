//! The routing state that calls share, beside each model's own measurements.

use std::sync::atomic::{AtomicU64, Ordering};

use gw_routing::affinity::Affinity;
use gw_routing::retry_budget::RetryBudget;
use prometheus_client::registry::Registry;

use crate::clock;
use crate::document_memory::DocumentMemory;
use crate::event_memory::EventMemory;
use crate::image_fetches::ImageFetches;
use crate::plan::threads::MessageThreads;
use crate::prompt_caches::PromptCaches;
use crate::settings::EngineSettings;

/// Conversations whose provider is remembered.
const MAX_CONVERSATIONS: usize = 65_536;

/// The bytes of a pool of memory that all keys share, where memory is plentiful.
const POOL_BYTES: u64 = 256 << 20;
/// A pool takes one part in this many of the allowed memory. A pool is never smaller than the largest document.
const POOL_SHARE: u64 = 8;
const MIN_POOL_BYTES: u64 = 32 << 20;

/// The size of a memory pool in a process with this limit of bytes.
fn pool_bytes(allowed_bytes: Option<u64>) -> u64 {
    let share = allowed_bytes.map_or(POOL_BYTES, |allowed| allowed / POOL_SHARE);
    share.clamp(MIN_POOL_BYTES, POOL_BYTES)
}

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
    /// Counts the large documents of upstreams, and the answers that are made of them.
    pub(crate) document_memory: DocumentMemory,
    /// The messages of the threads that providers keep.
    pub(crate) threads: MessageThreads,
    /// The prompts of sessions in providers' caches, and the balance of breakpoints.
    pub(crate) prompt_caches: PromptCaches,
    /// Fetches images for providers that take only bytes.
    pub(crate) images: ImageFetches,
}

impl RoutingState {
    /// The state of a process that starts with these settings.
    pub(crate) fn new(settings: &EngineSettings) -> Self {
        let bytes = pool_bytes(settings.allowed_bytes);
        Self {
            turn: AtomicU64::new(0),
            retry_budget: RetryBudget::new(clock::now()),
            affinity: Affinity::new(MAX_CONVERSATIONS),
            event_memory: EventMemory::new(bytes),
            document_memory: DocumentMemory::new(bytes),
            threads: MessageThreads::default(),
            prompt_caches: PromptCaches::default(),
            images: ImageFetches::new(&settings.images),
        }
    }

    /// Registers the gauges of the memory in use, and the counter of fetched images.
    pub(crate) fn register(&self, registry: &mut Registry) {
        self.images.register(registry);
        registry.register(
            "gateway_stream_event_bytes",
            "Bytes of stream events over 64 KiB that wait for their clients",
            self.event_memory.gauge(),
        );
        registry.register(
            "gateway_answer_bytes",
            "Bytes of documents of upstreams and of whole answers over 64 KiB, until their clients have taken them",
            self.document_memory.pool().gauge(),
        );
    }

    /// The turn of decisions other than round-robin, from which their random choices are drawn.
    pub(crate) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    /// Takes the turn: the next request gets the next one.
    pub(crate) fn next_turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_takes_an_eighth_of_the_allowed_memory() {
        let cases = [(None, 256), (Some(16 << 30), 256), (Some(512 << 20), 64), (Some(100 << 20), 32)];
        for (allowed, mib) in cases {
            assert_eq!(pool_bytes(allowed), mib << 20, "{allowed:?}");
        }
    }
}
