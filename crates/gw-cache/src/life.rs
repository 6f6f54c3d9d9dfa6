//! How long an answer is fresh, for whom, and how long it is kept beyond that.

use std::time::Duration;

/// When an answer was stored and until when it may be used. Milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// When it was stored.
    pub stored_at_ms: u64,
    /// How long its writer lets it be fresh.
    pub fresh_ms: u64,
    /// How long it is kept after that, for when no upstream answers.
    pub stale_ms: u64,
}

/// What an answer is to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// To be used.
    Fresh,
    /// Only to be used in place of an error.
    Stale,
    /// Not to be used at all.
    Dead,
}

impl Life {
    /// Of an answer that is stored now.
    #[must_use]
    pub fn new(now_ms: u64, ttl: Duration, stale: Duration) -> Self {
        Self { stored_at_ms: now_ms, fresh_ms: millis(ttl), stale_ms: millis(stale) }
    }

    /// How old it is. A clock that went back, or another replica's that is ahead, makes it new, not ancient.
    #[must_use]
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.stored_at_ms)
    }

    /// For a reader who takes what is at most `max_age` old: fresh only if the writer's time is not over either.
    #[must_use]
    pub fn at(&self, now_ms: u64, max_age: Duration) -> Freshness {
        let age = self.age_ms(now_ms);
        if age <= self.fresh_ms.min(millis(max_age)) {
            Freshness::Fresh
        } else if age <= self.kept_ms() && self.stale_ms > 0 {
            Freshness::Stale
        } else {
            Freshness::Dead
        }
    }

    /// How long it is kept in all, from when it was stored.
    #[must_use]
    pub fn kept_ms(&self) -> u64 {
        self.fresh_ms.saturating_add(self.stale_ms)
    }
}

/// Whole milliseconds.
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
    fn an_entry_older_than_the_readers_ttl_is_a_miss() {
        let life = Life::new(1_000_000, seconds(60), Duration::ZERO);
        for (later_ms, ttl, freshness) in [
            (0, 1, Freshness::Fresh),
            (1000, 1, Freshness::Fresh),
            (1001, 1, Freshness::Dead),
            (60_000, 3600, Freshness::Fresh),
            (60_001, 3600, Freshness::Dead),
            (0, 0, Freshness::Fresh),
            (1, 0, Freshness::Dead),
        ] {
            assert_eq!(life.at(1_000_000 + later_ms, seconds(ttl)), freshness, "{later_ms} {ttl}");
        }
        assert_eq!(life.at(0, seconds(1)), Freshness::Fresh, "the clock went back");
    }

    #[test]
    fn a_stale_answer_is_kept_for_its_window_and_no_longer() {
        let life = Life::new(0, seconds(10), seconds(20));
        assert_eq!(life.at(10_000, seconds(60)), Freshness::Fresh);
        assert_eq!(life.at(10_001, seconds(60)), Freshness::Stale);
        assert_eq!(life.at(5_000, seconds(2)), Freshness::Stale, "too old for this reader");
        assert_eq!(life.at(30_000, seconds(60)), Freshness::Stale);
        assert_eq!(life.at(30_001, seconds(60)), Freshness::Dead);
    }
}
