//! The clocks of the engine: the moment, the time of day, and durations as the engine writes them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// This moment, by the clock that the timers of a call follow. A runtime with a paused clock pauses this one, too.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time since an earlier moment.
pub(crate) fn since(earlier: Instant) -> Duration {
    now().saturating_duration_since(earlier)
}

/// The time of day in unix milliseconds. A clock before 1970 counts as 1970.
pub(crate) fn unix_millis() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// The time of day in unix seconds.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A duration in whole milliseconds, rounded down.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
