//! Limits and budgets of keys and teams: in process, or shared over Redis or Valkey by several replicas. One algorithm.
//!
//! # Two doors
//!
//! [`Limiter::enter`], before the body is read: the rate of requests, a place among those at one time, and whether any
//! money is left. [`Limiter::reserve`], when it is known what the request can use at the worst: tokens and money are set
//! aside with the key and with the team, with both or with neither, before an upstream is called.
//! [`Reservation::settle`] puts what was really used in its place, exactly once.
//!
//! # The algorithm
//!
//! **Requests per minute** are counted: at most so many in any 60 seconds. Those of the last minute are kept in runs of a
//! tenth of a second, each as long as the last of it (`minute.rs`).
//!
//! **Requests with a burst, and tokens per minute**, are one number each, the moment `next` at which all of the limit is
//! free again. Taking `n` of a limit of `L` a minute moves it by `n` × 60 s / `L`, and is allowed when it then lies at
//! most as far ahead as the burst takes to come back, for tokens a minute: so much may be used at once after a quiet
//! minute, and comes back evenly. For requests this is the generic cell rate algorithm, for tokens a bucket; it is the
//! same arithmetic. A settlement moves `next` by what was used more (at most two minutes ahead) or less (not before now).
//! `next` is a double in microseconds, in process and in Lua, with the same operations in the same order, so both decide
//! alike to the last bit (`rate.rs`).
//!
//! **Requests at one time** are counted; a place is given back when it is dropped.
//!
//! **Money** is what was spent in the budget's period and what is set aside for requests under way. A reservation is
//! allowed when `spent + reserved + cost <= budget`, at that moment, atomically: parallel requests cannot exceed it. The
//! period is a day, an ISO week, a month (UTC) or all time; a new one begins with nothing spent. What is
//! under way then stays set aside, and counts in the period that it began in, as in the ledger. A purse that knows nothing of its period (the first use, another period, a clock that
//! went back) asks the ledger through [`Spending`], once for all who wait; until it has an answer nothing is spent
//! ([`Refusal::StoreAway`]).
//!
//! Limits come with every question, state does not: a changed limit holds from the next request on. A budget that is
//! given to who had none asks the ledger, and requests that are under way then are counted when they settle; for that,
//! keys and teams without limits are subjects, too.

mod clock;
#[cfg(test)]
mod doubles;
mod few;
mod gate;
mod limiter;
mod local;
mod minute;
mod purse;
mod rate;
mod registry;
mod reservation;
mod shared;
mod spending;
mod subject;
mod verdict;

pub use clock::{Clock, SystemClock};
pub use limiter::Limiter;
pub use reservation::Reservation;
pub use shared::{RedisSettings, WhenAway};
pub use spending::{Counted, Spending};
pub use subject::{Subject, Whose};
pub use verdict::{Entered, RateState, Refusal, Refused, TokenState};
