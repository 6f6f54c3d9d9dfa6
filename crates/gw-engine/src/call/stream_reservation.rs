//! The money that is reserved for a stream whose budget must not be crossed.

use std::future::Future;
use std::pin::Pin;

use gw_limits::{Limiter, Refusal, Reservation};
use gw_wire::money::Money;
use parking_lot::Mutex;

/// Tokens of each answer that one step reserves.
pub(crate) const STEP_TOKENS: u64 = 1_024;
/// Tokens that an upstream may make after it is cancelled.
pub(crate) const MARGIN_TOKENS: u64 = 32;
/// Bytes of an upstream that are read between two looks at a budget. Their text is less than [`STEP_TOKENS`].
pub(crate) const STEP_BYTES: usize = 1_024;
/// [`STEP_BYTES`] near the end of a budget, and before the first look: the text is at most [`MARGIN_TOKENS`].
pub(crate) const MARGIN_BYTES: usize = 96;

pub(crate) type Growing = Pin<Box<dyn Future<Output = Result<(Reservation, i128), Refusal>> + Send>>;

/// The reservation of a stream, which grows in steps.
pub(crate) struct StreamReservation {
    pub(crate) limiter: Limiter,
    pub(crate) held: Money,
    /// The pending growth. The lock only makes the struct `Sync`; nothing contends for it.
    pub(crate) growing: Mutex<Option<Growing>>,
    /// How many times it has grown.
    pub(crate) steps: u32,
    /// The budget has nothing left.
    pub(crate) is_exhausted: bool,
    /// The number of answer tokens at which the budget is looked at next.
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

    /// The reservation for an upstream that continues the answer. Its stream counts its tokens from zero.
    pub(crate) fn taken_over(self) -> Self {
        Self { next_look: 0, ..self }
    }
}
