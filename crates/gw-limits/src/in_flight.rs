//! The permit for one request in flight.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::subject::State;

/// One of the requests that a subject may have in flight. Dropping the permit returns its place.
#[derive(Debug)]
pub(crate) struct InFlightPermit(Arc<State>);

impl InFlightPermit {
    /// A permit, if fewer than `max_in_flight` are in use.
    pub(crate) fn acquire(state: &Arc<State>, max_in_flight: u32) -> Option<Self> {
        let step = |in_flight: u32| (in_flight < max_in_flight).then(|| in_flight + 1);
        state.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).ok()?;
        Some(Self(Arc::clone(state)))
    }

    /// A permit that Redis has granted. This process counts it too, for the time when Redis does not answer.
    pub(crate) fn mirror(state: &Arc<State>) -> Self {
        state.in_flight.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(state))
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}
