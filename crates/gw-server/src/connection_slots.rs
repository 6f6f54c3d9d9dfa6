//! The open connections that a listener may have. Further connections are accepted, told so and closed: in the kernel's queue
//! their clients would wait without an answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most refused connections of a listener whose clients have the time to read their answer. Further ones are closed at once.
const MAX_LINGERING_REFUSALS: usize = 256;
/// The refusals of a worker between two pauses.
pub(crate) const REFUSALS_PER_PAUSE: u32 = 64;
/// The pause after so many refusals. A flood of connections thus costs a worker at most 1,280 refusals in a second.
pub(crate) const REFUSAL_PAUSE: Duration = Duration::from_millis(50);

/// The places of a listener, which all workers share.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionSlots {
    served: Arc<Semaphore>,
    refused: Arc<Semaphore>,
}

impl ConnectionSlots {
    /// Places for this many connections.
    pub(crate) fn new(max_connections: usize) -> Self {
        let served = max_connections.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            served: Arc::new(Semaphore::new(served)),
            refused: Arc::new(Semaphore::new(MAX_LINGERING_REFUSALS)),
        }
    }

    /// A place for a connection that is served. None: every place is taken.
    pub(crate) fn serve(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.served).try_acquire_owned().ok()
    }

    /// A place for a refused connection that waits for its client to close. None: every place is taken.
    pub(crate) fn refuse(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.refused).try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_apart_and_given_back() {
        let slots = ConnectionSlots::new(1);
        let served = slots.serve();
        assert!(served.is_some() && slots.serve().is_none());
        let refused: Vec<_> = std::iter::from_fn(|| slots.refuse()).collect();
        assert_eq!(refused.len(), MAX_LINGERING_REFUSALS);
        drop((served, refused));
        assert!(slots.serve().is_some() && slots.refuse().is_some());
    }
}
