//! The reasons for which a limit or a budget refuses a request.

use std::time::Duration;

use gw_store::Period;

use crate::limit_state::LimitStates;
use crate::subject_kind::SubjectKind;

/// A request that was not admitted.
#[derive(Debug)]
pub struct Refused {
    /// The limits as they stand.
    pub limits: LimitStates,
    /// The reason.
    pub refusal: Refusal,
}

impl From<Refusal> for Box<Refused> {
    fn from(refusal: Refusal) -> Self {
        Box::new(Refused { limits: LimitStates::default(), refusal })
    }
}

/// The reason for which a limit refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many requests per minute.
    Requests {
        /// The subject with this limit.
        subject: SubjectKind,
        /// Requests per minute.
        limit: u32,
        /// The time until one more request passes.
        retry_after: Duration,
    },
    /// Too many tokens per minute.
    Tokens {
        /// The subject with this limit.
        subject: SubjectKind,
        /// Tokens per minute.
        limit: u64,
        /// The tokens that this request may need.
        wanted: u64,
        /// The time until that many tokens are free. None if the request needs more than the whole limit.
        retry_after: Option<Duration>,
    },
    /// Too many requests in flight.
    InFlight {
        /// The subject with this limit.
        subject: SubjectKind,
        /// Requests in flight at one time.
        limit: u32,
    },
    /// The budget has less left than this request may cost.
    Budget {
        /// The subject with this budget.
        subject: SubjectKind,
        /// The period of this budget.
        period: Period,
        /// The time until the next period, or the next step of a rolling period. None for a budget of all time.
        resets_in: Option<Duration>,
        /// The money that is neither spent nor reserved, in nano-USD, rounded down.
        left_nano: u64,
    },
    /// There is a budget, and its spending cannot be looked up now.
    StoreUnavailable,
}
