//! How much failures may add to the traffic: retries are a share of requests, so that a storm cannot feed itself.

use std::time::Instant;

use parking_lot::Mutex;

/// Retries per request that are always allowed.
const SHARE: f64 = 0.2;
/// Retries a second that a gateway with little traffic may make whatever their share.
const FLOOR: u32 = 10;
/// Seconds over which both are counted.
const SECONDS: u32 = 10;

/// The budget of retries, one for the process. What it allows in the last ten seconds is the larger of 20 % of their
/// requests and ten a second; the floor is not added to the share, so with more than 50 requests a second upstream
/// calls per request stay at 1.2 or below whatever happens.
#[derive(Debug)]
pub struct RetryBudget {
    origin: Instant,
    counts: Mutex<Counts>,
}

/// Requests and retries of each of the last ten seconds.
#[derive(Debug, Default)]
struct Counts {
    seconds: [Count; SECONDS as usize],
    /// The latest second, since `origin`.
    latest: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    requests: u32,
    retries: u32,
}

impl RetryBudget {
    /// A budget that has seen nothing.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { origin: now, counts: Mutex::default() }
    }

    /// A client's request has come: it earns a fifth of a retry.
    pub fn request(&self, now: Instant) {
        let second = self.second(now);
        let mut counts = self.counts.lock();
        let count = counts.at(second);
        count.requests = count.requests.saturating_add(1);
    }

    /// Takes one retry (a repeated or further attempt, a hedge, a try at an open circuit) if there is one.
    #[must_use]
    pub fn allow(&self, now: Instant) -> bool {
        let second = self.second(now);
        let mut counts = self.counts.lock();
        counts.at(second);
        let (requests, retries) = counts.seconds.iter().fold((0_u64, 0_u64), |(requests, retries), count| {
            (requests + u64::from(count.requests), retries + u64::from(count.retries))
        });
        // As many seconds' counts as there are; fewer than 2^53, so exact.
        let share = requests as f64 * SHARE;
        let allowed = share.max(f64::from(FLOOR * SECONDS));
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
    /// The count of a second; what is older than the window is forgotten. A moment that lies back counts as the latest.
    fn at(&mut self, second: u64) -> &mut Count {
        let latest = self.latest.max(second);
        for gone in self.latest + 1..=latest.min(self.latest + u64::from(SECONDS)) {
            *self.slot(gone) = Count::default();
        }
        self.latest = latest;
        self.slot(latest)
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder is smaller than the length")]
    fn slot(&mut self, second: u64) -> &mut Count {
        &mut self.seconds[(second % u64::from(SECONDS)) as usize]
    }
}
