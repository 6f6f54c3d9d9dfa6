//! Bounds retries to a share of the requests, so that failures cannot multiply the traffic.

use std::time::Instant;

use parking_lot::Mutex;

/// Retries per request that are always allowed.
const SHARE: f64 = 0.2;
/// Retries per second that are always allowed, so that a gateway with little traffic can retry.
const MIN_RETRIES_PER_SECOND: u32 = 10;
/// The window in seconds over which requests and retries are counted.
const WINDOW_SECONDS: u32 = 10;

/// The process-wide budget of retries. In ten seconds it allows the larger of 20 % of their requests and ten retries a
/// second. The minimum is not added to the share: above 50 requests a second, upstream calls per request never exceed
/// 1.2.
#[derive(Debug)]
pub struct RetryBudget {
    origin: Instant,
    counts: Mutex<Counts>,
}

/// Requests and retries of each of the last ten seconds.
#[derive(Debug, Default)]
struct Counts {
    seconds: [Count; WINDOW_SECONDS as usize],
    /// The latest second, counted from `origin`.
    latest: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    requests: u32,
    retries: u32,
}

impl RetryBudget {
    /// A budget without requests.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { origin: now, counts: Mutex::default() }
    }

    /// Records a client's request, which adds a fifth of a retry.
    pub fn record_request(&self, now: Instant) {
        let second = self.second(now);
        let mut counts = self.counts.lock();
        let count = counts.at(second);
        count.requests = count.requests.saturating_add(1);
    }

    /// Takes one retry if one is left: a repeated or further attempt, a hedge, or a call through an open circuit.
    #[must_use]
    pub fn allow(&self, now: Instant) -> bool {
        let second = self.second(now);
        let mut counts = self.counts.lock();
        counts.at(second);
        let (requests, retries) = counts.seconds.iter().fold((0_u64, 0_u64), |(requests, retries), count| {
            (requests + u64::from(count.requests), retries + u64::from(count.retries))
        });
        // The sum is below 2^53, so the conversion is exact.
        let share = requests as f64 * SHARE;
        let allowed = share.max(f64::from(MIN_RETRIES_PER_SECOND * WINDOW_SECONDS));
        if (retries + 1) as f64 > allowed {
            return false;
        }
        let count = counts.at(second);
        count.retries = count.retries.saturating_add(1);
        true
    }

    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.origin).as_secs()
    }
}

impl Counts {
    /// The count of a second. Clears the seconds that left the window. An earlier moment counts as the latest second.
    fn at(&mut self, second: u64) -> &mut Count {
        let latest = self.latest.max(second);
        for gone in self.latest + 1..=latest.min(self.latest + u64::from(WINDOW_SECONDS)) {
            *self.slot(gone) = Count::default();
        }
        self.latest = latest;
        self.slot(latest)
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder is smaller than the length")]
    fn slot(&mut self, second: u64) -> &mut Count {
        &mut self.seconds[(second % u64::from(WINDOW_SECONDS)) as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Retries when each request fails and is retried up to `tries` times.
    fn storm(budget: &RetryBudget, start: Instant, per_second: u64, seconds: u64, tries: u32) -> u64 {
        let mut retries = 0;
        for request in 0..per_second * seconds {
            let now = start + Duration::from_nanos(request * 1_000_000_000 / per_second);
            budget.record_request(now);
            retries += (0..tries).filter(|_| budget.allow(now)).count() as u64;
        }
        retries
    }

    #[test]
    fn a_minute_of_failures_at_a_hundred_a_second_stays_at_1_2() {
        for tries in [1, 3] {
            let start = Instant::now();
            let retries = storm(&RetryBudget::new(start), start, 100, 60, tries);
            assert!(retries <= 1_200, "{retries} retries of 6,000 requests");
            assert!(retries >= 1_100, "{retries}: the allowed retries are available");
        }
    }

    #[test]
    fn little_traffic_gets_ten_retries_a_second_and_not_more() {
        let start = Instant::now();
        assert_eq!(storm(&RetryBudget::new(start), start, 5, 60, 1), 300, "one for each of five a second");
        let retries = storm(&RetryBudget::new(start), start, 20, 60, 10);
        assert!((590..=600).contains(&retries), "{retries}: ten a second for a minute");
        let retries = storm(&RetryBudget::new(start), start, 1_000, 60, 10);
        assert!((11_500..=12_000).contains(&retries), "{retries} of 60,000");
    }

    #[test]
    fn a_quiet_hour_saves_nothing_up_and_a_burst_is_bounded() {
        let start = Instant::now();
        let budget = RetryBudget::new(start);
        storm(&budget, start, 100, 10, 0);
        let burst = |now| (0..1_000).filter(|_| budget.allow(now)).count();
        let now = start + Duration::from_millis(9_999);
        assert_eq!(burst(now), 200, "a fifth of the last thousand requests");
        assert_eq!(burst(now + Duration::from_secs(5)), 0);
        assert_eq!(burst(now + Duration::from_secs(3_600)), 100, "ten seconds of the minimum");
    }

    #[test]
    fn a_clock_that_goes_back_does_no_harm() {
        let start = Instant::now() + Duration::from_secs(100);
        let budget = RetryBudget::new(start);
        budget.record_request(start + Duration::from_secs(50));
        assert!(budget.allow(start));
        assert!(budget.allow(start.checked_sub(Duration::from_secs(50)).unwrap()));
        assert_eq!((0..1_000).filter(|_| budget.allow(start)).count(), 98);
    }
}
