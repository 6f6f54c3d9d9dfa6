//! The clocks of the engine: the moment, the time of day, and durations as the engine writes them.

use std::time::{Duration, Instant};

pub(crate) use gw_wire::calendar::unix_millis;

/// This moment, by the clock that the timers of a call follow. A runtime with a paused clock pauses this one, too.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time since an earlier moment.
pub(crate) fn since(earlier: Instant) -> Duration {
    now().saturating_duration_since(earlier)
}

/// The time of day in unix seconds.
pub(crate) fn unix_seconds() -> u64 {
    gw_wire::calendar::since_1970().as_secs()
}

/// A duration in whole milliseconds, rounded down.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
