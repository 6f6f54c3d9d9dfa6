//! What the two doors answer.

use std::time::Duration;

use crate::few::Few;
use crate::local::Place;
use crate::minute::Past;
use crate::rate::{MINUTE, Pace, micros};
use crate::shared::Owed;
use crate::subject::Whose;

/// The state of a limit of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateState {
    /// Requests per minute.
    pub limit: u32,
    /// Requests that would pass right now.
    pub remaining: u32,
    /// Until all of them are free again.
    pub reset: Duration,
}

impl RateState {
    /// With a burst.
    pub(crate) fn new(limit: u32, burst: u32, next: f64, now: f64) -> Self {
        let (free, reset) = Pace::with_burst(limit.into(), burst.into()).free(next, now);
        Self { limit, remaining: u32::try_from(free).unwrap_or(limit), reset }
    }

    /// Without one.
    pub(crate) fn of_minute(limit: u32, past: Past, now: f64) -> Self {
        let taken = u32::try_from(past.sum).unwrap_or(u32::MAX);
        let reset = if past.sum == 0 { Duration::ZERO } else { leaves(past.newest, now) };
        Self { limit, remaining: limit.saturating_sub(taken), reset }
    }
}

/// The time until a request of this moment is a minute ago.
pub(crate) fn leaves(moment: f64, now: f64) -> Duration {
    micros(moment + MINUTE - now)
}

/// The state of a limit of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenState {
    /// Tokens per minute.
    pub limit: u64,
    /// Tokens that are free now.
    pub remaining: u64,
    /// Until all of them are free again.
    pub reset: Duration,
}

impl TokenState {
    pub(crate) fn new(limit: u64, next: f64, now: f64) -> Self {
        let (remaining, reset) = Pace::new(limit).free(next, now);
        Self { limit, remaining, reset }
    }
}

/// The first door is passed: the tightest of the limits as they stand, and the places among the requests at one time,
/// which are given back when this is dropped.
#[derive(Debug, Default)]
pub struct Entered {
    /// The limit of requests, if there is one.
    pub requests: Option<RateState>,
    /// The limit of tokens, if there is one.
    pub tokens: Option<TokenState>,
    pub(crate) places: Few<Place>,
    /// What Redis is told when the places are given back.
    #[expect(dead_code, reason = "it acts when it is dropped")]
    pub(crate) owed: Option<Owed>,
}

impl Entered {
    /// Keeps the tighter of two, which is what a client should know.
    pub(crate) fn see_requests(&mut self, state: RateState) {
        if self.requests.is_none_or(|seen| state.remaining < seen.remaining) {
            self.requests = Some(state);
        }
    }

    /// Keeps the tighter of two.
    pub(crate) fn see_tokens(&mut self, state: TokenState) {
        if self.tokens.is_none_or(|seen| state.remaining < seen.remaining) {
            self.tokens = Some(state);
        }
    }
}

/// The first door is shut.
#[derive(Debug)]
pub struct Refused {
    /// The limits as they stand; no place is taken.
    pub entered: Entered,
    /// Why.
    pub refusal: Refusal,
}

/// Why a request may not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many requests per minute.
    Requests {
        /// Whose limit.
        whose: Whose,
        /// Requests per minute.
        limit: u32,
        /// Until one more passes.
        retry_after: Duration,
    },
    /// Too many tokens per minute.
    Tokens {
        /// Whose limit.
        whose: Whose,
        /// Tokens per minute.
        limit: u64,
        /// What this request may need.
        wanted: u64,
        /// Until so many are free; None when that is more than the limit ever has.
        retry_after: Option<Duration>,
    },
    /// Too many requests at one time.
    InFlight {
        /// Whose limit.
        whose: Whose,
        /// Requests at one time.
        limit: u32,
    },
    /// The budget does not hold what this request may cost.
    Budget {
        /// Whose budget.
        whose: Whose,
        /// Until its next period; None when there is none.
        resets_in: Option<Duration>,
    },
    /// There is a budget, and what was spent of it cannot be known now.
    StoreAway,
}
