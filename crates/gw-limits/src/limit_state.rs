//! How far limits are used up, for the response headers of a client.

use std::time::Duration;

use crate::gcra::{Gcra, MAX_AHEAD_MICROS, MINUTE_MICROS, duration_of_micros};
use crate::sliding_window::WindowState;

/// The state of a limit of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateState {
    /// Requests per minute.
    pub limit: u32,
    /// Requests that would pass now.
    pub remaining: u32,
    /// The time until all requests of the limit are free again.
    pub reset: Duration,
}

impl RateState {
    /// The state of a limit with a burst (GCRA).
    pub(crate) fn of_gcra(limit: u32, burst: u32, tat: f64, now: f64) -> Self {
        let (free, reset) = Gcra::with_burst(limit.into(), burst.into()).free(tat, now);
        Self { limit, remaining: u32::try_from(free).unwrap_or(limit), reset }
    }

    /// The state of a limit without a burst (sliding window).
    pub(crate) fn of_window(limit: u32, window: WindowState, now: f64) -> Self {
        let used = u32::try_from(window.requests).unwrap_or(u32::MAX);
        let reset = if window.requests == 0 { Duration::ZERO } else { time_until_expiry(window.newest, now) };
        Self { limit, remaining: limit.saturating_sub(used), reset }
    }
}

/// The time until a request that came at `moment` leaves the window of a minute. Both times are in microseconds.
pub(crate) fn time_until_expiry(moment: f64, now: f64) -> Duration {
    duration_of_micros(moment + MINUTE_MICROS - now)
}

/// The state of a limit of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenState {
    /// Tokens per minute.
    pub limit: u64,
    /// Tokens that are free now.
    pub remaining: u64,
    /// The time until all tokens of the limit are free again.
    pub reset: Duration,
}

impl TokenState {
    pub(crate) fn new(limit: u64, tat: f64, now: f64) -> Self {
        let (remaining, reset) = Gcra::new(limit).free(tat, now);
        Self { limit, remaining, reset }
    }

    /// The state this long after, when a request has taken so many tokens.
    #[must_use]
    pub fn after(self, elapsed: Duration, tokens: u64) -> Self {
        let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
        let taken = tokens as f64 * MINUTE_MICROS / self.limit.max(1) as f64;
        let reset = micros(self.reset) + taken - micros(elapsed);
        Self::new(self.limit, reset.clamp(0.0, MAX_AHEAD_MICROS), 0.0)
    }
}

/// The limits of a request's subjects. Of a key's and a team's limit this keeps the one with less left, which is what
/// the client should know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitStates {
    /// The limit of requests, if there is one.
    pub requests: Option<RateState>,
    /// The limit of tokens, if there is one.
    pub tokens: Option<TokenState>,
}

impl LimitStates {
    pub(crate) fn add_requests(&mut self, state: RateState) {
        if self.requests.is_none_or(|kept| state.remaining < kept.remaining) {
            self.requests = Some(state);
        }
    }

    pub(crate) fn add_tokens(&mut self, state: TokenState) {
        if self.tokens.is_none_or(|kept| state.remaining < kept.remaining) {
            self.tokens = Some(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requests_tokens_are_taken_and_time_gives_tokens_back() {
        let full = TokenState::new(100, 0.0, 0.0);
        for (elapsed, tokens, remaining, reset) in [
            (0, 0, 100, 0),
            (0, 15, 85, 9_000),
            (3_000, 15, 90, 6_000),
            (60_000, 15, 100, 0),
            (0, 100, 0, 60_000),
            (0, 150, 0, 90_000),
            (0, u64::MAX, 0, 120_000),
        ] {
            let after = full.after(Duration::from_millis(elapsed), tokens);
            assert_eq!((after.remaining, after.reset), (remaining, Duration::from_millis(reset)), "{tokens}");
        }
        let twice = full.after(Duration::ZERO, 15).after(Duration::ZERO, 15);
        assert_eq!(twice.remaining, 70);
    }
}
