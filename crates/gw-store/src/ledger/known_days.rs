//! How far the sums by day reach, as far as this process knows.

use std::sync::atomic::{AtomicI64, Ordering};

/// The seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// The end of the days that are added up (unix seconds), as this process last read it.
#[derive(Debug)]
pub(crate) struct KnownDays(AtomicI64);

impl Default for KnownDays {
    /// Not read yet. The largest value makes the first rows read it.
    fn default() -> Self {
        Self(AtomicI64::new(i64::MAX))
    }
}

impl KnownDays {
    /// Notes where the days end.
    pub(super) fn set(&self, until: i64) {
        self.0.store(until, Ordering::Relaxed);
    }

    /// Whether the day of this hour may be added up already. One day more counts, because another process may have added it since.
    pub(super) fn may_have(&self, hour: i64) -> bool {
        hour < self.0.load(Ordering::Relaxed).saturating_add(DAY)
    }
}
