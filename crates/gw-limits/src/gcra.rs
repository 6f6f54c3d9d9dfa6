//! The generic cell rate algorithm (GCRA), a rate limiter whose state is one timestamp: the theoretical arrival time
//! (TAT), at which the whole limit is free again.
//!
//! Taking `n` units of a limit of `L` per minute moves the TAT by `n` × 60 s / `L`. It passes if the TAT then lies at
//! most the burst's share of a minute in the future. With a burst of 1 this spaces requests evenly. With a burst of `L`
//! it is a token bucket.
//!
//! Source: ITU-T Recommendation I.371, "virtual scheduling algorithm", looked up on 2026-11-22
//! (<https://docs.rs/ratelimit_meter/latest/ratelimit_meter/algorithms/gcra/struct.GCRA.html>). A unit is one of its
//! cells, 60 s / `L` its increment, and a burst of `b` units its limit of `b - 1` increments. Two things are added: one
//! call may take several units, and [`GcraState::settle`] corrects the TAT by the real usage.
//!
//! `redis/prelude.lua` has the same arithmetic, operation by operation. All times are in microseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A minute in microseconds.
pub(crate) const MINUTE_MICROS: f64 = 60_000_000.0;
/// The error that rounding may add up to. Without this slack the last unit of a limit would sometimes be refused.
pub(crate) const ROUNDING_MICROS: f64 = 1.0;
/// The furthest that a TAT may lie in the future: usage beyond the limit is owed for at most two minutes.
pub(crate) const MAX_AHEAD_MICROS: f64 = 2.0 * MINUTE_MICROS;

/// The parameters of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gcra {
    per_minute: f64,
    /// The units that may pass at once.
    burst: f64,
}

impl Gcra {
    /// A limit that may be used up at once.
    pub(crate) fn new(per_minute: u64) -> Self {
        Self::with_burst(per_minute, per_minute)
    }

    /// A limit of which `burst` units may pass at once.
    pub(crate) fn with_burst(per_minute: u64, burst: u64) -> Self {
        let per_minute = per_minute.max(1);
        Self { per_minute: per_minute as f64, burst: burst.clamp(1, per_minute) as f64 }
    }

    /// The increment of the theoretical arrival time for `units` units.
    fn increment(self, units: f64) -> f64 {
        units * MINUTE_MICROS / self.per_minute
    }

    /// The latest TAT that passes.
    fn latest_tat(self, now: f64) -> f64 {
        now + self.increment(self.burst)
    }

    /// Takes units. Returns the TAT afterwards.
    ///
    /// # Errors
    /// The units are not free. Returns the microseconds until they are.
    fn take(self, tat: f64, now: f64, units: f64) -> Result<f64, f64> {
        let after = effective_tat(tat, now) + self.increment(units);
        let latest = self.latest_tat(now);
        if after <= latest + ROUNDING_MICROS { Ok(after) } else { Err(after - latest) }
    }

    /// Takes `more` units whether or not they are free. A negative `more` returns units.
    fn settle(self, tat: f64, now: f64, more: f64) -> f64 {
        (effective_tat(tat, now) + self.increment(more)).clamp(now, now + MAX_AHEAD_MICROS)
    }

    /// The time until `units` units are free. Zero if they are free now.
    pub(crate) fn wait(self, tat: f64, now: f64, units: u64) -> Duration {
        self.take(tat, now, units as f64).err().map(duration_of_micros).unwrap_or_default()
    }

    /// The units that are free now, and the time until all are.
    pub(crate) fn free(self, tat: f64, now: f64) -> (u64, Duration) {
        let tat = effective_tat(tat, now);
        let free = ((self.latest_tat(now) - tat + ROUNDING_MICROS) / self.increment(1.0)).floor();
        (free.clamp(0.0, self.burst) as u64, duration_of_micros(tat - now))
    }
}

/// The TAT, but not before now. A TAT further ahead than possible is from before the clock went back. The whole limit
/// is free then: otherwise the subject would be refused until the clock reaches that time again.
fn effective_tat(tat: f64, now: f64) -> f64 {
    if tat > now + MAX_AHEAD_MICROS { now } else { tat.max(now) }
}

/// Converts microseconds. A negative number is zero.
pub(crate) fn duration_of_micros(micros: f64) -> Duration {
    Duration::try_from_secs_f64(micros / 1_000_000.0).unwrap_or_default()
}

/// A TAT that threads share without a lock: the bits of a double.
#[derive(Debug, Default)]
pub(crate) struct GcraState(AtomicU64);

impl GcraState {
    /// Takes units. Returns the TAT afterwards.
    ///
    /// # Errors
    /// The units are not free. Returns the unchanged TAT and the time until they are.
    pub(crate) fn take(&self, gcra: Gcra, now: f64, units: u64) -> Result<f64, (f64, Duration)> {
        let mut wait = 0.0;
        let step = |bits| match gcra.take(f64::from_bits(bits), now, units as f64) {
            Ok(tat) => Some(tat.to_bits()),
            Err(micros) => {
                wait = micros;
                None
            }
        };
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, step) {
            // `fetch_update` returns the old value, so the step is computed again.
            Ok(before) => Ok(gcra.take(f64::from_bits(before), now, units as f64).unwrap_or(now)),
            Err(bits) => Err((f64::from_bits(bits), duration_of_micros(wait))),
        }
    }

    /// Replaces the units that were taken by those that were used.
    pub(crate) fn settle(&self, gcra: Gcra, now: f64, taken: u64, used: u64) {
        let more = used as f64 - taken as f64;
        let step = |bits| Some(gcra.settle(f64::from_bits(bits), now, more).to_bits());
        // This cannot fail: the step always returns a value.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
    }

    pub(crate) fn tat(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_whole_limit_passes_at_once_and_no_more() {
        for limit in [1, 3, 7, 60, 100, 999, 10_000] {
            let (state, gcra, now) = (GcraState::default(), Gcra::new(limit), 1.7e9);
            for taken in 1..=limit {
                let tat = state.take(gcra, now, 1).unwrap();
                assert_eq!(gcra.free(tat, now).0, limit - taken, "{limit}");
            }
            let (tat, wait) = state.take(gcra, now, 1).unwrap_err();
            assert_eq!(gcra.free(tat, now).0, 0);
            let even = MINUTE_MICROS / limit as f64;
            assert!((wait.as_secs_f64() * 1e6 - even).abs() < 2.0, "{limit}: {wait:?}");
            state.take(gcra, now + even, 1).unwrap();
            state.take(gcra, now + even, 1).unwrap_err();
        }
    }

    #[test]
    fn a_burst_passes_at_once_and_the_rest_evenly() {
        for (limit, burst) in [(60, 10), (120, 1), (7, 7), (1_000, 999)] {
            let (state, gcra, start) = (GcraState::default(), Gcra::with_burst(limit, burst), 4e9);
            for taken in 1..=burst {
                let tat = state.take(gcra, start, 1).unwrap();
                assert_eq!(gcra.free(tat, start).0, burst - taken, "{limit} {burst}");
            }
            let (_, wait) = state.take(gcra, start, 1).unwrap_err();
            let even = MINUTE_MICROS / limit as f64;
            assert!((wait.as_secs_f64() * 1e6 - even).abs() < 2.0, "{limit} {burst}: {wait:?}");
            let passed =
                (1..6_000).filter(|n| state.take(gcra, start + f64::from(*n) * 1e4, 1).is_ok()).count();
            assert!(passed as u64 <= limit && passed as u64 >= limit - 2, "{passed} of {limit}");
        }
    }

    #[test]
    fn unused_units_come_back_at_once_and_excess_units_are_owed() {
        let (state, gcra, now) = (GcraState::default(), Gcra::new(600), 5e9);
        state.take(gcra, now, 600).unwrap();
        let (_, wait) = state.take(gcra, now, 100).unwrap_err();
        assert!((wait.as_secs_f64() - 10.0).abs() < 0.01, "{wait:?}");
        state.settle(gcra, now, 600, 100);
        assert_eq!(gcra.free(state.tat(), now).0, 500);
        state.settle(gcra, now, 0, 10_000);
        let (free, reset) = gcra.free(state.tat(), now);
        assert_eq!((free, reset), (0, Duration::from_secs(120)), "owed for two minutes at most");
    }

    #[test]
    fn the_whole_limit_is_free_after_the_clock_went_back() {
        let (state, gcra) = (GcraState::default(), Gcra::new(10));
        state.take(gcra, 1e12, 10).unwrap();
        let back = 1e12 - 3600e6;
        assert_eq!(gcra.free(state.tat(), back), (10, Duration::ZERO));
        for _ in 0..10 {
            state.take(gcra, back, 1).unwrap();
        }
        state.take(gcra, back, 1).unwrap_err();
    }

    proptest! {
        #[test]
        fn no_more_passes_than_the_limit_and_the_units_that_came_back(
            limit in 1_u32..500,
            steps in prop::collection::vec((0_u64..2_000_000, 1_u64..20), 1..400),
        ) {
            let (state, gcra) = (GcraState::default(), Gcra::new(limit.into()));
            let (start, mut now, mut admitted) = (1e9, 1e9, 0);
            for (gap, units) in steps {
                now += gap as f64;
                if state.take(gcra, now, units).is_ok() {
                    admitted += units;
                }
                let most = f64::from(limit) * (1.0 + (now - start) / MINUTE_MICROS);
                prop_assert!(admitted as f64 <= most + 0.01, "{admitted} of {most}");
            }
        }

        #[test]
        fn evenly_spaced_requests_within_the_limit_are_never_refused(limit in 1_u32..5000, count in 1_usize..300) {
            let (state, gcra) = (GcraState::default(), Gcra::new(limit.into()));
            for n in 0..count {
                let now = 1e9 + n as f64 * MINUTE_MICROS / f64::from(limit);
                prop_assert!(state.take(gcra, now, 1).is_ok());
            }
        }
    }
}
