//! The permit of an admitted request.

use smallvec::SmallVec;

use crate::in_flight::InFlightPermit;
use crate::limit_state::LimitStates;
use crate::redis::outbox::SendOnDrop;
use crate::window_takes::WindowTake;

/// A request that was admitted. It counts as in flight until this is dropped.
#[derive(Debug, Default)]
pub struct AdmissionPermit {
    /// The limits at the moment of admission, this request included.
    pub limits: LimitStates,
    /// One permit for the key, one for the team.
    pub(crate) in_flight: SmallVec<[InFlightPermit; 2]>,
    /// The windows of rules that count the request.
    pub(crate) takes: Vec<WindowTake>,
    /// Tells Redis that the request is not in flight any more.
    #[expect(dead_code, reason = "it acts when it is dropped")]
    pub(crate) release: Option<SendOnDrop>,
}
