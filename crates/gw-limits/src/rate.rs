//! So many a minute: one number, the moment at which all of the limit is free again. `shared/limits.lua` has the same
//! arithmetic, operation by operation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A minute, in microseconds.
pub(crate) const MINUTE: f64 = 60_000_000.0;
/// What rounding may add up to: a microsecond, so that the last of a limit is not lost to the last bit of a double.
pub(crate) const SLACK: f64 = 1.0;

/// A limit of so many a minute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    per_minute: f64,
    /// How many may come at once.
    burst: f64,
}

impl Pace {
    /// All of them may come at once.
    pub(crate) fn new(per_minute: u64) -> Self {
        Self::with_burst(per_minute, per_minute)
    }

    pub(crate) fn with_burst(per_minute: u64, burst: u64) -> Self {
        let per_minute = per_minute.max(1);
        Self { per_minute: per_minute as f64, burst: burst.clamp(1, per_minute) as f64 }
    }

    /// How far so many move `next`.
    fn stretch(self, units: f64) -> f64 {
        units * MINUTE / self.per_minute
    }

    /// How far ahead `next` may be.
    fn furthest(self, now: f64) -> f64 {
        now + self.stretch(self.burst)
    }

    /// Takes so many.
    ///
    /// # Errors
    /// They are not free: the microseconds until they are.
    fn take(self, next: f64, now: f64, units: f64) -> Result<f64, f64> {
        let after = begin(next, now) + self.stretch(units);
        let furthest = self.furthest(now);
        if after <= furthest + SLACK { Ok(after) } else { Err(after - furthest) }
    }

    /// Takes what was used more than was taken before, or gives back what was used less.
    fn settle(self, next: f64, now: f64, more: f64) -> f64 {
        (begin(next, now) + self.stretch(more)).clamp(now, now + 2.0 * MINUTE)
    }

    /// Why `next` leaves no room for so many: the time until it does.
    pub(crate) fn wait(self, next: f64, now: f64, units: u64) -> Duration {
        self.take(next, now, units as f64).err().map(micros).unwrap_or_default()
    }

    /// How many are free, and how long it takes until all are.
    pub(crate) fn free(self, next: f64, now: f64) -> (u64, Duration) {
        let begin = begin(next, now);
        let free = ((self.furthest(now) - begin + SLACK) / self.stretch(1.0)).floor();
        (free.clamp(0.0, self.burst) as u64, micros(begin - now))
    }
}

/// `next`, not before now. Further ahead than it can get, it is of a clock that went back since: then all is free, so
/// that nobody is shut out until the clock is there again.
fn begin(next: f64, now: f64) -> f64 {
    if next > now + 2.0 * MINUTE { now } else { next.max(now) }
}

/// So many microseconds.
pub(crate) fn micros(count: f64) -> Duration {
    Duration::try_from_secs_f64(count / 1_000_000.0).unwrap_or_default()
}

/// The number, shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Rate(AtomicU64);

impl Rate {
    /// Takes so many; `next` afterwards.
    ///
    /// # Errors
    /// They are not free: `next` as it stands, and the time until they are.
    pub(crate) fn take(&self, pace: Pace, now: f64, units: u64) -> Result<f64, (f64, Duration)> {
        let mut wait = 0.0;
        let step = |bits| match pace.take(f64::from_bits(bits), now, units as f64) {
            Ok(next) => Some(next.to_bits()),
            Err(micros) => {
                wait = micros;
                None
            }
        };
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, step) {
            // The same step again, for its result.
            Ok(before) => Ok(pace.take(f64::from_bits(before), now, units as f64).unwrap_or(now)),
            Err(next) => Err((f64::from_bits(next), micros(wait))),
        }
    }

    /// Puts what was used in the place of what was taken.
    pub(crate) fn settle(&self, pace: Pace, now: f64, taken: u64, used: u64) {
        let more = used as f64 - taken as f64;
        let step = |bits| Some(pace.settle(f64::from_bits(bits), now, more).to_bits());
        // It cannot fail: the step always has a result.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
    }

    pub(crate) fn next(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_of_the_limit_passes_and_no_more() {
        for limit in [1, 3, 7, 60, 100, 999, 10_000] {
            let (rate, pace, now) = (Rate::default(), Pace::new(limit), 1.7e9);
            for taken in 1..=limit {
                let next = rate.take(pace, now, 1).unwrap();
                assert_eq!(pace.free(next, now).0, limit - taken, "{limit}");
            }
            let (next, wait) = rate.take(pace, now, 1).unwrap_err();
            assert_eq!(pace.free(next, now).0, 0);
            let even = MINUTE / limit as f64;
            assert!((wait.as_secs_f64() * 1e6 - even).abs() < 2.0, "{limit}: {wait:?}");
            rate.take(pace, now + even, 1).unwrap();
            rate.take(pace, now + even, 1).unwrap_err();
        }
    }

    #[test]
    fn a_burst_passes_at_once_and_the_rest_evenly() {
        for (limit, burst) in [(60, 10), (120, 1), (7, 7), (1_000, 999)] {
            let (rate, pace, start) = (Rate::default(), Pace::with_burst(limit, burst), 4e9);
            for taken in 1..=burst {
                let next = rate.take(pace, start, 1).unwrap();
                assert_eq!(pace.free(next, start).0, burst - taken, "{limit} {burst}");
            }
            let (_, wait) = rate.take(pace, start, 1).unwrap_err();
            let even = MINUTE / limit as f64;
            assert!((wait.as_secs_f64() * 1e6 - even).abs() < 2.0, "{limit} {burst}: {wait:?}");
            let passed =
                (1..6_000).filter(|n| rate.take(pace, start + f64::from(*n) * 1e4, 1).is_ok()).count();
            assert!(passed as u64 <= limit && passed as u64 >= limit - 2, "{passed} of {limit}");
        }
    }

    #[test]
    fn what_was_not_used_comes_back_at_once_and_what_was_used_more_is_owed() {
        let (rate, pace, now) = (Rate::default(), Pace::new(600), 5e9);
        rate.take(pace, now, 600).unwrap();
        let (_, wait) = rate.take(pace, now, 100).unwrap_err();
        assert!((wait.as_secs_f64() - 10.0).abs() < 0.01, "{wait:?}");
        rate.settle(pace, now, 600, 100);
        assert_eq!(pace.free(rate.next(), now).0, 500);
        rate.settle(pace, now, 0, 10_000);
        let (free, reset) = pace.free(rate.next(), now);
        assert_eq!((free, reset), (0, Duration::from_secs(120)), "owed, but for no more than two minutes");
    }

    #[test]
    fn a_clock_that_went_back_shuts_nobody_out() {
        let (rate, pace) = (Rate::default(), Pace::new(10));
        rate.take(pace, 1e12, 10).unwrap();
        let back = 1e12 - 3600e6;
        assert_eq!(pace.free(rate.next(), back), (10, Duration::ZERO));
        for _ in 0..10 {
            rate.take(pace, back, 1).unwrap();
        }
        rate.take(pace, back, 1).unwrap_err();
    }

    proptest! {
        #[test]
        fn never_more_than_the_limit_and_what_came_back(
            limit in 1_u32..500,
            steps in prop::collection::vec((0_u64..2_000_000, 1_u64..20), 1..400),
        ) {
            let (rate, pace) = (Rate::default(), Pace::new(limit.into()));
            let (start, mut now, mut admitted) = (1e9, 1e9, 0);
            for (gap, units) in steps {
                now += gap as f64;
                if rate.take(pace, now, units).is_ok() {
                    admitted += units;
                }
                let most = f64::from(limit) * (1.0 + (now - start) / MINUTE);
                prop_assert!(admitted as f64 <= most + 0.01, "{admitted} of {most}");
            }
        }

        #[test]
        fn nobody_within_the_even_rate_is_refused(limit in 1_u32..5000, count in 1_usize..300) {
            let (rate, pace) = (Rate::default(), Pace::new(limit.into()));
            for n in 0..count {
                let now = 1e9 + n as f64 * MINUTE / f64::from(limit);
                prop_assert!(rate.take(pace, now, 1).is_ok());
            }
        }
    }
}
