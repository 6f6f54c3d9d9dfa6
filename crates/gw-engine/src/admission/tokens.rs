//! Tokens per minute: a bucket that fills evenly, from which the worst case is taken and what was not used goes back.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::TokenState;

/// A limit of `per_minute` tokens, all of which may be used at once after a quiet minute.
#[derive(Debug)]
pub(crate) struct TokenRate {
    per_minute: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Tokens that are free, below zero when more was used than was set aside.
    free: f64,
    at: Instant,
}

impl TokenRate {
    pub(crate) fn new(per_minute: u64) -> Self {
        let per_minute = per_minute.max(1);
        Self { per_minute, state: Mutex::new(State { free: per_minute as f64, at: Instant::now() }) }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.per_minute
    }

    /// Takes this many tokens.
    ///
    /// # Errors
    /// They are not there: the time until they are; None when the bucket never holds so many.
    pub(crate) fn take(&self, tokens: u64, now: Instant) -> Result<(), Option<Duration>> {
        if tokens > self.per_minute {
            return Err(None);
        }
        let state = &mut *self.state.lock();
        self.fill(state, now);
        let wanted = tokens as f64;
        if state.free < wanted {
            let seconds = (wanted - state.free) * 60.0 / self.per_minute as f64;
            return Err(Some(Duration::from_secs_f64(seconds.clamp(0.001, 3600.0))));
        }
        state.free -= wanted;
        Ok(())
    }

    /// Puts back what was taken and takes what was used.
    pub(crate) fn settle(&self, taken: u64, used: u64) {
        let state = &mut *self.state.lock();
        state.free = (state.free + taken as f64 - used as f64)
            .clamp(-(self.per_minute as f64), self.per_minute as f64);
    }

    pub(crate) fn state(&self, now: Instant) -> TokenState {
        let state = &mut *self.state.lock();
        self.fill(state, now);
        let missing = self.per_minute as f64 - state.free;
        TokenState {
            limit: self.per_minute,
            remaining: state.free.max(0.0) as u64,
            reset: Duration::from_secs_f64((missing * 60.0 / self.per_minute as f64).clamp(0.0, 3600.0)),
        }
    }

    fn fill(&self, state: &mut State, now: Instant) {
        let passed = now.saturating_duration_since(state.at).as_secs_f64();
        state.free = (state.free + passed * self.per_minute as f64 / 60.0).min(self.per_minute as f64);
        state.at = state.at.max(now);
    }
}
