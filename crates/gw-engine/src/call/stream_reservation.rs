//! The money that is reserved for a stream whose budget must not be crossed.

use std::future::Future;
use std::pin::Pin;

use gw_limits::{Limiter, Refusal, Reservation};
use gw_wire::money::Money;
use parking_lot::Mutex;

pub(crate) type Growing = Pin<Box<dyn Future<Output = Result<(Reservation, i128), Refusal>> + Send>>;

/// What is set aside for a stream.
pub(crate) struct StreamReservation {
    pub(crate) limiter: Limiter,
    pub(crate) held: Money,
    /// In a lock only because what is under way cannot be shared between threads.
    pub(crate) growing: Mutex<Option<Growing>>,
    /// How often it has grown.
    pub(crate) steps: u32,
    /// There is no more.
    pub(crate) is_exhausted: bool,
    /// The tokens at which it is looked at again.
    pub(crate) next_look: u64,
}

impl std::fmt::Debug for StreamReservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamReservation").field("held", &self.held).finish_non_exhaustive()
    }
}

impl StreamReservation {
    pub(crate) fn new(limiter: &Limiter, held: Money) -> Self {
        Self {
            limiter: limiter.clone(),
            held,
            growing: Mutex::default(),
            steps: 0,
            is_exhausted: false,
            next_look: 0,
        }
    }

    /// Another upstream goes on with the answer. Its stream counts its tokens from nothing.
    pub(crate) fn taken_over(self) -> Self {
        Self { next_look: 0, ..self }
    }
}
