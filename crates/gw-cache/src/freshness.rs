//! How long an answer is fresh, for which requests, and how long it is kept beyond that.

use std::time::Duration;

/// When an answer was stored, and how long it may be used. Moments are milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// When the answer was stored.
    pub stored_at_ms: u64,
    /// How long it is fresh.
    pub fresh_ms: u64,
    /// How long it is kept after that, to stand in for errors.
    pub stale_ms: u64,
}

/// The use that a request may make of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Use it.
    Fresh,
    /// Use it only in place of an error.
    Stale,
    /// Ignore the stored answer.
    Expired,
}

impl Lifetime {
    /// The lifetime of an answer that is stored now.
    #[must_use]
    pub fn new(now_ms: u64, ttl: Duration, stale: Duration) -> Self {
        Self { stored_at_ms: now_ms, fresh_ms: millis(ttl), stale_ms: millis(stale) }
    }

    /// The age of the answer. An answer from the future, which a clock that went back or another replica's clock can
    /// produce, has age zero.
    #[must_use]
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.stored_at_ms)
    }

    /// The freshness for a request that takes answers up to `max_age` old. An answer is not fresh beyond its own time,
    /// either.
    #[must_use]
    pub fn at(&self, now_ms: u64, max_age: Duration) -> Freshness {
        let age = self.age_ms(now_ms);
        if age <= self.fresh_ms.min(millis(max_age)) {
            Freshness::Fresh
        } else if age <= self.kept_ms() && self.stale_ms > 0 {
            Freshness::Stale
        } else {
            Freshness::Expired
        }
    }

    /// How long the answer is kept in total.
    #[must_use]
    pub fn kept_ms(&self) -> u64 {
        self.fresh_ms.saturating_add(self.stale_ms)
    }
}

/// Converts to whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_answer_older_than_the_requests_max_age_is_a_miss() {
        let lifetime = Lifetime::new(1_000_000, seconds(60), Duration::ZERO);
        for (later_ms, max_age, freshness) in [
            (0, 1, Freshness::Fresh),
            (1000, 1, Freshness::Fresh),
            (1001, 1, Freshness::Expired),
            (60_000, 3600, Freshness::Fresh),
            (60_001, 3600, Freshness::Expired),
            (0, 0, Freshness::Fresh),
            (1, 0, Freshness::Expired),
        ] {
            assert_eq!(
                lifetime.at(1_000_000 + later_ms, seconds(max_age)),
                freshness,
                "{later_ms} {max_age}"
            );
        }
        assert_eq!(lifetime.at(0, seconds(1)), Freshness::Fresh, "the clock went back");
    }

    #[test]
    fn a_stale_answer_is_kept_for_its_window_and_no_longer() {
        let lifetime = Lifetime::new(0, seconds(10), seconds(20));
        assert_eq!(lifetime.at(10_000, seconds(60)), Freshness::Fresh);
        assert_eq!(lifetime.at(10_001, seconds(60)), Freshness::Stale);
        assert_eq!(lifetime.at(5_000, seconds(2)), Freshness::Stale, "too old for this request");
        assert_eq!(lifetime.at(30_000, seconds(60)), Freshness::Stale);
        assert_eq!(lifetime.at(30_001, seconds(60)), Freshness::Expired);
    }
}
