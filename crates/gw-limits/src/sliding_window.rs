//! A sliding window: at most so many requests pass in any minute. `redis/window.lua` and `redis/admit.lua` have the same
//! arithmetic, operation by operation.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::gcra::{MINUTE_MICROS, ROUNDING_MICROS};

/// The width of a bucket, in microseconds. Requests of one bucket leave the window together, a minute after the last of
/// them. A window has at most 601 buckets.
const BUCKET_MICROS: f64 = 100_000.0;
/// A bucket further in the future than this proves that the clock went back. The window starts again then. Smaller
/// differences are normal between replicas.
const MAX_AHEAD_MICROS: f64 = 1_000_000.0;

/// The requests of the last minute, of one key or one team.
#[derive(Debug, Default)]
pub(crate) struct SlidingWindow(Mutex<Buckets>);

#[derive(Debug, Default)]
struct Buckets {
    buckets: VecDeque<Bucket>,
    /// The sum over all buckets.
    requests: u64,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The time of its last request, in microseconds.
    last: f64,
    requests: u32,
}

/// The contents of a window. Times are in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WindowState {
    /// The number of requests in the window.
    pub(crate) requests: u64,
    /// The time of the newest request.
    pub(crate) newest: f64,
    /// The time of the request that must leave the window before another request passes. 0 if a request passes now.
    pub(crate) blocked_by: f64,
}

impl SlidingWindow {
    /// Adds a request, if fewer than `limit` requests are in the window. The newest moment of the returned state names its bucket
    /// ([`SlidingWindow::give_back`]).
    ///
    /// # Errors
    /// The window is full. Nothing is added.
    pub(crate) fn take(&self, limit: u32, now: f64) -> Result<WindowState, WindowState> {
        let window = &mut *self.0.lock();
        window.expire(now);
        if window.requests >= u64::from(limit) {
            return Err(window.state(window.blocked_by(limit)));
        }
        let current =
            window.buckets.back_mut().filter(|bucket| bucket_number(bucket.last) >= bucket_number(now));
        if let Some(bucket) = current {
            bucket.last = bucket.last.max(now);
            bucket.requests = bucket.requests.saturating_add(1);
        } else {
            window.buckets.push_back(Bucket { last: now, requests: 1 });
        }
        window.requests = window.requests.saturating_add(1);
        Ok(window.state(0.0))
    }

    /// Takes back a request that was added to the bucket of this moment. A request that has left the window stays as it is: another
    /// request would leave in its place.
    pub(crate) fn give_back(&self, moment: f64) {
        let window = &mut *self.0.lock();
        let number = bucket_number(moment);
        let index = window.buckets.partition_point(|bucket| bucket_number(bucket.last) < number);
        let found = window.buckets.get_mut(index).filter(|bucket| bucket_number(bucket.last) <= number);
        if let Some(bucket) = found.filter(|bucket| bucket.requests > 0) {
            bucket.requests = bucket.requests.saturating_sub(1);
            window.requests = window.requests.saturating_sub(1);
        }
    }

    /// The contents of the window now. Nothing is added.
    pub(crate) fn look(&self, now: f64) -> WindowState {
        let window = &mut *self.0.lock();
        window.expire(now);
        window.state(0.0)
    }
}

impl Buckets {
    /// Removes buckets older than a minute, and everything after the clock went back.
    fn expire(&mut self, now: f64) {
        if self.buckets.back().is_some_and(|bucket| bucket.last > now + MAX_AHEAD_MICROS) {
            *self = Self::default();
        }
        let is_old = |bucket: &&Bucket| bucket.last + MINUTE_MICROS <= now + ROUNDING_MICROS;
        while let Some(bucket) = self.buckets.front().filter(is_old) {
            self.requests = self.requests.saturating_sub(u64::from(bucket.requests));
            self.buckets.pop_front();
        }
    }

    /// The time of the bucket that must leave before another request passes.
    fn blocked_by(&self, limit: u32) -> f64 {
        let mut remaining = self.requests;
        for bucket in &self.buckets {
            remaining = remaining.saturating_sub(u64::from(bucket.requests));
            if remaining < u64::from(limit) {
                return bucket.last;
            }
        }
        0.0
    }

    fn state(&self, blocked_by: f64) -> WindowState {
        let newest = self.buckets.back().map(|bucket| bucket.last).unwrap_or_default();
        WindowState { requests: self.requests, newest, blocked_by }
    }
}

fn bucket_number(moment: f64) -> f64 {
    (moment / BUCKET_MICROS).floor()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The moments at which a request passes, of those at which one comes.
    fn passed(limit: u32, moments: impl IntoIterator<Item = f64>) -> Vec<f64> {
        let window = SlidingWindow::default();
        moments.into_iter().filter(|now| window.take(limit, *now).is_ok()).collect()
    }

    #[test]
    fn the_whole_limit_may_pass_at_once_and_no_more_in_any_minute() {
        for limit in [1, 3, 120, 999] {
            // 200 requests a second for three minutes.
            let passed = passed(limit, (0..36_000).map(|n| 7e9 + f64::from(n) * 5_000.0));
            assert_eq!(passed.len(), 3 * limit as usize, "{limit}");
            let limit = limit as usize;
            let first: Vec<_> = passed.iter().take(limit).collect();
            assert!(**first.last().unwrap() < 7e9 + 5e6, "the whole limit is free after a quiet minute");
        }
    }

    #[test]
    fn a_refusal_adds_nothing_and_says_when_the_next_request_passes() {
        let (window, start) = (SlidingWindow::default(), 3e9);
        for n in 0..4 {
            let state = window.take(4, start + f64::from(n) * 1e6).unwrap();
            assert_eq!((state.requests, state.newest), (u64::from(n as u32) + 1, start + f64::from(n) * 1e6));
        }
        let refused = WindowState { requests: 4, newest: start + 3e6, blocked_by: start };
        for _ in 0..50 {
            assert_eq!(window.take(4, start + 59e6).unwrap_err(), refused);
        }
        // After the limit is lowered, more requests must leave the window.
        assert_eq!(window.take(2, start + 59e6).unwrap_err().blocked_by, start + 2e6);
        assert_eq!(window.take(4, start + MINUTE_MICROS).unwrap().requests, 4);
        assert_eq!(window.take(4, start + MINUTE_MICROS).unwrap_err().blocked_by, start + 1e6);
    }

    #[test]
    fn a_window_keeps_at_most_one_minute_of_buckets() {
        let window = SlidingWindow::default();
        for n in 0..400_000_u32 {
            let _ = window.take(u32::MAX, f64::from(n) * 997.0);
            assert!(window.0.lock().buckets.len() <= 601);
        }
        assert!(window.0.lock().buckets.len() > 590);
    }

    #[test]
    fn the_window_starts_again_after_the_clock_went_back() {
        let window = SlidingWindow::default();
        for _ in 0..5 {
            window.take(5, 9e12).unwrap();
        }
        // A small difference changes nothing: requests of several replicas may arrive out of order.
        assert!(window.take(5, 9e12 - 900_000.0).is_err());
        for _ in 0..5 {
            window.take(5, 9e12 - 3_600e6).unwrap();
        }
        assert!(window.take(5, 9e12 - 3_600e6).is_err());
    }

    #[test]
    fn a_request_leaves_the_bucket_that_it_came_to() {
        let (window, start) = (SlidingWindow::default(), 3e9);
        let older = window.take(5, start).unwrap().newest;
        let newer = window.take(5, start + 5e5).unwrap().newest;
        window.give_back(newer);
        window.give_back(older);
        assert_eq!(window.look(start + 6e5).requests, 0);
        window.give_back(older);
        assert_eq!(window.look(start + 6e5).requests, 0, "an empty bucket stays empty");
        window.take(5, start + MINUTE_MICROS).unwrap();
        window.give_back(older);
        assert_eq!(window.look(start + MINUTE_MICROS).requests, 1, "an expired bucket gives nothing back");
    }

    #[test]
    fn a_request_that_came_out_of_order_leaves_the_bucket_that_counts_it() {
        let (window, start) = (SlidingWindow::default(), 3e9);
        window.take(5, start + 5e5).unwrap();
        let late = window.take(5, start).unwrap().newest;
        window.give_back(late);
        assert_eq!(window.look(start + 6e5).requests, 1);
        assert_eq!(window.look(start + 5e5 + MINUTE_MICROS).requests, 0);
    }

    proptest! {
        /// Compares the window with a list of the requests that were not taken back.
        #[test]
        fn a_window_counts_the_requests_that_are_not_taken_back(
            steps in prop::collection::vec((prop_oneof![0_u32..2_000, 0_u32..300_000, 0_u32..20_000_000], any::<bool>(), 0_usize..9), 1..400),
        ) {
            let (window, mut now, mut kept) = (SlidingWindow::default(), 1e9, Vec::<f64>::new());
            for (gap, takes, which) in steps {
                now += f64::from(gap);
                if takes {
                    kept.extend(window.take(20, now).ok().map(|state| state.newest));
                } else if which < kept.len() {
                    window.give_back(kept.swap_remove(which));
                }
                let seen = window.look(now).requests;
                // A bucket leaves a minute after its last request, so requests leave up to a bucket's width later.
                let after = |limit: f64| kept.iter().filter(|moment| **moment + MINUTE_MICROS > now - limit).count() as u64;
                prop_assert!((after(0.0)..=after(BUCKET_MICROS)).contains(&seen), "{seen} of {kept:?} at {now}");
            }
        }

        #[test]
        fn every_minute_has_at_most_the_limit(
            limit in 1_u32..300,
            gaps in prop::collection::vec(prop_oneof![0_u32..2_000, 0_u32..300_000, 0_u32..40_000_000], 1..1500),
        ) {
            let mut now = 1e9;
            let moments = gaps.into_iter().map(|gap| { now += f64::from(gap); now });
            let passed = passed(limit, moments);
            for (first, beyond) in passed.iter().zip(passed.iter().skip(limit as usize)) {
                prop_assert!(beyond - first >= MINUTE_MICROS - ROUNDING_MICROS, "{first} {beyond}");
            }
        }

        #[test]
        fn evenly_spaced_requests_within_the_limit_are_hardly_ever_refused(limit in 1_u32..8000, minutes in 1_u32..6) {
            let count = limit * minutes;
            let even = (0..count).map(|n| 1e9 + f64::from(n) * MINUTE_MICROS / f64::from(limit));
            let refused = count as usize - passed(limit, even).len();
            prop_assert!(refused <= count as usize / 600, "{refused} of {count}");
        }
    }
}
