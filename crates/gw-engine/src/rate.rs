//! Requests per minute of one key, in process: the generic cell rate algorithm on one atomic.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A limit of `per_minute` requests, all of which may come at once after a quiet minute.
#[derive(Debug)]
pub(crate) struct RequestRate {
    per_minute: u32,
    /// Nanoseconds between two requests at the even rate.
    interval: u64,
    epoch: Instant,
    /// The theoretical arrival time of the next request, in nanoseconds since `epoch`.
    next: AtomicU64,
}

/// What a limit says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateState {
    /// Requests per minute.
    pub limit: u32,
    /// Requests that would pass right now.
    pub remaining: u32,
    /// Until all of them are available again.
    pub reset: Duration,
    /// When refused: until one request would pass.
    pub retry_after: Option<Duration>,
}

const MINUTE: u64 = 60_000_000_000;

impl RequestRate {
    pub(crate) fn new(per_minute: u32) -> Self {
        let per_minute = per_minute.max(1);
        Self {
            per_minute,
            interval: MINUTE / u64::from(per_minute),
            epoch: Instant::now(),
            next: AtomicU64::new(0),
        }
    }

    /// The limit.
    pub(crate) fn per_minute(&self) -> u32 {
        self.per_minute
    }

    /// Counts a request at this moment, or refuses it.
    pub(crate) fn take(&self, at: Instant) -> RateState {
        let now = u64::try_from(at.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX / 2);
        let step = |next: u64| {
            let start = next.max(now);
            (start + self.interval <= now + MINUTE).then_some(start + self.interval)
        };
        match self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, step) {
            Ok(before) => self.state(before.max(now) + self.interval, now, None),
            Err(next) => {
                let wait = (next + self.interval).saturating_sub(now + MINUTE);
                self.state(next, now, Some(Duration::from_nanos(wait)))
            }
        }
    }

    fn state(&self, next: u64, now: u64, retry_after: Option<Duration>) -> RateState {
        let used = next.saturating_sub(now);
        let free = MINUTE.saturating_sub(used) / self.interval.max(1);
        RateState {
            limit: self.per_minute,
            remaining: u32::try_from(free).unwrap_or(u32::MAX).min(self.per_minute),
            reset: Duration::from_nanos(used),
            retry_after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_of_the_limit_passes_and_no_more() {
        let rate = RequestRate::new(3);
        let start = Instant::now();
        let seen: Vec<u32> = (0..3).map(|_| rate.take(start).remaining).collect();
        assert_eq!(seen, [2, 1, 0]);
        let refused = rate.take(start);
        assert!(refused.retry_after.is_some_and(|wait| wait <= Duration::from_secs(20) && !wait.is_zero()));
        assert_eq!(rate.take(start + Duration::from_secs(21)).retry_after, None);
    }

    proptest! {
        #[test]
        fn never_more_than_the_limit_and_one_minute_refill(limit in 1u32..500, gaps in prop::collection::vec(0u64..2_000, 1..400)) {
            let rate = RequestRate::new(limit);
            let mut at = Instant::now();
            let start = at;
            let mut admitted = 0u64;
            for gap in gaps {
                at += Duration::from_millis(gap);
                admitted += u64::from(rate.take(at).retry_after.is_none());
                let minutes = at.duration_since(start).as_secs_f64() / 60.0;
                prop_assert!(admitted as f64 <= f64::from(limit) * (1.0 + minutes) + 1.0);
            }
        }
    }
}
