//! Limits and budgets of keys and teams. One process counts for itself, or several replicas count together over Redis
//! or Valkey. Both use the same algorithms.
//!
//! # The life of a request
//!
//! 1. [`Limiter::admit`], before the body is read: requests per minute, requests in flight, and whether any money is
//!    left.
//! 2. [`Limiter::reserve`], before an upstream is called: the tokens and the money of the worst case are set aside. The
//!    key and its team both set them aside, or neither does.
//! 3. [`Reservation::settle`], when the request is over: the real usage replaces the reservation, exactly once.
//!
//! # The algorithms
//!
//! **Requests per minute without a burst** use a sliding window: at most `L` requests pass in any 60 seconds. The
//! window groups requests into buckets of a tenth of a second (`sliding_window.rs`).
//!
//! **Requests with a burst, and tokens per minute,** use the generic cell rate algorithm (GCRA). Its state is one
//! timestamp per subject (`gcra.rs`). A token limit has a burst of a whole minute's tokens. The timestamp is a double
//! in microseconds. Rust and Lua execute the same operations in the same order, so both decide alike to the last bit.
//!
//! **Requests in flight** are counted. A permit gives its place back when it is dropped.
//!
//! **Budgets** add up the money spent in a period and the money reserved for requests in flight. A reservation passes
//! when `spent + reserved + cost <= budget`, checked atomically, so parallel requests cannot exceed the budget. The
//! table of [`gw_store::Period`] has the periods. A new period begins with nothing spent. A request counts in the period
//! in which it began, as it does in the ledger. A rolling period moves on in steps. The spending of each step is
//! counted by itself, so that it leaves with its step.
//!
//! A budget whose spending is unknown asks the ledger through [`SpendingLedger`], once for all waiting requests
//! (single-flight). This happens at the first use, after a change of the period's kind, and after the clock went back.
//! Until the ledger answers, the budget refuses ([`Refusal::StoreUnavailable`]).
//!
//! **Sessions** are runs of agents. [`Limiter::enter_session`] counts a request of a session, or refuses it, in one atomic step
//! (`session.rs`).
//!
//! # Limits and state
//!
//! A [`Subject`] carries its limits together with a reference to its state. A changed limit is a new subject over the
//! same state, so it applies to the next request. A budget that is added to a key without one asks the ledger. Requests
//! that are in flight at that moment count when they settle. Subjects without any limit exist for this reason.

mod admission;
mod budget;
mod clock;
#[cfg(test)]
mod doubles;
mod fair_share;
mod gcra;
mod in_flight;
mod in_process;
mod limit_state;
mod limiter;
mod part;
mod redis;
mod refusal;
mod registry;
mod reservation;
mod session;
mod single_flight;
mod sliding_window;
mod spending_ledger;
mod subject;
mod subject_kind;
mod subject_use;
mod window_takes;

pub use self::redis::facts::{RedisFacts, RedisFactsError};
pub use self::redis::settings::{RedisSettings, WhenAway};
pub use admission::AdmissionPermit;
pub use clock::{Clock, SystemClock};
pub use fair_share::fair_share;
pub use limit_state::{LimitStates, RateState, TokenState};
pub use limiter::{DeliveryFigures, HoldingFigures, Limiter, MAX_CHARGE_AGE};
pub use part::PART;
pub use refusal::{Refusal, Refused};
pub use reservation::Reservation;
pub use session::{
    MAX_SESSIONS, SESSION_TTL, SessionId, SessionLimit, SessionLimits, SessionRequest, SessionUse, ToolCall,
};
pub use spending_ledger::{
    CountedRequest, LedgerUnavailable, Spending, SpendingFuture, SpendingLedger, SpendingQuestion,
};
pub use subject::Subject;
pub use subject_kind::SubjectKind;
pub use subject_use::{BudgetUse, SubjectUse};
