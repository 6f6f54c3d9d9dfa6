//! One case of a drill.

use std::sync::Arc;

use super::client::{ClientView, Outcome};
use super::fault::Fault;

/// One fault of one provider in the plan of one route.
#[derive(Debug)]
pub(super) struct DrillCase {
    /// The position of the route.
    pub route: usize,
    /// The provider that fails.
    pub provider: Arc<str>,
    /// The fault.
    pub fault: Fault,
    /// The outcome of a plain request; in a storm, the worst outcome.
    pub plain: Option<ClientView>,
    /// The outcome of a streamed request.
    pub stream: Option<ClientView>,
}

impl DrillCase {
    /// Whether every client got its answer. A stream that breaks off may also end with an error event.
    #[must_use]
    pub(super) fn survives(&self) -> bool {
        let is_served = |seen: &ClientView| match seen.outcome {
            Outcome::Complete => true,
            Outcome::ErrorEvent(_) => self.fault.is_mid_stream(),
            Outcome::Error(..) | Outcome::Truncated | Outcome::Wrong | Outcome::NoEnd => false,
        };
        self.plain.iter().chain(&self.stream).all(is_served)
    }
}
