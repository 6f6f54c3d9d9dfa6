//! How far the sums by day reach, as far as this process knows.

use std::sync::atomic::{AtomicI64, Ordering};

/// The seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// Where the days end, as far as this process knows.
#[derive(Debug)]
pub(crate) struct KnownDays(AtomicI64);

impl Default for KnownDays {
    /// Nothing is known, so the first rows look.
    fn default() -> Self {
        Self(AtomicI64::new(i64::MAX))
    }
}

impl KnownDays {
    /// Notes where the days end.
    pub(super) fn set(&self, until: i64) {
        self.0.store(until, Ordering::Relaxed);
    }

    /// Whether the sums of an hour may be in a day. Another process may have added the next day meanwhile.
    pub(super) fn may_have(&self, hour: i64) -> bool {
        hour < self.0.load(Ordering::Relaxed).saturating_add(DAY)
    }
}
