//! At most so many requests in any minute: when those of the last minute came. `shared/enter.lua` has the same
//! arithmetic, operation by operation.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::rate::{MINUTE, SLACK};

/// Requests of one granule, a tenth of a second of the clock, are one run: they leave together, a minute after the last.
/// A minute has at most 601 runs.
const GRANULE: f64 = 100_000.0;
/// A run that is so far ahead is of a clock that went back since.
const AHEAD: f64 = 1_000_000.0;

/// The last minute of one key or one team.
#[derive(Debug, Default)]
pub(crate) struct Minute(Mutex<Runs>);

#[derive(Debug, Default)]
struct Runs {
    runs: VecDeque<Run>,
    sum: u64,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    /// When its last request came, microseconds.
    last: f64,
    requests: u32,
}

/// How a last minute stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Past {
    /// The requests in it.
    pub(crate) sum: u64,
    /// When the newest came.
    pub(crate) newest: f64,
    /// When the one came that must leave before another one passes; 0 when one passes now.
    pub(crate) oldest: f64,
}

impl Minute {
    /// Takes one, when fewer than `limit` came in the last minute.
    ///
    /// # Errors
    /// It takes nothing.
    pub(crate) fn take(&self, limit: u32, now: f64) -> Result<Past, Past> {
        let minute = &mut *self.0.lock();
        minute.leave(now);
        if minute.sum >= u64::from(limit) {
            return Err(minute.past(minute.before(limit)));
        }
        let newest = minute.runs.back_mut().filter(|run| granule(run.last) >= granule(now));
        if let Some(run) = newest {
            run.last = run.last.max(now);
            run.requests = run.requests.saturating_add(1);
        } else {
            minute.runs.push_back(Run { last: now, requests: 1 });
        }
        minute.sum = minute.sum.saturating_add(1);
        Ok(minute.past(0.0))
    }
}

impl Runs {
    /// Forgets what is older than a minute, or of a clock that went back.
    fn leave(&mut self, now: f64) {
        if self.runs.back().is_some_and(|run| run.last > now + AHEAD) {
            *self = Self::default();
        }
        while let Some(run) = self.runs.front().filter(|run| run.last + MINUTE <= now + SLACK) {
            self.sum = self.sum.saturating_sub(u64::from(run.requests));
            self.runs.pop_front();
        }
    }

    /// When the run came that must leave before another request passes.
    fn before(&self, limit: u32) -> f64 {
        let mut left = self.sum;
        for run in &self.runs {
            left = left.saturating_sub(u64::from(run.requests));
            if left < u64::from(limit) {
                return run.last;
            }
        }
        0.0
    }

    fn past(&self, oldest: f64) -> Past {
        Past { sum: self.sum, newest: self.runs.back().map(|run| run.last).unwrap_or_default(), oldest }
    }
}

fn granule(moment: f64) -> f64 {
    (moment / GRANULE).floor()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// When requests pass that come at these moments.
    fn passed(limit: u32, moments: impl IntoIterator<Item = f64>) -> Vec<f64> {
        let minute = Minute::default();
        moments.into_iter().filter(|now| minute.take(limit, *now).is_ok()).collect()
    }

    #[test]
    fn at_most_the_limit_passes_in_any_minute_and_all_of_it_at_once() {
        for limit in [1, 3, 120, 999] {
            // 200 a second for three minutes.
            let passed = passed(limit, (0..36_000).map(|n| 7e9 + f64::from(n) * 5_000.0));
            assert_eq!(passed.len(), 3 * limit as usize, "{limit}");
            let limit = limit as usize;
            let first: Vec<_> = passed.iter().take(limit).collect();
            assert!(**first.last().unwrap() < 7e9 + 5e6, "a quiet minute leaves all of it");
        }
    }

    #[test]
    fn a_refusal_takes_nothing_and_says_when_one_passes() {
        let (minute, start) = (Minute::default(), 3e9);
        for n in 0..4 {
            let past = minute.take(4, start + f64::from(n) * 1e6).unwrap();
            assert_eq!((past.sum, past.newest), (u64::from(n as u32) + 1, start + f64::from(n) * 1e6));
        }
        let refused = Past { sum: 4, newest: start + 3e6, oldest: start };
        for _ in 0..50 {
            assert_eq!(minute.take(4, start + 59e6).unwrap_err(), refused);
        }
        // Of a limit that is lower now, more of them must leave.
        assert_eq!(minute.take(2, start + 59e6).unwrap_err().oldest, start + 2e6);
        assert_eq!(minute.take(4, start + MINUTE).unwrap().sum, 4);
        assert_eq!(minute.take(4, start + MINUTE).unwrap_err().oldest, start + 1e6);
    }

    #[test]
    fn it_keeps_no_more_than_the_runs_of_a_minute() {
        let minute = Minute::default();
        for n in 0..400_000_u32 {
            let _ = minute.take(u32::MAX, f64::from(n) * 997.0);
            assert!(minute.0.lock().runs.len() <= 601);
        }
        assert!(minute.0.lock().runs.len() > 590);
    }

    #[test]
    fn a_clock_that_went_back_shuts_nobody_out() {
        let minute = Minute::default();
        for _ in 0..5 {
            minute.take(5, 9e12).unwrap();
        }
        // A little is nothing: replicas may hear of a moment in another order.
        assert!(minute.take(5, 9e12 - 900_000.0).is_err());
        for _ in 0..5 {
            minute.take(5, 9e12 - 3_600e6).unwrap();
        }
        assert!(minute.take(5, 9e12 - 3_600e6).is_err());
    }

    proptest! {
        #[test]
        fn any_minute_has_at_most_the_limit(
            limit in 1_u32..300,
            gaps in prop::collection::vec(prop_oneof![0_u32..2_000, 0_u32..300_000, 0_u32..40_000_000], 1..1500),
        ) {
            let mut now = 1e9;
            let moments = gaps.into_iter().map(|gap| { now += f64::from(gap); now });
            let passed = passed(limit, moments);
            for (first, beyond) in passed.iter().zip(passed.iter().skip(limit as usize)) {
                prop_assert!(beyond - first >= MINUTE - SLACK, "{first} {beyond}");
            }
        }

        #[test]
        fn hardly_anybody_within_the_even_rate_is_refused(limit in 1_u32..8000, minutes in 1_u32..6) {
            let count = limit * minutes;
            let even = (0..count).map(|n| 1e9 + f64::from(n) * MINUTE / f64::from(limit));
            let refused = count as usize - passed(limit, even).len();
            prop_assert!(refused <= count as usize / 600, "{refused} of {count}");
        }
    }
}
